//! Object sets: headers, dnodes, indirect blocks, tables, bonus buffers.

use crate::mos;
use crate::tally::Tally;
use engine::inside::dmu::{Block, Object, Objset, Place};
use engine::inside::ondisk::bpobj::{BpobjHeader, Entry};
use engine::inside::ondisk::deadlist::DeadlistHeader;
use engine::inside::ondisk::dnode::DNODE_SLOT_SIZE;
use engine::inside::ondisk::history::{HISTORY_PHYS_SIZE, HistoryPhys};
use engine::inside::ondisk::spacemap;
use engine::inside::ondisk::spacemap::SpaceMapHeader;
use engine::inside::ondisk::zap::{BlockKind, Leaf, MicroZap, ZapHeader, block_kind};
use engine::inside::ondisk::znode::Dirent;
use engine::inside::ondisk::{
    BlkPtr, DmuType, Dnode, DslDataset, DslDir, Endian, Layout, ObjsetPhys, Reader, Writer, bpobj,
};

/// All of one object set.
pub(crate) fn objset(objset: &Objset, tally: &mut Tally) {
    let place = Place::objset(objset.id());
    let header = objset.store().read(&objset.root(), place, objset.key()).expect("a sound pool");
    tally.round(
        "object set header",
        &header,
        header.endian(),
        ObjsetPhys::decode,
        ObjsetPhys::encode,
    );
    let meta = objset.meta_object();
    if let Some(meta) = &meta {
        indirect_blocks(meta, tally);
        data_blocks(meta, |_, block| dnode_slots(block, tally));
    }
    let accounting = objset.accounting_objects().into_iter().flatten();
    let objects = objset.objects().map(|o| o.expect("a sound pool"));
    for object in accounting.chain(objects) {
        one_object(&object, tally);
    }
}

/// Calls `each` with every stored block of level 0.
pub(crate) fn data_blocks(object: &Object, mut each: impl FnMut(u64, &Block)) {
    let mut at = 0;
    while let Some(blkid) = object.next_block(at).map_err(|(e, _)| e).expect("a sound pool") {
        let block = object.read_block(blkid).expect("a sound pool").expect("a stored block");
        each(blkid, &block);
        at = blkid + 1;
    }
}

/// Bytes of the object from its start.
pub(crate) fn content(object: &Object, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(length).expect("a small object")];
    object.read_at(0, &mut bytes).expect("a sound pool");
    bytes
}

/// Slots of a block of dnodes; the bytes of free slots mean nothing.
fn dnode_slots(block: &Block, tally: &mut Tally) {
    let mut at = 0;
    while let Some(bytes) = block.get(at..at + DNODE_SLOT_SIZE) {
        let slots = match Dnode::is_free_slot(bytes) {
            true => 1,
            false => usize::from(bytes[12]) + 1,
        };
        if !Dnode::is_free_slot(bytes) {
            let whole = &block[at..at + slots * DNODE_SLOT_SIZE];
            tally.round("dnode", whole, block.endian(), Dnode::decode, Dnode::encode);
        }
        at += slots * DNODE_SLOT_SIZE;
    }
}

/// Every pointer of every indirect block.
fn indirect_blocks(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    for (i, bp) in dnode.blkptrs.iter().enumerate() {
        if !bp.is_hole() && dnode.levels > 1 {
            indirect_block(object, dnode.levels - 1, i as u64, tally);
        }
    }
}

fn indirect_block(object: &Object, level: u8, blkid: u64, tally: &mut Tally) {
    let block = object.read_indirect(level, blkid).expect("a sound pool").expect("no hole");
    let pointers = block.len() / 128;
    for (i, bytes) in block.chunks_exact(128).enumerate() {
        let what = "block pointer";
        let bp = tally.round(what, bytes, block.endian(), BlkPtr::decode, BlkPtr::encode);
        if level > 1 && bp.is_some_and(|bp| !bp.is_hole()) {
            indirect_block(object, level - 1, blkid * pointers as u64 + i as u64, tally);
        }
    }
}

