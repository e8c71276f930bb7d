//! Records that no log had, applied to real file systems: of every version of the format, with
//! names in every spelling, and with nonsense in them.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use dmu::{Objset, Zap};
use ondisk::zil::{AclPart, AttrBit, Body, Create, ExtraAttrs, Record, TxType, Whiteout};
use ondisk::{BlkPtr, Endian};
use pool::Pool;
use pool::UnguardedDatasets as _;
use poolkit::open;
use std::cell::Cell;
use testkit::Rng;
use zil::{Log, LogBlock, LogEnd};
use zpl::replay::{self, Refusal, ReplayReport, Settings};
use zpl::{FileKind, Filesystem, NewFile, NewKind, Node};

fn objset(pool: &Pool, name: &str) -> Objset {
    pool.dsl().objset(&pool.dsl().by_name(name).unwrap()).unwrap()
}

/// A log of these records, all of a txg to come.
fn log_of(objset: &Objset, bodies: Vec<(TxType, Body)>) -> Log {
    let mut seq = 0;
    let record = |(kind, body)| {
        seq += 1;
        Record::new(kind, 1 << 40, seq, body)
    };
    let records = bodies.into_iter().map(record).collect();
    let (bp, endian) = (BlkPtr::HOLE, Endian::Little);
    let block = LogBlock { bp, seq: 1, used: 0, records, endian };
    let header = objset.phys().zil;
    Log { header, blocks: vec![block], next: None, end: LogEnd::Unwritten }
}

fn apply(objset: &Objset, bodies: Vec<(TxType, Body)>) -> (Filesystem, ReplayReport) {
    let log = log_of(objset, bodies);
    let (seen, report) = replay::filesystem_log(objset, &Settings::new(0), &log).unwrap();
    (Filesystem::open(seen).unwrap(), report)
}

const TIME: [u64; 2] = [2_000_000_000, 5];

fn create(directory: u64, object: u64, mode: u64, name: &str) -> Create {
    Create {
        directory,
        object,
        slots: 1,
        mode,
        uid: 7,
        gid: 8,
        generation: 99,
        create_time: TIME,
        rdev: 0,
        attrs: None,
        acl: None,
        domains: Vec::new(),
        name: name.as_bytes().to_vec(),
        link: None,
    }
}

fn new(directory: u64, object: u64, mode: u64, name: &str) -> (TxType, Body) {
    let kind = if mode >> 12 == 4 { TxType::MKDIR } else { TxType::CREATE };
    (kind, Body::Create(Box::new(create(directory, object, mode, name))))
}

fn symlink(directory: u64, object: u64, name: &str, target: &str) -> (TxType, Body) {
    let link = Some(target.as_bytes().to_vec());
    let body = Create { link, ..create(directory, object, 0o120_777, name) };
    (TxType::SYMLINK, Body::Create(Box::new(body)))
}

fn write(object: u64, offset: u64, data: &[u8]) -> (TxType, Body) {
    let (length, block) = (data.len() as u64, Box::default());
    let data = data.to_vec();
    (TxType::WRITE, Body::Write { object, offset, length, block_offset: 0, block, data })
}

fn remove(directory: u64, name: &str) -> (TxType, Body) {
    (TxType::REMOVE, Body::Remove { directory, name: name.as_bytes().to_vec() })
}

fn rename(source: (u64, &str), target: (u64, &str)) -> (TxType, Body) {
    let body = Body::Rename {
        source_directory: source.0,
        target_directory: target.0,
        whiteout: None,
        source: source.1.as_bytes().to_vec(),
        target: target.1.as_bytes().to_vec(),
    };
    (TxType::RENAME, body)
}

fn setattr(object: u64, mask: u64, mode: u64, size: u64) -> (TxType, Body) {
    let (atime, mtime) = ([1, 2], [3, 4]);
    let body =
        Body::SetAttr { object, mask, mode, uid: 70, gid: 80, size, atime, mtime, attrs: None };
    (TxType::SETATTR, body)
}

