//! Damaged images: whatever is done to a pool's bytes, opening and reading it ends, with data or
//! with errors, and never with a panic, a hang or unbounded memory.
//!
//! Each round damages a copy of a real pool in memory and reads everything in it. Every other
//! round ignores checksums, so that the damage reaches the decoders instead of being found by the
//! first checksum. A round is repeated by its seed, which a failure names.
//!
//! Bounded to `ZINC_CAMPAIGN_SECONDS` (default 20); the long form sets it higher.

use device::{Device, DeviceRef, Error, ErrorKind, Read};
use engine::{OpenOptions, Pool, device, dmu, ondisk, pool, zpl};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use testkit::{CorpusPool, Corruptor, SparseImage};

/// Longest a round may take: reading a whole corpus pool in a debug build takes seconds.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Largest resident size this whole test may reach, images included.
const MEMORY_LIMIT_KIB: u64 = 3 << 20;
/// Objects, entries and blocks one round looks at, at most: damage can make a small pool look
/// like an enormous one, and reading all of an enormous pool rightly takes long.
const LOOKS_MAX: usize = 20_000;

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

/// Opens whatever pools the images hold and reads all of them.
fn read_everything(images: Vec<SparseImage>, trusting: bool) -> usize {
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
    }
    looks
}

fn read_objset(objset: &dmu::Objset, looks: &mut usize) {
    for object in objset.objects() {
        *looks += 1;
        if *looks > LOOKS_MAX {
            return;
        }
        let Ok(object) = object else { continue };
        if object.dnode().kind.layout() == ondisk::Layout::Zap
            && let Ok(zap) = dmu::Zap::open(&object)
        {
            *looks += zap.entries().take(LOOKS_MAX).count();
        }
        let _ = object.read_spill();
        let mut at = 0;
        while *looks < LOOKS_MAX {
            *looks += 1;
            match object.next_block(at) {
                Ok(Some(b)) => {
                    let _ = object.read_block(b);
                    let Some(next) = b.checked_add(1) else { break };
                    at = next;
                }
                Ok(None) | Err((_, None)) => break,
                Err((_, Some(resume))) => at = resume,
            }
        }
    }
}

fn read_files(fs: &zpl::Filesystem, looks: &mut usize) {
    let Ok(root) = fs.root() else { return };
    let mut todo = vec![root];
    while let Some(node) = todo.pop() {
        *looks += 1;
        if *looks > LOOKS_MAX {
            return;
        }
        let _ = node.xattrs();
        let _ = node.read_link();
        let mut buffer = [0; 8192];
        let _ = node.read_at(0, &mut buffer);
        let Ok(entries) = node.entries() else { continue };
        todo.extend(entries.into_iter().flatten().filter_map(|e| fs.node(e.object).ok()));
    }
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

/// Highest resident size so far in KiB.
fn memory_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn budget() -> Duration {
    let seconds = std::env::var("ZINC_CAMPAIGN_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(20))
}

#[test]
fn damaged_pools_end_in_data_or_errors() {
    let pools = pools();
    assert!(!pools.is_empty(), "the project ships fixtures");
    let start = Instant::now();
    let first = std::env::var("ZINC_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let (mut rounds, mut looks) = (0u64, 0usize);
    for seed in first.. {
        if start.elapsed() > budget() {
            break;
        }
        let (name, images) = &pools[(seed % pools.len() as u64) as usize];
        let count = [1, 10, 100, 1_000, 10_000][(seed / 7 % 5) as usize];
        let (trusting, labels) = (seed % 2 == 0, seed % 3 == 0);
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
                read_everything(images, trusting)
            }));
            let _ = send.send(result.is_ok());
            result.unwrap_or(0)
        });
        let what = format!("ZINC_SEED={seed}: pool {name}, {count} damages, trusting {trusting}");
        match receive.recv_timeout(ROUND_LIMIT) {
            Ok(true) => looks += round.join().unwrap_or(0),
            Ok(false) => panic!("panic with {what}"),
            Err(_) => panic!("hang with {what}"),
        }
        rounds += 1;
        assert!(memory_peak_kib() < MEMORY_LIMIT_KIB, "memory beyond the bound with {what}");
    }
    println!("{rounds} rounds, {looks} looks, peak {} MiB", memory_peak_kib() >> 10);
}
