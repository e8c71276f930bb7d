//! How vdevs are named: the options `-P`, `-L` and `-g`.

use engine::Pool;
use engine::ondisk::config::{VdevConfig, VdevKind};
use engine::pool::{VdevTreeView, VdevView};
use std::path::Path;

/// Which names to show.
#[derive(clap::Args, Clone, Copy)]
pub struct Naming {
    /// Full paths of devices
    #[arg(short = 'P')]
    full: bool,
    /// Paths with symbolic links followed
    #[arg(short = 'L')]
    follow: bool,
    /// Guids instead of names
    #[arg(short = 'g')]
    guid: bool,
}

impl Naming {
    /// Gives every vdev of the view the name that was asked for.
    pub fn apply(self, pool: &Pool, view: &mut VdevTreeView) {
        for section in &mut view.sections {
            self.rename(pool, section);
        }
    }

    // Depth is bounded: the configuration's decoder limits it.
    fn rename(self, pool: &Pool, vdevs: &mut [VdevView]) {
        for v in vdevs {
            let aux = || pool.spares().iter().chain(pool.l2cache()).find(|c| c.guid == v.guid);
            let config = pool.config().vdev_tree.find(v.guid).or_else(aux);
            v.name = self.name(config, v);
            self.rename(pool, &mut v.children);
        }
    }

    fn name(self, config: Option<&VdevConfig>, v: &VdevView) -> String {
        if self.guid {
            return v.guid.to_string();
        }
        if !v.name.starts_with('/') {
            return v.name.clone();
        }
        let followed = || Path::new(&v.name).canonicalize().ok();
        let path = match self.follow.then(followed).flatten() {
            Some(p) => p.display().to_string(),
            None => v.name.clone(),
        };
        if self.full || v.kind != VdevKind::Disk {
            return path;
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        let whole = config.and_then(|c| c.whole_disk) == Some(true);
        if whole { without_partition(name).to_owned() } else { name.to_owned() }
    }
}

/// The disk's name of a whole disk's first partition: `sda1`, `nvme0n1p1`, `x-part1`.
fn without_partition(name: &str) -> &str {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if base.len() == name.len() {
        return name;
    }
    if let Some(disk) = base.strip_suffix("-part") {
        return disk;
    }
    let numbered = |d: &&str| d.ends_with(|c: char| c.is_ascii_digit());
    if let Some(disk) = base.strip_suffix('p').filter(numbered) {
        return disk;
    }
    let lettered = ["sd", "hd", "vd", "xvd"].iter().any(|p| base.starts_with(p));
    if lettered { base } else { name }
}

#[cfg(test)]
mod tests {
    use super::without_partition;

    #[test]
    fn partitions() {
        for (name, disk) in [
            ("sda1", "sda"),
            ("nvme0n1p1", "nvme0n1"),
            ("ata-DISK_42-part1", "ata-DISK_42"),
            ("nvme0n1", "nvme0n1"),
            ("vdb", "vdb"),
            ("img0", "img0"),
        ] {
            assert_eq!(without_partition(name), disk);
        }
    }
}