fn content(node: &Node) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(node.size).unwrap()];
    assert_eq!(node.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Objects that the pools used here do not have.
const FREE: u64 = 500_000;

#[test]
fn every_version_of_the_format_takes_every_kind_of_file() {
    let corpus = testkit::corpus("version28");
    let pool = open(&corpus);
    for version in 1..=5 {
        let objset = objset(&pool, &format!("v28/zpl{version}"));
        let root = Filesystem::open(objset.clone()).unwrap().root().unwrap();
        let (dir, long) = (root.number(), "x".repeat(300));
        let (fs, report) = apply(
            &objset,
            vec![
                new(dir, FREE, 0o100_640, "new"),
                write(FREE, 3, b"abc"),
                write(FREE, 200_000, b"end"),
                new(dir, FREE + 1, 0o040_755, "newdir"),
                symlink(FREE + 1, FREE + 2, "short", "target"),
                symlink(FREE + 1, FREE + 3, "long", &long),
                new(FREE + 1, FREE + 4, 0o010_600, "pipe"),
                setattr(FREE, 1 | 2 | 4 | 0x20, 0o4751, 0),
                rename((dir, "new"), (FREE + 1, "moved")),
                setattr(FREE + 4, 1, 0o600, 0),
            ],
        );
        assert!(report.stopped.is_none(), "version {version}: {}", report.stopped.unwrap());
        assert_eq!(report.applied, 10);
        assert_eq!(fs.version(), version);
        let root_now = fs.root().unwrap();
        assert_eq!((root_now.size, root_now.links), (root.size + 1, root.links + 1));
        let new_dir = fs.by_path(b"newdir", true).unwrap();
        assert_eq!((new_dir.number(), new_dir.size, new_dir.links), (FREE + 1, 6, 2));
        let names: Vec<Vec<u8>> =
            new_dir.sorted_entries().unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, [&b"long"[..], b"moved", b"pipe", b"short"]);
        let file = fs.by_path(b"newdir/moved", true).unwrap();
        assert_eq!((file.mode, file.uid, file.gid, file.links), (0o104_751, 70, 80, 1));
        assert_eq!((file.mtime.seconds, file.mtime.nanos), (3, 4));
        assert_eq!(file.crtime.seconds, 2_000_000_000);
        assert_eq!((file.parent, file.generation, file.size), (FREE + 1, 99, 200_003));
        let bytes = content(&file);
        assert_eq!((&bytes[..8], &bytes[200_000..]), (&b"\0\0\0abc\0\0"[..], &b"end"[..]));
        assert_eq!(file.object().dnode().block_size(), 128 << 10);
        let link = |path: &[u8]| fs.by_path(path, false).unwrap().read_link().unwrap();
        assert_eq!(link(b"newdir/short"), b"target");
        assert_eq!(link(b"newdir/long"), long.as_bytes());
        assert_eq!(fs.by_path(b"newdir/pipe", true).unwrap().kind(), FileKind::Fifo);
        assert_eq!(
            fs.objset().objects().filter(|o| o.as_ref().unwrap().number() >= FREE).count(),
            5
        );
    }
}

#[test]
fn names_are_found_as_the_file_system_finds_them() {
    let corpus = testkit::corpus("casefold");
    let pool = open(&corpus);
    for (name, finds) in [("folded/insensitive", true), ("folded/mixed", false), ("folded", false)]
    {
        let objset = objset(&pool, name);
        let dir = Filesystem::open(objset.clone()).unwrap().root_object();
        let begin = || vec![new(dir, FREE, 0o100_600, "FreshName")];
        let mut list = begin();
        list.push(remove(dir, "freshNAME"));
        let (fs, report) = apply(&objset, list);
        assert_eq!(report.stopped.is_none(), finds, "{name}");
        assert_eq!(fs.by_path(b"FreshName", true).is_err(), finds, "{name}");
        // A name in another spelling is the same name, and can be renamed to it.
        let mut list = begin();
        list.push(rename((dir, "FreshName"), (dir, "FRESHNAME")));
        let (fs, report) = apply(&objset, list);
        assert!(report.stopped.is_none(), "{name}");
        let entries = fs.root().unwrap().sorted_entries().unwrap();
        let ours: Vec<_> = entries.into_iter().filter(|e| e.object == FREE).collect();
        assert_eq!(ours.len(), 1, "{name}");
        assert_eq!(ours[0].name, b"FRESHNAME", "{name}");
    }
}

