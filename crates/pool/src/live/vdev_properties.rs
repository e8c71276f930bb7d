//! Properties of vdevs, which each vdev has in a table of its own.

use super::{LivePool, StoredPropertyValue, TaskCx};
use crate::error::Result;
use crate::refusal::PoolRefusal;
use dmu::{Objset, Zap, zap};
use ondisk::config::VdevConfig;
use vdev::{ErrorLimit, VdevTree};

/// The table in which the properties of a vdev are: that of the root, of a top-level vdev, or of a
/// leaf, whichever the vdev has first.
#[must_use]
pub fn property_table(vdev: &VdevConfig) -> Option<u64> {
    let tables = [vdev.vdev_zap_root, vdev.vdev_zap_top, vdev.vdev_zap_leaf];
    tables.into_iter().flatten().find(|object| *object != 0)
}

/// "Not set", as a number.
const NONE: u64 = u64::MAX;

/// Tells the vdevs how many errors are too many where a user decided that. A table that cannot be
/// read says nothing: the usual numbers count.
pub(super) fn set_error_limits(tree: &VdevTree, mos: &Objset, root: &VdevConfig) {
    for vdev in root.walk() {
        let table = property_table(vdev).and_then(|number| mos.object(number).ok());
        let Some(table) = table.and_then(|object| Zap::open(&object).ok()) else { continue };
        for limit in ErrorLimit::ALL {
            let value = table.get_u64(limit.property()).ok().flatten();
            tree.set_error_limit(vdev.guid, limit, value.filter(|n| *n != NONE));
        }
    }
}

impl TaskCx<'_> {
    fn property_table_of(&self, guid: u64) -> Result<u64> {
        let config = self.shared.config.lock();
        config
            .root
            .find(guid)
            .and_then(property_table)
            .ok_or_else(|| self.shared.refused(PoolRefusal::NoPropertyTable))
    }
}

impl LivePool {
    /// Sets a property of the vdev with this guid, the root included, to a value that is taken as
    /// it is. An empty text removes it.
    ///
    /// # Errors
    /// There is no such vdev, or it has no table: pools from before `vdev_zaps_v2` have none for
    /// the root, and vdevs inside others but devices have none at all. Name or value are too long.
    pub fn set_vdev_property(
        &self,
        guid: u64,
        name: &str,
        word: StoredPropertyValue,
    ) -> Result<()> {
        word.check_length(self.shared.pool(), name)?;
        let name = name.to_owned();
        self.run(move |cx| {
            let table = cx.objects().object(cx.property_table_of(guid)?)?;
            match &word {
                StoredPropertyValue::Text(text) if text.is_empty() => {
                    zap::remove(&table, cx.tx, name.as_bytes())?;
                }
                _ => {
                    zap::set(&table, cx.tx, name.as_bytes(), &word.value())?;
                }
            }
            if let Some(limit) = ErrorLimit::ALL.into_iter().find(|l| l.property() == name) {
                let value = match &word {
                    StoredPropertyValue::Number(n) => Some(*n).filter(|n| *n != NONE),
                    StoredPropertyValue::Text(_) => None,
                };
                cx.shared.reader.vdevs().set_error_limit(guid, limit, value);
            }
            Ok(())
        })
    }
}
