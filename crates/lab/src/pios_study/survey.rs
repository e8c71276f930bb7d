//! The surveys of the study, with the engine of 2007 and with zinc's defaults, and the three things
//! it left open.
//!
//! What the units can do is measured without an engine, with as many I/Os under way as zinc keeps;
//! what the processors can do follows from their model. The hardware's limit is the lower of both.

use super::bench::Setup;
use super::{NOISE, OF_THE_LIMIT, REGIONS, bench, engine_of_2007, machine, measure, zinc};
use crate::experiment::{Bound, Chart, LabError, Outcome, Row, Series, Setting};
use engine::live::Tunable;

/// zinc's bytes in flight, as I/Os of 1 MiB to the bare units.
const DEPTH: u64 = 64;

/// What the surveys say.
pub(super) struct Found {
    /// The best throughput with zinc's defaults, in MiB/s.
    pub(super) best: f64,
    /// The part of the bare units' limit that it is.
    pub(super) of_limit: f64,
    /// What large blocks gain, in MiB/s.
    pub(super) large_blocks_gain: f64,
}

type Points = Vec<(f64, f64)>;

struct Survey<'a> {
    setting: &'a Setting,
    regions: u64,
}

impl Survey<'_> {
    /// Throughput for each value of `x`.
    fn points(
        &self,
        what: &str,
        xs: &[u64],
        setup: impl Fn(u64) -> Setup,
    ) -> Result<Points, LabError> {
        let point = |x: &u64| {
            (self.setting.progress)(&format!("{what}: {x}"));
            let setup = setup(*x).with_plan(|p| p.regions = self.regions);
            Ok((*x as f64, measure(&setup)?.mib_per_second()))
        };
        xs.iter().map(point).collect()
    }
}

fn series(name: &str, points: &Points) -> Series {
    Series { name: name.to_owned(), points: points.clone() }
}

fn chart(title: &str, x: &str, series: Vec<Series>) -> Chart {
    let y = "MiB/s".to_owned();
    Chart { title: title.to_owned(), x: x.to_owned(), y, x_log: true, bars: false, series }
}

/// The least of y over the most of the ys at smaller x: 1 when nothing ever falls.
fn least_kept(points: &Points) -> f64 {
    let mut most = 0.0f64;
    let mut kept = 1.0f64;
    for (_, y) in points {
        most = most.max(*y);
        kept = kept.min(y / most);
    }
    kept
}

fn last(points: &Points) -> f64 {
    points.last().map_or(0.0, |p| p.1)
}

