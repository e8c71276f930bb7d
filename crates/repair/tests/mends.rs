//! One act of damage of each kind, and its repair: zdb errs before and finds nothing after, and
//! what the repair wrote can be put back.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../../check/tests/common/mod.rs"]
mod common;

// What the surgeon is made of.
use codec as _;
use zio as _;

use common::surgeon::{Surgeon, edit_word, objset};
use device::{
    Device, DeviceRef, DeviceSource, LocalDevices, MemoryDevice, Read, Shared, Write, WriteDevice,
    WriteDeviceRef,
};
use ondisk::DmuType;
use pool::live::ImportOptions;
use pool::{Candidate, OpenOptions, SearchOptions, scan};
use repair::{Repair, RepairOptions, repair};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

fn in_memory(s: &Surgeon, claims: bool) -> repair::Result<Repair> {
    repair_over(Arc::new(LocalDevices::default()), s.dir(), None, claims)
}

fn repair_over(
    source: Arc<dyn DeviceSource>,
    place: &std::path::Path,
    txg: Option<u64>,
    claims: bool,
) -> repair::Result<Repair> {
    let paths = vec![place.to_owned()];
    let search = SearchOptions { paths, source: Arc::clone(&source), leaves_out: false };
    let [candidate] = &Candidate::group(&scan(&search)?)[..] else { panic!("one pool") };
    let open = OpenOptions { search, ..OpenOptions::default() };
    let import = ImportOptions { force: true, ..ImportOptions::new(open) };
    let options = RepairOptions { import, bytes_max: 256 << 20, txg, claims };
    repair(candidate, source, &options, &rt::Progress::new())
}

/// A space map of some length, and its bytes.
fn a_map(s: &Surgeon) -> (u64, usize) {
    let pool = s.open();
    let maps = pool.mos().objects().filter_map(Result::ok);
    maps.filter(|o| o.dnode().kind == DmuType::SPACE_MAP && o.dnode().bonus.len() >= 24)
        .map(|o| (o.number(), o.dnode().endian.u64(*o.dnode().bonus[8..].first_chunk().unwrap())))
        .max_by_key(|(_, length)| *length)
        .map(|(number, length)| (number, length as usize))
        .unwrap()
}

/// Makes the allocation, or the free, that stands `skip` places behind the first of its kind of
/// more than a sector, one sector shorter.
fn shorten_an_entry(s: &Surgeon, skip: usize, free: bool) -> bool {
    let (map, length) = a_map(s);
    let mut done = false;
    s.edit_block((0, map), (0, 0), |b| {
        let is_one = |at: &usize| {
            let word = u64::from_le_bytes(b[*at..at + 8].try_into().unwrap());
            word >> 63 == 0 && (word & (1 << 15) != 0) == free && word & 0x7fff > 0
        };
        if let Some(at) = (0..length).step_by(8).filter(is_one).nth(skip) {
            edit_word(b, at, |word| word - 1);
            done = true;
        }
    });
    done
}

fn image(s: &Surgeon) -> Vec<u8> {
    std::fs::read(s.dir().join("disk.img")).unwrap()
}

/// Whether OpenZFS's zdb finds nothing wrong: it ends well, and counts what it should.
fn zdb_is_content(s: &Surgeon) -> Option<bool> {
    Some(testkit::oracle::verdict(s.dir(), s.open().name())?.is_clean())
}

/// Whether zdb can be asked about damage.
#[derive(Clone, Copy, PartialEq)]
enum Zdb {
    /// It errs before the repair.
    Errs,
    /// It does not look at what was damaged.
    Overlooks,
}

/// The plan names the damage and leaves nothing; applied it does; put back all is as it was.
fn mends(s: &Surgeon, expected: &[&str], zdb: Zdb) {
    let names = s.check();
    assert!(expected.iter().all(|e| names.contains(e)), "{names:?}");
    if let Some(content) = zdb_is_content(s) {
        assert_eq!(content, zdb == Zdb::Overlooks, "zdb, before the repair");
    }
    let before = image(s);
    let planned = in_memory(s, false).unwrap();
    assert!(planned.plan().is_of_use() && planned.plan().makes_clean(), "{:?}", planned.plan());
    drop(planned);
    assert!(image(s) == before, "a plan writes nothing");
    let repaired = in_memory(s, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let undo = folder.path().join("undo");
    repaired.apply(&undo).unwrap();
    assert_eq!(std::fs::metadata(&undo).unwrap().len(), repaired.plan().undo);
    drop(repaired);
    // What was met of the damage stands in the error log until the next scrub.
    assert!(s.check().iter().all(|name| *name == "known-error"), "{:?}", s.check());
    assert_ne!(zdb_is_content(s), Some(false), "zdb, after the repair");
    let after = image(s);
    let source: Arc<dyn DeviceSource> = Arc::new(LocalDevices::default());
    repair::undo::put_back(&undo, &source, &[]).unwrap();
    drop(source);
    assert!(image(s) == before, "what was there is there again");
    std::fs::write(s.dir().join("disk.img"), after).unwrap();
}

#[test]
fn space_in_use_that_is_marked_free() {
    let s = surgeon("basic");
    assert!(shorten_an_entry(&s, 0, false));
    mends(&s, &["space-map"], Zdb::Errs);
}

#[test]
fn space_that_nothing_points_to() {
    let s = surgeon("basic");
    // Some of what was freed was allocated again later.
    let before = image(&s);
    for skip in 0.. {
        assert!(shorten_an_entry(&s, skip, true), "a free that counts");
        if s.check() == ["leaked", "space-map"] {
            break;
        }
        std::fs::write(s.dir().join("disk.img"), &before).unwrap();
    }
    mends(&s, &["leaked"], Zdb::Errs);
}

#[test]
fn a_space_map_that_decodes_to_nonsense() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    s.edit_block((0, map), (0, 0), |b| b[..64].fill(0xff));
    mends(&s, &["space-map"], Zdb::Errs);
}

