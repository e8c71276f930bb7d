//! How fast the engine writes: `bench/write/README.md` says what is measured and what came out.
//!
//! ```console
//! $ cargo run --release -p engine --example writebench -- --help
//! ```
#![allow(clippy::print_stdout, reason = "a measurement is a table")]

use engine::files::{NewFile, NewKind, Time};
use engine::inside::codec::checksum::{ByteOrder, Fletcher4};
use engine::inside::device::{
    AlignedBuf, Direct, MemoryDevice, Options, RwFileDevice, WriteDeviceRef,
};
use engine::layout::Layout;
use engine::live::{
    self, CreateOptions, Devices, ImportOptions, LivePool, NewTop, Setting, SpaceClass, Tunable,
    VdevSpec,
};
use engine::pools::{CreatePool, look_at_device};
use engine::{Candidate, Create, Filesystem, OpenOptions, Rt};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const USAGE: &str = "\
usage: writebench [OPTION]...
  --device mem|file:PATH   a vdev, repeatable (mem)
  --size BYTES             size of each (6G)
  --direct on|off|auto     page cache of files (auto)
  --mirror | --raidz N     one vdev of all devices instead of one of each
  --work LIST              floor,seqwrite,rewrite,seqread,randwrite,randread,creates,
                           snapshots (seqwrite)
  --threads LIST           writers (1)
  --bytes BYTES            written or read by all threads together (2G)
  --record BYTES           record size (128K); that of randwrite and randread is 8K
  --io BYTES               of one call (the record)
  --checksum NAME          (fletcher4)
  --compression NAME       (off)
  --random PART            part of each 4 KiB that does not compress, in percent (100)
  --files N                of creates, by all threads together (20000)
  --dirty BYTES            limit of dirty data (the engine's)
  --cache BYTES            of the block cache (64M)
  --ahead BYTES            read ahead of one reader (the engine's)
  --held                   as a server holds a pool: reads have deadlines
  --rounds N               each measurement (3): the best and the median are told
  --json FILE              the same figures, one object each line
  --txgs                   what each txg did
  --stats on|off           count what is done, as always, or do not (on)
  --tune NAME=VALUE        a tunable, repeatable
";

/// The command line.
#[derive(Clone)]
struct Args {
    devices: Vec<String>,
    size: u64,
    direct: Direct,
    parity: Option<u64>,
    work: Vec<String>,
    threads: Vec<usize>,
    bytes: u64,
    record: u64,
    io: u64,
    checksum: String,
    compression: String,
    random: usize,
    files: u64,
    dirty: Option<u64>,
    cache: usize,
    ahead: Option<u64>,
    held: bool,
    rounds: usize,
    json: Option<PathBuf>,
    txgs: bool,
    stats: bool,
    tune: Vec<Setting>,
}

fn number(text: &str) -> Outcome<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    Ok(digits.parse::<u64>().map_err(|_| format!("{text} is not a number"))? << shift)
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

impl Args {
    /// Bytes of one call.
    fn call_bytes(&self) -> u64 {
        if self.io == 0 { self.record } else { self.io }
    }
}

fn args() -> Outcome<Args> {
    let mut a = Args {
        devices: Vec::new(),
        size: 6 << 30,
        direct: Direct::Auto,
        parity: None,
        work: list("seqwrite"),
        threads: vec![1],
        bytes: 2 << 30,
        record: 128 << 10,
        io: 0,
        checksum: "fletcher4".to_owned(),
        compression: "off".to_owned(),
        random: 100,
        files: 20_000,
        dirty: None,
        cache: 64 << 20,
        ahead: None,
        held: false,
        rounds: 3,
        json: None,
        txgs: false,
        stats: true,
        tune: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value\n{USAGE}"));
        match word.as_str() {
            "--device" => a.devices.push(value()?),
            "--size" => a.size = number(&value()?)?,
            "--direct" => {
                a.direct = match value()?.as_str() {
                    "on" => Direct::On,
                    "off" => Direct::Off,
                    _ => Direct::Auto,
                }
            }
            "--mirror" => a.parity = Some(0),
            "--raidz" => a.parity = Some(number(&value()?)?),
            "--work" => a.work = list(&value()?),
            "--threads" => {
                a.threads = list(&value()?).iter().map(|t| t.parse()).collect::<Result<_, _>>()?;
            }
            "--bytes" => a.bytes = number(&value()?)?,
            "--record" => a.record = number(&value()?)?,
            "--io" => a.io = number(&value()?)?,
            "--checksum" => a.checksum = value()?,
            "--compression" => a.compression = value()?,
            "--random" => a.random = value()?.parse()?,
            "--files" => a.files = number(&value()?)?,
            "--dirty" => a.dirty = Some(number(&value()?)?),
            "--cache" => a.cache = number(&value()?)? as usize,
            "--ahead" => a.ahead = Some(number(&value()?)?),
            "--held" => a.held = true,
            "--rounds" => a.rounds = number(&value()?)? as usize,
            "--json" => a.json = Some(value()?.into()),
            "--txgs" => a.txgs = true,
            "--stats" => a.stats = value()? != "off",
            "--tune" => a.tune.push(Setting::parse(&value()?)?),
            _ => return Err(USAGE.into()),
        }
    }
    if a.devices.is_empty() {
        a.devices.push("mem".to_owned());
    }
    Ok(a)
}

/// A pool that can be closed and opened again.
struct Bench {
    args: Args,
    /// By the path in the configuration.
    devices: Devices,
    live: Option<LivePool>,
    seed: u64,
}

impl Bench {
    fn new(args: &Args) -> Outcome<Self> {
        let mut devices = Devices::new();
        let mut leaves = Vec::new();
        for (n, word) in args.devices.iter().enumerate() {
            let (path, device) = open_device(args, n, word)?;
            leaves.push(VdevSpec::Leaf { path: path.clone(), is_file: true });
            devices.insert(path, device);
        }
        let specs = match args.parity {
            None => leaves,
            Some(0) => vec![VdevSpec::Mirror(leaves)],
            Some(nparity) => vec![VdevSpec::Raidz { nparity, children: leaves }],
        };
        let tops =
            specs.into_iter().map(|spec| NewTop { spec, class: SpaceClass::Normal }).collect();
        let mut options = CreateOptions::new("bench", Vec::new());
        options.cache_bytes = args.cache;
        let new = CreatePool::new(Layout { tops, ..Layout::default() }, options);
        let live = new.despite_mismatch(true).run(&Rt::real(), &devices)?.into_pool();
        limit(&live, args);
        Ok(Self { args: args.clone(), devices, live: Some(live), seed: 0 })
    }

    fn pool(&self) -> Outcome<&LivePool> {
        Ok(self.live.as_ref().ok_or("the pool is closed")?)
    }

    /// A new file system for one measurement.
    fn filesystem(&mut self, record: u64) -> Outcome<(String, Filesystem)> {
        self.seed += 1;
        let name = format!("bench/fs{}", self.seed);
        Create::filesystem(&name)?
            .set("recordsize", &record.to_string())?
            .set("checksum", &self.args.checksum)?
            .set("compression", &self.args.compression)?
            .run(self.pool()?)?;
        let fs = self.pool()?.filesystem(&name)?;
        Ok((name, fs))
    }

    /// Closes the pool and opens it with an empty cache.
    fn reopen(&mut self) -> Outcome<()> {
        if let Some(live) = self.live.take() {
            live.export()?;
        }
        let found: Vec<_> = self
            .devices
            .iter()
            .filter_map(|(path, d)| look_at_device(&Arc::clone(d).as_device(), path.into()))
            .collect();
        let candidates = Candidate::group(&found);
        let candidate = candidates.first().ok_or("the pool is not found again")?;
        let mut open = OpenOptions { cache_bytes: self.args.cache, ..OpenOptions::default() };
        open.read_ahead_bytes = self.args.ahead.unwrap_or(open.read_ahead_bytes);
        let options = ImportOptions::new(open);
        let live = live::import(&Rt::real(), candidate, &options, &self.devices)?;
        limit(&live, &self.args);
        if self.args.held {
            live.outlast_failures()?;
        }
        self.live = Some(live);
        Ok(())
    }

    /// Destroys a file system, so that the next measurement has the space.
    fn drop_filesystem(&self, name: &str, fs: Filesystem) -> Outcome<()> {
        drop(fs);
        let pool = self.pool()?;
        pool.destroy_dataset(name)?;
        // What a txg frees can be used two txgs later.
        for _ in 0..4 {
            pool.sync()?;
        }
        Ok(())
    }
}

fn limit(live: &LivePool, args: &Args) {
    if let Some(dirty_max) = args.dirty {
        live.set_limits(live::TxgLimits { dirty_max, ..live.limits() });
    }
    let (tunable, value) = (Tunable::Stats, u64::from(args.stats));
    live.set_tunable(Setting { tunable, value });
    args.tune.iter().for_each(|setting| live.set_tunable(*setting));
}

fn open_device(args: &Args, n: usize, word: &str) -> Outcome<(String, WriteDeviceRef)> {
    if word == "mem" {
        let path = format!("memory{n}");
        let device = MemoryDevice::zeros(&path, args.size);
        // Fresh memory costs the system more than the copy into it: a disk has its sectors already.
        let page = vec![1; 1 << 20];
        for at in (0..args.size).step_by(page.len()) {
            device.put(at, &page[..page.len().min((args.size - at) as usize)]);
        }
        return Ok((path, Arc::new(device)));
    }
    let path = word.strip_prefix("file:").ok_or("a device is mem or file:PATH")?;
    let options = Options { direct: args.direct, ..Options::default() };
    let device = if Path::new(path).exists() {
        RwFileDevice::open(Path::new(path), &options)?
    } else {
        RwFileDevice::create(Path::new(path), args.size, &options)?
    };
    Ok((path.to_owned(), Arc::new(device)))
}

/// Bytes to write: `random` percent of each 4 KiB do not compress.
fn payload(len: usize, seed: u64, random: usize) -> AlignedBuf {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = AlignedBuf::zeroed(len);
    for page in out.chunks_mut(4096) {
        let n = page.len() * random.min(100) / 100;
        for word in page[..n].chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
    }
    out
}

fn now() -> Time {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let wall = wall.unwrap_or_default();
    Time { seconds: wall.as_secs().cast_signed(), nanos: u64::from(wall.subsec_nanos()) }
}

/// Where a measurement begins. A profiler that only wants what is measured looks for these two, by
/// name: `bench/stats`.
#[inline(never)]
fn measured_begins() -> Instant {
    std::hint::black_box(Instant::now())
}

/// Where it ends.
#[inline(never)]
fn measured_ends(began: Instant) -> Duration {
    std::hint::black_box(began).elapsed()
}

/// Runs `work(thread)` on `threads` threads and then `after`; the time of both.
fn timed(
    threads: usize,
    work: impl Fn(usize) -> Outcome<()> + Sync,
    after: impl FnOnce() -> Outcome<()>,
) -> Outcome<Duration> {
    let began = measured_begins();
    std::thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads).map(|t| scope.spawn(move || work(t))).collect();
        all.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked")?)
    })?;
    after()?;
    Ok(measured_ends(began))
}

