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

use crossbeam_channel::{Receiver, Sender, unbounded};
use device::{AlignedBuf, Backend, Device, Direct, Error, FileDevice, Options, Read};
use rt::{Clock, RealClock, Rng, Xoshiro256};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

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

/// Where the blocks of one run come back.
struct Inbox {
    answers: Sender<Result<AlignedBuf, Error>>,
    arrived: Receiver<Result<AlignedBuf, Error>>,
}

fn run(job: &Job, backend: Backend, direct: Direct) -> Result<(), Error> {
    let threads = job.in_flight.min(64);
    let options = Options { backend, direct, threads, ..Options::default() };
    let device = FileDevice::open(&job.path, &options)?;
    if job.cold {
        drop_cached(&job.path);
    }
    let blocks = device.size().min(job.limit) / job.block as u64;
    let order = order(blocks, job.random);
    let (answers, arrived) = unbounded();
    let inbox = Inbox { answers, arrived };
    let begin = RealClock.now();
    let bytes = read_all(job, &device, &order, &inbox)?;
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

/// Keeps `in_flight` reads under way until all are done; bytes read.
fn read_all(job: &Job, device: &dyn Device, order: &[u64], inbox: &Inbox) -> Result<u64, Error> {
    let mut blocks = order.iter();
    let (mut under_way, mut bytes) = (0, 0);
    loop {
        let room = job.in_flight - under_way;
        let batch: Vec<Read> = blocks
            .by_ref()
            .take(room)
            .map(|block| {
                let answers = inbox.answers.clone();
                let done = Box::new(move |result| {
                    // The receiver outlives the run, unless an error ended it.
                    let _ = answers.send(result);
                });
                Read { offset: block * job.block as u64, len: job.block, done }
            })
            .collect();
        under_way += batch.len();
        if under_way == 0 {
            return Ok(bytes);
        }
        if !batch.is_empty() {
            device.submit(batch);
        }
        // One at least, and whatever else has come meanwhile.
        let first = inbox.arrived.recv().into_iter();
        for result in first.chain(inbox.arrived.try_iter()) {
            bytes += result?.len() as u64;
            under_way -= 1;
        }
    }
}

/// Best effort, by way of a tool everybody has.
fn drop_cached(path: &Path) {
    let mut file = std::ffi::OsString::from("if=");
    file.push(path);
    let dd =
        Command::new("dd").arg(file).args(["iflag=nocache", "count=0", "status=none"]).status();
    if !dd.is_ok_and(|status| status.success()) {
        eprintln!("could not drop {} from the page cache", path.display());
    }
}
