//! Several experiments, each with its seeds.
//!
//! Simulations do not know of each other, so those of all experiments run at the same time, as
//! many as there are processors. Those that take longest begin first, so that none of them is alone
//! in the end; one that needs more memory than is left waits, and smaller ones go first. The first
//! seed of an experiment makes what all its seeds begin with ([`crate::images`]): while it does, a
//! processor that would wait for it does something else, if there is anything. On a disk or in a
//! pool one follows the other.

use crate::error::LabError;
use crate::experiment::{Experiment, OnDevice, Setting};
use crate::held_out;
use crate::outcome::Outcome;
use crate::target::Target;
use engine::Rt;
use engine::inside::device::KeptMemory;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An experiment that is to run.
pub struct Job {
    /// Which.
    pub experiment: &'static Experiment,
    /// How; its seed is the first one.
    pub setting: Setting,
    /// How many seeds, at least one.
    pub seeds: u64,
}

impl Job {
    fn seeds(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.seeds.max(1)).map(|n| self.setting.seed.wrapping_add(n))
    }

    fn run(&self, target: &Target, seed: u64) -> Result<Outcome, LabError> {
        let ran = (self.experiment.run)(target, &Setting { seed, ..self.setting.clone() });
        let outcome = ran.map_err(|e| e.of(self.experiment.name))?;
        let is_changed = !self.setting.machine.is_empty();
        let outcome = if is_changed { outcome.elsewhere() } else { outcome };
        Ok(Outcome { seeds: vec![seed], is_part: self.setting.is_part(), ..outcome })
    }

    /// Bytes of memory that a seed takes, where it is simulated.
    fn memory(&self) -> u64 {
        let part = self.setting.scale.clamp(0.01, 1.0);
        ((self.experiment.memory_mib << 20) as f64 * part) as u64
    }

    /// Milliseconds that a seed takes.
    fn milliseconds(&self) -> u64 {
        (self.experiment.seconds as f64 * self.setting.scale * 1e3) as u64
    }
}

/// Runs them all; `done` is given what each gave, in their order.
///
/// # Errors
/// Those of the first run that failed.
pub fn run(
    target: &Target,
    jobs: &[Job],
    done: &mut (dyn FnMut(Outcome) + Send),
) -> Result<(), LabError> {
    for job in jobs {
        target.check(job.experiment)?;
        job.experiment.check_machine(&job.setting)?;
    }
    if !matches!(target, Target::Sim(_)) {
        for job in jobs {
            job.setting.check()?;
            let outcomes = job.seeds().map(|seed| job.run(target, seed));
            done(joined(job, outcomes.collect::<Result<_, _>>()?)?);
        }
        return Ok(());
    }
    let queue = Queue::new(jobs, memory_available());
    // Each worker takes what there is for it, so that they are as many as there are runs.
    let workers = 0..jobs.iter().map(|job| job.seeds.max(1)).sum();
    let done = Mutex::new(done);
    Rt::real().for_each_parallel(0, workers, |_| {
        let Some(run) = queue.take() else { return Ok(()) };
        // A run makes up to dozens of pools, one after the other.
        let kept = KeptMemory::new();
        let outcome = jobs[run.job].run(target, run.seed);
        drop(kept);
        queue.give_back(&run, outcome.as_ref().err().is_some());
        // Held while they are told, so that they come in order.
        let mut done = lock(&done);
        let complete = queue.finished(&run, outcome?);
        if queue.has_ended(run.job) {
            jobs[run.job].setting.images.forget();
        }
        for (job, outcomes) in complete {
            done(joined(&jobs[job], outcomes)?);
        }
        Ok(())
    })
}

/// What all seeds gave.
fn joined(job: &Job, outcomes: Vec<Outcome>) -> Result<Outcome, LabError> {
    let none = || LabError::new(job.experiment.name, "no seed ran");
    let all = outcomes.into_iter().reduce(|mut all, one| {
        all.join(one);
        all
    });
    let mut all = all.ok_or_else(none)?;
    held_out::only_what_was_committed(&mut all);
    // What was held out is predicted while it says what was committed, with whatever part.
    let is_held_out = job.experiment.on_device == OnDevice::Nothing;
    Ok(if all.is_part && !is_held_out { all.of_a_part() } else { all })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory that can be used without taking it from others; all there could be where the system does
/// not say.
fn memory_available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

/// One seed of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OneRun {
    job: usize,
    seed: u64,
    memory: u64,
}

