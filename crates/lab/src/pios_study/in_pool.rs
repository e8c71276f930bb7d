//! The load of the study in a pool: its three profiles, with settings of 2007, and the same load
//! with everything as the pool has it; and what it left open, with real threads: whether more of
//! them, of the application and for leaves, cost throughput. How many devices there are is the
//! pool's.
//!
//! As much as `scale` of the study's 8 GiB is written by each, a twentieth of the free space at
//! most, in files of records of 1 MiB. Times that the study published are shown for as many bytes.

use super::bench::{self, Measured};
use super::survey::least_kept;
use super::{EXPERIMENT, NOISE, PUBLISHED, REGIONS, columns, plan, profile, tunables_of_2007};
use crate::error::LabError;
use crate::experiment::Setting;
use crate::outcome::Outcome;
use crate::pios::{PiosError, Plan, PoolFiles, PoolMethod, profile_table};
use crate::row::{Range, Row};
use crate::stream::StreamError;
use crate::target::Target;
use crate::workspace::{self, OpenWorkspace, Workspace};
use engine::live;
use engine::live::Tunable;

/// Runs whose files are there at the same time: the profiles, the pool as it is, and one of a
/// survey.
const RUNS: u64 = PUBLISHED.len() as u64 + 2;

/// Threads of the application, and threads for leaves.
const THREADS: [u64; 4] = [1, 4, 16, 64];
const LEAVES: [u64; 4] = [1, 2, 4, 32];

impl From<PiosError> for LabError {
    fn from(e: PiosError) -> Self {
        Self { hint: e.hint, ..Self::new(e.what, e.cause.unwrap_or_default()) }
    }
}

pub(super) fn run(target: &Target, setting: &Setting) -> Result<Outcome, LabError> {
    let found = workspace::with_workspace(target, setting, |workspace| {
        let plan = workspace.open(|open| Ok(smaller(open.budget()? / RUNS, setting)))?;
        let mut profiles = Vec::new();
        for p in &PUBLISHED {
            let (zio, leaf) = (p.zio_threads, p.leaf_sync_threads);
            (setting.progress)(&format!("{zio} zio threads, {leaf} leaf-sync threads"));
            let tunables = tunables_of_2007(setting, zio, leaf);
            let name = format!("profile-{zio}-{leaf}");
            profiles.push(workspace.open(|open| load(open, &name, &plan, &tunables))?);
        }
        (setting.progress)("the pool as it is");
        let as_it_is = workspace.open(|open| load(open, "as-it-is", &plan, &[]))?;
        let open = [
            survey(workspace, setting, "threads", THREADS, |n| {
                (Plan { threads: n as usize, ..plan.clone() }, Vec::new())
            })?,
            survey(workspace, setting, "leaf-sync threads", LEAVES, |n| {
                (plan.clone(), vec![(Tunable::LeafSyncThreads, n)])
            })?,
        ];
        Ok((profiles, as_it_is, open, plan.total() as f64 / super::plan().total() as f64))
    })?;
    let (profiles, as_it_is, open, part) = found;
    let place = target.describe(&EXPERIMENT);
    let mut out = Outcome { meaning, ..Outcome::new(EXPERIMENT.name, place) };
    let mib = as_it_is.bytes as f64 / f64::from(1 << 20);
    out.rows.push(Row::own(WRITTEN, "MiB", mib));
    out.rows.push(Row::own("the pool as it is: runtime", "s", as_it_is.time.as_secs_f64()));
    out.rows.push(Row::own(AS_IT_IS, "MiB/s", as_it_is.mib_per_second()));
    for (what, points) in [("threads", &open[0]), ("leaf-sync threads", &open[1])] {
        let row = |(n, rate): &(f64, f64)| Row::own(format!("{n} {what}"), "MiB/s", *rate);
        out.rows.extend(points.iter().map(row));
        let name = format!("{what} kept of the best of fewer");
        out.rows.push(Row::goal(name, "", Range::at_least(1.0 - NOISE), least_kept(points)));
    }
    let (headings, rows) = profile_table(&as_it_is.profile);
    for (published, measured) in PUBLISHED.iter().zip(&profiles) {
        profile(published, measured, part, &mut out);
    }
    out.texts.push(("Profile: the pool as it is".to_owned(), columns(&headings, &rows)));
    Ok(out.elsewhere())
}

/// Names of rows that others refer to.
const WRITTEN: &str = "written in each run";
const AS_IT_IS: &str = "the pool as it is: bandwidth";

fn meaning(outcome: &Outcome) -> String {
    let (Some(mib), Some(as_it_is)) = (outcome.measured(WRITTEN), outcome.measured(AS_IT_IS))
    else {
        return String::new();
    };
    let of_2007 = outcome.rows.iter().filter(|row| row.row.ends_with("threads: bandwidth"));
    let best = of_2007.map(Row::measured).fold(0.0, f64::max);
    format!(
        "{mib:.0} MiB in records of 1 MiB by {} threads in {}: {as_it_is:.0} MiB/s with the pool \
         as it is, {best:.0} MiB/s with the best of the study's three settings of 2007. Runs that \
         end within a few txgs say little: a larger --scale says more.",
        plan().threads,
        outcome.place,
    )
}

/// What the load reaches with each number of something, in MiB a second.
fn survey(
    workspace: &Workspace<'_>,
    setting: &Setting,
    what: &str,
    numbers: impl IntoIterator<Item = u64>,
    with: impl Fn(u64) -> (Plan, Vec<(Tunable, u64)>),
) -> Result<Vec<(f64, f64)>, LabError> {
    let one = |n: u64| {
        (setting.progress)(&format!("{n} {what}"));
        let (plan, tunables) = with(n);
        let measured = workspace.open(|open| {
            let measured = load(open, "survey", &plan, &tunables)?;
            let gone = open.pool.destroy_dataset(&open.name("survey"));
            gone.map_err(StreamError::from)?;
            Ok(measured)
        })?;
        Ok((n as f64, measured.mib_per_second()))
    };
    numbers.into_iter().map(one).collect()
}

/// The study's load with fewer bytes: regions become shorter, then fewer.
fn smaller(most: u64, setting: &Setting) -> Plan {
    let all = plan();
    let total = ((all.total() as f64 * setting.scale.clamp(0.0, 1.0)) as u64).min(most);
    let blocks = (total / all.block_size).max(1);
    let regions = blocks.min(REGIONS);
    let region_size = blocks / regions * all.block_size;
    let chunk_size = all.chunk_size.min(region_size);
    Plan { regions, region_size, offset: region_size, chunk_size, ..all }
}

fn load(
    open: &OpenWorkspace<'_>,
    name: &str,
    plan: &Plan,
    tunables: &[(Tunable, u64)],
) -> Result<Measured, LabError> {
    let target = PoolFiles::create(open.pool, &open.name(name), plan, PoolMethod::Dmu)?;
    for (tunable, value) in tunables {
        open.pool.set_tunable(live::Setting { tunable: *tunable, value: *value });
    }
    Ok(bench::load(open.pool, &target, plan)?)
}