pub(super) fn run(setting: &Setting, out: &mut Outcome) -> Result<Found, LabError> {
    let regions = ((REGIONS as f64 * setting.scale) as u64).clamp(4, REGIONS);
    let survey = Survey { setting, regions };
    // Few points where little is written: a test.
    let few = regions < 8;
    let pick = |all: &'static [u64], some: &'static [u64]| if few { some } else { all };
    let threads = pick(&[1, 2, 4, 8, 16, 32, 64], &[1, 4, 64]);
    let luns = pick(&[1, 2, 4, 6, 8, 12], &[1, 2, 12]);
    let leaves = pick(&[1, 2, 4, 8, 16, 32], &[1, 4, 32]);

    let by_threads = survey
        .points("zinc, threads", threads, |n| zinc().with_plan(|p| p.threads = n as usize))?;
    let by_luns = survey.points("zinc, units", luns, |n| Setup { luns: n as usize, ..zinc() })?;
    let by_leaves = survey
        .points("zinc, leaf-sync threads", leaves, |n| zinc().tuned(Tunable::LeafSyncThreads, n))?;
    let limit = |n: u64| {
        let bare = bench::bare(n as usize, machine::units(), 1 << 20, 2048, DEPTH);
        Ok((n as f64, bare.map_err(|e| LabError::new("the bare units failed", e))?))
    };
    let limits: Points = luns.iter().map(|n| limit(*n)).collect::<Result<_, LabError>>()?;
    let part_of_limit = |((_, y), (_, limit)): (&(f64, f64), &(f64, f64))| y / limit;
    let of_limit = by_luns.iter().zip(&limits).map(part_of_limit).fold(1.0, f64::min);
    let blocks: [u64; 4] = [128 << 10, 256 << 10, 512 << 10, 1 << 20];
    let blocks = if few { &[blocks[0], blocks[3]][..] } else { &blocks[..] };
    let by_block =
        survey.points("zinc, block size", blocks, |n| zinc().with_plan(|p| p.block_size = n))?;

    let mut solved = |row: &str, measured: f64, least: f64| {
        let (row, bound) = (format!("zinc's defaults: {row}"), Bound::AtLeast);
        out.rows.push(Row { row, unit: "", published: Some(least), measured, bound });
    };
    solved("most threads kept of the best of fewer", least_kept(&by_threads), 1.0 - NOISE);
    solved("units kept of the best of fewer", least_kept(&by_luns), 1.0 - NOISE);
    solved("units, least part of the hardware's limit", of_limit, OF_THE_LIMIT);
    solved("leaf-sync threads kept of the best of fewer", least_kept(&by_leaves), 1.0 - NOISE);

    let mut charts = Vec::new();
    let mut by = |title: &str, x: &str, lines: Vec<Series>| charts.push(chart(title, x, lines));
    let mut of_2007 = vec![Vec::new(); 5];
    if !few {
        of_2007[0] = survey.points("2007, threads", threads, |n| {
            engine_of_2007(8, 1).with_plan(|p| p.threads = n as usize)
        })?;
        of_2007[1] = survey.points("2007, units", luns, |n| Setup {
            luns: n as usize,
            ..engine_of_2007(8, 1).with_plan(|p| p.block_size = 128 << 10)
        })?;
        let zio = [1, 2, 4, 8, 12, 16, 24, 32];
        of_2007[2] = survey.points("2007, zio threads", &zio, |n| engine_of_2007(n, 1))?;
        of_2007[3] = survey.points("2007, leaf-sync threads", leaves, |n| engine_of_2007(16, n))?;
        of_2007[4] = survey.points("2007, block size", blocks, |n| {
            engine_of_2007(8, 1).with_plan(|p| p.block_size = n)
        })?;
    }
    let both = |zinc: &Points, old: &Points| {
        let mut lines = vec![series("zinc", zinc)];
        if !old.is_empty() {
            lines.push(series("settings of 2007", old));
        }
        lines
    };
    by("Application threads", "threads", both(&by_threads, &of_2007[0]));
    let mut lines = both(&by_luns, &of_2007[1]);
    lines.push(series("bare units", &limits));
    by("Units in the pool", "units", lines);
    by("Leaf-sync threads", "threads", both(&by_leaves, &of_2007[3]));
    let kib = |points: &Points| points.iter().map(|(x, y)| (x / 1024.0, *y)).collect();
    by("Block size", "KiB", both(&kib(&by_block), &kib(&of_2007[4])));
    if !few {
        by("zio threads", "threads", vec![series("settings of 2007", &of_2007[2])]);
        let unsummed = survey.points("2007, no checksums", &[4], |n| Setup {
            checksum: false,
            ..engine_of_2007(8, 1).with_plan(|p| p.threads = n as usize)
        })?;
        let summed = of_2007[0].iter().find(|(x, _)| *x == 4.0).map_or(0.0, |p| p.1);
        out.rows.push(Row {
            row: "settings of 2007: gain without checksums".to_owned(),
            unit: "MiB/s",
            published: None,
            measured: last(&unsummed) - summed,
            bound: Bound::Shown,
        });
    }
    out.charts = charts;
    let first = by_block.first().map_or(0.0, |p| p.1);
    let best = by_luns.iter().chain(&by_threads).map(|p| p.1).fold(0.0, f64::max);
    Ok(Found { best, of_limit, large_blocks_gain: last(&by_block) - first })
}
