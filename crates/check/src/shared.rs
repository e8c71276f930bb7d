//! Blocks with more than one owner: the dedup tables and the block reference tables.
//!
//! Both are read before the walk. Each visited pointer to such a block takes one reference; the
//! first one also takes the space. In the end the references taken must be those stored.
//!
//! A block that several pointers share and that no table has would be allocated twice. Where two
//! begin at the same place they are suspected of being one: `recount.rs` looks for all of them.
//!
//! Memory: about 150 bytes per dedup entry, 60 per clone entry.

use crate::issue::Issue;
use crate::lists::for_bytes;
use crate::shared_counts::{SharedCounts, Unlisted};
use crate::sink::Sink;
use dmu::{Object, Zap};
use ondisk::brt::{self, BrtVdev};
use ondisk::ddt::{DdtKey, LegacyVariant, Value};
use ondisk::zap::ZapName;
use ondisk::{BlkPtr, Checksum, DmuType, Endian};
use parking_lot::Mutex;
use pool::Pool;
use pool::live::CloneEntry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Variants of a legacy entry.
const VARIANTS: usize = 4;

struct DedupEntry {
    value: Value,
    /// References taken, by variant; a flat entry has one.
    seen: [u64; VARIANTS],
}

struct SeenClone {
    /// References beyond the first, as stored.
    stored: u64,
    seen: u64,
    /// Bytes that the block takes, once it was seen.
    size: u64,
}

/// What a table of clones says of itself.
struct CloneTable {
    range_size: u64,
    total: u64,
    /// Entries by range of the vdev.
    counts: Vec<u16>,
}

/// The shared blocks that are known.
#[derive(Default)]
pub(crate) struct Shared {
    dedup: Mutex<HashMap<(Checksum, DdtKey), DedupEntry>>,
    clones: Mutex<HashMap<(u32, u64), SeenClone>>,
    clone_tables: BTreeMap<u32, CloneTable>,
    /// First addresses at which two blocks of data begin.
    suspects: Mutex<BTreeSet<(u32, u64)>>,
    /// Instead of all this: what is known of suspects so far.
    recount: Option<Mutex<HashMap<(u32, u64), Suspect>>>,
    has_dedup: bool,
    has_clones: bool,
}

/// Pointers with the same first address.
#[derive(Default)]
struct Suspect {
    /// The first of them.
    first: Option<BlkPtr>,
    seen: u64,
    /// Others name another block.
    is_mixed: bool,
}

/// Whether a block can be a shared one: data of a file or volume, of its own space.
fn can_be_shared(bp: &BlkPtr) -> bool {
    let is_data = [DmuType::PLAIN_FILE_CONTENTS, DmuType::ZVOL].contains(&bp.dmu_type());
    bp.level() == 0 && is_data && !bp.is_hole() && !bp.is_embedded()
}

/// Where a block begins.
fn start_of(bp: &BlkPtr) -> (u32, u64) {
    (bp.dva(0).vdev(), bp.dva(0).offset())
}

/// The kind of a pointer.
pub(crate) enum Reference {
    /// The only or the first owner: the space is its own. The pointer as the table completes it.
    First(BlkPtr),
    /// A further reference to a deduplicated block.
    Dedup(BlkPtr),
    /// A further clone.
    Clone,
}

impl Shared {
    /// Reads all tables.
    pub(crate) fn load(pool: &Pool, sink: &Sink) -> Self {
        let mut s = Self::default();
        let note = |what, r: dmu::Result<()>| {
            if let Err(e) = r {
                sink.put(Issue::Unopened { what, cause: e.to_string() });
            }
        };
        note("a dedup table", s.load_dedup(pool));
        note("a clone table", s.load_clones(pool));
        s.has_dedup = !s.dedup.get_mut().is_empty();
        s.has_clones = !s.clones.get_mut().is_empty();
        s
    }

