//! Verifies every block of a pool and cross-checks all accounting.
//!
//! # Theory
//!
//! The state of one uberblock is immutable, so all of it can be checked by as many threads as
//! there are, and everything that is stored twice can be compared:
//!
//! ```text
//! walk       every reachable block: readable by every copy and all parity; right level, type,
//!            size, birth, fill count; its space claimed
//! checkpoint the same for what a checkpoint keeps
//! spacemaps  claimed space against allocated space: leaks, double use, use of free space
//! shared     references found against those in dedup and clone tables; recount: those that no
//!            table counts
//! removed    mappings of removed vdevs against the blocks that need them
//! datasets   sums of the walk against referenced, unique, used; dead lists; links among datasets
//! names      of datasets, properties and features: such as these can have
//! files      names against files: links, parents, orphans, owners' sums
//! tables     every table, list, attribute and log decodes
//! labels     four labels per device against each other and against the pool
//! ```
//!
//! **Invariant: nothing stops the check.** What is damaged is reported with its place, what
//! depends on it is left out, everything else is still checked. Every broken rule is a variant of
//! [`Issue`]; that enum is the list of rules.
#![forbid(unsafe_code)]

mod accounting;
mod checkpoint;
mod claims;
mod damage;
mod datasets;
mod deferred;
mod files;
mod issue;
mod labels;
mod lists;
mod names;
mod options;
mod recount;
mod removed;
mod report;
mod sets;
mod shared;
mod shared_counts;
mod sink;
mod space;
mod spacemaps;
mod tables;
mod totals;
mod used_space;
mod verdict;
mod walk;

pub use accounting::space_of;
pub use damage::{DeviceDamage, RANGES_MAX};
pub use datasets::own_dirs;
pub use issue::{Cause, Issue, Location, LostPart, Severity};
pub use options::{CheckOptions, Verify};
pub use report::Report;
pub use shared_counts::{SharedCounts, Unlisted};
pub use totals::{BlockKind, Sum, Totals};
pub use used_space::UsedSpace;
pub use verdict::verdict;

use pool::Pool;
use pool::UnguardedDatasets as _;
use rt::Progress;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Checks an open pool.
#[must_use]
pub fn run(pool: &Pool, options: &CheckOptions, progress: &Progress) -> Report {
    survey(pool, options, progress).0
}

/// Checks an open pool and returns its allocated space, or no space if cancelled.
#[must_use]
pub fn survey(
    pool: &Pool,
    options: &CheckOptions,
    progress: &Progress,
) -> (Report, Option<UsedSpace>) {
    let clock = pool.vdevs().rt().clone();
    let start = clock.now();
    let sink = sink::Sink::new(options.issues_max);
    let claims = claims::Claims::new(pool, &sink);
    let shared = shared::Shared::load(pool, &sink);
    let sets = sets::list(pool, &sink);
    progress.begin("blocks", 0);
    let walk = walk::Walk::new(pool, options, (&claims, &shared), &sink, progress);
    let mut totals = Totals::default();
    let destroyed = deferred::count(&walk, &mut totals);
    let roots: Vec<_> = sets.all.iter().chain(&destroyed.sets).map(Arc::clone).collect();
    let mut found = walk.run(&roots);
    found.totals.merge(&totals);
    let metadata_lost = found.metadata_lost;
    let mut kept = checkpoint::walk(pool, options, &claims, &sink, progress);
    if let Some(k) = &mut kept {
        found.damages.merge(std::mem::take(&mut k.damages));
        found.blocks_read += k.blocks_read;
        found.bytes_read += k.bytes_read;
        found.blocks_lost += k.blocks_lost;
    }
    let mut report = Report {
        pool: pool.name().to_owned(),
        txg: pool.uberblock().txg,
        totals: found.totals,
        blocks_read: found.blocks_read,
        bytes_read: found.bytes_read,
        blocks_lost: found.blocks_lost,
        devices: found.damages.finish(),
        cancelled: progress.is_cancelled(),
        ..Report::default()
    };
    for d in &report.devices {
        sink.put(Issue::DeviceDamaged(d.clone()));
    }
    let mut stored = None;
    let (mut counts, mut is_walked, mut unused) = <(SharedCounts, bool, _)>::default();
    let complete = metadata_lost == 0 && !destroyed.is_begun;
    if !report.cancelled {
        progress.begin("space maps", 0);
        let compared = spacemaps::compare(pool, &claims, kept.as_ref(), complete, &sink);
        (report.allocated, report.checkpointed) = (compared.allocated, compared.kept);
        stored = Some(compared.maps);
        unused = removed::audit(pool, &claims, complete, &sink);
        if complete {
            counts = settle(pool, options, &shared, &sink, progress);
            is_walked = !sets.all.iter().any(|set| set.incomplete.load(Ordering::Relaxed));
        }
        progress.begin("datasets", 0);
        datasets::audit(pool, &sets, &sink);
        names::audit(pool, &sets, &sink);
        contents(pool, &sets, options, &sink, progress);
        progress.begin("labels", 0);
        labels::audit(pool, &sink);
        labels::known_errors(pool, &sink);
    }
    (report.issues, report.dropped) = sink.finish();
    report.elapsed = clock.now().saturating_sub(start);
    // Space that an entry of a dedup table names may be given out when the entry is gone.
    let may_free = complete && (is_walked || !shared.has_dedup()) && counts.is_dedup_right();
    // References that were not come to are not counted.
    let counts = if is_walked { counts } else { SharedCounts::default() };
    let taken = stored.map(|maps| UsedSpace::new(claims, &maps, may_free, (counts, unused)));
    (report, taken)
}

