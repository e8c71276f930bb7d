//! What the study published (`shared/seeds/004`, illumos bug 7104).

/// One read case with one size of indirect blocks.
pub(super) struct Read {
    pub(super) reads: u64,
    /// Blocks between places that may be read.
    pub(super) alignment: u64,
    pub(super) indirect_kib: u64,
    /// Reads of the application in a second.
    pub(super) iops: f64,
    /// I/Os of levels 0, 1, 2.
    pub(super) ios: [f64; 3],
    /// KiB of levels 0, 1, 2.
    pub(super) kib: [f64; 3],
}

/// Blocks of the file, of 8 KiB each.
pub(super) const BLOCKS: u64 = 10_000_000;

/// The read cases, two sizes of indirect blocks each.
pub(super) const READS: [Read; 4] = [
    Read {
        reads: 9_700,
        alignment: 1024,
        indirect_kib: 16,
        iops: 583.0,
        ios: [6176.0, 6176.0, 611.0],
        kib: [49_408.0, 6176.0, 4317.0],
    },
    Read {
        reads: 9_700,
        alignment: 1024,
        indirect_kib: 128,
        iops: 665.0,
        ios: [6190.0, 6190.0, 10.0],
        kib: [49_520.0, 34_045.0, 537.0],
    },
    Read {
        reads: 97_000,
        alignment: 128,
        indirect_kib: 16,
        iops: 700.0,
        ios: [55_811.0, 55_811.0, 611.0],
        kib: [446_488.0, 55_811.0, 4317.0],
    },
    Read {
        reads: 97_000,
        alignment: 128,
        indirect_kib: 128,
        iops: 1260.0,
        ios: [55_547.0, 9766.0, 10.0],
        kib: [444_376.0, 53_711.0, 537.0],
    },
];

/// How much faster the larger indirect blocks read, in percent: worst and best case.
pub(super) const GAIN_PERCENT: [f64; 2] = [14.0, 80.0];

/// A write case.
pub(super) struct Write {
    pub(super) compression: &'static str,
    pub(super) compress_ratio: f64,
    pub(super) file_gb: f64,
    pub(super) allocated_percent: f64,
    /// Writes in a second with 16 and 128 KiB.
    pub(super) iops: [f64; 2],
    pub(super) fragmentation_percent: Option<[f64; 2]>,
}

/// The write cases: random writes of 8 KiB by 4 threads, on three disks of 100 GB.
pub(super) const WRITES: [Write; 2] = [
    Write {
        compression: "off",
        compress_ratio: 1.0,
        file_gb: 240.0,
        allocated_percent: 80.0,
        iops: [1100.0, 1150.0],
        fragmentation_percent: None,
    },
    Write {
        compression: "lz4",
        compress_ratio: 2.90,
        file_gb: 700.0,
        allocated_percent: 75.0,
        iops: [850.0, 940.0],
        fragmentation_percent: Some([95.0, 85.0]),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of `key = [..]`, `key = {..}` or `key = n`, of every line of a section.
    fn numbers(text: &str, section: &str, key: &str) -> Vec<Vec<f64>> {
        let mut inside = false;
        let mut out = Vec::new();
        for line in text.lines().map(|l| l.split('#').next().unwrap_or(l).trim()) {
            if line.starts_with('[') {
                inside = line == format!("[[{section}]]");
            }
            let value = line.strip_prefix(key).and_then(|l| l.trim_start().strip_prefix('='));
            if let Some(value) = value.filter(|_| inside) {
                let inner = value.trim().trim_matches(|c| "{}".contains(c));
                let value =
                    |part: &str| part.rsplit('=').next().and_then(|n| n.trim().parse().ok());
                out.push(inner.split(',').filter_map(value).collect());
            }
        }
        out
    }

    #[test]
    fn the_table_is_the_published_one() {
        let text = crate::DOCUMENTS;
        let [iops, ios, kib] = ["iops", "ios", "kib"].map(|k| numbers(text, "indirect.read", k));
        assert_eq!(iops.len(), READS.len());
        for (at, read) in READS.iter().enumerate() {
            // There by falling level.
            let turned = |v: &[f64]| v.iter().rev().copied().collect::<Vec<_>>();
            assert_eq!(vec![read.iops], iops[at]);
            assert_eq!(
                (read.ios.to_vec(), read.kib.to_vec()),
                (turned(&ios[at]), turned(&kib[at]))
            );
        }
        let writes = numbers(text, "indirect.write", "iops");
        assert_eq!(WRITES.map(|w| w.iops.to_vec()).to_vec(), writes);
    }
}
