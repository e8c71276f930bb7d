//! H7: how data is spread over two vdevs of unequal size.
//!
//! The study (a change of OpenZFS's metaslab groups, 2015) makes a pool of two files of 128 and
//! 512 MiB, writes 256 MiB with `dd bs=1M count=256`, and shows what `zpool iostat -v` says. There
//! is no time in it: what comes out is decided by the sizes of labels and metaslabs and by the rule
//! that spreads blocks. So this is the engine's own code, and disks of any kind do.

use super::{Published, meaning, row};
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::Outcome;
use crate::parameter::{Origin, Parameter};
use crate::row::{Bound, Kind};
use crate::stream::{self, RECORD_BYTES};
use crate::target::Target;
use engine::inside::device::{SimDisks, WriteDeviceRef};
use engine::inside::rt::Rt;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "h7-unequal-vdevs",
    about: "held out: how data is spread over two vdevs of unequal size",
    preset: "nvme",
    memory_mib: 512,
    seconds: 1,
    on_device: OnDevice::Nothing,
    numbers: &[],
    run,
};

/// Sizes of the two files. The one byte more that the study gave them is not a sector.
const SIZES_MIB: [u64; 2] = [128, 512];
/// What is written.
const WRITTEN_MIB: u64 = 256;
/// Memory of the machine, which decides how large txgs are.
const MEMORY_MIB: u64 = 16 << 10;
/// Dirty data, at most: a tenth of memory.
const DIRTY_MIB: u64 = MEMORY_MIB / 10;
/// Dirty data at which a txg is pushed, in hundredths of the most: the engine of that time did so
/// at 64 MiB, of which today's knob makes 49.
const PUSH_PERCENT: u64 = 64 * 100 / DIRTY_MIB;

/// What the study measured. Of six figures three are independent: how the data are shared out,
/// which is what the small vdev has, and the size of each vdev, which is in what is free of it. How
/// much is written is given.
const PUBLISHED: &[Published] = &[
    // Sums of the two vdevs.
    published("pool: allocated", 252.0).of_kind(Kind::Derived),
    published("pool: free", 375.0).of_kind(Kind::Derived),
    published("small vdev: allocated", 56.7),
    published("small vdev: free", 66.3),
    // What is written is given: the rest of it.
    published("large vdev: allocated", 195.0).of_kind(Kind::Derived),
    published("large vdev: free", 309.0),
];

const fn published(row: &'static str, value: f64) -> Published {
    Published::predicted(row, "MiB", value, Bound::Within(0.05))
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    let none = || LabError::new("no simulated disk", EXPERIMENT.preset);
    let preset = target.preset(&EXPERIMENT).ok_or_else(none)?;
    (setting.progress)("256 MiB over 128 and 512 MiB");
    let space = Rt::simulate(setting.seed, |rt| {
        let site = SimDisks::new(rt);
        let disk = |mib: u64| preset.device(&site, mib << 20, setting.seed) as WriteDeviceRef;
        let disks = SIZES_MIB.map(disk).into();
        let pool = stream::pool(rt, disks, 1, RECORD_BYTES, &tunables())?;
        stream::write_mib(&pool, 0, 0, WRITTEN_MIB, RECORD_BYTES)?;
        pool.sync().map_err(stream::StreamError::from)?;
        let vdevs = pool.stats().vdevs;
        let space = vdevs.iter().filter(|v| v.has_space);
        let space: Vec<(u64, u64)> = space.map(|v| (v.size_bytes, v.allocated_bytes)).collect();
        pool.close().map_err(stream::StreamError::from)?;
        Ok::<_, stream::StreamError>(space)
    })?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut rows = Vec::new();
    for (name, (size, allocated)) in ["pool", "small vdev", "large vdev"].iter().zip(space) {
        let allocated_row = format!("{name}: allocated");
        rows.push(row(PUBLISHED, &allocated_row, "MiB", mib(allocated)));
        rows.push(row(PUBLISHED, &format!("{name}: free"), "MiB", mib(size - allocated)));
    }
    Ok(Outcome {
        rows,
        parameters: parameters(),
        meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    })
}

fn tunables() -> Vec<String> {
    vec![
        format!("zfs_dirty_data_max={}", DIRTY_MIB << 20),
        format!("zfs_dirty_data_sync_percent={PUSH_PERCENT}"),
    ]
}

fn parameters() -> Vec<Parameter> {
    let record = f64::from(RECORD_BYTES >> 10);
    let mib = |name: &str, mib: u64, origin| Parameter::new(name, mib as f64, "MiB", origin);
    vec![
        mib("small vdev", SIZES_MIB[0], Origin::Study),
        mib("large vdev", SIZES_MIB[1], Origin::Study),
        mib("written", WRITTEN_MIB, Origin::Study),
        Parameter::new("record: the default, says the study", record, "KiB", Origin::Study),
        Parameter::choice("compression: the default, says the study", "off", Origin::Study),
        mib("memory of the machine", MEMORY_MIB, Origin::Assumed),
        mib("dirty data that push a txg", PUSH_PERCENT * DIRTY_MIB / 100, Origin::Assumed),
    ]
}
