//! What the object directory of the MOS leads to.

use crate::objects::{content, data_blocks};
use crate::tally::Tally;
use engine::Pool;
use engine::inside::dmu::{Object, Zap, ZapEntry};
use engine::inside::ondisk::bookmark::Bookmark;
use engine::inside::ondisk::bpobj::bptree::{BptreeEntry, BptreeHeader};
use engine::inside::ondisk::brt;
use engine::inside::ondisk::brt::BrtVdev;
use engine::inside::ondisk::ddt;
use engine::inside::ondisk::ddt::{DdtKey, Histogram, Value, log};
use engine::inside::ondisk::dsl::dataset_field;
use engine::inside::ondisk::errlog::{HeadEntry, Zbookmark};
use engine::inside::ondisk::expand::Expansion;
use engine::inside::ondisk::history::HistoryPhys;
use engine::inside::ondisk::indirect::{
    BirthEntry, BirthsHeader, CondensingState, MappingEntry, MappingHeader, RemovalState,
    obsolete_counts,
};
use engine::inside::ondisk::mos;
use engine::inside::ondisk::mos::vdev_zap;
use engine::inside::ondisk::scan::{ErrorScrubState, RebuildState, ScanState};
use engine::inside::ondisk::zap::{ZapName, int_key, parse_int_key};
use engine::inside::ondisk::{
    DmuType, DslDataset, Endian, Layout, NvList, Uberblock, VdevConfig, Writer, checkpoint,
};

/// Everything that is found by name.
pub(crate) fn directory(pool: &Pool, tally: &mut Tally) {
    let directory = pool.directory().expect("a sound pool");
    for entry in directory.to_vec().expect("a sound pool") {
        let name = String::from_utf8_lossy(entry.name.bytes().expect("a name")).into_owned();
        let words: Vec<u64> = entry.ints().collect();
        states(&name, &words, tally);
        let object = entry.u64().filter(|n| *n != 0).and_then(|n| pool.mos().object(n).ok());
        let Some(object) = object else { continue };
        match name.as_str() {
            mos::ERRLOG_LAST | mos::ERRLOG_SCRUB => error_log(&object, tally),
            mos::BPTREE_OBJ => destroyed(&object, tally),
            ddt::STATISTICS => statistics(&object, tally),
            n if n.starts_with(mos::BRT_VDEV_PREFIX) => block_references(&object, tally),
            n if n.starts_with("DDT-log-") => dedup_log(&object, tally),
            n if n.starts_with("DDT-") => dedup_tables(&name, &object, tally),
            _ => {}
        }
    }
    for vdev in pool.config().vdev_tree.walk() {
        vdev_objects(pool, vdev, tally);
    }
    datasets(pool, tally);
}

/// States that are arrays of words under their name. Newer software may append words.
fn states(name: &str, words: &[u64], tally: &mut Tally) {
    macro_rules! state {
        ($what:literal, $kind:ty) => {{
            let again = <$kind>::from_words(words).map(|s| s.to_words());
            tally.equal($what, &Ok(words[..<$kind>::WORDS.min(words.len())].to_vec()), &again);
        }};
    }
    match name {
        mos::SCAN => state!("scan state", ScanState),
        mos::ERROR_SCRUB => state!("error scrub state", ErrorScrubState),
        mos::REMOVING => state!("removal state", RemovalState),
        mos::CONDENSING_INDIRECT => state!("condensing state", CondensingState),
        vdev_zap::REBUILD => state!("rebuild state", RebuildState),
        mos::ZPOOL_CHECKPOINT => {
            for order in [Endian::Little, Endian::Big] {
                let bytes = checkpoint::uberblock_bytes(words, order).expect("a sound pool");
                let (uberblock, found) = Uberblock::decode(&bytes).expect("a sound pool");
                assert_eq!(found, order, "the order the bytes were made in");
                let again = checkpoint::uberblock_words(&uberblock.encode(order), order);
                tally.equal("checkpoint", &Ok(words.to_vec()), &again);
            }
        }
        _ => {}
    }
}

