//! Streams that make damaged snapshots good.

use super::*;
use engine::inside::ondisk::BlkPtr;
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::pool::live::{self, ImportOptions};
use engine::inside::vdev::BlockRead;
use engine::inside::zio::Place;
use engine::receive::Restored;
use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const KEY: &[u8; 32] = b"thirty-two bytes of a raw key ..";
/// Before the first block of a device are two labels and the boot area.
const START: u64 = 4 << 20;

/// Blocks that can be compressed and that cannot, of several records and of less than one, and a
/// spill block.
fn fill(pool: &LivePool, name: &str, seed: u64) {
    let mut rng = Rng::new(seed);
    let fs = pool.filesystem(name).unwrap();
    for len in [700, 9000, 131_072, 500_000] {
        for half in [false, true] {
            let mut data = vec![0; len];
            rng.fill(&mut data);
            if half {
                data[len / 2..].fill(7);
            }
            let new = NewFile::new(NewKind::File, 0o644, NOW);
            let file = fs.create(fs.root_object(), format!("{len}{half}").as_bytes(), &new);
            let file = file.unwrap().number();
            fs.write_at(file, 0, &data, NOW).unwrap();
            fs.set_xattr(file, b"user.long", &data[..len.min(3000)], XattrMode::Any, NOW).unwrap();
        }
    }
}

/// The blocks of a snapshot's files, and their spill blocks.
fn blocks(pool: &LivePool, name: &str) -> Vec<BlkPtr> {
    let view = pool.look().unwrap();
    let dataset = view.dsl().by_name(name).unwrap();
    let set = view.dsl().objset(&dataset).unwrap();
    let mut out = Vec::new();
    for object in set.objects().map(Result::unwrap).filter(|o| o.dnode().kind.0 == 19) {
        let ids = 0..=object.dnode().max_block;
        out.extend(ids.filter_map(|id| object.block_pointer(0, id).unwrap()));
        out.extend(object.dnode().spill);
    }
    out.retain(|bp| !bp.is_hole() && !bp.is_embedded());
    out
}

/// All copies of blocks become other bytes.
fn damage(image: &Path, blocks: &[BlkPtr]) {
    let file = std::fs::OpenOptions::new().write(true).open(image).unwrap();
    for bp in blocks {
        let bytes = vec![0xa5; bp.psize() as usize];
        bp.dvas().for_each(|(_, dva)| file.write_all_at(&bytes, START + dva.offset()).unwrap());
    }
}

#[derive(Default)]
struct Corrected(RefCell<Option<Restored>>);

impl ReceiveObserver for Corrected {
    fn not_set(&self, _: &str, _: &str, _: &str) {}
    fn corrected(&self, _: &str, blocks: &Restored) {
        self.0.replace(Some(*blocks));
    }
}

fn correct(pool: &LivePool, target: &str, stream: &[u8]) -> (Result<(), NotReceived>, Restored) {
    let seen = Corrected::default();
    let how = Receive { corrective: true, ..to(target) };
    let done = how.run(pool, stream, &seen, &Progress::new());
    (done, seen.0.into_inner().unwrap_or_default())
}

fn fault(done: Result<(), NotReceived>) -> StreamFault {
    match done.unwrap_err().error.kind() {
        ErrorKind::BadStream(fault) => fault.clone(),
        other => panic!("{other:?}"),
    }
}

fn scrub(pool: &LivePool) -> usize {
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    pool.sync().unwrap();
    pool.look().unwrap().error_log().unwrap().blocks.len()
}

fn forms(large_blocks: bool, compressed: bool, raw: bool) -> Forms {
    Forms { large_blocks, compressed, embedded: compressed, raw }
}

