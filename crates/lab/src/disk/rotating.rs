//! A disk with a platter.
//!
//! A command is decoded by the disk's processor, one after the other. A read whose bytes are in the
//! buffer then only passes the bus. Anything else waits for the head, together with as many others
//! as the disk accepts at once; when the head is free the disk chooses one of them ([`Order`]),
//! seeks, waits until the sector comes round, and follows the spiral (see `geometry`). After a read
//! the head reads on into the buffer until something else needs it or the buffer is full.
//!
//! Without write cache a write ends when it is on the platter: a program that then sends the next
//! one has missed its sector, and waits for a whole rotation less what a command takes. With it, a
//! write ends when the cache has the bytes, and the head writes the cache back when nothing waits
//! for it, in the order of places, so that neighbours become one write. A cache that is full lets
//! writes in as fast as the head makes room. A flush waits for what the cache held when it came.
//!
//! Simplified: the bus is reserved in the order of commands; a read that the buffer holds in part
//! is read from the platter; trims take no time.

use super::geometry::{Geometry, Layout, SECTOR_BYTES};
use super::seek::Curve;
use super::{Nanos, Seek, micros, nanos, transfer};
use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use engine::inside::rt::{Rng, Xoshiro256};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which of the waiting requests is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The one that came first.
    Fifo,
    /// The next one outwards to inwards; then from the outermost again.
    Elevator,
    /// The one whose first sector the head can reach first; one that has waited for half a second
    /// before all.
    #[default]
    Shortest,
}

/// Parameters of a disk with a platter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotating {
    /// Rotations in a minute.
    pub rpm: f64,
    /// Heads: tracks of a cylinder.
    pub heads: u64,
    /// Groups of cylinders with as many sectors in a track.
    pub zones: u64,
    /// Sectors of a track are a multiple of this.
    pub track_sectors_multiple: u64,
    /// Sustained rate on the outermost cylinders, track switches included.
    pub outer_bytes_per_second: f64,
    /// The same on the innermost.
    pub inner_bytes_per_second: f64,
    /// From one head to the next.
    pub head_switch_us: f64,
    /// Moving the heads.
    pub seek: Seek,
    /// How much longer it settles before it writes.
    pub write_settle_us: f64,
    /// Decoding a command, one after the other.
    pub command_us: f64,
    /// Rate of the bus.
    pub bus_bytes_per_second: f64,
    /// Commands it accepts at once; others wait in front of it.
    pub depth: usize,
    /// How it chooses among them.
    pub order: Order,
    /// Bytes that it reads on after a read; 0 for a disk that does not.
    pub read_ahead_bytes: u64,
    /// Places in the buffer that remember different reads.
    pub segments: usize,
    /// Bytes of the write cache.
    pub write_cache_bytes: u64,
    /// Whether it is switched on.
    pub write_cache: bool,
    /// What makes it a shingled disk, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shingled: Option<Shingled>,
}

/// What makes a disk with a platter a shingled one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shingled {
    /// Bytes of a band.
    pub band_bytes: u64,
    /// Bytes of the cache on the platter.
    pub cache_bytes: u64,
    /// It begins to clean when nothing arrived for this time.
    pub idle_ms: f64,
}

/// A request that has waited for this time comes before all others.
const PATIENCE: Nanos = 500_000_000;
/// The most that is written back at once.
const DESTAGE_SECTORS: u64 = 256;

#[derive(Clone, Copy)]
struct Request {
    id: u64,
    kind: ModelKind,
    first: u64,
    /// One beyond the last sector.
    end: u64,
    bytes: u64,
    arrived: Nanos,
    /// When its bytes have come over the bus: writes without cache.
    fed: Nanos,
}

/// What the head reads on after a read.
struct Stream {
    segment: usize,
    /// Where the head is at sector `base`, and the spiral time of it.
    since: Nanos,
    base_spiral: Nanos,
    /// It stops before this sector.
    limit: u64,
}

/// A run of sectors in the read buffer.
#[derive(Clone, Copy)]
struct Segment {
    first: u64,
    end: u64,
    used: u64,
}

