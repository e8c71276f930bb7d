//! Devices of a pool by what a person calls them, and what a device is for a pool by its label.

mod named;
mod work;

pub use crate::faults::MemberFault;
pub use named::{DeviceNames, Exchange, Known, Onlined};
pub use work::WorkChange;

use ondisk::config::{LabelConfig, VdevConfig, VdevKind};
use pool::{Candidate, Pool, PoolSpace, VdevView, look_at_device};
use std::path::{Path, PathBuf};

/// A vdev that was named.
///
/// ```
/// use engine::NewPool;
/// use engine::pools::Member;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let [a, b] = ["a.img", "b.img"].map(|name| folder.path().join(name));
/// let pool = NewPool::new("tank").mirror(&[&a, &b], 64 << 20)?.create()?;
/// let seen = pool.look()?;
/// let mirror = Member::find(&seen, "mirror-0", "mirror-0".as_ref()).unwrap();
/// assert!(!mirror.is_device && mirror.devices.len() == 2);
/// let leaf = Member::find(&seen, "a.img", &a).unwrap();
/// assert!(leaf.is_device && mirror.devices.contains(&leaf.guid));
/// assert!(Member::find(&seen, "c.img", "c.img".as_ref()).is_none());
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its guid.
    pub guid: u64,
    /// The devices at or below it.
    pub devices: Vec<u64>,
    /// It is one device, and no vdev of several.
    pub is_device: bool,
    /// It is a raidz vdev, which can get a device more.
    pub is_raidz: bool,
    /// It is a hot spare, in use or not.
    pub is_spare: bool,
    /// It is part of the tree that holds data.
    pub is_in_tree: bool,
}

impl Member {
    /// Looks for a vdev by its name, its guid, its path, or the last part of that; `path` is what
    /// the name means in the caller's folder.
    #[must_use]
    pub fn find(seen: &Pool, name: &str, path: &Path) -> Option<Self> {
        let view = seen.vdev_view(&PoolSpace::default());
        let config = &seen.config().vdev_tree;
        let spare = |guid| seen.spares().iter().find(|spare| spare.guid == guid);
        let cache = |guid| seen.l2cache().iter().find(|cache| cache.guid == guid);
        let is_path =
            |p: &str| p == name || p.rsplit('/').next() == Some(name) || path.to_str() == Some(p);
        let fits = |v: &&VdevView| {
            let stored = config.find(v.guid).or_else(|| spare(v.guid)).or_else(|| cache(v.guid));
            let by_path = stored.and_then(|c| c.path.clone());
            v.name == name || v.guid.to_string() == name || by_path.is_some_and(|p| is_path(&p))
        };
        let found = view.walk().find(fits)?;
        let leaves = found.walk().into_iter().filter(|v| v.children.is_empty());
        Some(Self {
            guid: found.guid,
            devices: leaves.map(|v| v.guid).collect(),
            is_device: found.children.is_empty(),
            is_raidz: config.find(found.guid).is_some_and(is_raidz),
            is_spare: spare(found.guid).is_some(),
            is_in_tree: config.find(found.guid).is_some(),
        })
    }

    /// It is a cache device.
    #[must_use]
    pub fn is_cache(&self) -> bool {
        !self.is_in_tree && !self.is_spare
    }
}

fn is_raidz(vdev: &VdevConfig) -> bool {
    matches!(vdev.kind, VdevKind::Raidz { .. })
}

/// The role of a device in the pool that its label names, wherever the device is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRole {
    /// A device of a vdev, by its guid.
    Leaf(u64),
    /// A hot spare, by its guid.
    Spare(u64),
    /// A distributed spare, by its guid: it has a name and no device.
    Distributed(u64),
    /// A cache device.
    Cache,
}

impl DeviceRole {
    /// The distributed spare of this name.
    #[must_use]
    pub fn distributed(seen: &Pool, name: &str) -> Option<Self> {
        let is_meant = |s: &&VdevConfig| {
            matches!(s.kind, VdevKind::DraidSpare { .. }) && s.path.as_deref() == Some(name)
        };
        seen.spares().iter().find(is_meant).map(|s| Self::Distributed(s.guid))
    }

    /// Returns the role of a device in this pool; `None` if its label names another, or it has
    /// none.
    #[must_use]
    pub fn of(seen: &Pool, device: &device::DeviceRef, path: &Path) -> Option<Self> {
        let device = vdev::guarded_reader(&seen.rt(), device, seen.vdevs().queue_limits());
        let label = look_at_device(&device, path.to_owned())?.config;
        if let Some(spare) = seen.spare_by_label(&label) {
            return Some(Self::Spare(spare));
        }
        match label {
            LabelConfig::Member(c) if c.pool_guid != seen.guid() => None,
            LabelConfig::Member(c) => {
                c.guid.filter(|guid| seen.config().vdev_tree.find(*guid).is_some()).map(Self::Leaf)
            }
            LabelConfig::Aux(c) if seen.l2cache().iter().any(|s| s.guid == c.guid) => {
                Some(Self::Cache)
            }
            LabelConfig::Aux(_) => None,
        }
    }
}

/// The guids of those devices of a pool, which was found and is not open, that have one of these
/// names: the guid in decimal, the path that `path_of` makes of the name, or the last part of the
/// path. A name that no device has is left out.
#[must_use]
pub fn named_leaves(
    candidate: &Candidate,
    names: &[String],
    path_of: impl Fn(&str) -> PathBuf,
) -> Vec<u64> {
    let is_called = |guid: u64, path: &Path| {
        names.iter().any(|name| {
            path == path_of(name)
                || path.file_name() == Some(name.as_ref())
                || *name == guid.to_string()
        })
    };
    let written =
        candidate.tree.walk().filter_map(|v| Some((v.guid, PathBuf::from(v.path.clone()?))));
    let found = candidate.leaves.iter().map(|(guid, seen)| (*guid, seen.path.clone()));
    written.chain(found).filter(|(guid, path)| is_called(*guid, path)).map(|(g, _)| g).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{AnyDevices, DeviceSource as _};
    use crate::{NewPool, OpenOptions};

    #[test]
    fn devices_are_found_by_all_that_they_are_called() {
        let folder = tempfile::tempdir().expect("folder");
        let [image, other] = ["a.img", "b.img"].map(|name| folder.path().join(name));
        for (name, path) in [("tank", &image), ("other", &other)] {
            let pool = NewPool::new(name).file(path, 64 << 20).expect("file").create();
            pool.expect("create").export().expect("export");
        }
        let pool = Pool::open("tank", &OpenOptions::in_places([&image])).expect("open");
        let find = |name: &str| Member::find(&pool, name, &folder.path().join(name));
        let found = find("a.img").expect("by the last part");
        assert!(found.is_device && found.is_in_tree && !found.is_spare);
        assert_eq!(found.devices, [found.guid]);
        let path = image.to_str().expect("text");
        assert_eq!(find(path), Some(found.clone()));
        assert_eq!(find(&found.guid.to_string()), Some(found.clone()));
        assert_eq!(find("b.img"), None);

        let own = |path: &Path| {
            DeviceRole::of(&pool, &AnyDevices::default().open(path).expect("device"), path)
        };
        assert_eq!(own(&image), Some(DeviceRole::Leaf(found.guid)));
        assert_eq!(own(&other), None);
    }
}
