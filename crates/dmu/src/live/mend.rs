//! Dnodes that cannot be read any more, taken out of the way.
//!
//! A block of dnodes is written again with every change of a dnode in it, from what is there. One
//! that is lost, or has a slot that no dnode can be read from, would stand in the way for ever:
//! here it is said that nothing of it counts. What the blocks of the lost objects took stays taken.

use super::set::SLOTS_PER_BLOCK;
use crate::error::{ErrorKind, Result};
use crate::objset::Objset;
use crate::tx::Tx;
use ondisk::{DmuType, Dnode};
use std::sync::Arc;

impl Objset {
    /// Makes slot `number` free, whatever stands in it.
    ///
    /// # Errors
    /// The set is not live; an object can be read there.
    pub fn clear_slot(&self, tx: &Tx, number: u64) -> Result<()> {
        let live = self.live_set()?;
        loop {
            let base = live.base();
            if self.object(number).is_ok() {
                return Err(self.error(number, ErrorKind::Invalid("there is an object")));
            }
            let blank = Dnode::new(DmuType::NONE, 1, 1, 0);
            // None: the tree was replaced meanwhile.
            if live.adopt(number, &base, Some(Arc::new(blank))).is_some_and(|object| {
                let mut state = object.lock();
                let version = state.version(tx.txg());
                version.clear();
                if !std::mem::replace(&mut version.dirty, true) {
                    live.touch(&object, tx.txg());
                }
                true
            }) {
                live.count_change(tx);
                return Ok(());
            }
        }
    }

    /// Makes block `block` of the dnodes anew, without any: it cannot be read.
    ///
    /// # Errors
    /// As for [`Self::clear_slot`].
    pub fn renew_dnodes(&self, tx: &Tx, block: u64) -> Result<()> {
        let live = self.live_set()?;
        // Any slot but that of object 0.
        self.clear_slot(tx, block.saturating_mul(SLOTS_PER_BLOCK).saturating_add(1))?;
        live.renewed.lock().insert(block);
        Ok(())
    }
}