/// A packed list: as many bytes as the bonus says.
pub(crate) fn packed_list(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let size = dnode.bonus.first_chunk::<8>().map(|b| dnode.endian.u64(*b)).expect("a length");
    let bytes = content(object, size);
    let (list, packing, used) = NvList::decode_packed(&bytes).expect("a sound pool");
    assert_eq!(used as u64, size, "the list is as long as the bonus says");
    tally.same("packed list", &bytes, &list.encode(packing).expect("as it was"));
}

/// The records of the history.
pub(crate) fn history(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let header = HistoryPhys::decode(&dnode.bonus, dnode.endian).expect("a sound pool");
    let read = |at: u64, len: u64| {
        let mut out = vec![0; usize::try_from(len).expect("short")];
        object.read_at(at, &mut out).expect("a sound pool");
        Ok::<_, engine::inside::ondisk::Error>(out)
    };
    for record in header.records(read) {
        let record = record.expect("a sound pool");
        let pieces = |at, len| {
            let all = header.extents(at, len).into_iter();
            all.flat_map(|(at, len)| read(at, len).expect("as above")).collect::<Vec<u8>>()
        };
        let length = pieces(record.offset, 8);
        let length = Endian::Little.u64(*length.first_chunk().expect("eight bytes"));
        let stored = pieces(record.offset + 8, length);
        let (list, packing, _) = NvList::decode_packed(&stored).expect("as above");
        assert_eq!(list, record.list, "the same record");
        tally.same("history record", &stored, &list.encode(packing).expect("as it was"));
    }
}

/// Tables in which errors are noted; the keys are texts.
fn error_log(object: &Object, tally: &mut Tally) {
    for entry in Zap::open(object).and_then(|z| z.to_vec()).expect("a sound pool") {
        let key = String::from_utf8_lossy(entry.name.bytes().expect("a name")).into_owned();
        if let Some(place) = Zbookmark::parse_log_key(&key) {
            tally.equal("error log entry", &key, &place.log_key());
            continue;
        }
        // The newer form: a table per head.
        let Some(number) = entry.u64() else { continue };
        let below = object.objset().object(number).and_then(|o| Zap::open(&o)?.to_vec());
        for entry in below.expect("a sound pool") {
            let key = String::from_utf8_lossy(entry.name.bytes().expect("a name")).into_owned();
            let again = HeadEntry::parse_log_key(&key).map(|place| place.log_key());
            tally.equal("error log entry of a head", &Some(key), &again);
        }
    }
}

/// Datasets that are being destroyed.
fn destroyed(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let (decode, encode) = (BptreeHeader::decode, BptreeHeader::encode);
    let bonus = &dnode.bonus[..BptreeHeader::SIZE.min(dnode.bonus.len())];
    tally.round("bptree header", bonus, dnode.endian, decode, encode);
    for bytes in content(object, object.size_of_blocks()).chunks_exact(BptreeEntry::SIZE) {
        tally.round("bptree entry", bytes, dnode.endian, BptreeEntry::decode, BptreeEntry::encode);
    }
}

fn block_references(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let (decode, encode) = (BrtVdev::decode, BrtVdev::encode);
    let header = tally.round("block reference header", &dnode.bonus, dnode.endian, decode, encode);
    let Some(header) = header else { return };
    let order = header.count_order().expect("a sound pool");
    let counts = content(object, header.counts_len());
    tally.round("block reference counts", &counts, order, brt::counts, |counts, order| {
        brt::encode_counts(counts, order)
    });
    let table = object.objset().object(header.entries).and_then(|o| Zap::open(&o)?.to_vec());
    for entry in table.expect("a sound pool") {
        let value = entry.value_bytes().expect("bytes");
        let again = brt::refcount(value, order).map(|n| order.put_u64(n).to_vec());
        tally.equal("block references of a block", &Ok(value.to_vec()), &again);
    }
}

