//! The limits of the owners of files, as they were read (`quotas.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

/// The limits of a file system: by kind of owner and what is limited, then by id.
#[derive(Debug, Default)]
pub(crate) struct Limits(pub(crate) [[BTreeMap<u64, u64>; 2]; 3]);

/// The limits as they are known.
#[derive(Default)]
pub(crate) struct KnownLimits {
    /// How often one was set: limits that were read before are not kept.
    pub(crate) changes: u64,
    pub(crate) limits: Option<Arc<Limits>>,
}
