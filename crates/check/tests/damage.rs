//! One act of damage for each invariant, and the check names that invariant and no other.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use check::Issue;
use common::surgeon::{Surgeon, edit_word, objset};
use device::{FileDevice, Options, RwFileDevice};
use dmu::Object;
use ondisk::nvlist::NvValue;
use ondisk::{DmuType, mos};
use pool::UnguardedDatasets as _;
use std::sync::Arc;
use vdev::label::{Round, write_config};
use zpl::{FileKind, Filesystem, Node};

/// Bytes of attributes in a bonus of layout 2 (plain files and directories of OpenZFS), behind a
/// header of 8 bytes.
const SA_SIZE: usize = 16;
const SA_UID: usize = 32;
const SA_PARENT: usize = 48;
const SA_LINKS: usize = 128;

fn surgeon(case: &str) -> Surgeon {
    Surgeon::new(&testkit::corpus(case))
}

/// First file that `choose` takes, of any head or of the dataset `within`; its dataset and number.
fn find(s: &Surgeon, within: Option<u64>, choose: impl Fn(&Node) -> bool) -> (u64, u64) {
    let pool = s.open();
    for head in heads(&pool) {
        let Ok(fs) = pool
            .dsl()
            .objset(&head)
            .map_err(|_| ())
            .and_then(|o| Filesystem::open(o).map_err(|_| ()))
        else {
            continue;
        };
        let files = fs.objset().objects().filter_map(Result::ok);
        let mut files = files.filter_map(|o| Node::from_object(&fs, o).ok());
        let wanted = within.is_none_or(|w| w == head.object);
        if let Some(found) = files.find(&choose).filter(|_| wanted) {
            return (head.object, found.number());
        }
    }
    panic!("no such file");
}

fn heads(pool: &pool::Pool) -> Vec<dsl::Dataset> {
    let dirs = pool.dsl().walk().into_iter().filter_map(|(_, d)| d.ok());
    dirs.filter_map(|d| pool.dsl().head(&d).ok().flatten()).collect()
}

fn plain_file(s: &Surgeon, levels: u8) -> (u64, u64) {
    plain_file_in(s, levels, None)
}

fn plain_file_in(s: &Surgeon, levels: u8, within: Option<u64>) -> (u64, u64) {
    find(s, within, |n| {
        let d = n.object().dnode();
        n.kind() == FileKind::File
            && d.levels == levels
            && n.links == 1
            && n.flags & ondisk::znode::flags::XATTR == 0
            && d.bonus_kind == DmuType::SA
            && d.blkptrs.iter().any(|b| b.dvas().count() > 0)
    })
}

/// A head that is mounted somewhere in the middle: with snapshots and files.
fn a_head(s: &Surgeon) -> dsl::Dataset {
    let pool = s.open();
    heads(&pool).into_iter().find(|d| d.phys.prev_snap_txg > 1).expect("a head with a snapshot")
}

fn object(s: &Surgeon, (set, number): (u64, u64)) -> Object {
    objset(&s.open(), set).object(number).unwrap()
}

#[test]
fn an_untouched_copy_is_clean() {
    let s = surgeon("basic");
    assert_eq!(s.check(), [""; 0]);
    // Rewriting without a change proves the surgeon's own hand.
    let file = plain_file(&s, 2);
    s.edit_block(file, (1, 0), |_| {});
    assert_eq!(s.check(), [""; 0]);
}

#[test]
fn a_lost_data_block() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    let o = object(&s, file);
    let first = o.next_block(0).unwrap().unwrap();
    s.destroy(&o.block_pointer(0, first).unwrap().unwrap(), 0);
    let report = s.report();
    let names: Vec<_> = report.issues.iter().map(Issue::name).collect();
    assert_eq!(names, ["block-lost", "device-damaged"]);
    let Issue::BlockLost { at, .. } = &report.issues[0] else { panic!() };
    let place = (at.place.objset, at.place.object, at.place.level, at.place.blkid);
    assert_eq!(place, (file.0, file.1, 0, first));
    assert_eq!((report.blocks_lost, report.devices[0].lost), (1, 1));
}

