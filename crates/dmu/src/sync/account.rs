//! Space by user, group and project: the tables in the set's header.
//!
//! An object counts with its blocks and one slot, whatever the size of its dnode. Its flags say
//! whether it was counted before, so a set that began without accounting becomes right object by
//! object.

use super::{Job, SetSync};
use crate::error::Result;
use crate::object::Object;
use crate::tx::Tx;
use crate::versions::counts::{Deltas, Tables};
use crate::versions::set::FIRST_SPECIAL;
use crate::zap::{self, Zap, ZapSpec};
use ondisk::dnode::{DNODE_SLOT_SIZE, FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED};
use ondisk::objset::{OBJSET_SIZE_V1, OBJSET_SIZE_V3};
use ondisk::{DmuType, Dnode};
use std::sync::Arc;
use zio::Block;

/// Before an id in the key of a count of objects.
const OBJECTS: &str = "obj-";

/// What a table has.
pub(super) fn read_table(table: &Object) -> Result<Deltas> {
    let mut out = Deltas::new();
    for entry in Zap::open(table)?.entries() {
        let entry = entry?;
        let key = entry.name.bytes().and_then(|key| std::str::from_utf8(key).ok());
        let (Some(key), Some(value)) = (key, entry.u64()) else { continue };
        let (id, is_count) = key.strip_prefix(OBJECTS).map_or((key, false), |id| (id, true));
        let Ok(id) = u64::from_str_radix(id, 16) else { continue };
        let counts = out.entry(id).or_default();
        match is_count {
            false => counts.0 = value.cast_signed(),
            true => counts.1 = value.cast_signed(),
        }
    }
    Ok(out)
}

impl SetSync<'_> {
    /// Flags of an object that the accounting counts.
    pub(super) fn accounting_flags(&self) -> u8 {
        match self.live.accounting.as_ref().filter(|_| self.header_size > OBJSET_SIZE_V1) {
            None => 0,
            Some(a) if a.objects() => FLAG_USERUSED_ACCOUNTED | FLAG_USEROBJUSED_ACCOUNTED,
            Some(_) => FLAG_USERUSED_ACCOUNTED,
        }
    }

    /// Brings the tables up to date with the jobs, as changes of the same txg.
    pub(super) fn account(&self, jobs: &[Job]) -> Result<()> {
        if self.accounting_flags() == 0 {
            return Ok(());
        }
        let mut tables = Tables::default();
        let counts = |dnode: &&Arc<Dnode>| dnode.flags & FLAG_USERUSED_ACCOUNTED != 0;
        for job in jobs.iter().filter(|j| j.object.number() < FIRST_SPECIAL) {
            if let Some(before) = job.before.as_ref().filter(counts) {
                let spill = self.spill_of(job, before, None)?;
                self.count(&mut tables, before, spill.as_deref(), -1);
            }
            if let Some(after) = job.after.as_ref().filter(counts) {
                let spill = self.spill_of(job, after, job.taken.spill.clone())?;
                self.count(&mut tables, after, spill.as_deref(), 1);
            }
        }
        self.change_tables(&tables)
    }

    /// Changes the tables, and makes those that are not there.
    pub(super) fn change_tables(&self, tables: &Tables) -> Result<()> {
        let projects = self.live.accounting.as_ref().is_some_and(|a| a.projects());
        let n = if projects && self.header_size >= OBJSET_SIZE_V3 { 3 } else { 2 };
        let tx = Tx::syncing(self.cx.txg);
        for (number, deltas) in (1u64..).map(u64::wrapping_neg).zip(&tables.0[..n]) {
            let changed = deltas.iter().filter(|(_, d)| **d != (0, 0));
            let mut changed = changed.peekable();
            if changed.peek().is_none() {
                continue;
            }
            let table = match self.set.object(number) {
                Ok(table) => table,
                Err(e) if e.is_absent() => {
                    let spec = ZapSpec::new(DmuType::USERGROUP_USED).number(number);
                    zap::create(self.set, &tx, &spec)?
                }
                Err(e) => return Err(e),
            };
            let mut table = zap::Editor::open(&table, &tx)?;
            for (id, (bytes, objects)) in changed {
                for (key, delta) in
                    [(format!("{id:x}"), bytes), (format!("{OBJECTS}{id:x}"), objects)]
                {
                    if *delta != 0 {
                        table.add(key.as_bytes(), *delta)?;
                    }
                }
            }
            table.finish()?;
        }
        Ok(())
    }

    /// The spill block of a dnode of a job; `changed`, when that was.
    pub(super) fn spill_of(
        &self,
        job: &Job,
        dnode: &Dnode,
        changed: Option<Option<Arc<Block>>>,
    ) -> Result<Option<Arc<Block>>> {
        match (changed, &dnode.spill) {
            (Some(spill), _) => Ok(spill),
            (None, Some(bp)) if !bp.is_hole() => {
                let place = super::spill_place(self.live.id, job.object.number());
                Ok(Some(self.read(bp, place)?))
            }
            (None, _) => Ok(None),
        }
    }

    /// Counts one dnode `sign` times, as its flags say.
    fn count(&self, tables: &mut Tables, dnode: &Dnode, spill: Option<&Block>, sign: i64) {
        let objects = if dnode.flags & FLAG_USEROBJUSED_ACCOUNTED != 0 { sign } else { 0 };
        self.add_owner(tables, (dnode, spill), (sign, objects));
    }

    /// Counts the space of one dnode `sign` times, and `objects` objects, for those it belongs to.
    pub(super) fn add_owner(
        &self,
        tables: &mut Tables,
        (dnode, spill): (&Dnode, Option<&Block>),
        (sign, objects): (i64, i64),
    ) {
        let accounting = self.live.accounting.as_ref();
        let Some(owner) = accounting.and_then(|a| a.owner(dnode, spill)) else { return };
        let bytes = dnode.used_bytes().saturating_add(DNODE_SLOT_SIZE as u64);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).wrapping_mul(sign);
        tables.add_to(&owner, (bytes, objects));
    }
}