    fn load_dedup(&mut self, pool: &Pool) -> dmu::Result<()> {
        let all = self.dedup.get_mut();
        for table in dmu::ddt::tables(pool.mos())? {
            table.entries(pool.mos(), &mut |key, value| {
                let key = (table.checksum, key);
                match value.map(|value| DedupEntry { value, seen: [0; VARIANTS] }) {
                    None => drop(all.remove(&key)),
                    Some(entry) => drop(all.insert(key, entry)),
                }
            })?;
        }
        Ok(())
    }

    fn load_clones(&mut self, pool: &Pool) -> dmu::Result<()> {
        for e in pool.directory()?.entries() {
            let e = e?;
            let name = e.name.bytes().and_then(|b| std::str::from_utf8(b).ok());
            let Some(vdev) = name.and_then(brt::parse_object_name) else { continue };
            let Some(number) = e.u64().filter(|n| *n != 0) else { continue };
            let object = pool.mos().object(number)?;
            let dnode = object.dnode();
            let bad = |e| object.format_error(0, e);
            let table = BrtVdev::decode(&dnode.bonus, dnode.endian).map_err(bad)?;
            let order = table.count_order().map_err(bad)?;
            let vdev = u32::try_from(vdev).unwrap_or(u32::MAX);
            let counts = range_counts(&object, &table, order)?;
            let (range_size, total) = (table.range_size, table.total_count);
            self.clone_tables.insert(vdev, CloneTable { range_size, total, counts });
            if table.entries == 0 {
                continue;
            }
            let entries = pool.mos().object(table.entries)?;
            for e in Zap::open(&entries)?.entries() {
                let e = e?;
                let ZapName::U64s(words) = &e.name else { continue };
                let Some(offset) = words.first() else { continue };
                let stored = brt::refcount(&e.values, order).map_err(bad)?;
                let entry = SeenClone { stored, seen: 0, size: 0 };
                self.clones.get_mut().insert((vdev, *offset), entry);
            }
        }
        Ok(())
    }

    /// There are dedup tables with entries.
    pub(crate) fn has_dedup(&self) -> bool {
        self.has_dedup
    }

    /// Knows nothing but these addresses, and counts the pointers to them.
    pub(crate) fn of_suspects(addresses: &BTreeSet<(u32, u64)>) -> Self {
        let recount = addresses.iter().map(|at| (*at, Suspect::default())).collect();
        Self { recount: Some(Mutex::new(recount)), ..Self::default() }
    }

    /// The space of a block begins where that of another one does.
    pub(crate) fn suspect(&self, bp: &BlkPtr) {
        if can_be_shared(bp) {
            self.suspects.lock().insert(start_of(bp));
        }
    }

    pub(crate) fn suspects(&self) -> BTreeSet<(u32, u64)> {
        self.suspects.lock().clone()
    }

    /// Of the suspects, the blocks that several pointers name, all of them the same.
    pub(crate) fn unlisted(&self) -> Vec<Unlisted> {
        let Some(recount) = &self.recount else { return Vec::new() };
        let suspects = recount.lock();
        let is_one = |s: &&Suspect| !s.is_mixed && s.seen > 1;
        let block = |s: &Suspect| Some(Unlisted { bp: s.first?, references: s.seen });
        suspects.values().filter(is_one).filter_map(block).collect()
    }

    /// Takes a reference for a pointer.
    pub(crate) fn visit(&self, pool: &Pool, bp: &BlkPtr) -> Reference {
        if let Some(recount) = &self.recount {
            return visit_suspect(&mut recount.lock(), bp);
        }
        if bp.is_dedup() && self.has_dedup {
            return self.visit_dedup(bp).unwrap_or(Reference::First(*bp));
        }
        let first = bp.dvas().next().filter(|_| self.has_clones && !bp.is_embedded());
        let Some((_, dva)) = first else { return Reference::First(*bp) };
        let mut clones = self.clones.lock();
        match clones.get_mut(&(dva.vdev(), dva.offset())) {
            Some(c) => {
                c.seen += 1;
                match c.seen {
                    1 => {
                        c.size = crate::accounting::space_of(pool, bp).used;
                        Reference::First(*bp)
                    }
                    _ => Reference::Clone,
                }
            }
            None => Reference::First(*bp),
        }
    }

