//! Changes that exist in memory only.
//!
//! A replayed intent log must look as if it had been written, without a byte being written. The
//! overlay of an object set holds, by object, a changed dnode, changed blocks and changed table
//! entries; [`crate::Objset`] and its objects look here before they look at the disk.

use crate::zap::ZapValue;
use ondisk::Dnode;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use zio::Block;

/// Changes to one object set.
#[derive(Debug, Default)]
pub struct Overlay {
    /// Changed objects by number.
    pub objects: HashMap<u64, OverlayObject>,
}

/// Changes to one object.
#[derive(Debug, Default, Clone)]
pub struct OverlayObject {
    /// The object is gone.
    pub freed: bool,
    /// The new dnode with its bonus; `None`: the one on disk.
    pub dnode: Option<Arc<Dnode>>,
    /// No block on disk belongs to the object any more: it is new, or was emptied.
    pub detached: bool,
    /// Blocks from this number on, and not in `blocks`, are holes.
    pub truncated_at: Option<u64>,
    /// Changed level-0 blocks; `None`: now a hole.
    pub blocks: BTreeMap<u64, Option<Arc<Block>>>,
    /// Changed spill block; `Some(None)`: removed.
    pub spill: Option<Option<Arc<Block>>>,
    /// Normalisation of names, for a table that exists in memory only.
    pub norm_flags: u64,
    /// Changed table entries by name; `None`: removed.
    pub zap: BTreeMap<Vec<u8>, Option<ZapValue>>,
}