#[test]
fn a_bad_copy_of_metadata() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    let bp = object(&s, file).block_pointer(1, 0).unwrap().unwrap();
    s.destroy(&bp, 0);
    let report = s.report();
    let names: Vec<_> = report.issues.iter().map(Issue::name).collect();
    assert_eq!(names, ["device-damaged"]);
    assert_eq!((report.devices[0].repairable, report.devices[0].lost), (1, 0));
}

/// A few KiB of pointers that lead to one block from many places claim exabytes: the check says so,
/// and ends.
#[test]
fn blocks_of_pointers_that_are_shared() {
    let s = surgeon("basic");
    let head = heads(&s.open()).into_iter().map(|d| d.object).find(|set| {
        let meta = objset(&s.open(), *set).meta_object();
        meta.is_some_and(|m| m.dnode().levels > 4)
    });
    let head = head.expect("the tree of dnodes is always high");
    for level in [2, 3, 4] {
        s.edit_block((head, 0), (level, 0), |block| {
            let (first, rest) = block.split_at_mut(128);
            rest.chunks_exact_mut(128).for_each(|slot| slot.copy_from_slice(first));
        });
    }
    let report = s.report();
    assert!(report.issues.iter().any(|i| i.name() == "double-allocation"));
    assert!(report.blocks_read < 10_000, "{} blocks", report.blocks_read);
    let all = objset(&s.open(), head).objects().take(100_000);
    let errors: Vec<_> = all.filter_map(Result::err).collect();
    assert!(errors.len() < 50_000, "{} errors", errors.len());
    let message = errors.first().expect("an error").to_string();
    assert!(message.contains("several places"), "{message}");
}

/// Counts the data blocks of a walk, and what is lost on its way.
#[derive(Default)]
struct Count {
    data: u64,
    lost: Vec<dmu::Error>,
}

impl dmu::Visitor for Count {
    fn enter(&mut self, bp: &ondisk::BlkPtr, place: dmu::Place) -> dmu::Step {
        self.data += u64::from(!bp.is_hole() && place.level == 0 && place.object != 0);
        dmu::Step::Descend
    }

    fn lost(&mut self, _: dmu::Place, error: dmu::Error) {
        self.lost.push(error);
    }
}

/// Objects that share one tree cost no more work than the tree: the first has it.
#[test]
fn trees_that_objects_share() {
    let s = surgeon("basic");
    let (set, file) = plain_file(&s, 2);
    let count = || {
        let mut count = Count::default();
        assert!(objset(&s.open(), set).traverse(0, &mut count).is_continue());
        count
    };
    let before = count();
    assert!(before.lost.is_empty());
    let per_block = 32;
    let (first, own) = (file / per_block * per_block, (file % per_block) as usize);
    s.edit_block((set, 0), (0, file / per_block), |block| {
        let dnode = block[own * 512..][..512].to_vec();
        block.chunks_exact_mut(512).skip(1).for_each(|slot| slot.copy_from_slice(&dnode));
    });
    let after = count();
    assert!(after.data <= before.data, "{} blocks, {} before", after.data, before.data);
    assert!(after.lost.len() >= 30, "{:?}", after.lost);
    // What reads files, lists of files and differences goes by objects.
    let objset = objset(&s.open(), set);
    let read = |n| objset.object(n).and_then(|o| o.read_at(0, &mut [0; 512]).map(drop));
    let errors: Vec<_> = (first + 1..first + per_block).filter_map(|n| read(n).err()).collect();
    assert_eq!(errors.len(), 30, "{errors:?}");
    assert!(errors.iter().all(|e| e.to_string().contains("several places")), "{errors:?}");
    let report = s.report();
    assert!(report.issues.iter().any(|i| i.name() == "double-allocation"));
}

#[test]
fn a_wrong_space_of_an_object() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_dnode(file, |d| edit_word(d, 24, |used| used + 512));
    assert_eq!(s.check(), ["object-space", "owner-space"]);
}

