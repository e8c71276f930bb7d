//! Random explorations in simulated time: any number of writers, readers, crashes, writers that
//! stand still and go on, lost, late and doubled requests, checkpoints and collections. Some have
//! caches of a few lines, which are shared, damaged and lost.
//!
//! Beside the store stands an *oracle*: it sees every object that was ever created, deleted or not,
//! and goes through the log from its beginning by the rule alone, without checkpoints, moves or
//! deletions, into an array of sectors. Held against it are
//!
//! - every flush that returned: what it covers is in the log, by this writer, from then on;
//! - every opening: it ends at a place that the oracle has, not before where the oracle was when it
//!   began, so that a later replay extends an earlier one;
//! - every place: what a writer has in the log is what it had done until some moment, and nothing
//!   that began later, so that whatever is left of it needed no flush in between;
//! - every byte that is read: nothing that can be reached was deleted or mixed up;
//! - every error: a writer that is fenced is so by an object of another one, and an opening that
//!   gives up by a writer that began after it.
//!
//! What it found is in `scripted` as well, step by step. What a store loses is in `lost`.

use super::format::{
    CLEAN, Change, Header, Kind, Superblock, Uuid, WriterId, decode_table, segment_name,
};
use super::{CachePlace, DiskError, LogDevice, Options, cache, pin, takeover, unpin};
use crate::store::client::Client;
use crate::store::{FaultRates, SimStore, SimWorld, Store, StoreError};
use core::cell::Cell;
use core::fmt::Display;
use core::time::Duration;
use device::{Device as _, Error, ErrorKind, WriteDevice as _};
use parking_lot::Mutex;
use rt::Rt;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use tempfile::TempDir;

mod limit;
mod lost;
mod scripted;
mod trips;

const SECTOR: usize = 512;
const SECTORS: usize = 64;
/// Sectors that fill a segment.
const TARGET: usize = 4;
/// Segments that a writer has under way at most, in any of the disks.
const WINDOW_MAX: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// The stamp of each sector; 0: it has nothing.
type Content = [u64; SECTORS];

/// The log as it is by the rule alone.
struct Oracle {
    next: u64,
    /// The place of the last clean seal.
    clean: Option<u64>,
    epoch: u64,
    writer: Uuid,
    content: Content,
    /// What was there when the log ended at a place, and whose place it was.
    points: BTreeMap<u64, (u64, Content)>,
    histories: BTreeMap<Uuid, History>,
}

/// What the disk was for its writer, from the takeover on.
struct History {
    /// After each change, and after each part of one that may end a segment.
    states: Vec<Content>,
    /// The state that the log is at.
    at: usize,
}

impl Oracle {
    fn new() -> Self {
        let content = [0; SECTORS];
        let points = BTreeMap::from([(1, (0, content))]);
        let (writer, histories) = ([0; 16], BTreeMap::new());
        Self { next: 1, clean: None, epoch: 0, writer, content, points, histories }
    }

    /// A writer begins with this, or makes this of the disk.
    fn will_be(&mut self, writer: Uuid, content: &Content) {
        let begun = History { states: Vec::new(), at: 0 };
        self.histories.entry(writer).or_insert(begun).states.push(*content);
    }

    /// The log has a segment more of its writer.
    fn goes_on(&mut self) {
        let history = self.histories.get_mut(&self.writer).expect("a writer that began");
        let later = history.states[history.at..].iter().position(|state| *state == self.content);
        history.at += later.expect("the log has what its writer did in another order");
    }

    fn advance(&mut self, world: &SimWorld) {
        while let Some(object) = world.first(&segment_name(self.next)) {
            let header = Header::decode(&object).unwrap();
            assert_eq!(header.seq, self.next);
            if header.kind == Kind::Seal {
                // A clean seal leaves no gap, so one of a writer that had found the log before it
                // was closed may still arrive behind it.
                let is_late = header.epoch <= self.epoch;
                let may_be_late = self.clean.is_some_and(|clean| self.next < clean + WINDOW_MAX);
                assert!(!is_late || may_be_late, "a seal that came too late cuts");
                self.writer = if is_late { [0; 16] } else { header.writer };
                self.epoch = self.epoch.max(header.epoch);
                if header.flags & CLEAN != 0 {
                    self.clean = Some(self.next);
                }
                self.next = header.resume;
            } else {
                let own = (header.epoch, header.writer);
                assert_eq!(own, (self.epoch, self.writer), "a segment of a fenced writer counts");
                self.apply(&header, &object);
                self.goes_on();
                self.next += 1;
            }
            self.points.insert(self.next, (self.epoch, self.content));
        }
        while self.points.len() > 4000 {
            self.points.pop_first();
        }
    }

