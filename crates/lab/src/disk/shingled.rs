//! A shingled disk that hides it: tracks overlap, so that bands of them are only written from their
//! begin on.
//!
//! A write that goes on where its band ends lands there. Any other goes to the end of a cache on
//! the platter's outside, and its band is cleaned later: read, and written as a whole with what
//! the cache has of it. A disk cleans when it had nothing to do for a while, and when the cache is
//! full; then writes wait for it. That is what makes such disks stand still for seconds. Reads
//! find what the cache has there.
//!
//! Time begins with an empty cache and empty bands. A band is cleaned in pieces, between which
//! other requests have their turn. Where what is in a band came from does not matter: the band that
//! has waited longest is cleaned first.

use super::rotating::{Rotating, RotatingDisk, Shingled};
use super::{Nanos, micros, nanos};
use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// What the cache remembers the place of.
const UNIT: u64 = 4096;
/// A band is read and written in such pieces.
const PIECE: u64 = 8 << 20;

/// What a band has in the cache.
#[derive(Default)]
struct Cached {
    units: BTreeSet<u64>,
    /// All that was written there for it, also what is no longer valid.
    bytes: u64,
}

/// A band that is being cleaned.
struct Cleaning {
    band: u64,
    end: u64,
    at: u64,
    writes: bool,
}

pub(crate) struct ShingledDisk {
    spec: Shingled,
    disk: RotatingDisk,
    /// Where each band that is not empty ends.
    filled: HashMap<u64, u64>,
    /// Where the cache has a unit.
    place: HashMap<u64, u64>,
    cached: HashMap<u64, Cached>,
    /// Bands to be cleaned, that which has waited longest first.
    order: VecDeque<u64>,
    used: u64,
    head: u64,
    /// Requests that wait for room in the cache, and what follows them.
    waiting: VecDeque<ModelRequest>,
    cleaning: Option<Cleaning>,
    /// Requests of the disk below: whose they are. Those of the cleaning have no owner.
    of: HashMap<u64, Option<u64>>,
    /// How many of each host request are under way.
    parts: HashMap<u64, u64>,
    requests: u64,
    last: Nanos,
}

impl ShingledDisk {
    pub(crate) fn new(spec: &Shingled, disk: &Rotating, capacity_bytes: u64, seed: u64) -> Self {
        let all = capacity_bytes + spec.cache_bytes;
        Self {
            disk: RotatingDisk::new(disk, all, seed),
            filled: HashMap::new(),
            place: HashMap::new(),
            cached: HashMap::new(),
            order: VecDeque::new(),
            used: 0,
            head: 0,
            waiting: VecDeque::new(),
            cleaning: None,
            of: HashMap::new(),
            parts: HashMap::new(),
            requests: 0,
            last: 0,
            spec: spec.clone(),
        }
    }

    fn idle(&self) -> Nanos {
        micros(self.spec.idle_ms * 1e3)
    }

    /// Has the disk below do something for a host's request, or for the cleaning.
    fn below(&mut self, now: Duration, of: Option<u64>, kind: ModelKind, (at, len): (u64, u64)) {
        self.requests += 1;
        self.of.insert(self.requests, of);
        if let Some(id) = of {
            *self.parts.entry(id).or_default() += 1;
        }
        self.disk.arrive(now, ModelRequest { id: self.requests, kind, offset: at, len });
    }

    /// Parts of a range that lie in one band.
    fn in_bands(&self, request: &ModelRequest) -> Vec<(u64, u64, u64)> {
        let band_bytes = self.spec.band_bytes.max(UNIT);
        let (mut at, end) = (request.offset, request.offset + request.len);
        let mut all = Vec::new();
        while at < end {
            let band = at / band_bytes;
            let len = ((band + 1) * band_bytes).min(end) - at;
            all.push((band, at, len));
            at += len;
        }
        all
    }

    fn ends_of(&self, band: u64) -> u64 {
        self.filled.get(&band).copied().unwrap_or(band * self.spec.band_bytes.max(UNIT))
    }

    /// Bytes of a write that do not go on where a band ends.
    fn out_of_order(&self, request: &ModelRequest) -> u64 {
        let parts = self.in_bands(request);
        parts.iter().filter(|(band, at, _)| self.ends_of(*band) != *at).map(|part| part.2).sum()
    }

    fn take(&mut self, now: Duration, request: ModelRequest) {
        match request.kind {
            ModelKind::Flush => self.below(now, Some(request.id), request.kind, (0, 0)),
            ModelKind::Read => self.read(now, &request),
            ModelKind::Write => self.write(now, &request),
        }
    }

