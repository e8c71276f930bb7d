//! Damaged images: whatever is done to a pool's bytes, opening and reading it ends, with data or
//! with errors, and never with a panic, a hang or unbounded memory.
//!
//! Each round damages a copy of a real pool in memory and reads everything in it. Every other
//! round ignores checksums, so that the damage reaches the decoders instead of being found by the
//! first checksum. A round is repeated by its seed, which a failure names.
//!
//! Bounded to `ZINC_CAMPAIGN_SECONDS` (default 20); the long form sets it higher. `ZINC_SEED` is
//! the seed of the first round.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

#[path = "hostile/walk.rs"]
mod walk;

use device::{Device, DeviceRef, Error, ErrorKind, Read};
use engine::check::{self, CheckOptions};
use engine::rt::Progress;
use engine::{OpenOptions, Pool, device, dsl, inventory, pool, replay, zpl};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use testkit::{CorpusPool, Corruptor, SparseImage};
use walk::{LOOKS_MAX, forget_memory_peak, memory_peak_kib, read_files, read_objset};

/// Longest a round may take: reading a whole corpus pool in a debug build takes seconds.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Largest resident size this whole test may reach, images included.
const MEMORY_LIMIT_KIB: u64 = 3 << 20;
/// When work that can be cancelled is cancelled: an enormous pool is not checked to its end, but
/// the check must then stop.
const CANCELLED_AFTER: Duration = Duration::from_secs(20);

/// What a round does with the damaged pool.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Objects, tables, files, block by block.
    Read,
    /// `zinc check`.
    Check,
    /// The manifest, with intent logs replayed.
    Inventory,
    /// What `zpool` and `zfs` show: properties, space, history, errors, holds, bookmarks.
    Show,
}

/// A device in memory over a sparse image.
struct ImageDevice {
    name: Arc<str>,
    image: SparseImage,
}

impl Device for ImageDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.image.len()
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let fail = Error::read(ErrorKind::Gone, &self.name, offset, buf.len());
        self.image.read_at(offset, buf).map_err(|_| fail)
    }

    fn submit(&self, batch: Vec<Read>) {
        for r in batch {
            let result = self.read_new(r.offset, r.len);
            (r.done)(result);
        }
    }
}

/// Opens whatever pools the images hold and does the work on all of them.
fn work_on(images: Vec<SparseImage>, trusting: bool, work: Work) -> usize {
    let mut looks = 0;
    let mut found = Vec::new();
    for (i, image) in images.into_iter().enumerate() {
        let device: DeviceRef = Arc::new(ImageDevice { name: format!("image{i}").into(), image });
        found.extend(pool::look_at_device(&device, PathBuf::from(format!("image{i}"))));
    }
    let options = OpenOptions {
        cache_bytes: 32 << 20,
        allow_missing: true,
        ignore_checksums: trusting,
        ..OpenOptions::default()
    };
    for candidate in pool::Candidate::group(&found) {
        let Ok(pool) = Pool::open_candidate(&candidate, &options) else { continue };
        looks += match work {
            Work::Read => read_everything(&pool),
            Work::Check => check_everything(&pool),
            Work::Inventory => list_everything(&pool),
            Work::Show => show_everything(&pool),
        };
    }
    looks
}

/// Cancels what is under way when it takes too long.
fn with_progress<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let (ended, end) = mpsc::channel::<()>();
    let progress = Progress::new();
    std::thread::scope(|scope| {
        let watched = &progress;
        scope.spawn(move || {
            if end.recv_timeout(CANCELLED_AFTER).is_err() {
                watched.cancel();
            }
        });
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| work(&progress)));
        let _ = ended.send(());
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn check_everything(pool: &Pool) -> usize {
    let mut options = CheckOptions { workers: 1, snapshots: true, ..CheckOptions::default() };
    options.issues_max = 1000;
    let report = with_progress(|progress| check::run(pool, &options, progress));
    usize::try_from(report.blocks_read).unwrap_or(usize::MAX)
}

fn list_everything(pool: &Pool) -> usize {
    let open = |dataset: &dsl::Dataset| replay::objset(pool, dataset).map(|(objset, _)| objset);
    let mut out = Lines(0);
    let _ = with_progress(|progress| {
        let options = inventory::Options { volumes: true, replayed: true, open: &open, progress };
        inventory::write(pool, &options, &mut out)
    });
    out.0
}

