//! How fast promises are: `bench/sync/README.md` says what is measured and what came out.
//!
//! ```console
//! $ cargo run --release -p engine --example syncbench -- DIRECTORY [SECONDS] [ROUNDS] [OPTION]...
//! ```
//!
//! `--log`: the pool has a log device, a second file. `--only BYTES,THREADS`: one row. `--ours`:
//! the plain file is not measured, for a profile. `--turns NAME=A,B`: not the plain file and the
//! pool, but the pool with one and with the other value of a tunable. `--compressible`: the data
//! are one byte over and over, not such as cannot be compressed.
#![allow(clippy::print_stdout, reason = "a measurement is a table")]

use engine::devices::{AnyDevices, DeviceSource as _, WriteDeviceRef};
use engine::files::{NewFile, NewKind, Time};
use engine::layout::Layout;
use engine::live::{CreateOptions, Devices, NewTop, Setting, SpaceClass, TunableError, VdevSpec};
use engine::pools::CreatePool;
use engine::{Filesystem, LivePool, Rt};
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes that each thread writes before it begins again.
const REGION: u64 = 16 << 20;
/// Bytes of the pool's image.
const IMAGE: u64 = 4 << 30;
/// Bytes of its log device.
const LOG: u64 = 1 << 30;
const NOW: Time = Time { seconds: 1, nanos: 0 };

/// What is written: bytes that cannot be compressed, as fio's, or one byte over and over.
fn bytes(size: usize, compressible: bool) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    match compressible {
        true => vec![7; size],
        false => (0..size / 8).flat_map(|_| word()).collect(),
    }
}

