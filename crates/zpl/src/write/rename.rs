//! Names that move.

use super::attrs::Attrs;
use super::check_flags;
use super::create::Parent;
use super::log::if_gone;
use super::names::Count;
use super::remove::dirent;
use super::undo::Undo;
use crate::dir::DirEntry;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Identity, NameInDir, NewFile, Op, Renaming};
use crate::refusal::InvalidRequest;
use crate::state::locks::Mode;
use dmu::{Tx, zap};
use ondisk::DmuType;
use ondisk::sa::zpl;
use ondisk::znode::{Time, Znode, flags, mode};

/// The lock of moves between directories has one key.
const MOVES: u64 = 0;

/// Directories above a directory, at most: more can only be a loop that is on disk.
const DEPTH_MAX: usize = 1 << 16;

/// The changes of a move in the tables of names.
struct RenameStep<'a> {
    from: &'a NameInDir<'a>,
    to: &'a NameInDir<'a>,
    now: Time,
    source: &'a DirEntry,
    replaced: Option<&'a DirEntry>,
}

/// A rename whose files are locked.
struct Move<'a> {
    from: &'a NameInDir<'a>,
    to: &'a NameInDir<'a>,
    now: Time,
    source: DirEntry,
    target: Option<DirEntry>,
}

impl Filesystem {
    pub(super) fn rename_now(
        &self,
        tx: &Tx,
        (from, to): (&NameInDir<'_>, &NameInDir<'_>),
        how: &Renaming,
        now: Time,
    ) -> Result<()> {
        self.check_new_name(to.name)?;
        let state = &self.inner.state;
        let _moves = (from.dir != to.dir).then(|| state.rename.exclusive(MOVES));
        loop {
            let source = self.peek(from)?.ok_or_else(|| Error::NotFound(from.shown()))?;
            let target = self.peek(to)?;
            let mut locked = vec![from.dir, to.dir, source.object];
            locked.extend(target.as_ref().map(|t| t.object));
            let _lock = state.attrs.lock(&locked, Mode::Exclusive);
            let now_source = self.find_at(&self.dir_object(from.dir)?, from)?;
            let now_target = self.find_at(&self.dir_object(to.dir)?, to)?;
            if now_source.as_ref() != Some(&source) || now_target != target {
                continue;
            }
            let swaps = matches!(how, Renaming::Exchange);
            let (moved, other) = (source.object, target.as_ref().map(|t| t.object));
            let gone = match other.filter(|other| !swaps && *other != moved) {
                Some(other) => if_gone(&Attrs::load(self, other)?),
                None => None,
            };
            let this = Move { from, to, now, source, target };
            let done = match how {
                Renaming::Exchange => self.exchange(tx, &this).map(|()| how.clone())?,
                _ => self.move_name(tx, this, how)?,
            };
            let mut after = vec![moved];
            after.extend(other.filter(|_| swaps));
            let op = Op::Rename { from: *from, to: *to, how: Box::new(done) };
            self.note(tx, &op, &after, gone.as_slice());
            return Ok(());
        }
    }

