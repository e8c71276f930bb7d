//! What a pool would do: simulated disks in a layout, and threads that read or write.
//!
//! The engine runs on the models of disks in virtual time, with its usual settings. Processors cost
//! nothing here, so what flash disks do is an upper bound. The files are written before the clock
//! starts, and reads find little of them in memory. In a new pool they lie on a small part of the
//! disks, so that seeks are short; in a full one the disks are made so small that seeks go over all
//! of them, as on large disks that are full.

mod layout;
mod load;
mod meter;
mod picture;
mod recorded;
mod state;

pub use layout::{Draid, Layout};
pub use picture::{Point, picture};
pub use recorded::Recorded;
pub use state::State;

use crate::disk::Preset;
use crate::error::LabError;
use crate::stream::StreamError;
use engine::inside::device::{SimDisks, WriteDeviceRef};
use engine::inside::pool::live;
use engine::inside::pool::live::{
    CreateOptions, Devices, LivePool, NewTop, Setting, SpaceClass, VdevSpec,
};
use engine::inside::rt::Rt;
use load::CompletedRequest;
pub(crate) use meter::{Meter, Metered};
use std::time::Duration;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write anew, in order.
    Write,
    /// Overwrite at random places.
    Overwrite,
    /// Read in order.
    Read,
    /// Read at random places.
    RandomRead,
    /// Read and overwrite at random places: this many reads of a hundred requests.
    Mixed(u8),
    /// Write in order and wait each time until it is safe.
    SyncWrite,
    /// What was recorded of a pool ([`Question::recorded`]), when it was.
    Recorded,
}

/// A pool and its load.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its disks.
    pub disk: Preset,
    /// How many.
    pub disks: usize,
    /// How they lie.
    pub layout: Layout,
    /// The disks for the intent log and for metadata.
    pub fast: Preset,
    /// How many have the intent log, as one mirror; 0 for none.
    pub logs: usize,
    /// How many have the metadata, as one mirror; 0 for none.
    pub specials: usize,
    /// In what state the pool is.
    pub state: State,
    /// Bytes of a record.
    pub record: u32,
    /// Data are stored in this many times fewer bytes; 1 for data that are not compressed.
    pub compression: f64,
    /// Bytes of all files together.
    pub bytes: u64,
    /// Threads, each with a file of its own.
    pub threads: usize,
    /// Bytes of a read or write.
    pub chunk: u64,
    /// What they do.
    pub work: Work,
    /// The load that was recorded, empty for others.
    pub recorded: Recorded,
    /// Seconds that they do it for, of the simulation's time.
    pub seconds: f64,
    /// Decides what chance decides.
    pub seed: u64,
}

/// What holds a load back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The disks have hardly a pause.
    Disks,
    /// Writers are held back because of the dirty data, while the disks have pauses.
    Throttle,
    /// Each thread waits for its own request: more threads would do more.
    Threads,
    /// Nothing: a load that was recorded asked for no more.
    Load,
}

impl Limit {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Disks => "disks",
            Self::Throttle => "throttle",
            Self::Threads => "threads",
            Self::Load => "load",
        }
    }
}

/// How long requests take, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Half of them take no longer.
    pub p50: f64,
    /// Ninety of a hundred.
    pub p90: f64,
    /// Ninety-nine of a hundred.
    pub p99: f64,
    /// All of them.
    pub max: f64,
}

