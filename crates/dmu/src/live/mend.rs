//! Removes dnodes that cannot be read any more.
//!
//! A block of dnodes is rewritten with every change of a dnode in it, from its contents. A lost
//! block, or one with a slot that no dnode can be read from, would be in the way for ever: here its
//! contents are declared void. The blocks of the lost objects stay allocated.

use crate::error::{ErrorKind, Result};
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::tx::Tx;
use crate::versions::set::SLOTS_PER_BLOCK;
use ondisk::{DmuType, Dnode};
use std::sync::Arc;

impl Objset {
    /// Makes slot `number` free, whatever it contains.
    ///
    /// # Errors
    /// The set is not live; an object can be read there.
    pub fn clear_slot(&self, tx: &Tx, number: u64) -> Result<()> {
        let live = self.live_set()?;
        loop {
            let base = live.base();
            if self.object(number).is_ok() {
                return Err(self.error(number, ErrorKind::Invalid(InvalidChange::ObjectThere)));
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

    /// Rebuilds block `block` of the dnodes, without any: it cannot be read.
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