/// One measurement.
struct Figure {
    work: String,
    threads: usize,
    /// What is counted in a second.
    unit: &'static str,
    rates: Vec<f64>,
    /// Seconds of processor time that went by, and what was done in them.
    cpu: (f64, f64),
    note: String,
}

impl Figure {
    fn new(work: &str, threads: usize, unit: &'static str) -> Self {
        Self {
            work: work.to_owned(),
            threads,
            unit,
            rates: Vec::new(),
            cpu: (0.0, 0.0),
            note: String::new(),
        }
    }

    /// `done` units in this time, which began when the processors had run for `cpu` seconds.
    fn add(&mut self, done: f64, took: Duration, cpu: f64) {
        self.rates.push(done / took.as_secs_f64());
        self.cpu.0 += cpu_seconds() - cpu;
        self.cpu.1 += done;
    }

    /// Units that all processors of this machine could do with what one unit takes of them.
    fn ceiling(&self) -> f64 {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        if self.cpu.0 > 0.0 { self.cpu.1 / self.cpu.0 * cpus } else { 0.0 }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates
    }

    fn best(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(0.0)
    }

    fn median(&self) -> f64 {
        self.sorted().get(self.rates.len() / 2).copied().unwrap_or(0.0)
    }

    fn show(&self, args: &Args) -> Outcome<()> {
        let Self { work, threads, unit, note, .. } = self;
        let (best, median) = (self.best(), self.median());
        println!(
            "{work:<10} {threads:>3}  best {best:>10.0}  median {median:>10.0}  \
             cpu allows {:>8.0} {unit:<8} {note}",
            self.ceiling()
        );
        let Some(path) = &args.json else { return Ok(()) };
        let mut line = String::new();
        let rates: Vec<String> = self.rates.iter().map(|r| format!("{r:.1}")).collect();
        write!(
            line,
            "{{\"work\":\"{work}\",\"threads\":{threads},\"unit\":\"{unit}\",\"rates\":[{}],\
             \"cpu_allows\":{:.1},\
             \"devices\":\"{}\",\"record\":{},\"io\":{},\"checksum\":\"{}\",\"compression\":\"{}\",\
             \"note\":\"{note}\"}}",
            rates.join(","),
            self.ceiling(),
            args.devices.len(),
            args.record,
            args.io,
            args.checksum,
            args.compression
        )?;
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
        std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes())?;
        Ok(())
    }
}

