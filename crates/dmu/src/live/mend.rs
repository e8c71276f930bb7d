//! Repairs: removes dnodes that cannot be read any more, and sets right what trees count.
//!
//! A block of dnodes is rewritten with every change of a dnode in it, from its contents. A lost
//! block, or one with a slot that no dnode can be read from, would be in the way for ever: here its
//! contents are declared void. The blocks of the lost objects stay allocated.
//!
//! A block that is written counts what is below it anew. So a count that is wrong is mended by
//! writing the blocks that are above one of level 0 as if that had changed ([`TreeMend`]).

use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::tx::Tx;
use crate::versions::TreeMend;
use crate::versions::set::SLOTS_PER_BLOCK;
use ondisk::{DmuType, Dnode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

    /// Adds `used` to the space that the dnode of the dnodes says, with the next change of one.
    ///
    /// # Errors
    /// The set is not live.
    pub fn mend_meta_used(&self, used: i64) -> Result<()> {
        self.live_set()?.meta_used.fetch_add(used, Ordering::Relaxed);
        Ok(())
    }
}

impl Object {
    /// Sets right what its tree counts. Its content stays; its dnode is written anew, and with it
    /// what is above that.
    ///
    /// # Errors
    /// The set is not live, or the object is gone.
    pub fn mend_tree(&self, tx: &Tx, mend: &TreeMend) -> Result<()> {
        self.change(tx, |version, _| {
            let all = version.mend.get_or_insert_default();
            all.above.extend(&mend.above);
            all.used = all.used.saturating_add(mend.used);
            Ok(())
        })
    }
}
