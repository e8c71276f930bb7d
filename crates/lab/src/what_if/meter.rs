//! A disk that is measured: for how long it had something to do.

use core::time::Duration;
use engine::inside::device::{DiskModel, ModelRequest};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Default)]
struct State {
    under_way: usize,
    since: Duration,
    busy: Duration,
}

/// What a disk did so far.
#[derive(Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<State>>);

impl Meter {
    /// The time for which it had something to do until now.
    pub(crate) fn busy(&self, now: Duration) -> Duration {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open =
            if state.under_way > 0 { now.saturating_sub(state.since) } else { Duration::ZERO };
        state.busy + open
    }

    fn change(&self, now: Duration, by: impl FnOnce(usize) -> usize) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.under_way > 0 {
            let more = now.saturating_sub(state.since);
            state.busy += more;
        }
        (state.since, state.under_way) = (now, by(state.under_way));
    }
}

/// See the head of this file.
pub(crate) struct Metered {
    model: Box<dyn DiskModel>,
    meter: Meter,
}

impl Metered {
    pub(crate) fn new(model: Box<dyn DiskModel>, meter: Meter) -> Self {
        Self { model, meter }
    }
}

impl DiskModel for Metered {
    fn is_rotating(&self) -> bool {
        self.model.is_rotating()
    }

    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        self.meter.change(now, |under_way| under_way + 1);
        self.model.arrive(now, request);
    }

    fn next(&self) -> Option<Duration> {
        self.model.next()
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let before = ended.len();
        self.model.advance(now, ended);
        let done = ended.len() - before;
        if done > 0 {
            self.meter.change(now, |under_way| under_way.saturating_sub(done));
        }
    }
}
