//! Files that share blocks because a program asked for it, while those that had them first give
//! them up: in the same txg, before or after it was promised, and with all that may follow.

use super::evacuate::set;
use super::no_problems;
use super::random::Bench;
use super::random::clones::clone_file;
use engine::files::{
    CloneRange, CopiedSnapshot, FlagChange, Hold, NewFile, NewKind, QuotaKind, SetAttrs, SpaceKind,
    Time, flags,
};
use engine::inside::zpl::write::FsSettings;
use engine::live::tunables::Tunable;
use engine::{Filesystem, LivePool, PropertyChange, StoredValue};
use poolkit::Shape;
use std::cell::Cell;
use testkit::Rng;

const NOW: Time = Time { seconds: 1, nanos: 0 };
const DEVICE_BYTES: u64 = 64 << 20;
const RECORD: u64 = 128 << 10;
/// Blocks of a file, the last not whole.
const SIZE: u64 = 12 * RECORD + 1000;
/// Txgs end by themselves now and then: what needs one is tried again.
const TRIES: usize = 20;

fn pool_of(bench: &Bench) -> LivePool {
    let pool = bench.create();
    pool.enable_feature("block_cloning").unwrap();
    pool
}

/// Neither check nor zdb finds fault with the pool, which is exported.
fn judge(bench: &Bench, pool: LivePool) {
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
    bench.zdb();
}

fn new_file(fs: &Filesystem, name: &str) -> u64 {
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    fs.create(fs.root_object(), name.as_bytes(), &new).unwrap().number()
}

fn bytes(seed: u64, length: u64) -> Vec<u8> {
    let mut data = vec![0; length as usize];
    Rng::new(seed).fill(&mut data);
    data
}

fn read(fs: &Filesystem, file: u64) -> Vec<u8> {
    let node = fs.node(file).unwrap();
    let mut data = vec![0; node.size as usize];
    node.read_at(0, &mut data).unwrap();
    data
}

fn shared_bytes(pool: &LivePool) -> u64 {
    pool.look().unwrap().space().clones_used
}

/// Copies from one place to another as far as blocks can be shared; `None`: that is nowhere.
fn share(fs: &Filesystem, from: (u64, u64), to: (u64, u64), length: u64) -> Option<u64> {
    match fs.clone_range(&CloneRange { from, to, length }, NOW) {
        Ok(length) => Some(length),
        Err(e) => {
            assert!(e.to_string().contains("belong to another file"), "{e}");
            None
        }
    }
}

fn open_txg(fs: &Filesystem) -> u64 {
    fs.begin(Hold::free()).unwrap().txg()
}

/// How a file gives up what it has.
type Way = fn(&Filesystem, u64, &str);

const WAYS: [(&str, Way); 4] = [
    ("overwritten", |fs, file, _| fs.write_at(file, 0, &bytes(99, SIZE), NOW).unwrap()),
    ("cut off", |fs, file, _| fs.truncate(file, 0, NOW).unwrap()),
    ("a hole", |fs, file, _| fs.punch(file, 0, SIZE, NOW).unwrap()),
    ("removed", |fs, _, name| fs.unlink(fs.root_object(), name.as_bytes(), NOW).unwrap()),
];

/// Space that was freed is used again, as soon as it may be.
fn use_space(pool: &LivePool, fs: &Filesystem, seed: u64) {
    let file = new_file(fs, &format!("more{seed}"));
    for n in 0..5 {
        fs.write_at(file, 0, &bytes(seed + n, 2 * SIZE), NOW).unwrap();
        pool.sync().unwrap();
    }
    fs.unlink(fs.root_object(), format!("more{seed}").as_bytes(), NOW).unwrap();
    pool.sync().unwrap();
}

