//! A run: threads that take chunks until there are none, and the time that takes.

use super::chunks::ChunkCursor;
use super::pattern::Pattern;
use super::plan::Plan;
use super::{PiosError, Result, Target};
use engine::inside::device::AlignedBuf;
use engine::inside::rt::{Rng, Rt, Xoshiro256};
use engine::inside::zio::cpu::Work;
use engine::inside::zio::profile::Profile;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Direction of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Writing; the time ends when all is durable.
    Write,
    /// Reading.
    Read {
        /// Whether what was read is compared with what was written.
        verify: bool,
    },
}

/// What a phase took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Bytes.
    pub bytes: u64,
    /// I/Os.
    pub ios: u64,
    /// From the first I/O until the last was done, and durable when it wrote.
    pub time: Duration,
    /// The longest I/O.
    pub longest: Duration,
}

impl Measured {
    /// Bytes in a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// MiB (2^20 bytes) in a second.
    #[must_use]
    pub fn mib_per_second(&self) -> f64 {
        self.bytes_per_second() / f64::from(1 << 20)
    }
}

/// Both phases of a plan.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The plan.
    pub plan: Plan,
    /// Writing; `None` when an earlier run's files were only read.
    pub write: Option<Measured>,
    /// Reading; `None` when it was not asked for.
    pub read: Option<Measured>,
    /// What the engine's threads did, where it was asked for.
    pub profile: Option<Profile>,
}

/// What the threads of a phase share.
struct Shared<'a> {
    rt: Rt,
    plan: &'a Plan,
    chunks: ChunkCursor<'a>,
    target: &'a dyn Target,
    phase: Phase,
    stop: AtomicBool,
    failure: Mutex<Option<PiosError>>,
    ios: AtomicU64,
    longest: AtomicU64,
}

/// What is done in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The files are written; else an earlier run's are there.
    pub write: bool,
    /// They are read.
    pub read: bool,
    /// What is read is compared with what was written.
    pub verify: bool,
    /// They are removed afterwards, even after a failure.
    pub remove: bool,
}

/// When a caller has something done of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the files are written or read.
    Before,
    /// Afterwards, before they are removed.
    After,
}

impl Steps {
    /// Makes a run; `at` is called at each moment.
    ///
    /// # Errors
    /// The first failure of a step, or of `at`.
    pub fn run<E: From<PiosError>>(
        self,
        rt: &Rt,
        plan: Plan,
        target: &dyn Target,
        at: impl FnMut(Moment) -> Result<(), E>,
    ) -> Result<RunResult, E> {
        let result = self.load(rt, plan, target, at);
        if self.remove {
            // Also when something failed; the first failure is reported.
            let removed = target.remove();
            let result = result?;
            removed?;
            return Ok(result);
        }
        result
    }

    fn load<E: From<PiosError>>(
        self,
        rt: &Rt,
        plan: Plan,
        target: &dyn Target,
        mut at: impl FnMut(Moment) -> Result<(), E>,
    ) -> Result<RunResult, E> {
        at(Moment::Before)?;
        let written = self.write.then(|| write(rt, &plan, target)).transpose()?;
        let found = self.read.then(|| read(rt, &plan, target, self.verify)).transpose()?;
        at(Moment::After)?;
        Ok(RunResult { plan, write: written, read: found, profile: None })
    }
}

/// Writes all regions.
///
/// # Errors
/// The first that a thread met.
pub fn write(rt: &Rt, plan: &Plan, target: &dyn Target) -> Result<Measured> {
    run(rt, plan, target, Phase::Write)
}

/// Reads all regions.
///
/// # Errors
/// The first that a thread met; with `verify` also the first byte that is not what was written.
pub fn read(rt: &Rt, plan: &Plan, target: &dyn Target, verify: bool) -> Result<Measured> {
    run(rt, plan, target, Phase::Read { verify })
}

fn run(rt: &Rt, plan: &Plan, target: &dyn Target, phase: Phase) -> Result<Measured> {
    plan.check()?;
    let shared = Shared {
        rt: rt.clone(),
        plan,
        chunks: ChunkCursor::new(plan),
        target,
        phase,
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        ios: AtomicU64::new(0),
        longest: AtomicU64::new(0),
    };
    let began = rt.now();
    let work = |number| {
        if let Err(e) = shared.thread(number) {
            shared.stop.store(true, Relaxed);
            shared.failure.lock().get_or_insert(e);
        }
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = rt.for_each_parallel(plan.threads, 0..plan.threads as u64, work);
    if let Some(failure) = shared.failure.lock().take() {
        return Err(failure);
    }
    if phase == Phase::Write {
        target.sync()?;
    }
    Ok(Measured {
        bytes: plan.total(),
        ios: shared.ios.load(Relaxed),
        time: rt.now().saturating_sub(began),
        longest: Duration::from_nanos(shared.longest.load(Relaxed)),
    })
}

impl Shared<'_> {
    fn thread(&self, number: u64) -> Result<()> {
        let plan = self.plan;
        let mut rng = Xoshiro256::seeded(plan.seed.wrapping_add(number));
        let most = (plan.chunk_size + plan.chunk_noise) as usize;
        // Without a fill all threads write zeros, and a target may not even look at them.
        let mut buf = AlignedBuf::zeroed(most);
        let verify = self.phase == Phase::Read { verify: true };
        let mut scratch = if verify { vec![0; most] } else { Vec::new() };
        while !self.stop.load(Relaxed) {
            let Some(chunk) = self.chunks.next(&mut rng) else { break };
            let pattern = Pattern::new(plan.seed, chunk.region);
            let (file, at) = (plan.file(chunk.region), plan.place(chunk.region, chunk.at));
            let bytes = buf.get_mut(..chunk.len).unwrap_or_default();
            if self.phase == Phase::Write && plan.fill {
                pattern.fill(chunk.at, bytes);
            }
            Work::Application.charge(chunk.len as u64);
            let began = self.rt.now();
            match self.phase {
                Phase::Write => self.target.write(file, at, bytes)?,
                Phase::Read { .. } => self.target.read(file, at, bytes)?,
            }
            let took = self.rt.now().saturating_sub(began);
            self.ios.fetch_add(1, Relaxed);
            self.longest.fetch_max(took.as_nanos() as u64, Relaxed);
            if verify && let Some(wrong) = pattern.mismatch(chunk.at, bytes, &mut scratch) {
                let what = format!(
                    "verification failed: region {}, byte {wrong} (byte {} of file {file}) is not \
                     what was written",
                    chunk.region,
                    plan.place(chunk.region, wrong),
                );
                return Err(PiosError::new(what));
            }
            if !plan.thread_delay.is_zero() {
                let most = plan.thread_delay.as_nanos() as u64;
                self.rt.sleep(Duration::from_nanos(rng.below(most + 1)));
            }
        }
        Ok(())
    }
}
