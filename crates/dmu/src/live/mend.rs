//! Removes structures that cannot be read any more: dnodes, and parts of tables.
//!
//! A block of dnodes is rewritten with every change of a dnode in it, from its contents. A lost
//! block, or one with a slot that no dnode can be read from, would be in the way for ever: here its
//! contents are declared void. The blocks of the lost objects stay allocated.

use crate::error::{ErrorKind, Result};
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::tx::Tx;
use crate::versions::set::SLOTS_PER_BLOCK;
use crate::zap::{self, EntryKey, Zap, ZapSpec, ZapValue};
use ondisk::zap::ZapName;
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

    /// Rebuilds table `number` from the entries that can be read; returns their number. Type, slots
    /// and bonus stay; a spill block does not. Names are normalised as they were, or by
    /// `norm_flags` if that cannot be read either.
    ///
    /// # Errors
    /// There is no such object, or it is not a table; the set is not live.
    pub fn renew_table(&self, tx: &Tx, number: u64, norm_flags: u64) -> Result<u64> {
        let object = self.object(number)?;
        let dnode = object.dnode();
        let mut spec = ZapSpec {
            norm_flags,
            slots: Some(dnode.extra_slots + 1),
            ..ZapSpec::new(dnode.kind).bonus(dnode.bonus_kind, &dnode.bonus).number(number)
        };
        let mut entries = Vec::new();
        if let Ok(table) = Zap::open(&object) {
            entries.extend(table.entries().filter_map(Result::ok));
            let hash = table.key_hash();
            (spec.flags, spec.norm_flags) = (hash.flags, hash.norm_flags);
        }
        self.free(tx, number)?;
        let new = zap::create(self, tx, &spec)?;
        let mut editor = zap::Editor::open(&new, tx)?;
        for entry in &entries {
            let key = match &entry.name {
                ZapName::Bytes(name) => EntryKey::from(name.as_slice()),
                ZapName::U64s(words) => EntryKey::from(words.as_slice()),
            };
            let value = ZapValue { int_len: entry.int_len, values: entry.values.clone() };
            editor.set(key, &value)?;
        }
        editor.finish()?;
        Ok(entries.len() as u64)
    }
}