impl Latency {
    fn of(mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        let at = |part: f64| {
            let index = (part * took.len().saturating_sub(1) as f64).round() as usize;
            took.get(index).map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// MiB (2^20 bytes) in a second; of writes until all is durable.
    pub mib_per_second: f64,
    /// Requests in a second.
    pub per_second: f64,
    /// Of all requests.
    pub latency: Latency,
    /// Of reads, if there are any.
    pub reads: Option<Latency>,
    /// Of writes, if there are any.
    pub writes: Option<Latency>,
    /// Percent of the time for which the disks with data had something to do, on average.
    pub busy_percent: f64,
    /// What holds it back.
    pub limit: Limit,
}

/// Dirty data at most, whatever machine this runs on; of small files and full pools less.
const DIRTY_MAX: u64 = 1 << 30;
/// Memory for blocks that were read is one part in this number of the files, so that reads come
/// from the disks; but no less than metadata need.
const CACHE_PART: u64 = 16;
const CACHE_LEAST: u64 = 16 << 20;
/// Busy for more than this, disks are the limit, in percent.
const BUSY: f64 = 90.0;

/// Simulates it.
///
/// # Errors
/// When there is no such pool, or it fails.
pub fn what_if(question: &Question) -> Result<Answer, LabError> {
    question.check()?;
    Ok(Rt::simulate(question.seed, |rt| answer(rt, question))?)
}

impl Question {
    fn check(&self) -> Result<(), LabError> {
        self.disk.check()?;
        self.fast.check()?;
        let refuse = |why: &str| Err(LabError::new("no such pool or load", why));
        if self.disks == 0 || !self.disks.is_multiple_of(self.layout.width()) {
            return Err(LabError::new("the disks make no whole groups", self.layout)
                .hint(format!("it takes a multiple of {}", self.layout.width())));
        }
        if !self.record.is_power_of_two() || !(512..=16 << 20).contains(&self.record) {
            return refuse("a record is a power of two from 512 bytes to 16 MiB");
        }
        if self.chunk == 0 || self.chunk > 64 << 20 {
            return refuse("a request has 1 byte to 64 MiB");
        }
        if !(1 << 20..=1 << 40).contains(&self.bytes) {
            return refuse("all files together have 1 MiB to 1 TiB");
        }
        if self.threads == 0 || self.threads > 1024 {
            return refuse("there are 1 to 1024 threads");
        }
        if !(1.0..=100.0).contains(&self.compression) {
            return refuse("data are stored in 1 to 100 times fewer bytes");
        }
        if self.state.lacks_a_disk() && self.layout == Layout::Stripe {
            return refuse("a stripe that lacks a disk has lost its data");
        }
        Ok(())
    }

    /// Bytes of each thread's file: whole requests and whole records.
    fn file_bytes(&self) -> u64 {
        let unit = self.chunk.next_multiple_of(u64::from(self.record));
        (self.bytes / self.threads as u64).max(1).next_multiple_of(unit)
    }

    /// Whether the files are there before the load begins.
    fn has_files(&self) -> bool {
        match self.work {
            Work::Write | Work::SyncWrite => self.state != State::New,
            Work::Overwrite | Work::Read | Work::RandomRead | Work::Mixed(_) | Work::Recorded => {
                true
            }
        }
    }

    fn writes(&self) -> bool {
        match self.work {
            Work::Read | Work::RandomRead => false,
            Work::Recorded => self.recorded.writes(),
            Work::Write | Work::Overwrite | Work::Mixed(_) | Work::SyncWrite => true,
        }
    }
}

/// The disks of the pool, those with something to do being measured.
#[derive(Default)]
struct Bench {
    devices: Devices,
    tops: Vec<NewTop>,
    meters: Vec<Meter>,
}

impl Bench {
    /// New disks of a kind, with names that begin like this.
    fn disks(
        &mut self,
        site: &SimDisks,
        (preset, count, name): (&Preset, usize, &str),
        seed: u64,
    ) -> Vec<(String, WriteDeviceRef)> {
        let size = preset.capacity_bytes / 512 * 512;
        let meters = (0..count).map(|_| Meter::default()).collect::<Vec<_>>();
        let disks = preset.watched(site, (name, count), size, seed, |n, model| {
            Box::new(Metered::new(model, meters[n].clone()))
        });
        self.devices.extend(disks.iter().cloned());
        self.meters.extend(meters);
        disks
    }

    /// A mirror of fast disks with what is of this class.
    fn fast(&mut self, site: &SimDisks, q: &Question, count: usize, class: SpaceClass) {
        let (name, seed) = match class {
            SpaceClass::Log => ("log", q.seed.wrapping_add(1 << 32)),
            _ => ("special", q.seed.wrapping_add(2 << 32)),
        };
        let disks = self.disks(site, (&q.fast, count, name), seed);
        let leaf = |(path, _): (String, _)| VdevSpec::Leaf { path, is_file: false };
        let mut leaves: Vec<VdevSpec> = disks.into_iter().map(leaf).collect();
        let spec = match leaves.len() {
            0 => return,
            1 => leaves.remove(0),
            _ => VdevSpec::Mirror(leaves),
        };
        self.tops.push(NewTop { spec, class });
    }

    /// The time for which this many disks, the first ones, had something to do, all together.
    fn busy(&self, disks: usize, now: Duration) -> Duration {
        self.meters.iter().take(disks).map(|meter| meter.busy(now)).sum()
    }
}

fn pool(rt: &Rt, q: &Question) -> Result<(LivePool, Bench), StreamError> {
    let site = SimDisks::new(rt);
    let mut bench = Bench::default();
    let disk = q.state.disk(q);
    let disks = bench.disks(&site, (&disk, q.disks, "disk"), q.seed);
    let (_, tops) = q.layout.tops(disks);
    bench.tops = tops;
    bench.fast(&site, q, q.logs, SpaceClass::Log);
    bench.fast(&site, q, q.specials, SpaceClass::Special);
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let compression = if q.compression > 1.0 { "lz4" } else { "off" };
    let tunables: Result<Vec<Setting>, _> = [
        format!("zfs_dirty_data_max={}", q.state.dirty_max(q)),
        "zfs_txg_history=10000".to_owned(),
    ]
    .iter()
    .map(|t| Setting::parse(t))
    .collect();
    let mut properties = vec![set("compression", compression), set("checksum", "off")];
    properties.push(set("recordsize", &q.record.to_string()));
    let options = CreateOptions {
        fs_properties: properties,
        cache_bytes: (q.bytes / CACHE_PART).max(CACHE_LEAST) as usize,
        read_ahead_bytes: 0,
        tunables: tunables?,
        ..CreateOptions::new("h", bench.tops.clone())
    };
    let pool = live::create(rt, &options, &bench.devices)?;
    Ok((pool, bench))
}

fn answer(rt: &Rt, q: &Question) -> Result<Answer, StreamError> {
    let (pool, bench) = pool(rt, q)?;
    let files = state::prepare(&pool, q, &bench.devices)?;
    let first = pool.last_synced();
    let (began, busy) = (rt.now(), bench.busy(q.disks, rt.now()));
    let took = load::run(rt, q, &files)?;
    if q.writes() {
        pool.sync()?;
    }
    let seconds = (rt.now() - began).as_secs_f64().max(1e-9);
    // Those of the log and of metadata have other work.
    let busy = (bench.busy(q.disks, rt.now()) - busy).as_secs_f64();
    let busy_percent = 100.0 * busy / (seconds * q.disks as f64);
    let delays: u64 = pool.txgs().iter().filter(|r| r.txg > first).map(|r| r.delays).sum();
    drop(files);
    pool.close()?;
    let per_second = took.len() as f64 / seconds;
    let of = |reads: bool| -> Option<Latency> {
        let some: Vec<Duration> = took.iter().filter(|t| t.read == reads).map(|t| t.time).collect();
        (!some.is_empty()).then(|| Latency::of(some))
    };
    let bytes: u64 = took.iter().map(|t| t.bytes).sum();
    // Of a hundred that waited for a thread, one is chance.
    let waited = took.iter().filter(|t| t.waited).count() * 100 > took.len();
    Ok(Answer {
        mib_per_second: bytes as f64 / seconds / f64::from(1 << 20),
        per_second,
        latency: Latency::of(took.iter().map(|t: &CompletedRequest| t.time).collect()),
        reads: of(true),
        writes: of(false),
        busy_percent,
        limit: match () {
            () if busy_percent >= BUSY => Limit::Disks,
            () if delays > 0 => Limit::Throttle,
            () if q.work == Work::Recorded && !waited => Limit::Load,
            () => Limit::Threads,
        },
    })
}
