//! pios, the parallel I/O simulator: many threads write (and read) regions chunk by chunk.
//!
//! # Theory
//!
//! A run writes `regions` regions of `region_size` bytes, in I/Os of `chunk_size`, by `threads`
//! threads. All regions lie in one shared file, `offset` apart, or each in a file of its own. Each
//! request takes the next chunk of the next region, and many regions look like as many interleaved
//! streams; noise in the size of chunks and in the choice of the region makes it less regular.
//!
//! ```text
//! sweep   lists and ranges of values    -> sizes
//! sizes   all combinations of them
//! plan    one combination, checked
//! deal    which thread writes which chunk: atomics, no lock
//! pattern what is written: a function of seed, region and place, so that it can be verified
//! target  where to: plain files and devices, files of a pool, objects of a pool
//! run     threads, time, bandwidth
//! ```
//!
//! After the programs `pios` (Cluster File Systems, 2004) and `zpios`, with their options. Other
//! than those it writes the last, partial chunk of a region, fills blocks with bytes that do not
//! compress, and hands chunks out without a lock. Everything waits and runs through an
//! [`engine::inside::rt::Rt`], so the same run works in virtual time.

mod bytes;
mod chunks;
mod dmu;
mod pattern;
mod plain;
mod plan;
mod report;
mod run;
mod sizes;
mod sweep;
mod target;

pub use bytes::human;
pub use dmu::{PoolFiles, PoolMethod};
pub use plain::{PlainFiles, PlainMethod};
pub use plan::{Layout, Plan};
pub(crate) use report::profile_table;
pub use report::{json, outcome, text};
pub use run::{Measured, Moment, Phase, RunResult, Steps, read, write};
pub use sizes::{Sizes, SweepTexts, resume};
pub use sweep::{Sweep, parse_bytes};
pub use target::{Target, WhileWanted};

/// Why a run cannot be, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PiosError {
    /// What failed.
    pub what: String,
    /// Why.
    pub cause: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl PiosError {
    /// Something failed, and there is no more to say.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, hint: None }
    }

    pub(crate) fn because(mut self, cause: &dyn core::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The result of what can fail here.
pub type Result<T, E = PiosError> = core::result::Result<T, E>;
