//! Quotas of users, groups and projects: set, and kept to.
//!
//! The space of an owner is counted when a txg is synced. So an owner below a limit may exceed it
//! by what goes into the txgs in progress, and one that has reached it can neither write nor make
//! files, until something of its own was freed and that is durable. That is OpenZFS's rule too.
//!
//! Where the header of the set says that not all is counted, as after a raw receive, no limit is
//! kept until it is.
//!
//! The limits are read from their tables once, and again after one was set. Where there are none,
//! nothing is looked up for a change.

use super::attrs::Attrs;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::node::Node;
use crate::refusal::{InvalidRequest, Unsupported};
use crate::space::{OBJECT_PREFIX, SpaceKind};
use crate::state::limits::{KnownLimits, Limits};
use dmu::zap::{self, ZapSpec};
use dmu::{ErrorKind, Tx, Zap};
use ondisk::DmuType;
use ondisk::fuid::Fuid;
use ondisk::objset::FLAG_USEROBJACCOUNTING_COMPLETE;
use ondisk::sa::zpl;
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_USERSPACE, flags};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// Bytes.
    Space,
    /// Objects: files, directories and links.
    Objects,
}

impl QuotaKind {
    const ALL: [Self; 2] = [Self::Space, Self::Objects];
}

impl Limits {
    fn of(&self, kind: SpaceKind, what: QuotaKind) -> &BTreeMap<u64, u64> {
        &self.0[kind.index()][what as usize]
    }

    fn are_none(&self) -> bool {
        self.0.iter().flatten().all(BTreeMap::is_empty)
    }
}

/// What a project may have: each limit with what is left of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProjectRoom {
    /// Bytes; `None`: there is no limit.
    pub bytes: Option<(u64, u64)>,
    /// Objects.
    pub objects: Option<(u64, u64)>,
}

/// The project of files that were given none: it has no limits.
const NO_PROJECT: u64 = 0;

impl Filesystem {
    /// Sets a limit for a user, group or project, in bytes or objects; 0 takes it away.
    ///
    /// # Errors
    /// Object sets that do not count for projects have no limits for them, and file systems from
    /// before version 4 have none at all; no space.
    pub fn set_quota(&self, kind: SpaceKind, what: QuotaKind, id: u64, limit: u64) -> Result<()> {
        if kind == SpaceKind::Project && !self.counts_projects() {
            return Err(Error::refused(Unsupported::ProjectLimits));
        }
        if self.version() < ZPL_VERSION_USERSPACE {
            return Err(Error::refused(Unsupported::LimitsOfOldFilesystem));
        }
        self.check_owner(id)?;
        let done = self.with_small_tx(|tx| self.set_quota_tx(tx, (kind, what), id, limit));
        // Also after an error: what is in the tables then is read again.
        let mut known = self.inner.state.limits.lock();
        *known = KnownLimits { changes: known.changes + 1, limits: None };
        drop(known);
        done
    }

    /// Owners are 32-bit numbers (the largest means "no owner" on all systems), or belong to one of
    /// the file system's domains. OpenZFS could not read a file with any other.
    pub(super) fn check_owner(&self, id: u64) -> Result<()> {
        let owner = Fuid(id);
        match owner.domain() {
            0 if owner.id() == u32::MAX => Err(Error::refused(InvalidRequest::OwnerNumber)),
            0 => Ok(()),
            domain if self.fuids().domains.contains_key(&domain) => Ok(()),
            _ => Err(Error::refused(InvalidRequest::LargeOwner)),
        }
    }

    fn set_quota_tx(
        &self,
        tx: &Tx,
        (kind, what): (SpaceKind, QuotaKind),
        id: u64,
        limit: u64,
    ) -> Result<()> {
        let name = kind.quotas()[what as usize];
        let _lock = self.inner.state.layouts.exclusive(LIMITS);
        let master = self.master()?;
        let key = format!("{id:x}");
        let table = match master.get_u64(name)?.filter(|number| *number != 0) {
            Some(number) => self.objset().object(number)?,
            None if limit == 0 => return Ok(()),
            None => {
                let spec = ZapSpec::new(DmuType::USERGROUP_QUOTA);
                let table = zap::create(self.objset(), tx, &spec)?;
                zap::set_u64(&self.objset().object(MASTER_NODE)?, tx, name, table.number())?;
                table
            }
        };
        match (limit, Zap::open(&table)?.get_u64(&key)?) {
            (0, None) => {}
            (0, Some(_)) => drop(zap::remove(&table, tx, key.as_bytes())?),
            (limit, _) => zap::set_u64(&table, tx, key.as_str(), limit)?,
        }
        Ok(())
    }

