//! Small objects are lost by which a file system or a pool is found, and nothing else: a rescue
//! copies every file all the same, and says what it took instead.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use engine::files::{NewFile, NewKind, Time};
use engine::inside::dmu::{Object, Objset};
use engine::inside::ondisk::{BlkPtr, DmuType};
use engine::inside::pool::UnguardedDatasets as _;
use engine::{Create, LivePool, NewPool, OpenOptions, Pool};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use support::place::Place;

/// What is lost of each file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Registry,
    Layouts,
    Both,
    MasterNode,
    FirstDnodes,
}

const ALL: [Lost; 5] =
    [Lost::Registry, Lost::Layouts, Lost::Both, Lost::MasterNode, Lost::FirstDnodes];

fn blocks(object: &Object) -> Vec<BlkPtr> {
    let last = object.dnode().max_block;
    (0..=last).filter_map(|n| object.block_pointer(0, n).unwrap()).collect()
}

/// The blocks of all objects of a type.
fn of_kind(set: &Objset, kind: DmuType) -> Vec<BlkPtr> {
    let objects = set.objects().map(Result::unwrap).filter(|o| o.dnode().kind == kind);
    objects.flat_map(|o| blocks(&o)).collect()
}

impl Lost {
    fn blocks(self, set: &Objset) -> Vec<BlkPtr> {
        match self {
            Self::Registry => of_kind(set, DmuType::SA_ATTR_REGISTRATION),
            Self::Layouts => of_kind(set, DmuType::SA_ATTR_LAYOUTS),
            Self::Both => [Self::Registry, Self::Layouts].map(|l| l.blocks(set)).concat(),
            Self::MasterNode => blocks(&set.object(1).unwrap()),
            Self::FirstDnodes => {
                vec![set.meta_object().unwrap().block_pointer(0, 0).unwrap().unwrap()]
            }
        }
    }
}

/// Overwrites all copies of blocks on an image that is a pool's only device; how many there were.
fn overwrite(image: &Path, blocks: &[BlkPtr]) -> usize {
    let file = std::fs::OpenOptions::new().write(true).open(image).unwrap();
    let mut copies = 0;
    for bp in blocks.iter().filter(|bp| !bp.is_hole() && !bp.is_embedded()) {
        for (_, dva) in bp.dvas() {
            let asize = usize::try_from(dva.asize()).unwrap();
            // Behind the labels and the boot area.
            file.write_all_at(&vec![0x5a; asize], dva.offset() + (4 << 20)).unwrap();
            copies += 1;
        }
    }
    copies
}

fn open(image: &Path, name: &str) -> Pool {
    Pool::open(name, &OpenOptions::in_places([image])).unwrap()
}

/// Loses this of all file systems and snapshots; how many blocks there were.
fn lose(image: &Path, name: &str, lost: Lost) -> usize {
    let pool = open(image, name);
    let mut blocks = Vec::new();
    for (_, dataset) in pool.dsl().datasets() {
        let set = pool.dsl().objset(&dataset.unwrap()).unwrap();
        if set.phys().kind == engine::inside::ondisk::ObjsetKind::Zfs {
            blocks.extend(lost.blocks(&set));
        }
    }
    drop(pool);
    overwrite(image, &blocks)
}

/// A copy of an image without its holes' bytes on disk.
fn copy_of(place: &Place, image: &Path) -> PathBuf {
    let copy = place.path().join("damaged");
    let mut cp = std::process::Command::new("cp");
    assert!(cp.arg("--sparse=always").args([image, &copy]).status().unwrap().success());
    copy
}