/// A file takes blocks over that the other gives up in the same txg. Neither of the two is synced
/// first by rule: both orders are tried.
#[test]
fn what_was_taken_over_stays_when_the_other_file_goes_in_the_same_txg() {
    for is_encrypted in [false, true] {
        let bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).encrypted(is_encrypted);
        let pool = pool_of(&bench);
        let fs = pool.filesystem("tank").unwrap();
        let mut kept = Vec::new();
        for (n, (what, gives_up)) in (0..).zip(WAYS.iter().chain(&WAYS)) {
            let is_first = n < WAYS.len() as u64;
            let data = bytes(n, SIZE);
            let done = (0..TRIES).any(|attempt| {
                let name = |what: &str| format!("{what}{n}.{attempt}");
                let early = is_first.then(|| new_file(&fs, &name("to")));
                let source = new_file(&fs, &name("from"));
                let to = early.unwrap_or_else(|| new_file(&fs, &name("to")));
                fs.write_at(source, 0, &data, NOW).unwrap();
                pool.sync().unwrap();
                let txg = open_txg(&fs);
                assert_eq!(share(&fs, (source, 0), (to, 0), SIZE), Some(SIZE), "{what}");
                gives_up(&fs, source, &name("from"));
                let is_one = open_txg(&fs) == txg;
                assert!(read(&fs, to) == data, "{what}, in memory");
                pool.sync().unwrap();
                kept.push((to, data.clone()));
                is_one
            });
            assert!(done, "{what}");
            assert_eq!(shared_bytes(&pool), 0, "{what}: one file has them");
            no_problems(&pool);
            use_space(&pool, &fs, 1000 + 10 * n);
            for (to, data) in &kept {
                assert!(read(&fs, *to) == *data, "{what}");
            }
        }
        pool.scrub().unwrap();
        pool.wait_for_scan().unwrap();
        no_problems(&pool);
        drop(fs);
        judge(&bench, pool);
    }
}

/// A copy that goes again in its txg leaves nothing behind, whether the other file has the blocks
/// or not.
#[test]
fn a_copy_that_does_not_outlive_its_txg_leaves_nothing() {
    let bench = Bench::new(Shape::Raidz1, DEVICE_BYTES, 12);
    let pool = pool_of(&bench);
    let fs = pool.filesystem("tank").unwrap();
    for (n, (what, gives_up)) in (0..).zip(WAYS) {
        for stays in [true, false] {
            let name = |what: &str| format!("{what}{n}{stays}");
            let (source, to) = (new_file(&fs, &name("from")), new_file(&fs, &name("to")));
            fs.write_at(source, 0, &bytes(n, SIZE), NOW).unwrap();
            pool.sync().unwrap();
            assert_eq!(share(&fs, (source, 0), (to, 0), SIZE), Some(SIZE));
            gives_up(&fs, to, &name("to"));
            if !stays {
                gives_up(&fs, source, &name("from"));
            }
            pool.sync().unwrap();
            assert_eq!(shared_bytes(&pool), 0, "{what}");
            no_problems(&pool);
            use_space(&pool, &fs, 1000 + 10 * n);
            if stays {
                assert!(read(&fs, source) == bytes(n, SIZE), "{what}");
            }
        }
    }
    drop(fs);
    judge(&bench, pool);
}

