//! Names taken away, and what becomes of files that have none left.

use super::attrs::Attrs;
use super::check_flags;
use super::locks::Mode;
use super::names::Count;
use super::pieces::is_large;
use crate::dir::DirEntry;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Hold, SpaceUse, Tx, Zap, zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags};

/// Flags that keep a name from being taken away.
const KEEPS_NAME: u64 = flags::IMMUTABLE | flags::NOUNLINK | flags::APPENDONLY;

fn hold() -> Hold {
    Hold { bytes: super::HOLD_NAMES, space: SpaceUse::Free }
}

impl Filesystem {
    /// Takes a name away that is no directory's. A file without names is freed, a large one in
    /// pieces, each of which is durable before the next; or when it is in use ([`Self::hold`]) as
    /// soon as it is no more.
    ///
    /// # Errors
    /// `NotFound`; `IsDirectory`; flags that forbid it.
    pub fn unlink(&self, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.with_tx(hold(), |tx| self.unlink_tx(tx, dir, name, now))
    }

    /// [`Self::unlink`] within a transaction. A large file is freed by the next change that begins
    /// its own, or when the file system is opened.
    pub fn unlink_tx(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.remove(tx, dir, name, false, now)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotDirectory`; `NotEmpty`; flags that forbid it.
    pub fn rmdir(&self, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.with_tx(hold(), |tx| self.rmdir_tx(tx, dir, name, now))
    }

    /// [`Self::rmdir`] within a transaction.
    pub fn rmdir_tx(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.remove(tx, dir, name, true, now)
    }

    fn remove(&self, tx: &Tx, dir: u64, name: &[u8], is_dir: bool, now: Time) -> Result<()> {
        self.check_writable()?;
        let absent = || Error::NotFound(String::from_utf8_lossy(name).into_owned());
        loop {
            let seen = self.peek(dir, name)?.ok_or_else(absent)?;
            let _lock = self.inner.state.attrs.lock(&[dir, seen.object], Mode::Exclusive);
            let mut parent = self.load_dir(dir)?;
            let found = self.find(parent.object(), name)?.ok_or_else(absent)?;
            if found.object != seen.object {
                continue;
            }
            let file = Attrs::load(self, found.object)?;
            let shown = || String::from_utf8_lossy(name).into_owned();
            match (is_dir, file.is_dir()) {
                (true, false) => return Err(Error::NotDirectory(shown())),
                (false, true) => return Err(Error::IsDirectory(shown())),
                _ => {}
            }
            self.check_removable(&file, &found)?;
            zap::remove(parent.object(), tx, found.name.as_slice())?;
            self.drop_name(tx, file, now)?;
            self.count_entries(&mut parent, Count::went(is_dir), now);
            return parent.save(self, tx);
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

    /// A file, whose lock is held, has one name less.
    pub(super) fn drop_name(&self, tx: &Tx, mut file: Attrs, now: Time) -> Result<()> {
        let number = file.number();
        let links = if file.is_dir() { 0 } else { file.links().saturating_sub(1) };
        if links == 0 && !self.inner.state.opens.unlink(number) {
            if file.is_dir() || !is_large(file.object()) {
                return self.free_file(tx, number);
            }
            self.inner.state.opens.leave_to_free(number);
        }
        file.set(zpl::LINKS, links);
        file.state_changed(now);
        file.save(self, tx)?;
        if links == 0 { self.enqueue(tx, number) } else { Ok(()) }
    }

    /// Frees a file, whose lock is held, with its extended attributes.
    pub(super) fn free_file(&self, tx: &Tx, number: u64) -> Result<()> {
        let file = Attrs::load(self, number)?;
        let xattrs = file.get(zpl::XATTR);
        if xattrs != 0 {
            self.free_xattr_dir(tx, xattrs)?;
        }
        Ok(self.objset().free(tx, number)?)
    }

    /// Frees a directory of extended attributes and what is in it.
    pub(super) fn free_xattr_dir(&self, tx: &Tx, number: u64) -> Result<()> {
        let dir = match Attrs::load(self, number) {
            Ok(dir) if dir.has_flag(flags::XATTR) => dir,
            // What an attribute names wrongly is not ours to free.
            Ok(_) | Err(Error::NotFound(_)) => return Ok(()),
            Err(e) => return Err(e),
        };
        if dir.is_dir() {
            for entry in Zap::open(dir.object())?.to_vec()? {
                let Some(child) = entry.ints().next().map(|v| Dirent::decode(v).object) else {
                    continue;
                };
                match Attrs::load(self, child) {
                    Ok(file) if file.has_flag(flags::XATTR) => self.objset().free(tx, child)?,
                    Ok(_) | Err(Error::NotFound(_)) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(self.objset().free(tx, number)?)
    }
}
