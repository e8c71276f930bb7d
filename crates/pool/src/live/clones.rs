//! Blocks that several files share, and how often: the block reference table, as syncs change it.
//! The sync itself is in `clone_sync.rs`.
//!
//! # Theory
//!
//! The first reference to a block is counted nowhere; each further one is, in a table of the
//! top-level vdev that has the block's first copy (`docs/format/brt.md`). So a block may be freed
//! only when the table does not have it.
//!
//! ```text
//! expected  an open transaction puts blocks into one more tree, which that txg may still lose
//! born      a pointer came into a tree, and its block is older than it: one more reference
//! claimed   a record of an intent log names the block: one more, as long as the log is there
//! free      a block that may be in the table is put aside
//! settle    once in a sync, when all this has been noted: what came is counted; of what was put
//!           aside each block is one reference less, or, when the table does not have it, freed
//! ```
//!
//! Most frees ask nothing: a pool without shared blocks has no table, and of each 16 MiB of a vdev
//! it is known how many entries the table has. Only data of files and volumes are shared.
//!
//! What came is counted first, so that a block which one file gives up and another one takes in the
//! same txg stays. The file that gives it up may be synced first: so what is expected is put aside
//! as well. Of what never came then, because it was overwritten or removed again in the same txg,
//! nothing is counted. Nothing on disk is said of one txg in two: the table is part of the MOS,
//! which becomes durable with the trees that it counts.

use super::mos::{TABLE, set_u64};
use dmu::zap::{self, Editor, ZapSpec, ZapValue};
use dmu::{NewObject, Objset, Tx, Zap};
use ondisk::brt::{self, BrtVdev, RANGE_SIZE};
use ondisk::zap::{FLAG_HASH64, FLAG_UINT64_KEY, ZapName};
use ondisk::{BlkPtr, DmuType, Endian, mos};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// The feature that counts the vdevs with a table.
pub(super) const BLOCK_CLONING: &str = "com.fudosecurity:block_cloning";

/// Self-describing type "64-bit words, metadata": the objects with the counts.
const COUNTS: DmuType = DmuType(0xc3);
/// Bytes of a block of counts.
const COUNTS_BLOCK: usize = 32 << 10;
/// log2 of the block size of a table.
const ENTRIES_SHIFT: u32 = 12;
/// Bytes of counts that a table has at most: those of a vdev of 2 PiB.
const COUNTS_MAX: u64 = 256 << 20;

/// The table of one vdev: all but the entries themselves.
#[derive(Clone)]
pub(super) struct CloneTable {
    /// The object with the counts; 0: there is none yet.
    object: u64,
    phys: BrtVdev,
    order: Endian,
    /// Entries by range of the vdev.
    counts: Vec<u16>,
}

impl CloneTable {
    /// That of a vdev without shared blocks.
    pub(super) fn new() -> Self {
        let order = Endian::Little;
        let mut phys = BrtVdev::default().with_count_order(order);
        phys.range_size = RANGE_SIZE;
        Self { object: 0, phys, order, counts: Vec::new() }
    }

    fn load(mos: &Objset, number: u64) -> dmu::Result<Self> {
        let object = mos.object(number)?;
        let dnode = object.dnode();
        let bad = |e| object.format_error(0, e);
        let phys = BrtVdev::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
        let order = phys.count_order().map_err(bad)?;
        let len = phys.counts_len().min(object.size_of_blocks());
        if len > COUNTS_MAX {
            // To know less of them would free blocks that are shared.
            return Err(object.error(dmu::ErrorKind::Tree("more counts than a vdev has")));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        object.read_at(0, &mut bytes)?;
        let counts = brt::counts(&bytes, order).map_err(bad)?;
        Ok(Self { object: number, phys, order, counts })
    }

    fn range_of(&self, offset: u64) -> usize {
        usize::try_from(offset / self.phys.range_size.max(1)).unwrap_or(usize::MAX)
    }

    fn may_have(&self, offset: u64) -> bool {
        self.counts.get(self.range_of(offset)).is_some_and(|n| *n > 0)
    }
}

/// An entry that a table is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneEntry {
    /// Where the block begins.
    pub offset: u64,
    /// References beyond the first.
    pub more: u64,
    /// Bytes that the block takes, as datasets count it.
    pub size: u64,
}

