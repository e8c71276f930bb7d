//! What a receive reports, and what its caller may decide.

use super::{Followed, Restored};
use crate::error::Result;
use dsl::write::Encryption;
use std::time::Duration;

/// The stream of one snapshot, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Name of the snapshot that was sent.
    pub sent: String,
    /// Name that it gets.
    pub destination: String,
    /// It is an increment.
    pub is_increment: bool,
    /// The snapshot that the new dataset is a clone of, when that was looked for.
    pub origin: Option<String>,
    /// It makes a snapshot good that is there.
    pub heals: bool,
}

/// Callbacks of a receive, which also make new datasets visible. Only losses must be handled.
pub trait ReceiveObserver {
    /// The stream of a snapshot begins; of one that is only planned, that is all.
    fn begins(&self, _stream: &Stream) {}

    /// The snapshot is there already: the stream is passed over.
    fn is_there(&self, _snapshot: &str) {}

    /// A change of the sender is about to be repeated here; if it is only planned, this is the only
    /// call.
    fn follows(&self, _change: &Followed) {}

    /// Runs `act`, which makes the change. A dataset to rename or destroy must not be mounted
    /// meanwhile.
    ///
    /// # Errors
    /// Those of `act`, and that it must not run.
    fn follow(&self, _change: &Followed, act: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        act()
    }

    /// A property was not set.
    fn not_set(&self, dataset: &str, property: &str, why: &str);

    /// The result of a corrective receive for the blocks of a snapshot.
    fn corrected(&self, _snapshot: &str, _blocks: &Restored) {}

    /// It was received: this number of bytes in this time.
    fn ends(&self, _bytes: u64, _time: Duration) {}

    /// An unencrypted stream is about to be written with a key that may have to be loaded; called
    /// once. `is_new`: into a new dataset. Returns how that is encrypted if it is not a clone.
    ///
    /// # Errors
    /// There is no such key.
    fn encryption(&self, _is_new: bool) -> Result<Encryption> {
        Ok(Encryption::Inherit)
    }

    /// The content of a dataset that is there is about to be received.
    ///
    /// # Errors
    /// That it must not be.
    fn starts(&self, _dataset: &str) -> Result<()> {
        Ok(())
    }

    /// Runs `finish`, which gives the dataset its content: a new one, or one that is there and must
    /// not be mounted meanwhile.
    ///
    /// # Errors
    /// Those of `finish`, and that it must not run.
    fn finish(
        &self,
        _dataset: &str,
        _is_new: bool,
        finish: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        finish()
    }
}