#[test]
fn a_wrong_fill_count() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_dnode(file, |d| edit_word(d, 64 + 11 * 8, |fill| fill + 1));
    assert_eq!(s.check(), ["fill-count"]);
}

#[test]
fn a_block_from_the_future() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_dnode(file, |d| edit_word(d, 64 + 10 * 8, |birth| birth + 1000));
    assert_eq!(s.check(), ["born-too-late"]);
}

#[test]
fn a_pointer_of_the_wrong_type() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    // Byte 6 of the property word is the type.
    s.edit_dnode(file, |d| d[64 + 6 * 8 + 6] = DmuType::ZVOL.0);
    assert_eq!(s.check(), ["pointer-mismatch"]);
}

#[test]
fn a_block_behind_the_end() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_dnode(file, |d| edit_word(d, 16, |_| 0));
    assert_eq!(s.check(), ["behind-end"]);
}

#[test]
fn an_address_on_no_vdev() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_dnode(file, |d| edit_word(d, 64 + 16, |w| w | (9 << 32)));
    let names = s.check();
    assert!(names.contains(&"bad-address") && names.contains(&"leaked"), "{names:?}");
}

#[test]
fn a_forgotten_block_leaks() {
    let s = surgeon("basic");
    let file = plain_file(&s, 1);
    s.edit_dnode(file, |d| d[64..64 + 128].fill(0));
    let names = s.check();
    assert!(names.contains(&"leaked"), "{names:?}");
    assert!(!names.contains(&"used-but-free") && !names.contains(&"block-lost"), "{names:?}");
}

#[test]
fn two_owners_of_one_block() {
    let s = surgeon("basic");
    let one = plain_file(&s, 2);
    let bp = object(&s, one).dnode().blkptrs[0].encode(ondisk::Endian::Little);
    let two = find(&s, None, |n| {
        let d = n.object().dnode();
        n.kind() == FileKind::File && d.levels == 2 && n.number() != one.1 && d.extra_slots == 0
    });
    s.edit_dnode(two, |d| d[64..64 + 128].copy_from_slice(&bp));
    let names = s.check();
    assert!(names.contains(&"double-allocation") && names.contains(&"leaked"), "{names:?}");
}

/// Makes the allocation in this word of a space map shorter by a unit, and later longer again:
/// whether that unit is in use. A word that is no such allocation stays as it is.
fn is_in_use(s: &Surgeon, map: u64, at: usize) -> bool {
    let mut is_one = false;
    s.edit_block((0, map), (0, 0), |b| {
        let word = u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
        is_one = word >> 63 == 0 && word & (1 << 15) == 0 && word & 0x7fff > 0;
        edit_word(b, at, |w| w - u64::from(is_one));
    });
    let names = if is_one { s.check() } else { Vec::new() };
    let expected = ["used-but-free", "space-map", "leaked"];
    assert!(names.iter().all(|n| expected.contains(n)), "{names:?}");
    assert_eq!(names.contains(&"space-map"), is_one, "{names:?}");
    s.edit_block((0, map), (0, 0), |b| edit_word(b, at, |w| w + u64::from(is_one)));
    names.contains(&"used-but-free")
}

#[test]
fn space_in_use_that_is_marked_free() {
    let s = surgeon("basic");
    let pool = s.open();
    let maps = pool.mos().objects().filter_map(Result::ok);
    let maps = maps
        .filter(|o| o.dnode().kind == DmuType::SPACE_MAP)
        .filter(|o| o.dnode().bonus.len() >= 24)
        .map(|o| (o.number(), o.dnode().endian.u64(*o.dnode().bonus[8..].first_chunk().unwrap())));
    let first_words = maps.flat_map(|(map, length)| {
        (0..length.min(8 * 4) as usize).step_by(8).map(move |at| (map, at))
    });
    let mut first_words = first_words.collect::<Vec<_>>().into_iter();
    assert!(first_words.any(|(map, at)| is_in_use(&s, map, at)));
}

