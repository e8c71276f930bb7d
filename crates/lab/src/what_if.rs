//! What a pool would do: simulated disks in a layout, and threads that read or write.
//!
//! The engine runs on the models of disks in virtual time, with its usual settings. Processors cost
//! nothing here, so what flash disks do is an upper bound; blocks are stored as they are. The files
//! are written before the clock starts, and reads find little of them in memory. They are a
//! gigabyte together on empty disks, so seeks are as short as in a new pool.

mod layout;
mod meter;

pub use layout::Layout;

use crate::disk::Preset;
use crate::experiment::LabError;
use crate::stream::{HOLD_TREE, StreamError, write_record, zeros};
use engine::inside::device::{SimDisks, SimOptions, WriteDeviceRef};
use engine::inside::dmu::Hold;
use engine::inside::rt::{Rng as _, Rt, Xoshiro256};
use engine::inside::zpl::Volume;
use engine::live;
use engine::live::{CreateOptions, LivePool, Setting};
pub(crate) use meter::{Meter, Metered};
use std::sync::{Mutex, PoisonError};
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
    /// Bytes of a record.
    pub record: u32,
    /// Threads, each with a file of its own.
    pub threads: usize,
    /// Bytes of a read or write.
    pub chunk: u64,
    /// What they do.
    pub work: Work,
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
}

impl Limit {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Disks => "disks",
            Self::Throttle => "throttle",
            Self::Threads => "threads",
        }
    }
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// MiB (2^20 bytes) in a second; of writes until all is durable.
    pub mib_per_second: f64,
    /// Requests in a second.
    pub per_second: f64,
    /// How long requests take, in milliseconds: half of them, 99 of a hundred, all.
    pub latency_ms: [f64; 3],
    /// Percent of the time for which the disks had something to do, on average.
    pub busy_percent: f64,
    /// What holds it back.
    pub limit: Limit,
}

/// Dirty data at most, whatever machine this runs on.
const DIRTY_MAX: u64 = 1 << 30;
/// Memory for blocks that were read: little, so that reads come from the disks.
const CACHE_BYTES: usize = 64 << 20;
/// Bytes of all files together.
const FILES_BYTES: u64 = 1 << 30;
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
        if self.threads == 0 || self.threads > 1024 {
            return refuse("there are 1 to 1024 threads");
        }
        Ok(())
    }

    /// Bytes of each thread's file: whole requests and whole records.
    fn file_bytes(&self) -> u64 {
        let unit = self.chunk.next_multiple_of(u64::from(self.record));
        (FILES_BYTES / self.threads as u64).next_multiple_of(unit)
    }
}

