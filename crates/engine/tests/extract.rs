//! Files of a pool are copied into a target of the caller's own, which is memory: what is decided
//! is decided by the engine, whatever the target is.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[allow(unreachable_pub, reason = "examples in the documentation include it")]
#[path = "extract/memory.rs"]
mod memory;

use engine::extract::{Existing, Extract, Preserve, volume};
use engine::files::{FileKind, NewFile, NewKind, Time, XattrMode};
use engine::inside::pool::UnguardedDatasets as _;
use engine::rescue::Rescue;
use engine::{Create, Filesystem, LivePool, NewPool, OpenOptions, Pool, Progress};
use memory::{Handle, Memory, Reports};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };
const RECORD: usize = 128 << 10;

/// Bytes that no compression makes smaller.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    testkit::Rng::new(seed).fill(&mut bytes);
    bytes
}

fn make(fs: &Filesystem, dir: u64, name: &str, kind: NewKind) -> u64 {
    fs.create(dir, name.as_bytes(), &NewFile::new(kind, 0o640, NOW)).unwrap().number()
}

fn write(fs: &Filesystem, dir: u64, name: &str, data: &[u8]) -> u64 {
    let file = make(fs, dir, name, NewKind::File);
    fs.write_at(file, 0, data, NOW).unwrap();
    file
}

fn pool() -> LivePool {
    NewPool::new("tank").memory(128 << 20).create().unwrap()
}

fn copy(fs: &Filesystem, target: &Arc<Mutex<Memory>>, existing: Existing) -> Vec<String> {
    let (progress, reports) = (Progress::new(), Reports::default());
    let mut extract = Extract::new(fs, Preserve::ALL, &progress, &reports);
    extract.existing = existing;
    extract.tree(&fs.root().unwrap(), Handle::top(target), b"").unwrap();
    reports.take()
}

#[test]
fn a_tree_is_copied_with_holes_links_and_attributes_in_order() {
    let pool = pool();
    let fs = pool.filesystem("tank").unwrap();
    let dir = make(&fs, fs.root_object(), "dir", NewKind::Dir);
    let data = noise(1, RECORD);
    let file = write(&fs, dir, "file", &data);
    fs.write_at(file, 3 * RECORD as u64, &data, NOW).unwrap();
    fs.set_xattr(file, b"user.note", b"text", XattrMode::Any, NOW).unwrap();
    fs.link(file, fs.root_object(), b"second", NOW).unwrap();
    make(&fs, dir, "link", NewKind::Symlink(b"../second".to_vec()));
    make(&fs, dir, "pipe", NewKind::Fifo);
    make(&fs, dir, "disk", NewKind::Block(8, 1));

    let target = Arc::new(Mutex::new(Memory::default()));
    let lines = copy(&fs, &target, Existing::Refuse);
    let done = ["dir/disk", "dir/link", "dir/pipe"].map(|path| format!("{path}: done, 0 lost"));
    assert!(done.iter().all(|line| lines.contains(line)), "{lines:?}");
    // Which of the two names is the first depends on the directories; the file is copied once.
    assert_eq!(lines.len(), 4, "{lines:?}");
    {
        let memory = target.lock().unwrap();
        let copied = memory.at("dir/file");
        assert_eq!(copied.ranges, [(0, RECORD), (3 * RECORD as u64, RECORD)]);
        assert!(copied.data[..RECORD] == data && copied.data[3 * RECORD..] == data);
        assert_eq!(copied.attributes, ["owner 0:0", "user.note", "mode 640", "times 1700000000"]);
        assert_eq!(memory.names[&b"dir/file"[..]], memory.names[&b"second"[..]]);
        let link = memory.at("dir/link");
        assert_eq!((link.kind, &link.data[..]), (FileKind::Symlink, &b"../second"[..]));
        assert_eq!(link.attributes, ["owner 0:0", "times 1700000000"]);
        assert_eq!(memory.at("dir/pipe").kind, FileKind::Fifo);
        // The top was there, and is closed until all is in it.
        assert_eq!(memory.things[0].attributes[..2], ["closed", "owner 0:0"]);
    }
    // What is whole stays as it is: nothing is made a second time.
    let made = target.lock().unwrap().things.len();
    assert_eq!(copy(&fs, &target, Existing::Refuse), [""; 0]);
    assert_eq!(target.lock().unwrap().things.len(), made + 1, "but for the top");
}

