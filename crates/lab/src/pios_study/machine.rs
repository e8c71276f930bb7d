//! The machine of the study, as a model: its processors, and the memory that they share. Its
//! logical units are the preset `ddn-s2a9550-lun`.
//!
//! # Fit
//!
//! Of the processors the study gives 1.44 ms for a checksum of 1 MiB in one thread, and 2.19 ms
//! when 2.4 are made at once: processors that share their memory slow each other down.
//!
//! What a block costs besides its checksum, what copying and the application cost, how much
//! processors slow each other down and how much dirty data there may be is not in the study; it was
//! chosen so that the runtimes of the three profiles come out. The list of parameters says of each
//! by which row. All profiles write blocks of 1 MiB. So what of a block's cost, here and in the
//! units, is the same for any block and what is its bytes', no profile says: it was assumed.
//!
//! Of time under locks the study says nothing, and the model has none, but in rows of their own.

use crate::experiment::Setting;
use crate::parameter::{Number, Origin, Parameter};
use engine::inside::ondisk::Checksum;
use engine::inside::rt::CpuCost;
use engine::inside::zio::cpu::{Processors, Work};
use std::time::Duration;

const RUNTIMES: Origin = Origin::Fitted("the runtimes of the three profiles");
const SUMS: Origin = Origin::Fitted("spa_sync's checksums; leaf_sync's checksums");

const COUNT: f64 = 4.0;
const SLOWED: Number = Number::whole("slowed by each other", 25.0, "%", SUMS).between(0.0, 1000.0);
const SUMMED: Number = Number::new("processor: checksum", 700.0, "MiB/s", SUMS).between(1.0, 1e6);
/// What one such processor sums with it in a second.
const SUMMED_256: Number =
    Number::new("processor: SHA-256", 190.0, "MiB/s", Origin::Assumed).between(1.0, 1e6);
const STEPS: Number =
    Number::new("processor: steps of a block beside its checksum", 1976.0, "MiB/s", RUNTIMES)
        .between(1.0, 1e6);
/// The profiles have blocks of one size, so what each block costs was chosen by none of them.
const STEPS_EACH: Number = Number::new(
    "processor: steps of a block beside its checksum, each",
    40.0,
    "us",
    Origin::Assumed,
);
const COPIED: Number = Number::new("processor: copy", 1000.0, "MiB/s", RUNTIMES).between(1.0, 1e6);
const APPLIED: Number =
    Number::new("processor: application", 2500.0, "MiB/s", RUNTIMES).between(1.0, 1e6);
/// Nothing in the study says how long its engine kept a lock for a block. See `survey.rs`.
const LOCKED: Number =
    Number::new("processor: under a lock, each block", 0.0, "us", Origin::Assumed);
/// Long for a lock under which a few fields change: sixty thousand cycles of these processors.
const LOCKED_SURVEYED: Number = Number::new(
    "processor: under a lock, each block, in the rows with locks",
    20.0,
    "us",
    Origin::Assumed,
);
/// Dirty data that the engine of 2007 lets into a txg: what it may take of 4 GB of memory. zinc has
/// as much on this machine.
const DIRTY: Number = Number::new("dirty data at most", 1536.0, "MiB", RUNTIMES).between(16.0, 1e6);
/// What its writers' queue takes in.
const QUEUE: Number =
    Number::new("writers' queue of 2007", 512.0, "MiB", RUNTIMES).between(1.0, 1e6);

/// What of this a run can have otherwise.
pub(crate) const NUMBERS: [Number; 11] = [
    SLOWED,
    SUMMED,
    SUMMED_256,
    STEPS,
    STEPS_EACH,
    COPIED,
    APPLIED,
    LOCKED,
    LOCKED_SURVEYED,
    DIRTY,
    QUEUE,
];

fn mib(setting: &Setting, number: &Number) -> u64 {
    (setting.number(number) * f64::from(1 << 20)) as u64
}

/// Bytes that may be dirty.
#[must_use]
pub fn dirty_max(setting: &Setting) -> u64 {
    mib(setting, &DIRTY)
}

/// Bytes that the writers' queue of 2007 takes in.
#[must_use]
pub fn queue_of_2007(setting: &Setting) -> u64 {
    mib(setting, &QUEUE)
}

/// What the processors get done when all are always busy, in bytes of written data a second: each
/// block has all kinds of work done to it once, but for the checksum that only a survey has.
#[must_use]
pub fn most_computed(processors: &Processors, block: u64) -> f64 {
    let done = processors.costs.iter().filter(|(work, _)| *work != SHA_256);
    let alone: Duration = done.map(|(_, cost)| cost.time(block)).sum();
    let others = processors.count.saturating_sub(1) as f64;
    let slowed = 1.0 + others * f64::from(processors.contention_percent) / 100.0;
    processors.count as f64 * block as f64 / (alone.as_secs_f64() * slowed)
}

/// The checksum that the study says it surveyed.
const SHA_256: Work = Work::Checksum(Checksum::SHA256);

/// The processors of the study: four Xeons at 3.16 GHz on one memory bus.
#[must_use]
pub fn processors(setting: &Setting) -> Processors {
    with_locks(setting, &LOCKED)
}

/// The same, where each of the locks that all threads share is kept for as long as the rows with
/// locks say, for each block.
#[must_use]
pub fn processors_with_locks(setting: &Setting) -> Processors {
    with_locks(setting, &LOCKED_SURVEYED)
}

fn microseconds(setting: &Setting, number: &Number) -> Duration {
    Duration::from_secs_f64(setting.number(number) / 1e6)
}

fn with_locks(setting: &Setting, locked: &Number) -> Processors {
    let checksum = Work::Checksum(Checksum::FLETCHER_4);
    let rate = |number| CpuCost::rate(mib(setting, number));
    let each = microseconds(setting, &STEPS_EACH);
    let locked = CpuCost::under_lock(microseconds(setting, locked));
    Processors {
        count: COUNT as usize,
        contention_percent: setting.number(&SLOWED) as u32,
        crowding_percent: 0,
        costs: vec![
            (checksum, rate(&SUMMED)),
            (SHA_256, rate(&SUMMED_256)),
            (Work::Prepare, CpuCost { each, ..rate(&STEPS) }),
            (Work::Copy, rate(&COPIED)),
            (Work::Application, rate(&APPLIED)),
            (Work::Enter, locked),
            (Work::Place, locked),
        ],
    }
}

/// What of the processors and the memory was given, and what was chosen.
#[must_use]
pub fn parameters(setting: &Setting) -> Vec<Parameter> {
    let mut out = vec![Parameter::new("processors", COUNT, "", Origin::Study)];
    out.extend(NUMBERS.iter().map(|number| setting.parameter(number)));
    out
}