/// A table of either generation: the ZAP itself, or the directory of a fast one.
fn dedup_tables(name: &str, object: &Object, tally: &mut Tally) {
    if object.dnode().kind == DmuType::DDT_ZAP || name.contains("-zap-") {
        return dedup_table(object, false, tally);
    }
    if object.dnode().kind.layout() != Layout::Zap {
        return;
    }
    let table = Zap::open(object).expect("a sound pool");
    let flags = table.get_u64(ddt::DIR_FLAGS).expect("a sound pool").unwrap_or(0);
    for entry in table.to_vec().expect("a sound pool") {
        let name = String::from_utf8_lossy(entry.name.bytes().expect("a name")).into_owned();
        let below = entry.u64().and_then(|n| object.objset().object(n).ok());
        match below {
            Some(below) if name.contains("-log-") => dedup_log(&below, tally),
            Some(below) if name.contains("-zap-") => {
                dedup_table(&below, flags & ddt::FLAG_FLAT != 0, tally);
            }
            _ => {}
        }
    }
}

fn dedup_table(object: &Object, flat: bool, tally: &mut Tally) {
    let what = if flat { "ddt directory entry, flat" } else { "ddt directory entry, legacy" };
    for ZapEntry { name, values, .. } in
        Zap::open(object).and_then(|z| z.to_vec()).expect("a sound pool")
    {
        let ZapName::U64s(key) = name else { panic!("keys of dedup tables are integers") };
        let again = DdtKey::from_words(&key).map(|k| k.to_words());
        tally.equal("ddt key", &Ok(key), &again);
        let value = Value::unpack(&values, flat).expect("a sound pool");
        let order = if values[0] & 0x80 == 0 { Endian::Big } else { Endian::Little };
        tally.same(what, &values, &value.pack(order));
        let foreign = Value::unpack(&value.pack(order.swapped()), flat);
        tally.equal(what, &Ok(value), &foreign);
    }
}

fn dedup_log(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let (decode, encode) = (log::LogHeader::decode, log::LogHeader::encode);
    let header = tally.round("ddt log header", &dnode.bonus, dnode.endian, decode, encode);
    let length = header.map_or(0, |h| h.length);
    data_blocks(object, |blkid, block| {
        let left = length.saturating_sub(blkid * dnode.block_size());
        let used = usize::try_from(left).expect("small").min(block.len());
        let write = |bytes: &[u8], order: Endian, to: Endian| {
            let mut w = Writer::new(to);
            for record in log::records(bytes, order, true) {
                record.expect("a sound pool").write(&mut w);
            }
            w.into_bytes()
        };
        let order = block.endian();
        let encoded = write(&block[..used], order, order);
        // Behind the last record a block is filled with zeros.
        let mut filled = encoded.clone();
        filled.resize(used, 0);
        if used > 0 {
            tally.same("ddt log block", &block[..used], &filled);
        }
        let foreign = write(&block[..used], order, order.swapped());
        for _ in log::records(&foreign, order.swapped(), true) {
            tally.count("ddt log record");
        }
        tally.same("ddt log block", &encoded, &write(&foreign, order.swapped(), order));
    });
}

fn statistics(object: &Object, tally: &mut Tally) {
    for entry in Zap::open(object).and_then(|z| z.to_vec()).expect("a sound pool") {
        let words: Vec<u64> = entry.ints().collect();
        let again = Histogram::from_words(&words).map(|h| h.to_words());
        tally.equal("ddt statistics", &Ok(words), &again);
    }
}

