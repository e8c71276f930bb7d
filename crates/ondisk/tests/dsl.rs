//! Structures of the DSL and the pool's bookkeeping, against bytes that OpenZFS 2.3.2 wrote.
//!
//! The samples are dnodes (512 bytes) and parts of objects' data, named `<pool>-<object>`, cut from
//! the corpus; the figures they are compared with are what zdb prints for the same objects.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ondisk::bookmark::{Bookmark, BookmarkExtra};
use ondisk::bpobj::{self, BpobjHeader, Space, Subobjs};
use ondisk::brt::BrtVdev;
use ondisk::ddt::{self, Class, DdtKey, Histogram, LegacyValue, Stat, Value};
use ondisk::deadlist::{DeadlistHeader, Form};
use ondisk::dsl::{DslDataset, DslDir};
use ondisk::indirect::{self, MappingEntry, MappingHeader, RemovalState};
use ondisk::redaction::{RedactBlock, RedactionHeader};
use ondisk::scan::{ErrorScrubState, Function, ScanState, State};
use ondisk::spacemap::{self, Action, Encoder, Entry, Range, SpaceMapHeader};
use ondisk::{Checksum, Compression, DmuType, Dnode, Endian, Uberblock, checkpoint};

const LITTLE: Endian = Endian::Little;
const BOTH: [Endian; 2] = [Endian::Little, Endian::Big];

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("data/dsl/", $name)).as_slice()
    };
}

fn dnode(bytes: &[u8]) -> Dnode {
    let dnode = Dnode::decode(bytes, LITTLE).unwrap();
    assert_eq!(dnode.encode(LITTLE), bytes, "a dnode survives");
    dnode
}

/// Decodes a structure of words in the order the sample is in, and checks that both orders
/// give its bytes back.
macro_rules! exact {
    ($t:ty, $bytes:expr) => {{
        let bytes: &[u8] = $bytes;
        let value = <$t>::decode(bytes, LITTLE).unwrap();
        assert_eq!(value.encode(LITTLE), bytes);
        let big = value.encode(Endian::Big);
        assert_eq!(<$t>::decode(&big, Endian::Big).unwrap(), value);
        value
    }};
}

#[test]
fn a_directory() {
    let dn = dnode(sample!("history-260.dnode"));
    assert_eq!(dn.bonus_kind, DmuType::DSL_DIR);
    let dir = exact!(DslDir, &dn.bonus);
    assert_eq!(
        (dir.head_dataset, dir.parent, dir.origin, dir.child_zap, dir.props_zap),
        (263, 32, 48, 262, 261)
    );
    assert_eq!((dir.used, dir.compressed, dir.uncompressed), (50688, 35328, 166_400));
    assert_eq!((dir.quota, dir.reserved, dir.deleg_zap, dir.clones), (0, 0, 0, 0));
    assert_eq!(dir.flags, DslDir::FLAG_USED_BREAKDOWN);
    assert_eq!(dir.used_breakdown, [50688, 0, 0, 0, 0]);
    assert_eq!(dir.used_breakdown[DslDir::USED_HEAD], dir.used);
    assert_eq!(DslDir::SIZE, 256);

    // A clone of the promoted file system: `clones` of one and `origin` of the other.
    let promoted = exact!(DslDir, &dnode(sample!("history-197.dnode")).bonus);
    assert_ne!(promoted.clones, 0);
}

#[test]
fn a_snapshot_and_a_head() {
    let dn = dnode(sample!("history-87.dnode"));
    assert_eq!(dn.bonus_kind, DmuType::DSL_DATASET);
    let ds = exact!(DslDataset, &dn.bonus);
    assert_eq!(DslDataset::SIZE, 320);
    assert_eq!((ds.dir, ds.prev_snap, ds.prev_snap_txg, ds.next_snap), (197, 48, 1, 91));
    assert_eq!((ds.snapnames_zap, ds.num_children, ds.creation_txg), (0, 1, 11));
    assert_eq!((ds.deadlist, ds.referenced, ds.compressed), (82, 378_880, 348_672));
    assert_eq!((ds.uncompressed, ds.unique), (972_800, 32_256));
    assert_eq!((ds.fsid_guid, ds.guid), (35_991_397_159_071_850, 18_375_021_870_441_279_115));
    assert_eq!((ds.flags, ds.next_clones, ds.props, ds.userrefs), (4, 0, 0, 0));
    assert!(ds.is_snapshot() && !ds.is_inconsistent());
    assert_eq!(format!("{:?}", ds.bp.dva(1)), "0:1028200:200");
    assert_eq!((ds.bp.logical_birth(), ds.bp.fill()), (11, 49));

    let head = exact!(DslDataset, &dnode(sample!("history-80.dnode")).bonus);
    assert!(!head.is_snapshot());
    assert_ne!(head.snapnames_zap, 0);
}