    /// Whether the directory `dir` is `above` or somewhere below it. No directory is moved
    /// meanwhile.
    fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        let mut at = dir;
        for _ in 0..DEPTH_MAX {
            if at == above {
                return Ok(true);
            }
            if at == self.root_object() {
                return Ok(false);
            }
            let parent = self.parent_of(at)?;
            if parent == at {
                return Ok(false);
            }
            at = parent;
        }
        Err(Error::Loop)
    }

    /// Parent of a directory that may not be locked: read from its bonus alone, which is of one
    /// moment.
    fn parent_of(&self, number: u64) -> Result<u64> {
        let object = self.dir_object(number)?;
        let dnode = object.dnode();
        let format = |error| Error::Format { object: number, error };
        if dnode.bonus_kind == DmuType::ZNODE {
            return Ok(Znode::decode(&dnode.bonus, dnode.endian).map_err(format)?.parent);
        }
        let tables = self.need_tables()?;
        let values = tables.split(&dnode.bonus).map_err(format)?;
        let wanted = tables.attr(zpl::PARENT).map(|info| info.number);
        let found = values.iter().find(|v| Some(v.number) == wanted).and_then(|v| v.u64());
        found.ok_or(Error::NoAttribute { object: number, name: zpl::PARENT })
    }

    /// Checks the file that gets a name in `to`.
    fn check_move(&self, file: &Attrs, from: &Attrs, to: &Attrs) -> Result<()> {
        check_flags(file, flags::IMMUTABLE | flags::NOUNLINK | flags::APPENDONLY)?;
        if from.has_flag(flags::XATTR) != to.has_flag(flags::XATTR) {
            return Err(Error::refused(InvalidRequest::XattrAsFile));
        }
        if from.number() != to.number() {
            self.check_project(to, file)?;
            if file.is_dir() && self.is_below(to.number(), file.number())? {
                return Err(Error::Loop);
            }
        }
        Ok(())
    }

    /// Returns how it was done: with the identity of a file that was made.
    fn move_name(&self, tx: &Tx, m: Move<'_>, how: &Renaming) -> Result<Renaming> {
        let Move { from, to, now, source, target } = m;
        let same_dir = from.dir == to.dir;
        let from_dir = self.load_dir(from.dir)?;
        let to_dir = self.load_dir(to.dir)?;
        let file = Attrs::load(self, source.object)?;
        // Where case does not count, a name can be renamed to itself in another spelling.
        let respelled = same_dir && target.as_ref() == Some(&source) && to.name != source.name;
        let over = target.filter(|_| !respelled);
        if matches!(how, Renaming::NoReplace) && over.is_some() {
            return Err(Error::Exists(to.shown()));
        }
        if over.as_ref().is_some_and(|t| t.object == source.object) {
            return Ok(Renaming::Replace);
        }
        self.check_move(&file, &from_dir, &to_dir)?;
        let is_dir = file.is_dir();
        let over = match over {
            Some(entry) => Some((Attrs::load(self, entry.object)?, entry)),
            None => None,
        };
        if let Some((victim, entry)) = &over {
            match (is_dir, victim.is_dir()) {
                (true, false) => return Err(Error::NotDirectory(to.shown())),
                (false, true) => return Err(Error::IsDirectory(to.shown())),
                _ => self.check_removable(victim, entry)?,
            }
        }
        let mut undo = Undo::new(self, tx);
        undo.attrs(&file);
        undo.attrs(&from_dir);
        if !same_dir {
            undo.attrs(&to_dir);
        }
        let (victim, replaced) = over.unzip();
        // The previous file of the new name, which in another spelling is the file itself.
        let was = replaced.as_ref().filter(|_| !respelled);
        undo.name(to.dir, to.name, was.map(dirent));
        undo.name(from.dir, &source.name, Some(dirent(&source)));
        let step = RenameStep { from, to, now, source: &source, replaced: replaced.as_ref() };
        let gone = victim.as_ref().map(|victim| Count::removed(victim.is_dir()));
        let moved = self.move_checked(tx, &step, file, (from_dir, to_dir), gone);
        let moved = moved.and_then(|()| match how {
            Renaming::Whiteout(new, identity) => {
                self.leave_whiteout(tx, from.dir, &source.name, (new, *identity), now, &mut undo)
            }
            _ => Ok(how.clone()),
        });
        // The last, because it cannot be taken back: a file that is in use is freed by its users.
        undo.end(moved.and_then(|done| match victim {
            Some(victim) => self.drop_name(tx, victim, now).map(|()| done),
            None => Ok(done),
        }))
    }

    /// Makes the file that takes the place of a name that was moved away, and says which it is.
    fn leave_whiteout(
        &self,
        tx: &Tx,
        dir: u64,
        name: &[u8],
        (new, identity): (&NewFile, Option<Identity>),
        now: Time,
        undo: &mut Undo<'_>,
    ) -> Result<Renaming> {
        let mut parent = self.load_dir(dir)?;
        let file = self.make_with(tx, new, identity, &Parent::Dir(&parent), |_| Ok(()))?;
        undo.record_created(file);
        self.enter(tx, &self.dir_object(dir)?, name, file, mode::CHAR)?;
        self.count_entries(&mut parent, Count::added(false), now);
        parent.save(self, tx)?;
        let made = Attrs::load(self, file)?;
        let identity = Identity {
            object: file,
            slots: made.object().dnode().extra_slots + 1,
            generation: made.get(zpl::GEN),
        };
        let new = NewFile { gid: made.get(zpl::GID), ..new.clone() };
        Ok(Renaming::Whiteout(new, Some(identity)))
    }

    /// The changes of a move that nothing speaks against, but what becomes of a file that loses its
    /// name, which is `gone` from the directory.
    fn move_checked(
        &self,
        tx: &Tx,
        step: &RenameStep<'_>,
        file: Attrs,
        (from_dir, to_dir): (Attrs, Attrs),
        gone: Option<Count>,
    ) -> Result<()> {
        let (from_names, to_names) =
            (self.dir_object(step.from.dir)?, self.dir_object(step.to.dir)?);
        zap::remove(&from_names, tx, step.source.name.as_slice())?;
        let mut count = Count::added(file.is_dir());
        if let (Some(gone), Some(entry)) = (gone, step.replaced) {
            zap::remove(&to_names, tx, entry.name.as_slice())?;
            count.entries += gone.entries;
            count.dirs += gone.dirs;
        }
        self.enter(tx, &to_names, step.to.name, step.source.object, file.mode())?;
        let left = Count::removed(file.is_dir());
        self.settle(tx, file, &to_dir, step.now)?;
        self.save_dirs(tx, (from_dir, left), (to_dir, count), step.now)
    }

    fn exchange(&self, tx: &Tx, m: &Move<'_>) -> Result<()> {
        let target = m.target.as_ref().ok_or_else(|| Error::NotFound(m.to.shown()))?;
        if target.object == m.source.object {
            return Ok(());
        }
        let from_dir = self.load_dir(m.from.dir)?;
        let to_dir = self.load_dir(m.to.dir)?;
        let a = Attrs::load(self, m.source.object)?;
        let b = Attrs::load(self, target.object)?;
        self.check_move(&a, &from_dir, &to_dir)?;
        self.check_move(&b, &to_dir, &from_dir)?;
        let dirs = i64::from(a.is_dir()) - i64::from(b.is_dir());
        // Both are named by entries of this file system, so the kinds are as it writes them.
        let (to_a, to_b) = (dirent(&m.source).encode(), dirent(target).encode());
        let mut undo = Undo::new(self, tx);
        undo.name(m.from.dir, &m.source.name, Some(dirent(&m.source)));
        undo.name(m.to.dir, &target.name, Some(dirent(target)));
        [&a, &b, &from_dir, &to_dir].into_iter().for_each(|file| undo.attrs(file));
        let count = |dirs| Count { entries: 0, dirs };
        let done = (|| {
            zap::set_u64(from_dir.object(), tx, m.source.name.as_slice(), to_b)?;
            zap::set_u64(to_dir.object(), tx, target.name.as_slice(), to_a)?;
            self.settle(tx, a, &to_dir, m.now)?;
            self.settle(tx, b, &from_dir, m.now)?;
            self.save_dirs(tx, (from_dir, count(-dirs)), (to_dir, count(dirs)), m.now)
        })();
        undo.end(done)
    }

    /// A file got a name in another place.
    fn settle(&self, tx: &Tx, mut file: Attrs, parent: &Attrs, now: Time) -> Result<()> {
        file.set(zpl::PARENT, parent.number());
        file.set_flag(file.marks(flags::AV_MODIFIED), true);
        if parent.has_flag(flags::PROJINHERIT) {
            file.set_flag(flags::PROJINHERIT, true);
        }
        file.state_changed(now);
        file.save(self, tx)
    }

    /// Saves both directories, which may be one.
    fn save_dirs(
        &self,
        tx: &Tx,
        from: (Attrs, Count),
        to: (Attrs, Count),
        now: Time,
    ) -> Result<()> {
        let ((mut from, left), (mut to, came)) = (from, to);
        if from.number() == to.number() {
            let entries = left.entries + came.entries;
            self.count_entries(&mut to, Count { entries, dirs: left.dirs + came.dirs }, now);
            return to.save(self, tx);
        }
        self.count_entries(&mut from, left, now);
        from.save(self, tx)?;
        self.count_entries(&mut to, came, now);
        to.save(self, tx)
    }
}
