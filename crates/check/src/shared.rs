//! Blocks with more than one owner: the dedup tables and the block reference tables.
//!
//! Both are read before the walk. Each visited pointer to such a block takes one reference; the
//! first one also takes the space. In the end the references taken must be those stored.
//!
//! Memory: about 150 bytes per dedup entry, 50 per clone entry.

use crate::issue::Issue;
use crate::sink::Sink;
use dmu::{Object, Zap};
use ondisk::brt::{self, BrtVdev};
use ondisk::ddt::log::{LogHeader, records};
use ondisk::ddt::{self, DdtKey, Value};
use ondisk::zap::ZapName;
use ondisk::{BlkPtr, Checksum, Dva};
use parking_lot::Mutex;
use pool::Pool;
use std::collections::HashMap;

/// Variants of a legacy entry.
const VARIANTS: usize = 4;

struct DedupEntry {
    value: Value,
    /// References taken, by variant; a flat entry has one.
    seen: [u64; VARIANTS],
}

struct CloneEntry {
    /// References beyond the first, as stored.
    stored: u64,
    seen: u64,
}

/// The shared blocks that are known.
#[derive(Default)]
pub(crate) struct Shared {
    dedup: Mutex<HashMap<(Checksum, DdtKey), DedupEntry>>,
    clones: Mutex<HashMap<(u32, u64), CloneEntry>>,
    has_dedup: bool,
    has_clones: bool,
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
        let root = pool.directory()?;
        for n in 0..=Checksum::BLAKE3.0 {
            let checksum = Checksum(n);
            let Some(name) = ddt::directory_name(checksum) else { continue };
            match root.get_u64(&name)? {
                Some(o) => {
                    let dir = Zap::open(&pool.mos().object(o)?)?;
                    let flags = dir.get_u64(ddt::DIR_FLAGS)?.unwrap_or(0);
                    let flat = flags & ddt::FLAG_FLAT != 0;
                    self.load_classes(pool, &dir, checksum, flat)?;
                    if flags & ddt::FLAG_LOG != 0 {
                        self.load_logs(pool, &dir, checksum, flat)?;
                    }
                }
                None => self.load_classes(pool, &root, checksum, false)?,
            }
        }
        Ok(())
    }

    fn load_classes(
        &mut self,
        pool: &Pool,
        dir: &Zap,
        checksum: Checksum,
        flat: bool,
    ) -> dmu::Result<()> {
        for class in ddt::Class::ALL {
            let Some(name) = ddt::object_name(checksum, class) else { continue };
            let Some(number) = dir.get_u64(&name)?.filter(|n| *n != 0) else { continue };
            let object = pool.mos().object(number)?;
            for e in Zap::open(&object)?.entries() {
                let e = e?;
                let ZapName::U64s(words) = &e.name else { continue };
                let bad = |e| object.format_error(0, e);
                let key = DdtKey::from_words(words).map_err(bad)?;
                let packed = e.value_bytes().unwrap_or_default();
                let value = Value::unpack(packed, flat).map_err(bad)?;
                let entry = DedupEntry { value, seen: [0; VARIANTS] };
                self.dedup.get_mut().insert((checksum, key), entry);
            }
        }
        Ok(())
    }

    /// The log that is being flushed is the older one: its records are applied first.
    fn load_logs(
        &mut self,
        pool: &Pool,
        dir: &Zap,
        checksum: Checksum,
        flat: bool,
    ) -> dmu::Result<()> {
        let mut logs: Vec<(LogHeader, Object)> = Vec::new();
        for n in 0..2 {
            let Some(name) = ddt::log_name(checksum, n) else { continue };
            let Some(number) = dir.get_u64(&name)?.filter(|n| *n != 0) else { continue };
            let object = pool.mos().object(number)?;
            let dnode = object.dnode();
            let header = LogHeader::decode(&dnode.bonus, dnode.endian);
            let header = header.map_err(|e| object.format_error(0, e))?;
            logs.push((header, object));
        }
        logs.sort_by_key(|(h, _)| h.first_txg);
        for (header, object) in logs {
            self.load_log(&header, &object, checksum, flat)?;
        }
        Ok(())
    }

    fn load_log(
        &mut self,
        header: &LogHeader,
        object: &Object,
        checksum: Checksum,
        flat: bool,
    ) -> dmu::Result<()> {
        let bs = object.dnode().block_size().max(1);
        let length = header.length.min(object.size_of_blocks());
        for blkid in 0..length.div_ceil(bs) {
            let Some(block) = object.read_block(blkid)? else { continue };
            let used = (length - blkid * bs).min(block.len() as u64) as usize;
            let bytes = block.get(..used).unwrap_or_default();
            for record in records(bytes, block.endian(), flat) {
                let record = record.map_err(|e| object.format_error(blkid, e))?;
                if header.valid_checkpoint().is_some_and(|c| record.key <= *c) {
                    continue;
                }
                let all = self.dedup.get_mut();
                let entry = DedupEntry { value: record.value, seen: [0; VARIANTS] };
                match entry.value.total_refcount() {
                    0 => drop(all.remove(&(checksum, record.key))),
                    _ => drop(all.insert((checksum, record.key), entry)),
                }
            }
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
            if table.entries == 0 {
                continue;
            }
            let entries = pool.mos().object(table.entries)?;
            for e in Zap::open(&entries)?.entries() {
                let e = e?;
                let ZapName::U64s(words) = &e.name else { continue };
                let Some(offset) = words.first() else { continue };
                let stored = brt::refcount(&e.values, order).map_err(bad)?;
                let vdev = u32::try_from(vdev).unwrap_or(u32::MAX);
                let entry = CloneEntry { stored, seen: 0 };
                self.clones.get_mut().insert((vdev, *offset), entry);
            }
        }
        Ok(())
    }

    /// Takes a reference for a pointer.
    pub(crate) fn visit(&self, bp: &BlkPtr) -> Reference {
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
                    1 => Reference::First(*bp),
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

    /// Compares references taken with those stored.
    pub(crate) fn settle(&self, sink: &Sink) {
        for entry in self.dedup.lock().values() {
            for (variant, counted) in entry.seen.iter().enumerate() {
                let (stored, dva) = stored_of(&entry.value, variant);
                if stored != *counted {
                    sink.put(Issue::DedupCount { dva, stored, counted: *counted });
                }
            }
        }
        for ((vdev, offset), c) in self.clones.lock().iter() {
            let counted = c.seen.saturating_sub(1);
            if counted != c.stored || c.seen == 0 {
                let (vdev, offset, stored) = (*vdev, *offset, c.stored);
                sink.put(Issue::CloneCount { vdev, offset, stored, counted });
            }
        }
    }
}

/// The variant of an entry that a pointer refers to.
fn variant_of(value: &Value, bp: &BlkPtr) -> Option<usize> {
    let same = |dva: Dva, birth| dva == bp.dva(0) && birth == bp.physical_birth();
    match value {
        Value::Flat(v) => same(v.dva(0), v.physical_birth).then_some(0),
        Value::Legacy(v) => {
            v.variants().iter().position(|v| v.refcount > 0 && same(v.dva(0), v.physical_birth))
        }
    }
}

fn stored_of(value: &Value, variant: usize) -> (u64, Dva) {
    match value {
        Value::Flat(v) if variant == 0 => (v.refcount, v.dva(0)),
        Value::Flat(_) => (0, Dva::default()),
        Value::Legacy(v) => {
            v.variants().get(variant).map_or((0, Dva::default()), |v| (v.refcount, v.dva(0)))
        }
    }
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
