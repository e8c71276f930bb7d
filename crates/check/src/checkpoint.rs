//! The checkpoint's own tree: what is reachable from the uberblock that it keeps.
//!
//! It is walked as the pool's is, but blocks of data that the pool still has are not read again.
//! The space of its blocks, less the space of the pool's, is what the checkpoint's space maps must
//! list.

use crate::claims::Claims;
use crate::damage::Damages;
use crate::issue::Issue;
use crate::options::CheckOptions;
use crate::shared::Shared;
use crate::sink::Sink;
use crate::space::Bitmap;
use crate::totals::Totals;
use crate::walk::Walk;
use crate::{deferred, sets};
use pool::{OpenOptions, Pool};
use rt::Progress;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The space of the checkpoint's blocks, and the result of reading them.
pub(crate) struct CheckpointBlocks {
    taken: BTreeMap<u32, Bitmap>,
    pub(crate) damages: Damages,
    pub(crate) blocks_read: u64,
    pub(crate) bytes_read: u64,
    pub(crate) blocks_lost: u64,
    /// All of the tree was reached.
    complete: bool,
}

impl CheckpointBlocks {
    /// Space on a vdev; `None` when not all of it could be found out.
    pub(crate) fn taken(&self, vdev: u32) -> Option<&Bitmap> {
        self.taken.get(&vdev).filter(|_| self.complete)
    }
}

/// Walks the checkpoint's tree; `None` when there is no checkpoint or it cannot be opened.
pub(crate) fn walk(
    pool: &Pool,
    options: &CheckOptions,
    known: &Claims<'_>,
    sink: &Sink,
    progress: &Progress,
) -> Option<CheckpointBlocks> {
    let unopened = |cause| sink.put(Issue::Unopened { what: "the checkpoint", cause });
    match pool.checkpoint() {
        Ok(Some(u)) if u.txg != pool.uberblock().txg => {}
        Ok(_) => return None,
        Err(e) => {
            unopened(e.to_string());
            return None;
        }
    }
    let open = OpenOptions {
        rt: pool.rt(),
        checkpoint: true,
        allow_missing: true,
        ..OpenOptions::default()
    };
    let then = match Pool::open_candidate(pool.candidate(), &open) {
        Ok(p) => p,
        Err(e) => {
            unopened(e.to_string());
            return None;
        }
    };
    let own = Sink::new(options.issues_max);
    let claims = Claims::new(&then, &own);
    let shared = Shared::load(&then, &own);
    let sets = sets::list(&then, &own);
    let walk = Walk::new(&then, options, (&claims, &shared), &own, progress).knowing(known);
    let mut totals = Totals::default();
    let destroyed = deferred::count(&walk, &mut totals);
    let roots: Vec<_> = sets.all.iter().chain(&destroyed.sets).map(Arc::clone).collect();
    let found = walk.run(&roots);
    let (issues, dropped) = own.finish();
    for issue in issues {
        // Named for the pool itself.
        if !matches!(issue, Issue::Locked { .. }) {
            sink.put(Issue::InCheckpoint(Box::new(issue)));
        }
    }
    sink.put_dropped(dropped);
    let complete = found.metadata_lost == 0 && !destroyed.is_begun && !progress.is_cancelled();
    Some(CheckpointBlocks {
        taken: claims.into_taken(),
        damages: found.damages,
        blocks_read: found.blocks_read,
        bytes_read: found.bytes_read,
        blocks_lost: found.blocks_lost,
        complete,
    })
}
