//! The owners that the space of a file is charged to: owner, group and project, read from its
//! attributes.

use crate::fs::Filesystem;
use dmu::{Accounting, Block, Owner};
use ondisk::sa::{SaHeader, SaTables, SaValue, first, zpl};
use ondisk::znode::{Znode, flags};
use ondisk::{DmuType, Dnode};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The tables of attributes of a file system, as they are at any time.
type Tables = Arc<RwLock<Option<Arc<SaTables>>>>;

/// Finds the owners of the objects of one file system.
///
/// The object set needs it before the file system can be opened: it is made first and given the
/// file system as soon as there is one ([`FileOwners::attach`]). Until then nothing but a format
/// can have changed the set, and its one file, the root directory, belongs to the owner it was made
/// with ([`FileOwners::begin_with`]).
pub struct FileOwners {
    tables: RwLock<Option<Tables>>,
    /// Attributes are taken from where every file system has them.
    is_by_position: AtomicBool,
    /// User and group of the root directory, for as long as there are no tables.
    first: RwLock<(u64, u64)>,
    projects: bool,
    objects: bool,
}

impl FileOwners {
    /// With or without the features `project_quota` and `userobj_accounting`.
    #[must_use]
    pub fn new(projects: bool, objects: bool) -> Self {
        Self {
            tables: RwLock::default(),
            is_by_position: AtomicBool::new(false),
            first: RwLock::default(),
            projects,
            objects,
        }
    }

    /// The set is being formatted, with a root directory of this user and group.
    pub fn begin_with(&self, uid: u64, gid: u64) {
        *self.first.write() = (uid, gid);
    }

    /// Takes the tables of attributes of `fs`, as they are at any time from now on.
    pub fn attach(&self, fs: &Filesystem) {
        *self.tables.write() = Some(fs.shared_tables());
    }

    /// The set is being received: files may come before the tables of their attributes. All
    /// programs that make files put these attributes first, and in one order.
    pub fn receive(&self) {
        self.is_by_position.store(true, Ordering::Relaxed);
    }

    fn at_positions(&self, dnode: &Dnode) -> Option<Owner> {
        let header = SaHeader::decode(&dnode.bonus).ok()?;
        let word = |at: usize| header.word(&dnode.bonus, at);
        let has_project = self.projects && word(first::FLAGS)? & flags::PROJID != 0;
        let project = if has_project { word(first::PROJID)? } else { 0 };
        let project = self.projects.then_some(project);
        Some(Owner { uid: word(first::UID)?, gid: word(first::GID)?, project })
    }

    fn tables(&self) -> Option<Arc<SaTables>> {
        let tables = self.tables.read().clone();
        tables?.read().clone()
    }

    fn of_attributes(&self, dnode: &Dnode, spill: Option<&Block>) -> Option<Owner> {
        let Some(tables) = self.tables() else {
            let (uid, gid) = *self.first.read();
            return Some(Owner { uid, gid, project: self.projects.then_some(0) });
        };
        let mut values = tables.split(&dnode.bonus).ok()?;
        let find = |values: &[SaValue], name: &str| -> Option<u64> {
            let number = tables.attr(name)?.number;
            values.iter().find(|v| v.number == number).and_then(SaValue::u64)
        };
        let mut project = None;
        if self.projects {
            let has = find(&values, zpl::FLAGS).is_some_and(|f| f & flags::PROJID != 0);
            if has && find(&values, zpl::PROJID).is_none() {
                values.extend(spill.and_then(|b| tables.split(b.bytes()).ok()).unwrap_or_default());
            }
            // Files without a project count for project 0.
            project = Some(find(&values, zpl::PROJID).filter(|_| has).unwrap_or(0));
        }
        Some(Owner { uid: find(&values, zpl::UID)?, gid: find(&values, zpl::GID)?, project })
    }
}

impl Accounting for FileOwners {
    fn owner(&self, dnode: &Dnode, spill: Option<&Block>) -> Option<Owner> {
        match dnode.bonus_kind {
            DmuType::SA if self.is_by_position.load(Ordering::Relaxed) => self.at_positions(dnode),
            DmuType::SA => self.of_attributes(dnode, spill),
            DmuType::ZNODE => {
                let z = Znode::decode(&dnode.bonus, dnode.endian).ok()?;
                let project = self.projects.then_some(0);
                Some(Owner { uid: z.uid, gid: z.gid, project })
            }
            _ => None,
        }
    }

    fn projects(&self) -> bool {
        self.projects
    }

    fn objects(&self) -> bool {
        self.objects
    }
}

impl Filesystem {
    /// The accounting of this file system, for a set that is opened again.
    #[must_use]
    pub fn owners(&self, objects: bool) -> FileOwners {
        let owners = FileOwners::new(self.counts_projects(), objects);
        owners.attach(self);
        owners
    }
}
