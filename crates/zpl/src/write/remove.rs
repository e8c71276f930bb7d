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
use dmu::{Tx, zap};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags};

/// Flags that keep a name from being taken away.
const KEEPS_NAME: u64 = flags::IMMUTABLE | flags::NOUNLINK | flags::APPENDONLY;

impl Filesystem {
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
}

/// The value stored in a directory's ZAP for an entry.
pub(super) fn dirent(entry: &DirEntry) -> Dirent {
    Dirent { object: entry.object, kind: entry.kind }
}
