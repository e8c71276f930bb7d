//! Opening sets to be changed.

use super::recount::complete_flags;
use crate::error::{Error, ErrorKind, Result};
use crate::objset::Objset;
use crate::refusal::{InvalidChange, Unsupported};
use crate::shape::is_tree;
use crate::store::Key;
use crate::versions::set::{Base, DNODE_BLOCK_SIZE, LiveSet, OBJECTS_MAX, SLOTS_PER_BLOCK};
use crate::versions::spec::{LiveSpec, SetKey};
use ondisk::dnode::MAX_LEVELS;
use ondisk::objset::{OBJSET_SIZE_V1, ObjsetKind};
use ondisk::{BlkPtr, DmuType, Dnode, Endian, ObjsetPhys};
use std::sync::Arc;

impl Objset {
    /// Opens a set to be changed, or makes a new one.
    ///
    /// # Errors
    /// When the header cannot be read, and for what cannot be written: a set of
    /// another byte order, one that was encrypted before OpenZFS 0.8, one whose dnode blocks are
    /// not of 16 KiB.
    pub fn live(spec: LiveSpec) -> Result<Self> {
        open(spec)
    }
}

fn open(spec: LiveSpec) -> Result<Objset> {
    let refuse = |kind| Err(Error { objset: spec.id, object: 0, kind });
    let key = match &spec.key {
        SetKey::Loaded(key) => Some(Key::clone(key)),
        SetKey::None | SetKey::Locked | SetKey::Sealed(_) => None,
    };
    let (root, mut phys) = match spec.root {
        Some(root) if !root.is_hole() => {
            if root.uses_crypt() == matches!(spec.key, SetKey::None) {
                let rule = "a dataset and its object set differ in whether they are encrypted";
                return refuse(ErrorKind::Tree(rule));
            }
            let set = Objset::open(Arc::clone(&spec.store), spec.id, &root, key.clone())?;
            (root, ObjsetPhys::clone(&set.phys()))
        }
        _ => (BlkPtr::HOLE, new_header(&spec)),
    };
    if key.as_ref().is_some_and(|key| key.version() == 0) {
        return refuse(ErrorKind::Unsupported(Unsupported::OldEncryption));
    }
    if let SetKey::Sealed(sealed) = &spec.key {
        let done = sealed.put_into(&mut phys);
        done.map_err(|rule| Error { objset: spec.id, object: 0, kind: ErrorKind::Invalid(rule) })?;
        if phys.meta_dnode.as_ref().is_some_and(|meta| !is_tree(meta)) {
            return refuse(ErrorKind::Invalid(InvalidChange::DnodeTree));
        }
    }
    let meta = phys
        .meta_dnode
        .get_or_insert_with(|| new_meta(spec.kind, spec.policy.indirect_shift))
        .clone();
    if meta.endian != Endian::Little {
        return refuse(ErrorKind::Unsupported(Unsupported::ByteOrder));
    }
    if meta.block_size() != DNODE_BLOCK_SIZE {
        return refuse(ErrorKind::Unsupported(Unsupported::DnodeBlockSize));
    }
    let base = Base { root, phys: Arc::new(phys) };
    let mut live = LiveSet::over(spec.id, base, meta, spec.policy);
    live.transactions = spec.transactions;
    live.accounting = spec.accounting;
    live.key = spec.key;
    Ok(Objset::of_live(spec.store, spec.id, key, Arc::new(live)))
}

fn new_header(spec: &LiveSpec) -> ObjsetPhys {
    let mut phys = ObjsetPhys::new(spec.kind, spec.header_size);
    if let Some(accounting) = spec.accounting.as_ref().filter(|_| spec.header_size > OBJSET_SIZE_V1)
    {
        phys.flags |= complete_flags(&**accounting, spec.header_size);
    }
    phys
}

/// The meta dnode of an empty set.
pub(super) fn new_meta(kind: ObjsetKind, indirect_shift: u8) -> Dnode {
    let mut meta = Dnode::new(DmuType::DNODE, 1, 3, indirect_shift);
    meta.data_sectors = (DNODE_BLOCK_SIZE / 512) as u16;
    // OpenZFS counts on the array of dnodes never growing a level, but in the MOS.
    if kind != ObjsetKind::Meta {
        let fanout = u32::from(meta.indirect_shift) - 7;
        let reach =
            |levels: u8| (3 * u128::from(SLOTS_PER_BLOCK)) << (fanout * u32::from(levels - 1));
        while reach(meta.levels) < u128::from(OBJECTS_MAX) && meta.levels < MAX_LEVELS {
            meta.levels += 1;
        }
    }
    meta
}
