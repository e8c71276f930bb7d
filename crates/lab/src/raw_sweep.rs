//! raw-sweep: how large must single synchronous writes to a bare disk be to use its bandwidth?
//!
//! The first study wrote to a raw disk whose write cache was off, one `write` at a time, with sizes
//! from 16 KiB to 32 MiB. Each write is on the platter before the next is issued, which then finds
//! that its place has just passed under the head: whatever the size, a rotation is lost with each.
//! With the write cache on, 16 KiB suffice, but then the data is not on the platter.
//!
//! Each size is written for as long as the study's script summed up, so that the bytes can be
//! compared too. The study corrected three of its rates after its driver had been allowed transfers
//! of 8 MiB, but not their bytes: those and the rates "was 46", "was 46" and "was 47" are of a
//! driver that makes pieces of 1 MiB, which is what agrees with them. The bytes of the two sizes
//! that were new then do not agree with the rates in the same lines. Both readings are rows, and
//! stand beside each other in a text.
//!
//! On a device of this machine the writes ask for safety (`O_DSYNC`) instead of a cache that is
//! switched off, and the rows of the cache do not.
//!
//! In a pool (`in_pool.rs`) it is a volume that is written, whose writes are durable together.

mod in_pool;
mod rows;

use crate::disk::Preset;
use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::outcome::{Chart, Outcome, Series};
use crate::parameter::{Origin, Parameter};
use crate::raw_disk::{Access, FileDisk, ModelDisk, Pace, RawDisk, StopAt, in_a_row, pace};
use crate::target::Target;
use engine::inside::device::ModelKind;

#[cfg(test)]
pub(crate) use rows::sample;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "raw-sweep",
    about: "single synchronous writes to a bare disk, by size",
    preset: "hitachi-dk32ej36n",
    memory_mib: 512,
    seconds: 1,
    on_device: OnDevice::Writes,
    numbers: &[],
    run,
};

/// A line of the study's table.
struct Published {
    kib: u64,
    /// 2^20 bytes in a second; printed cut off to integers, as all figures are.
    mb_per_s: f64,
    /// What it was before it was corrected.
    was: Option<f64>,
    mb: f64,
    ms: f64,
}

impl Published {
    /// What the bytes and the time of the line give.
    fn by_its_bytes(&self) -> f64 {
        1e3 * self.mb / self.ms
    }

    /// Whether that is another rate than the line's, which is printed cut off to an integer.
    fn contradicts_itself(&self) -> bool {
        let cut_off = self.mb_per_s..self.mb_per_s + 1.0;
        !cut_off.contains(&self.by_its_bytes())
    }
}

const fn line(kib: u64, mb: f64, ms: f64, mb_per_s: f64, was: Option<f64>) -> Published {
    Published { kib, mb_per_s, was, mb, ms }
}

const PUBLISHED: [Published; 12] = [
    line(16, 8.0, 3576.0, 2.0, None),
    line(32, 9.0, 1861.0, 4.0, None),
    line(64, 31.0, 3450.0, 8.0, None),
    line(128, 78.0, 4932.0, 15.0, None),
    line(256, 124.0, 4903.0, 25.0, None),
    line(512, 178.0, 4868.0, 36.0, None),
    line(1024, 226.0, 4824.0, 46.0, None),
    line(2048, 226.0, 4816.0, 54.0, Some(46.0)),
    line(4096, 32.0, 686.0, 58.0, Some(46.0)),
    line(8192, 224.0, 4741.0, 59.0, Some(47.0)),
    line(16384, 272.0, 4336.0, 58.0, None),
    line(32768, 288.0, 4327.0, 59.0, None),
];
/// With the write cache on, from 16 KiB on.
const PUBLISHED_CACHED: f64 = 66.0;
/// Seconds that 8 MiB take to pass the head, as the study estimates.
const PUBLISHED_TRANSFER: f64 = 0.13;
/// The longest transfer of the driver before it was told to make longer ones.
const MAXPHYS: u64 = 1 << 20;

/// Virtual time of a size for which the study has none.
const SIM_SECONDS: f64 = 5.0;
/// A size is enough when it reaches this part of the best.
const ENOUGH: f64 = 0.95;

/// What is measured of a size.
struct Size {
    published: &'static Published,
    safe: Pace,
    cached: Option<Pace>,
    /// With transfers of 1 MiB.
    uncorrected: Option<Pace>,
}

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    if let Target::Pool(_) = target {
        return in_pool::run(target, setting);
    }
    // Before the first write, which changes them.
    let mut texts = target.caveats()?;
    let mut sizes = Vec::new();
    for published in &PUBLISHED {
        sizes.push(size(target, setting, published)?);
    }
    texts.push((
        "As the study's script prints it, after the correction".to_owned(),
        rows::script(&sizes),
    ));
    let readings = rows::readings(&sizes);
    texts.push(("Lines of the study that contradict themselves".to_owned(), readings));
    if let Target::Device { path, .. } = target {
        let fio = format!(
            "fio --name=raw-sweep --filename={} --rw=write --ioengine=psync --direct=1 \\\n    \
             --sync=dsync --runtime={}ms --time_based --bs=16k    (and the other sizes; without \
             --sync for the rows of the cache)\n",
            path.display(),
            setting.milliseconds(),
        );
        texts.push(("The same with fio".to_owned(), fio));
    }
    let points = |of: fn(&Size) -> Option<Pace>| {
        let point = |s: &Size| Some((s.published.kib as f64, of(s)?.mib_per_second()));
        sizes.iter().filter_map(point).collect::<Vec<_>>()
    };
    let mut chart = chart("Bandwidth of single synchronous writes", points(|s| Some(s.safe)));
    chart.series.push(Series { name: "write cache on".to_owned(), points: points(|s| s.cached) });
    let outcome = Outcome {
        rows: rows::rows(&sizes, setting.scale >= 1.0),
        parameters: parameters(target, setting),
        charts: vec![chart],
        texts,
        meaning: rows::meaning,
        ..Outcome::new(EXPERIMENT.name, target.describe(&EXPERIMENT))
    };
    Ok(if target.is_the_study_s(&EXPERIMENT) { outcome } else { outcome.elsewhere() })
}