fn one_object(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    indirect_blocks(object, tally);
    bonus(object, tally);
    match dnode.kind {
        kind if kind.layout() == Layout::Zap => table(object, tally),
        DmuType::BPOBJ => list_of_blocks(object, tally),
        DmuType::PACKED_NVLIST => mos::packed_list(object, tally),
        DmuType::SPACE_MAP => space_map(object, tally),
        DmuType::SPA_HISTORY => mos::history(object, tally),
        DmuType::ACL => crate::files::external_acl(object, 1, tally),
        DmuType::OLDACL => crate::files::external_acl(object, 0, tally),
        _ => {}
    }
}

/// The blocks of a ZAP, of either form.
fn table(object: &Object, tally: &mut Tally) {
    let mut header: Option<ZapHeader> = None;
    let mut values = Vec::new();
    data_blocks(object, |blkid, block| {
        let order = block.endian();
        let kind = block_kind(block, order);
        let table = header.as_ref().map(|h| h.table).unwrap_or_default();
        let in_table = |first: u64, n: u64| blkid >= first && blkid - first < n;
        match kind {
            _ if in_table(table.block, table.block_count)
                || in_table(table.next_block, 2 * table.block_count) =>
            {
                tally.round("zap: pointer table", block, order, words, |w, order| {
                    put_words(w, order)
                });
            }
            Some(BlockKind::Micro) => {
                let what = "zap: micro";
                let zap = tally.round(what, block, order, MicroZap::decode, MicroZap::encode);
                values.extend(zap.into_iter().flat_map(|z| z.entries()).filter_map(|e| e.u64()));
            }
            Some(BlockKind::Header) => {
                let what = "zap: header";
                header = tally.round(what, block, order, ZapHeader::decode, ZapHeader::encode);
            }
            Some(BlockKind::Leaf) => {
                let decode = |block: &[u8], order| Leaf::decode(block, order).map(Leaf::into_owned);
                let leaf = tally.round("zap: leaf", block, order, decode, Leaf::encode);
                let integer_keys = header.as_ref().is_some_and(|h| h.key_hash().integer_keys());
                let entries = leaf.and_then(|l| l.entries(integer_keys).ok()).unwrap_or_default();
                values.extend(entries.iter().filter_map(engine::inside::dmu::ZapEntry::u64));
            }
            // Blocks of an earlier, smaller pointer table, which nothing refers to any more.
            None => tally.count("zap: block out of use, not compared"),
        }
    });
    if object.dnode().kind == DmuType::DIRECTORY_CONTENTS {
        for value in values {
            tally.equal("directory entry", &value, &Dirent::decode(value).encode());
        }
    }
}

/// A structure of words, as a reader and a writer of our own: the pointer table has no more form.
fn words(data: &[u8], endian: Endian) -> engine::inside::ondisk::Result<Vec<u64>> {
    let mut r = Reader::new("words", data, endian);
    (0..data.len() / 8).map(|_| r.u64("word")).collect()
}

fn put_words(words: &[u64], endian: Endian) -> Vec<u8> {
    let mut w = Writer::new(endian);
    w.words(words);
    w.into_bytes()
}