fn answer(rt: &Rt, q: &Question) -> Result<Answer, StreamError> {
    let site = SimDisks::new(rt);
    let size = q.disk.capacity_bytes / 512 * 512;
    let mut meters = Vec::new();
    let mut devices = Vec::new();
    for (number, model) in q.disk.models(q.disks, size, q.seed).into_iter().enumerate() {
        let meter = Meter::default();
        let options = SimOptions { name: format!("disk{number}"), size, ..SimOptions::default() };
        let model = Box::new(Metered::new(model, meter.clone()));
        devices
            .push((format!("disk{number:03}"), site.add_model(&options, model) as WriteDeviceRef));
        meters.push(meter);
    }
    let off = |name: &str| (name.to_owned(), "off".to_owned());
    let tunables: Result<Vec<Setting>, _> =
        [format!("zfs_dirty_data_max={DIRTY_MAX}"), "zfs_txg_history=10000".to_owned()]
            .iter()
            .map(|t| Setting::parse(t))
            .collect();
    let (devices, tops) = q.layout.tops(devices);
    let options = CreateOptions {
        fs_properties: vec![off("compression"), off("checksum")],
        cache_bytes: CACHE_BYTES,
        tunables: tunables?,
        ..CreateOptions::new("h", tops)
    };
    let pool = live::create(rt, &options, &devices)?;
    let volumes: Result<Vec<Volume>, StreamError> =
        (0..q.threads).map(|n| file(&pool, q, n)).collect();
    let volumes = volumes?;
    pool.sync()?;
    let first = pool.last_synced();
    let (began, busy) = (rt.now(), busy(&meters, rt.now()));
    let took = Mutex::new(Vec::new());
    rt.for_each_parallel(q.threads, volumes.iter().enumerate(), |(n, volume)| {
        let mine = requests(rt, q, volume, n as u64)?;
        took.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
        Ok::<(), StreamError>(())
    })?;
    if matches!(q.work, Work::Write | Work::Overwrite) {
        pool.sync()?;
    }
    let seconds = (rt.now() - began).as_secs_f64().max(1e-9);
    let busy_percent =
        100.0 * (self::busy(&meters, rt.now()) - busy).as_secs_f64() / (seconds * q.disks as f64);
    let delays: u64 = pool.txgs().iter().filter(|r| r.txg > first).map(|r| r.delays).sum();
    let mut took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
    took.sort_unstable();
    let at = |part: f64| {
        let index = (part * took.len().saturating_sub(1) as f64).round() as usize;
        took.get(index).map_or(0.0, |took: &Duration| took.as_secs_f64() * 1e3)
    };
    let latency_ms = [at(0.5), at(0.99), at(1.0)];
    pool.close()?;
    let per_second = took.len() as f64 / seconds;
    Ok(Answer {
        mib_per_second: per_second * q.chunk as f64 / f64::from(1 << 20),
        per_second,
        latency_ms,
        busy_percent,
        limit: match () {
            () if busy_percent >= BUSY => Limit::Disks,
            () if delays > 0 => Limit::Throttle,
            () => Limit::Threads,
        },
    })
}

/// The time for which disks had something to do, all together.
fn busy(meters: &[Meter], now: Duration) -> Duration {
    meters.iter().map(|meter| meter.busy(now)).sum()
}

/// The file of a thread; written, unless that is the load.
fn file(pool: &LivePool, q: &Question, number: usize) -> Result<Volume, StreamError> {
    let name = format!("h/file{number}");
    pool.create_volume(&name, q.file_bytes(), q.record, Vec::new())?;
    let volume = pool.volume(&name)?;
    if q.work != Work::Write {
        let zeros = zeros(q.record);
        for block in 0..q.file_bytes() / u64::from(q.record) {
            write_record(&volume, block, &zeros)?;
        }
    }
    Ok(volume)
}

/// What one thread does until its time is over; how long each request took.
fn requests(
    rt: &Rt,
    q: &Question,
    file: &Volume,
    number: u64,
) -> Result<Vec<Duration>, StreamError> {
    let mut rng = Xoshiro256::seeded(q.seed.wrapping_add(number << 32));
    let end = rt.now() + Duration::from_secs_f64(q.seconds);
    let places = (q.file_bytes() / q.chunk).max(1);
    let (record, zeros) = (u64::from(q.record), zeros(q.record));
    let mut buffer = vec![0; q.chunk as usize];
    let mut took = Vec::new();
    for next in 0_u64.. {
        let began = rt.now();
        if began >= end {
            break;
        }
        let place = match q.work {
            Work::Write | Work::Read => next % places,
            Work::Overwrite | Work::RandomRead => rng.below(places),
        };
        let offset = place * q.chunk;
        match q.work {
            Work::Read | Work::RandomRead => {
                file.object().read_at(offset, &mut buffer)?;
            }
            Work::Write | Work::Overwrite if q.chunk.is_multiple_of(record) => {
                for block in offset / record..(offset + q.chunk) / record {
                    write_record(file, block, &zeros)?;
                }
            }
            Work::Write | Work::Overwrite => {
                let tx = file.object().objset().begin(Hold::write(q.chunk + record + HOLD_TREE))?;
                file.object().write_at(&tx, offset, &buffer)?;
            }
        }
        took.push(rt.now() - began);
        // A request that memory answers takes some time too, or none would ever end.
        if took.last() == Some(&Duration::ZERO) {
            rt.sleep(REQUEST);
        }
    }
    Ok(took)
}

/// What a request costs that waits for nothing.
const REQUEST: Duration = Duration::from_micros(10);
