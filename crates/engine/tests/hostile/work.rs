//! What a round does with damaged images: opens whatever pools they hold and works on all of them.

use super::walk::{LOOKS_MAX, read_files, read_objset};
use engine::inside::check;
use engine::inside::check::CheckOptions;
use engine::inside::device::{Device, DeviceRef, Error, ErrorKind, Read};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::rt::Progress;
use engine::inside::{dsl, pool, zpl};
use engine::{OpenOptions, Pool, inventory, replay};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use testkit::SparseImage;

/// When work that can be cancelled is cancelled: an enormous pool is not checked to its end, but
/// the check must then stop.
const CANCELLED_AFTER: Duration = Duration::from_secs(20);

/// What a round does with the damaged pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Objects, tables, files, block by block.
    Read,
    /// `zinc check`.
    Check,
    /// The manifest, with intent logs replayed.
    Inventory,
    /// What `zpool` and `zfs` show: properties, space, history, errors, holds, bookmarks.
    Show,
}

impl Work {
    pub(crate) const ALL: [Self; 4] = [Self::Read, Self::Show, Self::Check, Self::Inventory];
}

/// A read: which device, from where, how much.
pub(crate) type ReadLog = Arc<Mutex<Vec<(usize, u64, usize)>>>;

/// A device in memory over a sparse image.
struct ImageDevice {
    name: Arc<str>,
    number: usize,
    image: SparseImage,
    log: Option<ReadLog>,
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
        if let Some(log) = &self.log {
            log.lock().expect("no panic while it is held").push((self.number, offset, buf.len()));
        }
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

/// The pools that the images hold. `log` notes every read.
pub(crate) fn candidates(images: Vec<SparseImage>, log: Option<&ReadLog>) -> Vec<pool::Candidate> {
    let mut found = Vec::new();
    for (number, image) in images.into_iter().enumerate() {
        let (name, log) = (format!("image{number}").into(), log.cloned());
        let device: DeviceRef = Arc::new(ImageDevice { name, number, image, log });
        found.extend(pool::look_at_device(&device, PathBuf::from(format!("image{number}"))));
    }
    pool::Candidate::group(&found)
}

/// Opens whatever pools the images hold and does the work on all of them.
pub(crate) fn work_on(images: Vec<SparseImage>, trusting: bool, work: Work) -> usize {
    let mut looks = 0;
    let options = OpenOptions {
        cache_bytes: 32 << 20,
        allow_missing: true,
        ignore_checksums: trusting,
        ..OpenOptions::default()
    };
    for candidate in candidates(images, None) {
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
    let open = |dataset: &dsl::Dataset| Ok(replay::objset(pool, dataset)?.0);
    let mut out = Lines(0);
    let _ = with_progress(|progress| {
        let options = inventory::Options {
            volumes: true,
            replayed: true,
            open: &open,
            max_hole: 1 << 30,
            progress,
            reports: &|_| inventory::Reports::default(),
        };
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
    for record in pool.history().unwrap_or_default().into_iter().flatten() {
        looks += format!("{:?}", record.list).len().min(1);
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
            let log = engine::inside::zil::Log::read(&objset);
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

/// Seconds of processor time that this process has used; 0 where that cannot be known.
fn cpu_seconds() -> u64 {
    const TICKS: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // User and system time stand eleven fields behind the name.
    fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>() / TICKS
}

/// Does `round` on a thread of its own; its result, or what became of it.
pub(crate) fn guarded(
    limit: Duration,
    what: &str,
    round: impl FnOnce() -> usize + Send + 'static,
) -> usize {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = std::panic::catch_unwind(AssertUnwindSafe(round));
        let _ = send.send(result.is_ok());
        result.unwrap_or(0)
    });
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    loop {
        match receive.recv_timeout(limit) {
            Ok(true) => return thread.join().unwrap_or(0),
            Ok(false) => panic!("panic with {what}"),
            // On a busy machine a round gets little of it, and is not a hang for that.
            Err(_) if cpu_seconds() - cpu < limit.as_secs() && begun.elapsed() < limit * 10 => {}
            Err(_) => panic!("hang with {what}"),
        }
    }
}
