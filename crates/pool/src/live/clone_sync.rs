//! The references to shared blocks, counted once in a sync: see `clones.rs`. And the tables of them
//! that a repair makes anew.

use super::LivePool;
use super::clones::{BLOCK_CLONING, Change, CloneEntry, CloneTable, Noted};
use super::shared::TaskCx;
use crate::error::Result;
use ondisk::BlkPtr;
use ondisk::brt::RANGE_SIZE;
use ondisk::config::VdevConfig;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

impl TaskCx<'_> {
    /// Counts what came and went in this txg, and frees what no reference is left to. See the head
    /// of `clones.rs`.
    pub(super) fn settle_clones(&self) -> Result<()> {
        let Noted { came, mut went } = self.shared.clones.take_noted(self.tx.txg());
        if came.is_empty() && went.is_empty() {
            return Ok(());
        }
        // The order of threads must not decide what goes where on disk.
        went.sort_unstable_by_key(|bp| (bp.dva(0).words(), bp.logical_birth()));
        let failed = |e: dmu::Error| self.shared.failed("counting shared blocks", e);
        let dsize = |bp: &BlkPtr| self.shared.alloc.dsize(bp);
        let mut changes: BTreeMap<u32, Change<'_>> = BTreeMap::new();
        for ((vdev, offset), (bp, more)) in came {
            let change = self.change_of(&mut changes, vdev).map_err(failed)?;
            change.add(offset, more, dsize(&bp)).map_err(failed)?;
        }
        let mut free = Vec::new();
        for bp in went {
            let dva = bp.dva(0);
            let change = self.change_of(&mut changes, dva.vdev()).map_err(failed)?;
            if !change.take(dva.offset(), dsize(&bp)).map_err(failed)? {
                free.push(bp);
            }
        }
        for (vdev, change) in changes {
            if change.is_changed {
                self.write_table(vdev, change).map_err(failed)?;
            }
        }
        for bp in free {
            self.shared.writer.free(&bp, self.tx.txg());
        }
        Ok(())
    }

    /// The table of a vdev, opened when it is needed first.
    fn change_of<'c, 't>(
        &'t self,
        changes: &'c mut BTreeMap<u32, Change<'t>>,
        vdev: u32,
    ) -> dmu::Result<&'c mut Change<'t>> {
        match changes.entry(vdev) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(slot) => {
                let table = self.shared.clones.tables.read().get(&vdev).cloned();
                let table = table.unwrap_or_else(CloneTable::new);
                Ok(slot.insert(Change::open(self.objects(), self.tx, table)?))
            }
        }
    }

    fn write_table(&self, vdev: u32, change: Change<'_>) -> dmu::Result<()> {
        let (table, tables) = change.finish(vdev, self.ranges_of(vdev))?;
        self.shared.features.add(self.tx, BLOCK_CLONING, tables)?;
        let mut known = self.shared.clones.tables.write();
        match table {
            Some(table) => drop(known.insert(vdev, table)),
            None => drop(known.remove(&vdev)),
        }
        Ok(())
    }

    /// Ranges of a top-level vdev that have a count: as far as its metaslabs reach.
    fn ranges_of(&self, vdev: u32) -> u64 {
        let config = self.shared.config.lock();
        let top = config.root.children.iter().find(|top| top.id == u64::from(vdev));
        let of = |top: &VdevConfig| Some((top.asize?, top.metaslab_shift.unwrap_or(0).min(63)));
        let (size, shift) = top.and_then(of).unwrap_or((0, 0));
        (size >> shift << shift).div_ceil(RANGE_SIZE)
    }
}

impl LivePool {
    /// Makes the table of clones of a vdev anew, of these entries, in the order of their offsets.
    ///
    /// # Errors
    /// The table that there is cannot be read, or there is no room.
    pub fn renew_clones(&self, vdev: u32, entries: Vec<CloneEntry>) -> Result<()> {
        self.run(move |cx| {
            let table = cx.shared.clones.tables.read().get(&vdev).cloned();
            let table = table.unwrap_or_else(CloneTable::new);
            let mut change = Change::open(cx.objects(), cx.tx, table)?;
            change.renew(&entries)?;
            Ok(cx.write_table(vdev, change)?)
        })
    }
}