#[test]
fn a_space_map_that_says_of_itself_what_is_not_so() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    s.edit_bonus((0, map), 16, |n| n + 512);
    mends(&s, &["space-map"], Zdb::Errs);
}

#[test]
fn a_space_map_whose_blocks_are_lost() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    let bp = s.open().mos().object(map).unwrap().block_pointer(0, 0).unwrap().unwrap();
    (0..bp.dvas().count()).for_each(|copy| s.destroy(&bp, copy));
    mends(&s, &["block-lost", "space-map"], Zdb::Errs);
}

#[test]
fn lost_labels() {
    let s = surgeon("basic");
    s.scribble(0, &vec![0; 512 << 10]);
    mends(&s, &["label"], Zdb::Overlooks);
}

#[test]
fn a_pool_that_is_clean_has_nothing_to_be_repaired() {
    let s = surgeon("basic");
    let planned = in_memory(&s, false).unwrap();
    assert_eq!((planned.plan().steps.len(), planned.plan().written), (0, 0));
}

fn heads(pool: &pool::Pool) -> Vec<dsl::Dataset> {
    let dirs = pool.dsl().walk().into_iter().filter_map(|(_, d)| d.ok());
    dirs.filter_map(|d| pool.dsl().head(&d).ok().flatten()).collect()
}

/// First file that `choose` takes, of any head: its dataset and number.
fn find(s: &Surgeon, choose: impl Fn(&Node) -> bool) -> (u64, u64) {
    let pool = s.open();
    for head in heads(&pool) {
        let Some(fs) = pool.dsl().objset(&head).ok().and_then(|o| Filesystem::open(o).ok()) else {
            continue;
        };
        let files = fs.objset().objects().filter_map(Result::ok);
        let mut files = files.filter_map(|o| Node::from_object(&fs, o).ok());
        if let Some(found) = files.find(&choose) {
            return (head.object, found.number());
        }
    }
    panic!("no such file");
}

fn is_plain(n: &Node) -> bool {
    n.object().dnode().bonus_kind == DmuType::SA && n.flags & ondisk::znode::flags::XATTR == 0
}

fn plain_file(s: &Surgeon) -> (u64, u64) {
    find(s, |n| {
        let d = n.object().dnode();
        is_plain(n) && n.kind() == FileKind::File && n.links == 1 && d.levels == 2
    })
}

fn a_directory(s: &Surgeon) -> (u64, u64) {
    find(s, |n| is_plain(n) && n.kind() == FileKind::Dir && n.parent != n.number())
}

#[test]
fn a_wrong_number_of_links() {
    let s = surgeon("basic");
    s.edit_bonus(plain_file(&s), SA_LINKS, |_| 7);
    mends(&s, &["link-count"], Zdb::Overlooks);
}

#[test]
fn a_wrong_size_of_a_directory() {
    let s = surgeon("basic");
    s.edit_bonus(a_directory(&s), SA_SIZE, |n| n + 3);
    mends(&s, &["directory-size"], Zdb::Overlooks);
}

#[test]
fn wrong_parents() {
    let s = surgeon("basic");
    s.edit_bonus(a_directory(&s), SA_PARENT, |n| n + 1);
    let file = plain_file(&s);
    s.edit_bonus(file, SA_PARENT, |_| file.1);
    let attribute = find(&s, |n| {
        n.kind() == FileKind::File
            && n.flags & ondisk::znode::flags::XATTR != 0
            && n.object().dnode().bonus_kind == DmuType::SA
    });
    s.edit_bonus(attribute, SA_PARENT, |n| n + 1);
    mends(&s, &["wrong-parent"], Zdb::Overlooks);
}

