//! A file system: its master node, and what it says about everything in it.

use crate::error::{Error, Result};
use crate::state::State;
use dmu::{Objset, Zap};
use ondisk::ObjsetKind;
use ondisk::fuid::{self, FuidTable};
use ondisk::sa::{SaTables, zpl};
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_MAX, ZPL_VERSION_SA, flags, master};
use parking_lot::RwLock;
use rt::Rt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

impl CaseSensitivity {
    /// From the entry of the master node, if there is one.
    pub(crate) fn from_word(word: Option<u64>) -> Self {
        match word {
            Some(1) => Self::Insensitive,
            Some(2) => Self::Mixed,
            _ => Self::Sensitive,
        }
    }
}

/// A file system; one over a live object set can be changed (see [`crate::write`]). Cheap to
/// clone; all clones share their locks, so a file system is opened once to be changed.
#[derive(Clone)]
pub struct Filesystem {
    pub(crate) inner: Arc<Inner>,
    /// The object set with other transactions, for a handle that gives up.
    hasty: Option<Objset>,
    /// Whether a handle changes what is open for reading only.
    writable: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

pub(crate) struct Inner {
    pub(crate) objset: Objset,
    version: AtomicU64,
    sa: Arc<RwLock<Option<Arc<SaTables>>>>,
    pub(crate) state: State,
    root: u64,
    /// Files have projects.
    projects: bool,
    /// Changes repeat earlier ones: a log is replayed.
    replays: bool,
    case: CaseSensitivity,
    normalization: u64,
    utf8_only: bool,
    fuids: FuidTable,
    reading: Reading,
}

/// How the attributes of files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All of them, or not at all.
    Whole,
    /// Without what is lost of them.
    Salvage,
    /// The same, and the tables of the file system are not whole.
    Guess,
}

/// What a file system is opened with: the master node, and what it leads to.
pub(crate) struct Tables {
    pub(crate) version: u64,
    pub(crate) sa: Option<Arc<SaTables>>,
    pub(crate) root: u64,
    pub(crate) case: CaseSensitivity,
    pub(crate) normalization: u64,
    pub(crate) utf8_only: bool,
    pub(crate) fuids: FuidTable,
}

impl Filesystem {
    /// Opens the file system in `objset`.
    pub fn open(objset: Objset) -> Result<Self> {
        Self::open_for(objset, false)
    }

    /// Opens it to repeat what a log says: see [`Self::replays`].
    pub(crate) fn open_to_replay(objset: Objset) -> Result<Self> {
        Self::open_for(objset, true)
    }

    fn open_for(objset: Objset, replays: bool) -> Result<Self> {
        if objset.phys().kind != ObjsetKind::Zfs {
            return Err(Error::WrongKind { wanted: "file system" });
        }
        let master = Zap::open(&objset.object(MASTER_NODE)?)?;
        let version = master.need_u64(master::VERSION)?;
        if version == 0 || version > ZPL_VERSION_MAX {
            return Err(Error::Version(version));
        }
        let case = CaseSensitivity::from_word(master.get_u64(master::CASESENSITIVITY)?);
        let sa = match master.get_u64("SA_ATTRS")? {
            Some(object) if version >= ZPL_VERSION_SA => {
                Some(Arc::new(sa_tables(&objset, object)?))
            }
            _ => None,
        };
        let root = master.need_u64(master::ROOT)?;
        let tables = Tables {
            version,
            sa,
            root,
            case,
            normalization: master.get_u64(master::NORMALIZATION)?.unwrap_or(0),
            utf8_only: master.get_u64(master::UTF8ONLY)?.unwrap_or(0) != 0,
            fuids: fuid_table(&objset, master.get_u64(fuid::MASTER_NODE_ENTRY)?)?,
        };
        Ok(Self::with_tables(objset, tables, replays, Reading::Whole))
    }

    /// The file system with these tables.
    pub(crate) fn with_tables(
        objset: Objset,
        tables: Tables,
        replays: bool,
        reading: Reading,
    ) -> Self {
        let Tables { version, sa, root, case, normalization, utf8_only, fuids } = tables;
        // A set that was never synced has no accounting yet; then the root directory tells.
        let projects = sa.as_ref().is_some_and(|tables| {
            objset.phys().project_used.is_some()
                || (objset.is_live() && has_project(tables, &objset, root))
        });
        let inner = Inner {
            version: AtomicU64::new(version),
            projects,
            replays,
            sa: Arc::new(RwLock::new(sa)),
            state: State::new(&objset.store().rt()),
            root,
            case,
            normalization,
            utf8_only,
            fuids,
            reading,
            objset,
        };
        Self::of(Arc::new(inner))
    }

