//! Targets for what the meta object set holds: datasets, lists of blocks, maps, tables, logs.

use crate::Target;
use crate::structures::{round, split};
use ondisk::dsl::{DslDataset, DslDir};
use ondisk::{Endian, Error};

pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("bookmark", bookmark),
    ("bpobj", bpobj),
    ("bptree", bptree),
    ("brt", brt),
    ("ddt", ddt),
    ("ddt_log", ddt_log),
    ("deadlist", deadlist),
    ("dsl", dsl),
    ("errlog", errlog),
    ("history", history),
    ("indirect", indirect),
    ("redaction", redaction),
    ("scan", scan),
    ("spacemap", spacemap),
    ("state", state),
];

/// The input as the words of a ZAP value.
fn words(data: &[u8]) -> Vec<u64> {
    let (endian, data) = split(data);
    data.as_chunks::<8>().0.iter().map(|word| endian.u64(*word)).collect()
}

fn bookmark(data: &[u8]) {
    use ondisk::bookmark::Bookmark;
    use ondisk::checkpoint::{uberblock_bytes, uberblock_words};
    let words = words(data);
    if let Ok(bookmark) = Bookmark::from_words(&words) {
        assert_eq!(Bookmark::from_words(&bookmark.to_words()), Ok(bookmark));
    }
    if let Ok(bytes) = uberblock_bytes(&words, Endian::Little) {
        let _ = uberblock_words(&bytes, Endian::Little);
    }
}

fn bpobj(data: &[u8]) {
    use ondisk::bpobj::{BpobjHeader, entries, subobj_numbers};
    if let Some(header) = round(data, BpobjHeader::decode, BpobjHeader::encode) {
        let _ = (header.space(), header.data_len(), header.is_empty());
    }
    let (endian, data) = split(data);
    let _ =
        entries(data, endian).filter(|entry| entry.as_ref().is_ok_and(|e| e.is_freed())).count();
    let _ = subobj_numbers(data, endian).count();
}

fn bptree(data: &[u8]) {
    use ondisk::bpobj::bptree::{BptreeEntry, BptreeHeader};
    if let Some(header) = round(data, BptreeHeader::decode, BptreeHeader::encode) {
        let _ = header.space();
    }
    round(data, BptreeEntry::decode, BptreeEntry::encode);
}

fn deadlist(data: &[u8]) {
    use ondisk::deadlist::DeadlistHeader;
    use ondisk::zap::parse_int_key;
    if let Some(header) = round(data, DeadlistHeader::decode, DeadlistHeader::encode) {
        let _ = header.space();
    }
    let _ = parse_int_key(&String::from_utf8_lossy(data));
}

fn dsl(data: &[u8]) {
    use ondisk::dsl::{deleg, holds};
    round(data, DslDir::decode, DslDir::encode);
    round(data, DslDataset::decode, DslDataset::encode);
    let text = String::from_utf8_lossy(data);
    let _ = holds::parse_temp_key(&text);
    let _ = deleg::WhoKey::parse(&text).map(|key| key.format());
}

fn brt(data: &[u8]) {
    use ondisk::brt::{BrtVdev, counts, encode_counts, parse_object_name, refcount};
    if let Some(vdev) = round(data, BrtVdev::decode, BrtVdev::encode) {
        let _ = (vdev.count_order(), vdev.counts_len());
    }
    round(data, counts, |counts, order| encode_counts(counts, order));
    let (endian, data) = split(data);
    let _ = refcount(data, endian);
    let _ = parse_object_name(&String::from_utf8_lossy(data));
}

fn ddt(data: &[u8]) {
    use ondisk::ddt::{DdtBookmark, DdtKey, Histogram, Value};
    round(data, DdtKey::decode, DdtKey::encode);
    round(data, DdtBookmark::decode, DdtBookmark::encode);
    for flat in [false, true] {
        let Ok(value) = Value::unpack(data.get(1..).unwrap_or(data), flat) else { continue };
        let _ = value.total_refcount();
        for endian in [Endian::Little, Endian::Big] {
            let again = Value::unpack(&value.pack(endian), flat);
            assert_eq!(again, Ok(value), "packing changes the value");
        }
    }
    if let Ok(histogram) = Histogram::from_words(&words(data)) {
        let _ = histogram.to_words();
    }
}

fn ddt_log(data: &[u8]) {
    use ondisk::Writer;
    use ondisk::ddt::log::{LogHeader, LogRecord, records};
    if let Some(header) = round(data, LogHeader::decode, LogHeader::encode) {
        let _ = (header.version(), header.flags(), header.valid_checkpoint());
    }
    for flat in [false, true] {
        let all = |bytes: &[u8], order| records(bytes, order, flat).collect::<Result<Vec<_>, _>>();
        let write = |all: &Vec<LogRecord>, order| {
            let mut w = Writer::new(order);
            all.iter().for_each(|record| record.write(&mut w));
            w.into_bytes()
        };
        let found = round(data, all, write).unwrap_or_default();
        assert!(found.len() <= data.len() / LogRecord::size(flat));
        let _ = found.iter().filter(|record| record.class().is_some()).count();
    }
}

