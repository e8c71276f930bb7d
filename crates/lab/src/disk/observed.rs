//! A disk whose writes are seen: when each arrived, and how long it took.

use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A write as its disk saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Write {
    /// When it ended.
    pub(crate) ended: Duration,
    /// How long it took from its arrival.
    pub(crate) took: Duration,
    /// Its bytes.
    pub(crate) bytes: u64,
}

/// The writes of a disk, in the order in which they ended.
#[derive(Clone, Default)]
pub(crate) struct WriteLog(Arc<Mutex<Vec<Write>>>);

impl WriteLog {
    /// All so far.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// See the head of this file.
pub(crate) struct Observed {
    model: Box<dyn DiskModel>,
    seen: WriteLog,
    under_way: HashMap<u64, (Duration, u64)>,
}

impl Observed {
    /// The same disk, whose writes are put into `seen`.
    pub(crate) fn new(model: Box<dyn DiskModel>, seen: WriteLog) -> Self {
        Self { model, seen, under_way: HashMap::new() }
    }
}

impl DiskModel for Observed {
    fn is_rotating(&self) -> bool {
        self.model.is_rotating()
    }

    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        if request.kind == ModelKind::Write {
            self.under_way.insert(request.id, (now, request.len));
        }
        self.model.arrive(now, request);
    }

    fn next(&self) -> Option<Duration> {
        self.model.next()
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let first = ended.len();
        self.model.advance(now, ended);
        let mut seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        for id in &ended[first..] {
            if let Some((arrived, bytes)) = self.under_way.remove(id) {
                let took = now.saturating_sub(arrived);
                seen.push(Write { ended: now, took, bytes });
            }
        }
    }
}
