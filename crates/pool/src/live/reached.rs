//! How far streams have come that are being received, until that is in the fields of their heads.

use crate::error::Result;
use dsl::write::{DslCx, Position};
use parking_lot::Mutex;

/// How far a stream has come in the txgs that are not synced yet, by txg.
#[derive(Default)]
pub(super) struct Reached(Mutex<Vec<(u64, Position)>>);

impl Reached {
    /// The last record so far of which something goes into `txg`.
    pub(super) fn put(&self, txg: u64, at: Position) {
        let mut all = self.0.lock();
        match all.last_mut() {
            Some((last, position)) if *last == txg => *position = at,
            _ => all.push((txg, at)),
        }
    }

    /// In the sync of the head: its fields get what was reached in this txg.
    pub(super) fn note(&self, cx: &DslCx<'_>, head: u64) -> Result<()> {
        let mut all = self.0.lock();
        let synced = all.partition_point(|(txg, _)| *txg <= cx.txg());
        match all.drain(..synced).next_back() {
            Some((_, at)) => Ok(dsl::write::note_received(cx, head, at)?),
            None => Ok(()),
        }
    }
}
