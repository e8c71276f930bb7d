//! The inputs of live sets, and their callbacks.

use super::policy::SetPolicy;
use crate::refusal::InvalidChange;
use crate::store::{BlockStore, Key};
use crate::tx::Transactions;
use ondisk::objset::{FLAG_USERACCOUNTING_COMPLETE, ObjsetKind};
use ondisk::{BlkPtr, Checksum, Compression, DmuType, Dnode, ObjsetPhys};
use std::sync::Arc;
use zio::profile::Profiler;
use zio::{Block, Place, Protection, WriteSpec};

/// The parameters of [`crate::Objset::live`].
pub struct LiveSpec {
    /// Where blocks are read from. It must not remember blocks of a txg that is not durable: their
    /// space may be written again with the same birth ([`crate::CachedStore::set_settled`]).
    pub store: Arc<dyn BlockStore>,
    /// Number of the dataset's object in the MOS; 0 for the MOS.
    pub id: u64,
    /// Pointer to the header block; `None` or a hole makes a new set.
    pub root: Option<BlkPtr>,
    /// The kind of a new set.
    pub kind: ObjsetKind,
    /// Size of a new set's header: [`ondisk::objset::OBJSET_SIZE_V1`] and the two others.
    pub header_size: usize,
    /// Where transactions come from; `None` for the MOS, which is changed in syncing context.
    pub transactions: Option<Arc<dyn Transactions>>,
    /// How blocks are written.
    pub policy: SetPolicy,
    /// Counts space by owner; `None`: not counted.
    pub accounting: Option<Arc<dyn Accounting>>,
    /// How the dataset is protected, if it has no root block that records it: a root block that is
    /// encrypted needs the key, or the set is [`SetKey::Locked`].
    pub key: SetKey,
}

/// The key of an object set.
#[derive(Clone, Debug, Default)]
pub enum SetKey {
    /// The dataset is not encrypted.
    #[default]
    None,
    /// It is encrypted with this one.
    Loaded(Key),
    /// It is encrypted, and the key is not there: nothing but the header of its intent log can be
    /// changed.
    Locked,
    /// It is encrypted, and is received as it was encrypted elsewhere: no key is needed
    /// (`sealed.rs`).
    Sealed(Box<SealedSet>),
}

/// The parameters of a set that is received sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSet {
    /// The dnode of all dnodes, as far as it is not a tree.
    pub meta: Dnode,
    /// The authentication code of its header.
    pub portable_mac: [u8; 32],
}

impl SealedSet {
    /// Whether the dnode of all dnodes that a set has is the root of such a tree.
    #[must_use]
    pub fn is_of_form(&self, old: &Dnode) -> bool {
        let meta = &self.meta;
        (old.levels, old.indirect_shift, old.data_sectors, old.blkptrs.len())
            == (meta.levels, meta.indirect_shift, meta.data_sectors, meta.blkptrs.len())
    }

    /// Puts it into a header: of an empty set, or of the one that it continues.
    pub(crate) fn put_into(&self, phys: &mut ObjsetPhys) -> std::result::Result<(), InvalidChange> {
        let mut meta = self.meta.clone();
        if let Some(old) = &phys.meta_dnode {
            if !self.is_of_form(old) {
                return Err(InvalidChange::DnodeTreeForm);
            }
            let max_block = meta.max_block.max(old.max_block);
            meta = old.clone();
            meta.max_block = max_block;
            (meta.checksum, meta.compression) = (self.meta.checksum, self.meta.compression);
        }
        phys.meta_dnode = Some(meta);
        phys.portable_mac = self.portable_mac;
        phys.local_mac = [0; 32];
        phys.flags &= !FLAG_USERACCOUNTING_COMPLETE;
        Ok(())
    }
}

impl SetKey {
    /// How its blocks are written.
    pub(crate) fn protection(&self) -> Protection<'_> {
        match self {
            Self::None => Protection::None,
            Self::Loaded(key) => Protection::Key(key),
            Self::Locked => Protection::Locked,
            Self::Sealed(_) => Protection::Sealed,
        }
    }
}

/// The users that the space of an object is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// User, as in the key of the accounting table (with the domain's number in the high half).
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Project, where projects are counted.
    pub project: Option<u64>,
}

/// Finds the owner of objects: the attributes above this floor know.
pub trait Accounting: Send + Sync {
    /// Owner of the object with this dnode and spill block; `None`: it counts for no owner.
    fn owner(&self, dnode: &Dnode, spill: Option<&Block>) -> Option<Owner>;

    /// Projects are counted too (feature `project_quota`).
    fn projects(&self) -> bool;

    /// Objects are counted beside bytes (feature `userobj_accounting`).
    fn objects(&self) -> bool;
}