/// The file system most tests here start from: its objset, its root, a regular file in the root.
fn start(pool: &Pool) -> (Objset, u64, Node, String) {
    let objset = objset(pool, "logged/xdir");
    let fs = Filesystem::open(objset.clone()).unwrap();
    let root = fs.root().unwrap();
    let files = root.sorted_entries().unwrap().into_iter().map(|e| (fs.node(e.object).unwrap(), e));
    let (node, entry) =
        files.into_iter().find(|(n, _)| n.kind() == FileKind::File && n.size > 1000).unwrap();
    (objset, root.number(), node, String::from_utf8(entry.name).unwrap())
}

#[test]
fn a_record_that_fails_changes_nothing_and_ends_the_replay() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, file, name) = start(&pool);
    let fails: Vec<(&str, Vec<(TxType, Body)>)> = vec![
        ("no such name", vec![remove(dir, "nothing")]),
        ("no directory", vec![remove(file.number(), "x")]),
        ("object in use", vec![new(dir, file.number(), 0o100_600, "y")]),
        ("object 0", vec![new(dir, 0, 0o100_600, "y")]),
        ("mkdir of a file", vec![(TxType::MKDIR, new(dir, FREE, 0o100_600, "y").1)]),
        ("name with a slash", vec![new(dir, FREE, 0o100_600, "a/b")]),
        ("no name", vec![new(dir, FREE, 0o100_600, "")]),
        ("directory exists", vec![new(dir, FREE, 0o040_700, &name)]),
        ("far write", vec![write(file.number(), u64::MAX - 2, b"abc")]),
        ("write to a directory", vec![write(dir, 0, b"abc")]),
        ("enormous size", vec![setattr(file.number(), 8, 0, u64::MAX)]),
        ("unknown type", vec![(TxType(77), Body::Unknown(vec![1; 64]))]),
        (
            "write of a block that is shorter",
            vec![(TxType::WRITE, {
                let (length, object) = (1 << 40, file.number());
                let block = Box::default();
                Body::Write { object, offset: 0, length, block_offset: 0, block, data: Vec::new() }
            })],
        ),
        (
            "clone with too few blocks",
            vec![(TxType::CLONE_RANGE, {
                let (object, length) = (file.number(), 1 << 50);
                let block_size = file.object().dnode().block_size();
                Body::CloneRange { object, offset: 0, length, block_size, blocks: Vec::new() }
            })],
        ),
        (
            "directory below itself",
            vec![
                new(dir, FREE + 1, 0o040_700, "a"),
                new(FREE + 1, FREE + 2, 0o040_700, "b"),
                new(FREE + 2, FREE + 3, 0o040_700, "c"),
                rename((dir, "a"), (FREE + 3, "d")),
            ],
        ),
        (
            "directory with entries",
            vec![
                new(dir, FREE + 1, 0o040_700, "a"),
                new(FREE + 1, FREE + 2, 0o100_600, "b"),
                (TxType::RMDIR, Body::Remove { directory: dir, name: b"a".to_vec() }),
            ],
        ),
    ];
    for (what, list) in fails {
        let before = list.len() as u64 - 1;
        let mut all = list;
        all.push(remove(dir, &name));
        let (fs, report) = apply(&objset, all);
        assert!(report.problem().is_some_and(|p| p.contains("is not replayed")), "{what}");
        let stop = report.stopped.unwrap_or_else(|| panic!("{what}: was applied"));
        assert_eq!((stop.seq, report.applied), (before + 1, before), "{what}: {stop}");
        // What came after was not applied, and what failed left no trace.
        let still = fs.by_path(name.as_bytes(), true).unwrap();
        assert_eq!(content(&still), content(&file), "{what}");
        assert!(fs.node(FREE).is_err(), "{what}");
        fs.objset().objects().for_each(|o| drop(o.unwrap()));
    }
}

#[test]
fn records_about_what_is_no_more_are_passed_over() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, file, name) = start(&pool);
    let number = file.number();
    let (fs, report) = apply(
        &objset,
        vec![
            remove(dir, &name),
            write(number, 0, b"late"),
            setattr(number, 1, 0o777, 0),
            (TxType::TRUNCATE, Body::Truncate { object: number, offset: 0, length: 0 }),
            // The number is free again.
            new(dir, number, 0o100_600, "reborn"),
            write(number, 0, b"new"),
        ],
    );
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    assert_eq!((report.applied, report.passed_over), (3, 3));
    assert_eq!(content(&fs.by_path(b"reborn", true).unwrap()), b"new");
    assert!(fs.by_path(name.as_bytes(), true).is_err());
}

