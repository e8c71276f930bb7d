//! Names taken away, and what becomes of files that have none left.

use super::attrs::Attrs;
use super::check_flags;
use super::log::if_gone;
use super::names::Count;
use super::pieces::is_large;
use super::undo::Undo;
use crate::dir::DirEntry;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{NameInDir, Op};
use crate::state::locks::Mode;
use dmu::{Tx, Zap, zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags};

/// Flags that keep a name from being taken away.
const KEEPS_NAME: u64 = flags::IMMUTABLE | flags::NOUNLINK | flags::APPENDONLY;

impl Filesystem {
    /// Takes a name away that is not a directory's. A file without names is freed, a large one in
    /// pieces, each of which is durable before the next; or when it is in use ([`Self::hold`]) as
    /// soon as it is no more.
    ///
    /// # Errors
    /// `NotFound`; `IsDirectory`; flags that forbid it.
    pub fn unlink(&self, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.run(&Op::Unlink(NameInDir::new(dir, name)), now).map(drop)
    }

    /// [`Self::unlink`] within a transaction. A large file is freed by the next change that begins
    /// its own, or when the file system is opened.
    pub fn unlink_tx(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.apply(tx, &Op::Unlink(NameInDir::new(dir, name)), now).map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotDirectory`; `NotEmpty`; flags that forbid it.
    pub fn rmdir(&self, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.run(&Op::Rmdir(NameInDir::new(dir, name)), now).map(drop)
    }

    /// [`Self::rmdir`] within a transaction.
    pub fn rmdir_tx(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.apply(tx, &Op::Rmdir(NameInDir::new(dir, name)), now).map(drop)
    }

    pub(super) fn remove(
        &self,
        tx: &Tx,
        at: &NameInDir<'_>,
        is_dir: bool,
        now: Time,
    ) -> Result<()> {
        let dir = at.dir;
        let absent = || Error::NotFound(at.shown());
        loop {
            let seen = self.peek(at)?.ok_or_else(absent)?;
            let _lock = self.inner.state.attrs.lock(&[dir, seen.object], Mode::Exclusive);
            let mut parent = self.load_dir(dir)?;
            let found = self.find_at(parent.object(), at)?.ok_or_else(absent)?;
            if found.object != seen.object {
                continue;
            }
            let file = Attrs::load(self, found.object)?;
            match (is_dir, file.is_dir()) {
                (true, false) => return Err(Error::NotDirectory(at.shown())),
                (false, true) => return Err(Error::IsDirectory(at.shown())),
                _ => {}
            }
            self.check_removable(&file, &found)?;
            let mut undo = Undo::new(self, tx);
            undo.attrs(&parent);
            undo.name(dir, &found.name, Some(dirent(&found)));
            let names = parent.object().clone();
            let gone = if_gone(&file);
            self.count_entries(&mut parent, Count::removed(is_dir), now);
            let done = (|| {
                zap::remove(&names, tx, found.name.as_slice())?;
                parent.save(self, tx)?;
                self.drop_name(tx, file, now)
            })();
            undo.end(done)?;
            let op = if is_dir { Op::Rmdir(*at) } else { Op::Unlink(*at) };
            self.note(tx, &op, &[], gone.as_slice());
            return Ok(());
        }
    }

    /// Whether a name of this file may be taken away.
    pub(super) fn check_removable(&self, file: &Attrs, entry: &DirEntry) -> Result<()> {
        check_flags(file, KEEPS_NAME)?;
        if file.is_dir() && !self.is_empty_dir(file.object())? {
            return Err(Error::NotEmpty(String::from_utf8_lossy(&entry.name).into_owned()));
        }
        Ok(())
    }

    /// A file, whose lock is held, has one name less. When that fails, it has not.
    pub(super) fn drop_name(&self, tx: &Tx, mut file: Attrs, now: Time) -> Result<()> {
        let number = file.number();
        let opens = &self.inner.state.opens;
        let links = if file.is_dir() { 0 } else { file.links().saturating_sub(1) };
        let is_gone = links == 0;
        let in_use = is_gone && opens.unlink(number);
        // More than one step is left to what empties the queue.
        let is_small = file.is_dir() || !is_large(file.object());
        let is_alone = file.get(zpl::XATTR) == 0 && file.external_acl() == 0;
        if is_gone && !in_use && is_small && is_alone {
            return Ok(self.objset().free(tx, number)?);
        }
        let mut undo = Undo::new(self, tx);
        undo.attrs(&file);
        file.set(zpl::LINKS, links);
        file.state_changed(now);
        let done = file
            .save(self, tx)
            .and_then(|()| if is_gone { self.enqueue(tx, number) } else { Ok(()) });
        match (done.is_ok(), in_use) {
            (true, false) if is_gone => opens.leave_to_free(number),
            (false, true) => opens.named(number),
            _ => {}
        }
        undo.end(done)
    }

    /// Frees a file of the delete queue, whose lock is held, with its extended attributes. When
    /// that fails, some of them may be gone, and the file is as whole as it can be without them.
    pub(super) fn free_file(&self, tx: &Tx, number: u64) -> Result<()> {
        let mut file = Attrs::load(self, number)?;
        let xattrs = file.get(zpl::XATTR);
        if xattrs != 0 && self.empty_xattr_dir(tx, xattrs, u64::MAX)?.is_some() {
            let mut undo = Undo::new(self, tx);
            undo.attrs(&file);
            file.remove(zpl::XATTR);
            let freed = || Ok(self.objset().free(tx, xattrs)?);
            undo.end(file.save(self, tx).and_then(|()| freed()))?;
        }
        let acl = Attrs::load(self, number)?.external_acl();
        if acl != 0 {
            self.objset().free(tx, acl)?;
        }
        Ok(self.objset().free(tx, number)?)
    }

    /// Frees what is in a directory of extended attributes, up to a number, and returns how many
    /// there were; `None` when it is not one.
    pub(super) fn empty_xattr_dir(&self, tx: &Tx, number: u64, most: u64) -> Result<Option<u64>> {
        let dir = match Attrs::load(self, number) {
            Ok(dir) if dir.has_flag(flags::XATTR) => dir,
            // An object that an attribute names wrongly is not ours to free.
            Ok(_) | Err(Error::NotFound(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut freed = 0;
        if !dir.is_dir() {
            return Ok(Some(freed));
        }
        for entry in Zap::open(dir.object())?.to_vec()? {
            if freed == most {
                break;
            }
            let target = entry.ints().next().map(Dirent::decode);
            let (Some(target), Some(name)) = (target, entry.name.bytes()) else { continue };
            match Attrs::load(self, target.object) {
                Ok(file) if file.has_flag(flags::XATTR) => {
                    let mut undo = Undo::new(self, tx);
                    undo.name(number, name, Some(target));
                    let done = zap::remove(dir.object(), tx, name)
                        .and_then(|_| self.objset().free(tx, target.object));
                    undo.end(done.map_err(Error::from))?;
                    freed += 1;
                }
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Some(freed))
    }
}

/// The value stored in a directory's ZAP for an entry.
pub(super) fn dirent(entry: &DirEntry) -> Dirent {
    Dirent { object: entry.object, kind: entry.kind }
}