/// Counts lines and keeps nothing.
struct Lines(usize);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.iter().filter(|b| **b == b'\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn show_everything(pool: &Pool) -> usize {
    let space = pool.space();
    let mut looks = pool.properties(&space).len();
    let _ = (space.fragmentation(), space.dedup_percent(), space.checkpoint());
    let format = pool::HistoryFormat { internal: true, long: true, ..Default::default() };
    for record in pool.history().unwrap_or_default().into_iter().flatten() {
        looks += usize::from(pool::history_text(&record, format, &|_| None).is_some());
    }
    for damaged in pool.error_log().unwrap_or_default().objects() {
        looks += pool.damaged_name(&damaged).len().min(1);
    }
    let context = dsl::PropertyContext { pool_size: Some(space.usable()), altroot: None };
    for (_, dir) in pool.dsl().walk() {
        let Ok(dir) = dir else { continue };
        let _ = (pool.dsl().delegations(&dir), pool.dsl().encryption_root(&dir));
        let Ok(Some(head)) = pool.dsl().head(&dir) else { continue };
        for bookmark in pool.dsl().bookmarks(&head).unwrap_or_default() {
            let _ = pool.dsl().bookmark_properties(&bookmark);
        }
        let mut sets = pool.dsl().snapshots(&head).unwrap_or_default();
        sets.push(head);
        for set in sets {
            looks += pool.dsl().properties(&set, &context).map_or(0, |all| all.len());
            let _ = (pool.dsl().holds(&set), pool.dsl().written(&set));
            if looks > LOOKS_MAX {
                return looks;
            }
        }
    }
    looks
}

fn read_everything(pool: &Pool) -> usize {
    let mut looks = 0;
    read_objset(pool.mos(), &mut looks);
    for (_, dir) in pool.dsl().walk() {
        let Ok(dir) = dir else { continue };
        let Ok(Some(head)) = pool.dsl().head(&dir) else { continue };
        let _ = pool.dsl().origin(&dir);
        let _ = pool.dsl().key_info(&dir);
        let mut sets = pool.dsl().snapshots(&head).unwrap_or_default();
        sets.push(head);
        for set in sets {
            let Ok(objset) = pool.dsl().objset(&set) else { continue };
            let log = engine::zil::Log::read(&objset);
            looks += log.pending(0).count();
            read_objset(&objset, &mut looks);
            if let Ok(fs) = zpl::Filesystem::open(objset) {
                read_files(&fs, &mut looks);
            }
            if looks > LOOKS_MAX {
                return looks;
            }
        }
    }
    looks
}

fn pools() -> Vec<(String, Vec<SparseImage>)> {
    let load = |name: String, pool: CorpusPool| {
        let load = |p: &PathBuf| SparseImage::load(p).expect("an image of the corpus");
        (name, pool.images.iter().map(load).collect())
    };
    let fixtures = testkit::fixture_cases().into_iter();
    let mut out: Vec<_> = fixtures.map(|n| load(n.clone(), testkit::fixture(&n))).collect();
    // Kinds of structures the fixtures lack; a missing corpus only narrows the test.
    for case in ["crypt", "version28", "history", "ziluncle", "dedup-clone", "expanded"] {
        if let Some(pool) = testkit::corpus(case) {
            out.push(load(case.to_owned(), pool));
        }
    }
    out
}

fn budget() -> Duration {
    let seconds = std::env::var("ZINC_CAMPAIGN_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(20))
}

#[test]
fn damaged_pools_end_in_data_or_errors() {
    let pools = pools();
    assert!(!pools.is_empty(), "the project ships fixtures");
    // Loading the images, above, took memory of its own for a moment.
    forget_memory_peak();
    let start = Instant::now();
    let first = std::env::var("ZINC_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut rounds, mut looks) = (0u64, 0usize);
    let mut slowest = (Duration::ZERO, String::new());
    for seed in first.. {
        if start.elapsed() > budget() {
            break;
        }
        let (name, images) = &pools[(seed % pools.len() as u64) as usize];
        let count = [1, 10, 100, 1_000, 10_000][(seed / 7 % 5) as usize];
        let (trusting, labels) = (seed % 2 == 0, seed % 3 == 0);
        let works = [Work::Read, Work::Show, Work::Check, Work::Inventory];
        let work = works[(seed / 2 % 4) as usize];
        let begun = Instant::now();
        let (send, receive) = mpsc::channel();
        let copies = images.clone();
        let round = std::thread::spawn(move || {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
                let mut images = copies;
                for (i, image) in images.iter_mut().enumerate() {
                    let mut c = Corruptor::new(seed * 64 + i as u64).truncates();
                    if !labels {
                        c = c.spare_labels(image.len());
                    }
                    c.damage(image, count);
                }
                work_on(images, trusting, work)
            }));
            let _ = send.send(result.is_ok());
            result.unwrap_or(0)
        });
        let what = format!(
            "ZINC_SEED={seed}: pool {name}, {count} damages, trusting {trusting}, {work:?}"
        );
        match receive.recv_timeout(ROUND_LIMIT) {
            Ok(true) => looks += round.join().unwrap_or(0),
            Ok(false) => panic!("panic with {what}"),
            Err(_) => panic!("hang with {what}"),
        }
        rounds += 1;
        slowest = slowest.max((begun.elapsed(), what.clone()));
        assert!(memory_peak_kib() < MEMORY_LIMIT_KIB, "memory beyond the bound with {what}");
    }
    println!("{rounds} rounds, {looks} looks, peak {} MiB", memory_peak_kib() >> 10);
    println!("slowest: {:?}, {}", slowest.0, slowest.1);
}