/// Copies of copies are counted, in parts, with holes and within one file; all go again.
#[test]
fn copies_are_counted_until_the_last_is_gone() {
    let bench = Bench::new(Shape::Disks3, DEVICE_BYTES, 12);
    let pool = pool_of(&bench);
    let fs = pool.filesystem("tank").unwrap();
    let [source, to, third] = ["source", "to", "third"].map(|name| new_file(&fs, name));
    let mut data = bytes(1, SIZE);
    data[4 * RECORD as usize..6 * RECORD as usize].fill(0);
    fs.write_at(source, 0, &data, NOW).unwrap();
    fs.punch(source, 4 * RECORD, 2 * RECORD, NOW).unwrap();
    pool.sync().unwrap();
    assert_eq!(share(&fs, (source, 0), (to, 0), u64::MAX), Some(SIZE));
    pool.sync().unwrap();
    let once = shared_bytes(&pool);
    assert!((10 * RECORD..11 * RECORD).contains(&once), "{once}");
    // Of a copy that is durable by now, behind the end of a third.
    assert_eq!(share(&fs, (to, 2 * RECORD), (third, 20 * RECORD), 4 * RECORD), Some(4 * RECORD));
    // And within one file.
    assert_eq!(share(&fs, (to, 0), (to, 8 * RECORD), 2 * RECORD), Some(2 * RECORD));
    pool.sync().unwrap();
    let mut expected = data.clone();
    expected.copy_within(0..2 * RECORD as usize, 8 * RECORD as usize);
    assert!(read(&fs, to) == expected);
    assert!(read(&fs, source) == data);
    let got = read(&fs, third);
    assert!(got[20 * RECORD as usize..] == data[2 * RECORD as usize..6 * RECORD as usize]);
    let space = pool.look().unwrap().space();
    assert!(space.clones_saved > space.clones_used, "some blocks have three");
    pool.snapshot(&["tank@now".to_owned()], vec![]).unwrap();
    for name in ["source", "third", "to"] {
        fs.unlink(fs.root_object(), name.as_bytes(), NOW).unwrap();
        pool.sync().unwrap();
        no_problems(&pool);
    }
    assert!(shared_bytes(&pool) > 0, "the snapshot has them");
    pool.destroy_snapshots(&["tank@now".to_owned()], false).unwrap();
    (0..4).for_each(|_| pool.sync().unwrap());
    assert_eq!(shared_bytes(&pool), 0);
    drop(fs);
    judge(&bench, pool);
}

/// What cannot be shared is refused, and nothing is changed then; what follows a part that can be
/// is left to the caller.
#[test]
fn only_whole_durable_blocks_of_one_size_are_shared() {
    let bench = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
    let pool = bench.create();
    let fs = pool.filesystem("tank").unwrap();
    let [source, to, small] = ["source", "to", "small"].map(|name| new_file(&fs, name));
    let data = bytes(1, SIZE);
    fs.write_at(source, 0, &data, NOW).unwrap();
    fs.write_at(small, 0, &data[..3000], NOW).unwrap();
    pool.sync().unwrap();
    let all = |to: u64| share(&fs, (source, 0), (to, 0), SIZE);
    assert_eq!(all(to), None, "the pool lacks the feature");
    pool.enable_feature("block_cloning").unwrap();
    set(&pool, Tunable::BcloneEnabled, 0);
    assert_eq!(all(to), None, "it is switched off");
    set(&pool, Tunable::BcloneEnabled, 1);
    assert_eq!(share(&fs, (source, 512), (to, 0), RECORD), None, "not where a block begins");
    assert_eq!(share(&fs, (source, 0), (to, 512), RECORD), None, "not where one would begin");
    assert_eq!(share(&fs, (source, 0), (to, 0), RECORD - 1), None, "a part of one");
    assert_eq!(share(&fs, (small, 0), (to, 3072), 3000), None, "small blocks are the only ones");
    assert_eq!(share(&fs, (source, SIZE), (to, 0), 1), Some(0), "the end");
    assert_eq!(read(&fs, to).len(), 0);
    assert_eq!(share(&fs, (source, 0), (to, 0), RECORD + 1), Some(RECORD), "whole ones");
    // The third block is changed, and not durable.
    fs.write_at(source, 2 * RECORD + 5, b"new", NOW).unwrap();
    assert_eq!(all(to), Some(2 * RECORD));
    assert_eq!(share(&fs, (source, 2 * RECORD), (to, 0), RECORD), None, "not durable");
    assert_eq!(share(&fs, (to, 0), (source, 0), RECORD), None, "a copy is not durable either");
    pool.sync().unwrap();
    assert_eq!(all(to), Some(SIZE));
    // The end of a file is taken over only where the other ends, too.
    fs.write_at(to, 0, &bytes(2, SIZE + 1), NOW).unwrap();
    assert_eq!(all(to), Some(12 * RECORD));
    assert!(read(&fs, to)[..12 * RECORD as usize] == read(&fs, source)[..12 * RECORD as usize]);
    assert_eq!(read(&fs, to).len() as u64, SIZE + 1);
    let tiny = new_file(&fs, "tiny");
    assert_eq!(share(&fs, (small, 0), (tiny, 0), 3000), Some(3000));
    assert!(read(&fs, tiny) == data[..3000]);
    // A file of many blocks has no block of another size.
    assert_eq!(share(&fs, (small, 0), (to, 0), 3000), None);
    drop(fs);
    judge(&bench, pool);
}

