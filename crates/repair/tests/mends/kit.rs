//! A pool, an act of damage, and what is asked of its repair: that zdb errs before and not after,
//! that nothing is lost that was whole, and that it can be put back.

use super::judge;
pub(crate) use crate::common::surgeon::{Surgeon, edit_word, objset};
pub(crate) use device::{
    Device, DeviceRef, DeviceSource, LocalDevices, MemoryDevice, Read, Shared, Write, WriteDevice,
    WriteDeviceRef,
};
pub(crate) use ondisk::DmuType;
pub(crate) use pool::OpenOptions;
use pool::UnguardedDatasets as _;
pub(crate) use pool::live::{ImportOptions, LivePool, VdevSpec};
use pool::{Candidate, SearchOptions, scan};
use repair::RepairOptions;
pub(crate) use repair::{Plan, Repair, Step, repair};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
pub(crate) use std::sync::Arc;
pub(crate) use testkit::SparseImage;
pub(crate) use zpl::{FileKind, Filesystem, Node};

/// Bytes of attributes in a bonus of layout 2 (plain files and directories of OpenZFS), behind a
/// header of 8 bytes.
pub(crate) const SA_SIZE: usize = 16;
pub(crate) const SA_UID: usize = 32;
pub(crate) const SA_PARENT: usize = 48;
pub(crate) const SA_LINKS: usize = 128;

pub(crate) fn surgeon(case: &str) -> Surgeon {
    Surgeon::new(&testkit::corpus(case))
}

/// A mirror of two disks, `disk.img` and `disk2.img`: OpenZFS's pool `basic`, and a disk that the
/// engine attached to it.
pub(crate) fn mirror() -> Surgeon {
    let mut s = surgeon("basic");
    let second = s.add_disk();
    let live = live(&s);
    let first = live.look().unwrap().config().vdev_tree.children[0].guid;
    let spec = VdevSpec::Leaf { path: second.to_str().unwrap().to_owned(), is_file: false };
    live.attach(first, &spec, LocalDevices::default().claim(&second).unwrap()).unwrap();
    live.wait_for_scan().unwrap();
    live.export().unwrap();
    s
}

pub(crate) fn local() -> Arc<dyn DeviceSource> {
    Arc::new(LocalDevices::default())
}

pub(crate) fn in_memory(s: &Surgeon, claims: bool) -> repair::Result<Repair> {
    repair_over(local(), s.dir(), None, claims)
}

pub(crate) fn options(import: ImportOptions) -> RepairOptions {
    RepairOptions {
        import,
        bytes_max: 256 << 20,
        txg: None,
        reads_files: false,
        gives_up_absent: false,
        claims: true,
    }
}

pub(crate) fn repair_over(
    source: Arc<dyn DeviceSource>,
    place: &Path,
    txg: Option<u64>,
    claims: bool,
) -> repair::Result<Repair> {
    repair_with(source, place, &|o| RepairOptions { txg, ..RepairOptions { claims, ..o } })
}

/// Repairs, as `how` changes the options of one that is to be applied.
pub(crate) fn repair_with(
    source: Arc<dyn DeviceSource>,
    place: &Path,
    how: &dyn Fn(RepairOptions) -> RepairOptions,
) -> repair::Result<Repair> {
    let paths = vec![place.to_owned()];
    let search = SearchOptions { paths, source: Arc::clone(&source), leaves_out: false };
    let [candidate] = &Candidate::group(&scan(&search)?)[..] else { panic!("one pool") };
    let open = OpenOptions { search, ..OpenOptions::default() };
    let import = ImportOptions { force: true, ..ImportOptions::new(open) };
    let options = how(options(import));
    repair(candidate, source, &options, &rt::Progress::new())
}

/// The pool, open for writing.
pub(crate) fn live(s: &Surgeon) -> LivePool {
    let open = OpenOptions::in_places(vec![s.dir().to_owned()]);
    let options = ImportOptions { force: true, ..ImportOptions::new(open) };
    LivePool::open(s.open().name(), &options).unwrap()
}

/// What is on all disks, by name.
pub(crate) fn images(s: &Surgeon) -> BTreeMap<String, SparseImage> {
    let files = std::fs::read_dir(s.dir()).unwrap().map(Result::unwrap);
    let name = |e: &std::fs::DirEntry| e.file_name().into_string().unwrap();
    files.map(|e| (name(&e), SparseImage::load(&e.path()).unwrap())).collect()
}

pub(crate) fn put_images(s: &Surgeon, images: &BTreeMap<String, SparseImage>) {
    images.iter().for_each(|(name, image)| image.save(&s.dir().join(name)).unwrap());
}

/// Bytes that were on the only disk.
pub(crate) fn bytes_of(images: &BTreeMap<String, SparseImage>, at: u64, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; count as usize];
    images["disk.img"].read_at(at, &mut bytes).unwrap();
    bytes
}

/// Whether OpenZFS's zdb finds nothing wrong: it ends well, and counts what it should.
pub(crate) fn zdb_is_content(s: &Surgeon) -> Option<bool> {
    Some(testkit::oracle::verdict(s.dir(), s.open().name())?.is_clean())
}

/// Whether zdb can be asked about damage.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Zdb {
    /// It errs before the repair.
    Errs,
    /// It does not look at what was damaged.
    Overlooks,
}

/// Objects of dataset and file, and the sum of the content.
pub(crate) type Inventory = BTreeMap<(u64, u64), [u8; 32]>;

