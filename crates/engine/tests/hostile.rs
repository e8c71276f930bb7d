//! Damaged images: whatever is done to a pool's bytes, opening and reading it ends, with data or
//! with errors, and never with a panic, a hang or unbounded memory.
//!
//! Each round damages a copy of a real pool in memory and reads everything in it. Every other
//! round ignores checksums, so that the damage reaches the decoders instead of being found by the
//! first checksum. A round is repeated by its seed, which a failure names; a
//! failure was tried with fewer and fewer of its damages.
//!
//! Bounded to `ZINC_CAMPAIGN_SECONDS` (default 20); the long form sets it higher. `ZINC_SEED` is
//! the seed of the first round.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

#[path = "hostile/walk.rs"]
mod walk;
#[path = "hostile/work.rs"]
mod work;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::{CorpusPool, Corruptor, SparseImage};
use walk::{forget_memory_peak, memory_peak_kib};
use work::{Work, guarded, work_on};

/// Longest a round may take: reading a whole corpus pool in a debug build takes seconds.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Largest resident size this whole test may reach, images included.
const MEMORY_LIMIT_KIB: u64 = 3 << 20;
fn pools() -> Vec<(String, Vec<SparseImage>)> {
    let load = |name: String, pool: CorpusPool| {
        let load = |p: &PathBuf| SparseImage::load(p).expect("an image of the corpus");
        (name, pool.images.iter().map(load).collect())
    };
    let fixtures = testkit::fixture_cases().into_iter();
    let mut out: Vec<_> = fixtures.map(|n| load(n.clone(), testkit::fixture(&n))).collect();
    // Kinds of structures the fixtures lack.
    let cases = ["crypt", "version28", "history", "ziluncle", "dedup-clone", "expanded"];
    out.extend(testkit::corpus_among(&cases).into_iter().map(|p| load(p.case.clone(), p)));
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
        let work = Work::ALL[(seed / 2 % 4) as usize];
        let begun = Instant::now();
        let what = format!(
            "ZINC_SEED={seed}: pool {name}, {count} damages, trusting {trusting}, {work:?}"
        );
        let seen = Cell::new(0);
        testkit::shrinking_events(count, |kept| {
            let (mut images, kept) = (images.clone(), kept.to_vec());
            let round = move || {
                for (i, image) in images.iter_mut().enumerate() {
                    let mut c = Corruptor::new(seed * 64 + i as u64).truncates();
                    if !labels {
                        c = c.spare_labels(image.len());
                    }
                    c.damage_some(image, count, &kept);
                }
                work_on(images, trusting, work)
            };
            seen.set(guarded(ROUND_LIMIT, &what, round));
        });
        looks += seen.get();
        rounds += 1;
        slowest = slowest.max((begun.elapsed(), what.clone()));
        assert!(memory_peak_kib() < MEMORY_LIMIT_KIB, "memory beyond the bound with {what}");
    }
    println!("{rounds} rounds, {looks} looks, peak {} MiB", memory_peak_kib() >> 10);
    println!("slowest: {:?}, {}", slowest.0, slowest.1);
}
