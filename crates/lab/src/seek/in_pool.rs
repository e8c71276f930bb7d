//! The same reads in a pool: for each size a volume of such blocks, and one read per block. What is
//! asked of a pool that way is what its users choose: a larger record for sequential readers
//! costs random ones.
//!
//! All volumes are written in one visit and read in another, so the cache is empty at first; and no
//! block is read twice: the first half of a volume is read in a row, the second at random, each
//! block once at most. A volume is as large as some seconds of writing make it.

use super::{PUBLISHED, Sizes};
use crate::error::LabError;
use crate::experiment::Setting;
use crate::raw_disk::{Pace, RawDisk as _, StopAt, VolumeDisk, in_a_row, pace};
use crate::stream::{StreamError, WRITE_BYTES};
use crate::target::Target;
use crate::workspace::{self, OpenWorkspace};
use engine::inside::device::ModelKind;
use engine::inside::ondisk::DmuType;
use engine::inside::rt::{Rng as _, Xoshiro256};

/// Seconds of writing for each second of reading.
const WRITING: f64 = 2.0;

/// What a block takes at least, on disks with such sectors.
const SECTOR_BYTES: u64 = 4096;

pub(super) fn measure(
    target: &Target,
    setting: &Setting,
    texts: &mut Vec<(String, String)>,
) -> Result<Vec<Sizes>, LabError> {
    let (sizes, text) = workspace::with_workspace(target, setting, |workspace| {
        let written: Vec<u64> = workspace.open(|open| {
            let part = open.budget()? / PUBLISHED.len() as u64;
            PUBLISHED.iter().map(|p| write(open, setting, p.bytes, part)).collect()
        })?;
        workspace.open(|open| read_all(open, setting, &written))
    })?;
    texts.push(("What was read".to_owned(), text));
    Ok(sizes)
}

/// The name of the volume of a size.
fn name(bytes: u64) -> String {
    format!("of-{bytes}")
}

/// Makes the volume of a size and writes it, for some time; the bytes that were written.
fn write(
    open: &OpenWorkspace<'_>,
    setting: &Setting,
    bytes: u64,
    part: u64,
) -> Result<u64, LabError> {
    setting.step(&format!("writing blocks of {bytes} bytes"))?;
    let size = part / (SECTOR_BYTES / bytes).max(1);
    let volume = open.volume(&name(bytes), size, bytes as u32)?;
    let mut disk = VolumeDisk::new(volume, open.pool.rt())?;
    let len = WRITE_BYTES.min(disk.size());
    let until = StopAt { seconds: setting.seconds * WRITING, count: disk.size() / len };
    let size = disk.size();
    let pace = pace(&mut disk, ModelKind::Write, len, until, in_a_row(size, len))
        .map_err(|e| LabError::new("a write failed", e))?;
    open.pool.sync().map_err(StreamError::from)?;
    Ok(pace.count * len)
}

/// Reads what was written of all volumes.
fn read_all(
    open: &OpenWorkspace<'_>,
    setting: &Setting,
    written: &[u64],
) -> Result<(Vec<Sizes>, String), LabError> {
    let stats = || open.pool.view().block_stats();
    let before = stats();
    let read = |(p, written): (&super::Published, &u64)| {
        setting.step(&format!("reads of blocks of {} bytes", p.bytes))?;
        read(open, setting, p.bytes, *written)
    };
    let sizes: Vec<Sizes> =
        PUBLISHED.iter().zip(written).map(read).collect::<Result<_, LabError>>()?;
    let reads: u64 =
        sizes.iter().flat_map(|s| [s.linear, s.random]).flatten().map(|p| p.count).sum();
    let disks = stats().since(&before).find(DmuType::ZVOL, 0).read.ios;
    let mib: Vec<String> = written.iter().map(|bytes| format!("{}", bytes >> 20)).collect();
    let text = format!(
        "A volume for each size, of {} MiB; {:.0} % of the blocks came from the disks.\n",
        mib.join(", "),
        100.0 * disks as f64 / reads.max(1) as f64,
    );
    Ok((sizes, text))
}

fn read(
    open: &OpenWorkspace<'_>,
    setting: &Setting,
    bytes: u64,
    written: u64,
) -> Result<Sizes, LabError> {
    let volume = open.pool.volume(&open.name(&name(bytes))).map_err(StreamError::from)?;
    let mut disk = VolumeDisk::new(volume, open.pool.rt())?;
    let half = written / bytes / 2;
    let mut reads = |next: &mut dyn FnMut() -> u64| -> Result<Option<Pace>, LabError> {
        let until = StopAt { seconds: setting.seconds, count: half };
        let paced = (half > 0).then(|| pace(&mut disk, ModelKind::Read, bytes, until, next));
        paced.transpose().map_err(|e| LabError::new(format!("a read of {bytes} bytes failed"), e))
    };
    let linear = reads(&mut in_a_row(half * bytes, bytes))?;
    let mut places: Vec<u64> = (half..half * 2).map(|block| block * bytes).collect();
    let mut rng = Xoshiro256::seeded(setting.seed);
    (1..places.len()).for_each(|at| places.swap(at, rng.below(at as u64 + 1) as usize));
    let mut places = places.into_iter();
    let random = reads(&mut || places.next().unwrap_or(0))?;
    Ok(Sizes { bytes, linear, random })
}
