//! Devices that a pool has already: it has each of them once, whatever it has them for.

use super::TaskCx;
use super::new_vdevs::Devices;
use super::paths::is_same;
use crate::error::{Error, Result};
use crate::open::Pool;
use crate::scan::look_at_device;
use ondisk::config::{LabelConfig, VdevConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a pool consists of.
struct Members<'p> {
    name: &'p str,
    guid: u64,
    root: &'p VdevConfig,
    aux: [&'p [VdevConfig]; 2],
}

impl Members<'_> {
    /// Refuses a device that is one of them, by what its label says or by its name.
    fn refuse(&self, path: &str, device: &device::WriteDeviceRef) -> Result<()> {
        let reader = Arc::clone(device).as_device();
        let found = look_at_device(&reader, PathBuf::from(path));
        let guid = found.and_then(|found| match found.config {
            LabelConfig::Member(c) if c.pool_guid != self.guid => None,
            LabelConfig::Member(c) => c.guid,
            LabelConfig::Aux(c) => Some(c.guid),
        });
        self.refuse_named(path, guid)
    }

    /// The same by its name, and the guid that its label has.
    fn refuse_named(&self, path: &str, guid: Option<u64>) -> Result<()> {
        let is_it = |there: &str| there == path || is_same(Path::new(there), Path::new(path));
        let is_there = |there: &VdevConfig| {
            guid == Some(there.guid) || there.path.as_deref().is_some_and(is_it)
        };
        let leaves = self.root.walk().filter(|v| v.children.is_empty());
        if leaves.chain(self.aux.into_iter().flatten()).any(is_there) {
            let (pool, path) = (self.name.to_owned(), PathBuf::from(path));
            return Err(Error::OwnDevice { pool, path });
        }
        Ok(())
    }
}

impl Pool {
    /// Refuses devices that the pool has already.
    ///
    /// # Errors
    /// [`Error::OwnDevice`].
    pub fn refuse_own(&self, devices: &Devices) -> Result<()> {
        let own = self.own_members();
        devices.iter().try_for_each(|(path, device)| own.refuse(path, device))
    }

    /// The same by their paths alone, before they are opened.
    ///
    /// # Errors
    /// [`Error::OwnDevice`].
    pub fn refuse_own_paths(&self, paths: &[&str]) -> Result<()> {
        let own = self.own_members();
        paths.iter().try_for_each(|path| own.refuse_named(path, None))
    }

    fn own_members(&self) -> Members<'_> {
        Members {
            name: self.name(),
            guid: self.guid(),
            root: &self.config().vdev_tree,
            aux: [self.spares(), self.l2cache()],
        }
    }
}

impl TaskCx<'_> {
    /// Refuses those of `devices` with one of these names that the pool has already.
    pub(super) fn refuse_own<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        devices: &Devices,
    ) -> Result<()> {
        let (facts, root) = {
            let config = self.shared.config.lock();
            (config.facts.clone(), config.root.clone())
        };
        let [spares, l2cache] = self.shared.aux.lock().clone();
        let own =
            Members { name: &facts.name, guid: facts.guid, root: &root, aux: [&spares, &l2cache] };
        let mut named = names.into_iter().filter_map(|name| devices.get_key_value(name));
        named.try_for_each(|(path, device)| own.refuse(path, device))
    }
}
