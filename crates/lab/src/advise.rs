//! What to set for a pool, and why: from what is in it, what it lies on, and what its disks cost.
//!
//! The rules are those of the studies. A record costs a seek whatever its size; at the size that
//! takes as long to transfer as to reach, half of the disk's time is spent on bytes, and larger
//! records gain less than half of it. Indirect blocks pay by what one of them spans, as long as the
//! table of pointers does not fit into memory. Requests under way pay until the disk serves no
//! more of them in a second.

use crate::disk::{Preset, Spec};
use crate::error::LabError;
use crate::raw_disk::Fitted as _;
use crate::raw_disk::{ModelDisk, StopAt, in_a_row, pace};
use engine::Pool;
use engine::inside::check;
use engine::inside::check::{CheckOptions, Verify};
use engine::inside::device::ModelKind;
use engine::inside::rt::{Progress, Rng, Xoshiro256};
use serde_json::{Value, json as value};
use std::fmt::Write as _;

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Blocks of files and volumes.
    pub blocks: u64,
    /// Their bytes as written by programs.
    pub logical: u64,
    /// Their bytes as stored.
    pub physical: u64,
    /// Disks.
    pub disks: usize,
}

/// What a disk costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Milliseconds of a random read of 4 KiB.
    pub random_ms: f64,
    /// Sustained rate, in bytes a second.
    pub bytes_per_second: f64,
    /// Requests under way from which on more of them bring nothing.
    pub depth: usize,
}

impl Costs {
    /// Seconds of a random read of this many bytes.
    fn of(&self, bytes: f64) -> f64 {
        self.random_ms * 1e-3 + bytes / self.bytes_per_second
    }
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to set.
    pub set: String,
    /// Why.
    pub because: String,
}

/// The advice for the pool of this name as text; `is_given`: the user chose the disk.
#[must_use]
pub fn text(pool: &str, disk: &Preset, is_given: bool, advice: &[Advice]) -> String {
    let how = if is_given { "as you say" } else { "assumed; see --disk" };
    let mut out = format!("{pool}: disks like {} ({how})\n", disk.description);
    for advice in advice {
        let _ = write!(out, "\n{}\n    because {}\n", advice.set, advice.because);
    }
    out
}

/// The same as JSON.
#[must_use]
pub fn json(pool: &str, disk: &Preset, advice: &[Advice]) -> Value {
    let one = |advice: &Advice| value!({ "set": advice.set, "because": advice.because });
    let advice: Vec<Value> = advice.iter().map(one).collect();
    value!({ "pool": pool, "disk": disk.name, "advice": advice })
}

/// Looks at a pool: its metadata is walked, its data is not read.
#[must_use]
pub fn look(pool: &Pool) -> Facts {
    let options = CheckOptions { verify: Verify::Metadata, ..CheckOptions::default() };
    let report = check::run(pool, &options, &Progress::new());
    let data = report.totals.sum_of(|kind, level| {
        level == 0 && ["ZFS plain file", "zvol object"].contains(&kind.name())
    });
    Facts {
        blocks: data.count,
        logical: data.logical,
        physical: data.physical,
        disks: pool.vdevs().leaves().count(),
    }
}

/// Measures a model.
///
/// # Errors
/// When the model fails.
pub fn costs(preset: &Preset) -> Result<Costs, LabError> {
    let fail = |e| LabError::new("the simulated disk failed", e);
    let size = preset.capacity_bytes;
    let mut rng = Xoshiro256::seeded(1);
    let mut random = move || rng.below(size / 4096) * 4096;
    let mut disk = ModelDisk::new(preset, 1);
    let many = |count| StopAt { seconds: f64::MAX, count };
    let alone = pace(&mut disk, ModelKind::Read, 4096, many(2000), &mut random).map_err(fail)?;
    let row = in_a_row(size, 1 << 20);
    let rate = pace(&mut disk, ModelKind::Read, 1 << 20, many(500), row).map_err(fail)?;
    let mut rates = Vec::new();
    for depth in [1, 2, 4, 8, 16, 32, 64, 128] {
        let offsets: Vec<u64> = (0..4000).map(|_| random()).collect();
        let seconds = disk.read_many(depth, 4096, &offsets).map_err(fail)?;
        rates.push((depth, offsets.len() as f64 / seconds.max(1e-9)));
    }
    let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let depth = rates.iter().find(|(_, rate)| *rate >= 0.9 * best).map_or(1, |(depth, _)| *depth);
    Ok(Costs {
        random_ms: 1e3 / alone.per_second().max(1e-9),
        bytes_per_second: rate.mib_per_second() * f64::from(1 << 20),
        depth,
    })
}

/// Part of the disk's time that is spent on bytes with records of this size at random places.
fn use_of(costs: &Costs, record: f64) -> f64 {
    let bytes = record / costs.bytes_per_second;
    bytes / (bytes + costs.random_ms * 1e-3)
}