fn sum_of(file: &Node) -> zpl::Result<[u8; 32]> {
    let mut sum = Sha256::new();
    sum.update(file.size.to_le_bytes());
    for segment in file.segments()? {
        let mut bytes = vec![0; segment.length as usize];
        file.read_at(segment.offset, &mut bytes)?;
        sum.update(segment.offset.to_le_bytes());
        sum.update(&bytes);
    }
    Ok(sum.finalize().into())
}

/// All files of all heads and snapshots that can be read to their end. With `named` only those that
/// a name leads to.
pub(crate) fn inventory(s: &Surgeon, named: bool) -> Inventory {
    inventory_of(&s.open(), named)
}

/// The same of a pool that is open, perhaps with keys.
pub(crate) fn inventory_of(pool: &pool::Pool, named: bool) -> Inventory {
    let mut out = Inventory::new();
    for (_, dataset) in pool.dsl().datasets() {
        let Ok(dataset) = dataset else { continue };
        let objset = pool.dsl().objset(&dataset);
        let Some(fs) = objset.ok().and_then(|o| Filesystem::open(o).ok()) else { continue };
        let reached = reached(&fs);
        for object in fs.objset().objects().filter_map(Result::ok) {
            let number = object.number();
            let Ok(node) = Node::from_object(&fs, object) else { continue };
            let counts = node.kind() == FileKind::File && (!named || reached.contains(&number));
            if let Some(sum) = counts.then(|| sum_of(&node).ok()).flatten()
                && node.flags & ondisk::znode::flags::XATTR == 0
            {
                out.insert((dataset.object, number), sum);
            }
        }
    }
    out
}

/// The objects that names lead to from the root.
fn reached(fs: &Filesystem) -> BTreeSet<u64> {
    let mut out = BTreeSet::new();
    let mut todo = vec![fs.root_object()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs.node(dir).and_then(|node| Ok(node.entries()?.flatten().collect()))
        else {
            continue;
        };
        let entries: Vec<zpl::DirEntry> = entries;
        for entry in entries {
            if out.insert(entry.object) && entry.kind == 4 {
                todo.push(entry.object);
            }
        }
    }
    out
}

/// Makes the plan, which leaves nothing and writes nothing, has it looked at, and applies it with
/// an undo file of the size that it says. The steps.
pub(crate) fn plan_and_apply(s: &Surgeon, undo: &Path, look: impl FnOnce(&Plan)) -> Vec<Step> {
    let before = images(s);
    let planned = in_memory(s, false).unwrap();
    assert!(planned.plan().makes_clean(), "{:?}", planned.plan());
    look(planned.plan());
    drop(planned);
    assert!(images(s) == before, "a plan writes nothing");
    let repaired = in_memory(s, true).unwrap();
    repaired.apply(undo).unwrap();
    assert_eq!(std::fs::metadata(undo).unwrap().len(), repaired.plan().undo);
    repaired.plan().steps.clone()
}

/// The plan names the damage and leaves nothing; applied it does; what was whole is there and has a
/// name; put back all is as it was. The steps, and how the pool was before.
pub(crate) fn mends(s: &Surgeon, expected: &[&str], zdb: Zdb) -> Vec<Step> {
    let names = s.check();
    assert!(expected.iter().all(|e| names.contains(e)), "{names:?}");
    if let Some(content) = zdb_is_content(s) {
        assert_eq!(content, zdb == Zdb::Overlooks, "zdb, before the repair");
    }
    let whole = inventory(s, false);
    assert!(!whole.is_empty(), "no file is whole");
    let before = images(s);
    let folder = tempfile::tempdir().unwrap();
    let undo = folder.path().join("undo");
    let steps = plan_and_apply(s, &undo, |plan| assert!(plan.is_of_use(), "{plan:?}"));
    // What was met of the damage stands in the error log until the next scrub.
    assert!(s.check().iter().all(|name| *name == "known-error"), "{:?}", s.check());
    assert_ne!(zdb_is_content(s), Some(false), "zdb, after the repair");
    let now = inventory(s, true);
    let lost: Vec<_> = whole.iter().filter(|(file, sum)| now.get(file) != Some(sum)).collect();
    assert!(lost.is_empty(), "were whole and are not: {lost:?}");
    let after = images(s);
    repair::undo::put_back(&undo, &local(), &[]).unwrap();
    assert!(images(s) == before, "what was there is there again");
    put_images(s, &after);
    judge::keep(s);
    steps
}

/// A space map of some length, and its bytes.
pub(crate) fn a_map(s: &Surgeon) -> (u64, usize) {
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
pub(crate) fn shorten_an_entry(s: &Surgeon, skip: usize, free: bool) -> bool {
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

pub(crate) fn heads(pool: &pool::Pool) -> Vec<dsl::Dataset> {
    let dirs = pool.dsl().walk().into_iter().filter_map(|(_, d)| d.ok());
    dirs.filter_map(|d| pool.dsl().head(&d).ok().flatten()).collect()
}

/// First file that `choose` takes, of any head: its dataset and number.
pub(crate) fn find(s: &Surgeon, choose: impl Fn(&Node) -> bool) -> (u64, u64) {
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

pub(crate) fn is_plain(n: &Node) -> bool {
    n.object().dnode().bonus_kind == DmuType::SA && n.flags & ondisk::znode::flags::XATTR == 0
}

pub(crate) fn plain_file(s: &Surgeon) -> (u64, u64) {
    find(s, |n| {
        let d = n.object().dnode();
        is_plain(n) && n.kind() == FileKind::File && n.links == 1 && d.levels == 2
    })
}

pub(crate) fn a_directory(s: &Surgeon) -> (u64, u64) {
    find(s, |n| is_plain(n) && n.kind() == FileKind::Dir && n.parent != n.number())
}
