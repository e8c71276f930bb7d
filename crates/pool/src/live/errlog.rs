//! The error log of a live pool, as it is written.
//!
//! # Theory
//!
//! A block is lost when no copy of it can be had. Two find that out:
//!
//! ```text
//! a reader          noted in memory at once (`faults.rs`), in the log with the next txg, which
//!                   the upkeep of a pool that is held begins when nothing else does
//! a walk (`scan`)   in the log when the walk has ended
//! ```
//!
//! A scrub that came to its end has seen all that there is. What it found, and what readers met
//! meanwhile, takes the place of both logs: so an entry goes away when its block was freed or is
//! whole again. A resilver, a scrub that was ended early and one that was resumed after an export
//! or a crash have seen a part, and add to the log.
//!
//! OpenZFS keeps what a scrub has found so far in a log of its own (`errlog_scrub`), which becomes
//! the other one (`errlog_last`) at the end. Here it is added to the other one with each place that
//! is kept, so nothing is written to that log; both are read, and emptied.
//!
//! **Form.** With the feature `head_errlog` an entry is kept under its head, with its birth, by
//! which a reader finds the snapshots that have the block (`crate::errlog`). Without it, an entry
//! names one dataset. A walk comes to a block in the oldest snapshot that has it and nowhere else,
//! so the entry is repeated here for each later dataset of the family that has the block too.
//!
//! When a head is destroyed its entries go, and those of blocks that it has from its origin become
//! the origin's. A clone that is promoted takes over the entries of what it shares.
//!
//! **Damage.** The log is written most where a pool is damaged, and must not be what stops it: a
//! log that cannot be read is given up, and a new one begun. Its object stays behind.

use super::mos as util;
use super::shared::{Shared, TaskCx};
use crate::errlog::{BY_HEAD, LOGS, read, sharers_from, tables_by_head};
use crate::error::Result;
use crate::faults::LostBlocks;
use dmu::{Zap, ZapEntry, ZapValue, zap};
use ondisk::errlog::{HeadEntry, Zbookmark};
use ondisk::{DmuType, mos};
use std::collections::BTreeMap;

/// What becomes of the entries that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldErrors {
    Kept,
    Replaced,
}

/// Snapshots in which blocks are looked for at most, for one change of the log.
const SNAPSHOTS_MAX: usize = 100_000;

/// The value of an entry: an empty text, with its end.
fn empty() -> ZapValue {
    ZapValue { int_len: 1, values: vec![0] }
}

fn name_of(entry: &ZapEntry) -> Option<String> {
    Some(std::str::from_utf8(entry.name.bytes()?).ok()?.to_owned())
}

impl Shared {
    fn keeps_errors_by_head(&self) -> bool {
        self.features.count(BY_HEAD).is_some()
    }

    /// The datasets that came after this one and have the block too, clones among them.
    fn later_sharers(&self, block: &Zbookmark, birth: u64, left: &mut usize) -> Vec<u64> {
        let Ok(dataset) = self.dsl.nameless(block.objset) else { return Vec::new() };
        let mut all = sharers_from(&self.dsl, &self.mos_in_sync, dataset, block, birth, left);
        all.retain(|number| *number != block.objset);
        all
    }

    /// Keys of entries, by the heads they are kept under; all under 0 where heads are not used.
    fn entries(&self, lost: &LostBlocks) -> BTreeMap<u64, Vec<String>> {
        let mut out: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        if self.keeps_errors_by_head() {
            for (block, birth) in lost {
                let head = self.dsl.nameless(block.objset).map(|d| d.dir.phys.head_dataset);
                let head = head.ok().filter(|head| *head != 0).unwrap_or(block.objset);
                let entry = HeadEntry::new(block.object, block.level(), block.blkid, *birth);
                out.entry(head).or_default().push(entry.log_key());
            }
            return out;
        }
        let mut left = SNAPSHOTS_MAX;
        let keys = out.entry(0).or_default();
        for (block, birth) in lost {
            keys.push(block.log_key());
            for later in self.later_sharers(block, *birth, &mut left) {
                let block = Zbookmark::new(later, block.object, block.level(), block.blkid);
                keys.push(block.log_key());
            }
        }
        out
    }
}