#[test]
fn sums_of_datasets() {
    let s = surgeon("history");
    let set = a_head(&s);
    // Words of the dataset: 9 referenced, 12 unique.
    s.edit_bonus((0, set.object), 9 * 8, |n| n + 512);
    let names = s.check();
    assert_eq!(names, ["dataset-space"]);
}

#[test]
fn sums_of_directories() {
    let s = surgeon("history");
    let set = a_head(&s);
    s.edit_bonus((0, set.dir.object), 5 * 8, |n| n + 512);
    let report = s.report();
    let names: Vec<_> = report.issues.iter().map(Issue::name).collect();
    assert!(names.iter().all(|n| *n == "dataset-space") && !names.is_empty(), "{names:?}");
}

#[test]
fn a_snapshot_with_a_child_too_many() {
    let s = surgeon("history");
    let pool = s.open();
    let snapshots = pool.mos().objects().filter_map(Result::ok);
    let mut snapshots = snapshots.filter(|o| o.dnode().bonus_kind == DmuType::DSL_DATASET);
    let is_origin = |o: &Object| {
        let d = ondisk::DslDataset::decode(&o.dnode().bonus, o.dnode().endian).unwrap();
        d.num_children > 1 && d.next_clones != 0
    };
    let number = snapshots.find(is_origin).expect("an origin").number();
    s.edit_bonus((0, number), 5 * 8, |n| n + 1);
    assert_eq!(s.check(), ["dataset-links"]);
}

#[test]
fn a_dead_list_with_a_wrong_sum() {
    let s = surgeon("history");
    let pool = s.open();
    let mut lists = pool.mos().objects().filter_map(Result::ok);
    let dead = lists.find(|o| o.dnode().bonus_kind == DmuType::DEADLIST_HDR).unwrap().number();
    s.edit_bonus((0, dead), 0, |n| n + 512);
    assert_eq!(s.check(), ["block-list"]);
}

#[test]
fn a_wrong_number_of_links() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_bonus(file, SA_LINKS, |n| {
        assert_eq!(n, 1);
        2
    });
    assert_eq!(s.check(), ["link-count"]);
}

#[test]
fn a_wrong_size_of_a_directory() {
    let s = surgeon("basic");
    let dir = a_directory(&s);
    s.edit_bonus(dir, SA_SIZE, |n| n + 1);
    assert_eq!(s.check(), ["directory-size"]);
}

fn a_directory(s: &Surgeon) -> (u64, u64) {
    find(s, None, |n| {
        n.kind() == FileKind::Dir
            && n.parent != n.number()
            && n.object().dnode().bonus_kind == DmuType::SA
            && n.flags & ondisk::znode::flags::XATTR == 0
    })
}

#[test]
fn a_directory_with_another_parent() {
    let s = surgeon("basic");
    let dir = a_directory(&s);
    s.edit_bonus(dir, SA_PARENT, |n| n + 1);
    assert_eq!(s.check(), ["wrong-parent"]);
}

#[test]
fn a_file_that_is_its_own_parent() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_bonus(file, SA_PARENT, |_| file.1);
    assert_eq!(s.check(), ["wrong-parent"]);
}

#[test]
fn an_attribute_with_another_parent() {
    let s = surgeon("basic");
    let attribute = find(&s, None, |n| {
        n.kind() == FileKind::File
            && n.flags & ondisk::znode::flags::XATTR != 0
            && n.object().dnode().bonus_kind == DmuType::SA
    });
    s.edit_bonus(attribute, SA_PARENT, |n| n + 1);
    assert_eq!(s.check(), ["wrong-parent"]);
}

#[test]
fn a_file_with_another_owner() {
    let s = surgeon("basic");
    let file = plain_file(&s, 2);
    s.edit_bonus(file, SA_UID, |n| n + 7);
    assert_eq!(s.check(), ["owner-space"]);
}

