//! Space by user, group and project: the tables in the set's header.
//!
//! An object counts with its blocks and one slot, whatever the size of its dnode. Its flags say
//! whether it was counted before, so a set that began without accounting becomes right object by
//! object.

use super::{Job, SetSync};
use crate::error::Result;
use crate::live::set::FIRST_SPECIAL;
use crate::live::spec::Owner;
use crate::tx::Tx;
use crate::zap::{self, ZapSpec};
use ondisk::dnode::{DNODE_SLOT_SIZE, FLAG_USEROBJUSED_ACCOUNTED, FLAG_USERUSED_ACCOUNTED};
use ondisk::objset::{OBJSET_SIZE_V1, OBJSET_SIZE_V3};
use ondisk::{DmuType, Dnode};
use std::collections::BTreeMap;
use std::sync::Arc;
use zio::Block;

/// Change of bytes and of objects by id, of one table.
type Deltas = BTreeMap<u64, (i64, i64)>;

impl SetSync<'_> {
    /// Flags of an object that the accounting counts.
    pub(super) fn accounting_flags(&self) -> u8 {
        match self.live.accounting.as_ref().filter(|_| self.header_size() > OBJSET_SIZE_V1) {
            None => 0,
            Some(a) if a.objects() => FLAG_USERUSED_ACCOUNTED | FLAG_USEROBJUSED_ACCOUNTED,
            Some(_) => FLAG_USERUSED_ACCOUNTED,
        }
    }

    fn header_size(&self) -> usize {
        self.live.base().phys.size
    }

    /// Brings the tables up to date with the jobs, as changes of the same txg.
    pub(super) fn account(&self, jobs: &[Job]) -> Result<()> {
        if self.accounting_flags() == 0 {
            return Ok(());
        }
        let mut tables: [Deltas; 3] = Default::default();
        for job in jobs.iter().filter(|j| j.object.number() < FIRST_SPECIAL) {
            if let Some(before) = &job.before {
                self.count(&mut tables, job, before, None, -1)?;
            }
            if let Some(after) = &job.after {
                let spill = job.taken.spill.clone();
                self.count(&mut tables, job, after, spill, 1)?;
            }
        }
        let projects = self.live.accounting.as_ref().is_some_and(|a| a.projects());
        let n = if projects && self.header_size() >= OBJSET_SIZE_V3 { 3 } else { 2 };
        let tx = Tx::syncing(self.cx.txg);
        for (number, deltas) in (1u64..).map(u64::wrapping_neg).zip(&tables[..n]) {
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
                for (key, delta) in [(format!("{id:x}"), bytes), (format!("obj-{id:x}"), objects)] {
                    if *delta != 0 {
                        table.add(key.as_bytes(), *delta)?;
                    }
                }
            }
            table.finish()?;
        }
        Ok(())
    }

    /// Counts one dnode `sign` times. `spill`: its spill block, when that was changed.
    fn count(
        &self,
        tables: &mut [Deltas; 3],
        job: &Job,
        dnode: &Arc<Dnode>,
        spill: Option<Option<Arc<Block>>>,
        sign: i64,
    ) -> Result<()> {
        if dnode.flags & FLAG_USERUSED_ACCOUNTED == 0 {
            return Ok(());
        }
        let Some(accounting) = &self.live.accounting else { return Ok(()) };
        let spill = match (spill, &dnode.spill) {
            (Some(spill), _) => spill,
            (None, Some(bp)) if !bp.is_hole() => {
                let place = super::spill_place(self.live.id, job.object.number());
                Some(self.read(bp, place)?)
            }
            (None, _) => None,
        };
        let Some(Owner { uid, gid, project }) = accounting.owner(dnode, spill.as_deref()) else {
            return Ok(());
        };
        let bytes = dnode.used_bytes().saturating_add(DNODE_SLOT_SIZE as u64);
        let bytes = sign * i64::try_from(bytes).unwrap_or(i64::MAX);
        let objects = if dnode.flags & FLAG_USEROBJUSED_ACCOUNTED != 0 { sign } else { 0 };
        for (table, id) in tables.iter_mut().zip([Some(uid), Some(gid), project]) {
            let Some(id) = id else { continue };
            let delta = table.entry(id).or_default();
            *delta = (delta.0 + bytes, delta.1 + objects);
        }
        Ok(())
    }
}