    fn visit_dedup(&self, bp: &BlkPtr) -> Option<Reference> {
        let mut all = self.dedup.lock();
        let entry = all.get_mut(&(bp.checksum_kind(), DdtKey::new(bp)))?;
        let variant = variant_of(&entry.value, bp)?;
        let seen = entry.seen.get_mut(variant)?;
        *seen += 1;
        let whole = completed(&entry.value, bp);
        Some(if *seen == 1 { Reference::First(whole) } else { Reference::Dedup(whole) })
    }

    /// Compares references taken with those stored; what the tables are to say instead.
    pub(crate) fn settle(&self, pool: &Pool, unlisted: Vec<Unlisted>, sink: &Sink) -> SharedCounts {
        let mut out = SharedCounts::default();
        self.settle_dedup(&mut out, sink);
        let mut wrong = self.settle_clones(sink);
        let (dedup, cloned): (Vec<_>, Vec<_>) =
            unlisted.into_iter().partition(|block| block.bp.is_dedup());
        for Unlisted { bp, references } in &dedup {
            sink.put(Issue::DedupCount { dva: bp.dva(0), stored: 0, counted: *references });
        }
        for Unlisted { bp, references } in &cloned {
            let ((vdev, offset), counted) = (start_of(bp), references.saturating_sub(1));
            sink.put(Issue::CloneCount { vdev, offset, stored: 0, counted });
            wrong.insert(vdev);
        }
        out.unlisted_dedup = dedup;
        for vdev in wrong {
            out.clones.insert(vdev, self.clones_of(pool, vdev, &cloned));
        }
        out
    }

    fn settle_dedup(&self, out: &mut SharedCounts, sink: &Sink) {
        for (key, entry) in self.dedup.lock().iter() {
            let variants = entry.seen.iter().take(entry.value.variants());
            let mut is_wrong = false;
            for (variant, counted) in variants.clone().enumerate() {
                let LegacyVariant { refcount: stored, .. } = entry.value.variant(variant);
                if stored != *counted {
                    let (dva, counted) = (entry.value.variant(variant).dva(0), *counted);
                    sink.put(Issue::DedupCount { dva, stored, counted });
                    is_wrong = true;
                }
            }
            // An entry that counts nothing has no right to be.
            if !is_wrong && entry.value.total_refcount() == 0 {
                let dva = entry.value.variant(0).dva(0);
                sink.put(Issue::DedupCount { dva, stored: 0, counted: 0 });
                is_wrong = true;
            }
            if is_wrong {
                out.dedup.insert(*key, variants.copied().collect());
            }
        }
    }

    /// The vdevs whose tables of clones are wrong.
    fn settle_clones(&self, sink: &Sink) -> BTreeSet<u32> {
        let mut wrong = BTreeSet::new();
        let mut ranges: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for ((vdev, offset), c) in self.clones.lock().iter() {
            let counted = c.seen.saturating_sub(1);
            if counted != c.stored || c.seen == 0 || c.stored == 0 {
                let (vdev, offset, stored) = (*vdev, *offset, c.stored);
                sink.put(Issue::CloneCount { vdev, offset, stored, counted });
                wrong.insert(vdev);
            }
            let size = self.clone_tables.get(vdev).map_or(0, |table| table.range_size);
            *ranges.entry((*vdev, offset / size.max(1))).or_default() += 1;
        }
        for (vdev, table) in &self.clone_tables {
            let of_vdev = |range: u64| ranges.get(&(*vdev, range)).copied().unwrap_or(0);
            let odd = |(range, count): (usize, &u16)| u64::from(*count) != of_vdev(range as u64);
            let odd = table.counts.iter().enumerate().filter(|of| odd(*of)).count();
            let all = ranges.range((*vdev, 0)..=(*vdev, u64::MAX));
            let behind = all.clone().filter(|((_, range), _)| *range >= table.counts.len() as u64);
            let (odd, sum) = (odd + behind.count(), all.map(|(_, n)| n).sum::<u64>());
            let cause = match () {
                () if odd > 0 => format!("{odd} of its ranges count other entries than it has"),
                () if sum != table.total => {
                    format!("its header counts {} entries, it has {sum}", table.total)
                }
                () => continue,
            };
            sink.put(Issue::CloneTable { vdev: *vdev, cause });
            wrong.insert(*vdev);
        }
        wrong
    }