/// The owner of the blocks of a set. Called by several threads at once during a sync.
pub trait BlockOwner: Send + Sync {
    /// `bp` is now in the tree.
    fn born(&self, bp: &BlkPtr);

    /// `bp` is in the tree no more. Its birth says whether an older txg wrote it; one that was
    /// born in the txg being synced is in no other tree.
    fn kill(&self, bp: &BlkPtr);

    /// Space that `bp` takes as accounting counts it: the allocated size of all copies, on RAID-Z
    /// deflated.
    fn dsize(&self, bp: &BlkPtr) -> u64;
}

/// Writes blocks: what a sync needs of [`zio`]'s writer.
pub trait BlockWriter: Send + Sync {
    /// Makes the pointer of `data`; the device's part may come later. A block of zeros may become
    /// a hole.
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, place: Place) -> zio::Result<BlkPtr>;

    /// A block that was written and may not be on its device yet.
    fn read_pending(&self, bp: &BlkPtr) -> Option<Arc<Block>>;

    /// Where the threads of a sync are counted; `None`: nowhere.
    fn profiler(&self) -> Option<&Profiler> {
        None
    }
}

impl BlockWriter for zio::Writer {
    fn write(&self, data: &Arc<Block>, spec: &WriteSpec<'_>, place: Place) -> zio::Result<BlkPtr> {
        Self::write(self, data, spec, place)
    }

    fn read_pending(&self, bp: &BlkPtr) -> Option<Arc<Block>> {
        Self::read_pending(self, bp)
    }

    fn profiler(&self) -> Option<&Profiler> {
        Some(Self::profiler(self))
    }
}

/// One sync of one object set.
#[derive(Clone, Copy)]
pub struct SyncContext<'a> {
    /// Threads that work, the caller included; 0: as many as can run.
    pub workers: usize,
    /// Writes the blocks.
    pub writer: &'a dyn BlockWriter,
    /// Notified of every pointer that changes.
    pub owner: &'a dyn BlockOwner,
    /// The txg.
    pub txg: u64,
    /// Blocks are kept in memory until the writer releases them: the MOS, synced in passes.
    pub hold: bool,
}

/// An object to be made. `NewObject::new(kind)` fills in what is usual.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// Its number; `None`: the next that is free.
    pub number: Option<u64>,
    /// Type of its data.
    pub kind: DmuType,
    /// Bytes of a data block, a multiple of 512 up to 16 MiB.
    pub block_size: u32,
    /// log2 of the size of an indirect block; `None`: the set's policy.
    pub indirect_shift: Option<u8>,
    /// Type of the bonus.
    pub bonus_kind: DmuType,
    /// The bonus.
    pub bonus: Vec<u8>,
    /// Slots of 512 bytes of the dnode, 1 to 32; `None`: the set's policy.
    pub slots: Option<u8>,
    /// Checksum of its blocks; INHERIT: the set's.
    pub checksum: Checksum,
    /// Compression of its blocks; INHERIT: the set's.
    pub compression: Compression,
}

impl NewObject {
    /// An object of blocks of 512 bytes without a bonus.
    #[must_use]
    pub fn new(kind: DmuType) -> Self {
        Self {
            number: None,
            kind,
            block_size: 512,
            indirect_shift: None,
            bonus_kind: DmuType::NONE,
            bonus: Vec::new(),
            slots: None,
            checksum: Checksum::INHERIT,
            compression: Compression::INHERIT,
        }
    }

    /// With blocks of `bytes`.
    #[must_use]
    pub fn block_size(mut self, bytes: u32) -> Self {
        self.block_size = bytes;
        self
    }

    /// With this bonus.
    #[must_use]
    pub fn bonus(mut self, kind: DmuType, bytes: &[u8]) -> Self {
        self.bonus_kind = kind;
        self.bonus = bytes.to_vec();
        self
    }

    /// With this number.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }
}

/// Attributes of an object that [`crate::Object::set_dnode`] may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnodeAttrs {
    /// Type of the data.
    pub kind: DmuType,
    /// Checksum of new blocks.
    pub checksum: Checksum,
    /// Compression of new blocks.
    pub compression: Compression,
    /// log2 of the size of indirect blocks; changed only while the object has no indirect block.
    pub indirect_shift: u8,
}

/// `bytes` as a number of sectors; the error names the rule it breaks.
pub(crate) fn sectors(bytes: u32) -> std::result::Result<u16, InvalidChange> {
    match bytes {
        512..=0x100_0000 if bytes.is_multiple_of(512) => Ok((bytes / 512) as u16),
        _ => Err(InvalidChange::BlockSize),
    }
}