/// A random change of a file's content, made to a plain array too.
fn change(rng: &mut Rng, object: u64, bytes: &mut Vec<u8>) -> (TxType, Body) {
    let scale = [2_000, 100_000, 500_000][rng.below(3) as usize];
    let (offset, length) = (rng.below(scale), rng.below(scale / 2) + 1);
    let end = offset + length;
    match rng.below(4) {
        0 => {
            bytes.resize(offset as usize, 0);
            setattr(object, 8, 0, offset)
        }
        1 => {
            let size = bytes.len();
            let range = (offset as usize).min(size)..(end as usize).min(size);
            bytes[range].fill(0);
            bytes.resize(size.max(end as usize), 0);
            (TxType::TRUNCATE, Body::Truncate { object, offset, length })
        }
        _ => {
            let data = vec![rng.below(3) as u8; length as usize];
            bytes.resize(bytes.len().max(end as usize), 0);
            bytes[offset as usize..end as usize].copy_from_slice(&data);
            write(object, offset, &data)
        }
    }
}

#[test]
fn content_is_as_if_it_had_been_written() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, file, name) = start(&pool);
    testkit::shrinking(30, 80, |steps| {
        // A file from disk and a new one, each against a plain array of bytes.
        let mut plain = [content(&file), Vec::new()];
        let mut list = vec![new(dir, FREE, 0o100_600, "fresh")];
        for number in steps {
            let mut rng = Rng::new(*number);
            let which = rng.below(2) as usize;
            list.push(change(&mut rng, [file.number(), FREE][which], &mut plain[which]));
        }
        let (fs, report) = apply(&objset, list);
        assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
        for (path, plain) in [(name.as_str(), &plain[0]), ("fresh", &plain[1])] {
            let node = fs.by_path(path.as_bytes(), true).unwrap();
            assert_eq!(node.size, plain.len() as u64, "{path}");
            assert!(content(&node) == *plain, "{path}");
            // What is in no segment is zeros, and a block of zeros is in none.
            let block = node.object().dnode().block_size();
            let mut holes = vec![true; plain.len()];
            for s in node.segments().unwrap() {
                holes[s.offset as usize..(s.offset + s.length) as usize].fill(false);
            }
            for (at, bytes) in plain.chunks(block as usize).enumerate() {
                let zeros = bytes.iter().all(|b| *b == 0);
                assert!(zeros || !holes[at * block as usize], "{path} {at}");
            }
        }
    });
}

#[test]
fn memory_is_capped() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, ..) = start(&pool);
    // Each record of one byte costs a block of 16 MiB.
    let mut list = vec![new(dir, FREE, 0o100_600, "sparse")];
    list.extend((0..1000).map(|n| write(FREE, n << 30, b"x")));
    let log = log_of(&objset, list);
    let memory_max = 256 << 20;
    let settings = Settings { record_size: 16 << 20, memory_max, ..Settings::new(0) };
    let (seen, report) = replay::filesystem_log(&objset, &settings, &log).unwrap();
    let stop = report.stopped.unwrap();
    assert!(matches!(stop.why, Refusal::Memory), "{stop}");
    assert!((10..20).contains(&report.applied), "{}", report.applied);
    let file = Filesystem::open(seen).unwrap().by_path(b"sparse", true).unwrap();
    assert_eq!(file.segments().unwrap().len() as u64, report.applied - 1);
    // Freeing all of a sparse file costs nothing, however far it reaches.
    let (fs, report) = apply(
        &objset,
        vec![
            new(dir, FREE, 0o100_600, "sparse"),
            write(FREE, 1 << 62, b"x"),
            (TxType::TRUNCATE, Body::Truncate { object: FREE, offset: 1, length: 1 << 61 }),
            setattr(FREE, 8, 0, 1),
        ],
    );
    assert!(report.stopped.is_none());
    assert_eq!(fs.by_path(b"sparse", true).unwrap().segments().unwrap(), []);
}

