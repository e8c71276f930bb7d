//! Dedup tables that count wrongly.
//!
//! Nothing else of zinc writes these tables, and a pool that has them is opened for writing by a
//! repair only. Meanwhile what is freed of deduplicated blocks stays allocated, and its entries
//! stay as they are: the next check counts them too high, and the next round corrects that. So the
//! space of a block is not given out before its entry is gone.
//!
//! A table in which something is wrong is written with all its entries: what was in its logs goes
//! into its ZAPs, and the logs become empty. Entries that did not change are not written.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use check::{Unlisted, UsedSpace};
use dmu::ddt::DedupTable;
use dmu::zap::{self, Editor, ZapSpec};
use dmu::{Object, Objset, Tx, Zap, ZapValue};
use ondisk::ddt::{self, Class, DdtKey, Histogram, Stat, Value};
use ondisk::{BlkPtr, Checksum, DmuType, Endian, mos};
use pool::live::{LivePool, TaskCx};
use std::collections::{BTreeMap, HashMap};

/// Their name in a plan if they cannot be repaired.
const TABLES: &str = "dedup tables";

/// Entries in the order of their keys, so that the same damage is mended the same way each time.
type Entries = BTreeMap<DdtKey, Value>;

/// What is corrected in one round.
#[derive(Default)]
pub(crate) struct Dedup {
    /// The references to entries that are wrong, by variant.
    references: HashMap<(Checksum, DdtKey), Vec<u64>>,
    /// Blocks that no table has.
    unlisted: Vec<Unlisted>,
}

impl Dedup {
    pub(crate) fn is_empty(&self) -> bool {
        self.references.is_empty() && self.unlisted.is_empty()
    }

    pub(crate) fn decide(taken: &UsedSpace, attempts: &Attempts) -> Self {
        if attempts.has_failed(TABLES) {
            return Self::default();
        }
        let shared = taken.shared();
        Self { references: shared.dedup.clone(), unlisted: shared.unlisted_dedup.clone() }
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        if self.is_empty() {
            return Ok(());
        }
        attempts.make(live, TABLES, || live.run(move |cx| self.write(cx)))
    }

    fn write(&self, cx: &TaskCx<'_>) -> pool::Result<Vec<Step>> {
        let mos = cx.dsl().mos;
        let mut found = Vec::new();
        // All is read before the first change.
        for table in dmu::ddt::tables(mos)? {
            let mut all = Entries::new();
            table.entries(mos, &mut |key, value| match value {
                Some(value) => drop(all.insert(key, value)),
                None => drop(all.remove(&key)),
            })?;
            let corrected = self.correct(&table, &mut all, cx.dsl().now.secs);
            if corrected > 0 {
                found.push((Rewrite { cx, table, all }, corrected));
            }
        }
        let mut steps = Vec::new();
        for (rewrite, corrected) in found {
            let checksum = rewrite.table.checksum.name().unwrap_or("unknown").to_owned();
            rewrite.write()?;
            steps.push(Step::DedupTable { checksum, corrected });
        }
        Ok(steps)
    }

    /// Corrects the entries of a table; how many.
    fn correct(&self, table: &DedupTable, all: &mut Entries, now: u64) -> u64 {
        let mut corrected = 0u64;
        for (key, value) in all.iter_mut() {
            let Some(references) = self.references.get(&(table.checksum, *key)) else { continue };
            for (variant, counted) in references.iter().enumerate() {
                *value = value.with_references(variant, *counted);
            }
            corrected += 1;
        }
        all.retain(|_, value| value.total_refcount() > 0);
        let of_table = |block: &&Unlisted| block.bp.checksum_kind() == table.checksum;
        for Unlisted { bp, references } in self.unlisted.iter().filter(of_table) {
            // One that the table has at another place stays as it is.
            all.entry(DdtKey::new(bp)).or_insert_with(|| {
                corrected += 1;
                Value::new(bp, *references, table.is_flat, now)
            });
        }
        corrected
    }
}

/// A table, and all that is to be in it.
struct Rewrite<'a> {
    cx: &'a TaskCx<'a>,
    table: DedupTable,
    all: Entries,
}