    fn apply(&mut self, header: &Header, object: &[u8]) {
        let body = header.body_of(object).unwrap();
        let mut at = header.payload as usize;
        for entry in decode_table(header, body, SECTORS as u64).unwrap() {
            for n in 0..entry.sectors as usize {
                let sector = entry.lba as usize + n;
                match entry.change {
                    Change::Data => {
                        let bytes = &object[at + n * SECTOR..at + (n + 1) * SECTOR];
                        self.content[sector] = stamp_of(bytes);
                    }
                    Change::Trim => self.content[sector] = 0,
                    // It changes where something is, and not what.
                    Change::Move { .. } => {}
                }
            }
            at += entry.payload() as usize * SECTOR;
        }
    }
}

/// The one stamp that a sector is full of.
fn stamp_of(sector: &[u8]) -> u64 {
    let words: Vec<u64> =
        sector.chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
    assert!(words.iter().all(|word| *word == words[0]), "a sector is mixed up");
    words[0]
}

/// A writer that has the disk, or believes so.
struct Holder {
    device: Arc<LogDevice>,
    store: Arc<SimStore>,
    epoch: u64,
    writer: Uuid,
    content: Content,
}

struct Lab {
    rt: Rt,
    world: Arc<SimWorld>,
    oracle: Mutex<Oracle>,
    /// Writers that stand still.
    asleep: Mutex<Vec<Holder>>,
    stamps: Mutex<u64>,
    takeovers: Mutex<u64>,
    /// Where caches are; `None`: there are none.
    caches: Option<TempDir>,
}

fn options() -> Options {
    Options {
        patience: PATIENCE,
        uncounted_max: 8 * SECTOR as u64,
        grace: Duration::from_secs(1),
        is_tended: false,
        who: WriterId { host: "simulated".to_owned(), pid: 1 },
        ..Options::default()
    }
}

impl Lab {
    fn new(rt: &Rt, world: &Arc<SimWorld>, caches: Option<TempDir>) -> Arc<Self> {
        Arc::new(Self {
            rt: rt.clone(),
            world: Arc::clone(world),
            oracle: Mutex::new(Oracle::new()),
            asleep: Mutex::default(),
            stamps: Mutex::new(0),
            takeovers: Mutex::new(0),
            caches,
        })
    }

    fn below(&self, bound: u64) -> u64 {
        self.rt.random_u64() % bound
    }

