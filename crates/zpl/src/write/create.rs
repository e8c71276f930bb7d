//! New files, and new names of files.

use super::attrs::Attrs;
use super::check_flags;
use super::names::Count;
use super::undo::{Undo, taken_back};
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Create, Identity, NameInDir, NewFile, NewKind, Op, Outcome};
use crate::refusal::InvalidRequest;
use dmu::{NewObject, Object, Tx, zap};
use ondisk::DmuType;
use ondisk::blkptr::SECTOR_SIZE;
use ondisk::sa::zpl;
use ondisk::znode::{Time, ZNODE_SIZE, ZPL_VERSION_SA, device_word, flags, mode};

/// Most links to one file.
const LINKS_MAX: u64 = i32::MAX as u64;

/// Whose child a new file is.
pub(super) enum Parent<'a> {
    /// It has none: it is the root directory.
    None,
    /// The directory's.
    Dir(&'a Attrs),
    /// It is the directory of this file's extended attributes.
    Xattrs(&'a Attrs),
}

impl Filesystem {
    pub(super) fn create_now(&self, tx: &Tx, c: &Create<'_>, now: Time) -> Result<Outcome> {
        let _lock = self.inner.state.attrs.exclusive(c.at.dir);
        self.check_new_name(c.at.name)?;
        c.new.kind.check()?;
        let mut parent = self.load_dir(c.at.dir)?;
        if self.find_at(parent.object(), &c.at)?.is_some() {
            // Logs have records of files that were opened to be made.
            let opens = !matches!(c.new.kind, NewKind::Dir | NewKind::Symlink(_));
            return match self.replays() && opens {
                true => Ok(Outcome::Done),
                false => Err(Error::Exists(c.at.shown())),
            };
        }
        let names = self.dir_object(c.at.dir)?;
        let gid = if parent.mode() & 0o2000 != 0 { parent.get(zpl::GID) } else { c.new.gid };
        let number = self.make_with(tx, &c.new, c.identity, &Parent::Dir(&parent), |file| {
            c.set.put(file);
            c.acl.as_ref().map_or(Ok(()), |acl| acl.give(file))
        })?;
        let is_dir = c.new.kind == NewKind::Dir;
        let entered = self.enter(tx, &names, c.at.name, number, c.new.kind.mode_type());
        let done = entered.and_then(|()| {
            self.count_entries(&mut parent, Count::added(is_dir), now);
            parent.save(self, tx)
        });
        if let Err(e) = done {
            // A file without a name would stay for ever, and one that its directory does not count
            // would make that look empty.
            let left = self.leave(tx, c.at.dir, c.at.name, number);
            return self.unmake(tx, number, taken_back(tx, e, left));
        }
        self.note_create(tx, c, number, gid);
        Ok(Outcome::Made(number))
    }

    /// Makes the directory of a file's extended attributes.
    pub(super) fn create_xattr_dir(
        &self,
        tx: &Tx,
        file: u64,
        new: &NewFile,
        identity: Option<Identity>,
    ) -> Result<Outcome> {
        let _lock = self.inner.state.attrs.exclusive(file);
        let mut owner = Attrs::load(self, file)?;
        if owner.get(zpl::XATTR) != 0 || new.kind != NewKind::Dir {
            return Err(Error::refused(InvalidRequest::SecondXattrDirectory));
        }
        let number = self.make_with(tx, new, identity, &Parent::Xattrs(&owner), |_| Ok(()))?;
        let mut undo = Undo::new(self, tx);
        undo.attrs(&owner);
        undo.record_created(number);
        owner.set(zpl::XATTR, number);
        undo.end(owner.save(self, tx))?;
        Ok(Outcome::Made(number))
    }

    /// Takes the name of `number` away that was entered just now, if it was.
    pub(super) fn leave(&self, tx: &Tx, dir: u64, name: &[u8], number: u64) -> Result<()> {
        let names = self.dir_object(dir)?;
        match self.find(&names, name)? {
            Some(entry) if entry.object == number => {
                zap::remove(&names, tx, entry.name.as_slice())?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Frees what was made just now, because of `error`.
    pub(super) fn unmake<T>(&self, tx: &Tx, number: u64, error: Error) -> Result<T> {
        let freed = self.objset().free(tx, number).map_err(Error::from);
        Err(taken_back(tx, error, freed))
    }

    /// Makes the object of a file and gives it its attributes. When that fails, there is none.
    pub(super) fn make(&self, tx: &Tx, new: &NewFile, parent: &Parent<'_>) -> Result<u64> {
        self.make_with(tx, new, None, parent, |_| Ok(()))
    }

    /// [`Self::make`] of a certain object, and with more than the attributes of every new file.
    pub(super) fn make_with(
        &self,
        tx: &Tx,
        new: &NewFile,
        identity: Option<Identity>,
        parent: &Parent<'_>,
        more: impl FnOnce(&mut Attrs) -> Result<()>,
    ) -> Result<u64> {
        // An object that belongs to a file gets the owner of the file, whatever that is.
        if !matches!(parent, Parent::Xattrs(_)) {
            [new.uid, new.gid].into_iter().try_for_each(|id| self.check_owner(id))?;
        }
        let object = self.make_object(tx, &new.kind, identity)?;
        let number = object.number();
        let given =
            self.give_attributes(tx, &object, new, identity, parent).and_then(|mut file| {
                if !matches!(parent, Parent::Xattrs(_)) {
                    self.check_create(&file)?;
                }
                more(&mut file)?;
                self.save_made(tx, &object, file, &new.kind)
            });
        given.or_else(|e| self.unmake(tx, number, e))?;
        Ok(number)
    }

    /// The attributes of a new file; they are not saved.
    fn give_attributes(
        &self,
        tx: &Tx,
        object: &Object,
        new: &NewFile,
        identity: Option<Identity>,
        parent: &Parent<'_>,
    ) -> Result<Attrs> {
        let number = object.number();
        let mut file = Attrs::new(self, object.clone())?;
        let kind = new.kind.mode_type();
        let mut m = kind | (u64::from(new.mode) & mode::PERMISSIONS);
        let mut gid = new.gid;
        let (owner, is_xattr) = match parent {
            Parent::None => (None, false),
            Parent::Dir(p) => (Some(*p), p.has_flag(flags::XATTR)),
            Parent::Xattrs(p) => (Some(*p), true),
        };
        if let Parent::Dir(p) = parent
            && p.mode() & 0o2000 != 0
        {
            // With an identity the group was decided when the file was made first.
            if identity.is_none() {
                gid = p.get(zpl::GID);
            }
            if kind == mode::DIR {
                m |= 0o2000;
            }
        }
        let mut pflags = file.marks(flags::ARCHIVE | flags::AV_MODIFIED);
        if is_xattr {
            pflags |= flags::XATTR;
        }
        let project = self.project_of_new(kind, owner);
        pflags |= project.map_or(0, |(_, flags)| flags);
        let target = match &new.kind {
            NewKind::Symlink(target) => Some(target),
            _ => None,
        };
        let (size, links) = match kind {
            mode::DIR => (2, 2),
            _ => (target.map_or(0, |t| t.len() as u64), 1),
        };
        // The order is that of OpenZFS: files of both then share their layouts.
        file.set(zpl::MODE, m);
        file.set(zpl::SIZE, size);
        file.set(zpl::GEN, identity.map_or(tx.txg(), |i| i.generation));
        file.set(zpl::UID, new.uid);
        file.set(zpl::GID, gid);
        file.set(zpl::PARENT, owner.map_or(number, Attrs::number));
        file.set(zpl::FLAGS, pflags);
        for name in [zpl::ATIME, zpl::MTIME, zpl::CTIME, zpl::CRTIME] {
            file.set_time(name, new.now);
        }
        file.set(zpl::LINKS, links);
        if let Some((project, _)) = project {
            file.set(zpl::PROJID, project);
        }
        if let NewKind::Block(major, minor) | NewKind::Char(major, minor) = new.kind {
            file.set(zpl::RDEV, device_word(major, minor));
        }
        let inherits = if kind == mode::DIR { flags::ACL_AUTO_INHERIT } else { 0 };
        file.set_trivial_acl(inherits)?;
        Ok(file)
    }

    /// The project of a new file in `owner`, if files have one, and its flags for that.
    fn project_of_new(&self, kind: u64, owner: Option<&Attrs>) -> Option<(u64, u64)> {
        if !matches!(kind, mode::FILE | mode::DIR) || !self.counts_projects() {
            return None;
        }
        Some(match owner.filter(|p| p.has_flag(flags::PROJINHERIT)) {
            Some(p) => (p.project(), flags::PROJID | flags::PROJINHERIT),
            None => (0, flags::PROJID),
        })
    }

    /// Saves the attributes of a new file, and the target of a link.
    fn save_made(&self, tx: &Tx, object: &Object, mut file: Attrs, kind: &NewKind) -> Result<()> {
        let target = match kind {
            NewKind::Symlink(target) if !file.set_target(target) => target.as_slice(),
            _ => &[],
        };
        file.save(self, tx)?;
        if !target.is_empty() {
            let size = (target.len() as u64).next_multiple_of(SECTOR_SIZE);
            object.set_block_size(tx, size as u32)?;
            object.reopen()?.write_at(tx, 0, target)?;
        }
        Ok(())
    }

    fn make_object(&self, tx: &Tx, kind: &NewKind, identity: Option<Identity>) -> Result<Object> {
        let slots = identity.map_or(self.settings().dnode_slots, |i| Some(i.slots));
        let number = identity.map(|i| i.object);
        let (bonus_kind, bonus) = match self.version() >= ZPL_VERSION_SA {
            true => (DmuType::SA, Vec::new()),
            false => (DmuType::ZNODE, vec![0; ZNODE_SIZE]),
        };
        if *kind == NewKind::Dir {
            let spec = zap::ZapSpec {
                slots,
                number,
                bonus_kind,
                bonus,
                norm_flags: self.norm_flags(),
                ..zap::ZapSpec::new(DmuType::DIRECTORY_CONTENTS)
            };
            return Ok(zap::create(self.objset(), tx, &spec)?);
        }
        let mut spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).bonus(bonus_kind, &bonus);
        spec.slots = slots;
        spec.number = number;
        Ok(self.objset().create(tx, &spec)?)
    }

    pub(super) fn link_now(&self, tx: &Tx, file: u64, at: &NameInDir<'_>, now: Time) -> Result<()> {
        let NameInDir { dir, name, .. } = *at;
        self.check_new_name(name)?;
        let _lock = self.inner.state.attrs.lock(&[file, dir], crate::state::locks::Mode::Exclusive);
        let mut parent = self.load_dir(dir)?;
        let before = Attrs::load(self, file)?;
        let mut target = Attrs::load(self, file)?;
        if target.is_dir() {
            return Err(Error::IsDirectory(format!("object {file}")));
        }
        if target.links() == 0 {
            return Err(Error::NotFound(format!("object {file}")));
        }
        if target.links() >= LINKS_MAX {
            return Err(Error::TooManyNames);
        }
        check_flags(&target, flags::IMMUTABLE | flags::APPENDONLY)?;
        if parent.has_flag(flags::XATTR) != target.has_flag(flags::XATTR) {
            return Err(Error::refused(InvalidRequest::XattrAsFile));
        }
        self.check_project(&parent, &target)?;
        if self.find_at(parent.object(), at)?.is_some() {
            return Err(Error::Exists(at.shown()));
        }
        let names = self.dir_object(dir)?;
        let entered = self.enter(tx, &names, name, file, target.mode());
        let done = entered.and_then(|()| {
            target.set(zpl::LINKS, target.links() + 1);
            target.set(zpl::PARENT, dir);
            target.state_changed(now);
            target.save(self, tx)?;
            self.count_entries(&mut parent, Count::added(false), now);
            parent.save(self, tx)
        });
        if let Err(e) = done {
            let saved = before.save(self, tx);
            let left = self.leave(tx, dir, name, file);
            return Err(taken_back(tx, e, saved.and(left)));
        }
        self.note(tx, &Op::Link { file, at: *at }, &[], &[]);
        Ok(())
    }

    /// A file that is put into a directory whose project is inherited must be of that project.
    pub(super) fn check_project(&self, parent: &Attrs, file: &Attrs) -> Result<()> {
        let inherits = parent.has_flag(flags::PROJINHERIT) && !self.replays();
        if inherits && parent.project() != file.project() {
            return Err(Error::OtherProject);
        }
        Ok(())
    }
}
