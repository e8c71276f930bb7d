//! Writing a block of an open txg before its sync, for an intent log that names it.
//!
//! The version then holds the pointer instead of the bytes, and the sync puts that into the tree.
//! A thread may write the block some time before the record that names it is made. At most one
//! record does, since the space of a block is claimed once for each.
//! Replacing such a version in the same txg leaves the block behind: it is in no tree, and the
//! owner of the txgs frees it when the txg is synced without it.

use crate::error::Result;
use crate::object::Object;
use crate::tx::Tx;
use crate::versions::state::Content;
use ondisk::{BlkPtr, Checksum};
use std::sync::Arc;
use zio::{Place, UnsentBlock, WriteSpec};

/// What a block is written early for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyWrite {
    /// For a record that names it now.
    Record,
    /// For a record that is made later.
    Ahead,
}

impl Object {
    /// Writes block `blkid` as `tx` and others of its txg have changed it: its pointer, and what
    /// hands it to its devices. For a record the pointer also when it was written ahead of it.
    /// `None`, and nothing has changed: the open txg does not have the block, or a record names it,
    /// or it is all zeros, or has no checksum, or there is no space that could be spared now.
    ///
    /// # Errors
    /// The set is not live, or its txg is frozen.
    pub fn write_early(
        &self,
        tx: &Tx,
        blkid: u64,
        what_for: EarlyWrite,
    ) -> Result<Option<(BlkPtr, UnsentBlock)>> {
        let (object, set) = self.changing(tx)?;
        let Some(transactions) = &set.transactions else { return Ok(None) };
        let (block, attrs) = {
            let state = object.lock();
            let (Some(block), Some(attrs)) = (state.own(tx.txg(), blkid), state.attrs()) else {
                let ahead = state.own_pointer(tx.txg(), blkid);
                let is_record = what_for == EarlyWrite::Record;
                let ahead = ahead.filter(|bp| is_record && transactions.name_early(bp));
                return Ok(ahead.map(|bp| (bp, UnsentBlock::default())));
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
        let early = transactions.write_early(tx.txg(), &block, &spec, place);
        let Some((bp, unsent)) = early else {
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
        if what_for == EarlyWrite::Record {
            transactions.name_early(&bp);
        }
        Ok(Some((bp, unsent)))
    }
}