/// What waits to be run, and what came out.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// In the order in which they are to begin.
    waiting: Vec<OneRun>,
    /// Jobs of which a run has begun, and the first ones while they are under way.
    begun: BTreeSet<usize>,
    first: Vec<OneRun>,
    /// Runs of each job that have not ended.
    missing: Vec<u64>,
    /// What jobs gave that were not told of, by number.
    ended: BTreeMap<usize, BTreeMap<u64, Outcome>>,
    /// The first job that was not told of.
    next: usize,
    /// Memory for runs, what of it is taken, and by how many.
    memory: u64,
    taken: u64,
    running: usize,
    failed: bool,
}

impl State {
    /// The place of the run that is to begin now; `None`: there is no memory for any.
    fn next_run(&self) -> Option<usize> {
        let left = self.memory.saturating_sub(self.taken);
        let fits = |run: &OneRun| self.running == 0 || run.memory <= left;
        let is_free = |run: &OneRun| self.first.iter().all(|first| first.job != run.job);
        let place = |suits: &dyn Fn(&OneRun) -> bool| self.waiting.iter().position(suits);
        place(&|run| fits(run) && is_free(run)).or_else(|| place(&fits))
    }
}

impl Queue {
    fn new(jobs: &[Job], memory: u64) -> Self {
        let runs = jobs.iter().enumerate().flat_map(|(number, job)| {
            job.seeds().map(move |seed| OneRun { job: number, seed, memory: job.memory() })
        });
        let mut waiting: Vec<OneRun> = runs.collect();
        waiting.sort_by_key(|run| core::cmp::Reverse(jobs[run.job].milliseconds()));
        let state = State {
            waiting,
            begun: BTreeSet::new(),
            first: Vec::new(),
            missing: jobs.iter().map(|job| job.seeds.max(1)).collect(),
            ended: BTreeMap::new(),
            next: 0,
            memory,
            taken: 0,
            running: 0,
            failed: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The next run for which there is memory. When nothing else runs there is enough, whatever
    /// the system says.
    fn take(&self) -> Option<OneRun> {
        let mut state = lock(&self.state);
        loop {
            if state.failed || state.waiting.is_empty() {
                return None;
            }
            if let Some(at) = state.next_run() {
                let run = state.waiting.remove(at);
                state.taken += run.memory;
                state.running += 1;
                if state.begun.insert(run.job) {
                    state.first.push(run);
                }
                return Some(run);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A run has ended.
    fn give_back(&self, run: &OneRun, failed: bool) {
        let mut state = lock(&self.state);
        state.taken -= run.memory;
        state.running -= 1;
        state.first.retain(|first| first != run);
        state.failed |= failed;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether no run of a job is missing.
    fn has_ended(&self, job: usize) -> bool {
        lock(&self.state).missing[job] == 0
    }

    /// Keeps what a run gave; the jobs that can be told of now, with what their seeds gave.
    fn finished(&self, run: &OneRun, outcome: Outcome) -> Vec<(usize, Vec<Outcome>)> {
        let mut state = lock(&self.state);
        state.ended.entry(run.job).or_default().insert(run.seed, outcome);
        state.missing[run.job] -= 1;
        let mut out = Vec::new();
        while state.missing.get(state.next) == Some(&0) {
            let job = state.next;
            state.next += 1;
            let outcomes = state.ended.remove(&job).unwrap_or_default();
            out.push((job, outcomes.into_values().collect()));
        }
        out
    }
}

impl Experiment {
    /// Runs it with this many seeds from the setting's on, and joins what they gave.
    ///
    /// # Errors
    /// Those of the first run that failed.
    pub fn repeat(
        &'static self,
        target: &Target,
        setting: &Setting,
        seeds: u64,
    ) -> Result<Outcome, LabError> {
        let job = Job { experiment: self, setting: setting.clone(), seeds };
        let mut found = None;
        run(target, &[job], &mut |outcome| found = Some(outcome))?;
        found.ok_or_else(|| LabError::new(self.name, "no seed ran"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;
    use std::time::Duration;

    const SMALL: Experiment = Experiment {
        name: "small",
        about: "",
        preset: "nvme",
        memory_mib: 1,
        seconds: 1,
        on_device: crate::experiment::OnDevice::Reads,
        numbers: &[],
        run: |_, setting| {
            // Later seeds end first.
            std::thread::sleep(Duration::from_millis(20 - setting.seed.min(20)));
            let rows = vec![Row::own("seed", "", setting.seed as f64)];
            Ok(Outcome { rows, ..Outcome::new("small", String::new()) })
        },
    };
    const LARGE: Experiment = Experiment { name: "large", memory_mib: 1000, ..SMALL };
    const FAILS: Experiment =
        Experiment { name: "fails", run: |_, _| Err(LabError::new("no power", "always")), ..SMALL };

    fn job(experiment: &'static Experiment, seeds: u64) -> Job {
        Job { experiment, setting: Setting::default(), seeds }
    }

    #[test]
    fn outcomes_come_in_order_with_their_seeds_in_order() {
        let jobs = [job(&SMALL, 3), job(&LARGE, 2), job(&SMALL, 1)];
        let mut seen = Vec::new();
        run(&Target::Sim(None), &jobs, &mut |outcome| seen.push(outcome)).expect("runs");
        let seeds: Vec<&[u64]> = seen.iter().map(|outcome| outcome.seeds.as_slice()).collect();
        assert_eq!(seeds, [[1, 2, 3].as_slice(), &[1, 2], &[1]]);
        assert_eq!(seen[0].rows[0].values(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_failure_ends_it() {
        let jobs = [job(&FAILS, 2), job(&SMALL, 2)];
        let found = run(&Target::Sim(None), &jobs, &mut |_| ());
        assert_eq!(found.expect_err("fails").to_string(), "fails: no power: always");
    }

    #[test]
    fn a_number_that_a_machine_does_not_have_is_refused() {
        let refused = |experiment: &'static Experiment, name: &str, value| {
            let machine = BTreeMap::from([(name.to_owned(), value)]);
            let setting = Setting { machine, ..Setting::default() };
            let found =
                run(&Target::Sim(None), &[Job { experiment, setting, seeds: 1 }], &mut |_| ());
            let error = found.expect_err("refused");
            (error.why, error.hint.unwrap_or_default())
        };
        let (why, hint) = refused(&SMALL, "writers", 2.0);
        assert!(why == "there is no writers" && hint.contains("--sim FILE"), "{why} {hint}");
        let (_, hint) = refused(&crate::throttle::EXPERIMENT, "reader", 2.0);
        assert!(hint.contains("writers; own time of a write"), "{hint}");
        let (why, _) = refused(&crate::throttle::EXPERIMENT, "writers begin apart", f64::NAN);
        assert_eq!(why, "writers begin apart = NaN: it is a number from 0 to 1000");
        for value in [0.0, 2.5, 1e9] {
            let (why, hint) = refused(&crate::throttle::EXPERIMENT, "writers", value);
            assert_eq!(why, format!("writers = {value}: it is a whole number from 1 to 1000"));
            assert_eq!(hint, "in the study's it is 3");
        }
    }

    #[test]
    fn the_longest_begins_and_another_one_while_its_first_seed_is_under_way() {
        const LONG: Experiment = Experiment { name: "long", seconds: 10, ..SMALL };
        let jobs = [job(&SMALL, 2), job(&LONG, 3)];
        let queue = Queue::new(&jobs, u64::MAX);
        let takes = || queue.take().map(|run| (run.job, run.seed));
        assert_eq!([takes(), takes(), takes()], [Some((1, 1)), Some((0, 1)), Some((1, 2))]);
        queue.give_back(&OneRun { job: 1, seed: 1, memory: 1 << 20 }, false);
        assert_eq!([takes(), takes(), takes()], [Some((1, 3)), Some((0, 2)), None]);
    }

    #[test]
    fn what_does_not_fit_waits_and_smaller_ones_go_first() {
        let jobs = [job(&LARGE, 2), job(&SMALL, 1)];
        let queue = Queue::new(&jobs, 1500 << 20);
        let takes = || queue.take().map(|run| (run.job, run.seed));
        assert_eq!([takes(), takes()], [Some((0, 1)), Some((1, 1))]);
        let first = OneRun { job: 0, seed: 1, memory: 1000 << 20 };
        queue.give_back(&first, false);
        assert_eq!(queue.take().map(|run| run.job), Some(0));
        assert_eq!(queue.take(), None);
        // Alone, one runs however much it needs.
        let queue = Queue::new(&jobs, 0);
        assert_eq!(queue.take(), Some(first));
    }
}