/// A copy that was promised is there after a crash, whatever became of the other file: its blocks
/// are in the last txg, and the log keeps them while it is replayed.
#[test]
fn a_copy_that_was_promised_is_replayed() {
    for (is_encrypted, (what, gives_up)) in [false, true].into_iter().zip([WAYS[0], WAYS[3]]) {
        let mut bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).encrypted(is_encrypted);
        let mut pool = pool_of(&bench);
        let data = bytes(7, SIZE);
        let done = (0..TRIES).any(|n| {
            let fs = pool.filesystem("tank").unwrap();
            let (from, to) = (format!("from{n}"), format!("to{n}"));
            let (source, copy) = (new_file(&fs, &from), new_file(&fs, &to));
            fs.write_at(source, 0, &data, NOW).unwrap();
            // The first promise waits for the txg that has the beginning of the log.
            fs.sync_all().unwrap();
            pool.sync().unwrap();
            let durable = pool.last_synced();
            assert_eq!(share(&fs, (source, 0), (copy, 0), SIZE), Some(SIZE));
            gives_up(&fs, source, &from);
            fs.write_at(copy, RECORD, b"changed", NOW).unwrap();
            fs.sync_all().unwrap();
            let is_in_log = pool.last_synced() == durable;
            drop(fs);
            bench.fork();
            let imported = bench.import();
            drop(std::mem::replace(&mut pool, imported));
            let fs = pool.filesystem("tank").unwrap();
            let mut expected = data.clone();
            expected[RECORD as usize..][..7].copy_from_slice(b"changed");
            assert!(read(&fs, copy) == expected, "{what}");
            pool.sync().unwrap();
            no_problems(&pool);
            use_space(&pool, &fs, 1000);
            assert!(read(&fs, copy) == expected, "{what}");
            assert_eq!(shared_bytes(&pool), 0, "{what}");
            is_in_log
        });
        assert!(done, "{what}: no promise was only in the log");
        judge(&bench, pool);
    }
}

/// The log may name blocks of another size than the file has after a crash, when the size of
/// records was changed in the txg that is lost: the file gets what is in them.
#[test]
fn a_replay_copies_blocks_of_another_size() {
    let bench = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
    let pool = pool_of(&bench);
    let fs = pool.filesystem("tank").unwrap();
    let source = new_file(&fs, "source");
    let mut data = bytes(1, SIZE);
    data[4 * RECORD as usize..6 * RECORD as usize].fill(0);
    fs.write_at(source, 0, &data, NOW).unwrap();
    fs.punch(source, 4 * RECORD, 2 * RECORD, NOW).unwrap();
    fs.configure(FsSettings { record_size: 32 << 10, ..fs.settings() }).unwrap();
    let to = new_file(&fs, "to");
    fs.write_at(to, 0, &bytes(2, 1 << 20), NOW).unwrap();
    pool.sync().unwrap();
    assert_eq!(share(&fs, (source, 0), (to, 0), SIZE), None);
    assert!(clone_file(fs.objset(), (source, SIZE), &fs, to));
    pool.sync().unwrap();
    assert!(read(&fs, to) == data);
    assert_eq!(shared_bytes(&pool), 0);
    no_problems(&pool);
    drop(fs);
    judge(&bench, pool);
}

/// A copy of all of a file that is refused with a message in which this stands, and changes
/// nothing.
fn is_refused(fs: &Filesystem, source: u64, (to, at): (u64, u64), why: &str) {
    let before = read(fs, to);
    let range = CloneRange { from: (source, 0), to: (to, at), length: SIZE };
    let error = fs.clone_range(&range, NOW).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
    assert!(read(fs, to) == before, "{why}");
}

fn with_flag(fs: &Filesystem, file: u64, flag: u64, is_set: bool) {
    let flags = FlagChange { which: flag, value: if is_set { flag } else { 0 } };
    fs.set_attrs(file, &SetAttrs { flags, ..SetAttrs::default() }, NOW).unwrap();
}

