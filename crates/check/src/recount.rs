//! Blocks that several pointers share, and no table counts.
//!
//! The walk met blocks of data that begin at the same place. Either the space was handed out twice,
//! or it is one block and its entry in a table of shared blocks is missing. Which, is found by a
//! second walk that looks for all pointers to these places: it is one block when they all say the
//! same of it. Only metadata is read again, and only in pools with such blocks.

use crate::claims::Claims;
use crate::deferred;
use crate::options::{CheckOptions, Verify};
use crate::sets;
use crate::shared::Shared;
use crate::shared_counts::Unlisted;
use crate::sink::Sink;
use crate::totals::Totals;
use crate::walk::Walk;
use pool::Pool;
use rt::Progress;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Of the blocks at these places those that are one each.
pub(crate) fn unlisted(
    pool: &Pool,
    options: &CheckOptions,
    suspects: &BTreeSet<(u32, u64)>,
    progress: &Progress,
) -> Vec<Unlisted> {
    if suspects.is_empty() {
        return Vec::new();
    }
    // What is wrong was found by the first walk.
    let sink = Sink::new(0);
    let options = CheckOptions { verify: Verify::Metadata, ..options.clone() };
    let claims = Claims::new(pool, &sink);
    let shared = Shared::of_suspects(suspects);
    let sets = sets::list(pool, &sink);
    let walk = Walk::new(pool, &options, (&claims, &shared), &sink, progress);
    let destroyed = deferred::count(&walk, &mut Totals::default());
    let roots: Vec<_> = sets.all.iter().chain(&destroyed.sets).map(Arc::clone).collect();
    let found = walk.run(&roots);
    match found.metadata_lost == 0 && !destroyed.is_begun && !progress.is_cancelled() {
        true => shared.unlisted(),
        false => Vec::new(),
    }
}