impl Rewrite<'_> {
    fn write(mut self) -> pool::Result<()> {
        let (mos, tx) = (self.cx.dsl().mos, self.cx.tx);
        for class in [Class::Duplicate, Class::Unique] {
            let is_needed = self.all.values().any(|value| value.class() == class);
            let is_there = self.table.classes.iter().any(|(c, _)| *c == class);
            if is_needed && !is_there {
                let number = self.create(mos, tx, class)?;
                self.table.classes.push((class, number));
            }
        }
        for (class, number) in &self.table.classes {
            self.write_class(mos, tx, *class, *number)?;
            self.write_sums(mos, tx, *class)?;
        }
        for (header, number) in &self.table.logs {
            let log = mos.object(*number)?;
            log.free_range(tx, 0, log.size_of_blocks())?;
            let endian = log.dnode().endian;
            log.set_bonus(tx, log.dnode().bonus_kind, &header.emptied().encode(endian))?;
        }
        Ok(())
    }

    /// A ZAP for a class that has none, like those of the others.
    fn create(&self, mos: &Objset, tx: &Tx, class: Class) -> pool::Result<u64> {
        let like = self.table.classes.first().map(|(_, number)| mos.object(*number)).transpose()?;
        let name = ddt::object_name(self.table.checksum, class);
        let (Some(like), Some(name)) = (like, name) else {
            let what = "a dedup table has no place for entries".to_owned();
            return Err(pool::Error::Inconsistent { what });
        };
        let dnode = like.dnode();
        let flags = Zap::open(&like)?.key_hash().flags;
        let indirect_shift = Some(dnode.indirect_shift);
        let spec = ZapSpec { flags, indirect_shift, ..ZapSpec::new(DmuType::DDT_ZAP) };
        let made = zap::create(mos, tx, &spec.fat(dnode.block_size().ilog2()))?;
        let directory = mos.object(self.table.directory)?;
        zap::set_u64(&directory, tx, name.as_str(), made.number())?;
        Ok(made.number())
    }

    fn write_class(&self, mos: &Objset, tx: &Tx, class: Class, number: u64) -> pool::Result<()> {
        let mut stored = Entries::new();
        dmu::ddt::stored(mos, number, self.table.is_flat, &mut |key, value| {
            stored.insert(key, value);
        })?;
        let object: Object = mos.object(number)?;
        let mut editor = Editor::open(&object, tx)?;
        let is_of_class = |value: &&Value| value.class() == class;
        for key in stored.keys() {
            if self.all.get(key).filter(is_of_class).is_none() {
                editor.remove(&key.to_words()[..])?;
            }
        }
        for (key, value) in self.all.iter().filter(|(_, value)| value.class() == class) {
            if stored.get(key) != Some(value) {
                let packed = ZapValue::from_bytes(&value.pack(Endian::Little));
                editor.set(&key.to_words()[..], &packed)?;
            }
        }
        Ok(editor.finish()?)
    }

    /// The sums by number of references, of which the ratio of deduplication is shown.
    fn write_sums(&self, mos: &Objset, tx: &Tx, class: Class) -> pool::Result<()> {
        let root = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
        let name = ddt::object_name(self.table.checksum, class);
        let (Some(number), Some(name)) = (root.get_u64(ddt::STATISTICS)?, name) else {
            return Ok(());
        };
        let mut sums = Histogram::default();
        for (key, value) in self.all.iter().filter(|(_, value)| value.class() == class) {
            let mut of_entry = Stat::default();
            let used = (0..value.variants()).map(|n| value.variant(n));
            for variant in used.filter(|variant| variant.physical_birth != 0) {
                let copies = if key.uses_crypt() { 2 } else { 3 };
                let mut words = [0; 16];
                for n in 0..copies {
                    words[2 * n..2 * n + 2].copy_from_slice(&variant.dva(n).words());
                }
                let dsize = self.cx.dsl().blocks.dsize(&BlkPtr::from_words(words));
                of_entry.add(&Stat::of(key, variant.refcount, dsize));
            }
            sums.add(&of_entry);
        }
        let value = ZapValue::from_words(&sums.to_words());
        Ok(zap::set(&mos.object(number)?, tx, name.as_str(), &value)?)
    }
}