const MB: f64 = 1e6;

/// What is written comes from this many places of a buffer of each writer: small, because it shall
/// not be the memory of the writers that is measured.
const WINDOW: usize = 64 << 10;

/// Time that all threads of this process have run, in seconds; in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// A file for each thread.
fn make_files(fs: &Filesystem, threads: usize) -> Outcome<Vec<u64>> {
    let new = NewFile::new(NewKind::File, 0o644, now());
    let name = |t: usize| format!("file{t}");
    let made = |t| Ok(fs.create(fs.root_object(), name(t).as_bytes(), &new)?.number());
    (0..threads).map(made).collect()
}

/// Writes `bytes` into each file from its start.
fn fill(args: &Args, fs: &Filesystem, files: &[u64], bytes: u64, thread: usize) -> Outcome<()> {
    let io = args.call_bytes();
    // A window of a longer buffer, so that neighbouring blocks differ.
    let source = payload(io as usize + WINDOW, thread as u64 + 1, args.random);
    for (n, at) in (0..bytes).step_by(io as usize).enumerate() {
        let from = n * 4096 % WINDOW;
        let len = io.min(bytes - at) as usize;
        fs.write_at(files[thread], at, &source[from..from + len], now())?;
    }
    Ok(())
}

/// What the machine does without an engine: a copy from one buffer to the next and a checksum, as
/// one thread writes a byte at the least.
fn floor(args: &Args) -> Outcome<()> {
    for (work, copies, sums) in [("copy", 1, 0), ("sum", 0, 1), ("copy2sum", 2, 1)] {
        for threads in [1, 2] {
            let mut figure = Figure::new(work, threads, "MB/s");
            for _ in 0..args.rounds {
                let total = AtomicU64::new(0);
                let took = timed(
                    threads,
                    |t| {
                        const AREA: usize = 256 << 20;
                        let source = payload(1 << 20, t as u64 + 1, 100);
                        let mut area = [payload(AREA, 3, 0), payload(AREA, 3, 0)];
                        let record = args.record as usize;
                        let began = Instant::now();
                        let mut sum = 0;
                        for round in 0..2 * AREA / record {
                            let at = round * record % AREA;
                            let mut from = &source[..record];
                            for area in area.iter_mut().take(copies) {
                                area[at..at + record].copy_from_slice(from);
                                from = &area[at..at + record];
                            }
                            if sums > 0 {
                                let block = &area[0][at..at + record];
                                let mut words = Fletcher4::new();
                                words.update(ByteOrder::Little, block);
                                sum ^= words.digest().0[0];
                            }
                        }
                        std::hint::black_box(sum);
                        let nanos = began.elapsed().as_nanos() as u64;
                        total.fetch_max(nanos, Ordering::Relaxed);
                        Ok(())
                    },
                    || Ok(()),
                );
                took?;
                let bytes = (threads * (512 << 20)) as f64;
                let seconds = total.load(Ordering::Relaxed) as f64 / 1e9;
                figure.rates.push(bytes / seconds / MB);
            }
            figure.show(args)?;
        }
    }
    Ok(())
}