#[test]
fn version_28_has_the_same_structures() {
    let dir = exact!(DslDir, &dnode(sample!("version28-67.dnode")).bonus);
    assert_eq!((dir.parent, dir.head_dataset), (32, 70));
    let ds = exact!(DslDataset, &dnode(sample!("version28-70.dnode")).bonus);
    assert_eq!(ds.dir, 67);
}

#[test]
fn a_livelist() {
    let dn = dnode(sample!("history-190.dnode"));
    assert_eq!((dn.kind, dn.bonus_kind), (DmuType::BPOBJ, DmuType::BPOBJ_HDR));
    let header = exact!(BpobjHeader, &dn.bonus);
    assert_eq!((header.num_blkptrs, header.num_freed), (11, Some(1)));
    assert_eq!(header.subobjs, Some(Subobjs::default()));
    let space = Space { used: 34816, compressed: 25088, uncompressed: 59904 };
    assert_eq!(header.space(), space);
    assert!(!header.is_empty());

    let data = sample!("history-190.entries");
    assert_eq!(header.data_len(), Ok(data.len() as u64));
    let entries: Vec<_> = bpobj::entries(data, LITTLE).map(Result::unwrap).collect();
    assert_eq!(entries.iter().filter(|e| e.is_freed()).count(), 1);
    assert!(entries[10].is_freed());
    assert_eq!(entries[10].0.dva(0), entries[8].0.dva(0), "allocated, then freed");
    for e in &entries {
        assert_eq!(e.0.checksum(), [0; 4]);
        assert_eq!(bpobj::Entry::new(&e.0, e.is_freed()), *e, "already stripped");
    }
    // A livelist's sums are of what is live: frees are taken off.
    let mut sums = [0; 2];
    for e in &entries {
        for (sum, size) in sums.iter_mut().zip(e.0.accounted_sizes()) {
            *sum += size.cast_signed() * if e.is_freed() { -1 } else { 1 };
        }
    }
    assert_eq!(sums, [25088, 59904]);
}

#[test]
fn forms_of_the_bpobj_header() {
    let header = exact!(BpobjHeader, &dnode(sample!("history-41.dnode")).bonus);
    assert_eq!((header.num_freed, header.is_empty()), (None, true));
    let full = exact!(BpobjHeader, &dnode(sample!("history-189.dnode")).bonus).encode(LITTLE);
    for size in bpobj::HEADER_SIZES {
        let h = exact!(BpobjHeader, &full[..size]);
        assert_eq!((h.num_blkptrs, h.bytes), (11, 19456));
        assert_eq!(h.accounting.is_some(), size >= 32);
        assert_eq!(h.subobjs.is_some(), size >= 48);
        assert_eq!(h.num_freed.is_some(), size >= 56);
    }
    let old = BpobjHeader::decode(&full[..16], LITTLE).unwrap();
    assert_eq!(old.space().compressed, old.space().used);
    assert!(BpobjHeader::decode(&full[..15], LITTLE).is_err());
    let numbers: Vec<_> = bpobj::subobj_numbers(&[0, 0, 0, 0, 0, 0, 1, 2], Endian::Big).collect();
    assert_eq!(numbers, [258]);
}

#[test]
fn a_dead_list() {
    let dn = dnode(sample!("history-88.dnode"));
    assert_eq!(Form::of(dn.bonus_kind), Some(Form::Zap));
    let header = exact!(DeadlistHeader, &dn.bonus);
    assert_eq!(DeadlistHeader::SIZE, 320);
    assert_eq!(DeadlistHeader::new(header.space()), header);
    assert!(header.used > 0 && header.compressed <= header.used);
}

