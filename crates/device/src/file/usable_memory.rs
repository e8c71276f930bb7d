//! The memory that this process may use: the machine's, or less in a control group.
//!
//! A control group of either version limits the memory of the processes in it and in the groups
//! below it, so the least limit on the way from the process's own group to the top counts. The
//! directories of version 2 are below `/sys/fs/cgroup`, and their limit is in `memory.max`; those
//! of version 1 are below `/sys/fs/cgroup/memory`, with `memory.limit_in_bytes`. In a container the
//! top of what is visible may be the process's own group under another name, so that directories on
//! the way are missing: those say nothing.

use std::path::{Path, PathBuf};

/// The directories and the file in them that may hold a limit, by a process's `/proc/PID/cgroup`:
/// the process's own group first.
fn places(groups: &str, root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (top, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            all if all.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let own = Path::new(group.trim_start_matches('/'));
        out.extend(own.ancestors().map(|group| top.join(group).join(file)));
    }
    out
}

/// The least limit that control groups set for a process, in bytes; `None` if they set none.
fn limit_of_groups(groups: &str, root: &Path) -> Option<u64> {
    let limit = |place: PathBuf| std::fs::read_to_string(place).ok()?.trim().parse().ok();
    places(groups, root).into_iter().filter_map(limit).min()
}

/// Bytes of memory that this process may use, of the machine's `physical` ones; 0 when that is not
/// known.
pub(super) fn usable(physical: u64) -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match limit_of_groups(&groups, Path::new("/sys/fs/cgroup")) {
        Some(limit) if physical > 0 => limit.min(physical),
        Some(limit) => limit,
        None => physical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of limits below a folder.
    fn root(limits: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (place, limit) in limits {
            let place = root.path().join(place);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, limit).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_on_the_way_to_the_top_counts() {
        let root = root(&[
            ("memory.max", "max\n"),
            ("a/memory.max", "500\n"),
            ("a/b/memory.max", "max\n"),
            ("other/memory.max", "3\n"),
            ("memory/a/memory.limit_in_bytes", "700\n"),
        ]);
        assert_eq!(limit_of_groups("0::/a/b\n", root.path()), Some(500));
        assert_eq!(limit_of_groups("4:memory:/a\n1:cpu:/a\n", root.path()), Some(700));
        assert_eq!(limit_of_groups("4:cpu,memory:/a/x\n0::/a\n", root.path()), Some(500));
        assert_eq!(limit_of_groups("0::/\n1:name=systemd:/other\n", root.path()), None);
        assert_eq!(limit_of_groups("damaged\n::\n\n", root.path()), None);
    }

    #[test]
    fn without_a_limit_it_is_the_machines() {
        assert!(usable(u64::MAX) > 1 << 20);
    }
}