fn seqwrite(bench: &mut Bench, threads: usize, again: bool) -> Outcome<()> {
    let args = bench.args.clone();
    let mut figure = Figure::new(if again { "rewrite" } else { "seqwrite" }, threads, "MB/s");
    let each = args.bytes / threads as u64 / args.record * args.record;
    for _ in 0..args.rounds {
        let (name, fs) = bench.filesystem(args.record)?;
        let files = make_files(&fs, threads)?;
        bench.pool()?.sync()?;
        let once = || {
            let pool = bench.pool()?;
            timed(threads, |t| fill(&args, &fs, &files, each, t), || Ok(pool.sync()?))
        };
        if again {
            once()?;
        }
        let first = bench.pool()?.last_synced();
        let cpu = cpu_seconds();
        let took = once()?;
        figure.add((each * threads as u64) as f64 / MB, took, cpu);
        show_txgs(bench, first)?;
        bench.drop_filesystem(&name, fs)?;
    }
    figure.show(&args)
}

fn show_txgs(bench: &Bench, after: u64) -> Outcome<()> {
    if !bench.args.txgs {
        return Ok(());
    }
    for t in bench.pool()?.txgs().iter().filter(|t| t.txg > after) {
        println!(
            "  txg {}: open {:?}, quiesce {:?}, sync {:?}, dirty {} MB, {} blocks, {} MB, \
             {} passes",
            t.txg,
            t.open,
            t.quiesce,
            t.sync,
            t.dirty / 1_000_000,
            t.blocks,
            t.written / 1_000_000,
            t.passes
        );
    }
    Ok(())
}