#[test]
fn flags_and_projects_come_with_the_extra_attributes() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, file, name) = start(&pool);
    let bits = [AttrBit::Immutable, AttrBit::NoDump, AttrBit::ProjInherit, AttrBit::ProjectId];
    let map = bits.iter().fold(0, |all, b| all | *b as u32);
    let values = u64::from(map) & !u64::from(AttrBit::NoDump as u32);
    let mut stamp = [0; 32];
    stamp[..8].copy_from_slice(&4711u64.to_le_bytes());
    let attrs = ExtraAttrs { map: [map, 0, 0], values, create_time: [0, 0], stamp };
    let mut list = vec![setattr(file.number(), 1 << 31, 0, 0)];
    if let Body::SetAttr { attrs: slot, .. } = &mut list[0].1 {
        *slot = Some(Box::new(attrs));
    }
    let body = Create { attrs: Some(attrs), ..create(dir, FREE, 0o040_755, "projects") };
    list.push((TxType::MKDIR_ATTR, Body::Create(Box::new(body))));
    list.push(new(FREE, FREE + 1, 0o100_600, "inherits"));
    let (fs, report) = apply(&objset, list);
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    for path in [name.as_str(), "projects", "projects/inherits"] {
        let node = fs.by_path(path.as_bytes(), true).unwrap();
        assert_eq!(node.project, 4711, "{path}");
        let immutable = if path.ends_with("inherits") { 0 } else { 0x10 };
        assert_eq!(node.linux_flags(), 0x2000_0000 | immutable, "{path}");
    }
    assert_eq!(fs.by_path(name.as_bytes(), true).unwrap().mode, file.mode);
}

#[test]
fn attributes_that_do_not_fit_go_to_a_spill_block() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, _, file, name) = start(&pool);
    let set = |name: &str, value: Vec<u8>| {
        let (object, name) = (file.number(), name.as_bytes().to_vec());
        (TxType::SETSAXATTR, Body::SetSaXattr { object, name, value })
    };
    let (fs, report) = apply(
        &objset,
        vec![
            set("user.replayed-small", b"v".to_vec()),
            set("user.replayed-large", vec![0xab; 20_000]),
            set("user.replayed-small", Vec::new()),
        ],
    );
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    let node = fs.by_path(name.as_bytes(), true).unwrap();
    let xattrs = node.xattrs().unwrap();
    assert_eq!(xattrs.get(&b"user.replayed-large"[..]), Some(&vec![0xab; 20_000]));
    assert!(!xattrs.contains_key(&b"user.replayed-small"[..]));
    assert!(node.object().dnode().bonus.len() <= 320);
    assert_eq!(content(&node), content(&file));
    // The layout this needed is in the table now.
    let master = Zap::open(&fs.objset().object(1).unwrap()).unwrap();
    assert!(master.get_u64("SA_ATTRS").unwrap().is_some());
}

/// The records of a log after damages, one for each number. What cannot be decoded is left out.
fn damaged(bytes: &[Vec<u8>], damages: &[u64]) -> Vec<Record> {
    let mut bytes = bytes.to_vec();
    for number in damages {
        let mut rng = Rng::new(*number);
        let which = rng.below(bytes.len() as u64) as usize;
        if rng.below(5) < 2 {
            // It comes once more, later.
            let at = which + rng.below((bytes.len() - which) as u64 + 1) as usize;
            bytes.insert(at, bytes[which].clone());
            continue;
        }
        // Type and length stay; one word becomes small, large, or another one's.
        let words = (bytes[which].len() / 8 - 4) as u64;
        let at = 32 + 8 * rng.below(words) as usize;
        let value = [rng.below(120), u64::MAX - rng.below(9), rng.next_u64(), 1 << 62];
        bytes[which][at..at + 8].copy_from_slice(&rng.pick(&value).to_le_bytes());
    }
    bytes.iter().filter_map(|b| Record::decode(b, Endian::Little).ok()).collect()
}

