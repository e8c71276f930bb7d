//! What was seen of a pool so far, for a frame.

use super::{FrameData, POINTS, Point, Sort};
use engine::devices::price::Prices;
use engine::live::TxgRecord;
use engine::stats::Snapshot;

/// The snapshots of a pool so far.
#[derive(Default)]
pub struct Series {
    last: Option<Snapshot>,
    /// The difference of the last two snapshots that are shown.
    shown: Snapshot,
    txgs: Vec<TxgRecord>,
    points: Vec<Point>,
}

impl Series {
    /// Adds the next one. What is shown stays as it is while it `is_paused`, and goes on with the
    /// interval after that.
    pub fn add(&mut self, snapshot: Snapshot, is_paused: bool) {
        if !is_paused {
            self.shown = match &self.last {
                Some(last) => snapshot.since(last),
                None => snapshot.clone(),
            };
            if self.last.is_some() {
                self.points.push(Point::of(&self.shown));
                let old = self.points.len().saturating_sub(POINTS);
                self.points.drain(..old);
            }
            self.txgs.clone_from(&snapshot.txgs);
        }
        self.last = Some(snapshot);
    }

    /// Shows the totals since the pool was opened, in place of the last interval.
    pub fn show_totals(&mut self) {
        self.shown = self.last.clone().unwrap_or_default();
    }

    /// The figures that are shown.
    #[must_use]
    pub fn shown(&self) -> &Snapshot {
        &self.shown
    }

    /// A frame of them; the other inputs are as in [`FrameData`].
    #[must_use]
    pub fn frame<'a>(
        &'a self,
        sort: Sort,
        state: &'a str,
        help: bool,
        prices: &'a Prices,
    ) -> FrameData<'a> {
        let (interval, txgs, points) = (&self.shown, &self.txgs, &self.points);
        FrameData { interval, txgs, points, sort, state, help, prices }
    }
}