pub(crate) struct RotatingDisk {
    spec: Rotating,
    geometry: Geometry,
    curve: Curve,
    /// Spiral angle under the head at time 0.
    phase: Nanos,
    head_switch: Nanos,
    write_settle: Nanos,
    command: Nanos,
    now: Nanos,
    /// Requests beyond the depth.
    outside: VecDeque<Request>,
    inside: usize,
    command_free: Nanos,
    bus_free: Nanos,
    /// Commands being decoded, with the time when they are.
    decoding: VecDeque<(Nanos, Request)>,
    /// Waiting for the head.
    queue: Vec<Request>,
    head_free: Nanos,
    cylinder: u64,
    head: u64,
    /// The sector after the last one that was transferred.
    after: u64,
    last_was_request: bool,
    stream: Option<Stream>,
    segments: Vec<Segment>,
    uses: u64,
    cache: WriteCache,
    /// Requests that end: when, in which order, which.
    ends: BTreeSet<(Nanos, u64, u64)>,
    ended: u64,
}

/// What is not yet on the platter. Runs of sectors, by first sector.
#[derive(Default)]
struct WriteCache {
    capacity: u64,
    dirty: BTreeMap<u64, u64>,
    /// What a flush waits for: written back first.
    flushing: BTreeMap<u64, u64>,
    /// Being written now, and until when.
    destaging: Option<(Nanos, u64, u64)>,
    sectors: u64,
    flushes: Vec<u64>,
    /// Writes that wait for room, with their sectors that are in already.
    waiting: VecDeque<(Request, u64)>,
}

impl WriteCache {
    fn insert(&mut self, mut first: u64, mut end: u64) {
        let before = self.dirty.range(..=end).next_back().filter(|(_, e)| **e >= first);
        if before.is_none() {
            self.sectors += end - first;
            self.dirty.insert(first, end);
            return;
        }
        while let Some((&f, &e)) =
            self.dirty.range(..=end).next_back().filter(|(_, e)| **e >= first)
        {
            self.dirty.remove(&f);
            self.sectors -= e - f;
            (first, end) = (first.min(f), end.max(e));
        }
        self.sectors += end - first;
        self.dirty.insert(first, end);
    }

    fn holds(&self, first: u64, end: u64) -> bool {
        let within = |runs: &BTreeMap<u64, u64>| {
            runs.range(..=first).next_back().is_some_and(|(_, e)| *e >= end)
        };
        within(&self.dirty)
            || within(&self.flushing)
            || self.destaging.is_some_and(|(_, f, e)| f <= first && end <= e)
    }

    fn is_clean(&self) -> bool {
        self.sectors == 0
    }

    /// Takes the next run to write back, at or after this sector or else from the beginning.
    fn take(&mut self, after: u64) -> Option<(u64, u64)> {
        let runs = if self.flushing.is_empty() { &mut self.dirty } else { &mut self.flushing };
        let inside = runs.range(..after).next_back().filter(|(_, e)| **e > after);
        let (first, end) = inside
            .or_else(|| runs.range(after..).next())
            .or_else(|| runs.iter().next())
            .map(|(f, e)| (*f, *e))?;
        // The part before the head, if any, stays for the next round.
        let from = if first < after && after < end { after } else { first };
        let to = end.min(from + DESTAGE_SECTORS);
        runs.remove(&first);
        if first < from {
            runs.insert(first, from);
        }
        if to < end {
            runs.insert(to, end);
        }
        Some((from, to))
    }
}

impl RotatingDisk {
    pub(crate) fn new(spec: &Rotating, capacity_bytes: u64, seed: u64) -> Self {
        let rotation = (60e9 / spec.rpm) as Nanos;
        let head_switch = micros(spec.head_switch_us);
        let write_settle = micros(spec.write_settle_us);
        let one = micros(spec.seek.one_track_ms * 1e3);
        let geometry = Geometry::new(&Layout {
            capacity_bytes,
            rotation,
            heads: spec.heads,
            zones: spec.zones,
            outer_bytes_per_second: spec.outer_bytes_per_second,
            inner_bytes_per_second: spec.inner_bytes_per_second,
            track_sectors_multiple: spec.track_sectors_multiple,
            head_skew: head_switch,
            // Room for the settling of a write, and for what the root adds at one cylinder.
            cylinder_skew: (one + one / 10 + write_settle).max(head_switch),
        });
        let curve = Curve::new(&spec.seek, geometry.cylinders());
        let mut rng = Xoshiro256::seeded(seed);
        let cache_bytes = if spec.write_cache { spec.write_cache_bytes } else { 0 };
        Self {
            curve,
            phase: rng.below(geometry.rotation()),
            // Where the heads were left by whatever came before.
            cylinder: rng.below(geometry.cylinders().max(1)),
            geometry,
            head_switch,
            write_settle,
            command: micros(spec.command_us),
            now: 0,
            outside: VecDeque::new(),
            inside: 0,
            command_free: 0,
            bus_free: 0,
            decoding: VecDeque::new(),
            queue: Vec::new(),
            head_free: 0,
            head: 0,
            after: 0,
            last_was_request: false,
            stream: None,
            segments: Vec::new(),
            uses: 0,
            cache: WriteCache { capacity: cache_bytes / SECTOR_BYTES, ..WriteCache::default() },
            ends: BTreeSet::new(),
            ended: 0,
            spec: spec.clone(),
        }
    }

