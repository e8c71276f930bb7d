//! raw-sweep: how large must single synchronous writes to a bare disk be to use its bandwidth?
//!
//! The first study wrote to a raw disk whose write cache was off, one `write` at a time, with sizes
//! from 16 KiB to 32 MiB. Each write is on the platter before the next is issued, which then finds
//! that its place has just passed under the head: whatever the size, a rotation is lost with each.
//! With the write cache on, 16 KiB suffice, but then the data is not on the platter.
//!
//! On a device of this machine the writes ask for safety (`O_DSYNC`) instead of a cache that is
//! switched off, and the last row does not.
//!
//! In a pool (`in_pool.rs`) it is a volume that is written, whose writes are durable together.

mod in_pool;

use crate::bare::{Access, Bare, FileBare, ModelBare, Pace, Until, in_a_row, pace};
use crate::disk::Preset;
use crate::experiment::{
    Bound, Chart, Experiment, LabError, OnDevice, Outcome, Row, Series, Setting,
};
use crate::target::Target;
use engine::device::ModelKind;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "raw-sweep",
    about: "single synchronous writes to a bare disk, by size",
    preset: "hitachi-dk32ej36n",
    on_device: OnDevice::Writes,
    run,
};

/// KiB of a write, and the study's MB/s (2^20 bytes; printed cut off to integers).
const PUBLISHED: [(u64, f64); 12] = [
    (16, 2.0),
    (32, 4.0),
    (64, 8.0),
    (128, 15.0),
    (256, 25.0),
    (512, 36.0),
    (1024, 46.0),
    (2048, 54.0),
    (4096, 58.0),
    (8192, 59.0),
    (16384, 58.0),
    (32768, 59.0),
];
/// With the write cache on, from this size on.
const PUBLISHED_CACHED: (u64, f64) = (16, 66.0);

/// Virtual time for each size: what the study's script summed up.
const SIM_SECONDS: f64 = 5.0;
/// A size is enough when it reaches this part of the best.
const ENOUGH: f64 = 0.95;

fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    target.check(&EXPERIMENT)?;
    if let Target::Pool(_) = target {
        return in_pool::run(target, setting);
    }
    let judged = target.is_the_study_s(&EXPERIMENT);
    let bound = if judged { Bound::WithinOrRounding { part: 0.1 } } else { Bound::Shown };
    let mut rows = Vec::new();
    let mut points = Vec::new();
    // Before the first write, which changes them.
    let mut texts = target.caveats()?;
    for (kib, published) in PUBLISHED {
        (setting.progress)(&format!("writes of {kib} KiB"));
        let measured = measure(target, setting, kib << 10, true)?.mib_per_second();
        points.push((kib as f64, measured));
        let row = format!("{kib} KiB");
        rows.push(Row { row, unit: "MB/s", published: Some(published), measured, bound });
    }
    let (kib, published) = PUBLISHED_CACHED;
    let measured = measure(target, setting, kib << 10, false)?.mib_per_second();
    let row = format!("{kib} KiB, write cache on");
    rows.push(Row { row, unit: "MB/s", published: Some(published), measured, bound });
    if let Target::Device { path, .. } = target {
        let fio = format!(
            "fio --name=raw-sweep --filename={} --rw=write --ioengine=psync --direct=1 \\\n    \
             --sync=dsync --runtime={}ms --time_based --bs=16k    (and the other sizes; without \
             --sync for the last row)\n",
            path.display(),
            setting.milliseconds(),
        );
        texts.push(("The same with fio".to_owned(), fio));
    }
    let meaning = meaning(&points, measured);
    let place = target.describe(&EXPERIMENT);
    let charts = vec![chart("Bandwidth of single synchronous writes", points)];
    Ok(Outcome { experiment: EXPERIMENT.name, place, rows, charts, texts, meaning })
}

/// MB/s by KiB, beside the study's.
fn chart(title: &str, points: Vec<(f64, f64)>) -> Chart {
    let study = PUBLISHED.iter().map(|(kib, mb)| (*kib as f64, *mb)).collect();
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

/// Writes of one size, one at a time, in a row from the beginning.
fn measure(target: &Target, setting: &Setting, len: u64, safe: bool) -> Result<Pace, LabError> {
    let mut disk: Box<dyn Bare> = match target {
        Target::Device { path, .. } => {
            let access = if safe { Access::WriteSafely } else { Access::Write };
            Box::new(FileBare::open(path, access)?)
        }
        _ => Box::new(ModelBare::new(&cached(target, !safe)?, setting.seed)),
    };
    let size = disk.size();
    if size < len {
        return Err(LabError::new("the device is too small", format_args!("{size} bytes"))
            .hint("32 MiB are the least; more than the disk's cache give sensible figures"));
    }
    let seconds = match target {
        Target::Sim(_) => SIM_SECONDS,
        _ => setting.seconds,
    };
    let until = Until { seconds, count: u64::MAX };
    pace(&mut *disk, ModelKind::Write, len, until, in_a_row(size, len))
        .map_err(|e| LabError::new(format!("a write of {len} bytes failed"), e))
}

/// The smallest size of the study's writes that reaches this rate on simulated disks, in words.
pub(crate) fn enough_for(
    target: &Target,
    setting: &Setting,
    mib_per_second: f64,
) -> Result<Option<String>, LabError> {
    for (kib, _) in PUBLISHED {
        if measure(target, setting, kib << 10, true)?.mib_per_second() >= mib_per_second {
            return Ok(Some(size_in_words(kib as f64)));
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

fn size_in_words(kib: f64) -> String {
    if kib < 1024.0 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024.0) }
}

fn meaning(points: &[(f64, f64)], cached: f64) -> String {
    let best = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let enough = points.iter().find(|(_, rate)| *rate >= ENOUGH * best);
    let (size, rate) = enough.copied().unwrap_or_default();
    let size = size_in_words(size);
    format!(
        "Bandwidth saturates at {size}: from there on single synchronous writes reach {:.0} % of \
         the best ({rate:.1} of {best:.1} MB/s). Smaller ones are paid for with waiting, not with \
         bytes: keep several under way, or let the write cache take them ({cached:.0} MB/s with \
         16 KiB, not safe before a flush).",
        ENOUGH * 100.0,
    )
}
