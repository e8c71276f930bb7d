//! A driver that cuts long requests into pieces, of which it issues one after the other.
//!
//! The operating system hands a disk no more than a maximum at once (`maxphys` and its kin): a
//! longer request becomes several, and the next piece is issued when the last one has ended.

use core::time::Duration;
use engine::inside::device::{DiskModel, ModelKind, ModelRequest};
use std::collections::BTreeMap;

/// A model below a driver with a maximum.
pub(crate) struct Split {
    below: Box<dyn DiskModel>,
    max: u64,
    /// What is still to be issued of the requests that are longer.
    rest: BTreeMap<u64, ModelRequest>,
    ended: Vec<u64>,
}

impl Split {
    pub(crate) fn new(below: Box<dyn DiskModel>, max: u64) -> Self {
        Self { below, max: max.max(512), rest: BTreeMap::new(), ended: Vec::new() }
    }

    fn issue(&mut self, now: Duration, mut request: ModelRequest) {
        if request.kind != ModelKind::Flush && request.len > self.max {
            let rest = ModelRequest {
                offset: request.offset + self.max,
                len: request.len - self.max,
                ..request
            };
            self.rest.insert(request.id, rest);
            request.len = self.max;
        }
        self.below.arrive(now, request);
    }
}

impl DiskModel for Split {
    fn is_rotating(&self) -> bool {
        self.below.is_rotating()
    }

    fn arrive(&mut self, now: Duration, request: ModelRequest) {
        self.issue(now, request);
    }

    fn next(&self) -> Option<Duration> {
        self.below.next()
    }

    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>) {
        let mut pieces = core::mem::take(&mut self.ended);
        self.below.advance(now, &mut pieces);
        for id in pieces.drain(..) {
            match self.rest.remove(&id) {
                Some(rest) => self.issue(now, rest),
                None => ended.push(id),
            }
        }
        self.ended = pieces;
    }
}