/// The owner, the group and the project of the file that gets the blocks are charged as for a
/// write, and those of the other file are not asked.
#[test]
fn a_copy_counts_for_the_owners_of_the_file_that_has_it() {
    const OWNER: u64 = 7;
    let bench = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
    let pool = pool_of(&bench);
    let of_owner = [
        (SpaceKind::User, SetAttrs { uid: Some(OWNER), ..SetAttrs::default() }),
        (SpaceKind::Group, SetAttrs { gid: Some(OWNER), ..SetAttrs::default() }),
        (SpaceKind::Project, SetAttrs { project: Some(OWNER), ..SetAttrs::default() }),
    ];
    let fs = pool.filesystem("tank").unwrap();
    for (kind, set) in of_owner {
        let name = |what: &str| format!("{what} {kind:?}");
        let [source, first, second] =
            ["source", "first", "second"].map(|what| new_file(&fs, &name(what)));
        fs.write_at(source, 0, &bytes(1, SIZE), NOW).unwrap();
        [first, second].iter().for_each(|file| fs.set_attrs(*file, &set, NOW).unwrap());
        fs.set_quota(kind, QuotaKind::Space, OWNER, SIZE).unwrap();
        pool.sync().unwrap();
        assert_eq!(share(&fs, (source, 0), (first, 0), SIZE), Some(SIZE), "{kind:?}");
        pool.sync().unwrap();
        is_refused(&fs, source, (second, 0), "quota");
        let written = fs.write_at(second, 0, b"more", NOW).unwrap_err();
        assert!(written.to_string().contains("quota"), "{written}");
        // Of the file that has the blocks first no owner is asked.
        let other = new_file(&fs, &name("other"));
        assert_eq!(share(&fs, (first, 0), (other, 0), SIZE), Some(SIZE), "{kind:?}");
        fs.truncate(first, 0, NOW).unwrap();
        pool.sync().unwrap();
        assert_eq!(share(&fs, (source, 0), (second, 0), SIZE), Some(SIZE), "{kind:?}");
        pool.sync().unwrap();
        assert!(read(&fs, second) == bytes(1, SIZE) && read(&fs, other) == bytes(1, SIZE));
    }
    no_problems(&pool);
    drop(fs);
    judge(&bench, pool);
}

/// A dataset is charged for a copy, though the pool gives no space for it.
#[test]
fn a_copy_needs_room_below_the_quota_of_its_dataset() {
    let bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
    let pool = pool_of(&bench);
    let fs = pool.filesystem("tank").unwrap();
    let [source, to, other] = ["source", "to", "other"].map(|name| new_file(&fs, name));
    fs.write_at(source, 0, &bytes(1, SIZE), NOW).unwrap();
    pool.sync().unwrap();
    for quota in ["refquota", "quota"] {
        let set = |bytes: Option<u64>| {
            let value = bytes.map(StoredValue::Number);
            pool.set_property("tank", PropertyChange { name: quota.to_owned(), value }).unwrap();
        };
        set(Some(SIZE * 3 / 2));
        // As a write, the one that goes beyond it is carried out.
        assert_eq!(share(&fs, (source, 0), (to, 0), SIZE), Some(SIZE), "{quota}");
        pool.sync().unwrap();
        assert!(shared_bytes(&pool) >= SIZE);
        is_refused(&fs, source, (other, 0), "quota");
        set(None);
        assert_eq!(share(&fs, (source, 0), (other, 0), SIZE), Some(SIZE), "{quota}");
        for file in [to, other] {
            fs.truncate(file, 0, NOW).unwrap();
        }
        pool.sync().unwrap();
    }
    drop(fs);
    judge(&bench, pool);
}