/// Every lost block of a snapshot is written again as it was, from each form of its stream.
#[testkit::needs("zdb")]
#[test]
fn what_is_lost_of_a_snapshot_is_written_again() {
    let plain = ["off", "lz4", "gzip-6", "zstd", "zstd-9", "zle"].map(|how| (how, false));
    for (compression, encrypted) in plain.into_iter().chain([("lz4", true), ("zstd", true)]) {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("there.img");
        let pool = NewPool::new("there").file(&image, 256 << 20).unwrap().create().unwrap();
        let mut new = Create::filesystem("there/fs").unwrap();
        new = new.set("compression", compression).unwrap().set("xattr", "sa").unwrap();
        if encrypted {
            new = new.set("encryption", "aes-256-gcm").unwrap().set("keyformat", "raw").unwrap();
            new = new.with_key(&pool, KEY).unwrap();
        }
        new.run(&pool).unwrap();
        fill(&pool, "there/fs", 1);
        let snapshot = |name: &str| {
            engine::datasets::snapshot(&pool, &[name], false, Vec::new()).unwrap();
        };
        snapshot("there/fs@1");
        let before = content(&pool.look().unwrap(), "there/fs@1");
        let all = blocks(&pool, "there/fs@1");
        assert!(all.len() > 12, "{compression}");
        let ways = [forms(true, false, false), forms(true, true, false), forms(true, true, true)];
        for (n, form) in ways.iter().enumerate().filter(|(_, form)| encrypted || !form.raw) {
            let case = format!("{compression}, encrypted: {encrypted}, {form:?}");
            let stream = sent(&pool, "there/fs@1", None, *form);
            damage(&image, &all);
            if n == 0 {
                // Those of the file system, which has the same blocks, are told of too.
                assert!(scrub(&pool) >= all.len(), "{case}");
            }
            let (done, seen) = correct(&pool, "there/fs@1", &stream);
            done.unwrap_or_else(|e| panic!("{case}: {:?}, {seen:?}", e.error));
            assert_eq!(seen.restored, all.len() as u64, "{case}: {seen:?}");
            assert!(seen.read >= seen.restored && seen.left + seen.unseen == 0, "{case}: {seen:?}");
            // Now there is nothing to do. The snapshot may be named by its file system alone.
            let (done, seen) = correct(&pool, "there/fs", &stream);
            done.unwrap();
            assert_eq!((seen.restored, seen.written), (0, 0), "{case}");
        }
        assert_eq!(scrub(&pool), 0, "{compression}: the log is empty again");
        assert!(content(&pool.look().unwrap(), "there/fs@1") == before, "{compression}");
        if encrypted {
            pool.export().unwrap();
        } else {
            check(pool, &image);
        }
        testkit::oracle::judge(dir.path(), "there");
    }
}

/// Blocks in pieces, and blocks of a vdev that was removed, in pools that OpenZFS made.
#[test]
fn gangs_and_what_was_moved_are_written_again() {
    for (case, name) in [("gang", "gangs/raw@g"), ("removed", "shrunk/two@before")] {
        let fixture = testkit::fixture(case);
        let dir = tempfile::tempdir().unwrap();
        for image in &fixture.images {
            std::fs::copy(image, dir.path().join(image.file_name().unwrap())).unwrap();
        }
        let pool = import(dir.path(), fixture.name());
        let stream = sent(&pool, name, None, forms(true, true, false));
        let before = content(&pool.look().unwrap(), name);
        let view = pool.look().unwrap();
        let is_removed = |bp: &BlkPtr| {
            view.vdevs().top(bp.dva(0).vdev()).is_some_and(|top| top.node().kind() == "indirect")
        };
        let mut all = blocks(&pool, name);
        all.retain(|bp| bp.is_gang() || is_removed(bp));
        let damaged = damage_first_pieces(&view, &all, dir.path());
        assert!(damaged > 3, "{case}: {damaged} of {}", all.len());
        drop(view);
        assert!(scrub(&pool) >= damaged, "{case}");
        let (done, seen) = correct(&pool, name, &stream);
        done.unwrap_or_else(|e| panic!("{case}: {:?}, {seen:?}", e.error));
        assert!(seen.restored >= damaged as u64, "{case}: {seen:?} of {damaged}");
        assert_eq!(scrub(&pool), 0, "{case}");
        assert!(content(&pool.look().unwrap(), name) == before, "{case}");
        pool.export().unwrap();
    }
}

/// The first bytes of the first piece of blocks become others in the images of a directory, where
/// they are there once. Of how many blocks.
fn damage_first_pieces(view: &Pool, blocks: &[BlkPtr], dir: &Path) -> usize {
    let images: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let contents: Vec<Vec<u8>> = images.iter().map(|image| std::fs::read(image).unwrap()).collect();
    let mut sectors: HashMap<&[u8], Vec<(usize, u64)>> = HashMap::new();
    for (image, bytes) in contents.iter().enumerate() {
        for (at, sector) in bytes.chunks(512).enumerate() {
            sectors.entry(sector).or_default().push((image, at as u64 * 512));
        }
    }
    let stored = |bp: &BlkPtr| {
        let parts = view.reader().gang_members(bp, Place::default());
        let piece = *parts.iter().find(|part| !part.is_gang()).unwrap_or(bp);
        let (dva, size, birth) = (piece.dva(0), piece.psize(), piece.physical_birth());
        let read = BlockRead { dva, size, birth, verify: &|_| true, speculative: false };
        view.vdevs().read(read).data.unwrap()
    };
    let mut damaged = 0;
    for bytes in blocks.iter().map(stored) {
        if let Some([(image, at)]) = sectors.get(&bytes[..512]).map(Vec::as_slice) {
            let file = std::fs::OpenOptions::new().write(true).open(&images[*image]).unwrap();
            file.write_all_at(&[0xa5; 512], *at).unwrap();
            damaged += 1;
        }
    }
    damaged
}