    fn end(&mut self, at: Nanos, id: u64) {
        self.ended += 1;
        self.ends.insert((at, self.ended, id));
    }

    /// When the head, free at `now`, could begin at `first`.
    fn reach(&self, now: Nanos, first: u64, writes: bool) -> Nanos {
        let place = self.geometry.place(first);
        let seek = if place.cylinder != self.cylinder {
            self.curve.time(place.cylinder.abs_diff(self.cylinder))
        } else if place.head != self.head {
            self.head_switch
        } else {
            0
        };
        // A head that goes on where it stands has settled; so has one that follows the spiral,
        // whose skew leaves the time for it.
        let settle = if writes && seek > 0 { self.write_settle } else { 0 };
        let there = now + seek + settle;
        let rotation = self.geometry.rotation();
        let angle = (there + self.phase) % rotation;
        there + (place.begin % rotation + rotation - angle) % rotation
    }

    /// Moves the head over these sectors, from a time on; returns when it begins and ends.
    fn sweep(&mut self, now: Nanos, first: u64, end: u64, writes: bool) -> (Nanos, Nanos) {
        let begin = self.reach(now, first, writes);
        let last = self.geometry.place(end.max(first + 1) - 1);
        let done = begin + (last.end - self.geometry.place(first).begin);
        (self.cylinder, self.head, self.after, self.head_free) =
            (last.cylinder, last.head, end, done);
        (begin, done)
    }

    /// The bus carries this many bytes, from `now` or when it is free; returns when it has.
    fn pass_bus(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.bus_free = self.bus_free.max(now) + transfer(bytes, self.spec.bus_bytes_per_second);
        self.bus_free
    }

    fn accept(&mut self, now: Nanos, request: Request) {
        self.inside += 1;
        self.command_free = self.command_free.max(now) + self.command;
        self.decoding.push_back((self.command_free, request));
    }

    fn decoded(&mut self, now: Nanos, mut request: Request) {
        match request.kind {
            ModelKind::Flush => {
                if self.cache.is_clean() && self.cache.waiting.is_empty() {
                    self.end(now, request.id);
                    return;
                }
                let dirty = core::mem::take(&mut self.cache.dirty);
                for (first, end) in dirty {
                    // Runs of an earlier flush that overlap are written twice, which is allowed.
                    let old = self.cache.flushing.insert(first, end);
                    self.cache.sectors -= old.map_or(0, |old| old - first);
                }
                self.cache.flushes.push(request.id);
            }
            ModelKind::Read => self.read_decoded(now, request),
            ModelKind::Write => {
                self.stop_stream(now);
                self.segments.retain(|s| s.end <= request.first || request.end <= s.first);
                if self.cache.capacity > 0 {
                    self.cache.waiting.push_back((request, 0));
                    self.let_in(now);
                } else {
                    request.fed = self.pass_bus(now, request.bytes);
                    self.queue.push(request);
                }
            }
        }
    }

