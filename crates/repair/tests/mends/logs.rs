//! Intent logs that are damaged, in pools that were not exported.

use super::files::names;
use super::judge;
use super::kit::*;
use codec::checksum::{ByteOrder, seal_zilog2};
use pool::Obstacle;
use pool::live::NewFilesystem;
use pool::live::tunables::{Setting, Tunable};
use zpl::{NewFile, NewKind, Time};

/// Bytes before the first record of a block.
const HEADER: usize = 184;
/// Where a record has its length, and one that makes a file has the file's mode.
const LENGTH: usize = 8;
const MODE: usize = 48;

/// Files that are promised, each in a block of the log of its own.
const FILES: usize = 8;

/// A pool as it is when the power fails, with a log of a file in each block; the dataset.
fn with_a_log(s: &Surgeon) -> dsl::Dataset {
    let name = format!("{}/promised", s.open().name());
    let live = live(s);
    live.create_filesystem(&name, NewFilesystem::default(), Vec::new()).unwrap();
    live.set_tunable(Setting { tunable: Tunable::TxgTimeout, value: 3600 });
    let fs = live.filesystem(&name).unwrap();
    live.sync().unwrap();
    // The first promise waits for the txg that makes the log.
    for n in 0..=FILES {
        let new = NewFile::new(NewKind::File, 0o644, Time::default());
        fs.create(fs.root_object(), format!("{n}").as_bytes(), &new).unwrap();
        fs.sync_all().unwrap();
    }
    let left = images(s);
    drop(fs);
    live.close().unwrap();
    put_images(s, &left);
    heads(&s.open()).into_iter().find(|d| d.name == name).unwrap()
}

/// Changes a block of the log, and makes its checksum right.
fn edit_log(s: &Surgeon, head: &dsl::Dataset, n: usize, change: impl FnOnce(&mut [u8])) {
    let log = zil::Log::read(&objset(&s.open(), head.object));
    assert_eq!(log.blocks.len(), FILES, "a block for each file");
    let bp = &log.blocks[n].bp;
    let start = ondisk::label::DATA_START + bp.dva(0).offset();
    let mut bytes = bytes_of(&images(s), start, bp.psize());
    change(&mut bytes);
    seal_zilog2(&mut bytes, ByteOrder::Little, bp.checksum(), None).unwrap();
    s.scribble(start, &bytes);
}

/// An import refuses the log; a repair replays the first of its records, and drops the others.
fn drops_the_rest(s: &Surgeon, head: &dsl::Dataset, replayed: u64) {
    let open = OpenOptions::in_places(vec![s.dir().to_owned()]);
    let options = ImportOptions { force: true, ..ImportOptions::new(open) };
    let refused = LivePool::open(s.open().name(), &options).map(|_| ()).unwrap_err();
    let pool::Error::NotWritable { obstacles, .. } = &refused else { panic!("{refused}") };
    let [Obstacle::IntentLog { name, is_damaged: true, .. }] = obstacles.as_slice() else {
        panic!("{refused}")
    };
    assert_eq!(*name, head.name);
    let lost = Step::LogLost { dataset: head.name.clone(), replayed };
    let folder = tempfile::tempdir().unwrap();
    plan_and_apply(s, &folder.path().join("undo"), |plan| {
        assert!(plan.steps.contains(&lost) && plan.gives_up(), "{plan:?}");
    });
    assert_eq!(s.check(), [""; 0]);
    assert_ne!(zdb_is_content(s), Some(false));
    let expected: Vec<_> = (0..=replayed).map(|n| format!("/{n}").into_bytes()).collect();
    assert_eq!(names(s, head.object).into_keys().collect::<Vec<_>>(), expected);
    LivePool::open(s.open().name(), &options).unwrap().close().unwrap();
    judge::keep(s);
}

#[test]
fn a_log_that_is_whole_is_replayed() {
    let s = surgeon("basic");
    let head = with_a_log(&s);
    live(&s).close().unwrap();
    assert_eq!(names(&s, head.object).len(), FILES + 1);
}

#[test]
fn a_log_with_a_record_that_makes_a_file_of_no_kind() {
    let s = surgeon("basic");
    let head = with_a_log(&s);
    edit_log(&s, &head, 3, |block| edit_word(block, HEADER + MODE, |_| 0));
    drops_the_rest(&s, &head, 3);
}

#[test]
fn a_log_with_a_record_that_is_longer_than_its_block() {
    let s = surgeon("basic");
    let head = with_a_log(&s);
    edit_log(&s, &head, 5, |block| edit_word(block, HEADER + LENGTH, |_| 1 << 20));
    drops_the_rest(&s, &head, 5);
}

#[test]
fn a_log_whose_first_block_cannot_be_decoded() {
    let s = surgeon("basic");
    let head = with_a_log(&s);
    edit_log(&s, &head, 0, |block| edit_word(block, HEADER + LENGTH, |_| 1 << 20));
    drops_the_rest(&s, &head, 0);
}