#[test]
fn a_damaged_log_never_panics() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let objset = objset(&pool, "logged/fs");
    let whole = Log::read(&objset);
    let bytes: Vec<Vec<u8>> = whole.pending(0).map(|r| r.encode(Endian::Little)).collect();
    assert!(bytes.len() > 100);
    let stopped = Cell::new(0);
    testkit::shrinking(120, 12, |damages| {
        let records = damaged(&bytes, damages);
        let mut log = whole.clone();
        let endian = Endian::Little;
        log.blocks = vec![LogBlock { bp: BlkPtr::HOLE, seq: 1, used: 0, records, endian }];
        let settings = Settings { memory_max: 64 << 20, ..Settings::new(0) };
        let (seen, report) = replay::filesystem_log(&objset, &settings, &log).unwrap();
        stopped.set(stopped.get() + u32::from(report.stopped.is_some()));
        let fs = Filesystem::open(seen).unwrap();
        for object in fs.objset().objects() {
            let Ok(node) = Node::from_object(&fs, object.unwrap()) else { continue };
            let _ = node.sorted_entries();
            let _ = node.segments();
            let _ = node.read_at(0, &mut [0; 4096]);
            let _ = node.xattrs();
        }
    });
    let stopped = stopped.get();
    assert!(stopped > 20, "only {stopped} of 120 damaged logs failed");
}

#[test]
fn blocks_that_are_on_disk_become_blocks_of_the_file() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, file, name) = start(&pool);
    let bp = file.object().block_pointer(0, 0).unwrap().unwrap();
    let size = file.object().dnode().block_size();
    let write = |object, offset, length| {
        let (block, data) = (Box::new(bp), Vec::new());
        (TxType::WRITE, Body::Write { object, offset, length, block_offset: 0, block, data })
    };
    let clone = |object| {
        let (length, blocks) = (size, vec![bp]);
        let body = Body::CloneRange { object, offset: 0, length, block_size: size, blocks };
        (TxType::CLONE_RANGE, body)
    };
    let (fs, report) = apply(
        &objset,
        vec![
            new(dir, FREE, 0o100_600, "whole"),
            write(FREE, 0, size),
            new(dir, FREE + 1, 0o100_600, "part"),
            write(FREE + 1, 7, 3),
            new(dir, FREE + 2, 0o100_600, "cloned"),
            clone(FREE + 2),
            setattr(FREE + 2, 8, 0, 9),
        ],
    );
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    file.object().read_at(0, &mut bytes).unwrap();
    let read = |path: &[u8]| content(&fs.by_path(path, true).unwrap());
    assert!(read(b"whole") == bytes, "{name}");
    // Of a block written for a part of it, all of it counts but for where the file ends.
    assert_eq!(read(b"part"), bytes[..10]);
    assert_eq!(read(b"cloned"), bytes[..9]);
    // It was taken over as it is: uncompressed it would take more.
    let node = fs.by_path(b"whole", true).unwrap();
    assert_eq!(node.object().dnode().used_bytes(), bp.asize());
}

#[test]
fn names_move_in_every_way_a_log_has() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, ..) = start(&pool);
    let whiteout = Whiteout {
        object: FREE + 9,
        slots: 1,
        mode: 0o020_000,
        uid: 0,
        gid: 0,
        generation: 77,
        create_time: TIME,
        rdev: 0,
    };
    let mut white = rename((dir, "a"), (FREE, "moved")).1;
    if let Body::Rename { whiteout: slot, .. } = &mut white {
        *slot = Some(whiteout);
    }
    let (fs, report) = apply(
        &objset,
        vec![
            new(dir, FREE, 0o040_755, "dir"),
            new(dir, FREE + 1, 0o100_600, "a"),
            new(dir, FREE + 2, 0o100_600, "b"),
            (TxType::RENAME_EXCHANGE, rename((dir, "b"), (dir, "dir")).1),
            (TxType::RENAME_EXCHANGE, rename((dir, "b"), (dir, "dir")).1),
            (TxType::RENAME_WHITEOUT, white),
            (TxType::LINK, Body::Link { directory: FREE, object: FREE + 2, name: b"c".to_vec() }),
        ],
    );
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    let at = |path: &[u8]| fs.by_path(path, false).unwrap();
    assert_eq!((at(b"a").number(), at(b"a").kind()), (FREE + 9, FileKind::Char));
    assert_eq!(at(b"a").generation, 77);
    assert_eq!((at(b"dir/moved").number(), at(b"dir/c").links), (FREE + 1, 2));
    assert_eq!((at(b"dir").size, at(b"b").number()), (4, FREE + 2));
}