/// Replays a map and checks that the sum of allocations is the header's.
fn replay(dn: &[u8], words: &[u8], start: u64, shift: u8) -> Vec<Entry> {
    let dn = dnode(dn);
    assert_eq!((dn.kind, dn.bonus_kind), (DmuType::SPACE_MAP, DmuType::SPACE_MAP_HEADER));
    let header = exact!(SpaceMapHeader, &dn.bonus);
    assert_eq!(header.length, words.len() as u64);
    let entries: Vec<_> =
        spacemap::entries(words, LITTLE, start, shift).map(Result::unwrap).collect();
    let sum: i64 = entries
        .iter()
        .map(|e| match e {
            Entry::Range(r) if r.action == Action::Alloc => r.size.cast_signed(),
            Entry::Range(r) => -r.size.cast_signed(),
            Entry::Debug { .. } => 0,
        })
        .sum();
    assert_eq!(sum, header.allocated);

    // Written again, the same changes are the same words.
    let mut w = Encoder::new(start, shift, true, dn.block_size() as usize, 0);
    for e in &entries {
        match *e {
            Entry::Range(r) => w.range(r).unwrap(),
            Entry::Debug { action: 0, txg: 0, .. } => {}
            Entry::Debug { action, syncpass, txg } => {
                w.debug([Action::Alloc, Action::Free][usize::from(action)], syncpass, txg);
            }
        }
    }
    assert_eq!(w.finish(LITTLE), words);
    entries
}

#[test]
fn the_space_map_of_a_metaslab() {
    let entries = replay(sample!("removed-81.dnode"), sample!("removed-81.words"), 0, 9);
    let range = |action, offset, size| Entry::Range(Range { action, vdev: None, offset, size });
    assert_eq!(entries[0], Entry::Debug { action: 0, syncpass: 1, txg: 5 });
    assert_eq!(entries[1], range(Action::Alloc, 0, 0x2e00));
    assert_eq!(entries[4], Entry::Debug { action: 0, syncpass: 1, txg: 9 });
    assert_eq!(entries[10], Entry::Debug { action: 1, syncpass: 1, txg: 9 });
    assert_eq!(entries[11], range(Action::Free, 0x1400, 0x1a00));
    assert_eq!(entries[17], range(Action::Alloc, 0x15600, 0x1a200));

    let header = SpaceMapHeader::decode(&dnode(sample!("removed-81.dnode")).bonus, LITTLE).unwrap();
    let histogram = header.histogram.unwrap();
    // zdb: "9: 9, 10: 10, 11: 14, ...", the index being log2 of bytes.
    assert_eq!(histogram[..8], [9, 10, 14, 10, 14, 11, 3, 0]);
    assert_eq!((histogram[14], header.length), (1, 0x618));
}

#[test]
fn space_maps_without_histogram() {
    replay(sample!("version28-64.dnode"), sample!("version28-64.words"), 0, 9);
    replay(sample!("version28-65.dnode"), sample!("version28-65.words"), 1 << 24, 9);
    let dn = dnode(sample!("version28-64.dnode"));
    assert_eq!(dn.bonus.len(), spacemap::HEADER_SIZE_V0);
}

#[test]
fn a_log_space_map_names_the_vdev() {
    let words = sample!("ziluncle-133.words");
    let entries = replay(sample!("ziluncle-133.dnode"), words, 0, spacemap::LOG_SHIFT);
    let ranges: Vec<_> = entries
        .iter()
        .filter_map(|e| match e {
            Entry::Range(r) => Some(r),
            Entry::Debug { .. } => None,
        })
        .collect();
    assert_eq!(ranges.len(), 29, "as zdb counts them");
    assert!(ranges.iter().all(|r| r.vdev == Some(0)));
}

#[test]
fn an_indirect_mapping() {
    let header = exact!(MappingHeader, &dnode(sample!("removed-122.dnode")).bonus);
    assert_eq!((header.max_offset, header.bytes_mapped), (0x1c_d600, 0x1c_4400));
    assert_eq!((header.num_entries, header.counts_object), (2, Some(0x7b)));
    let data = sample!("removed-122.entries");
    let mapping = indirect::mapping(&header, data, LITTLE).unwrap();
    assert_eq!(mapping.iter().map(MappingEntry::size).sum::<u64>(), header.bytes_mapped);
    assert_eq!((mapping[0].src, mapping[0].dst.vdev()), (6 * 512, 2));
    assert_eq!(mapping[0].dst.offset(), 0xe37 * 512);
    assert_eq!(mapping.last().map(MappingEntry::src_end), Some(header.max_offset));
    let bytes: Vec<u8> = mapping.iter().flat_map(|e| e.encode(LITTLE)).collect();
    assert_eq!(bytes, data);

    assert_eq!(indirect::find(&mapping, 0), None);
    assert_eq!(indirect::find(&mapping, mapping[0].src), Some(&mapping[0]));
    assert_eq!(indirect::find(&mapping, mapping[0].src_end() - 1), Some(&mapping[0]));
    assert_eq!(indirect::find(&mapping, mapping[1].src + 512), Some(&mapping[1]));
    assert_eq!(indirect::find(&mapping, header.max_offset), None);

    let mut swapped = data[24..].to_vec();
    swapped.extend_from_slice(&data[..24]);
    assert!(indirect::mapping(&header, &swapped, LITTLE).is_err(), "not sorted");
    assert!(indirect::mapping(&header, &data[..47], LITTLE).is_err(), "not all there");

    let counts = indirect::obsolete_counts(sample!("removed-123.entries"), LITTLE).unwrap();
    assert_eq!(counts.len(), 2);
    let births: Vec<_> = indirect::births(sample!("removed-124.entries"), LITTLE).collect();
    let birth = births[0].clone().unwrap();
    assert_eq!((births.len(), birth.offset, birth.txg), (1, 0x1c_d600, 0x2a));
    let header = exact!(indirect::BirthsHeader, &dnode(sample!("removed-124.dnode")).bonus);
    assert_eq!(header.count, 1);
}