#[test]
fn a_file_that_counts_for_another_owner() {
    let s = surgeon("basic");
    s.edit_bonus(plain_file(&s), SA_UID, |n| n + 7);
    mends(&s, &["owner-space"], Zdb::Overlooks);
}

/// Points the first name of a plain file in a directory that is one block to another object.
fn rename_entry(s: &Surgeon, object: u64) {
    let dir = find(s, |n| {
        let bp = &n.object().dnode().blkptrs[0];
        n.kind() == FileKind::Dir
            && !bp.is_hole()
            && !bp.is_embedded()
            && dmu::Zap::open(n.object()).is_ok_and(|z| z.micro().is_some())
            && n.entries().unwrap().flatten().any(|e| e.kind == 8)
    });
    s.edit_block(dir, (0, 0), |b| {
        let mut chunks = b.chunks_exact_mut(64).skip(1);
        let chunk = chunks.find(|c| c[14] != 0 && c[7] >> 4 == 8).expect("a plain file");
        edit_word(chunk, 0, |w| (w >> 48 << 48) | object);
    });
}

#[test]
fn a_name_of_nothing_and_a_file_without_a_name() {
    let s = surgeon("basic");
    rename_entry(&s, 0xff_ffff);
    mends(&s, &["dangling-entry", "orphan"], Zdb::Overlooks);
}

#[test]
fn sums_of_datasets_directories_and_dead_lists() {
    let s = surgeon("history");
    let pool = s.open();
    let set = heads(&pool).into_iter().find(|d| d.phys.prev_snap_txg > 1).expect("a snapshot");
    // Words: of a dataset 9 is what it refers to and 12 what is its own, of a directory 5 is what
    // it uses.
    for snapshot in pool.dsl().snapshots(&set).unwrap() {
        s.edit_bonus((0, snapshot.object), 9 * 8, |n| n + 1024);
    }
    s.edit_bonus((0, set.object), 9 * 8, |n| n + 512);
    s.edit_bonus((0, set.object), 12 * 8, |n| n + 512);
    s.edit_bonus((0, set.dir.object), 5 * 8, |n| n + 512);
    let mut lists = pool.mos().objects().filter_map(Result::ok);
    let dead = lists.find(|o| o.dnode().bonus_kind == DmuType::DEADLIST_HDR).unwrap().number();
    s.edit_bonus((0, dead), 0, |n| n + 512);
    assert!(objset(&pool, 0).object(dead).is_ok());
    mends(&s, &["dataset-space", "block-list"], Zdb::Overlooks);
}

/// All names of a file system with what they lead to, as far as that can be read.
fn names(s: &Surgeon, set: u64) -> std::collections::BTreeMap<Vec<u8>, u64> {
    let pool = s.open();
    let fs = Filesystem::open(objset(&pool, set)).unwrap();
    let mut out = std::collections::BTreeMap::new();
    let mut todo = vec![(Vec::new(), fs.root_object())];
    while let Some((path, dir)) = todo.pop() {
        for entry in fs.node(dir).unwrap().entries().unwrap().flatten() {
            let path = [path.as_slice(), b"/", entry.name.as_slice()].concat();
            if entry.kind == 4 {
                todo.push((path.clone(), entry.object));
            }
            out.insert(path, entry.object);
        }
    }
    out
}

#[test]
fn a_dnode_that_cannot_be_decoded() {
    let s = surgeon("basic");
    let (set, file) = plain_file(&s);
    let before = names(&s, set);
    s.edit_dnode((set, file), |d| d[..64].fill(0xee));
    mends(&s, &["bad-structure", "dangling-entry"], Zdb::Errs);
    let mut expected = before;
    expected.retain(|_, object| *object != file);
    assert_eq!(names(&s, set), expected);
}

#[test]
fn a_block_of_dnodes_that_is_lost() {
    let s = surgeon("basic");
    // Not the first block, in which the file system itself has its tables.
    let (set, file) = find(&s, |n| is_plain(n) && n.kind() == FileKind::File && n.number() > 200);
    let before = names(&s, set);
    let block = file / 32;
    let meta = objset(&s.open(), set).meta_object().unwrap();
    let bp = meta.block_pointer(0, block).unwrap().unwrap();
    (0..bp.dvas().count()).for_each(|copy| s.destroy(&bp, copy));
    mends(&s, &["block-lost", "dangling-entry"], Zdb::Errs);
    // What was in directories of that block is in lost+found.
    let after = names(&s, set);
    let whole = before.values().filter(|object| **object / 32 != block);
    let found: std::collections::BTreeSet<u64> = after.values().copied().collect();
    assert!(whole.clone().count() > 0 && whole.clone().all(|object| found.contains(object)));
}

/// A disk that takes so many writes, and then no more.
struct Cut {
    disk: Arc<MemoryDevice>,
    left: AtomicU64,
}

