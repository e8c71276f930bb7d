//! The contents of disks after the power has failed.
//!
//! A [`CrashLog`] has the operations of simulated disks, event by event: a write arrived, it was
//! done, a flush began, it ended. From it the disks can be had as a crash after any number of those
//! events would have left them, as often and in as many ways as a test likes, without running
//! anything again.
//!
//! The rules are those of [`crate::WriteDevice`]: a write is certain when a flush has ended that
//! began after it was done. Every other write that had arrived may be there, or some of its
//! sectors, or nothing, whatever became of the writes before and after it. Where uncertain writes
//! overlap, the later one wins if both are there: a disk's cache keeps one version of a sector.

use crate::{MemoryDevice, Shared};
use parking_lot::Mutex;
use rt::{Rng, Xoshiro256};
use std::sync::Arc;

/// Into how many parts the log is cut by states that are kept, so that an image at any place needs
/// only a part of the log.
const CHECKPOINTS: usize = 32;

/// How writes are treated that no flush has made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashMode {
    /// All of them are there, as on disks whose cache survives.
    KeepAll,
    /// None of them is.
    LoseUnflushed,
    /// The seed decides for each of them: there, lost, or torn between sectors. How many are likely
    /// to be there is drawn too, for each image.
    Random,
}

/// The written data.
pub(crate) type Data = Arc<[Shared]>;

/// One event. Events name each other by their place in the log.
#[derive(Clone)]
pub(crate) enum Event {
    /// A write arrived at a disk.
    Write { disk: usize, offset: u64, data: Data },
    /// It was done.
    Done { write: usize },
    /// A flush arrived at a disk.
    FlushBegin { disk: usize },
    /// It ended, with success.
    FlushEnd { begin: usize },
}

/// A run of simulated disks, from [`crate::SimDisks::log`].
pub struct CrashLog {
    /// The disks as they were before the first event.
    start: Vec<MemoryDevice>,
    events: Vec<Event>,
    cache: Mutex<Cache>,
}

/// States that images start from.
#[derive(Default)]
struct Cache {
    /// In the order of their places.
    checkpoints: Vec<State>,
    /// The one the last image was made from: a sweep continues there.
    last: Option<State>,
}

/// The durable and the uncertain writes after some events.
struct State {
    /// Events so far.
    place: usize,
    disks: Vec<Disk>,
}

struct Disk {
    /// With all writes that are certain.
    certain: MemoryDevice,
    /// The others, in the order they arrived.
    pending: Vec<Pending>,
}

#[derive(Clone)]
struct Pending {
    /// Its event.
    write: usize,
    /// The event of its being done, if that was.
    done: Option<usize>,
}

impl State {
    fn fork(&self) -> Self {
        let fork =
            |disk: &Disk| Disk { certain: disk.certain.fork(), pending: disk.pending.clone() };
        Self { place: self.place, disks: self.disks.iter().map(fork).collect() }
    }

    fn advance(&mut self, events: &[Event], place: usize) {
        for index in self.place..place.min(events.len()) {
            match &events[index] {
                Event::Write { disk, .. } => {
                    self.disks[*disk].pending.push(Pending { write: index, done: None });
                }
                Event::Done { write } => {
                    let Event::Write { disk, .. } = &events[*write] else { continue };
                    let pending = &mut self.disks[*disk].pending;
                    if let Some(pending) = pending.iter_mut().find(|p| p.write == *write) {
                        pending.done = Some(index);
                    }
                }
                Event::FlushBegin { .. } => {}
                Event::FlushEnd { begin } => {
                    let Event::FlushBegin { disk } = &events[*begin] else { continue };
                    let Disk { certain, pending } = &mut self.disks[*disk];
                    pending.retain(|p| {
                        let flushed = p.done.is_some_and(|done| done < *begin);
                        if flushed && let Event::Write { offset, data, .. } = &events[p.write] {
                            apply(certain, *offset, data);
                        }
                        !flushed
                    });
                }
            }
        }
        self.place = place.min(events.len());
    }
}

impl CrashLog {
    pub(crate) fn new(start: Vec<MemoryDevice>, events: Vec<Event>) -> Self {
        Self { start, events, cache: Mutex::default() }
    }