/// A micro directory, with room in its own block, whose first entry is a file.
fn a_micro_directory(s: &Surgeon) -> (u64, u64) {
    find(s, None, |n| {
        let bp = &n.object().dnode().blkptrs[0];
        n.kind() == FileKind::Dir
            && !bp.is_hole()
            && !bp.is_embedded()
            && dmu::Zap::open(n.object()).is_ok_and(|z| z.micro().unwrap().is_some())
            && n.entries().unwrap().flatten().any(|e| e.kind == 8)
    })
}

/// Points the directory's first name of a plain file to another object.
fn rename_entry(s: &Surgeon, dir: (u64, u64), object: u64) {
    s.edit_block(dir, (0, 0), |b| {
        let mut chunks = b.chunks_exact_mut(64).skip(1);
        let chunk = chunks.find(|c| c[14] != 0 && c[7] >> 4 == 8).expect("a plain file");
        edit_word(chunk, 0, |w| (w >> 48 << 48) | object);
    });
}

#[test]
fn a_name_of_nothing() {
    let s = surgeon("basic");
    let dir = a_micro_directory(&s);
    rename_entry(&s, dir, 0xff_ffff);
    assert_eq!(s.check(), ["dangling-entry", "orphan"]);
}

#[test]
fn a_file_without_a_name() {
    let s = surgeon("basic");
    let dir = a_micro_directory(&s);
    let other = plain_file_in(&s, 1, Some(dir.0));
    rename_entry(&s, dir, other.1);
    assert_eq!(s.check(), ["link-count", "orphan"]);
}

#[test]
fn a_table_whose_entries_are_miscounted() {
    let s = surgeon("basic");
    let dir = find(&s, None, |n| {
        n.kind() == FileKind::Dir
            && dmu::Zap::open(n.object()).is_ok_and(|z| z.fat_header().is_some())
    });
    // The header's number of entries stands at byte 72.
    s.edit_block(dir, (0, 0), |b| edit_word(b, 72, |n| n + 1));
    assert_eq!(s.check(), ["bad-structure"]);
}

#[test]
fn references_of_dedup_and_clones() {
    let s = surgeon("dedup-clone");
    let pool = s.open();
    let mut found = None;
    let with_snapshots = |h: dsl::Dataset| {
        let snapshots = pool.dsl().snapshots(&h).unwrap();
        snapshots.into_iter().chain([h])
    };
    for head in heads(&pool).into_iter().flat_map(with_snapshots) {
        for o in pool.dsl().objset(&head).unwrap().objects().filter_map(Result::ok) {
            let own = |b: &ondisk::BlkPtr| {
                let since = b.logical_birth() > head.phys.prev_snap_txg;
                since && !b.is_hole() && b.is_dedup()
            };
            let first = o.block_pointer(0, 0).ok().flatten().filter(own);
            if first.is_some() && o.dnode().levels <= 2 {
                found = found.or(Some((head.object, o.number(), o.dnode().levels)));
            }
        }
    }
    let (set, file, levels) = found.expect("a deduplicated file");
    match levels {
        1 => s.edit_dnode((set, file), |d| d[64..64 + 128].fill(0)),
        _ => s.edit_block((set, file), (1, 0), |b| b[..128].fill(0)),
    }
    let names = s.check();
    assert!(names.contains(&"dedup-count"), "{names:?}");
    assert!(!names.contains(&"clone-count"), "{names:?}");
}