    /// The tables of attributes; `None` before version 5.
    pub(crate) fn sa_tables(&self) -> Option<Arc<SaTables>> {
        self.inner.sa.read().clone()
    }

    /// The tables as they will be at any time.
    pub(crate) fn shared_tables(&self) -> Arc<RwLock<Option<Arc<SaTables>>>> {
        Arc::clone(&self.inner.sa)
    }

    /// For a file system that was just opened: how its files are read.
    pub(crate) fn read_as(&mut self, reading: Reading) {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.reading = reading;
        }
    }

    /// How the attributes of files are read.
    pub(crate) fn reading(&self) -> Reading {
        self.inner.reading
    }

    /// For a file system that was just opened: this is its root directory.
    pub(crate) fn set_root(&mut self, root: u64) {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.root = root;
        }
    }

    /// For a file system that is being made and not shared yet.
    pub(crate) fn set_projects(&mut self, projects: bool) {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.projects = projects;
        }
    }

    pub(crate) fn set_sa_tables(&self, tables: Arc<SaTables>) {
        *self.inner.sa.write() = Some(tables);
    }

    /// Changes are repeated from a log. They were allowed when they were made, so flags, projects
    /// and most rules for names do not speak against them; and when they were made is only known
    /// roughly, so no time goes back.
    pub(crate) fn replays(&self) -> bool {
        self.inner.replays
    }

    /// New files have projects.
    pub(crate) fn counts_projects(&self) -> bool {
        self.inner.projects
    }

    /// Normalisation of the names in its directories, case included.
    pub(crate) fn norm_flags(&self) -> u64 {
        let case = match self.inner.case {
            CaseSensitivity::Sensitive => 0,
            _ => ondisk::zap::NORM_TOUPPER,
        };
        self.inner.normalization | case
    }

    /// The runtime that its blocks are waited for with.
    #[must_use]
    pub fn rt(&self) -> Rt {
        self.inner.objset.store().rt()
    }

    /// The object set.
    #[must_use]
    pub fn objset(&self) -> &Objset {
        self.hasty.as_ref().unwrap_or(&self.inner.objset)
    }

    pub(crate) fn of(inner: Arc<Inner>) -> Self {
        Self { inner, hasty: None, writable: None }
    }

    /// The same file system for one that gives up: what it changes is refused where it would have
    /// to wait for devices that fail. A change that was made, and is to be durable at once, waits.
    #[must_use]
    pub fn unless_suspended(&self) -> Self {
        let hasty = Some(self.inner.objset.unless_suspended());
        Self { hasty, ..self.clone() }
    }

    /// The same file system for one that may change it as long as this is so, although its settings
    /// say that it is read-only.
    #[must_use]
    pub fn writable_while(&self, is_so: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { writable: Some(Arc::new(is_so)), ..self.clone() }
    }

    /// It may be changed through this handle although its settings say that it is read-only.
    pub(crate) fn is_writable_anyway(&self) -> bool {
        self.writable.as_ref().is_some_and(|is_writable| is_writable())
    }

    /// It is open to be changed, and shows what was changed before that is durable.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.inner.objset.is_live()
    }

    /// Version of the file system, 1 to 5.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.inner.version.load(Ordering::Acquire)
    }

    /// From now on it is of this version.
    pub(crate) fn set_version(&self, version: u64) {
        self.inner.version.store(version, Ordering::Release);
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

    /// Keeps others from changing the attributes and entries of a file while it is looked at.
    pub(crate) fn look(&self, object: u64) -> Option<crate::state::locks::Guard<'_>> {
        let live = self.inner.objset.is_live();
        live.then(|| self.inner.state.attrs.shared(object))
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

fn has_project(tables: &SaTables, objset: &Objset, object: u64) -> bool {
    let Ok(object) = objset.object(object) else { return false };
    let values = tables.split(&object.dnode().bonus).unwrap_or_default();
    let number = tables.attr(zpl::FLAGS).map(|info| info.number);
    let word = values.iter().find(|v| Some(v.number) == number).and_then(|v| v.u64());
    word.is_some_and(|w| w & flags::PROJID != 0)
}

/// Reads attribute registry and layouts.
pub(crate) fn sa_tables(objset: &Objset, object: u64) -> Result<SaTables> {
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

/// Reads the table of domains in this object, if there is one.
pub(crate) fn fuid_table(objset: &Objset, number: Option<u64>) -> Result<FuidTable> {
    /// Domain tables have a few entries of some hundred bytes.
    const FUIDS_MAX: u64 = 16 << 20;
    let Some(number) = number.filter(|n| *n != 0) else {
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