/// What a vdev's configuration and its ZAPs lead to.
fn vdev_objects(pool: &Pool, vdev: &VdevConfig, tally: &mut Tally) {
    let object = |n: Option<u64>| n.filter(|n| *n != 0).and_then(|n| pool.mos().object(n).ok());
    if let Some(mapping) = object(vdev.indirect_object) {
        indirect_mapping(&mapping, tally);
    }
    if let Some(births) = object(vdev.indirect_births) {
        let dnode = births.dnode();
        let bonus = &dnode.bonus[..BirthsHeader::SIZE];
        let (decode, encode) = (BirthsHeader::decode, BirthsHeader::encode);
        let header = tally.round("indirect births header", bonus, dnode.endian, decode, encode);
        let count = header.map_or(0, |h| h.count) * BirthEntry::SIZE as u64;
        for bytes in content(&births, count).chunks_exact(BirthEntry::SIZE) {
            let (decode, encode) = (BirthEntry::decode, BirthEntry::encode);
            tally.round("indirect births entry", bytes, dnode.endian, decode, encode);
        }
    }
    for table in [vdev.vdev_zap_top, vdev.vdev_zap_leaf, vdev.vdev_zap_root] {
        let Some(object) = object(table) else { continue };
        let table = Zap::open(&object).expect("a sound pool");
        if let Some(state) = Expansion::gather(|name| table.get_u64(name).ok().flatten()) {
            for (name, value) in state.entries() {
                let stored = table.get_u64(name).expect("a sound pool");
                tally.equal("expansion state", &stored.unwrap_or(0), &value);
            }
        }
        for entry in table.to_vec().expect("a sound pool") {
            let name = String::from_utf8_lossy(entry.name.bytes().expect("a name")).into_owned();
            states(&name, &entry.ints().collect::<Vec<_>>(), tally);
        }
    }
}

fn indirect_mapping(object: &Object, tally: &mut Tally) {
    let dnode = object.dnode();
    let order = dnode.endian;
    let (decode, encode) = (MappingHeader::decode, MappingHeader::encode);
    let header = tally.round("indirect mapping header", &dnode.bonus, order, decode, encode);
    let Some(header) = header else { return };
    for bytes in content(object, header.num_entries * MappingEntry::SIZE as u64)
        .chunks_exact(MappingEntry::SIZE)
    {
        let (decode, encode) = (MappingEntry::decode, MappingEntry::encode);
        tally.round("indirect mapping entry", bytes, order, decode, encode);
    }
    let counts = header.counts_object.filter(|n| *n != 0);
    if let Some(counts) = counts.and_then(|n| object.objset().object(n).ok()) {
        let bytes = content(&counts, header.num_entries * 4);
        let encode = |counts: &Vec<u32>, order: Endian| -> Vec<u8> {
            counts.iter().flat_map(|n| order.put_u32(*n)).collect()
        };
        tally.round("obsolete counts", &bytes, order, obsolete_counts, encode);
    }
}

/// Bookmarks of datasets, and the keys of their dead lists.
fn datasets(pool: &Pool, tally: &mut Tally) {
    for object in pool.mos().objects().map(|o| o.expect("a sound pool")) {
        let dnode = object.dnode();
        let table = dnode.kind.layout() == Layout::Zap;
        if dnode.bonus_kind == DmuType::DEADLIST_HDR && table {
            for entry in Zap::open(&object).and_then(|z| z.to_vec()).expect("a sound pool") {
                let key = String::from_utf8_lossy(entry.name.bytes().expect("a name")).into_owned();
                let again = parse_int_key(&key).map(int_key);
                tally.equal("dead list key", &Some(key), &again);
            }
        }
        if dnode.bonus_kind == DmuType::DSL_DATASET && table {
            let fields = Zap::open(&object).expect("a sound pool");
            let list = fields.get_u64(dataset_field::BOOKMARKS).expect("a sound pool");
            let Some(list) = list.filter(|n| *n != 0) else { continue };
            let list = pool.mos().object(list).and_then(|o| Zap::open(&o)?.to_vec());
            for entry in list.expect("a sound pool") {
                let words: Vec<u64> = entry.ints().collect();
                let again = Bookmark::from_words(&words).map(|b| b.to_words());
                tally.equal("bookmark", &Ok(words), &again);
            }
            let phys = DslDataset::decode(&dnode.bonus, dnode.endian).expect("a sound pool");
            assert!(!phys.is_snapshot(), "only heads have bookmarks");
        }
    }
}