    /// All entries that the table of a vdev is to have.
    fn clones_of(&self, pool: &Pool, vdev: u32, unlisted: &[Unlisted]) -> Vec<CloneEntry> {
        let clones = self.clones.lock();
        let known = clones.iter().filter(|((v, _), c)| *v == vdev && c.seen > 1);
        let known = known.map(|((_, offset), c)| CloneEntry {
            offset: *offset,
            more: c.seen - 1,
            size: c.size,
        });
        let new = unlisted.iter().filter(|block| start_of(&block.bp).0 == vdev);
        let new = new.map(|Unlisted { bp, references }| CloneEntry {
            offset: start_of(bp).1,
            more: references.saturating_sub(1),
            size: crate::accounting::space_of(pool, bp).used,
        });
        let mut all: Vec<_> = known.chain(new).collect();
        all.sort_unstable_by_key(|entry| entry.offset);
        all
    }
}

/// The counts by range of a table of clones.
fn range_counts(object: &Object, table: &BrtVdev, order: Endian) -> dmu::Result<Vec<u16>> {
    let mut counts = Vec::new();
    // An object that is shorter ends in counts of zero.
    let len = table.counts_len().min(object.size_of_blocks());
    for_bytes(object, len, &mut |at, bytes| {
        counts.extend(brt::counts(bytes, order).map_err(|e| object.format_error(at, e))?);
        Ok(())
    })?;
    Ok(counts)
}

/// Counts a pointer to a suspect. No space is taken by it: whose it is was seen before.
fn visit_suspect(all: &mut HashMap<(u32, u64), Suspect>, bp: &BlkPtr) -> Reference {
    if !can_be_shared(bp) {
        return Reference::First(*bp);
    }
    let Some(suspect) = all.get_mut(&start_of(bp)) else { return Reference::First(*bp) };
    suspect.seen += 1;
    let first = *suspect.first.get_or_insert(*bp);
    let is_same = first.physical_birth() == bp.physical_birth()
        && first.is_dedup() == bp.is_dedup()
        && first.checksum_kind() == bp.checksum_kind()
        && DdtKey::new(&first) == DdtKey::new(bp);
    suspect.is_mixed |= !is_same;
    Reference::Clone
}

/// The variant of an entry that a pointer refers to.
fn variant_of(value: &Value, bp: &BlkPtr) -> Option<usize> {
    let is_it =
        |v: &LegacyVariant| v.dva(0) == bp.dva(0) && v.physical_birth == bp.physical_birth();
    (0..value.variants()).find(|n| is_it(&value.variant(*n)))
}

/// A fast dedup entry may have got more copies after a pointer was written; all of them count.
fn completed(value: &Value, bp: &BlkPtr) -> BlkPtr {
    let Value::Flat(v) = value else { return *bp };
    let mut words = *bp.words();
    let copies = if bp.is_encrypted() { 2 } else { 3 };
    for i in 0..copies {
        let dva = v.dva(i).words();
        if let Some(slot) = words.get_mut(2 * i..2 * i + 2) {
            slot.copy_from_slice(&dva);
        }
    }
    BlkPtr::from_words(words)
}