#[test]
fn the_state_of_a_removal() {
    // `com.delphix:removing` of the same pool, as zdb prints the entry.
    let words = [2, 1, 1, 1_795_296_185, 1_795_296_185, 1_710_592, 1_710_592];
    let r = RemovalState::from_words(&words).unwrap();
    assert_eq!(
        (r.state(), r.vdev, r.to_copy, r.copied),
        (State::Finished, 1, 1_710_592, 1_710_592)
    );
    assert_eq!(r.to_words(), words);
    assert!(RemovalState::from_words(&words[..6]).is_err());
}

#[test]
fn the_state_of_a_scrub() {
    // `scan` and `error_scrub` of the pool `expanded`, as zdb prints the entries.
    let words = [
        1,
        2,
        0,
        0,
        50,
        19,
        50,
        1_795_289_267,
        1_795_289_268,
        30_269_440,
        30_269_440,
        368_640,
        0,
        0,
        1,
        3,
        0,
        0,
        0,
        u64::MAX,
        0,
        0,
        0,
        0,
    ];
    let s = ScanState::from_words(&words).unwrap();
    assert_eq!(ScanState::WORDS, 24);
    assert_eq!((s.function(), s.state()), (Function::Scrub, State::Finished));
    assert_eq!((s.max_txg, s.to_examine, s.examined), (50, 30_269_440, 30_269_440));
    assert_eq!((s.skipped, s.errors, s.ddt_class_max), (368_640, 0, 1));
    assert_eq!((s.ddt_bookmark.class, s.bookmark.objset, s.flags), (3, u64::MAX, 0));
    assert_eq!(s.to_words(), words);
    assert_eq!(s.with(s.function(), s.state()), s);
    assert_eq!(ErrorScrubState::from_words(&[0; 9]).unwrap().state(), State::None);
}

/// `scan` of a mirror of which one side was away from txg 8 to 22, after OpenZFS had brought it
/// what it lacked: both txgs are outside of what was missed.
#[test]
fn the_state_of_a_resilver() {
    let words = [
        2,
        2,
        0,
        7,
        23,
        7,
        23,
        1_795_768_121,
        1_795_768_123,
        26_693_632,
        9_560_064,
        0,
        9_732_096,
        0,
        0,
        3,
        0,
        0,
        0,
        u64::MAX,
        0,
        0,
        0,
        0,
    ];
    let s = ScanState::from_words(&words).unwrap();
    assert_eq!((s.function(), s.state()), (Function::Resilver, State::Finished));
    assert_eq!((s.min_txg, s.max_txg), (7, 23));
    // More than was examined: a metadata block is written once for each of its copies.
    assert_eq!((s.examined, s.skipped, s.processed), (9_560_064, 0, 9_732_096));
    assert_eq!(s.to_words(), words);
}

/// Splits a sample of table entries: key (5 words), length (16 bits), packed value.
fn ddt_values(mut data: &[u8]) -> Vec<(DdtKey, Vec<u8>)> {
    let mut out = Vec::new();
    while !data.is_empty() {
        let key = DdtKey::decode(data, LITTLE).unwrap();
        let len = usize::from(u16::from_le_bytes([data[40], data[41]]));
        out.push((key, data[42..42 + len].to_vec()));
        data = &data[42 + len..];
    }
    out.sort();
    out
}