/// The bonus buffer by its type. Those of type "uint64" have no type of their own; the walk
/// through the object directory knows what they are.
fn bonus(object: &Object, tally: &mut Tally) {
    let Dnode { bonus, bonus_kind, endian, .. } = object.dnode();
    let order = *endian;
    match *bonus_kind {
        DmuType::DSL_DIR => {
            tally.round("dsl directory", bonus, order, DslDir::decode, DslDir::encode);
        }
        DmuType::DSL_DATASET => {
            tally.round("dsl dataset", bonus, order, DslDataset::decode, DslDataset::encode);
        }
        DmuType::BPOBJ_HDR => {
            tally.round("bpobj header", bonus, order, BpobjHeader::decode, BpobjHeader::encode);
        }
        DmuType::DEADLIST_HDR => {
            let (decode, encode) = (DeadlistHeader::decode, DeadlistHeader::encode);
            tally.round("dead list header", bonus, order, decode, encode);
        }
        DmuType::SPACE_MAP_HEADER => {
            let (decode, encode) = (SpaceMapHeader::decode, SpaceMapHeader::encode);
            tally.round("space map header", bonus, order, decode, encode);
        }
        DmuType::SPA_HISTORY_OFFSETS => {
            // The bonus may be longer than the structure.
            let used = &bonus[..HISTORY_PHYS_SIZE];
            tally.round("history header", used, order, HistoryPhys::decode, HistoryPhys::encode);
        }
        DmuType::PACKED_NVLIST_SIZE | DmuType::FUID_SIZE => {
            tally.round("length of a packed list", bonus, order, words, |w, order| {
                put_words(w, order)
            });
        }
        _ => {}
    }
}

/// The entries of a block pointer object, and the lists below it.
fn list_of_blocks(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let Ok(header) = BpobjHeader::decode(&dnode.bonus, dnode.endian) else { return };
    let data = content(object, header.data_len().expect("a sound pool"));
    let order = dnode.endian;
    for bytes in data.chunks(128) {
        let bp = tally.round("bpobj entry", bytes, order, BlkPtr::decode, BlkPtr::encode);
        // What is in a list was stripped before; stripping it again changes nothing.
        if let Some(bp) = bp {
            let freed = Entry(bp).is_freed();
            if bp.is_embedded() {
                let used = [6, 10].map(|i| bp.words()[i]);
                let mut stripped = [0; 16];
                [stripped[6], stripped[10]] = used;
                tally.equal("bpobj entry, embedded", bp.words(), &stripped);
            }
            tally.equal("bpobj entry, stripped", &Entry(bp), &Entry::new(&bp, freed));
        }
    }
    let Some(below) = header.subobjs.filter(|s| s.object != 0) else { return };
    let list = object.objset().object(below.object).expect("a sound pool");
    let numbers = content(&list, below.count * 8);
    let found: Vec<u64> = bpobj::subobj_numbers(&numbers, list.dnode().endian).collect();
    tally.same("lists below a bpobj", &numbers, &put_words(&found, list.dnode().endian));
    assert!(found.iter().all(|n| object.objset().object(*n).is_ok()), "lists that are not there");
}

/// A space map: every entry goes through the encoder that writes them.
fn space_map(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).expect("a sound pool");
    let data = content(object, header.length);
    let what = if has_vdevs(&data, dnode.endian) { "log space map" } else { "space map" };
    for shift in [0, 9] {
        let block_size = usize::try_from(dnode.block_size()).expect("a small block");
        let encode = |data: &[u8], order: Endian, to: Endian| {
            let mut out = spacemap::Encoder::new(0, shift, true, block_size, 0);
            for entry in spacemap::entries(data, order, 0, shift) {
                match entry.expect("a sound pool") {
                    // The encoder fills the gap before a pair itself.
                    spacemap::Entry::Debug { action: 0, syncpass: 0, txg: 0 } => {}
                    spacemap::Entry::Debug { action, syncpass, txg } => {
                        let all = [spacemap::Action::Alloc, spacemap::Action::Free];
                        out.debug(all[usize::from(action)], syncpass, txg);
                    }
                    spacemap::Entry::Range(range) => out.range(range).expect("as it was"),
                }
            }
            out.finish(to)
        };
        let order = dnode.endian;
        tally.same(what, &data, &encode(&data, order, order));
        let foreign = encode(&data, order, order.swapped());
        tally.same(what, &data, &encode(&foreign, order.swapped(), order));
    }
}

fn has_vdevs(data: &[u8], endian: Endian) -> bool {
    let mut entries = spacemap::entries(data, endian, 0, 0).flatten();
    entries.any(|e| matches!(e, spacemap::Entry::Range(r) if r.vdev.is_some()))
}
