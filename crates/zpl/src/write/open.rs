//! Files that are in use: one that loses its last name meanwhile lives until the last user is done.
//! Until then it is in the delete queue, which is emptied when a file system is opened to be
//! changed, so that a crash leaves nothing behind.
//!
//! A large file that is not in use is there too until all its pieces are freed (`pieces.rs`). The
//! transaction that removed its last name cannot do that, so it leaves the file to its caller, or
//! to the next one.

use super::attrs::Attrs;
use super::undo::Undo;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Hold, Tx, Zap, zap};
use ondisk::sa::zpl;

/// A file that is in use. Dropping it ends the use, and frees a file that has no name any more
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

    /// Ends the use of a file without a name, which stays in the delete queue.
    pub(super) fn leave_queued(mut self) {
        self.ended = true;
        self.fs.inner.state.opens.leave(self.object);
    }

    fn end(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.ended, true) && self.fs.inner.state.opens.leave(self.object)
        {
            self.fs.free_queued(self.object)?;
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
        self.inner.state.opens.begin(object, links == 0);
        Ok(OpenFile { fs: self.clone(), object, ended: false })
    }

    /// Uses a file that is being made without a name.
    pub(super) fn use_unnamed(&self, object: u64) -> OpenFile {
        self.inner.state.opens.begin(object, true);
        OpenFile { fs: self.clone(), object, ended: false }
    }

    /// Frees a file of the delete queue, unless it is in use or another thread frees it; whether it
    /// did.
    fn free_queued(&self, object: u64) -> Result<bool> {
        let opens = &self.inner.state.opens;
        if !opens.begin_to_free(object) {
            return Ok(false);
        }
        let done = self.free_queued_now(object);
        opens.end_to_free(object);
        done
    }

    fn free_queued_now(&self, object: u64) -> Result<bool> {
        self.free_most_of(object, 0, u64::MAX, |file| Ok(file.links() == 0))?;
        self.free_most_xattrs(object)?;
        let tx = self.begin(Hold::free())?;
        let _lock = self.inner.state.attrs.exclusive(object);
        let freed = match Attrs::load(self, object) {
            // A file with a name does not belong here.
            Ok(file) if file.get(zpl::LINKS) != 0 => false,
            Ok(_) => {
                self.forget_changes(object);
                self.free_file(&tx, object)?;
                true
            }
            Err(Error::NotFound(_)) => false,
            Err(e) => return Err(e),
        };
        zap::remove(&self.delete_queue()?, &tx, &format!("{object:x}"))?;
        Ok(freed)
    }

    /// Frees a file of the delete queue, whose lock is held, with its extended attributes. When
    /// that fails, some of them may be gone, and the file is as whole as it can be without them.
    fn free_file(&self, tx: &Tx, number: u64) -> Result<()> {
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

    /// Frees the large files that transactions of the caller left. Those that cannot be freed stay
    /// in the delete queue, and go when the file system is opened next.
    pub fn free_left(&self) {
        while let Some(object) = self.inner.state.opens.take_left() {
            let _ = self.free_queued(object);
        }
    }

    /// Frees what was unlinked while in use before a crash; returns how many files. Done once when
    /// a file system is opened to be changed.
    ///
    /// # Errors
    /// The queue cannot be read. Files that cannot be freed stay in it.
    pub fn drain_unlinked(&self) -> Result<u64> {
        let mut freed = 0;
        for entry in Zap::open(&self.delete_queue()?)?.to_vec()? {
            let Some(object) = entry.u64() else { continue };
            freed += u64::from(self.free_queued(object).unwrap_or(false));
        }
        Ok(freed)
    }
}