/// What is known of the shared blocks of a pool between syncs, and what the txg being synced does.
#[derive(Default)]
pub(super) struct SharedBlocks {
    /// By top-level vdev.
    pub(super) tables: RwLock<BTreeMap<u32, CloneTable>>,
    /// There is a table, or there will be one.
    are_any: AtomicBool,
    /// Blocks that transactions put into one more tree, by their txg.
    expected: RwLock<BTreeMap<u64, HashSet<Address>>>,
    noted: Mutex<Noted>,
}

/// Vdev and offset of a block's first copy, by which the tables know it.
type Address = (u32, u64);

fn address(bp: &BlkPtr) -> Address {
    (bp.dva(0).vdev(), bp.dva(0).offset())
}

/// The references that the txg being synced adds and takes away.
#[derive(Default)]
pub(super) struct Noted {
    /// By vdev and offset.
    pub(super) came: BTreeMap<Address, (BlkPtr, u64)>,
    /// Those that may be shared, in any order.
    pub(super) went: Vec<BlkPtr>,
}

/// Whether a block can be in a table at all.
fn can_be_shared(bp: &BlkPtr) -> bool {
    let is_data = [DmuType::PLAIN_FILE_CONTENTS, DmuType::ZVOL].contains(&bp.dmu_type());
    bp.level() == 0 && is_data && !bp.is_hole() && !bp.is_embedded()
}

impl SharedBlocks {
    /// The tables of a pool.
    pub(super) fn load(mos: &Objset) -> dmu::Result<Self> {
        let mut tables = BTreeMap::new();
        for entry in Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?.entries() {
            let entry = entry?;
            let name = entry.name.bytes().and_then(|name| std::str::from_utf8(name).ok());
            let vdev = name.and_then(brt::parse_object_name).and_then(|id| u32::try_from(id).ok());
            if let (Some(vdev), Some(number)) = (vdev, entry.u64().filter(|n| *n != 0)) {
                tables.insert(vdev, CloneTable::load(mos, number)?);
            }
        }
        let are_any = AtomicBool::new(!tables.is_empty());
        Ok(Self { tables: RwLock::new(tables), are_any, ..Self::default() })
    }

    /// Expects blocks in one more tree in the open `txg`, a transaction of which is held. False:
    /// they cannot all be shared. A deduplicated block has its references in another table, and a
    /// gang block is not worth the risk.
    pub(super) fn expect(&self, txg: u64, blocks: &[BlkPtr]) -> bool {
        let is_stored = |bp: &&BlkPtr| !bp.is_hole() && !bp.is_embedded();
        let stored: Vec<_> = blocks.iter().filter(is_stored).collect();
        let may_be = |bp: &BlkPtr| {
            // What tells a clone from the first reference is that its block is older.
            let is_older = bp.physical_birth() < txg && bp.logical_birth() < txg;
            is_older && can_be_shared(bp) && !bp.is_dedup() && !bp.is_gang()
        };
        if !stored.iter().all(|bp| may_be(bp)) {
            return false;
        }
        let mut expected = self.expected.write();
        expected.entry(txg).or_default().extend(stored.into_iter().map(address));
        self.are_any.store(true, Ordering::Release);
        true
    }

    /// A pointer came into a tree: if its block is older than it, that is one more reference.
    pub(super) fn born(&self, bp: &BlkPtr) {
        if bp.physical_birth() != bp.logical_birth() && can_be_shared(bp) {
            self.add(bp);
        }
    }

    /// The block has one more reference from the txg on that is being synced.
    pub(super) fn add(&self, bp: &BlkPtr) {
        let mut noted = self.noted.lock();
        noted.came.entry(address(bp)).or_insert((*bp, 0)).1 += 1;
        self.are_any.store(true, Ordering::Release);
    }

    /// Puts a block aside that is to be freed in `txg`, when it may be a shared one.
    pub(super) fn put_aside(&self, bp: &BlkPtr, txg: u64) -> bool {
        if !self.are_any.load(Ordering::Acquire) || !can_be_shared(bp) {
            return false;
        }
        let (vdev, offset) = address(bp);
        let is_known = self.tables.read().get(&vdev).is_some_and(|table| table.may_have(offset));
        let expected = self.expected.read();
        let is_known = is_known || expected.get(&txg).is_some_and(|all| all.contains(&address(bp)));
        drop(expected);
        let mut noted = self.noted.lock();
        // What came in this txg is in no table yet.
        let may_be_shared = is_known || !noted.came.is_empty();
        if may_be_shared {
            noted.went.push(*bp);
        }
        may_be_shared
    }