#[test]
fn legacy_table_entries() {
    let entries = ddt_values(sample!("dedup-legacy-89.values"));
    assert_eq!(entries.len(), 30);
    for (key, packed) in &entries {
        let value = Value::unpack(packed, false).unwrap();
        assert_eq!(value.pack(LITTLE), *packed, "packed as OpenZFS packs");
        let big = value.pack(Endian::Big);
        assert_eq!(Value::unpack(&big, false).unwrap(), value);
        assert_eq!(DdtKey::from_words(&key.to_words()).as_ref(), Ok(key));
    }
    // zdb: "index 1005f0555ea9e refcnt 2 phys 1 DVA[0]=<0:52800:200> ... size=8000L/200P birth=13L"
    let (key, packed) = &entries[0];
    assert_eq!(key.checksum[0], 0x005f_0555_ea9e_7d58);
    assert_eq!((key.lsize(), key.psize()), (0x8000, 0x200));
    assert_eq!((key.compression(), key.uses_crypt()), (Compression::LZ4, false));
    let Value::Legacy(v) = Value::unpack(packed, false).unwrap() else { panic!("legacy") };
    let single = v.variants()[1];
    assert_eq!((single.refcount, single.physical_birth), (2, 13));
    assert_eq!(format!("{:?}", single.dva(0)), "0:52800:200");
    assert_eq!(v.total_refcount(), 2);
    assert_eq!(LegacyValue::SIZE, 256);
    let references: u64 =
        entries.iter().map(|(_, p)| Value::unpack(p, false).unwrap().total_refcount()).sum();
    assert_eq!(references, 40 + 43 + 32, "the histogram's sum");
}

#[test]
fn flat_table_entries() {
    let all = [sample!("dedup-clone-110.values"), sample!("dedup-clone-111.values")];
    let entries: Vec<_> = all.into_iter().flat_map(ddt_values).collect();
    assert_eq!(entries.len(), 31 + 121);
    for (_, packed) in &entries {
        let value = Value::unpack(packed, true).unwrap();
        assert_eq!(value.pack(LITTLE), *packed, "packed as OpenZFS packs");
    }
    // zdb: "index 100ded27d05c7 refcnt 20 phys 0 DVA[0]=<0:19c00:200> ... birth=10L"
    let Value::Flat(v) = Value::unpack(&entries[0].1, true).unwrap() else { panic!("flat") };
    assert_eq!(entries[0].0.checksum[0], 0x00de_d27d_05c7_7b39);
    assert_eq!((v.refcount, v.physical_birth), (20, 10));
    assert_eq!(format!("{:?}", v.dva(0)), "0:19c00:200");
    assert!(v.class_start > 1_700_000_000);
    assert!(Value::unpack(&[0x83, 1, 2], true).is_err(), "a compression that does not occur");
}

#[test]
fn table_names_and_histograms() {
    assert_eq!(ddt::directory_name(Checksum::SHA256).as_deref(), Some("DDT-sha256"));
    let name = ddt::object_name(Checksum::BLAKE3, Class::Duplicate);
    assert_eq!(name.as_deref(), Some("DDT-blake3-zap-duplicate"));
    assert_eq!(ddt::log_name(Checksum::SKEIN, 1).as_deref(), Some("DDT-log-skein-1"));
    assert_eq!(ddt::object_name(Checksum(77), Class::Unique), None);
    for class in Class::ALL {
        assert_eq!(Class::from_number(class.number()), Some(class));
    }
    // `DDT-blake3-zap-unique` under `DDT-statistics` of the pool `dedup-legacy`.
    let mut words = vec![40, 1_088_000, 297_984, 297_984, 40, 1_088_000, 297_984, 297_984];
    words.resize(Histogram::WORDS, 0);
    let h = Histogram::from_words(&words).unwrap();
    assert_eq!((h.buckets[0].blocks, h.buckets[0].ref_dsize), (40, 297_984));
    assert_eq!(h.buckets[1], Stat::default());
    assert_eq!(h.to_words(), words);
    assert!(Histogram::from_words(&words[1..]).is_err());
}