    fn read(&mut self, now: Duration, request: &ModelRequest) {
        let data = self.spec.cache_bytes;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let (mut at, end) = (request.offset, request.offset + request.len);
        while at < end {
            let unit = at / UNIT;
            let len = ((unit + 1) * UNIT).min(end) - at;
            let from = self.place.get(&unit).map_or(data + at, |place| place + at % UNIT);
            match runs.last_mut().filter(|(first, len)| first + len == from) {
                Some(run) => run.1 += len,
                None => runs.push((from, len)),
            }
            at += len;
        }
        for run in runs {
            self.below(now, Some(request.id), ModelKind::Read, run);
        }
    }

    fn write(&mut self, now: Duration, request: &ModelRequest) {
        for (band, at, len) in self.in_bands(request) {
            if self.ends_of(band) == at {
                self.filled.insert(band, at + len);
                for unit in at / UNIT..(at + len).div_ceil(UNIT) {
                    self.place.remove(&unit);
                }
                let place = (self.spec.cache_bytes + at, len);
                self.below(now, Some(request.id), ModelKind::Write, place);
                continue;
            }
            if self.head + len > self.spec.cache_bytes {
                self.head = 0;
            }
            let cached = self.cached.entry(band).or_default();
            if cached.units.is_empty() {
                self.order.push_back(band);
            }
            for unit in at / UNIT..(at + len).div_ceil(UNIT) {
                cached.units.insert(unit);
                self.place.insert(unit, self.head + (unit * UNIT).saturating_sub(at));
            }
            cached.bytes += len;
            let place = (self.head, len);
            self.head += len;
            self.used += len;
            self.below(now, Some(request.id), ModelKind::Write, place);
        }
    }

    /// Lets in what waits, as far as there is room.
    fn let_in(&mut self, now: Duration) {
        while let Some(request) = self.waiting.front().copied() {
            let more = match request.kind {
                ModelKind::Write => self.out_of_order(&request),
                ModelKind::Read | ModelKind::Flush => 0,
            };
            // What is larger than the cache has to pass it too.
            if more > 0 && self.used > 0 && self.used + more > self.spec.cache_bytes {
                self.clean(now);
                return;
            }
            self.waiting.pop_front();
            self.take(now, request);
        }
    }

    /// Begins to clean, if that is not under way.
    fn clean(&mut self, now: Duration) {
        if self.cleaning.is_some() {
            return;
        }
        let Some(band) = self.order.pop_front() else { return };
        let last = self.cached.get(&band).and_then(|c| c.units.last().copied());
        let end = self.ends_of(band).max(last.map_or(0, |unit| (unit + 1) * UNIT));
        let at = band * self.spec.band_bytes.max(UNIT);
        self.cleaning = Some(Cleaning { band, end, at, writes: false });
        self.step(now);
    }

    /// The next piece of the cleaning.
    fn step(&mut self, now: Duration) {
        let first = |band: u64| band * self.spec.band_bytes.max(UNIT);
        let Some(cleaning) = &mut self.cleaning else { return };
        if cleaning.at >= cleaning.end {
            if cleaning.writes {
                let (band, end) = (cleaning.band, cleaning.end);
                self.cleaning = None;
                self.cleaned(band, end);
                return self.let_in(now);
            }
            (cleaning.at, cleaning.writes) = (first(cleaning.band), true);
        }
        let len = PIECE.min(cleaning.end - cleaning.at);
        let kind = if cleaning.writes { ModelKind::Write } else { ModelKind::Read };
        let place = (self.spec.cache_bytes + cleaning.at, len);
        cleaning.at += len;
        self.below(now, None, kind, place);
    }

    /// What came into the cache for the band while it was cleaned goes with it.
    fn cleaned(&mut self, band: u64, end: u64) {
        self.filled.insert(band, end.max(self.ends_of(band)));
        if let Some(cached) = self.cached.remove(&band) {
            self.used -= cached.bytes;
            for unit in cached.units {
                self.place.remove(&unit);
            }
        }
    }
}

impl DiskModel for ShingledDisk {
    fn is_rotating(&self) -> bool {
        true
    }

    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        self.last = nanos(now);
        if request.kind == ModelKind::Read {
            return self.take(now, request);
        }
        self.waiting.push_back(request);
        self.let_in(now);
    }

    fn next(&self) -> Option<Duration> {
        let rests = self.cleaning.is_none() && self.parts.is_empty() && !self.order.is_empty();
        let idle = rests.then(|| Duration::from_nanos(self.last + self.idle()));
        self.disk.next().into_iter().chain(idle).min()
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let mut below = Vec::new();
        self.disk.advance(now, &mut below);
        for request in below {
            let Some(of) = self.of.remove(&request) else { continue };
            let Some(id) = of else {
                self.step(now);
                continue;
            };
            let left = self.parts.entry(id).or_default();
            *left -= 1;
            if *left == 0 {
                self.parts.remove(&id);
                self.last = nanos(now);
                ended.push(id);
            }
        }
        if self.parts.is_empty() && nanos(now) >= self.last + self.idle() {
            self.clean(now);
        }
    }
}