/// All that is measured of a size.
fn size(
    target: &Target,
    setting: &Setting,
    published: &'static Published,
) -> Result<Size, LabError> {
    let len = published.kib << 10;
    setting.step(&format!("writes of {} KiB", published.kib))?;
    let seconds = published.ms / 1e3;
    let safe = measure(target, setting, WritePattern { len, safe: true, seconds, pieces: None })?;
    // A file's cache is the host's: one size says it.
    let cached = matches!(target, Target::Sim(_)) || published.kib == 16;
    let cached = cached
        .then(|| measure(target, setting, WritePattern { len, safe: false, seconds, pieces: None }))
        .transpose()?;
    let uncorrected = matches!(target, Target::Sim(_)) && published.was.is_some();
    let pieces = Some(MAXPHYS);
    let uncorrected = uncorrected
        .then(|| measure(target, setting, WritePattern { len, safe: true, seconds, pieces }))
        .transpose()?;
    Ok(Size { published, safe, cached, uncorrected })
}

/// What the model was given.
fn parameters(target: &Target, setting: &Setting) -> Vec<Parameter> {
    let Some(preset) = target.preset(&EXPERIMENT) else { return Vec::new() };
    let mut all = preset.parameters();
    let pieces = Origin::Fitted("2048 to 8192 KiB: before the correction");
    let name = "transfer of the driver before the correction";
    all.push(Parameter::new(name, MAXPHYS as f64, "bytes", pieces));
    all.push(Parameter::new("requests under way", 1.0, "", Origin::Study));
    all.push(setting.part("part of the study's time", setting.scale, ""));
    all
}

/// MB/s by KiB, beside the study's.
fn chart(title: &str, points: Vec<(f64, f64)>) -> Chart {
    let study = PUBLISHED.iter().map(|p| (p.kib as f64, p.mb_per_s)).collect();
    Chart {
        title: title.to_owned(),
        x: "size of a write (KiB)".to_owned(),
        y: "MB/s (2^20)".to_owned(),
        x_log: true,
        bars: false,
        series: vec![
            Series { name: "measured".to_owned(), points },
            Series { name: "study".to_owned(), points: study },
        ],
    }
}

/// How a size is written.
#[derive(Clone, Copy)]
struct WritePattern {
    len: u64,
    /// Whether a write is on the platter when it ends.
    safe: bool,
    /// Virtual time.
    seconds: f64,
    /// The longest transfer of the driver, where it is not the preset's.
    pieces: Option<u64>,
}

/// Writes of one size, one at a time, in a row from the beginning.
fn measure(target: &Target, setting: &Setting, way: WritePattern) -> Result<Pace, LabError> {
    let WritePattern { len, safe, .. } = way;
    let mut disk: Box<dyn RawDisk> = match target {
        Target::Device { path, .. } => {
            let access = if safe { Access::WriteSafely } else { Access::Write };
            Box::new(FileDisk::open(path, access)?)
        }
        _ => {
            let mut preset = cached(target, !safe)?;
            preset.host.max_transfer_bytes = way.pieces.unwrap_or(preset.host.max_transfer_bytes);
            Box::new(ModelDisk::new(&preset, setting.seed))
        }
    };
    let size = disk.size();
    if size < len {
        return Err(LabError::new("the device is too small", format_args!("{size} bytes"))
            .hint("32 MiB are the least; more than the disk's cache give sensible figures"));
    }
    let seconds = match target {
        Target::Sim(_) => way.seconds * setting.scale.clamp(0.001, 1.0),
        _ => setting.seconds,
    };
    let failed = |e| LabError::new(format!("a write of {len} bytes failed"), e);
    let mut next = in_a_row(size, len);
    if let Target::Sim(_) = target {
        // The study's writer was under way when its script began to count.
        let one = StopAt { seconds: f64::MAX, count: 1 };
        pace(&mut *disk, ModelKind::Write, len, one, &mut next).map_err(failed)?;
    }
    let until = StopAt { seconds, count: u64::MAX };
    pace(&mut *disk, ModelKind::Write, len, until, next).map_err(failed)
}

/// The KiB of the smallest of the study's writes that reaches this rate on simulated disks.
pub(crate) fn enough_for(
    target: &Target,
    setting: &Setting,
    mib_per_second: f64,
) -> Result<Option<u64>, LabError> {
    for p in &PUBLISHED {
        let way = WritePattern { len: p.kib << 10, safe: true, seconds: SIM_SECONDS, pieces: None };
        if measure(target, setting, way)?.mib_per_second() >= mib_per_second {
            return Ok(Some(p.kib));
        }
    }
    Ok(None)
}

/// The preset with its write cache switched.
fn cached(target: &Target, on: bool) -> Result<Preset, LabError> {
    let none = || LabError::new("no simulated disk", EXPERIMENT.preset);
    let mut preset = target.preset(&EXPERIMENT).ok_or_else(none)?;
    preset.disk.switch_write_cache(on);
    Ok(preset)
}

pub(crate) fn size_in_words(kib: f64) -> String {
    if kib < 1024.0 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024.0) }
}