    fn limits(&self) -> Result<Arc<Limits>> {
        let changes = {
            let known = self.inner.state.limits.lock();
            if let Some(limits) = &known.limits {
                return Ok(Arc::clone(limits));
            }
            known.changes
        };
        let mut limits = Limits::default();
        let master = self.master()?;
        for kind in SpaceKind::ALL {
            for what in QuotaKind::ALL {
                let name = kind.quotas()[what as usize];
                let Some(number) = master.get_u64(name)?.filter(|n| *n != 0) else { continue };
                for entry in Zap::open(&self.objset().object(number)?)?.to_vec()? {
                    let id = entry.name.bytes().and_then(|key| std::str::from_utf8(key).ok());
                    let id = id.and_then(|text| u64::from_str_radix(text, 16).ok());
                    let limit = entry.u64().filter(|limit| *limit != 0);
                    limits.0[kind.index()][what as usize].extend(id.zip(limit));
                }
            }
        }
        let limits = Arc::new(limits);
        let mut known = self.inner.state.limits.lock();
        if known.changes == changes {
            known.limits = Some(Arc::clone(&limits));
        }
        Ok(limits)
    }

    /// Refuses to write to a file whose owner, group or project has reached its limit.
    pub(super) fn check_space_of(&self, file: &Attrs) -> Result<()> {
        self.check_limits(file, &[QuotaKind::Space], |_| true)
    }

    /// Refuses a new file of an owner that has reached a limit.
    pub(super) fn check_create(&self, file: &Attrs) -> Result<()> {
        self.check_limits(file, &QuotaKind::ALL, |_| true)
    }

    /// Refuses to give a file to an owner that has reached a limit and had it not `before`.
    pub(super) fn check_given(&self, file: &Attrs, before: &Attrs) -> Result<()> {
        let before = owners_of(before);
        self.check_limits(file, &QuotaKind::ALL, |owner| !before.contains(owner))
    }

    fn check_limits(
        &self,
        file: &Attrs,
        all: &[QuotaKind],
        counts: impl Fn(&(SpaceKind, u64)) -> bool,
    ) -> Result<()> {
        if file.replays() {
            return Ok(());
        }
        let limits = self.limits()?;
        if limits.are_none() {
            return Ok(());
        }
        let is_limited = |owner: &(SpaceKind, u64)| *owner != (SpaceKind::Project, NO_PROJECT);
        for (kind, id) in owners_of(file).into_iter().filter(|o| is_limited(o) && counts(o)) {
            for what in all {
                let Some(limit) = limits.of(kind, *what).get(&id) else { continue };
                if self.used_by(kind, *what, id)? >= *limit {
                    return Err(file.object().error(ErrorKind::Quota).into());
                }
            }
        }
        Ok(())
    }

    /// The limits of the project that is given to what is made in a directory: `statfs` shows a
    /// directory as large as these allow.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn project_room(&self, dir: &Node) -> Result<ProjectRoom> {
        if dir.flags & flags::PROJINHERIT == 0 || dir.project == NO_PROJECT {
            return Ok(ProjectRoom::default());
        }
        let limits = self.limits()?;
        let left = |what| -> Result<Option<(u64, u64)>> {
            let limit = limits.of(SpaceKind::Project, what).get(&dir.project);
            let Some(limit) = limit else { return Ok(None) };
            let used = self.used_by(SpaceKind::Project, what, dir.project)?;
            Ok(Some((*limit, limit.saturating_sub(used))))
        };
        Ok(ProjectRoom { bytes: left(QuotaKind::Space)?, objects: left(QuotaKind::Objects)? })
    }

    /// Whether the table has all of it.
    fn has_counted(&self, kind: SpaceKind, what: QuotaKind) -> bool {
        let mut needed = kind.complete_flags();
        if what == QuotaKind::Objects {
            needed |= FLAG_USEROBJACCOUNTING_COMPLETE;
        }
        self.objset().phys().flags & needed == needed
    }

    /// The space of an owner, as of the last txg that was counted.
    fn used_by(&self, kind: SpaceKind, what: QuotaKind, id: u64) -> Result<u64> {
        if !self.has_counted(kind, what) {
            return Ok(0);
        }
        let [user, group, project] = self.objset().accounting_objects();
        let table = match kind {
            SpaceKind::User => user,
            SpaceKind::Group => group,
            SpaceKind::Project => project,
        };
        let Some(table) = table else { return Ok(0) };
        // A table that no owner was counted in yet has no block.
        if table.next_block(0).map_err(|(e, _)| e)?.is_none() {
            return Ok(0);
        }
        let prefix = match what {
            QuotaKind::Space => "",
            QuotaKind::Objects => OBJECT_PREFIX,
        };
        Ok(Zap::open(&table)?.get_u64(&format!("{prefix}{id:x}"))?.unwrap_or(0))
    }
}

/// The owners that a file counts for.
fn owners_of(file: &Attrs) -> [(SpaceKind, u64); 3] {
    [
        (SpaceKind::User, file.get(zpl::UID)),
        (SpaceKind::Group, file.get(zpl::GID)),
        (SpaceKind::Project, file.project()),
    ]
}

/// The key of the lock of the tables of limits, beside that of the tables of attributes.
const LIMITS: u64 = 1;