/// Compares references to shared blocks with the tables. What looked as if it were allocated twice
/// and is one block is an entry that is missing.
fn settle(
    pool: &Pool,
    options: &CheckOptions,
    shared: &shared::Shared,
    sink: &sink::Sink,
    progress: &Progress,
) -> SharedCounts {
    let unlisted = recount::unlisted(pool, options, &shared.suspects(), progress);
    let one: HashSet<[u64; 2]> =
        unlisted.iter().flat_map(|block| block.bp.dvas().map(|(_, dva)| dva.words())).collect();
    sink.retain(|issue| match issue {
        Issue::DoubleAllocation { dva, .. } => !one.contains(&dva.words()),
        _ => true,
    });
    shared.settle(pool, unlisted, sink)
}

/// The issues of labels alone, read again: part of [`run`], and quick.
#[must_use]
pub fn labels(pool: &Pool) -> Vec<Issue> {
    let sink = sink::Sink::new(CheckOptions::default().issues_max);
    labels::audit(pool, &sink);
    let (mut issues, _) = sink.finish();
    issues.retain(|i| matches!(i, Issue::Label { .. } | Issue::LabelRound { .. }));
    issues
}

/// Checks the contents of the objects: tables everywhere, files and owners in file systems.
fn contents(
    pool: &Pool,
    sets: &sets::Sets,
    options: &CheckOptions,
    sink: &sink::Sink,
    progress: &Progress,
) {
    const LONG_NAMES: &str = "org.zfsonlinux:longname";
    progress.begin("objects", 0);
    tables::decode_all(pool.mos(), &Arc::from("MOS"), sink, progress);
    let long_names = pool.features().count(LONG_NAMES).is_some_and(|n| n > 0);
    let longest = match long_names {
        true => zpl::names::LONGEST_WITH_FEATURE,
        false => zpl::names::LONGEST,
    };
    let wanted = |d: &&dsl::Dataset| options.snapshots || !d.phys.is_snapshot();
    let work = sets.datasets.values().filter(wanted);
    let done = pool.rt().for_each_parallel(options.workers, work, |d| {
        // Locked datasets have been named; what cannot be opened was met by the walk.
        let Ok(objset) = pool.dsl().objset(d) else { return Ok(()) };
        // A receive that was interrupted is not a file system yet.
        if !pool.dsl().is_unlocked(d).unwrap_or(false) || d.phys.is_inconsistent() {
            return Ok(());
        }
        let name = Arc::from(d.name.as_str());
        tables::decode_all(&objset, &name, sink, progress);
        // A set without any object was made and never became a file system: nothing is missing.
        let is_empty = objset.root().fill() == 0;
        if objset.phys().kind == ondisk::ObjsetKind::Zfs && !is_empty {
            match zpl::Filesystem::open(objset) {
                Ok(fs) => files::survey(fs, &name, longest, sink, progress),
                Err(e) => sink.put(Issue::DatasetLinks { dataset: name, cause: e.to_string() }),
            }
        }
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(()) = done;
}