impl Cut {
    fn takes(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    fn failed(&self) -> device::Error {
        device::Error::write(device::ErrorKind::PowerLoss, &Arc::from("disk"), 0, 0)
    }
}

impl Device for Cut {
    fn name(&self) -> &str {
        "disk"
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), device::Error> {
        self.disk.read(offset, buf)
    }

    fn submit(&self, batch: Vec<Read>) {
        self.disk.submit(batch);
    }
}

impl WriteDevice for Cut {
    fn submit_writes(&self, batch: Vec<Write>) {
        for write in batch {
            let bytes: Vec<u8> = write.parts.iter().flat_map(|p: &Shared| p.to_vec()).collect();
            let done = self.write(write.offset, &bytes);
            device::backend::deliver_write(write.done, done);
        }
    }

    fn flush(&self) -> Result<(), device::Error> {
        if self.left.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err(self.failed()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), device::Error> {
        if self.takes() { self.disk.write(offset, data) } else { Err(self.failed()) }
    }

    fn as_device(self: Arc<Self>) -> DeviceRef {
        self
    }
}

#[test]
fn killed_at_any_write_the_pool_is_as_before_or_repaired_and_can_be_put_back() {
    let s = surgeon("basic");
    let (map, _) = a_map(&s);
    s.edit_block((0, map), (0, 0), |b| b[..64].fill(0xff));
    s.edit_bonus(plain_file(&s), SA_LINKS, |_| 7);
    let before = s.check();
    let whole = Arc::new(MemoryDevice::from_bytes("disk", &image(&s)));
    let source = |device: WriteDeviceRef| -> Arc<dyn DeviceSource> {
        Arc::new(std::collections::BTreeMap::from([("disk".to_owned(), device)]))
    };
    let folder = tempfile::tempdir().unwrap();
    let place = std::path::Path::new("disk");
    let (mut old, mut new) = (0, 0);
    for left in (0..).step_by(7) {
        let disk = Arc::new(whole.fork());
        let cut = Arc::new(Cut { disk: Arc::clone(&disk), left: AtomicU64::new(left) });
        let repaired = repair_over(source(cut), place, None, true).unwrap();
        let undo = folder.path().join(left.to_string());
        let is_done = repaired.apply(&undo).is_ok();
        let mut bytes = vec![0; disk.size() as usize];
        disk.read(0, &mut bytes).unwrap();
        std::fs::write(s.dir().join("disk.img"), &bytes).unwrap();
        let names = s.check();
        // A crash between two rounds of labels leaves them of two txgs.
        let names: Vec<_> = names.into_iter().filter(|n| *n != "label-round").collect();
        assert!(names.iter().all(|n| before.contains(n)), "{left}: {names:?}");
        match names.is_empty() {
            true => new += 1,
            false => old += 1,
        }
        if left % 5 == 0 {
            repair::undo::put_back(&undo, &source(disk.clone()), &[]).unwrap();
            let mut back = vec![0; disk.size() as usize];
            disk.read(0, &mut back).unwrap();
            whole.read(0, &mut bytes).unwrap();
            assert!(back == bytes, "{left}");
        }
        if is_done {
            assert!(names.is_empty());
            break;
        }
    }
    assert!(old > 2 && new > 0, "{old} {new}");
}

#[test]
fn a_state_that_is_lost_and_an_earlier_one() {
    let s = surgeon("basic");
    // A directory of the newest state that the one before has elsewhere, or not at all.
    let newest = s.open().uberblock().txg;
    let bp = objset(&s.open(), 0).root();
    (0..bp.dvas().count()).for_each(|copy| s.destroy(&bp, copy));
    let local: Arc<dyn DeviceSource> = Arc::new(LocalDevices::default());
    let seen = s.open().uberblock().txg;
    assert!(seen < newest, "an older state is opened");
    // Also without being asked.
    let planned = repair_over(local.clone(), s.dir(), None, false).unwrap();
    assert_eq!(planned.plan().steps.first(), Some(&repair::Step::Rewind { txg: seen }));
    let planned = repair_over(local.clone(), s.dir(), Some(seen), false).unwrap();
    assert_eq!(planned.plan().steps.first(), Some(&repair::Step::Rewind { txg: seen }));
    assert!(planned.plan().makes_clean(), "{:?}", planned.plan());
    drop((planned, local));
    let local: Arc<dyn DeviceSource> = Arc::new(LocalDevices::default());
    let repaired = repair_over(local, s.dir(), Some(seen), true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    repaired.apply(&folder.path().join("undo")).unwrap();
    drop(repaired);
    assert!(s.open().uberblock().txg > newest);
    assert_eq!(s.check(), [""; 0]);
    assert_ne!(zdb_is_content(&s), Some(false));
}