    /// With one of the caches, which another may have at the time; it may be damaged, or lost.
    fn options(&self) -> Options {
        let Some(folder) = &self.caches else { return options() };
        let folder = folder.path().join(self.below(3).to_string());
        let bytes = 8192 + 6 * (cache::LINE + 64);
        for file in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match self.below(16) {
                0 => std::fs::remove_file(file.path()).unwrap(),
                1..=4 => {
                    let file = File::options().write(true).open(file.path()).unwrap();
                    // The head, the table, or a line.
                    let at = [8192, 8192, bytes][self.below(3) as usize];
                    file.write_all_at(&[0x5a; 64], self.below(at)).unwrap();
                }
                _ => {}
            }
        }
        Options { cache: Some(CachePlace { folder, bytes }), ..options() }
    }

    fn rest(&self, most: u64) {
        self.rt.sleep(Duration::from_millis(self.below(most)));
    }

    /// Where the log ends, and the number of the writer there.
    fn end_of_log(&self) -> (u64, u64) {
        let mut oracle = self.oracle.lock();
        oracle.advance(&self.world);
        (oracle.next, oracle.epoch)
    }

    /// What the oracle has at a place.
    fn point(&self, place: u64) -> (u64, Content) {
        let mut oracle = self.oracle.lock();
        oracle.advance(&self.world);
        *oracle.points.get(&place).expect("a replay ends where the log never did")
    }

    /// The stamps of all sectors, as a device has them.
    fn content_of(device: &LogDevice) -> Result<Content, Error> {
        let bytes = device.read_new(0, SECTORS * SECTOR)?;
        let mut content = [0; SECTORS];
        for (stamp, sector) in content.iter_mut().zip(bytes.chunks(SECTOR)) {
            *stamp = stamp_of(sector);
        }
        Ok(content)
    }

    fn take_over(&self) -> Option<Holder> {
        let store = SimStore::new(&self.world);
        self.take_over_by(store.clone(), store)
    }

    /// The same of a machine with another way to its store.
    fn take_over_by(&self, way: Arc<dyn Store>, store: Arc<SimStore>) -> Option<Holder> {
        let (before, present) = self.end_of_log();
        let device = match LogDevice::claim(way, "sim", &self.rt, self.options(), None) {
            Ok(device) => device,
            Err(DiskError::Fenced(by)) => {
                let now = self.end_of_log().1;
                assert!(present < by && by <= now, "{by} is not between {present} and {now}");
                return None;
            }
            Err(trouble) => panic!("{trouble}"),
        };
        let place = device.place();
        assert!(place >= before, "a takeover ends at {place}, and the log was at {before}");
        let (epoch, content) = self.point(place);
        let own = device.core().state.lock().writer.as_ref().map(|own| (own.epoch, own.uuid));
        let (number, writer) = own.expect("a writer");
        assert_eq!(number, epoch);
        self.oracle.lock().will_be(writer, &content);
        *self.takeovers.lock() += 1;
        Some(Holder { device, store, epoch, writer, content })
    }

    /// A writer works for a while; whether it still believes that it is one.
    fn work(&self, holder: &mut Holder, steps: u64) -> bool {
        for _ in 0..steps {
            let is_on = match self.below(20) {
                0..=8 => self.write(holder),
                9 => self.trim(holder),
                10..=13 => self.flush(holder),
                14 | 15 => self.look(holder),
                16 => {
                    let aged = holder.device.age();
                    self.ended(holder, aged.and_then(|()| holder.device.collect().map(|_| ())))
                }
                17 => self.ended(holder, holder.device.clean(60, 1 << 20).map(|_| ())),
                18 => self.ended(holder, holder.device.collect().map(|_| ())),
                _ => self.ended(holder, holder.device.sweep().map(|_| ())),
            };
            if !is_on {
                return false;
            }
            if self.below(4) == 0 {
                self.rest(500);
            }
        }
        true
    }

    fn write(&self, holder: &mut Holder) -> bool {
        let lba = self.below(SECTORS as u64) as usize;
        let sectors = (1 + self.below(6)).min((SECTORS - lba) as u64);
        let first = {
            let mut stamps = self.stamps.lock();
            *stamps += sectors;
            *stamps - sectors + 1
        };
        let stamps: Vec<u64> = (first..first + sectors).collect();
        self.put(holder, lba, &stamps)
    }

    /// Writes to some sectors.
    fn put(&self, holder: &mut Holder, lba: usize, stamps: &[u64]) -> bool {
        for (at, piece) in (lba..).step_by(TARGET).zip(stamps.chunks(TARGET)) {
            holder.content[at..at + piece.len()].copy_from_slice(piece);
            self.oracle.lock().will_be(holder.writer, &holder.content);
        }
        let bytes: Vec<u8> =
            stamps.iter().flat_map(|stamp| stamp.to_le_bytes().repeat(SECTOR / 8)).collect();
        self.still(holder, holder.device.write((lba * SECTOR) as u64, &bytes))
    }

    fn trim(&self, holder: &mut Holder) -> bool {
        let lba = self.below(SECTORS as u64) as usize;
        let sectors = (1 + self.below(20) as usize).min(SECTORS - lba);
        holder.content[lba..lba + sectors].fill(0);
        self.oracle.lock().will_be(holder.writer, &holder.content);
        self.still(holder, holder.device.trim((lba * SECTOR) as u64, (sectors * SECTOR) as u64))
    }

    fn flush(&self, holder: &Holder) -> bool {
        if !self.still(holder, holder.device.flush()) {
            return false;
        }
        // Moves may be under way behind what was flushed.
        let counts =
            holder.device.core().state.lock().writer.as_ref().map(super::writer::Writer::lowest);
        let (epoch, content) = self.point(counts.expect("a writer"));
        assert_eq!(epoch, holder.epoch, "a flush of a writer that was fenced returned");
        assert_eq!(content, holder.content, "a flush returned, and what it covers is not there");
        true
    }

    fn look(&self, holder: &Holder) -> bool {
        match Self::content_of(&holder.device) {
            Ok(content) => {
                assert_eq!(content, holder.content, "a writer does not read what it wrote");
                true
            }
            // Another one may have deleted what this one still wants to read.
            Err(error) => {
                let is_known =
                    matches!(error.kind, ErrorKind::Refused(_) | ErrorKind::Fenced { .. });
                assert!(is_known, "{error}");
                self.must_be_fenced(holder, &error);
                false
            }
        }
    }

    /// Whether a writer was not fenced.
    fn still(&self, holder: &Holder, result: Result<(), Error>) -> bool {
        let Err(error) = result else { return true };
        assert!(matches!(error.kind, ErrorKind::Fenced { .. }), "{error}");
        self.must_be_fenced(holder, &error);
        false
    }

    /// The same of what the store was asked for by the way.
    fn ended(&self, holder: &Holder, result: Result<(), DiskError>) -> bool {
        let Err(trouble) = result else { return true };
        match &trouble {
            DiskError::Machine(text) => assert!(text.contains("taken it over"), "{text}"),
            // What a fenced writer wants to move may be gone.
            DiskError::Fenced(_) | DiskError::Gone | DiskError::Store(StoreError::Absent) => {}
            trouble => panic!("{trouble}"),
        }
        self.must_be_fenced(holder, &trouble);
        false
    }

    fn must_be_fenced(&self, holder: &Holder, error: &dyn Display) {
        let Holder { epoch, .. } = holder;
        assert!(self.is_fenced(holder), "writer {epoch} is fenced, and by no object: {error}");
    }

    /// Whether the rule fences a writer: the log went on without it, or another one has a place
    /// that it asked for. The seals of a takeover arrive in any order: one of them may stand behind
    /// the end of the log before the one at the end does, and that one may never come.
    fn is_fenced(&self, holder: &Holder) -> bool {
        let end = holder.device.place();
        let mut oracle = self.oracle.lock();
        oracle.advance(&self.world);
        let is_theirs = |place| {
            let object = self.world.first(&segment_name(place));
            object.is_some_and(|object| Header::decode(&object).unwrap().writer != holder.writer)
        };
        oracle.writer != holder.writer || (oracle.next..end).any(is_theirs)
    }

    fn read(&self) {
        let store = SimStore::new(&self.world);
        let is_pinned = self.below(2) == 0;
        let pinned = is_pinned.then(|| {
            pin(store.clone(), &self.rt, PATIENCE, 1 << 30, &options().who).expect("a pin")
        });
        let (before, _) = self.end_of_log();
        let device = match LogDevice::open(store.clone(), "sim", &self.rt, self.options()) {
            Ok(device) => device,
            Err(trouble) => panic!("{trouble}"),
        };
        let place = device.place();
        assert!(place >= before, "a replay ends at {place}, and the log was at {before}");
        let (_, content) = self.point(place);
        // What was pinned is that place only if nothing was written in between.
        let is_kept = pinned.as_ref().is_some_and(|pin| pin.at == place);
        for _ in 0..2 {
            match Self::content_of(&device) {
                Ok(found) => assert_eq!(found, content, "a reader sees what never was"),
                Err(error) => {
                    assert!(!is_kept, "what is pinned was deleted: {error}");
                    assert!(matches!(error.kind, ErrorKind::Refused(_)), "{error}");
                }
            }
            self.rest(60_000);
        }
        if let Some(pin) = pinned {
            unpin(store, &self.rt, PATIENCE, &pin.name).expect("unpin");
        }
    }

    /// What one machine does.
    fn act(&self, rounds: usize) {
        for _ in 0..rounds {
            match self.below(8) {
                0 => self.read(),
                1 | 2 => {
                    // One that stood still goes on as if nothing had happened.
                    let holder = self.asleep.lock().pop();
                    if let Some(mut holder) = holder {
                        let steps = 1 + self.below(12);
                        self.work(&mut holder, steps);
                        self.end(holder);
                    }
                }
                _ => {
                    let Some(mut holder) = self.take_over() else { continue };
                    let steps = self.below(25);
                    self.work(&mut holder, steps);
                    self.end(holder);
                }
            }
            self.rest(if self.below(10) == 0 { 300_000 } else { 2000 });
        }
    }

    /// A writer ends in order, loses its power, or stands still.
    fn end(&self, holder: Holder) {
        match self.below(10) {
            0..=2 => drop(holder),
            3..=6 => {
                holder.store.fail();
                holder.device.stop();
            }
            _ => {
                let mut asleep = self.asleep.lock();
                asleep.insert(0, holder);
                let oldest = if asleep.len() > 6 { asleep.pop() } else { None };
                drop(asleep);
                if let Some(oldest) = oldest {
                    oldest.store.fail();
                    oldest.device.stop();
                }
            }
        }
    }
}