#[test]
fn a_table_log() {
    let dn = dnode(sample!("dedup-clone-89.dnode"));
    let header = exact!(ddt::log::LogHeader, &dn.bonus);
    assert_eq!((header.version(), header.flags()), (1, ddt::log::LogHeader::FLAG_FLUSHING));
    assert_eq!((header.length, header.first_txg), (0, 0x12));
    assert_eq!(header.valid_checkpoint(), None);
    assert_eq!(header.with(1, 1), header);

    // No pool of the corpus was left with records in its logs: ours, there and back.
    for endian in BOTH {
        let mut w = ondisk::Writer::new(endian);
        let mut put = Vec::new();
        for (key, packed) in ddt_values(sample!("dedup-clone-110.values")) {
            let value = Value::unpack(&packed, true).unwrap();
            let record = ddt::log::LogRecord { kind: 0, class_number: 1, key, value };
            assert_eq!(record.class(), Some(Class::Duplicate));
            record.write(&mut w);
            put.push(record);
        }
        let mut block = w.into_bytes();
        assert_eq!(block.len(), put.len() * ddt::log::LogRecord::size(true));
        block.extend_from_slice(&[0; 100]);
        let got: Vec<_> = ddt::log::records(&block, endian, true).map(Result::unwrap).collect();
        assert_eq!(got, put);
        let wrong = ddt::log::records(&block, endian, false).next();
        assert!(matches!(wrong, Some(Err(_))), "the length tells the generation");
    }
}

#[test]
fn block_references() {
    let dn = dnode(sample!("dedup-clone-147.dnode"));
    let vdev = exact!(BrtVdev, &dn.bonus);
    assert_eq!((vdev.entries, vdev.size, vdev.total_count), (0x92, 7, 17));
    assert_eq!((vdev.range_size, vdev.used_space), (ondisk::brt::RANGE_SIZE, 0x3_da00));
    assert_eq!(vdev.saved_space, 0x5_2400);
    let order = vdev.count_order().unwrap();
    let counts = ondisk::brt::counts(sample!("dedup-clone-147.counts"), order).unwrap();
    assert_eq!(counts, [17, 0, 0, 0, 0, 0, 0]);
    assert_eq!(vdev.counts_len(), 14);
    assert_eq!(ondisk::brt::refcount(&[4, 0, 0, 0, 0, 0, 0, 0], order), Ok(4));
}

#[test]
fn bookmarks() {
    let v1 = Bookmark::from_words(&[1, 2, 3]).unwrap();
    assert_eq!(v1, Bookmark { guid: 1, creation_txg: 2, creation_time: 3, extra: None });
    assert_eq!(v1.to_words(), [1, 2, 3]);
    let words: Vec<u64> = (1..=12).collect();
    let v2 = Bookmark::from_words(&words).unwrap();
    assert_eq!(v2.to_words(), words);
    let extra = v2.extra.unwrap();
    assert_eq!((extra.redaction_obj, extra.flags, extra.ivset_guid), (4, 5, 12));
    assert_eq!(extra.flags & BookmarkExtra::FLAG_HAS_FREED, 1);
    assert_eq!(extra.referenced(), Space { used: 6, compressed: 7, uncompressed: 8 });
    let freed = extra.freed_before_next_snap();
    assert_eq!(freed, Space { used: 9, compressed: 10, uncompressed: 11 });
    assert_eq!(BookmarkExtra::default().with_spaces(extra.referenced(), freed).to_words()[2], 6);
    // `mark` of the file system `past/work`, as zdb prints the entry and `zfs get` its figures.
    let guid = 9_539_509_952_851_871_713;
    let words = [
        guid,
        23,
        1_795_289_362,
        0,
        3,
        1_268_224,
        1_185_792,
        2_881_536,
        77_312,
        56_320,
        109_568,
        0,
    ];
    let mark = Bookmark::from_words(&words).unwrap();
    assert_eq!((mark.guid, mark.creation_txg, mark.creation_time), (guid, 23, 1_795_289_362));
    let extra = mark.extra.unwrap();
    let flags = BookmarkExtra::FLAG_HAS_FREED | BookmarkExtra::FLAG_SNAPSHOT_EXISTS;
    assert_eq!((extra.flags, extra.redaction_obj), (flags, 0));
    assert_eq!(extra.referenced().used, 1_268_224, "referenced");
    assert_eq!(extra.referenced().uncompressed, 2_881_536, "logicalreferenced");
    for n in [0, 2, 4, 11] {
        assert!(Bookmark::from_words(&words[..n]).is_err(), "{n} words");
    }
    assert_eq!(Bookmark::WORDS_V2, 12);
}

#[test]
fn redaction_lists() {
    for endian in BOTH {
        let h = RedactionHeader {
            last_object: u64::MAX,
            last_blkid: u64::MAX,
            num_entries: 1,
            snapshots: vec![7, 8],
        };
        assert_eq!(RedactionHeader::decode(&h.encode(endian), endian).as_ref(), Ok(&h));
        assert!(h.is_complete());
        assert!(RedactionHeader::decode(&h.encode(endian)[..40], endian).is_err());
        let b = RedactBlock::new(3, 5, 128 << 10, 9);
        assert_eq!((b.block_size(), b.count()), (128 << 10, 9));
        let bytes = b.encode(endian);
        assert_eq!(bytes.len(), 32);
        let all: Vec<_> = ondisk::redaction::entries(&bytes, endian).collect();
        assert_eq!(all, [Ok(b)]);
    }
}

