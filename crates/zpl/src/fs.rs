//! A file system: its master node, and what it says about everything in it.

use crate::error::{Error, Result};
use crate::node::Node;
use dmu::{Objset, Zap};
use ondisk::ObjsetKind;
use ondisk::fuid::{self, FuidTable};
use ondisk::sa::SaTables;
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_MAX, ZPL_VERSION_SA, master};
use std::sync::Arc;

/// How names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// `a` and `A` are two names.
    Sensitive,
    /// They are one.
    Insensitive,
    /// Both, as the caller asks.
    Mixed,
}

/// A file system, open for reading. Cheap to clone.
#[derive(Clone)]
pub struct Filesystem {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) objset: Objset,
    pub(crate) version: u64,
    pub(crate) sa: Option<SaTables>,
    root: u64,
    case: CaseSensitivity,
    normalization: u64,
    utf8_only: bool,
    fuids: FuidTable,
}

impl Filesystem {
    /// Opens the file system in `objset`.
    pub fn open(objset: Objset) -> Result<Self> {
        if objset.phys().kind != ObjsetKind::Zfs {
            return Err(Error::WrongKind { wanted: "file system" });
        }
        let master = Zap::open(&objset.object(MASTER_NODE)?)?;
        let version = master.need_u64(master::VERSION)?;
        if version == 0 || version > ZPL_VERSION_MAX {
            return Err(Error::Version(version));
        }
        let case = match master.get_u64(master::CASESENSITIVITY)? {
            Some(1) => CaseSensitivity::Insensitive,
            Some(2) => CaseSensitivity::Mixed,
            _ => CaseSensitivity::Sensitive,
        };
        let sa = match master.get_u64("SA_ATTRS")? {
            Some(object) if version >= ZPL_VERSION_SA => Some(sa_tables(&objset, object)?),
            _ => None,
        };
        let inner = Inner {
            version,
            sa,
            root: master.need_u64(master::ROOT)?,
            case,
            normalization: master.get_u64(master::NORMALIZATION)?.unwrap_or(0),
            utf8_only: master.get_u64(master::UTF8ONLY)?.unwrap_or(0) != 0,
            fuids: fuid_table(&objset, &master)?,
            objset,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The object set.
    #[must_use]
    pub fn objset(&self) -> &Objset {
        &self.inner.objset
    }

    /// Version of the file system, 1 to 5.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.inner.version
    }

    /// How names are looked up.
    #[must_use]
    pub fn case_sensitivity(&self) -> CaseSensitivity {
        self.inner.case
    }

    /// Normal form of names: `NORM_*` of [`ondisk::zap`], 0 for none.
    #[must_use]
    pub fn normalization(&self) -> u64 {
        self.inner.normalization
    }

    /// Only UTF-8 names are allowed.
    #[must_use]
    pub fn utf8_only(&self) -> bool {
        self.inner.utf8_only
    }

    /// Domains of owners that came from elsewhere.
    #[must_use]
    pub fn fuids(&self) -> &FuidTable {
        &self.inner.fuids
    }

    /// Object of the root directory.
    #[must_use]
    pub fn root_object(&self) -> u64 {
        self.inner.root
    }

    /// The root directory.
    pub fn root(&self) -> Result<Node> {
        self.node(self.inner.root)
    }

    /// A file by its object.
    pub fn node(&self, object: u64) -> Result<Node> {
        Node::open(self, object)
    }

    /// Objects of files that were unlinked while open, and have no name any more.
    pub fn unlinked(&self) -> Result<Vec<u64>> {
        let Some(number) = self.master()?.get_u64(master::DELETE_QUEUE)? else {
            return Ok(Vec::new());
        };
        let set = Zap::open(&self.inner.objset.object(number)?)?.to_vec()?;
        // The value is the object; the key is the same number in hexadecimal.
        Ok(set.iter().filter_map(ondisk::zap::Entry::u64).collect())
    }

    /// The master node.
    pub fn master(&self) -> Result<Zap> {
        Ok(Zap::open(&self.inner.objset.object(MASTER_NODE)?)?)
    }
}

/// Reads attribute registry and layouts.
fn sa_tables(objset: &Objset, object: u64) -> Result<SaTables> {
    let table = Zap::open(&objset.object(object)?)?;
    let registry = Zap::open(&objset.object(table.need_u64("REGISTRY")?)?)?.to_vec()?;
    let layouts = match table.get_u64("LAYOUTS")? {
        Some(o) => Zap::open(&objset.object(o)?)?.to_vec()?,
        None => Vec::new(),
    };
    let registry = registry.iter().filter_map(|e| Some((e.name.bytes()?, e.u64()?)));
    let layouts = layouts.iter().filter_map(|e| Some((e.name.bytes()?, e.ints())));
    SaTables::new(registry, layouts).map_err(|error| Error::Format { object, error })
}

fn fuid_table(objset: &Objset, master: &Zap) -> Result<FuidTable> {
    /// Domain tables have a few entries of some hundred bytes.
    const FUIDS_MAX: u64 = 16 << 20;
    let Some(number) = master.get_u64(fuid::MASTER_NODE_ENTRY)?.filter(|n| *n != 0) else {
        return Ok(FuidTable::default());
    };
    let format = |error| Error::Format { object: number, error };
    let object = objset.object(number)?;
    let size = FuidTable::packed_size(&object.dnode().bonus, object.dnode().endian);
    let size = size.map_err(format)?;
    if size > FUIDS_MAX.min(object.size_of_blocks()) {
        let kind = dmu::ErrorKind::Tree("the domain table is larger than its object");
        return Err(object.error(kind).into());
    }
    let mut packed = vec![0; size as usize];
    object.read_at(0, &mut packed)?;
    FuidTable::decode(&packed).map_err(format)
}