    fn read_decoded(&mut self, now: Nanos, request: Request) {
        let Request { first, end, bytes, id, .. } = request;
        self.catch_up(now);
        let held = self.segments.iter().position(|s| s.first <= first && end <= s.end);
        if held.is_some() || self.cache.holds(first, end) {
            if let Some(held) = held {
                self.touch(held);
            }
            let at = self.pass_bus(now, bytes);
            self.end(at, id);
            self.read_further(now, held, end);
            return;
        }
        // The head reads just there, or waits behind it: it goes on.
        if let Some(stream) = &self.stream {
            let segment = stream.segment;
            let Segment { first: from, end: to, .. } = self.segments[segment];
            if self.head_free <= now && self.queue.is_empty() && from <= first && first <= to {
                self.touch(segment);
                self.read_further(now, Some(segment), end);
                let there = self.stream.as_ref().map_or(now, |s| {
                    s.since + self.geometry.place(end - 1).end.saturating_sub(s.base_spiral)
                });
                self.head_free = there;
                let bus = now + transfer(bytes, self.spec.bus_bytes_per_second);
                self.end(there.max(bus), id);
                return;
            }
        }
        self.queue.push(request);
    }

    fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].used = self.uses;
    }

    /// Notes how far the head has read on.
    fn catch_up(&mut self, now: Nanos) {
        if let Some(stream) = &self.stream {
            let spiral = stream.base_spiral + now.saturating_sub(stream.since);
            let at = self.geometry.sector_at(spiral).min(stream.limit);
            let segment = &mut self.segments[stream.segment];
            segment.end = segment.end.max(at);
            // Its begin is overwritten when the buffer is full.
            let room = (self.spec.read_ahead_bytes / SECTOR_BYTES).max(1) * 2;
            segment.first = segment.first.max(segment.end.saturating_sub(room));
        }
    }

    fn stop_stream(&mut self, now: Nanos) {
        self.catch_up(now);
        if let Some(stream) = self.stream.take() {
            let last = self.segments[stream.segment].end.max(1) - 1;
            let place = self.geometry.place(last);
            (self.cylinder, self.head, self.after) = (place.cylinder, place.head, last + 1);
        }
    }

    /// A request has read to `end` out of this segment: if the head is at it, it may go on.
    fn read_further(&mut self, now: Nanos, segment: Option<usize>, end: u64) {
        let Some(stream) = &mut self.stream else { return };
        if Some(stream.segment) != segment {
            return;
        }
        let ahead = self.spec.read_ahead_bytes / SECTOR_BYTES;
        let limit = (end + ahead).min(self.geometry.sectors());
        let stopped = self.segments[stream.segment].end >= stream.limit && limit > stream.limit;
        let old = stream.limit;
        stream.limit = stream.limit.max(limit);
        if stopped && old < self.geometry.sectors() {
            // It had stopped, and has to wait until the place comes round again.
            let place = self.geometry.place(old);
            (self.cylinder, self.head) = (place.cylinder, place.head);
            let since = self.reach(now, old, false);
            if let Some(stream) = &mut self.stream {
                (stream.since, stream.base_spiral) = (since, place.begin);
            }
        }
    }

    /// Gives writes that wait as much of the cache as is free.
    fn let_in(&mut self, now: Nanos) {
        while let Some((request, inside)) = self.cache.waiting.front().copied() {
            let room = self.cache.capacity.saturating_sub(self.cache.sectors);
            let first = request.first + inside;
            let part = room.min(request.end - first);
            if part == 0 && first < request.end {
                return;
            }
            if part > 0 {
                self.cache.insert(first, first + part);
            }
            let at = self.pass_bus(now, part * SECTOR_BYTES);
            if first + part == request.end {
                self.cache.waiting.pop_front();
                self.end(at, request.id);
            } else if let Some(front) = self.cache.waiting.front_mut() {
                front.1 += part;
            }
        }
    }

    /// The head is free: what does it do next?
    fn dispatch(&mut self, now: Nanos) {
        let urgent = !self.cache.waiting.is_empty() || !self.cache.flushes.is_empty();
        let destage = self.queue.is_empty() || (urgent && self.last_was_request);
        self.stop_stream(now);
        if destage && let Some((first, end)) = self.cache.take(self.after) {
            let (_, done) = self.sweep(now, first, end, true);
            self.cache.destaging = Some((done, first, end));
            self.last_was_request = false;
            return;
        }
        let Some(chosen) = self.choose(now) else { return };
        let request = self.queue.remove(chosen);
        self.last_was_request = true;
        let Request { id, first, end, bytes, .. } = request;
        let bus = transfer(bytes, self.spec.bus_bytes_per_second);
        if request.kind == ModelKind::Write {
            let (_, done) = self.sweep(now, first, end, true);
            self.end(done.max(request.fed), id);
            return;
        }
        let (begin, done) = self.sweep(now, first, end, false);
        self.end(done.max(begin + bus), id);
        if self.spec.read_ahead_bytes > 0 {
            let segment = self.new_segment(first);
            let limit = end + self.spec.read_ahead_bytes / SECTOR_BYTES;
            self.stream = Some(Stream {
                segment,
                since: begin,
                base_spiral: self.geometry.place(first).begin,
                limit: limit.min(self.geometry.sectors()),
            });
        }
    }

    fn new_segment(&mut self, first: u64) -> usize {
        self.uses += 1;
        let segment = Segment { first, end: first, used: self.uses };
        if self.segments.len() < self.spec.segments.max(1) {
            self.segments.push(segment);
            return self.segments.len() - 1;
        }
        let oldest = (0..self.segments.len()).min_by_key(|s| self.segments[*s].used).unwrap_or(0);
        self.segments[oldest] = segment;
        oldest
    }

    fn choose(&self, now: Nanos) -> Option<usize> {
        let requests = self.queue.iter().enumerate();
        let oldest = requests.clone().min_by_key(|(_, r)| (r.arrived, r.id))?;
        let chosen = match self.spec.order {
            Order::Fifo => oldest,
            Order::Elevator => {
                requests.min_by_key(|(_, r)| (r.first < self.after, r.first, r.id))?
            }
            Order::Shortest if now.saturating_sub(oldest.1.arrived) > PATIENCE => oldest,
            Order::Shortest => requests.min_by_key(|(_, r)| {
                (self.reach(now, r.first, r.kind == ModelKind::Write), r.id)
            })?,
        };
        Some(chosen.0)
    }

    fn destaged(&mut self, now: Nanos, first: u64, end: u64) {
        self.cache.destaging = None;
        self.cache.sectors -= end - first;
        if self.cache.flushing.is_empty() {
            for id in core::mem::take(&mut self.cache.flushes) {
                self.end(now, id);
            }
        }
        self.let_in(now);
    }

    fn wants_head(&self) -> bool {
        !self.queue.is_empty() || !self.cache.dirty.is_empty() || !self.cache.flushing.is_empty()
    }

    fn next_event(&self) -> Option<Nanos> {
        let ends = self.ends.first().map(|(at, ..)| *at);
        let decoded = self.decoding.front().map(|(at, _)| *at);
        let destaged = self.cache.destaging.map(|(at, ..)| at);
        let head = self.wants_head().then(|| self.head_free.max(self.now));
        [ends, decoded, destaged, head].into_iter().flatten().min()
    }

    /// Lets everything happen that happens until `now`.
    fn run(&mut self, now: Nanos, ended: &mut Vec<u64>) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.now = at.max(self.now);
            let at = self.now;
            if self.ends.first().is_some_and(|(end, ..)| *end <= at) {
                if let Some((_, _, id)) = self.ends.pop_first() {
                    ended.push(id);
                    self.inside -= 1;
                    if let Some(request) = self.outside.pop_front() {
                        self.accept(at, request);
                    }
                }
            } else if let Some((_, first, end)) = self.cache.destaging.filter(|d| d.0 <= at) {
                self.destaged(at, first, end);
            } else if self.decoding.front().is_some_and(|(ready, _)| *ready <= at) {
                if let Some((_, request)) = self.decoding.pop_front() {
                    self.decoded(at, request);
                }
            } else {
                self.dispatch(at);
            }
        }
        self.now = self.now.max(now);
    }
}

impl DiskModel for RotatingDisk {
    fn is_rotating(&self) -> bool {
        true
    }

    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        let now = nanos(now);
        let ModelRequest { id, kind, offset, len } = request;
        let first = offset / SECTOR_BYTES;
        let end = (offset + len).div_ceil(SECTOR_BYTES).max(first + 1);
        let request = Request { id, kind, first, end, bytes: len, arrived: now, fed: 0 };
        // What ends at this very moment is told at the next `advance`, and keeps its place.
        if self.inside >= self.spec.depth.max(1) {
            self.outside.push_back(request);
        } else {
            self.accept(now.max(self.now), request);
        }
    }

    fn next(&self) -> Option<Duration> {
        self.next_event().map(Duration::from_nanos)
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        self.run(nanos(now), ended);
    }
}