fn seqread(bench: &mut Bench, threads: usize) -> Outcome<()> {
    let args = bench.args.clone();
    let mut figure = Figure::new("seqread", threads, "MB/s");
    let each = args.bytes / threads as u64 / args.record * args.record;
    let (name, fs) = bench.filesystem(args.record)?;
    let files = make_files(&fs, threads)?;
    timed(threads, |t| fill(&args, &fs, &files, each, t), || Ok(()))?;
    drop(fs);
    for _ in 0..args.rounds {
        bench.reopen()?;
        let fs = bench.pool()?.filesystem(&name)?;
        let read = |t: usize| -> Outcome<()> {
            let node = fs.node(files[t])?;
            let mut buf = vec![0; args.call_bytes() as usize];
            let mut at = 0;
            while at < each {
                at += node.read_at(at, &mut buf)? as u64;
            }
            Ok(())
        };
        let cpu = cpu_seconds();
        let took = timed(threads, read, || Ok(()))?;
        figure.add((each * threads as u64) as f64 / MB, took, cpu);
        let cache = bench.pool()?.stats().cache;
        let mib = |bytes: u64| bytes >> 20;
        figure.note = format!(
            "{} MiB read ahead, {} wasted",
            mib(cache.ahead_bytes),
            mib(cache.ahead_wasted_bytes)
        );
    }
    figure.show(&args)?;
    let fs = bench.pool()?.filesystem(&name)?;
    bench.drop_filesystem(&name, fs)
}

