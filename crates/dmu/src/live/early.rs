//! Writing a block of an open txg before its sync, for an intent log that names it.
//!
//! The version then holds the pointer instead of the bytes, and the sync puts that into the tree.
//! Replacing such a version in the same txg leaves the block behind: it is in no tree, and the
//! owner of the txgs frees it when the txg is synced without it.

use super::state::Content;
use crate::error::Result;
use crate::object::Object;
use crate::tx::Tx;
use ondisk::{BlkPtr, Checksum};
use std::sync::Arc;
use zio::{Place, WriteSpec};

impl Object {
    /// Writes block `blkid`, as `tx` and others of its txg have changed it, to its devices, and
    /// returns the pointer before it is there. `None`, and nothing has changed: the open txg does
    /// not have the block, or it was written before, or is all zeros, or has no checksum, or there
    /// is no space that could be spared now.
    ///
    /// # Errors
    /// The set is not live, or its txg is frozen.
    pub fn write_early(&self, tx: &Tx, blkid: u64) -> Result<Option<BlkPtr>> {
        let (object, set) = self.changing(tx)?;
        let Some(transactions) = &set.transactions else { return Ok(None) };
        let (block, attrs) = {
            let state = object.lock();
            let (Some(block), Some(attrs)) = (state.own(tx.txg(), blkid), state.attrs()) else {
                return Ok(None);
            };
            (Arc::clone(block), Arc::clone(attrs))
        };
        let size = block.len() as u64;
        let mut spec: WriteSpec<'_> =
            set.policy().spec(attrs.kind, 0, Some(&attrs), size, tx.txg());
        if spec.checksum == Checksum::OFF {
            // After a crash it would not be known whether the block was written.
            return Ok(None);
        }
        (spec.urgent, spec.embed) = (true, false);
        spec.protection = set.key.protection();
        let place = Place { objset: set.id, object: self.number(), level: 0, blkid };
        let Some(bp) = transactions.write_early(tx.txg(), &block, &spec, place) else {
            return Ok(None);
        };
        let mut state = object.lock();
        let is_same = state.own(tx.txg(), blkid).is_some_and(|now| Arc::ptr_eq(now, &block));
        if !is_same {
            return Ok(None);
        }
        let stored = Content::Stored(Arc::new(bp));
        // The bytes are given back outside the lock.
        let before = state.version(tx.txg()).blocks.insert(blkid, stored);
        drop(state);
        drop(before);
        Ok(Some(bp))
    }
}
