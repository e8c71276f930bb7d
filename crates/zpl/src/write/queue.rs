//! The delete queue: files without a name that are not freed yet.

use crate::error::Result;
use crate::fs::Filesystem;
use dmu::{Tx, zap};
use ondisk::znode::master;

impl Filesystem {
    pub(super) fn delete_queue(&self) -> Result<dmu::Object> {
        let number = self.master()?.need_u64(master::DELETE_QUEUE)?;
        Ok(self.objset().object(number)?)
    }

    /// Puts a file without a name into the delete queue.
    pub(super) fn enqueue(&self, tx: &Tx, object: u64) -> Result<()> {
        Ok(zap::set_u64(&self.delete_queue()?, tx, &format!("{object:x}"), object)?)
    }

    /// Takes a file that has a name out of the delete queue.
    pub(super) fn dequeue(&self, tx: &Tx, object: u64) -> Result<()> {
        zap::remove(&self.delete_queue()?, tx, &format!("{object:x}"))?;
        Ok(())
    }
}