/// Reads of single 8 KiB records at random places, with a cold cache: of files that are together a
/// quarter of the bytes, which should be far more than the cache takes.
fn randread(bench: &mut Bench, threads: usize) -> Outcome<()> {
    const RECORD: u64 = 8 << 10;
    /// By all threads.
    const READS: u64 = 64 << 10;
    let mut args = bench.args.clone();
    args.io = 1 << 20;
    let mut figure = Figure::new("randread", threads, "IOPS");
    let each = args.bytes / 4 / threads as u64 / args.io * args.io;
    let (name, fs) = bench.filesystem(RECORD)?;
    let files = make_files(&fs, threads)?;
    timed(threads, |t| fill(&args, &fs, &files, each, t), || Ok(()))?;
    drop(fs);
    for round in 0..args.rounds {
        bench.reopen()?;
        let fs = bench.pool()?.filesystem(&name)?;
        let (blocks, reads) = (each / RECORD, READS / threads as u64);
        let read = |t: usize| -> Outcome<()> {
            let node = fs.node(files[t])?;
            let mut buf = vec![0; RECORD as usize];
            let mut state = (t * 1000 + round + 1) as u64;
            for _ in 0..reads {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                node.read_at((state >> 33) % blocks * RECORD, &mut buf)?;
            }
            Ok(())
        };
        let cpu = cpu_seconds();
        let took = timed(threads, read, || Ok(()))?;
        figure.add((reads * threads as u64) as f64, took, cpu);
    }
    figure.show(&args)?;
    let fs = bench.pool()?.filesystem(&name)?;
    bench.drop_filesystem(&name, fs)
}

/// Overwrites of whole 8 KiB records at random places of a file that is there.
fn randwrite(bench: &mut Bench, threads: usize) -> Outcome<()> {
    const RECORD: u64 = 8 << 10;
    let mut args = bench.args.clone();
    args.io = 1 << 20;
    let mut figure = Figure::new("randwrite", threads, "IOPS");
    let each = args.bytes / 4 / threads as u64 / args.io * args.io;
    let (name, fs) = bench.filesystem(RECORD)?;
    let files = make_files(&fs, threads)?;
    timed(threads, |t| fill(&args, &fs, &files, each, t), || Ok(()))?;
    bench.pool()?.sync()?;
    for round in 0..args.rounds {
        let blocks = each / RECORD;
        let first = bench.pool()?.last_synced();
        let work = |t: usize| -> Outcome<()> {
            let source = payload(2 << 20, (t + round) as u64 + 7, args.random);
            let mut state = (t * 1000 + round + 1) as u64;
            for n in 0..blocks {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) % blocks * RECORD;
                let from = (n * 512 % (1 << 20)) as usize;
                fs.write_at(files[t], at, &source[from..from + RECORD as usize], now())?;
            }
            Ok(())
        };
        let pool = bench.pool()?;
        let cpu = cpu_seconds();
        let took = timed(threads, work, || Ok(pool.sync()?))?;
        figure.add((blocks * threads as u64) as f64, took, cpu);
        show_txgs(bench, first)?;
    }
    figure.show(&args)?;
    bench.drop_filesystem(&name, fs)
}

