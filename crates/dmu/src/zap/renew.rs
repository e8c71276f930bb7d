//! A table that is damaged, made again from what can be read of it.

use super::{Editor, EntryKey, Zap, ZapSpec, ZapValue, create};
use crate::error::Result;
use crate::objset::Objset;
use crate::tx::Tx;
use ondisk::zap::ZapName;

impl Objset {
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
        let new = create(self, tx, &spec)?;
        let mut editor = Editor::open(&new, tx)?;
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