#[test]
fn lists_and_attribute_directories_come_back() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, file, name) = start(&pool);
    // Owner may read, everyone may not: entries of version 0, as applications pass them.
    let entry = |flags: u16, kind: u16| {
        let mut bytes = vec![0; 4];
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes
    };
    let entries = [entry(0x1000, 0), entry(0x4000, 1)].concat();
    let acl = AclPart::new(2, 0x2, entries);
    let xattrs = Create { name: Vec::new(), ..create(FREE, FREE + 1, 0o040_777, "") };
    let (fs, report) = apply(
        &objset,
        vec![
            (TxType::ACL, Body::Acl { object: file.number(), acl }),
            new(dir, FREE, 0o100_600, "with"),
            (TxType::MKXATTR, Body::Create(Box::new(xattrs))),
            new(FREE + 1, FREE + 2, 0o100_600, "user.note"),
            write(FREE + 2, 0, b"value"),
            new(dir, FREE + 3, 0o100_600, "gone"),
            remove(dir, "with"),
        ],
    );
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    let node = fs.by_path(name.as_bytes(), true).unwrap();
    let list = node.acl().unwrap();
    assert_eq!((list.entries.len(), list.trivial, node.mode & 0o777), (2, false, 0o400));
    // A file goes with the files that hold its attributes.
    for object in [FREE, FREE + 1, FREE + 2] {
        assert!(fs.objset().object(object).is_err(), "{object}");
    }
    assert!(fs.unlinked().unwrap().is_empty());
    let kept = vec![
        new(dir, FREE, 0o100_600, "with"),
        (TxType::MKXATTR, {
            let xattrs = Create { name: Vec::new(), ..create(FREE, FREE + 1, 0o040_777, "") };
            Body::Create(Box::new(xattrs))
        }),
        new(FREE + 1, FREE + 2, 0o100_600, "user.note"),
        write(FREE + 2, 0, b"value"),
    ];
    let (fs, report) = apply(&objset, kept);
    assert!(report.stopped.is_none(), "{}", report.stopped.unwrap());
    let xattrs = fs.by_path(b"with", true).unwrap().xattrs().unwrap();
    assert_eq!(xattrs.get(&b"user.note"[..]), Some(&b"value".to_vec()));
}

#[test]
fn what_was_replayed_can_be_changed_no_more() {
    let corpus = testkit::corpus("ziluncle");
    let pool = open(&corpus);
    let (objset, dir, ..) = start(&pool);
    let (fs, _) = apply(&objset, vec![new(dir, FREE, 0o100_600, "new")]);
    let file = NewFile::new(NewKind::File, 0o600, zpl::Time::default());
    assert!(fs.create(dir, b"later", &file).is_err());
    assert!(fs.write_at(FREE, 0, b"later", zpl::Time::default()).is_err());
    assert_eq!(content(&fs.by_path(b"new", true).unwrap()), b"");
}

#[test]
fn the_list_of_a_mode_is_the_one_openzfs_wrote() {
    let mut seen = 0;
    for case in ["basic", "version28"] {
        let corpus = testkit::corpus(case);
        let pool = open(&corpus);
        for (name, _) in pool.dsl().walk() {
            let objset = objset(&pool, &name);
            let Ok(fs) = Filesystem::open(objset.clone()) else { continue };
            let objects = objset.objects().filter_map(|o| Node::from_object(&fs, o.unwrap()).ok());
            // The mode of a link says nothing: Linux does not change it.
            let trivial = |n: &Node| {
                n.kind() != FileKind::Symlink && n.acl().is_ok_and(|a| a.trivial && n.links > 0)
            };
            let before: Vec<Node> = objects.filter(trivial).take(400).collect();
            // With POSIX lists the mode changes without the other list.
            let posix =
                |n: &Node| n.linux_xattrs(true).unwrap().keys().any(|k| k.starts_with(b"system."));
            if before.iter().any(posix) {
                continue;
            }
            let list = before.iter().map(|n| setattr(n.number(), 1, n.mode, 0)).collect();
            let (after, report) = apply(&objset, list);
            assert!(report.stopped.is_none(), "{name}: {}", report.stopped.unwrap());
            for node in before {
                let ours = after.node(node.number()).unwrap();
                let what = format!("{name}: object {} mode {:o}", node.number(), node.mode);
                assert_eq!(ours.acl().unwrap().entries, node.acl().unwrap().entries, "{what}");
                assert_eq!(ours.mode, node.mode, "{what}");
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "only {seen} files");
}