#[test]
fn the_uberblock_of_a_checkpoint() {
    // `com.delphix:zpool_checkpoint` of the pool `checkpoint`, as zdb prints the entry.
    let words = [
        12_235_020,
        5000,
        40,
        669_491_852_828_899_685,
        1_795_289_860,
        1,
        9798,
        1,
        34155,
        1,
        66209,
        (-9_220_268_051_105_054_713i64).cast_unsigned(),
        0,
        0,
        0,
        31,
        71,
        46_436_545_455,
        4_854_955_246_347,
        258_075_437_176_561,
        9_301_684_216_501_966,
        5000,
        2_703_026_705,
        0,
        0,
        40,
        0,
    ];
    assert_eq!(words.len(), checkpoint::WORDS);
    for endian in BOTH {
        let bytes = checkpoint::uberblock_bytes(&words, endian).unwrap();
        assert_eq!(checkpoint::uberblock_words(&bytes, endian).unwrap(), words);
    }
    let decode = |words: &[u64]| {
        let bytes = checkpoint::uberblock_bytes(words, LITTLE).unwrap();
        Uberblock::decode(&bytes).unwrap().0
    };
    let ub = decode(&words);
    assert_eq!((ub.txg, ub.checkpoint_txg, ub.rootbp.logical_birth()), (40, 40, 31));
    assert_eq!(decode(&words[..26]), ub, "an old pool has fewer words");
    assert!(checkpoint::uberblock_bytes(&words[1..], LITTLE).is_err(), "bad magic");
    assert!(checkpoint::uberblock_bytes(&words[..20], LITTLE).is_err(), "too short");
}

#[test]
fn long_ranges_are_split_and_pairs_stay_in_one_block() {
    let range = |vdev, offset, size| Range { action: Action::Free, vdev, offset, size };
    let decode = |bytes: &[u8], start, shift| -> Vec<Entry> {
        spacemap::entries(bytes, Endian::Big, start, shift).map(Result::unwrap).collect()
    };
    // One word each, without the feature.
    let mut w = Encoder::new(1 << 20, 9, false, 4096, 0);
    w.range(range(None, 1 << 20, 512 * ((1 << 15) + 3))).unwrap();
    assert!(w.range(range(Some(1), 1 << 20, 512)).is_err(), "a vdev needs two words");
    assert!(w.range(range(None, 0, 512)).is_err(), "before the map");
    assert!(w.range(range(None, 1 << 20, 0)).is_err(), "empty");
    assert!(w.range(range(None, (1 << 20) + 1, 512)).is_err(), "not whole units");
    let got = decode(&w.finish(Endian::Big), 1 << 20, 9);
    let first = range(None, 1 << 20, 512 << 15);
    let second = range(None, (1 << 20) + (512 << 15), 512 * 3);
    assert_eq!(got, [Entry::Range(first), Entry::Range(second)]);

    // Two words, with a filler where a block ends.
    let mut w = Encoder::new(0, 9, true, 4096, 4096 - 8);
    w.range(range(Some(3), 512 << 20, 512 << 20)).unwrap();
    let bytes = w.finish(Endian::Big);
    assert_eq!(bytes.len(), 24);
    let pad = Entry::Debug { action: 0, syncpass: 0, txg: 0 };
    let got = decode(&bytes, 0, 9);
    assert_eq!(got, [pad, Entry::Range(range(Some(3), 512 << 20, 512 << 20))]);
}

mod hostile {
    //! Any bytes: an error or a value, never a panic; a value survives encoding.

    use super::*;
    use proptest::prelude::*;

    macro_rules! words_survive {
        ($($name:ident: $t:ty,)*) => {
            proptest! {
                $(#[test]
                fn $name(bytes in prop::collection::vec(any::<u8>(), 0..600), big: bool) {
                    let endian = BOTH[usize::from(big)];
                    if let Ok(v) = <$t>::decode(&bytes, endian) {
                        let again = v.encode(endian);
                        prop_assert_eq!(&again[..], &bytes[..again.len()]);
                        prop_assert_eq!(<$t>::decode(&again, endian), Ok(v));
                    }
                })*
            }
        };
    }