/// What may not be written to takes over no blocks, and what may be appended to takes them behind
/// its end.
#[test]
fn a_copy_respects_what_protects_a_file() {
    let bench = Bench::new(Shape::Disk, DEVICE_BYTES, 12);
    let pool = pool_of(&bench);
    let fs = pool.filesystem("tank").unwrap();
    let [source, to] = ["source", "to"].map(|name| new_file(&fs, name));
    fs.write_at(source, 0, &bytes(1, SIZE), NOW).unwrap();
    fs.write_at(to, 0, &bytes(2, 2 * RECORD), NOW).unwrap();
    pool.sync().unwrap();
    for (flag, why) in [
        (flags::IMMUTABLE, "immutable"),
        (flags::READONLY, "flags forbid"),
        (flags::APPENDONLY, "only be appended to"),
    ] {
        with_flag(&fs, to, flag, true);
        is_refused(&fs, source, (to, 0), why);
        if flag == flags::APPENDONLY {
            is_refused(&fs, source, (to, RECORD), why);
            let done = share(&fs, (source, 0), (to, 2 * RECORD), SIZE);
            assert_eq!(done, Some(SIZE), "behind its end");
        }
        with_flag(&fs, to, flag, false);
        // The file that has the blocks may be protected.
        with_flag(&fs, source, flag, true);
        let other = new_file(&fs, why);
        assert_eq!(share(&fs, (source, 0), (other, 0), SIZE), Some(SIZE), "{why}");
        with_flag(&fs, source, flag, false);
    }
    pool.sync().unwrap();
    let expected = [bytes(2, 2 * RECORD), bytes(1, SIZE)].concat();
    assert!(read(&fs, to) == expected);
    no_problems(&pool);
    drop(fs);
    judge(&bench, pool);
}

/// The files of a snapshot.
fn past(pool: &LivePool, name: &str) -> Filesystem {
    let _datasets = pool.view().datasets();
    pool.view().filesystem(name).unwrap()
}

/// A file takes over what another one had in a snapshot, and keeps it when the snapshot goes: in
/// the txg of the copy, or later. Of one that is gone nothing is taken over.
#[test]
fn blocks_of_a_snapshot_are_taken_over_and_outlive_it() {
    for is_encrypted in [false, true] {
        let bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).encrypted(is_encrypted);
        let pool = pool_of(&bench);
        let fs = pool.filesystem("tank").unwrap();
        for (n, is_same_txg) in [(1, true), (2, false)] {
            let (source, to) = (new_file(&fs, "source"), new_file(&fs, &format!("to{n}")));
            fs.write_at(source, 0, &bytes(n, SIZE), NOW).unwrap();
            let names = [format!("tank@{n}")];
            pool.snapshot(&names, vec![]).unwrap();
            fs.unlink(fs.root_object(), b"source", NOW).unwrap();
            pool.sync().unwrap();
            let files = past(&pool, &names[0]);
            let take = |durable: &dyn Fn() -> Option<u64>| {
                let range = CloneRange { from: (source, 0), to: (to, 0), length: SIZE };
                let snapshot = CopiedSnapshot { files: &files, durable };
                fs.clone_snapshot_range(snapshot, &range, NOW)
            };
            let gone = take(&|| None).unwrap_err().to_string();
            assert!(gone.contains("belong to another file"), "{gone}");
            assert_eq!(read(&fs, to).len(), 0);
            // The txg before is being synced, when it is asked first.
            let calls = Cell::new(0);
            let durable = || {
                calls.set(calls.get() + 1);
                Some(pool.last_synced() - u64::from(calls.get() == 1))
            };
            assert_eq!(take(&durable).unwrap(), SIZE);
            assert_eq!(calls.get(), 2);
            if !is_same_txg {
                pool.sync().unwrap();
                assert!(shared_bytes(&pool) >= SIZE, "the snapshot and the file have them");
                no_problems(&pool);
            }
            assert!(read(&fs, to) == bytes(n, SIZE));
            pool.destroy_snapshots(&names, false).unwrap();
            (0..4).for_each(|_| pool.sync().unwrap());
            assert_eq!(shared_bytes(&pool), 0);
            no_problems(&pool);
            use_space(&pool, &fs, 1000 * n);
            assert!(read(&fs, to) == bytes(n, SIZE));
        }
        drop(fs);
        judge(&bench, pool);
    }
}
