//! A file system becomes one of a newer version.
//!
//! The version is a number in the master node. Version 5 also has the tables of attributes. Files
//! stay as they are: each says itself which form its attributes have. New ones are made in the new
//! form as soon as the version is durable, and not before: the intent log has changes that only
//! a file of the new form takes, and after a crash it is replayed into what is durable.

use super::format::make_tables;
use crate::error::{Error, Result};
use crate::fs::{Filesystem, sa_tables};
use crate::refusal::InvalidRequest;
use dmu::{Tx, zap};
use ondisk::sa::MASTER_NODE_ENTRY;
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_MAX, ZPL_VERSION_SA, master};
use std::sync::Arc;

impl Filesystem {
    /// Writes a newer version into the master node, with what it asks for. It holds once
    /// [`Self::adopt_version`] was called, after that is durable.
    ///
    /// # Errors
    /// There is no such version, or it is an older one; no space.
    pub fn upgrade(&self, version: u64) -> Result<()> {
        if version > ZPL_VERSION_MAX {
            return Err(Error::Version(version));
        }
        if version < self.version() {
            return Err(Error::refused(InvalidRequest::OlderVersion));
        }
        self.with_small_tx(|tx| self.upgrade_tx(tx, version))
    }

    fn upgrade_tx(&self, tx: &Tx, version: u64) -> Result<()> {
        let node = self.objset().object(MASTER_NODE)?;
        // An upgrade that failed half-way left the tables.
        if version >= ZPL_VERSION_SA && self.master()?.get_u64(MASTER_NODE_ENTRY)?.is_none() {
            zap::set_u64(&node, tx, MASTER_NODE_ENTRY, make_tables(self.objset(), tx)?)?;
        }
        Ok(zap::set_u64(&node, tx, master::VERSION, version)?)
    }

    /// Is of the version that the master node says, which is durable.
    ///
    /// # Errors
    /// The master node or the tables of attributes cannot be read.
    pub fn adopt_version(&self) -> Result<()> {
        let table = self.master()?;
        let version = table.need_u64(master::VERSION)?;
        if version >= ZPL_VERSION_SA && self.sa_tables().is_none() {
            let tables = sa_tables(self.objset(), table.need_u64(MASTER_NODE_ENTRY)?)?;
            self.set_sa_tables(Arc::new(tables));
        }
        self.set_version(version);
        Ok(())
    }
}