    words_survive! {
        dir: DslDir,
        dataset: DslDataset,
        bpobj_header: BpobjHeader,
        bptree_header: bpobj::bptree::BptreeHeader,
        bptree_entry: bpobj::bptree::BptreeEntry,
        deadlist: DeadlistHeader,
        brt: BrtVdev,
        ddt_key: DdtKey,
        ddt_legacy: LegacyValue,
        ddt_flat: ddt::FlatValue,
        ddt_log: ddt::log::LogHeader,
        births_header: indirect::BirthsHeader,
        redact_block: RedactBlock,
        scan: ScanState,
        rebuild: ondisk::scan::RebuildState,
        condensing: indirect::CondensingState,
        mapping_header: MappingHeader,
        space_map: SpaceMapHeader,
        redaction_header: RedactionHeader,
    }

    proptest! {
        #[test]
        fn space_map_entries(words in prop::collection::vec(any::<u64>(), 0..200),
                             start: u64, shift in 0u8..70, tail in 0usize..8) {
            let mut w = ondisk::Writer::new(LITTLE);
            w.words(&words).zeros(tail);
            let bytes = w.into_bytes();
            for e in spacemap::entries(&bytes, LITTLE, start, shift).flatten() {
                if let Entry::Range(r) = e {
                    prop_assert!(r.size > 0 && r.offset >= start);
                    prop_assert!(r.offset.checked_add(r.size).is_some());
                }
            }
        }

        #[test]
        fn space_map_ranges_survive(ranges in prop::collection::vec(
            (any::<bool>(), prop::option::of(0u32..1 << 24), 0u64..1 << 48, 1u64..1 << 38), 0..40),
            at in (0u64..1000).prop_map(|n| n * 8))
        {
            let mut w = Encoder::new(0, 9, true, 512, at);
            let mut put = Vec::new();
            for (free, vdev, offset, size) in ranges {
                let action = if free { Action::Free } else { Action::Alloc };
                let r = Range { action, vdev, offset: offset * 512, size: size * 512 };
                w.range(r).unwrap();
                put.push(r);
            }
            let bytes = w.finish(LITTLE);
            let mut got: Vec<Range> = Vec::new();
            for e in spacemap::entries(&bytes, LITTLE, 0, 9) {
                match (e.unwrap(), got.last_mut()) {
                    (Entry::Debug { .. }, _) => {}
                    (Entry::Range(r), Some(l)) if l.offset + l.size == r.offset
                        && l.action == r.action && (l.size >> 9) % (1 << 36) == 0 =>
                    {
                        l.size += r.size;
                    }
                    (Entry::Range(r), _) => got.push(r),
                }
            }
            let plain = |v: &[Range]| -> Vec<_> {
                v.iter().map(|r| (r.action, r.vdev.unwrap_or(0), r.offset, r.size)).collect()
            };
            prop_assert_eq!(plain(&got), plain(&put));
        }

        #[test]
        fn ddt_packed(bytes in prop::collection::vec(any::<u8>(), 0..400), flat: bool) {
            if let Ok(v) = Value::unpack(&bytes, flat) {
                for endian in BOTH {
                    prop_assert_eq!(Value::unpack(&v.pack(endian), flat), Ok(v));
                }
            }
        }

        #[test]
        fn ddt_pack_any(
            words in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 72..=72),
        ) {
            let v = Value::decode(&words, LITTLE, true).unwrap();
            prop_assert_eq!(Value::unpack(&v.pack(LITTLE), true), Ok(v));
        }

        #[test]
        fn ddt_records(bytes in prop::collection::vec(any::<u8>(), 0..600), big: bool, flat: bool) {
            let n = ddt::log::records(&bytes, BOTH[usize::from(big)], flat).count();
            prop_assert!(n <= 1 + bytes.len() / 8);
        }

        #[test]
        fn lists(bytes in prop::collection::vec(any::<u8>(), 0..600), count: u64) {
            let _ = bpobj::entries(&bytes, LITTLE).count();
            let _ = bpobj::bptree::entry(&bytes, 0, count, LITTLE);
            let _ = ondisk::brt::counts(&bytes, LITTLE);
            let _ = indirect::obsolete_counts(&bytes, LITTLE);
            let header = MappingHeader { num_entries: count, ..MappingHeader::default() };
            let _ = indirect::mapping(&header, &bytes, LITTLE);
            let header = MappingHeader { num_entries: bytes.len() as u64 / 24, ..header };
            if let Ok(m) = indirect::mapping(&header, &bytes, LITTLE) {
                let _ = indirect::find(&m, count);
            }
        }
    }
}