/// A block that two files have, and then one of them: the table of clones counts both.
#[test]
fn references_of_clones() {
    let s = surgeon("dedup-clone");
    let pool = s.open();
    let with_snapshots = |h: dsl::Dataset| {
        let snapshots = pool.dsl().snapshots(&h).unwrap();
        snapshots.into_iter().chain([h])
    };
    // What files point to first, where it is newer than the snapshot before.
    let mut seen = std::collections::BTreeSet::new();
    let mut found = None;
    for set in heads(&pool).into_iter().flat_map(with_snapshots) {
        for o in pool.dsl().objset(&set).unwrap().objects().filter_map(Result::ok) {
            let is_counted = |b: &ondisk::BlkPtr| {
                let is_own = b.logical_birth() > set.phys.prev_snap_txg;
                is_own && !b.is_hole() && !b.is_embedded() && !b.is_dedup()
            };
            let first = o.block_pointer(0, 0).ok().flatten().filter(is_counted);
            let Some(first) = first.filter(|_| o.dnode().levels <= 2) else { continue };
            let place = (first.dva(0).vdev(), first.dva(0).offset());
            if !seen.insert(place) {
                found = Some(((set.object, o.number()), o.dnode().levels));
            }
        }
    }
    let (file, levels) = found.expect("a cloned block");
    match levels {
        1 => s.edit_dnode(file, |d| d[64..64 + 128].fill(0)),
        _ => s.edit_block(file, (1, 0), |b| b[..128].fill(0)),
    }
    let names = s.check();
    assert!(names.contains(&"clone-count"), "{names:?}");
    assert!(!names.contains(&"dedup-count"), "{names:?}");
}

#[test]
fn a_lost_label() {
    let s = surgeon("basic");
    s.scribble(256 << 10, &vec![0; 256 << 10]);
    let report = s.report();
    let [Issue::Label { label, .. }] = report.issues.as_slice() else {
        panic!("{:?}", report.issues)
    };
    assert_eq!(*label, 1);
}

/// A crash after the first of two rounds of labels: those of even numbers are a txg ahead.
#[test]
fn labels_of_two_rounds() {
    let s = surgeon("basic");
    let path = s.dir().join("disk.img");
    let disk = RwFileDevice::open(&path, &Options::default()).unwrap();
    let views =
        pool::read_labels(&(Arc::new(FileDevice::open(&path, &Options::default()).unwrap()) as _));
    let mut list = views.into_iter().find_map(|view| view.nvlist).unwrap();
    let next = s.open().uberblock().txg + 1;
    list.set("txg", NvValue::U64(next));
    write_config(&disk, &list, Round::First).unwrap();
    let report = s.report();
    let [Issue::LabelRound { txg, .. }] = report.issues.as_slice() else {
        panic!("{:?}", report.issues)
    };
    assert_eq!(*txg, next);
    assert!(report.is_clean(), "a crash is not damage");
}

/// A list that the MOS names and that is not there: what it had cannot be judged.
#[test]
fn a_list_that_cannot_be_opened() {
    let s = surgeon("basic");
    let list = s.open().directory().unwrap().get_u64(mos::SYNC_BPOBJ).unwrap().unwrap();
    s.edit_dnode((0, list), |dnode| dnode[0] = 0);
    let report = s.report();
    let unopened = report.issues.iter().find_map(|issue| match issue {
        Issue::Unopened { what, .. } => Some(*what),
        _ => None,
    });
    assert_eq!(unopened, Some("a list of deferred frees"), "{:?}", report.issues);
    assert!(!report.is_clean());
}

#[test]
fn locked_datasets_are_named() {
    let corpus = testkit::corpus("crypt");
    let pool = common::open(&corpus.dir, corpus.name());
    let report = check::run(&pool, &check::CheckOptions::default(), &rt::Progress::new());
    let names: Vec<_> = report.issues.iter().map(Issue::name).collect();
    assert!(names.len() > 5 && names.iter().all(|n| *n == "locked"), "{names:?}");
    assert!(report.is_clean());
}

#[test]
fn an_older_txg_is_partly_lost_when_its_blocks_are() {
    let s = surgeon("basic");
    let pool = s.open();
    let set = heads(&pool).pop().unwrap();
    let meta = pool.dsl().objset(&set).unwrap().meta_object().unwrap();
    let bp = meta.block_pointer(0, 0).unwrap().unwrap();
    for copy in 0..bp.dvas().count() {
        s.destroy(&bp, copy);
    }
    let verdict = check::verdict(&s.open());
    // The block, and with it what the file system is entered by.
    assert!(matches!(verdict, pool::Verdict::Partial { lost: 2, .. }), "{verdict:?}");
}
