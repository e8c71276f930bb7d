//! Attributes: mode, owner, times, flags, project.

use super::attrs::Attrs;
use super::undo::Undo;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::node::Node;
use dmu::{Tx, Zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags, mode};

/// Flags that the ioctls of Linux can set.
const SETTABLE: u64 = flags::IMMUTABLE
    | flags::APPENDONLY
    | flags::NODUMP
    | flags::PROJINHERIT
    | flags::READONLY
    | flags::HIDDEN
    | flags::SYSTEM
    | flags::ARCHIVE
    | flags::NOUNLINK
    | flags::OPAQUE
    | flags::REPARSE
    | flags::OFFLINE
    | flags::SPARSE;

/// Hints of an access list that a change of the mode keeps.
const KEPT_HINTS: u64 = flags::ACL_AUTO_INHERIT | flags::ACL_DEFAULTED | flags::ACL_PROTECTED;

/// A day in seconds: how long `relatime` lets an access time stand.
const DAY: i64 = 24 * 60 * 60;

/// Attributes to be set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttrs {
    /// Permissions with set-id and sticky bits. The access list becomes the one that says the
    /// same.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u64>,
    /// Group.
    pub gid: Option<u64>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of the content.
    pub mtime: Option<Time>,
    /// Last change of the attributes; the time of this change without it.
    pub ctime: Option<Time>,
    /// Creation.
    pub crtime: Option<Time>,
    /// `flags::*` of [`ondisk::znode`] that applications may set, and only those.
    pub flags: Option<u64>,
    /// Project; only of files and directories, where projects are counted.
    pub project: Option<u64>,
}

impl Filesystem {
    /// Sets attributes of a file.
    ///
    /// # Errors
    /// `NotFound`; a project where there are none.
    pub fn set_attrs(&self, file: u64, set: &SetAttrs, now: Time) -> Result<()> {
        self.with_small_tx(|tx| self.set_attrs_tx(tx, file, set, now))
    }

    /// [`Self::set_attrs`] within a transaction.
    pub fn set_attrs_tx(&self, tx: &Tx, file: u64, set: &SetAttrs, now: Time) -> Result<()> {
        self.check_writable()?;
        let _lock = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load(self, file)?;
        let mut undo = Undo::new(self, tx);
        undo.attrs(&attrs);
        if set.project.is_some() {
            let has = matches!(attrs.kind(), mode::FILE | mode::DIR) && self.counts_projects();
            if !has {
                return Err(Error::Invalid("the file cannot have a project"));
            }
        }
        if let Some(m) = set.mode {
            attrs.set(zpl::MODE, attrs.kind() | (u64::from(m) & mode::PERMISSIONS));
            let kept = attrs.get(zpl::FLAGS) & KEPT_HINTS;
            attrs.set_trivial_acl(kept);
        }
        let times = [(zpl::ATIME, set.atime), (zpl::MTIME, set.mtime), (zpl::CRTIME, set.crtime)];
        for (name, time) in times.into_iter().filter_map(|(n, t)| Some((n, t?))) {
            attrs.set_time(name, time);
        }
        // A read that is noted is no change.
        let reading = SetAttrs { atime: set.atime, ..SetAttrs::default() };
        if *set != reading {
            attrs.state_changed(set.ctime.unwrap_or(now));
        }
        if let Some(wanted) = set.flags {
            let kept = attrs.get(zpl::FLAGS) & !SETTABLE;
            attrs.set(zpl::FLAGS, kept | (wanted & SETTABLE));
        }
        set.give(&mut attrs);
        let mut all = vec![attrs];
        for object in self.given_with(&all[0], set)? {
            let mut file = Attrs::load(self, object)?;
            undo.attrs(&file);
            set.give(&mut file);
            all.push(file);
        }
        undo.end(all.into_iter().try_for_each(|file| file.save(self, tx)))
    }

    /// Extended attributes kept as files belong to whom the file does.
    fn given_with(&self, file: &Attrs, set: &SetAttrs) -> Result<Vec<u64>> {
        let dir = file.get(zpl::XATTR);
        if dir == 0 || (set.uid, set.gid, set.project) == (None, None, None) {
            return Ok(Vec::new());
        }
        let mut out = vec![dir];
        for entry in Zap::open(&self.dir_object(dir)?)?.to_vec()? {
            out.extend(entry.ints().next().map(|v| Dirent::decode(v).object));
        }
        Ok(out)
    }

    /// Notes that a file was read, by what the settings say of access times; true when something
    /// was written.
    ///
    /// # Errors
    /// `NotFound`; no space.
    pub fn touch_atime(&self, file: &Node, now: Time) -> Result<bool> {
        let settings = self.settings();
        if !settings.atime || self.check_writable().is_err() || file.atime >= now {
            return Ok(false);
        }
        let stale = file.atime <= file.mtime
            || file.atime <= file.ctime
            || now.seconds.saturating_sub(file.atime.seconds) >= DAY;
        if settings.relatime && !stale {
            return Ok(false);
        }
        let set = SetAttrs { atime: Some(now), ..SetAttrs::default() };
        self.set_attrs(file.number(), &set, now)?;
        Ok(true)
    }
}

impl SetAttrs {
    /// Sets owner, group and project.
    fn give(&self, file: &mut Attrs) {
        if let Some(uid) = self.uid {
            file.set(zpl::UID, uid);
        }
        if let Some(gid) = self.gid {
            file.set(zpl::GID, gid);
        }
        if let Some(project) = self.project {
            file.set(zpl::PROJID, project);
            file.set_flag(flags::PROJID, true);
        }
    }
}