/// Empty files: all in one directory, or a directory for each thread.
fn creates(bench: &mut Bench, threads: usize, shared: bool) -> Outcome<()> {
    let args = bench.args.clone();
    let work = if shared { "create-one" } else { "create-own" };
    let mut figure = Figure::new(work, threads, "files/s");
    let each = args.files / threads as u64;
    for _ in 0..args.rounds {
        let (name, fs) = bench.filesystem(args.record)?;
        let dir = NewFile::new(NewKind::Dir, 0o755, now());
        let dirs: Vec<u64> = (0..threads)
            .map(|t| match shared && t > 0 {
                true => Ok(0),
                false => {
                    Ok(fs.create(fs.root_object(), format!("d{t}").as_bytes(), &dir)?.number())
                }
            })
            .collect::<Outcome<_>>()?;
        bench.pool()?.sync()?;
        let first = bench.pool()?.last_synced();
        let work = |t: usize| -> Outcome<()> {
            let new = NewFile::new(NewKind::File, 0o644, now());
            let dir = dirs[if shared { 0 } else { t }];
            for n in 0..each {
                fs.create(dir, format!("file-{t}-{n}").as_bytes(), &new)?;
            }
            Ok(())
        };
        let pool = bench.pool()?;
        let cpu = cpu_seconds();
        let took = timed(threads, work, || Ok(pool.sync()?))?;
        figure.add((each * threads as u64) as f64, took, cpu);
        show_txgs(bench, first)?;
        bench.drop_filesystem(&name, fs)?;
    }
    figure.show(&args)
}

/// Snapshot, change a little, destroy the snapshot; then destroy the file system.
fn snapshots(bench: &mut Bench) -> Outcome<()> {
    let args = bench.args.clone();
    let (name, fs) = bench.filesystem(args.record)?;
    let files = make_files(&fs, 1)?;
    let bytes = args.bytes / 2;
    fill(&args, &fs, &files, bytes, 0)?;
    bench.pool()?.sync()?;
    let note = format!("file system of {} MB", bytes / 1_000_000);
    let mut make = Figure::new("snapshot", 1, "/s");
    let mut destroy = Figure::new("destroy", 1, "/s");
    make.note = note.clone();
    destroy.note = format!("snapshot, 16 MiB changed; {note}");
    for round in 0..args.rounds.max(10) {
        let snapshot = format!("{name}@{round}");
        let pool = bench.pool()?;
        let began = Instant::now();
        pool.snapshot(std::slice::from_ref(&snapshot), Vec::new())?;
        make.rates.push(1.0 / began.elapsed().as_secs_f64());
        fill(&args, &fs, &files, 16 << 20, 0)?;
        pool.sync()?;
        let began = Instant::now();
        pool.destroy_snapshots(&[snapshot], false)?;
        destroy.rates.push(1.0 / began.elapsed().as_secs_f64());
    }
    make.show(&args)?;
    destroy.show(&args)?;
    let mut whole = Figure::new("destroy-fs", 1, "/s");
    whole.note = note;
    drop(fs);
    let began = Instant::now();
    bench.pool()?.destroy_dataset(&name)?;
    whole.rates.push(1.0 / began.elapsed().as_secs_f64());
    whole.show(&args)
}

fn main() -> Outcome<()> {
    let args = args()?;
    if args.work.iter().any(|w| w == "floor") {
        floor(&args)?;
    }
    let mut bench = Bench::new(&args)?;
    for work in &args.work {
        for threads in args.threads.iter().copied() {
            match work.as_str() {
                "floor" => {}
                "seqwrite" => seqwrite(&mut bench, threads, false)?,
                "rewrite" => seqwrite(&mut bench, threads, true)?,
                "seqread" => seqread(&mut bench, threads)?,
                "randread" => randread(&mut bench, threads)?,
                "randwrite" => randwrite(&mut bench, threads)?,
                "creates" => {
                    creates(&mut bench, threads, true)?;
                    creates(&mut bench, threads, false)?;
                }
                "snapshots" if threads == args.threads[0] => snapshots(&mut bench)?,
                "snapshots" => {}
                _ => return Err(USAGE.into()),
            }
        }
    }
    Ok(bench.live.take().map_or(Ok(()), LivePool::export)?)
}
