//! How vdevs are named in tables.

use crate::disks::without_partition;
use engine::config::{VdevConfig, VdevKind};
use engine::pools::{VdevTreeView, VdevView};
use engine::stats::Snapshot;

/// Which names are shown.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Full paths of devices.
    pub full: bool,
    /// Resolves a path, to show the result in its place.
    pub follow: Option<fn(&str) -> Option<String>>,
    /// Guids instead of names.
    pub guid: bool,
}

impl Names {
    /// Gives every vdev of the view the requested name.
    pub fn apply(self, view: &mut VdevTreeView) {
        view.sections.iter_mut().for_each(|section| self.rename_views(section));
    }

    /// The same for the vdevs of a snapshot.
    pub fn rename(self, snapshot: &mut Snapshot) {
        for v in snapshot.vdevs.iter_mut().filter(|v| v.depth > 0) {
            v.name = match self.guid {
                true => v.guid.to_string(),
                false => self.of_path(&v.name, v.kind == "disk", v.whole_disk),
            };
        }
    }

    /// A leaf that is named before anything of it is opened: by its whole path, unless by its guid.
    #[must_use]
    pub fn of_leaf(self, leaf: &VdevConfig) -> String {
        match &leaf.path {
            Some(path) if !self.guid => Self { full: true, ..self }.of_path(path, true, false),
            _ => leaf.guid.to_string(),
        }
    }

    // Depth is bounded: the configuration's decoder limits it.
    fn rename_views(self, vdevs: &mut [VdevView]) {
        for v in vdevs {
            v.name = match self.guid {
                true => v.guid.to_string(),
                false => self.of_path(&v.name, v.kind == VdevKind::Disk, v.whole_disk),
            };
            self.rename_views(&mut v.children);
        }
    }

    /// `name` is a path, or already the name of an inner vdev.
    fn of_path(self, name: &str, is_disk: bool, whole_disk: bool) -> String {
        if !name.starts_with('/') {
            return name.to_owned();
        }
        let followed = self.follow.and_then(|follow| follow(name));
        let path = followed.unwrap_or_else(|| name.to_owned());
        if self.full || !is_disk {
            return path;
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        if whole_disk { without_partition(name).to_owned() } else { name.to_owned() }
    }
}
