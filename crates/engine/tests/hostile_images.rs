//! Every pool at hand with 10,000 random corruptions of each kind: whatever was done to its images,
//! opening and reading ends, with data or with errors, and never with a panic, a hang or unbounded
//! memory.
//!
//! Kinds are those of `testkit` (a flipped bit, zeros, noise, a misdirected write, blocks swapped,
//! the image cut short) and those of `hostile/lies.rs` (pointers in circles, lying sizes), each
//! with checksums verified and with checksums ignored, and every image of a pool gets its share.
//! 10,000 of a kind are 1, 9, 90, 900 and 9,000 at once: few leave most of the pool to be read,
//! many leave nothing whole. Cuts are the exception, because of many only the shortest counts:
//! there every round makes one.
//!
//! ```text
//! cargo test --release -p engine --test hostile_images -- --ignored --nocapture
//! ```
//!
//! `ZINC_SEED` begins elsewhere, `ZINC_ROUNDS=N` does all that N times with other damage,
//! `ZINC_POOLS=a,b` keeps to some pools. The bounded part is in `hostile.rs` and
//! `hostile_blocks.rs`, and here one round of lies for each fixture.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

#[path = "hostile/lies.rs"]
mod lies;
#[path = "hostile/walk.rs"]
mod walk;
#[path = "hostile/work.rs"]
mod work;

use lies::{Lie, Lies};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{CorpusPool, Corruptor, DamageKind, SparseImage};
use walk::{forget_memory_peak, memory_peak_kib};
use work::{Work, guarded, work_on};

/// Longest a round may take.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// How far the resident size may grow beyond the loaded images.
const GROWTH_LIMIT_KIB: u64 = 1 << 20;
/// Corruptions of one round; together 10,000.
const AT_ONCE: [usize; 5] = [1, 9, 90, 900, 9_000];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Damage(DamageKind),
    Lie(Lie),
}

struct Case {
    name: String,
    images: Vec<SparseImage>,
    lies: Arc<Lies>,
}

impl Case {
    fn load(pool: &CorpusPool) -> Self {
        let load = |p: &std::path::PathBuf| SparseImage::load(p).expect("an image of the corpus");
        let images: Vec<_> = pool.images.iter().map(load).collect();
        let lies = Arc::new(Lies::of(&images));
        Self { name: pool.case.clone(), images, lies }
    }
}

fn round(case: &Case, kind: Kind, count: usize, trusting: bool, seed: u64) -> usize {
    // Whole pools take a while to check and list, mostly sound ones the more.
    let work = Work::ALL[(seed % 4) as usize];
    let what = format!(
        "ZINC_POOLS={} ZINC_SEED={seed}: {count} of {kind:?}, trusting {trusting}, {work:?}",
        case.name
    );
    let (mut images, lies) = (case.images.clone(), Arc::clone(&case.lies));
    let spared = !seed.is_multiple_of(3);
    guarded(ROUND_LIMIT, &what, move || {
        match kind {
            Kind::Lie(lie) => lies.tell(&mut images, lie, count, seed),
            Kind::Damage(kind) => {
                for (i, image) in images.iter_mut().enumerate() {
                    let mut c = Corruptor::new(seed * 64 + i as u64).only(kind);
                    if spared {
                        c = c.spare_labels(image.len());
                    }
                    c.damage(image, count);
                }
            }
        }
        work_on(images, trusting, work)
    })
}

/// The lies are told: a pool that was sound is not read as if nothing had happened.
#[test]
fn lies_reach_the_decoders() {
    for name in testkit::fixture_cases() {
        let case = Case::load(&testkit::fixture(&name));
        if name == "gang" {
            // Blocks of gang parts are not lied about.
            continue;
        }
        assert!(case.lies.len() > 20, "{name}: {} blocks to lie about", case.lies.len());
        let honest = work_on(case.images.clone(), true, Work::Read);
        for lie in [Lie::Cycle, Lie::Size] {
            let looks = round(&case, Kind::Lie(lie), 30, true, 4);
            assert!(looks != honest, "{name}: {lie:?}: all {honest} looks as if nothing happened");
        }
    }
}

#[test]
#[ignore = "long form: a quarter of an hour, see the head of this file"]
fn every_image_with_10_000_corruptions_of_each_kind() {
    let wanted = std::env::var("ZINC_POOLS").ok();
    let chosen =
        |name: &String| wanted.as_ref().is_none_or(|w| w.split(',').any(|one| one == *name));
    let number = |name| std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    let (first, times) = (number("ZINC_SEED"), number("ZINC_ROUNDS"));
    let fixtures = testkit::fixture_cases().into_iter().filter(chosen);
    let mut pools: Vec<_> = fixtures.map(|n| testkit::fixture(&n)).collect();
    let have: Vec<String> = pools.iter().map(|p| p.case.clone()).collect();
    let corpus = testkit::corpus_cases().into_iter().filter(chosen);
    pools.extend(corpus.filter(|n| !have.contains(n)).map(|n| testkit::corpus(&n)));
    assert!(!pools.is_empty(), "no such pool");
    let mut kinds: Vec<Kind> = DamageKind::ALL.map(Kind::Damage).to_vec();
    kinds.extend([Lie::Cycle, Lie::Size].map(Kind::Lie));
    let kinds = kinds.repeat(usize::try_from(times).unwrap_or(1));
    let start = Instant::now();
    let (mut rounds, mut corruptions, mut worst) = (0u64, 0u64, 0);
    for pool in &pools {
        let case = Case::load(pool);
        forget_memory_peak();
        let loaded = memory_peak_kib();
        let (begun, mut seed, mut looks) = (Instant::now(), first, 0);
        for kind in &kinds {
            for trusting in [false, true] {
                for at_once in AT_ONCE {
                    let cut = matches!(kind, Kind::Damage(DamageKind::Truncate));
                    let count = if cut { 1 } else { at_once };
                    looks += round(&case, *kind, count, trusting, seed);
                    (rounds, seed) = (rounds + 1, seed + 1);
                    corruptions += (count * case.images.len()) as u64;
                }
            }
        }
        let grown = memory_peak_kib().saturating_sub(loaded);
        worst = worst.max(grown);
        println!(
            "{}: {looks} looks, {} blocks to lie about, {} MiB loaded, grown by {} MiB, {:.0} s",
            case.name,
            case.lies.len(),
            loaded >> 10,
            grown >> 10,
            begun.elapsed().as_secs_f64()
        );
        assert!(grown < GROWTH_LIMIT_KIB, "{}: grown by {} MiB", case.name, grown >> 10);
    }
    println!(
        "{} pools, {rounds} rounds, {corruptions} corruptions, grown by {} MiB at most, {:.0} s",
        pools.len(),
        worst >> 10,
        start.elapsed().as_secs_f64()
    );
}