    /// Number of events. A crash is at one of `0..=len()`: after this many of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing has happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The disks, in the order they were added, after a crash that followed the first `cut` events.
    /// The same arguments give the same bytes.
    ///
    /// Costs a small part of the log's replay, less when cuts come in rising order, and memory for
    /// what differs from other images.
    #[must_use]
    pub fn images(&self, cut: usize, mode: CrashMode, seed: u64) -> Vec<MemoryDevice> {
        let state = self.state_at(cut);
        // Neighbouring cuts with one seed shall not make the same choices.
        let mut rng = Xoshiro256::seeded(seed ^ (cut as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let likely = [1, 4, 7][rng.below(3) as usize];
        for Disk { certain, pending } in &state.disks {
            for Pending { write, .. } in pending {
                let Event::Write { offset, data, .. } = &self.events[*write] else { continue };
                match mode {
                    CrashMode::LoseUnflushed => {}
                    CrashMode::KeepAll => apply(certain, *offset, data),
                    CrashMode::Random if rng.below(4) == 0 => {
                        tear(certain, *offset, data, &mut rng);
                    }
                    CrashMode::Random if rng.below(8) < likely => apply(certain, *offset, data),
                    CrashMode::Random => {}
                }
            }
        }
        state.disks.into_iter().map(|disk| disk.certain).collect()
    }

    /// Whether a crash one event later leaves the same images as this one. A test that judges the
    /// last of each row of such cuts has judged all of them, and with the most promises.
    #[must_use]
    pub fn is_same_after_next(&self, cut: usize, mode: CrashMode) -> bool {
        match (mode, self.events.get(cut)) {
            (CrashMode::Random, _) | (_, None) => false,
            // It puts what it covers below what stays uncertain, also where these overlap.
            (_, Some(Event::FlushEnd { .. })) => false,
            (CrashMode::KeepAll, Some(event)) => !matches!(event, Event::Write { .. }),
            (CrashMode::LoseUnflushed, Some(_)) => true,
        }
    }

    /// How many writes were uncertain after the first `cut` events, on all disks: with none, all
    /// images of this cut are the same.
    #[must_use]
    pub fn uncertain(&self, cut: usize) -> usize {
        self.state_at(cut).disks.iter().map(|disk| disk.pending.len()).sum()
    }

    /// Event number `index` in words, for messages of tests.
    #[must_use]
    pub fn describe(&self, index: usize) -> String {
        let disk = |number: usize| {
            self.start.get(number).map_or("?", |disk| crate::Device::name(disk)).to_owned()
        };
        match self.events.get(index) {
            None => format!("event {index}: none"),
            Some(Event::Write { disk: number, offset, data }) => {
                let len: u64 = data.iter().map(|part| part.len() as u64).sum();
                format!("event {index}: {} write of {len} bytes at {offset}", disk(*number))
            }
            Some(Event::Done { write }) => format!("event {index}: done is {write}"),
            Some(Event::FlushBegin { disk: number }) => {
                format!("event {index}: {} flush begins", disk(*number))
            }
            Some(Event::FlushEnd { begin }) => format!("event {index}: flush {begin} ends"),
        }
    }

    /// The state after `cut` events, from the nearest one that is kept.
    fn state_at(&self, cut: usize) -> State {
        let cut = cut.min(self.events.len());
        let mut cache = self.cache.lock();
        if cache.checkpoints.is_empty() {
            self.make_checkpoints(&mut cache.checkpoints);
        }
        let known = cache.checkpoints.iter().chain(&cache.last);
        let nearest = known.filter(|state| state.place <= cut).max_by_key(|state| state.place);
        let Some(mut state) = nearest.map(State::fork) else {
            return State { place: 0, disks: Vec::new() };
        };
        state.advance(&self.events, cut);
        cache.last = Some(state.fork());
        state
    }

    fn make_checkpoints(&self, out: &mut Vec<State>) {
        let disk = |start: &MemoryDevice| Disk { certain: start.fork(), pending: Vec::new() };
        let mut state = State { place: 0, disks: self.start.iter().map(disk).collect() };
        let step = (self.events.len() / CHECKPOINTS).max(64);
        while state.place < self.events.len() {
            out.push(state.fork());
            let next = state.place + step;
            state.advance(&self.events, next);
        }
        out.push(state);
    }
}

/// Writes all of it.
fn apply(device: &MemoryDevice, mut offset: u64, data: &Data) {
    for part in data.iter() {
        device.put(offset, part);
        offset += part.len() as u64;
    }
}

/// Writes some of its sectors.
fn tear(device: &MemoryDevice, offset: u64, data: &Data, rng: &mut Xoshiro256) {
    let sector = u64::from(crate::Device::sector_size(device));
    let mut at = offset;
    // One choice for a sector, which may lie across two parts.
    let mut current = (u64::MAX, false);
    for part in data.iter() {
        let mut rest = &part[..];
        while !rest.is_empty() {
            if current.0 != at / sector {
                current = (at / sector, rng.below(2) == 0);
            }
            let here = rest.len().min((sector - at % sector) as usize);
            if current.1 {
                device.put(at, &rest[..here]);
            }
            at += here as u64;
            rest = &rest[here..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_one;

    fn write(disk: usize, offset: u64, bytes: &[u8]) -> Event {
        Event::Write { disk, offset, data: [Shared::copy_of(bytes)].into() }
    }

    fn start(disks: usize) -> Vec<MemoryDevice> {
        (0..disks).map(|_| MemoryDevice::zeros("d", 1 << 20)).collect()
    }

    fn byte(images: &[MemoryDevice], disk: usize, offset: u64) -> u8 {
        read_one(&images[disk], offset, 1).expect("read")[0]
    }

    /// Two writes; a flush covers only the one that was done when it began, on its own disk.
    #[test]
    fn only_what_was_done_before_a_flush_is_certain() {
        let events = vec![
            write(0, 0, b"a"),
            write(0, 1, b"b"),
            write(1, 0, b"c"),
            Event::Done { write: 0 },
            Event::Done { write: 2 },
            Event::FlushBegin { disk: 0 },
            Event::Done { write: 1 },
            Event::FlushEnd { begin: 5 },
        ];
        let log = CrashLog::new(start(2), events);
        let at = |cut, mode| {
            let images = log.images(cut, mode, 1);
            [byte(&images, 0, 0), byte(&images, 0, 1), byte(&images, 1, 0)]
        };
        assert_eq!(at(7, CrashMode::LoseUnflushed), [0, 0, 0]);
        assert_eq!(at(8, CrashMode::LoseUnflushed), [b'a', 0, 0]);
        assert_eq!(at(1000, CrashMode::KeepAll), *b"abc");
        assert_eq!(at(2, CrashMode::KeepAll), *b"ab\0");
        let same =
            |mode| (0..8).filter(|cut| log.is_same_after_next(*cut, mode)).collect::<Vec<_>>();
        assert_eq!(same(CrashMode::LoseUnflushed), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(same(CrashMode::KeepAll), [3, 4, 5, 6]);
        assert_eq!(same(CrashMode::Random), [0; 0]);
        assert_eq!((log.uncertain(3), log.uncertain(8), log.len()), (3, 2, 8));
        assert_eq!(log.describe(1), "event 1: d write of 1 bytes at 1");
    }

    /// Every subset of uncertain writes turns up, whole sectors and torn ones; what is certain is
    /// always there; the same seed gives the same image.
    #[test]
    fn random_crashes_keep_lose_and_tear() {
        let sector = |mark| vec![mark; 512];
        let mut events = vec![
            write(0, 0, &sector(1)),
            Event::Done { write: 0 },
            Event::FlushBegin { disk: 0 },
            Event::FlushEnd { begin: 2 },
            write(0, 0, &sector(2)),
            Event::Done { write: 4 },
        ];
        events.push(write(0, 512, &sector(3).repeat(2)));
        events.push(write(0, 4096, &sector(0)));
        let disk = MemoryDevice::zeros("d", 8192);
        disk.put(4096, &sector(9));
        let log = CrashLog::new(vec![disk], events);
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let images = log.images(8, CrashMode::Random, seed);
            let places = [0, 511, 512, 1023, 1024, 1535, 4096];
            let got = places.map(|at| byte(&images, 0, at));
            assert_eq!((got[0], got[2], got[4]), (got[1], got[3], got[5]), "sectors are whole");
            seen.insert([got[0], got[2], got[4], got[6]]);
            let again = log.images(8, CrashMode::Random, seed);
            assert_eq!(places.map(|at| byte(&again, 0, at)), got);
        }
        // Two states of each of the four sectors.
        assert_eq!(seen.len(), 16);
        assert!(seen.iter().all(|s| (s[0] == 1 || s[0] == 2) && (s[3] == 0 || s[3] == 9)));
    }

    /// Images do not depend on earlier calls, and many of them are cheap.
    #[test]
    fn any_order_of_cuts_gives_the_same_images() {
        let mut events = Vec::new();
        let mut rng = Xoshiro256::seeded(5);
        for _ in 0..1000 {
            let at = events.len();
            let bytes = vec![rng.next_u64() as u8; 1 + rng.below(3000) as usize];
            events.push(write((rng.below(2)) as usize, rng.below(1_000_000), &bytes));
            events.push(Event::Done { write: at });
            if rng.below(5) == 0 {
                events.push(Event::FlushBegin { disk: rng.below(2) as usize });
                events.push(Event::FlushEnd { begin: events.len() - 1 });
            }
        }
        let sum = |images: &[MemoryDevice]| {
            let bytes = |disk| read_one(disk, 0, 1 << 20).expect("read");
            images.iter().map(|disk| crate::crc32::crc32(&bytes(disk))).collect::<Vec<_>>()
        };
        let log = CrashLog::new(start(2), events.clone());
        let mut cuts: Vec<usize> = (0..40).map(|_| rng.below(2500) as usize).collect();
        let first: Vec<_> =
            cuts.iter().map(|cut| sum(&log.images(*cut, CrashMode::Random, 7))).collect();
        cuts.reverse();
        let fresh = CrashLog::new(start(2), events);
        let second: Vec<_> =
            cuts.iter().map(|cut| sum(&fresh.images(*cut, CrashMode::Random, 7))).collect();
        assert!(first.iter().eq(second.iter().rev()));
        let begin = std::time::Instant::now();
        for seed in 0..1000 {
            let cut = rng.below(2500) as usize;
            assert_eq!(log.images(cut, CrashMode::Random, seed).len(), 2);
        }
        assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    }
}
