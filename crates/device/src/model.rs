//! How long a disk takes, as a machine of its own.
//!
//! A [`crate::SimDevice`] holds bytes; the time to reach them is a [`DiskModel`]'s business. A
//! model is called when requests arrive, and returns when it is to be called again and which of
//! them have ended by then. In between it is free to do what disks do: let requests wait in a
//! queue, choose among them when the head is free, answer from a buffer, write a cache back. It
//! sees no bytes, has no thread, and knows no clock but the times it is given, so it can be tested
//! alone, and many times faster than a disk.

use core::time::Duration;

/// The kind of a request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelKind {
    /// Bytes from the disk.
    Read,
    /// Bytes to the disk.
    Write,
    /// Writes that have ended are to be safe from a power failure. Has no place and length.
    Flush,
}

/// A request as a model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    /// Names it when it has ended.
    pub id: u64,
    /// Its kind.
    pub kind: ModelKind,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// The time a disk takes. The times that it is given never go back.
pub trait DiskModel: Send {
    /// It has moving parts: see [`crate::Device::is_rotating`].
    fn is_rotating(&self) -> bool {
        false
    }

    /// A request arrives.
    fn arrive(&mut self, now: Duration, request: ModelRequest);

    /// When it is to be called next, if nothing arrives before; `None` when it has nothing to do. A
    /// time that has passed already means at once. It must not come back for ever without time
    /// passing.
    fn next(&self) -> Option<Duration>;

    /// Time has come to `now`: appends the requests that have ended to `ended`, in their order.
    fn advance(&mut self, now: Duration, ended: &mut Vec<u64>);
}

/// Gives a model requests at stated times and returns when each ended: for tests of models, and
/// for whatever needs no bytes. The requests must be in the order of their times.
pub fn run_model(
    model: &mut dyn DiskModel,
    requests: &[(Duration, ModelRequest)],
) -> Vec<(u64, Duration)> {
    let mut ends = Vec::with_capacity(requests.len());
    let mut ended = Vec::new();
    let mut until = |model: &mut dyn DiskModel, limit: Option<Duration>, now: &mut Duration| {
        while let Some(next) = model.next().filter(|next| limit.is_none_or(|limit| *next <= limit))
        {
            *now = next.max(*now);
            model.advance(*now, &mut ended);
            ends.extend(ended.drain(..).map(|id| (id, *now)));
        }
    };
    let mut now = Duration::ZERO;
    for (at, request) in requests {
        until(model, Some(*at), &mut now);
        now = now.max(*at);
        model.arrive(now, *request);
    }
    until(model, None, &mut now);
    ends
}