fn log(dest: &Path, event: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(dest.join("rescue.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == event).collect()
}

/// What each file is, by dataset and object.
fn files(dest: &Path) -> BTreeMap<(String, u64), String> {
    let mut out = BTreeMap::new();
    for done in log(dest, "done") {
        let Some(path) = done["path"].as_str() else { continue };
        let dataset = done["dataset"].as_str().unwrap();
        let path = dest.join(dataset.replace('/', "%")).join(path);
        let m = std::fs::symlink_metadata(&path).unwrap();
        let content = match m.is_symlink() {
            true => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            false if m.is_file() && m.len() < 32 << 20 => std::fs::read(&path).unwrap(),
            false => Vec::new(),
        };
        let sum = <sha2::Sha256 as sha2::Digest>::digest(&content);
        let what = format!(
            "{:o} {}:{} {} {:x} {}.{} {sum:x?}",
            m.mode(),
            m.uid(),
            m.gid(),
            m.len(),
            m.rdev(),
            m.mtime(),
            m.mtime_nsec()
        );
        let key = (dataset.to_owned(), done["object"].as_u64().unwrap());
        out.insert(key, what);
    }
    out
}

/// Rescues the pool before and after each kind of loss, and compares every file.
fn all_is_rescued(image: &Path, name: &str) {
    let place = Place::new(&[]);
    let rescue = |image: &Path, dest: &str| {
        place.run(&format!("rescue --snapshots -d {} {name} {dest}", image.display()))
    };
    rescue(image, "whole");
    let before = files(&place.path().join("whole"));
    assert!(before.len() > 20, "{}", before.len());
    for lost in ALL {
        let damaged = copy_of(&place, image);
        if lose(&damaged, name, lost) == 0 {
            continue;
        }
        let dest = format!("{lost:?}");
        let run = rescue(&damaged, &dest);
        assert_eq!(run.code, 1, "{lost:?}: {}", run.err);
        assert!(run.err.contains(" used"), "{lost:?}: {}", run.err);
        let dest = place.path().join(dest);
        assert!(!log(&dest, "fallback").is_empty(), "{lost:?}");
        let after = files(&dest);
        for ((dataset, object), what) in &before {
            // Those of the first block of dnodes are gone with it.
            if lost != Lost::FirstDnodes || *object >= 32 {
                let found = after.get(&(dataset.clone(), *object));
                assert_eq!(found, Some(what), "{lost:?}: {dataset}, object {object}");
            }
        }
        if lost != Lost::FirstDnodes {
            let failed = log(&dest, "failed");
            assert!(failed.len() == log(&place.path().join("whole"), "failed").len(), "{failed:?}");
        }
    }
}

/// A pool with files of several kinds, in a file system, its snapshot and a clone.
fn made() -> Place {
    let place = Place::new(&["a"]);
    let tree = place.path().join("tree");
    std::fs::create_dir_all(tree.join("dir/inner")).unwrap();
    for n in 0..60u32 {
        let name = format!("{}file{n}", ["", "dir/", "dir/inner/"][n as usize % 3]);
        let text = format!("{n} ").repeat(n as usize * 400);
        std::fs::write(tree.join(name), text).unwrap();
    }
    for (target, name) in [("file3", "link"), ("dir/inner/file2", "dir/a longer link")] {
        std::os::unix::fs::symlink(target, tree.join(name)).unwrap();
    }
    place.ok("zpool create tank a");
    place.ok("zfs create tank/fs");
    place.ok("cp -r tree tank/fs:/");
    place.ok("zfs snapshot tank/fs@s");
    place.ok("zfs clone tank/fs@s tank/clone");
    place.ok("zpool export tank");
    place
}

#[test]
fn files_are_found_without_the_tables_of_their_file_system() {
    let place = made();
    all_is_rescued(&place.path().join("a"), "tank");
}

#[test]
fn so_are_those_that_openzfs_wrote() {
    let corpus = testkit::corpus("basic");
    all_is_rescued(&corpus.dir.join("vdev0.img"), corpus.name());
}

#[test]
fn so_are_those_of_old_versions() {
    let corpus = testkit::corpus("version28");
    all_is_rescued(&corpus.dir.join("vdev0.img"), corpus.name());
}

#[test]
fn datasets_are_found_without_the_object_directory() {
    let place = made();
    let image = place.path().join("a");
    place.run("rescue --snapshots -d a tank whole");
    // Also that of older states, which would be opened instead.
    let pool = open(&image, "tank");
    let found = pool.candidate().uberblocks.iter();
    let txgs: BTreeSet<u64> = found.map(|u| u.uberblock.txg).collect();
    drop(pool);
    let older = txgs.into_iter().filter_map(|txg| {
        let options = OpenOptions { txg: Some(txg), ..OpenOptions::in_places([&image]) };
        Some(blocks(&Pool::open("tank", &options).ok()?.mos().object(1).unwrap()))
    });
    let directory: Vec<BlkPtr> = older.flatten().collect();
    assert!(overwrite(&image, &directory) > 0);
    let run = place.run("rescue --snapshots -d a tank saved");
    assert_eq!(run.code, 1, "{}", run.err);
    let saved = place.path().join("saved");
    let fallbacks = log(&saved, "fallback");
    let says = |l: &Value| l["cause"].as_str().unwrap().contains("the object directory");
    assert!(fallbacks.len() == 1 && says(&fallbacks[0]), "{fallbacks:?}");
    assert_eq!(files(&saved), files(&place.path().join("whole")));
    // All else does not open such a pool.
    place.fails("ls -d a tank/fs:");
}

/// A pool on a new image, with a volume that is full. Small blocks are not in their pointers.
fn with_volume(image: &Path, name: &str) -> LivePool {
    let pool = NewPool::new("tank").file(image, 128 << 20).unwrap();
    let pool = pool.with(|o| {
        o.features.insert("embedded_data".to_owned(), false);
    });
    let pool = pool.create().unwrap();
    Create::volume(name, 1 << 20).unwrap().run(&pool).unwrap();
    pool.volume(name).unwrap().write_at(0, &vec![7; 1 << 20]).unwrap();
    pool
}

#[test]
fn a_volume_is_as_large_as_its_blocks_without_its_size() {
    let place = Place::new(&[]);
    let image = place.path().join("a");
    with_volume(&image, "tank/v").export().unwrap();
    let pool = open(&image, "tank");
    let set = pool.dsl().objset(&pool.dsl().by_name("tank/v").unwrap()).unwrap();
    let size = blocks(&set.object(2).unwrap());
    drop((set, pool));
    assert!(overwrite(&image, &size) > 0);
    assert_eq!(place.run("rescue -d a tank saved").code, 1);
    assert_eq!(log(&place.path().join("saved"), "fallback").len(), 1);
    assert!(std::fs::read(place.path().join("saved/tank%v.img")).unwrap() == vec![7; 1 << 20]);
}

#[test]
fn an_image_and_a_folder_do_not_get_one_name() {
    let place = Place::new(&[]);
    let pool = with_volume(&place.path().join("a"), "tank/x");
    Create::filesystem("tank/x.img").unwrap().run(&pool).unwrap();
    let fs = pool.filesystem("tank/x.img").unwrap();
    let now = Time { seconds: 1_700_000_000, nanos: 0 };
    let file = NewFile::new(NewKind::File, 0o644, now);
    let file = fs.create(fs.root_object(), b"file", &file).unwrap();
    fs.write_at(file.number(), 0, b"text", now).unwrap();
    drop(fs);
    pool.export().unwrap();
    // The names are the same when it is run again.
    for _ in 0..2 {
        let run = place.run("rescue -d a tank saved");
        assert_eq!(run.code, 0, "{}", run.err);
        assert!(run.err.contains("nothing lost, 1 under other names"), "{}", run.err);
    }
    let saved = place.path().join("saved");
    assert_eq!(std::fs::read(saved.join("tank%x.img/file")).unwrap(), b"text");
    assert!(std::fs::read(saved.join("tank%x.img%")).unwrap() == vec![7; 1 << 20]);
    assert_eq!(log(&saved, "renamed")[0]["name"], "tank%x.img%");
}

/// A state in which a file system cannot be opened is not called intact.
#[test]
fn a_state_whose_files_cannot_be_found_is_not_intact() {
    let place = made();
    let image = place.path().join("a");
    assert!(place.ok("zpool import --txgs -d a tank").contains("intact"));
    assert!(lose(&image, "tank", Lost::MasterNode) > 0);
    let newest = |text: &str| text.lines().nth(1).unwrap_or_default().to_owned();
    for command in ["zpool import --txgs -d a tank", "check --list-txgs -d a tank"] {
        let run = place.run(command);
        assert!(!newest(&run.out).contains("intact"), "{command}: {}", run.out);
    }
    let check = place.run("check -d a tank").out;
    assert!(check.contains("`zinc rescue` copies its files"), "{check}");
}