/// A pool in a directory, which another machine used.
fn import(dir: &Path, name: &str) -> LivePool {
    let open = OpenOptions::in_places([dir]);
    let found = engine::inside::pool::scan(&open.search).unwrap();
    let candidates = engine::Candidate::group(&found);
    let candidate = candidates.iter().find(|c| c.name() == name).unwrap();
    let options = ImportOptions { force: true, ..ImportOptions::new(open) };
    let source = engine::inside::device::LocalDevices::default();
    live::import(&engine::inside::rt::Rt::real(), candidate, &options, &source).unwrap()
}

/// An increment has a part of a snapshot's blocks, and another snapshot's stream has none.
#[test]
fn a_stream_of_something_else_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("there.img");
    let pool = NewPool::new("there").file(&image, 256 << 20).unwrap().create().unwrap();
    let snapshot = |name: &str| {
        engine::datasets::snapshot(&pool, &[name], false, Vec::new()).unwrap();
    };
    fill(&pool, "there", 1);
    snapshot("there@1");
    let old = blocks(&pool, "there@1");
    let fs = pool.filesystem("there").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"new", &new).unwrap().number();
    fs.write_at(file, 0, &[3; 200_000], NOW).unwrap();
    snapshot("there@2");
    let (full, increment) = (
        sent(&pool, "there@1", None, forms(true, true, false)),
        sent(&pool, "there@2", Some("@1"), forms(true, true, false)),
    );
    let new: Vec<_> = blocks(&pool, "there@2").into_iter().filter(|bp| !old.contains(bp)).collect();
    damage(&image, &old);
    damage(&image, &new);
    let all = old.len() + new.len();
    let image_before = std::fs::read(&image).unwrap();
    assert_eq!(fault(correct(&pool, "there@2", &full).0), StreamFault::OtherSnapshot);
    assert_eq!(fault(correct(&pool, "there@1", &increment).0), StreamFault::OtherSnapshot);
    let absent = correct(&pool, "there@3", &full).0.unwrap_err();
    assert_eq!((absent.error.kind(), &*absent.destination), (&ErrorKind::NotFound, "there@3"));
    // What would be done.
    let how = Receive { corrective: true, ..to("there@1") };
    how.plan(&pool.look().unwrap(), &full[..], &Corrected::default(), &Progress::new()).unwrap();
    // A stream whose payload was changed has nothing of use, and its sum says so at the end.
    let mut changed = full.clone();
    changed.iter_mut().skip(2000).step_by(600).for_each(|byte| *byte ^= 1);
    correct(&pool, "there@1", &changed).0.unwrap_err();
    assert!(std::fs::read(&image).unwrap() == image_before, "nothing was written");
    let (done, seen) = correct(&pool, "there@2", &increment);
    done.unwrap();
    // It has the spill blocks of objects whose dnodes stand beside one that changed.
    let by_increment = seen.restored;
    assert!((new.len()..all).contains(&(by_increment as usize)), "{by_increment}");
    let (done, seen) = correct(&pool, "there@1", &full);
    done.unwrap();
    assert_eq!(by_increment + seen.restored, all as u64);
    check(pool, &image);
}

/// A stream that was cut into smaller blocks has no block of a snapshot, and says so.
#[test]
fn blocks_of_another_size_are_not_passed_over_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("there.img");
    let pool = NewPool::new("there").file(&image, 256 << 20).unwrap().create().unwrap();
    let new = Create::filesystem("there/fs").unwrap().set("recordsize", "1M").unwrap();
    new.run(&pool).unwrap();
    let fs = pool.filesystem("there/fs").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"a", &new).unwrap().number();
    let mut data = vec![0; 3 << 20];
    Rng::new(4).fill(&mut data);
    fs.write_at(file, 0, &data, NOW).unwrap();
    engine::datasets::snapshot(&pool, &["there/fs@1"], false, Vec::new()).unwrap();
    let (cut, whole) = (
        sent(&pool, "there/fs@1", None, Forms::default()),
        sent(&pool, "there/fs@1", None, forms(true, false, false)),
    );
    damage(&image, &blocks(&pool, "there/fs@1"));
    let unseen = 3 << 3;
    let found = fault(correct(&pool, "there/fs@1", &cut).0);
    assert_eq!(found, StreamFault::NotCorrected { left: 0, unseen });
    let (done, seen) = correct(&pool, "there/fs@1", &whole);
    done.unwrap();
    assert_eq!(seen.restored, 3);
    check(pool, &image);
}
