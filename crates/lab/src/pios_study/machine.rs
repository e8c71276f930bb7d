//! The machine of the study, as models: processors, logical units, their controller.
//!
//! # Fit
//!
//! The study gives, for I/Os of 1 MiB to six units: 19.1 s in each of 8 threads at 7.54 I/Os at
//! once, which are 18.7 ms for an I/O, and 11.51 s in each of 16 at 11.35, which are 22.5 ms. So
//! an I/O takes about 11 ms, and 1 ms more for each that is under way: a controller whose cache and
//! links all units share. That one unit does not pass 210 MB/s in blocks of 128 KiB, and 350 MB/s
//! in long transfers, gives the unit's own rate and its cost of a command.
//!
//! Of the processors it gives 1.44 ms for a checksum of 1 MiB in one thread, and 2.19 ms when 2.4
//! are made at once: processors that share their memory slow each other down.
//!
//! What a block costs besides its checksum, what copying and the application cost, how much
//! processors slow each other down and how much dirty data there may be is not in the study; it was
//! chosen so that the runtimes of the three profiles come out. So all judged rows of the profiles
//! are rows that the machine was fitted to. The surveys, and everything that zinc does with its own
//! settings, are not.

use crate::disk::{Nanos, nanos};
use engine::device::{DiskModel, ModelKind, ModelRequest, SimDevice, SimDisks, SimOptions};
use engine::ondisk::Checksum;
use engine::rt::CpuCost;
use engine::zio::cpu::{Processors, Work};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Dirty data that the engine of 2007 lets into a txg: what it may take of 4 GB of memory. zinc has
/// as much on this machine.
pub const DIRTY_MAX: u64 = 1536 << 20;

/// Bytes that its writers' queue takes in.
pub const QUEUE_OF_2007: u64 = 512 << 20;

const MIB: f64 = (1u64 << 20) as f64;

/// Logical units behind one controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Units {
    /// A unit's own cost of a command, in microseconds; one after the other.
    pub command_us: f64,
    /// A unit's own rate.
    pub unit_bytes_per_second: f64,
    /// What an I/O takes in the controller whatever its size, in microseconds.
    pub base_us: f64,
    /// And for each MiB.
    pub per_mib_us: f64,
    /// More for each other I/O that is under way in the controller, whatever its size,
    pub company_us: f64,
    /// and for each MiB of its own.
    pub company_per_mib_us: f64,
    /// A flush.
    pub flush_us: f64,
}

/// The controller's load.
#[derive(Default)]
struct Controller {
    under_way: usize,
}

/// One unit.
struct Unit {
    units: Units,
    controller: Arc<Mutex<Controller>>,
    /// When its own part is free.
    free: Nanos,
    /// Ends of requests.
    ends: BTreeSet<(Nanos, u64)>,
}

fn lock(controller: &Mutex<Controller>) -> MutexGuard<'_, Controller> {
    controller.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiskModel for Unit {
    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        let (u, now) = (self.units, nanos(now));
        let mut controller = lock(&self.controller);
        let micros = |us: f64| (us * 1e3) as Nanos;
        let end = if request.kind == ModelKind::Flush {
            now + micros(u.flush_us)
        } else {
            let (mib, others) = (request.len as f64 / MIB, controller.under_way as f64);
            let own = u.command_us + request.len as f64 * 1e6 / u.unit_bytes_per_second;
            self.free = self.free.max(now) + micros(own);
            let shared = u.base_us + u.per_mib_us * mib;
            let company = (u.company_us + u.company_per_mib_us * mib) * others;
            self.free.max(now + micros(shared + company))
        };
        controller.under_way += 1;
        self.ends.insert((end, request.id));
    }

    fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(end, _)| Duration::from_nanos(*end))
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        while let Some((end, id)) = self.ends.first().copied()
            && end <= nanos(now)
        {
            self.ends.pop_first();
            lock(&self.controller).under_way -= 1;
            ended.push(id);
        }
    }
}

impl Units {
    /// So many units, called `lun`0 and so on, behind a controller of their own.
    #[must_use]
    pub fn devices(&self, disks: &SimDisks, count: usize, size: u64) -> Vec<Arc<SimDevice>> {
        let controller: Arc<Mutex<Controller>> = Arc::default();
        let unit = |n| {
            let controller = Arc::clone(&controller);
            let unit = Unit { units: *self, controller, free: 0, ends: BTreeSet::new() };
            let options = SimOptions { name: format!("lun{n}"), size, ..SimOptions::default() };
            disks.add_model(&options, Box::new(unit))
        };
        (0..count).map(unit).collect()
    }
}

/// The units of the study: a DDN S2A9550 with units of eight data and two parity SATA disks.
#[must_use]
pub fn units() -> Units {
    Units {
        command_us: 250.0,
        unit_bytes_per_second: 350e6,
        base_us: 1500.0,
        per_mib_us: 9500.0,
        company_us: 0.0,
        company_per_mib_us: 1000.0,
        flush_us: 26_000.0,
    }
}

/// What the processors get done when all are always busy, in bytes of written data a second: each
/// block has all kinds of work done to it once.
#[must_use]
pub fn most_computed(processors: &Processors, block: u64) -> f64 {
    let alone: Duration = processors.costs.iter().map(|(_, cost)| cost.time(block)).sum();
    let others = processors.count.saturating_sub(1) as f64;
    let slowed = 1.0 + others * f64::from(processors.contention_percent) / 100.0;
    processors.count as f64 * block as f64 / (alone.as_secs_f64() * slowed)
}

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
            (
                Work::Prepare,
                CpuCost { each: Duration::from_micros(40), bytes_per_second: 1976 << 20 },
            ),
            (Work::Copy, CpuCost::rate(1000 << 20)),
            (Work::Application, CpuCost::rate(2500 << 20)),
        ],
    }
}