#[test]
fn what_a_target_has_not_is_told() {
    let pool = pool();
    let fs = pool.filesystem("tank").unwrap();
    let file = write(&fs, fs.root_object(), "one", b"text");
    fs.link(file, fs.root_object(), b"two", NOW).unwrap();
    write(&fs, fs.root_object(), "name", b"a");
    write(&fs, fs.root_object(), "NAME", b"b");
    let target = Memory { folds_case: true, has_no_links: true, ..Memory::default() };
    let target = Arc::new(Mutex::new(target));
    let lines = copy(&fs, &target, Existing::Replace);
    let of = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    assert_eq!((of("hard link not kept"), of("done, 0 lost")), (1, 3), "{lines:?}");
    assert_eq!(of("failed (another file of the pool was made here"), 1, "{lines:?}");
    let memory = target.lock().unwrap();
    assert_eq!(
        (&memory.at("one").data[..], &memory.at("two").data[..]),
        (&b"text"[..], &b"text"[..])
    );
}

#[test]
fn names_that_are_taken_by_something_else_stay_unless_asked() {
    let pool = pool();
    let fs = pool.filesystem("tank").unwrap();
    let file = write(&fs, fs.root_object(), "file", b"old");
    let target = Arc::new(Mutex::new(Memory::default()));
    copy(&fs, &target, Existing::Refuse);
    fs.write_at(file, 0, b"newer", NOW).unwrap();
    let lines = copy(&fs, &target, Existing::Refuse);
    assert!(lines.len() == 1 && lines[0].starts_with("file: failed ("), "{lines:?}");
    assert_eq!(copy(&fs, &target, Existing::Replace), ["file: done, 0 lost"]);
    assert_eq!(target.lock().unwrap().at("file").data, b"newer");
}

#[test]
fn a_volume_is_copied_as_an_image_with_holes() {
    let pool = pool();
    Create::volume("tank/disk", 1 << 20).unwrap().run(&pool).unwrap();
    let disk = pool.volume("tank/disk").unwrap();
    disk.write_at(512 << 10, &noise(2, 16 << 10)).unwrap();
    let target = Arc::new(Mutex::new(Memory::default()));
    let (progress, reports) = (Progress::new(), Reports::default());
    let top = Handle::top(&target);
    assert_eq!(volume(&disk, &*top, b"disk", None, &progress, &reports).unwrap(), 0);
    let written: usize = target.lock().unwrap().at("disk").ranges.iter().map(|r| r.1).sum();
    assert_eq!(written, 16 << 10);
    let seen = progress.snapshot();
    assert_eq!((seen.done, seen.bytes), (1, 16 << 10));
    // Told to stop, it leaves nothing.
    progress.cancel();
    assert!(volume(&disk, &*top, b"other", None, &progress, &reports).is_err());
    assert!(!target.lock().unwrap().names.contains_key(&b"other"[..]));
}

/// Destroys the one place where the image holds these bytes.
fn destroy(image: &Path, bytes: &[u8]) {
    let all = std::fs::read(image).unwrap();
    let places: Vec<_> = (0..all.len() - bytes.len())
        .step_by(512)
        .filter(|at| all[*at..].starts_with(bytes))
        .collect();
    assert_eq!(places.len(), 1);
    let file = std::fs::File::options().write(true).open(image).unwrap();
    file.write_all_at(&[0xee; 4096], places[0] as u64).unwrap();
}

#[test]
fn a_rescue_copies_every_dataset_and_tells_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("pool.img");
    let live = NewPool::new("tank").file(&image, 64 << 20).unwrap().create().unwrap();
    Create::filesystem("tank/home").unwrap().run(&live).unwrap();
    Create::volume("tank/disk", 1 << 20).unwrap().run(&live).unwrap();
    let fs = live.filesystem("tank/home").unwrap();
    let data = noise(3, 2 * RECORD);
    write(&fs, fs.root_object(), "letter", &data);
    drop(fs);
    live.export().unwrap();
    destroy(&image, &data[RECORD..][..4096]);

    let pool = Pool::open("tank", &OpenOptions::in_places([&image])).unwrap();
    let target = Arc::new(Mutex::new(Memory::default()));
    let (progress, reports) = (Progress::new(), Reports::default());
    let rescue = Rescue {
        pool: &pool,
        dest: &Handle::top(&target),
        reserved: b"tank",
        observer: &|_| Box::new(reports.clone()),
        keep: Preserve::ALL,
        force: false,
        open: &|dataset| Ok(pool.dsl().objset(dataset)?),
        progress: &progress,
    };
    rescue.datasets("", true, false);
    let lines = reports.take();
    let expected = [
        "letter: done, 131072 lost",
        "letter: lost 131072+131072",
        "tank%disk.img: image done, 0 lost",
    ];
    assert_eq!(lines, expected);
    let memory = target.lock().unwrap();
    let letter = memory.at("tank%home/letter");
    assert_eq!(letter.ranges, [(0, RECORD)]);
    assert!(letter.data[..RECORD] == data[..RECORD] && letter.data[RECORD..] == [0; RECORD]);
    // The name that the caller has for itself is not a dataset's.
    assert!(memory.names.contains_key(&b"tank%"[..]) && !memory.names.contains_key(&b"tank"[..]));
}
