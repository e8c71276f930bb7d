//! Reads a whole file or disk and prints how fast it went.
//!
//! ```text
//! seqread FILE [block=128k] [inflight=16] [limit=4g] [random] [cold]
//!         [uring] [threads] [direct] [buffered]
//! ```
//!
//! Without a choice it does both backends, directly and buffered. `random` reads blocks in a random
//! order that a fixed seed decides. `cold` asks the kernel to drop the file from the page cache
//! before each run. To compare with fio at the same block size and depth:
//!
//! ```text
//! fio --name=r --filename=FILE --readonly --rw=read --bs=128k --iodepth=16 \
//!     --ioengine=io_uring --direct=1
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

use crossbeam_channel::{Sender, unbounded};
use device::{AlignedBuf, Backend, Device, Direct, Error, FileDevice, Options, Read};
use rt::{Clock, RealClock, Rng, Xoshiro256};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const USAGE: &str = "usage: seqread FILE [block=128k] [inflight=16] [limit=4g] [random] [cold] \
                     [uring] [threads] [direct] [buffered]";

struct Job {
    path: PathBuf,
    block: usize,
    in_flight: usize,
    limit: u64,
    random: bool,
    cold: bool,
    backends: Vec<Backend>,
    directs: Vec<Direct>,
}

fn main() -> ExitCode {
    let Some(job) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    for backend in &job.backends {
        for direct in &job.directs {
            if let Err(error) = run(&job, *backend, *direct) {
                eprintln!("{backend:?}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<Job> {
    let mut job = Job {
        path: PathBuf::from(args.next()?),
        block: 128 << 10,
        in_flight: 16,
        limit: u64::MAX,
        random: false,
        cold: false,
        backends: Vec::new(),
        directs: Vec::new(),
    };
    for arg in args {
        match arg.split_once('=') {
            Some(("block", value)) => job.block = usize::try_from(number(value)?).ok()?,
            Some(("inflight", value)) => job.in_flight = usize::try_from(number(value)?).ok()?,
            Some(("limit", value)) => job.limit = number(value)?,
            Some(_) => return None,
            None => match arg.as_str() {
                "random" => job.random = true,
                "cold" => job.cold = true,
                "uring" => job.backends.push(Backend::Uring),
                "threads" => job.backends.push(Backend::Threads),
                "direct" => job.directs.push(Direct::On),
                "buffered" => job.directs.push(Direct::Off),
                _ => return None,
            },
        }
    }
    if job.backends.is_empty() {
        job.backends = vec![Backend::Uring, Backend::Threads];
    }
    if job.directs.is_empty() {
        job.directs = vec![Direct::On, Direct::Off];
    }
    (job.block > 0 && job.in_flight > 0).then_some(job)
}

/// A number with an optional k, m or g.
fn number(text: &str) -> Option<u64> {
    let shift = match text.chars().last()?.to_ascii_lowercase() {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { text.get(..text.len() - 1)? };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// One run: the thread that completes a read submits the next, as a queue above a device does.
struct Run {
    device: FileDevice,
    order: Vec<u64>,
    block: usize,
    next: AtomicUsize,
    bytes: AtomicU64,
    finished: Sender<Result<(), Error>>,
}

impl Run {
    /// The next read of the order, if there is one.
    fn next(self: &Arc<Self>) -> Option<Read> {
        let block = self.order.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        let run = Arc::clone(self);
        let done = Box::new(move |result: Result<AlignedBuf, Error>| match result {
            Ok(buf) => {
                run.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
                run.device.submit(run.next().into_iter().collect());
            }
            Err(error) => {
                // The receiver outlives the run, unless an error ended it.
                let _ = run.finished.send(Err(error));
            }
        });
        Some(Read { offset: block * self.block as u64, len: self.block, done })
    }
}

fn run(job: &Job, backend: Backend, direct: Direct) -> Result<(), Error> {
    let threads = job.in_flight.min(64);
    let options = Options { backend, direct, threads, ..Options::default() };
    let device = FileDevice::open(&job.path, &options)?;
    if job.cold {
        drop_cached(&job.path);
    }
    let order = order(device.size().min(job.limit) / job.block as u64, job.random);
    let (finished, end) = unbounded();
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
    let run = Arc::new(Run { device, order, block: job.block, next, bytes, finished });
    let begin = RealClock.now();
    run.device.submit((0..job.in_flight).filter_map(|_| run.next()).collect());
    let (device, order) = (&run.device, &run.order);
    while device.stats().reads < order.len() as u64 {
        if let Ok(Err(error)) = end.recv_timeout(Duration::from_millis(1)) {
            return Err(error);
        }
    }
    let bytes = run.bytes.load(Ordering::Relaxed);
    let seconds = (RealClock.now() - begin).as_secs_f64().max(1e-9);
    let stats = device.stats();
    let percentile = |p| stats.latency_percentile(p).unwrap_or_default();
    println!(
        "{:8} {:8} {:>7.0} MB/s {:>8.0} reads/s   p50 < {:?} p99 < {:?}   {} resubmitted",
        format!("{:?}", device.backend()),
        if device.is_direct() { "direct" } else { "buffered" },
        bytes as f64 / seconds / 1e6,
        order.len() as f64 / seconds,
        percentile(50),
        percentile(99),
        stats.resubmitted,
    );
    Ok(())
}

fn order(blocks: u64, random: bool) -> Vec<u64> {
    let mut order: Vec<u64> = (0..blocks).collect();
    if random {
        let mut rng = Xoshiro256::seeded(1);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }
    order
}

/// Best effort, by way of a usual tool.
fn drop_cached(path: &Path) {
    let mut file = std::ffi::OsString::from("if=");
    file.push(path);
    let dd =
        Command::new("dd").arg(file).args(["iflag=nocache", "count=0", "status=none"]).status();
    if !dd.is_ok_and(|status| status.success()) {
        eprintln!("could not drop {} from the page cache", path.display());
    }
}
