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
//! by which row.

use crate::parameter::{Origin, Parameter};
use engine::inside::ondisk::Checksum;
use engine::inside::rt::CpuCost;
use engine::inside::zio::cpu::{Processors, Work};
use std::time::Duration;

/// Dirty data that the engine of 2007 lets into a txg: what it may take of 4 GB of memory. zinc has
/// as much on this machine.
pub const DIRTY_MAX: u64 = 1536 << 20;

/// Bytes that its writers' queue takes in.
pub const QUEUE_OF_2007: u64 = 512 << 20;

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
/// What one such processor sums with it in a second.
const SHA_256_MIB_PER_S: u64 = 190;

/// The processors of the study: four Xeons at 3.16 GHz on one memory bus.
#[must_use]
pub fn processors() -> Processors {
    let checksum = Work::Checksum(Checksum::FLETCHER_4);
    Processors {
        count: 4,
        contention_percent: 25,
        crowding_percent: 0,
        costs: vec![
            (checksum, CpuCost::rate(700 << 20)),
            (SHA_256, CpuCost::rate(SHA_256_MIB_PER_S << 20)),
            (
                Work::Prepare,
                CpuCost { each: Duration::from_micros(40), bytes_per_second: 1976 << 20 },
            ),
            (Work::Copy, CpuCost::rate(1000 << 20)),
            (Work::Application, CpuCost::rate(2500 << 20)),
        ],
    }
}

/// What of the processors and the memory was given, and what was chosen.
#[must_use]
pub fn parameters() -> Vec<Parameter> {
    const RUNTIMES: Origin = Origin::Fitted("the runtimes of the three profiles");
    const SUMS: Origin = Origin::Fitted("spa_sync's checksums; leaf_sync's checksums");
    let all = processors();
    let mut out = vec![
        Parameter::new("processors", all.count as f64, "", Origin::Study),
        Parameter::new("slowed by each other", f64::from(all.contention_percent), "%", SUMS),
    ];
    for (work, cost) in &all.costs {
        let (name, origin) = match work {
            Work::Checksum(Checksum::SHA256) => ("SHA-256", Origin::Assumed),
            Work::Checksum(_) => ("checksum", SUMS),
            Work::Prepare => ("steps of a block beside its checksum", RUNTIMES),
            Work::Copy => ("copy", RUNTIMES),
            Work::Application => ("application", RUNTIMES),
            _ => ("other work", RUNTIMES),
        };
        let rate = cost.bytes_per_second as f64 / f64::from(1 << 20);
        out.push(Parameter::new(format!("processor: {name}"), rate, "MiB/s", origin));
        if !cost.each.is_zero() {
            let each = cost.each.as_secs_f64() * 1e6;
            out.push(Parameter::new(format!("processor: {name}, each"), each, "us", origin));
        }
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    out.push(Parameter::new("dirty data at most", mib(DIRTY_MAX), "MiB", RUNTIMES));
    out.push(Parameter::new("writers' queue of 2007", mib(QUEUE_OF_2007), "MiB", RUNTIMES));
    out
}