    /// What was noted of `txg`, which is being synced, so far. Nothing is expected of it any more.
    pub(super) fn take_noted(&self, txg: u64) -> Noted {
        self.expected.write().retain(|of, _| *of > txg);
        std::mem::take(&mut *self.noted.lock())
    }

    /// Bytes more, as datasets count them, that shared blocks would take without being shared.
    pub(super) fn saved(&self) -> u64 {
        let tables = self.tables.read();
        tables.values().map(|table| table.phys.saved_space).fold(0, u64::saturating_add)
    }
}

/// The table of one vdev while it is changed.
pub(super) struct Change<'t> {
    mos: &'t Objset,
    tx: &'t Tx,
    table: CloneTable,
    entries: Option<Editor<'t>>,
    /// Blocks of counts that changed.
    dirty: Vec<usize>,
    pub(super) is_changed: bool,
}

impl<'t> Change<'t> {
    pub(super) fn open(mos: &'t Objset, tx: &'t Tx, table: CloneTable) -> dmu::Result<Self> {
        let entries = match table.phys.entries {
            0 => None,
            number => Some(Editor::open(&mos.object(number)?, tx)?),
        };
        Ok(Self { mos, tx, table, entries, dirty: Vec::new(), is_changed: false })
    }

    /// References to the block at `offset` beyond the first.
    fn count(&mut self, offset: u64) -> dmu::Result<u64> {
        let order = self.table.order;
        let Some(entries) = &mut self.entries else { return Ok(0) };
        let Some(entry) = entries.get(&[offset][..])? else { return Ok(0) };
        match brt::refcount(&entry.values, order) {
            Ok(count) => Ok(count),
            Err(e) => Err(self.mos.object(self.table.phys.entries)?.format_error(0, e)),
        }
    }

    fn set_count(&mut self, offset: u64, count: u64) -> dmu::Result<()> {
        let key = [offset];
        let value = ZapValue::from_bytes(&self.table.order.put_u64(count));
        let entries = match &mut self.entries {
            Some(entries) => entries,
            None => {
                let flags = FLAG_HASH64 | FLAG_UINT64_KEY;
                let indirect_shift = Some(ENTRIES_SHIFT as u8);
                let spec = ZapSpec { flags, indirect_shift, ..ZapSpec::new(TABLE) };
                let made = zap::create(self.mos, self.tx, &spec.fat(ENTRIES_SHIFT))?;
                self.table.phys.entries = made.number();
                self.entries.insert(Editor::open(&made, self.tx)?)
            }
        };
        match count {
            0 => entries.remove(&key[..]).map(drop)?,
            _ => entries.set(&key[..], &value)?,
        }
        self.is_changed = true;
        Ok(())
    }

    /// The block has `more` references more; it takes `dsize` bytes.
    pub(super) fn add(&mut self, offset: u64, more: u64, dsize: u64) -> dmu::Result<()> {
        let before = self.count(offset)?;
        self.set_count(offset, before.saturating_add(more))?;
        let phys = &mut self.table.phys;
        phys.saved_space = phys.saved_space.saturating_add(dsize.saturating_mul(more));
        if before == 0 {
            phys.used_space = phys.used_space.saturating_add(dsize);
            phys.total_count = phys.total_count.saturating_add(1);
            self.count_entry(offset, |n| n.saturating_add(1));
        }
        Ok(())
    }

    /// The block has one reference less. False: the table does not have it.
    pub(super) fn take(&mut self, offset: u64, dsize: u64) -> dmu::Result<bool> {
        let Some(left) = self.count(offset)?.checked_sub(1) else { return Ok(false) };
        self.set_count(offset, left)?;
        let phys = &mut self.table.phys;
        phys.saved_space = phys.saved_space.saturating_sub(dsize);
        if left == 0 {
            phys.used_space = phys.used_space.saturating_sub(dsize);
            phys.total_count = phys.total_count.saturating_sub(1);
            self.count_entry(offset, |n| n.saturating_sub(1));
        }
        Ok(true)
    }

