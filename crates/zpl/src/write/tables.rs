//! The tables of attributes of a file system that is changed: layouts and attributes are added
//! when a file needs them.
//!
//! A txg is entered only when the transactions of the one before have ended, so a layout that is
//! known here is on disk no later than any file that uses it.

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::refusal::Unsupported;
use dmu::{Tx, ZapValue, zap};
use ondisk::sa::{AttrInfo, LAYOUTS, MASTER_NODE_ENTRY, REGISTRY, SaTables, ZPL_ATTRS};
use std::sync::Arc;

/// The lock of the tables has one key.
const TABLES: u64 = 0;

impl Filesystem {
    /// The tables as they are now.
    pub(crate) fn need_tables(&self) -> Result<Arc<SaTables>> {
        self.sa_tables().ok_or(Error::refused(Unsupported::NoSystemAttributes))
    }

    fn table_object(&self, name: &str) -> Result<dmu::Object> {
        let master = self.master()?.need_u64(MASTER_NODE_ENTRY)?;
        let number = dmu::Zap::open(&self.objset().object(master)?)?.need_u64(name)?;
        Ok(self.objset().object(number)?)
    }

    /// The layout of just these attributes, which is added when there was none, and the tables
    /// that have it.
    pub(crate) fn layout(&self, tx: &Tx, attrs: &[u16]) -> Result<(u16, Arc<SaTables>)> {
        let tables = self.need_tables()?;
        if let Some(number) = tables.find_layout(attrs) {
            return Ok((number, tables));
        }
        let _lock = self.inner.state.layouts.exclusive(TABLES);
        let mut tables = (*self.need_tables()?).clone();
        let number = match tables.find_layout(attrs) {
            Some(number) => number,
            None => {
                let object = self.table_object(LAYOUTS)?;
                let number = tables
                    .add_layout(attrs)
                    .map_err(|error| Error::Format { object: object.number(), error })?;
                let values = attrs.iter().flat_map(|n| n.to_be_bytes()).collect();
                let value = ZapValue { int_len: 2, values };
                zap::set(&object, tx, &number.to_string(), &value)?;
                number
            }
        };
        let tables = Arc::new(tables);
        self.set_sa_tables(Arc::clone(&tables));
        Ok((number, tables))
    }

    /// The number of an attribute, which is registered when it was not.
    pub(crate) fn register_attribute(&self, tx: &Tx, name: &'static str) -> Result<u16> {
        let _lock = self.inner.state.layouts.exclusive(TABLES);
        let mut tables = (*self.need_tables()?).clone();
        if let Some(info) = tables.attr(name) {
            return Ok(info.number);
        }
        let known = ZPL_ATTRS.iter().find(|(n, _, _)| *n == name);
        let &(_, length, class) = known.ok_or(Error::refused(Unsupported::ForeignAttribute))?;
        let number = tables.attrs().map(|(_, i)| i.number).max().map_or(0, |n| n + 1);
        let info = AttrInfo { number, length, class };
        let object = self.table_object(REGISTRY)?;
        tables
            .add_attr(name, info)
            .map_err(|error| Error::Format { object: object.number(), error })?;
        zap::set_u64(&object, tx, name, info.encode())?;
        self.set_sa_tables(Arc::new(tables));
        Ok(number)
    }
}
