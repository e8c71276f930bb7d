//! Attributes: mode, owner, times, flags, project.

use super::attrs::Attrs;
use super::undo::Undo;
use super::{HOLD_NAMES, check_flags};
use crate::acl::mode_of;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::node::Node;
use crate::op::{AccessList, Op, SetAttrs};
use crate::refusal::InvalidRequest;
use dmu::{Hold, Tx, Zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags, mode};

/// Hints of an access list that a change of the mode keeps.
const KEPT_HINTS: u64 = flags::ACL_AUTO_INHERIT | flags::ACL_DEFAULTED | flags::ACL_PROTECTED;

/// A day in seconds: how long `relatime` leaves an access time unchanged.
const DAY: i64 = 24 * 60 * 60;

impl Filesystem {
    pub(super) fn set_attrs_now(
        &self,
        tx: &Tx,
        file: u64,
        set: &SetAttrs,
        now: Time,
    ) -> Result<()> {
        self.set_attrs_noted(tx, file, set, now, true)
    }

    /// The same; whether it is noted for the intent log.
    fn set_attrs_noted(
        &self,
        tx: &Tx,
        file: u64,
        set: &SetAttrs,
        now: Time,
        noted: bool,
    ) -> Result<()> {
        let _content = set.size.map(|_| self.inner.state.content.exclusive(file));
        if let Some(size) = set.size {
            self.grow_block(tx, file, size)?;
        }
        let _lock = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load(self, file)?;
        let had = attrs.external_acl();
        let mut undo = Undo::new(self, tx);
        undo.attrs(&attrs);
        set.uid.into_iter().chain(set.gid).try_for_each(|id| self.check_owner(id))?;
        if set.project.is_some() {
            let has = matches!(attrs.kind(), mode::FILE | mode::DIR) && self.counts_projects();
            if !has || (attrs.is_old_form() && !self.replays()) {
                return Err(Error::refused(InvalidRequest::NoProject));
            }
        }
        if let Some(size) = set.size {
            attrs = self.resized(tx, file, size)?;
        }
        if let Some(m) = set.mode {
            attrs.set(zpl::MODE, attrs.kind() | (u64::from(m) & mode::PERMISSIONS));
            let kept = attrs.get(zpl::FLAGS) & KEPT_HINTS;
            attrs.set_trivial_acl(kept)?;
        }
        // A read that is noted is not a change.
        let reading = SetAttrs { atime: set.atime, ..SetAttrs::default() };
        if *set != reading {
            attrs.state_changed(set.ctime.unwrap_or(now));
        }
        let before = attrs.clone();
        set.put(&mut attrs);
        if let Err(e) = self.check_given(&attrs, &before) {
            return undo.end(Err(e));
        }
        let mut all = vec![attrs];
        for object in self.given_with(&all[0], set)? {
            let mut file = Attrs::load(self, object)?;
            undo.attrs(&file);
            set.give(&mut file);
            all.push(file);
        }
        // With a size a record has a time of the content too.
        let mtime = set.mtime.or_else(|| set.size.map(|_| all[0].time(zpl::MTIME)));
        let lists = (had, all[0].external_acl());
        undo.end(all.into_iter().try_for_each(|file| file.save(self, tx)))?;
        self.free_list(tx, lists)?;
        if noted {
            let set = SetAttrs { mtime, ..*set };
            self.note(tx, &Op::SetAttrs { file, set }, &[], &[]);
        }
        Ok(())
    }

    /// Extended attributes kept as files have the same owner as the file.
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

    pub(super) fn set_acl_now(
        &self,
        tx: &Tx,
        file: u64,
        acl: &AccessList,
        now: Time,
    ) -> Result<()> {
        let _lock = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load(self, file)?;
        check_flags(&attrs, flags::IMMUTABLE)?;
        let mut undo = Undo::new(self, tx);
        undo.attrs(&attrs);
        let had = attrs.external_acl();
        acl.give(&mut attrs)?;
        attrs.state_changed(now);
        let lists = (had, attrs.external_acl());
        undo.end(attrs.save(self, tx))?;
        self.free_list(tx, lists)?;
        self.note(tx, &Op::SetAcl { file, acl: acl.clone() }, &[], &[]);
        Ok(())
    }

    /// Frees the object that an access list of before version 5 had, when the file has another list
    /// by now.
    fn free_list(&self, tx: &Tx, (had, has): (u64, u64)) -> Result<()> {
        match had {
            0 => Ok(()),
            _ if had == has => Ok(()),
            _ => Ok(self.objset().free(tx, had)?),
        }
    }

    /// Records that a file was read, according to the settings of access times; true when something
    /// was written.
    ///
    /// # Errors
    /// `NotFound`; it would have to wait, for space or for the devices of a suspended pool.
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
        // A reader does not wait for writers, nor for the devices of a suspended pool.
        let tx = self.begin(Hold::optional(HOLD_NAMES))?;
        // A read is not promised.
        self.set_attrs_noted(&tx, file.number(), &set, now, false)?;
        Ok(true)
    }
}

impl SetAttrs {
    /// Sets the independent attributes of one file: all but its size, its mode and the time of its
    /// change.
    pub(super) fn put(&self, file: &mut Attrs) {
        let times =
            [(zpl::ATIME, self.atime), (zpl::MTIME, self.mtime), (zpl::CRTIME, self.crtime)];
        for (name, time) in times.into_iter().filter_map(|(n, t)| Some((n, t?))) {
            file.set_time(name, time);
        }
        if self.flags.which != 0 {
            let kept = file.get(zpl::FLAGS) & !self.flags.which;
            file.set(zpl::FLAGS, kept | (self.flags.value & self.flags.which));
        }
        if let Some(stamp) = &self.scan_stamp {
            file.set_stamp(stamp);
        }
        self.give(file);
    }

    /// Sets owner, group and project.
    fn give(&self, file: &mut Attrs) {
        if let Some(uid) = self.uid {
            file.set(zpl::UID, uid);
        }
        if let Some(gid) = self.gid {
            file.set(zpl::GID, gid);
        }
        // Before system attributes there were no projects.
        if let Some(project) = self.project.filter(|_| !file.is_old_form()) {
            file.set(zpl::PROJID, project);
            file.set_flag(flags::PROJID, true);
        }
    }
}

impl AccessList {
    /// Gives the list to a file, and the mode that corresponds to it.
    pub(super) fn give(&self, file: &mut Attrs) -> Result<()> {
        let (uid, gid) = (file.get(zpl::UID), file.get(zpl::GID));
        file.set(zpl::MODE, mode_of(&self.entries, file.mode(), uid, gid));
        file.set_acl(&self.entries, self.hints & KEPT_HINTS)
    }
}