    /// Puts these entries in the place of all that there are, and counts them anew.
    pub(super) fn renew(&mut self, entries: &[CloneEntry]) -> dmu::Result<()> {
        for offset in self.offsets()? {
            if entries.binary_search_by_key(&offset, |entry| entry.offset).is_err() {
                self.set_count(offset, 0)?;
            }
        }
        let blocks = self.table.counts.len().div_ceil(COUNTS_BLOCK / 2);
        self.dirty.extend(0..blocks);
        self.table.counts.fill(0);
        let phys = &mut self.table.phys;
        (phys.used_space, phys.saved_space, phys.total_count) = (0, 0, entries.len() as u64);
        for CloneEntry { offset, more, size } in entries {
            self.set_count(*offset, *more)?;
            let phys = &mut self.table.phys;
            phys.used_space = phys.used_space.saturating_add(*size);
            phys.saved_space = phys.saved_space.saturating_add(size.saturating_mul(*more));
            self.count_entry(*offset, |n| n.saturating_add(1));
        }
        self.is_changed = true;
        Ok(())
    }

    /// Where the blocks begin that have an entry.
    fn offsets(&self) -> dmu::Result<Vec<u64>> {
        let number = self.table.phys.entries;
        if number == 0 {
            return Ok(Vec::new());
        }
        let entries = Zap::open(&self.mos.object(number)?)?.to_vec()?;
        let offset = |name: &ZapName| match name {
            ZapName::U64s(words) => words.first().copied(),
            ZapName::Bytes(_) => None,
        };
        Ok(entries.iter().filter_map(|entry| offset(&entry.name)).collect())
    }

    fn count_entry(&mut self, offset: u64, change: impl FnOnce(u16) -> u16) {
        let range = self.table.range_of(offset);
        if range >= self.table.counts.len() {
            self.table.counts.resize(range + 1, 0);
        }
        self.table.counts[range] = change(self.table.counts[range]);
        self.dirty.push(range / (COUNTS_BLOCK / 2));
    }

    /// Writes what changed; a table without entries is removed. `ranges`: of the whole vdev.
    /// Returns the table, if there is one, and the change of the number of tables.
    pub(super) fn finish(
        mut self,
        vdev: u32,
        ranges: u64,
    ) -> dmu::Result<(Option<CloneTable>, i64)> {
        if let Some(entries) = self.entries.take() {
            entries.finish()?;
        }
        let (mos, tx) = (self.mos, self.tx);
        let mut table = self.table;
        let name = brt::object_name(u64::from(vdev));
        if table.phys.total_count == 0 {
            if table.phys.entries != 0 {
                mos.free(tx, table.phys.entries)?;
            }
            if table.object == 0 {
                return Ok((None, 0));
            }
            mos.free(tx, table.object)?;
            zap::remove(&mos.object(mos::DIRECTORY_OBJECT)?, tx, name.as_str())?;
            return Ok((None, -1));
        }
        let is_new = table.object == 0;
        if is_new {
            let spec = NewObject {
                block_size: COUNTS_BLOCK as u32,
                bonus_kind: COUNTS,
                bonus: vec![0; BrtVdev::SIZE],
                ..NewObject::new(COUNTS)
            };
            table.object = mos.create(tx, &spec)?.number();
            set_u64(mos, tx, mos::DIRECTORY_OBJECT, &name, table.object)?;
        }
        let object = mos.object(table.object)?;
        self.dirty.sort_unstable();
        self.dirty.dedup();
        for block in &self.dirty {
            let per_block = COUNTS_BLOCK / 2;
            let counts = table.counts.iter().skip(block * per_block).take(per_block);
            let counts: Vec<u16> = counts.copied().collect();
            let bytes = brt::encode_counts(&counts, table.order);
            object.write_at(tx, (block * COUNTS_BLOCK) as u64, &bytes)?;
        }
        let known = table.counts.len() as u64;
        table.phys.size = table.phys.size.max(ranges).max(known);
        object.set_bonus(tx, COUNTS, &table.phys.encode(object.dnode().endian))?;
        Ok((Some(table), i64::from(is_new)))
    }
}