impl TaskCx<'_> {
    /// What readers did not get since the last txg goes into the log.
    pub(super) fn log_what_was_read(&self) -> Result<()> {
        let faults = &self.shared.block_faults;
        if !faults.has_lost() {
            return Ok(());
        }
        let lost = faults.take_lost();
        self.whole(|cx| cx.log_lost(&lost, OldErrors::Kept))
    }

    /// Puts blocks into the log.
    pub(super) fn log_lost(&self, lost: &LostBlocks, old: OldErrors) -> Result<()> {
        let by_head = self.shared.keeps_errors_by_head();
        let (mos, directory) = (self.objects(), mos::DIRECTORY_OBJECT);
        let entries = self.shared.entries(lost);
        // All that may fail for damage is read before the first change.
        let is_sound = read(mos, by_head).is_ok();
        let numbers = self.log_objects()?;
        let mut table = numbers.first().copied().flatten();
        let drops = old == OldErrors::Replaced || !is_sound;
        let dropped = match is_sound && drops {
            true => self.objects_of(&numbers, by_head),
            false => Vec::new(),
        };
        if drops {
            table = None;
            for (name, _) in LOGS.iter().zip(&numbers).filter(|(_, number)| number.is_some()) {
                util::set_u64(mos, self.tx, directory, name, 0)?;
            }
            dropped.iter().try_for_each(|number| mos.free(self.tx, *number))?;
        }
        if lost.is_empty() {
            return Ok(());
        }
        let table = match table {
            Some(table) => table,
            None => {
                let new = util::new_zap(mos, self.tx, DmuType::ERROR_LOG)?;
                util::set_u64(mos, self.tx, directory, mos::ERRLOG_LAST, new)?;
                // OpenZFS makes both entries at once.
                if numbers.get(1).copied().flatten().is_none() {
                    util::set_u64(mos, self.tx, directory, mos::ERRLOG_SCRUB, 0)?;
                }
                new
            }
        };
        for (head, keys) in &entries {
            let table = match by_head {
                true => self.table_of_head(table, *head)?,
                false => table,
            };
            let object = mos.object(table)?;
            for key in keys {
                zap::set(&object, self.tx, key.as_bytes(), &empty())?;
            }
        }
        Ok(())
    }

    /// The errors of a head in blocks born up to a txg become those of another head, which has
    /// these blocks too; with `drops_rest` the others go. For a clone that takes its origin over,
    /// and a head that is destroyed. A log that cannot be read stays as it is.
    pub(super) fn move_errors(
        &self,
        from: u64,
        shared: Option<(u64, u64)>,
        drops_rest: bool,
    ) -> Result<()> {
        if !self.shared.keeps_errors_by_head() || read(self.objects(), true).is_err() {
            return Ok(());
        }
        let (mos, key) = (self.objects(), format!("{from:x}"));
        for number in self.log_objects()?.into_iter().flatten() {
            let log = mos.object(number)?;
            let Some(below) = Zap::open(&log)?.get_u64(&key)? else { continue };
            let table = mos.object(below)?;
            for name in Zap::open(&table)?.entries().flatten().filter_map(|e| name_of(&e)) {
                let birth = HeadEntry::parse_log_key(&name).map_or(0, |entry| entry.birth);
                let to = shared.filter(|(_, txg)| birth <= *txg);
                if let Some((head, _)) = to {
                    let other = mos.object(self.table_of_head(number, head)?)?;
                    zap::set(&other, self.tx, name.as_bytes(), &empty())?;
                }
                if to.is_some() && !drops_rest {
                    zap::remove(&table, self.tx, name.as_bytes())?;
                }
            }
            if drops_rest {
                zap::remove(&log, self.tx, key.as_bytes())?;
                mos.free(self.tx, below)?;
            }
        }
        Ok(())
    }

    /// The objects of the two logs, where there are such.
    fn log_objects(&self) -> Result<Vec<Option<u64>>> {
        let directory = Zap::open(&self.objects().object(mos::DIRECTORY_OBJECT)?)?;
        let number = |name: &&str| Ok(directory.get_u64(name)?.filter(|n| *n != 0));
        LOGS.iter().map(number).collect()
    }

    /// These logs, and the tables below them. They could be read a moment ago.
    fn objects_of(&self, logs: &[Option<u64>], by_head: bool) -> Vec<u64> {
        let mut out = Vec::new();
        for number in logs.iter().copied().flatten() {
            let log = self.objects().object(number).and_then(|o| Zap::open(&o));
            if let (true, Ok(log)) = (by_head, &log) {
                out.extend(tables_by_head(log).flatten().map(|(_, below)| below));
            }
            out.push(number);
        }
        out
    }

    /// The table of a head in the log `log`, made when it is not there.
    fn table_of_head(&self, log: u64, head: u64) -> Result<u64> {
        let mos = self.objects();
        let key = format!("{head:x}");
        if let Some(table) = Zap::open(&mos.object(log)?)?.get_u64(&key)? {
            return Ok(table);
        }
        let table = util::new_zap(mos, self.tx, DmuType::ERROR_LOG)?;
        util::set_u64(mos, self.tx, log, &key, table)?;
        Ok(table)
    }

    /// Enabling `head_errlog` changes the form of the log: what is in it is written anew.
    pub(super) fn keep_errors_by_head(&self, enable: impl FnOnce() -> Result<()>) -> Result<()> {
        let shared = self.shared;
        let before = shared.keeps_errors_by_head();
        let logged = read(self.objects(), before).unwrap_or_default();
        let old = self.log_objects()?;
        let dropped = self.objects_of(&old, before);
        enable()?;
        if before == shared.keeps_errors_by_head() || dropped.is_empty() {
            return Ok(());
        }
        for name in LOGS {
            util::set_u64(self.objects(), self.tx, mos::DIRECTORY_OBJECT, name, 0)?;
        }
        dropped.iter().try_for_each(|number| self.objects().free(self.tx, *number))?;
        let lost = logged.blocks.into_iter().map(|(block, birth)| (block, birth.unwrap_or(0)));
        self.log_lost(&lost.collect(), OldErrors::Kept)
    }
}