/// Writes by `threads` threads for a while, each after the last was promised; how many in a second.
fn rate(
    threads: u64,
    time: Duration,
    write: impl Fn(u64, u64) -> Outcome<()> + Sync,
) -> Outcome<f64> {
    let count = AtomicU64::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let run = |thread| {
            let (count, write) = (&count, &write);
            move || -> Outcome<()> {
                for n in 0.. {
                    if began.elapsed() >= time {
                        break;
                    }
                    write(thread, n)?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        };
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        all.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(count.into_inner() as f64 / began.elapsed().as_secs_f64())
}

/// A file that is there already, each thread in a part of its own.
fn raw(dir: &Path, threads: u64, data: &[u8], time: Duration) -> Outcome<f64> {
    let file = File::create(dir.join("raw"))?;
    let zeros = vec![0; 1 << 20];
    for at in (0..threads * REGION).step_by(1 << 20) {
        file.write_all_at(&zeros, at)?;
    }
    file.sync_all()?;
    rate(threads, time, |thread, n| {
        let at = thread * REGION + n * data.len() as u64 % REGION;
        file.write_all_at(data, at)?;
        Ok(file.sync_data()?)
    })
}

/// A file that has all its sectors already, as a disk does and as the plain file has: the file
/// system below would make the first write of each place durable with a commit of its own.
fn image(path: &Path, size: u64) -> Outcome<(VdevSpec, (String, WriteDeviceRef))> {
    let (image, zeros) = (File::create(path)?, vec![0; 1 << 20]);
    for at in (0..size).step_by(zeros.len()) {
        image.write_all_at(&zeros, at)?;
    }
    image.sync_all()?;
    let device = AnyDevices::default().claim(path)?;
    let name = path.to_str().ok_or("a path of text is needed")?.to_owned();
    let spec = VdevSpec::Leaf { path: name.clone(), is_file: true };
    Ok((spec, (name, device)))
}

/// A pool of such files.
fn pool(dir: &Path, with_log: bool) -> Outcome<(LivePool, Filesystem)> {
    let (spec, device) = image(&dir.join("vdev"), IMAGE)?;
    let mut tops = vec![NewTop { spec, class: SpaceClass::Normal }];
    let mut devices = Devices::from([device]);
    if with_log {
        let (spec, device) = image(&dir.join("log"), LOG)?;
        tops.push(NewTop { spec, class: SpaceClass::Log });
        devices.extend([device]);
    }
    let new = CreatePool::new(
        Layout { tops, ..Layout::default() },
        CreateOptions::new("tank", Vec::new()),
    );
    let pool = new.run(&Rt::real(), &devices)?.into_pool();
    let fs = pool.filesystem("tank")?;
    Ok((pool, fs))
}

/// Files of a pool, each thread with one.
fn zinc(fs: &Filesystem, threads: u64, data: &[u8], time: Duration) -> Outcome<f64> {
    let size = data.len();
    let root = fs.root_object();
    let mut files = Vec::new();
    for thread in 0..threads {
        let name = format!("{size}.{thread}");
        let found = fs.root()?.lookup(name.as_bytes())?.map(|e| e.object);
        let new = NewFile::new(NewKind::File, 0o644, NOW);
        files.push(match found {
            Some(object) => object,
            None => fs.create(root, name.as_bytes(), &new)?.number(),
        });
    }
    fs.sync_all()?;
    rate(threads, time, |thread, n| {
        let file = files[thread as usize];
        fs.write_at(file, n * size as u64 % REGION, data, NOW)?;
        Ok(fs.sync(file)?)
    })
}

/// The command line.
struct Args {
    dir: PathBuf,
    time: Duration,
    rounds: usize,
    with_log: bool,
    only: Option<(usize, u64)>,
    ours: bool,
    compressible: bool,
    turns: Option<[Setting; 2]>,
}

const USAGE: &str = "usage: syncbench DIRECTORY [SECONDS] [ROUNDS] [--log] \
                     [--only BYTES,THREADS] [--ours] [--compressible] [--turns NAME=A,B]";

fn args() -> Outcome<Args> {
    let (mut plain, mut with_log, mut only, mut ours) = (Vec::new(), false, None, false);
    let (mut all, mut turns) = (std::env::args().skip(1), None);
    let mut compressible = false;
    while let Some(arg) = all.next() {
        match arg.as_str() {
            "--log" => with_log = true,
            "--ours" => ours = true,
            "--compressible" => compressible = true,
            "--turns" => {
                let row = all.next().ok_or(USAGE)?;
                let (one, other) = row.split_once(',').ok_or(USAGE)?;
                let name = one.split_once('=').ok_or(USAGE)?.0;
                let parse =
                    |text: &str| Setting::parse(text).map_err(|e: TunableError| e.to_string());
                turns = Some([parse(one)?, parse(&format!("{name}={other}"))?]);
            }
            "--only" => {
                let row = all.next().ok_or(USAGE)?;
                let (size, threads) = row.split_once(',').ok_or(USAGE)?;
                only = Some((size.parse()?, threads.parse()?));
            }
            _ => plain.push(arg),
        }
    }
    let number = |n: usize, default| plain.get(n).map_or(Ok(default), |text| text.parse());
    let (time, rounds) = (Duration::from_secs(number(1, 3)?), number(2, 3)? as usize);
    let dir = PathBuf::from(plain.first().ok_or(USAGE)?);
    Ok(Args { dir, time, rounds, with_log, only, ours, compressible, turns })
}

/// One row of the table.
fn row(
    args: &Args,
    (pool, fs): (&LivePool, &Filesystem),
    size: usize,
    threads: u64,
) -> Outcome<()> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let data = bytes(size, args.compressible);
    for round in 0..args.rounds {
        // In turns, and each first in half of them.
        let mut both = [args.ours, true];
        both.rotate_left(round % 2);
        for is_ours in both {
            if let Some(turns) = args.turns {
                pool.set_tunable(turns[usize::from(is_ours)]);
            }
            let out = if is_ours { &mut ours } else { &mut theirs };
            out.push(match is_ours || args.turns.is_some() {
                true => zinc(fs, threads, &data, args.time)?,
                false => raw(&args.dir, threads, &data, args.time)?,
            });
        }
    }
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let (theirs, ours) = (median(theirs), median(ours));
    let ratio = ours / theirs;
    println!("{size:>6} {threads:>7} {theirs:>12.0} {ours:>12.0} {ratio:>6.2}");
    Ok(())
}

fn main() -> Outcome<()> {
    let args = args()?;
    let (pool, fs) = pool(&args.dir, args.with_log)?;
    let heads = if args.turns.is_some() { ["one/s", "other/s"] } else { ["raw/s", "zinc/s"] };
    println!("{:>6} {:>7} {:>12} {:>12} {:>6}", "bytes", "threads", heads[0], heads[1], "ratio");
    for size in [4096, 128 << 10] {
        for threads in [1, 4, 16, 64] {
            if args.only.is_none_or(|only| only == (size, threads)) {
                row(&args, (&pool, &fs), size, threads)?;
            }
        }
    }
    pool.close()?;
    Ok(())
}
