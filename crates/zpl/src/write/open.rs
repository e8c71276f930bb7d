//! Files that are in use: one that loses its last name meanwhile lives until the last user is
//! done. Until then it stands in the delete queue, which is emptied when a file system is opened to
//! be changed, so that a crash leaves nothing behind.

use super::attrs::Attrs;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Hold, Tx, Zap, zap};
use ondisk::sa::zpl;
use ondisk::znode::master;
use parking_lot::Mutex;
use std::collections::HashMap;

#[derive(Default)]
struct Use {
    users: u64,
    /// It has no name any more.
    unlinked: bool,
}

/// Which files are in use.
#[derive(Default)]
pub(crate) struct OpenTable(Mutex<HashMap<u64, Use>>);

impl OpenTable {
    /// Notes that a file lost its last name; true when somebody uses it.
    pub(super) fn unlink(&self, object: u64) -> bool {
        match self.0.lock().get_mut(&object) {
            Some(u) => {
                u.unlinked = true;
                true
            }
            None => false,
        }
    }

    /// Whether somebody uses a file.
    pub(super) fn is_used(&self, object: u64) -> bool {
        self.0.lock().contains_key(&object)
    }

    /// One user less; true when it was the last and the file has no name.
    fn leave(&self, object: u64) -> bool {
        let mut table = self.0.lock();
        let Some(u) = table.get_mut(&object) else { return false };
        u.users -= 1;
        u.users == 0 && table.remove(&object).is_some_and(|u| u.unlinked)
    }
}

/// A file that somebody uses. Dropping it ends the use, and frees a file that has no name any more
/// in a transaction of its own: do not drop it while holding a transaction.
pub struct OpenFile {
    fs: Filesystem,
    object: u64,
    ended: bool,
}

impl OpenFile {
    /// The file's object.
    #[must_use]
    pub fn object(&self) -> u64 {
        self.object
    }

    /// Ends the use.
    ///
    /// # Errors
    /// The file has no name any more and could not be freed; it stays in the delete queue.
    pub fn close(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.ended, true) && self.fs.inner.state.opens.leave(self.object)
        {
            self.fs.release_queued(self.object)?;
        }
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // The file stays in the delete queue then, and goes with the next opening.
        let _ = self.end();
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenFile({})", self.object)
    }
}

impl Filesystem {
    /// Uses a file: its object stays until the value is dropped, even when it loses its last name.
    ///
    /// # Errors
    /// `NotFound` when there is no such file.
    pub fn hold(&self, object: u64) -> Result<OpenFile> {
        let _lock = self.inner.state.attrs.shared(object);
        let links = Attrs::load(self, object)?.links();
        if links == 0 && !self.inner.state.opens.is_used(object) {
            return Err(Error::NotFound(format!("object {object}")));
        }
        let mut table = self.inner.state.opens.0.lock();
        let entry = table.entry(object).or_default();
        entry.users += 1;
        entry.unlinked |= links == 0;
        drop(table);
        Ok(OpenFile { fs: self.clone(), object, ended: false })
    }

    fn delete_queue(&self) -> Result<dmu::Object> {
        let number = self.master()?.need_u64(master::DELETE_QUEUE)?;
        Ok(self.objset().object(number)?)
    }

    /// Puts a file without a name into the delete queue.
    pub(super) fn enqueue(&self, tx: &Tx, object: u64) -> Result<()> {
        Ok(zap::set_u64(&self.delete_queue()?, tx, &format!("{object:x}"), object)?)
    }

    /// Frees a file of the delete queue.
    fn release_queued(&self, object: u64) -> Result<()> {
        self.with_tx(Hold::free(), |tx| {
            let _lock = self.inner.state.attrs.exclusive(object);
            if self.inner.state.opens.is_used(object) {
                return Ok(());
            }
            self.free_file(tx, object)?;
            zap::remove(&self.delete_queue()?, tx, &format!("{object:x}"))?;
            Ok(())
        })
    }

    /// Frees what was unlinked while in use before a crash; returns how many files. Done once when
    /// a file system is opened to be changed.
    ///
    /// # Errors
    /// The queue cannot be read or changed. Files that cannot be freed stay in it.
    pub fn drain_unlinked(&self) -> Result<u64> {
        let mut freed = 0;
        for entry in Zap::open(&self.delete_queue()?)?.to_vec()? {
            let (Some(name), Some(object)) = (entry.name.bytes(), entry.u64()) else { continue };
            if self.inner.state.opens.is_used(object) {
                continue;
            }
            let gone = self.with_tx(Hold::free(), |tx| {
                let _lock = self.inner.state.attrs.exclusive(object);
                match Attrs::load(self, object) {
                    // A file with a name does not belong here.
                    Ok(file) if file.get(zpl::LINKS) != 0 => {}
                    Ok(_) => self.free_file(tx, object)?,
                    Err(Error::NotFound(_)) => {}
                    Err(_) => return Ok(false),
                }
                zap::remove(&self.delete_queue()?, tx, name)?;
                Ok(true)
            })?;
            freed += u64::from(gone);
        }
        Ok(freed)
    }
}