/// The size of records, for files that are read whole and for those that are not.
fn records(facts: &Facts, costs: &Costs) -> Vec<Advice> {
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let mut advice = Vec::new();
    let half = costs.random_ms * 1e-3 * costs.bytes_per_second;
    let record = 2f64.powf(half.log2().ceil()).clamp(131_072.0, 1_048_576.0);
    let mut because = format!(
        "a random read takes {:.2} ms and bytes pass at {:.0} MB/s, so {} take as long to reach as \
         to read; with {} the disk spends {} of its time on bytes",
        costs.random_ms,
        costs.bytes_per_second / 1e6,
        kib(half),
        kib(record),
        percent(use_of(costs, record)),
    );
    if facts.blocks > 0 {
        let mean = facts.logical as f64 / facts.blocks as f64;
        because += &format!(
            "; the {} data blocks there are have {} each on average, which gives {}",
            facts.blocks,
            kib(mean),
            percent(use_of(costs, mean)),
        );
    }
    advice.push(Advice {
        set: format!("recordsize={} where files are read and written whole", kib(record)),
        because,
    });
    let small = 8192.0;
    advice.push(Advice {
        set: "recordsize = the program's own block where it reads at random (databases)".to_owned(),
        because: format!(
            "8 KiB out of a record of {} cost {:.1} times what they cost alone, and a change of \
             them rewrites all of it",
            kib(record),
            costs.of(record) / costs.of(small),
        ),
    });
    advice
}

fn kib(bytes: f64) -> String {
    format!("{:.0} KiB", bytes / 1024.0)
}

/// The size of blocks of pointers, where there is data.
fn pointers(facts: &Facts, costs: &Costs, memory: u64) -> Advice {
    let table = facts.blocks as f64 * 128.0;
    let because = match table <= memory as f64 / 4.0 {
        true => format!(
            "the pointers to all data take {} and stay in the cache, so their size does not matter \
             for reads; large ones are fewer to write",
            kib(table),
        ),
        false => format!(
            "the pointers to all data take {}, more than a quarter of memory; one block of 128 KiB \
             brings those of 1024 neighbours for {:.1} times the cost of 128",
            kib(table),
            costs.of(131_072.0) / costs.of(16384.0),
        ),
    };
    Advice { set: "zfs_default_ibs=17 (128 KiB indirect blocks)".to_owned(), because }
}

/// What to set, and why; `memory` is what the cache may hold.
#[must_use]
pub fn advise(facts: &Facts, costs: &Costs, preset: &Preset, memory: u64) -> Vec<Advice> {
    let mut advice = records(facts, costs);
    advice.extend((facts.blocks > 0).then(|| pointers(facts, costs, memory)));
    advice.push(Advice {
        set: format!(
            "zfs_vdev_async_read_max_active and zfs_vdev_scrub_max_active up to {}",
            costs.depth
        ),
        because: format!(
            "with {} requests under way the disk serves 90 % of the most it can in a second; there \
             are {} disks, each with a queue of its own",
            costs.depth, facts.disks,
        ),
    });
    if let Spec::Rotating(spec) = &preset.disk {
        advice.push(Advice {
            set: "a log device, if programs wait for their writes".to_owned(),
            because: format!(
                "at {:.0} rotations a minute a synchronous write that comes too late for its place \
                 waits {:.1} ms for it",
                spec.rpm,
                60e3 / spec.rpm,
            ),
        });
    }
    let ratio = facts.logical as f64 / facts.physical.max(1) as f64;
    if facts.blocks > 0 && ratio < 1.05 {
        advice.push(Advice {
            set: "compression=lz4, if the data is not compressed already".to_owned(),
            because: format!("data is stored at a ratio of {ratio:.2}: none, or not compressible"),
        });
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::preset;

    #[test]
    fn slow_disks_want_large_records_and_fast_ones_do_not_care() {
        let facts = Facts { blocks: 1000, logical: 1000 << 17, physical: 1000 << 17, disks: 3 };
        let advice = |name: &str| {
            let Some(preset) = preset(name) else { panic!("no preset {name}") };
            let costs = costs(&preset).unwrap_or_else(|e| panic!("{e}"));
            (costs, advise(&facts, &costs, &preset, 8 << 30))
        };
        let (disk, slow) = advice("hdd-16t");
        assert!((10.0..14.0).contains(&disk.random_ms), "{disk:?}");
        assert!(slow[0].set.starts_with("recordsize=1024 KiB"), "{slow:?}");
        assert!(slow.iter().any(|a| a.set.contains("log device")));
        let (disk, fast) = advice("nvme");
        assert!(disk.random_ms < 0.1 && disk.depth >= 32, "{disk:?}");
        assert!(fast[0].set.starts_with("recordsize=512 KiB") || fast[0].set.contains("=128 KiB"));
        assert!(!fast.iter().any(|a| a.set.contains("log device")));
        let Some(preset) = preset("nvme") else { panic!("no preset") };
        let empty = Facts { blocks: 0, logical: 0, physical: 0, disks: 1 };
        let text = format!("{:?}", advise(&empty, &disk, &preset, 8 << 30));
        assert!(!text.contains(" 0 KiB") && text.contains("recordsize"), "{text}");
    }
}
