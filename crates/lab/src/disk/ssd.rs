//! A solid state disk.
//!
//! Pages lie across units (dies behind channels) that each do one thing at a time. A read ends
//! when its pages have come from their units and over the bus. A write ends when its bytes are in
//! the buffer, from where they go into their units; a full buffer lets writes in as fast as the
//! units make room. Without a buffer, or with one that is switched off, it ends when its pages are
//! in their units. Reads go before the writing in the background, and wait for no more than the
//! one page that is just being written in their unit. A flush waits until the buffer is empty, or
//! takes no more than a command where the buffer outlives a power failure.

use super::garbage::{Collector, Garbage};
use super::{Nanos, micros, nanos, transfer};
use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Parameters of a solid state disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Units that read and write at the same time.
    pub units: usize,
    /// What a unit reads or writes at once.
    pub page_bytes: u64,
    /// Reading a page.
    pub read_us: f64,
    /// Writing a page.
    pub program_us: f64,
    /// Decoding a command, one after the other.
    pub command_us: f64,
    /// What a command takes besides, at the same time as others: driver, interrupt.
    pub latency_us: f64,
    /// What a write that no buffer takes needs besides, at the same time as others.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub write_latency_us: f64,
    /// Rate of the bus.
    pub bus_bytes_per_second: f64,
    /// Commands it accepts at once.
    pub depth: usize,
    /// Bytes of the write buffer.
    pub write_cache_bytes: u64,
    /// Whether it is used.
    pub write_cache: bool,
    /// Whether it outlives a power failure.
    pub power_safe: bool,
    /// What writing costs besides because the disk is full, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub garbage: Option<Garbage>,
}

fn is_nothing(microseconds: &f64) -> bool {
    *microseconds == 0.0
}

pub(crate) struct SsdDisk {
    spec: Ssd,
    /// When each unit is free for reads, and has written what it shall.
    units: Vec<(Nanos, Nanos)>,
    command_free: Nanos,
    bus_free: Nanos,
    /// What the buffer holds: until when, and bytes.
    buffered: BTreeSet<(Nanos, u64, u64)>,
    buffered_bytes: u64,
    outside: VecDeque<ModelRequest>,
    inside: usize,
    ends: BTreeSet<(Nanos, u64, u64)>,
    events: u64,
    collector: Option<Collector>,
}

impl SsdDisk {
    pub(crate) fn new(spec: &Ssd) -> Self {
        Self {
            units: vec![(0, 0); spec.units.max(1)],
            command_free: 0,
            bus_free: 0,
            buffered: BTreeSet::new(),
            buffered_bytes: 0,
            outside: VecDeque::new(),
            inside: 0,
            ends: BTreeSet::new(),
            events: 0,
            collector: spec.garbage.as_ref().map(|g| Collector::new(g, spec.page_bytes)),
            spec: spec.clone(),
        }
    }

    /// Pages of a range: the unit that each lies in, and its bytes.
    fn pages(&self, request: &ModelRequest) -> impl Iterator<Item = (usize, u64)> + use<> {
        let units = self.units.len() as u64;
        self.numbers(request).map(move |(number, bytes)| ((number % units) as usize, bytes))
    }

    /// Pages of a range: the number of each, and its bytes.
    fn numbers(&self, request: &ModelRequest) -> impl Iterator<Item = (u64, u64)> + use<> {
        let page = self.spec.page_bytes.max(512);
        let (mut at, end) = (request.offset, request.offset + request.len);
        core::iter::from_fn(move || {
            let number = at / page;
            let bytes =
                ((number + 1) * page).min(end).checked_sub(at).filter(|bytes| *bytes > 0)?;
            at += bytes;
            Some((number, bytes))
        })
    }

    fn accept(&mut self, now: Nanos, request: ModelRequest) {
        self.inside += 1;
        self.events += 1;
        self.command_free = self.command_free.max(now) + micros(self.spec.command_us);
        let ready = self.command_free;
        let carried = transfer(request.len, self.spec.bus_bytes_per_second);
        self.bus_free = self.bus_free.max(ready) + carried;
        let end = match request.kind {
            ModelKind::Read => self.read(ready, &request).max(self.bus_free),
            ModelKind::Write => self.write(self.bus_free, &request),
            ModelKind::Flush if self.spec.power_safe => ready,
            ModelKind::Flush => self.buffered.last().map_or(ready, |(end, ..)| ready.max(*end)),
        };
        self.ends.insert((end + micros(self.spec.latency_us), self.events, request.id));
    }

    fn read(&mut self, ready: Nanos, request: &ModelRequest) -> Nanos {
        let (read, program) = (micros(self.spec.read_us), micros(self.spec.program_us));
        let mut done = ready;
        for (unit, _) in self.pages(request) {
            let (free, written) = &mut self.units[unit];
            let begin = ready.max(*free);
            // The rest of the page that is being written just now.
            let rest = written.saturating_sub(begin) % program.max(1);
            *free = begin + rest + read;
            if *written > begin {
                *written += read;
            }
            done = done.max(*free);
        }
        done
    }

    fn write(&mut self, here: Nanos, request: &ModelRequest) -> Nanos {
        let program = micros(self.spec.program_us);
        let capacity = if self.spec.write_cache { self.spec.write_cache_bytes } else { 0 };
        while self.buffered.first().is_some_and(|(end, ..)| *end <= here) {
            self.pop();
        }
        let (mut let_in, mut safe) = (here, here);
        let units = self.units.len() as u64;
        for (number, bytes) in self.numbers(request) {
            let unit = (number % units) as usize;
            self.make_room(here, number);
            while self.buffered_bytes + bytes > capacity
                && let Some(end) = self.pop()
            {
                let_in = let_in.max(end);
            }
            let (free, written) = &mut self.units[unit];
            *written = (*written).max(let_in).max(*free) + program;
            safe = safe.max(*written);
            if capacity == 0 {
                // No page waits for another but in its unit.
                continue;
            }
            self.events += 1;
            self.buffered.insert((*written, self.events, bytes));
            self.buffered_bytes += bytes;
        }
        if capacity > 0 { let_in } else { safe + micros(self.spec.write_latency_us) }
    }

    /// On a disk that is full: the units move pages and erase before they write this one.
    fn make_room(&mut self, here: Nanos, page: u64) {
        let (Some(garbage), Some(collector)) = (&self.spec.garbage, &mut self.collector) else {
            return;
        };
        let work = collector.write(page);
        if work.erased == 0 {
            return;
        }
        let each = work.moved as f64 / self.units.len() as f64;
        let moving = each * (self.spec.read_us + self.spec.program_us);
        let time = micros(moving + work.erased as f64 * garbage.erase_us);
        for (free, written) in &mut self.units {
            *written = (*written).max(here).max(*free) + time;
        }
    }

    fn pop(&mut self) -> Option<Nanos> {
        let (end, _, bytes) = self.buffered.pop_first()?;
        self.buffered_bytes -= bytes;
        Some(end)
    }
}

impl DiskModel for SsdDisk {
    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        if self.inside >= self.spec.depth.max(1) {
            self.outside.push_back(request);
        } else {
            self.accept(nanos(now), request);
        }
    }

    fn next(&self) -> Option<Duration> {
        self.ends.first().map(|(at, ..)| Duration::from_nanos(*at))
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let now = nanos(now);
        while let Some((at, _, id)) = self.ends.first().copied().filter(|(at, ..)| *at <= now) {
            self.ends.pop_first();
            ended.push(id);
            self.inside -= 1;
            if let Some(request) = self.outside.pop_front() {
                self.accept(at, request);
            }
        }
    }
}
