//! Judging pointers, and finding the pointers inside blocks.

use super::{Item, Owner, Set, Walk, WalkOutput};
use crate::issue::Issue;
use crate::totals::BlockKind;
use dmu::traverse;
use ondisk::objset::OBJSET_SIZE_V1;
use ondisk::zil::{Body, CHECKSUM_SEQ_WORD, Chain, ChainPlace, DecodeRecord, Record, records_by};
use ondisk::{BlkPtr, DmuType, Dnode, ObjsetPhys, ZilHeader};
use std::sync::Arc;
use vdev::Scope;
use zio::{Block, Place, Request};

/// The pool version that brought accounting by user and group.
const VERSION_USERSPACE: u64 = 15;

impl Walk<'_> {
    /// Judges and counts a pointer, and queues its block. `limit`: latest txg it can be born in.
    pub(super) fn visit(
        &self,
        bp: BlkPtr,
        place: Place,
        owner: &Arc<Owner>,
        limit: u64,
        out: &mut WalkOutput<'_>,
    ) {
        let birth = bp.logical_birth();
        if birth == 0 {
            return;
        }
        if birth <= owner.set.min_txg {
            if !bp.is_hole() {
                owner.mark_partial();
            }
            return;
        }
        let at = || owner.at(place);
        let limit = limit.min(self.pool.uberblock().txg);
        if birth > limit {
            self.sink.put(Issue::BornTooLate { at: at(), birth, limit });
        }
        if bp.is_hole() || bp.is_redacted() {
            return;
        }
        if !self.judge(&bp, place, owner) {
            owner.mark_incomplete();
            return;
        }
        let kind = owner.set.kind.unwrap_or(BlockKind::of(bp.dmu_type()));
        let is_new = self.count(&bp, kind, &at, &mut out.local.totals);
        let space = self.pool_space(&bp);
        owner.take(space.used);
        if place.level != Place::LEVEL_ZIL {
            let mut own = owner.set.own.lock();
            own.used = own.used.saturating_add(space.used);
            own.compressed = own.compressed.saturating_add(space.compressed);
            own.uncompressed = own.uncompressed.saturating_add(space.uncompressed);
        }
        let item = Item { bp, place, of: Arc::clone(owner) };
        if item.has_pointers() && !is_new {
            return owner.mark_incomplete();
        }
        owner.opened();
        out.found.push(item);
    }

    /// Space of a block as datasets account for it.
    pub(crate) fn pool_space(&self, bp: &BlkPtr) -> super::Space {
        crate::accounting::space_of(self.pool, bp)
    }

    /// Whether a pointer may be at its place; `false` if following it could loop.
    fn judge(&self, bp: &BlkPtr, place: Place, owner: &Owner) -> bool {
        let mut follow = true;
        let mut expect = |field, found: u64, expected: u64, fatal: bool| {
            if found != expected {
                let at = owner.at(place);
                self.sink.put(Issue::PointerMismatch { at, field, found, expected });
                follow &= !fatal;
            }
        };
        let level = u64::from(bp.level());
        let kind = bp.dmu_type();
        match (place.level, &owner.shape) {
            (Place::LEVEL_OBJSET, _) => {
                expect("type", kind.0.into(), DmuType::OBJSET.0.into(), true);
                expect("level", level, 0, true);
            }
            (l, Some(s)) if l >= 0 && place.blkid == Place::BLKID_SPILL => {
                expect("level", level, 0, true);
                let _ = s;
            }
            (l, Some(s)) if l >= 0 => {
                expect("level", level, l.cast_unsigned().into(), true);
                expect("type", kind.0.into(), s.kind.0.into(), kind == DmuType::OBJSET);
                if level > 0 {
                    expect("size", bp.lsize(), s.indirect_size, false);
                } else if kind == DmuType::DNODE {
                    expect("size", bp.lsize(), s.block_size, false);
                }
                let cover = s.fanout_shift * u32::try_from(level).unwrap_or(0);
                let first = place.blkid.checked_shl(cover).unwrap_or(0);
                if first > s.max_block {
                    let at = owner.at(place);
                    self.sink.put(Issue::BehindEnd { at, max_block: s.max_block });
                }
            }
            _ => {}
        }
        follow
    }

    /// Visits the pointers inside a block.
    pub(super) fn expand(&self, item: &Item, block: &Block, out: &mut WalkOutput<'_>) {
        let kind = item.bp.dmu_type();
        match () {
            () if item.bp.level() > 0 => self.expand_indirect(item, block, out),
            () if kind == DmuType::DNODE => self.expand_dnodes(item, block, out),
            () if kind == DmuType::OBJSET => self.expand_objset(item, block, out),
            () => {}
        }
    }

    /// Old implementations counted the meta dnode among the objects of a set, up to pool version
    /// 14; what they wrote and was not changed since keeps that count after an upgrade. Sets of
    /// that time are known by their size, but the MOS has had that size ever since.
    fn may_count_meta_dnode(&self, set: &Set, size: usize) -> bool {
        self.pool.config().version < VERSION_USERSPACE || (set.id != 0 && size == OBJSET_SIZE_V1)
    }

    fn fill(&self, item: &Item, counted: u64) {
        let stored = item.bp.fill();
        if stored != counted {
            self.sink.put(Issue::FillCount { at: item.of.at(item.place), stored, counted });
        }
    }

    fn bad(&self, item: &Item, what: &'static str, error: &ondisk::Error) {
        item.of.mark_incomplete();
        self.sink.put(Issue::BadStructure {
            at: item.of.at(item.place),
            what,
            cause: error.to_string(),
        });
    }

    fn expand_indirect(&self, item: &Item, block: &Block, out: &mut WalkOutput<'_>) {
        let mut filled = 0u64;
        for (place, bp) in traverse::pointers(block, item.place) {
            let bp = match bp {
                Ok(bp) => bp,
                Err(e) => return self.bad(item, "block pointer", &e),
            };
            if !bp.is_hole() {
                filled = filled.saturating_add(bp.fill());
            }
            self.visit(bp, place, &item.of, item.bp.logical_birth(), out);
        }
        self.fill(item, filled);
    }

    fn expand_dnodes(&self, item: &Item, block: &Block, out: &mut WalkOutput<'_>) {
        let mut filled = 0;
        for (number, dnode) in traverse::dnodes(block, item.place) {
            filled += 1;
            match dnode {
                Ok(dnode) => {
                    let owner = Owner::object(&item.of.set, number, &dnode);
                    self.expand_dnode(&dnode, owner, item.bp.logical_birth(), out);
                }
                Err(e) => {
                    item.of.mark_incomplete();
                    let place = Place { object: number, level: 0, blkid: 0, ..item.place };
                    let (at, cause) = (item.of.at(place), e.to_string());
                    self.sink.put(Issue::BadStructure { at, what: "dnode", cause });
                }
            }
        }
        self.fill(item, filled);
    }

    fn expand_dnode(&self, dnode: &Dnode, owner: Owner, limit: u64, out: &mut WalkOutput<'_>) {
        let owner = Arc::new(owner);
        for (place, bp) in traverse::tops(owner.set.id, owner.number(), dnode) {
            self.visit(*bp, place, &owner, limit, out);
        }
        owner.closed(self.sink);
    }

    fn expand_objset(&self, item: &Item, block: &Block, out: &mut WalkOutput<'_>) {
        let phys = match ObjsetPhys::decode(block, block.endian()) {
            Ok(p) => p,
            Err(e) => return self.bad(item, "object set", &e),
        };
        let set = &item.of.set;
        let birth = item.bp.logical_birth();
        if let Some(meta) = &phys.meta_dnode {
            let filled = meta.blkptrs.iter().filter(|b| !b.is_hole());
            let filled = filled.fold(0, |sum: u64, b| sum.saturating_add(b.fill()));
            let with_meta = filled.saturating_add(1);
            let old = item.bp.fill() == with_meta && self.may_count_meta_dnode(set, block.len());
            self.fill(item, if old { with_meta } else { filled });
            self.expand_dnode(meta, Owner::object(set, 0, meta), birth, out);
        }
        for (number, dnode) in traverse::accounting(&phys) {
            self.expand_dnode(dnode, Owner::object(set, number, dnode), birth, out);
        }
    }

    /// The intent log of a head. Not part of [`Self::expand_objset`]: a head that has not changed
    /// since its last snapshot shares the header block with it, but the log is the head's own.
    pub(super) fn visit_log(&self, set: &Arc<Set>, out: &mut WalkOutput<'_>) {
        if set.is_snapshot || set.id == 0 || set.root.is_hole() {
            return;
        }
        let store = Arc::clone(self.pool.store()) as Arc<dyn dmu::BlockStore>;
        // A header that cannot be read is reported when the walk comes to it.
        let objset = dmu::Objset::open(store, set.id, &set.root, set.key.clone());
        if let Ok(objset) = objset {
            self.expand_log(set, &objset.phys().zil, out);
        }
    }

    /// Counts the blocks of an intent log that are allocated: those that an import claimed, and
    /// of a log that none has claimed yet those that were synced as allocated. The chain is
    /// readable without a key.
    fn expand_log(&self, set: &Arc<Set>, header: &ZilHeader, out: &mut WalkOutput<'_>) {
        let claimed = header.claim_txg != 0;
        let synced = self.pool.uberblock().txg;
        let mut bp = header.log;
        for _ in 0..zil::BLOCKS_MAX {
            let seq = bp.checksum()[CHECKSUM_SEQ_WORD];
            if bp.is_hole() || (claimed && seq > header.claim_blk_seq) {
                return;
            }
            if !claimed && bp.logical_birth() > synced {
                return;
            }
            let place = Place { objset: set.id, object: 0, level: Place::LEVEL_ZIL, blkid: seq };
            self.count(&bp, BlockKind::of(bp.dmu_type()), &|| set.at(place), &mut out.local.totals);
            let key = set.key.as_deref();
            let is_locked = key.is_none() && bp.is_encrypted();
            let decode: DecodeRecord =
                if is_locked { Record::decode_clear } else { Record::decode };
            let raw = key.is_none();
            let request = Request { bp: &bp, place, key, scope: Scope::Data, raw };
            let Some(chain_at) = ChainPlace::of(bp.checksum_kind()) else { return };
            let read = self.pool.reader().read(request);
            // The last block was allocated ahead and never written.
            let Ok(block) = read.block else { return };
            let Ok(chain) = Chain::decode(&block, chain_at, block.endian()) else { return };
            if claimed {
                let bytes = chain.records_in(&block, chain_at);
                let records = records_by(bytes, block.endian(), decode).filter_map(Result::ok);
                self.expand_records(set, header, records, out);
            }
            bp = chain.next;
        }
    }

    /// Blocks that claimed records point to: those of the log, and references to those of files.
    fn expand_records(
        &self,
        set: &Arc<Set>,
        header: &ZilHeader,
        records: impl Iterator<Item = Record>,
        out: &mut WalkOutput<'_>,
    ) {
        for record in records {
            if record.seq > header.claim_lr_seq {
                return;
            }
            let (level, blkid) = (Place::LEVEL_ZIL, record.seq);
            let place = Place { objset: set.id, object: 0, level, blkid };
            for bp in record.cloned() {
                let kind = BlockKind::of(bp.dmu_type());
                self.count(bp, kind, &|| set.at(place), &mut out.local.totals);
            }
            let Body::Write { block: bp, .. } = &record.body else { continue };
            if !bp.is_hole() && bp.logical_birth() >= header.claim_txg {
                let owner = Arc::new(Owner::root(set));
                let kind = BlockKind::of(bp.dmu_type());
                self.count(bp, kind, &|| owner.at(place), &mut out.local.totals);
                owner.opened();
                out.found.push(Item { bp: **bp, place, of: owner });
            }
        }
    }

    /// A block was read, or given up.
    pub(super) fn close(&self, item: &Item) {
        item.of.closed(self.sink);
    }
}