/// Says how far the long form is.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A disk whose segments are full with a few sectors. Each opening tries whether its store keeps
/// writers apart.
fn small_disk(window: u64) -> Superblock {
    Superblock {
        size: (SECTORS * SECTOR) as u64,
        sector: SECTOR as u32,
        target: (TARGET * SECTOR) as u32,
        window: window as u32,
        is_fenced: true,
        limit: None,
        made_by: String::new(),
    }
}

fn make_disk(rt: &Rt, world: &Arc<SimWorld>, window: u64) {
    let client = Client::new(SimStore::new(world), rt, PATIENCE);
    takeover::make_disk(&client, &small_disk(window)).expect("a disk");
}

/// One exploration; how many writers it had. One that fails is tried with fewer rounds of each
/// machine, as long as it fails.
fn explore(seed: u64, rounds: usize) -> u64 {
    let takeovers = Cell::new(0);
    testkit::shrinking_events(rounds, |kept| takeovers.set(explore_once(seed, kept.len())));
    takeovers.get()
}

fn explore_once(seed: u64, rounds: usize) -> u64 {
    Rt::simulate(seed, |rt| {
        let world = SimWorld::new(rt);
        make_disk(rt, &world, 1 + rt.random_u64() % WINDOW_MAX);
        if rt.random_u64() % 4 > 0 {
            world.set_fault_rates(FaultRates::rough());
        }
        let caches = (rt.random_u64() % 2 == 0).then(|| tempfile::tempdir().unwrap());
        for n in 0..3 {
            caches.iter().for_each(|c| std::fs::create_dir(c.path().join(n.to_string())).unwrap());
        }
        let lab = Lab::new(rt, &world, caches);
        let machines: Vec<_> = (0..3)
            .map(|n| {
                let lab = Arc::clone(&lab);
                rt.spawn(&format!("machine {n}"), move || lab.act(rounds)).expect("a thread")
            })
            .collect();
        machines.into_iter().for_each(|machine| machine.join().expect("no panic"));
        // In the end, without faults, everything is there.
        world.set_fault_rates(FaultRates::default());
        let holder = loop {
            if let Some(holder) = lab.take_over() {
                break holder;
            }
        };
        assert!(lab.look(&holder) && lab.flush(&holder));
        *lab.takeovers.lock()
    })
}

#[test]
fn nothing_flushed_is_lost_and_nothing_needed_is_deleted() {
    let first = std::env::var("ZINC_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = first.map_or(0..200, |seed| seed..seed + 1);
    let takeovers: u64 = seeds.map(|seed| explore(seed, 8)).sum();
    assert!(takeovers > 10, "{takeovers}");
}

#[test]
#[ignore = "long form: a million writers, run by scripts/campaign far"]
fn a_million_writers() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
    };
    let (mut seed, wanted) = (number("ZINC_SEED", 1000), number("ZINC_TAKEOVERS", 1_000_000));
    let (mut takeovers, first) = (0, seed);
    while takeovers < wanted {
        takeovers += explore(seed, 60);
        seed += 1;
        if (seed - first) % 100 == 0 {
            say(&format!("{takeovers} writers, next seed {seed}"));
        }
    }
    let runs = seed - first;
    say(&format!("{takeovers} writers in {runs} runs, seeds {first} to {}", seed - 1));
}