fn errlog(data: &[u8]) {
    use ondisk::errlog::{HeadEntry, Zbookmark};
    round(data, Zbookmark::decode, Zbookmark::encode);
    round(data, HeadEntry::decode, HeadEntry::encode);
    let text = String::from_utf8_lossy(data);
    if let Some(place) = Zbookmark::parse_log_key(&text) {
        assert_eq!(Zbookmark::parse_log_key(&place.log_key()), Some(place));
    }
    if let Some(place) = HeadEntry::parse_log_key(&text) {
        assert_eq!(HeadEntry::parse_log_key(&place.log_key()), Some(place));
    }
}

/// Header and log in one: the header is the bonus, what follows it the object's data.
fn history(data: &[u8]) {
    use ondisk::history::HistoryPhys;
    let Some(header) = round(data, HistoryPhys::decode, HistoryPhys::encode) else { return };
    let log = data.get(41..).unwrap_or(&[]);
    let read = |at: u64, len: u64| {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let end = from.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
        Ok::<_, Error>(log.get(from..end).unwrap_or(&[]).to_vec())
    };
    // The header can make the ring larger than the data; then reading it ends in an error. Each
    // record takes at least a length and a byte.
    let count = header.records(read).count();
    assert!(count <= log.len() + 1, "{count} records in {} bytes", log.len());
}

fn indirect(data: &[u8]) {
    use ondisk::indirect::{
        BirthEntry, BirthsHeader, CondensingState, MappingEntry, MappingHeader, RemovalState,
        births, find, mapping, obsolete_counts,
    };
    let header = round(data, MappingHeader::decode, MappingHeader::encode);
    round(data, MappingEntry::decode, MappingEntry::encode);
    round(data, BirthsHeader::decode, BirthsHeader::encode);
    round(data, BirthEntry::decode, BirthEntry::encode);
    round(data, CondensingState::decode, CondensingState::encode);
    if let Some(state) = round(data, RemovalState::decode, RemovalState::encode) {
        let _ = state.state();
    }
    let (endian, data) = split(data);
    let _ = (births(data, endian).count(), obsolete_counts(data, endian));
    let Some(entries) = header.and_then(|header| mapping(&header, data, endian).ok()) else {
        return;
    };
    for entry in &entries {
        assert_eq!(find(&entries, entry.src), Some(entry));
        let _ = find(&entries, entry.src_end());
    }
}

fn redaction(data: &[u8]) {
    use ondisk::redaction::{RedactBlock, RedactionHeader, entries};
    if let Some(header) = round(data, RedactionHeader::decode, RedactionHeader::encode) {
        let _ = header.is_complete();
    }
    if let Some(block) = round(data, RedactBlock::decode, RedactBlock::encode) {
        let _ = (block.block_size(), block.count());
    }
    let (endian, data) = split(data);
    let _ = entries(data, endian).count();
}

fn scan(data: &[u8]) {
    use ondisk::scan::{ErrorScrubState, RebuildState, ScanState};
    if let Some(scan) = round(data, ScanState::decode, ScanState::encode) {
        let _ = (scan.function(), scan.state());
    }
    if let Some(scrub) = round(data, ErrorScrubState::decode, ErrorScrubState::encode) {
        let _ = (scrub.function(), scrub.state());
    }
    round(data, RebuildState::decode, RebuildState::encode);
}

fn spacemap(data: &[u8]) {
    use ondisk::spacemap::{SpaceMapHeader, entries};
    round(data, SpaceMapHeader::decode, SpaceMapHeader::encode);
    let (endian, log) = split(data);
    for (start, shift) in [(0, 9), (u64::MAX, 12), (1 << 40, 63), (0, 255)] {
        let count = entries(log, endian, start, shift).count();
        assert!(count <= log.len() / 8 + 1);
    }
}

/// Numbers under names: the state of an expansion, and properties.
fn state(data: &[u8]) {
    use ondisk::expand::Expansion;
    use ondisk::props;
    let words = words(data);
    let at = |i: usize| words.get(i).copied();
    let keys = Expansion::gather(|_| Some(0)).map(|e| e.entries()).unwrap_or_default();
    let place = |key: &str| keys.iter().position(|(k, _)| *k == key);
    if let Some(expansion) = Expansion::gather(|key| place(key).and_then(at)) {
        let again = expansion.entries();
        let lookup = |key: &str| again.iter().find(|(k, _)| *k == key).map(|(_, n)| *n);
        assert_eq!(Expansion::gather(lookup), Some(expansion));
    }
    for number in &words {
        let _ = (props::compression_parts(*number), props::dedup_parts(*number));
        for name in ["compression", "checksum", "dedup", "recordsize", "acltype", "mountpoint"] {
            let Some(property) = props::find_dataset(name) else { continue };
            let word = property.word(*number);
            assert!(word.is_none_or(|word| property.number(word).is_some()), "{name} {number}");
        }
    }
    let text = String::from_utf8_lossy(data);
    let _ = (props::find_dataset(&text), props::is_user_property(&text));
}
