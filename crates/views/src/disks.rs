//! Names of disks.

/// The disk's name of a whole disk's first partition: `sda1`, `nvme0n1p1`, `x-part1`.
#[must_use]
pub fn without_partition(name: &str) -> &str {
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
