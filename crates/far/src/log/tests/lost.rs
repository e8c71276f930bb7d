//! Objects of a disk in a directory are deleted or damaged: that is told, and nothing is written.

use super::*;
use crate::log::format::number_of;
use crate::log::witness::{End, look_behind};
use crate::log::{Finding, check};
use crate::store::DirStore;
use crate::store::client::Client;
use std::path::{Path, PathBuf};

const WINDOW: u64 = 4;

/// A disk in a folder.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let made = LogDevice::create(folder.store(), &Rt::real(), &small_disk(WINDOW), PATIENCE);
        made.expect("a disk");
        folder
    }

    /// One that three writers had, each of which ended in order.
    fn closed() -> Self {
        let folder = Self::new();
        (0..3).for_each(|n| drop(folder.write(n, 3)));
        folder
    }

    fn store(&self) -> Arc<DirStore> {
        Arc::new(DirStore::new(self.0.path()).unwrap())
    }

    fn path(&self, object: &str) -> PathBuf {
        self.0.path().join(object)
    }

    fn options() -> Options {
        Options { patience: Duration::from_secs(60), grace: Duration::ZERO, ..options() }
    }

    fn claim(&self) -> Result<Arc<LogDevice>, DiskError> {
        LogDevice::claim(self.store(), "folder", &Rt::real(), Self::options(), None)
    }

    fn open(&self) -> Result<u64, DiskError> {
        let opened = LogDevice::open(self.store(), "folder", &Rt::real(), Self::options());
        opened.map(|device| device.place())
    }

    /// A new writer that has written some segments.
    fn write(&self, stamp: u8, segments: usize) -> Arc<LogDevice> {
        let device = self.claim().expect("the writer");
        for n in 0..segments {
            let at = (n * 4 % SECTORS * SECTOR) as u64;
            device.write(at, &[stamp + 1; 4 * SECTOR]).unwrap();
            device.flush().unwrap();
        }
        device
    }

    fn findings(&self) -> Vec<Finding> {
        check(self.store(), &Rt::real(), PATIENCE, 1 << 30, |_| ()).expect("a report").findings
    }

    /// The names of all objects, in order.
    fn objects(&self) -> Vec<String> {
        fn below(folder: &Path, root: &Path, all: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    below(&path, root, all);
                } else {
                    all.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut all = Vec::new();
        below(self.0.path(), self.0.path(), &mut all);
        all.sort();
        all
    }

    fn places(&self) -> Vec<u64> {
        let objects = self.objects();
        let mut places: Vec<u64> =
            objects.iter().filter(|o| o.starts_with("log/")).filter_map(|o| number_of(o)).collect();
        places.sort_unstable();
        places
    }

    fn delete(&self, place: u64) {
        std::fs::remove_file(self.path(&segment_name(place))).unwrap();
    }

    /// An opening says that a place is missing, and so does a check; nothing is written.
    #[track_caller]
    fn lacks(&self, place: u64) -> Vec<Finding> {
        let before = self.objects();
        let name = segment_name(place);
        let missing = |trouble: &DiskError| {
            assert!(matches!(trouble, DiskError::Missing(found, _) if *found == name), "{trouble}");
        };
        missing(&self.open().expect_err("it is missing"));
        missing(&self.claim().err().expect("it is missing"));
        assert_eq!(self.objects(), before);
        let findings = self.findings();
        assert!(findings.iter().any(|f| f.object == name), "{place}: {findings:?}");
        findings
    }
}

#[test]
fn each_object_of_a_log_that_was_closed_is_missed() {
    let folder = Folder::closed();
    let places = folder.places();
    assert_eq!(folder.findings(), []);
    let (last, others) = places.split_last().unwrap();
    for place in others {
        let path = folder.path(&segment_name(*place));
        let bytes = std::fs::read(&path).unwrap();
        folder.delete(*place);
        let findings = folder.lacks(*place);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].what.contains(&segment_name(*last)), "{findings:?}");
        std::fs::write(&path, bytes).unwrap();
    }
    // A close that is missing is a writer that was killed.
    folder.delete(*last);
    assert_eq!((folder.open().unwrap(), folder.findings()), (*last, vec![]));
}

#[test]
fn a_hole_is_legal_within_the_window_of_a_writer_that_was_killed() {
    let folder = Folder::closed();
    let device = folder.write(9, 8);
    let end = device.place();
    device.stop();
    drop(device);
    folder.delete(end - 2);
    assert_eq!((folder.open().unwrap(), folder.findings()), (end - 2, vec![]));
    folder.delete(end - WINDOW);
    assert_eq!((folder.open().unwrap(), folder.findings()), (end - WINDOW, vec![]));
    folder.delete(end - WINDOW - 1);
    folder.lacks(end - WINDOW - 1);
}

/// A takeover from a writer that was killed leaves places out, which are not missing.
#[test]
fn each_seal_of_a_takeover_is_missed_once_its_writer_has_written() {
    let folder = Folder::new();
    let device = folder.write(0, 3);
    let end = device.place();
    device.stop();
    drop(device);
    folder.write(1, 2).stop();
    assert_eq!(folder.places().last(), Some(&(end + 2 * WINDOW + 1)));
    assert_eq!(folder.findings(), []);
    for lost in end..end + WINDOW {
        // The first one cuts the log; it goes on at the next that is there.
        folder.delete(lost);
        folder.lacks(end);
    }
}

#[test]
fn a_range_of_the_log_that_is_missing_is_seen_however_long() {
    let folder = Folder::new();
    drop(folder.write(0, 40));
    let places = folder.places();
    (3..places.len() as u64).for_each(|place| folder.delete(place));
    folder.lacks(3);
    // So is one behind a checkpoint.
    let folder = Folder::new();
    let device = folder.write(0, 5);
    device.collect().unwrap();
    let place = device.place();
    drop(device);
    folder.write(1, 60).stop();
    let last = *folder.places().last().unwrap();
    (place + 1..last).for_each(|place| folder.delete(place));
    let findings = folder.lacks(place + 1);
    assert_eq!(findings[0].object, segment_name(place + 1), "{findings:?}");
}

/// The log of a large disk is not listed: there what stands near the end is looked at.
#[test]
fn a_place_of_a_large_disk_is_missed_by_what_is_near() {
    let folder = Folder::new();
    folder.write(0, 30).stop();
    let client = Client::new(folder.store(), &Rt::real(), PATIENCE);
    let proof = |place| {
        let (epoch, window, segments) = (1, WINDOW, usize::MAX);
        let (is_closed, has_checkpoint) = (false, true);
        let end = End { place, epoch, is_closed, window, has_checkpoint, segments };
        look_behind(&client, &end).unwrap().proof
    };
    let end = *folder.places().last().unwrap() + 1;
    assert_eq!(proof(end), None);
    for place in [end - 1, end - WINDOW] {
        assert_eq!(proof(place), None, "it may have been under way");
    }
    assert_eq!(proof(end - WINDOW - 1), Some(segment_name(end - 1)));
    assert_eq!(proof(3), Some(segment_name(3 + WINDOW)));
}

/// An opening looks for what stands behind the end with few requests, however wide the window is.
#[test]
fn an_opening_asks_little_of_the_store() {
    let folder = Folder(tempfile::tempdir().unwrap());
    let made = LogDevice::create(folder.store(), &Rt::real(), &small_disk(64), PATIENCE);
    made.unwrap();
    let requests = || {
        let opened = LogDevice::open(folder.store(), "folder", &Rt::real(), Folder::options());
        let usage = opened.unwrap().usage();
        (usage.gets, usage.lists)
    };
    let device = folder.write(0, 3);
    device.collect().unwrap();
    let (gets, lists) = requests();
    assert!(gets < 20 && lists < 10, "in use: {gets} and {lists}");
    drop(device);
    let (gets, lists) = requests();
    assert!(gets < 20 && lists < 10, "closed: {gets} and {lists}");
}

/// Trials of a store that were cut off, and what many writers said of themselves, are cleaned up.
#[test]
fn what_commands_leave_behind_does_not_pile_up() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("probe")).unwrap();
    std::fs::write(folder.path("probe/0123-4"), "x").unwrap();
    (0..40).for_each(|n| drop(folder.write(n, 1)));
    let epochs = || folder.objects().iter().filter(|o| o.starts_with("epoch/")).count();
    // The last ones are not waited for.
    drop(folder.write(40, 1));
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while epochs() > 20 && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((16..=20).contains(&epochs()), "{}", epochs());
    let device = folder.claim().unwrap();
    assert_eq!(device.sweep().unwrap(), 1);
    drop(device);
    assert!(folder.objects().iter().all(|object| !object.starts_with("probe/")));
    assert_eq!(folder.findings(), []);
}

/// A create that was late by hours makes an object anew that was deleted. A writer that has the
/// disk for long finds it.
#[test]
fn a_writer_sweeps_while_it_works() {
    let folder = Folder::new();
    drop(folder.write(1, 8));
    let old = folder.path(&segment_name(folder.places()[1]));
    let bytes = std::fs::read(&old).unwrap();
    let sweep_every = Duration::ZERO;
    let options = Options { checkpoint_every: 8, clean_below: 0, sweep_every, ..Folder::options() };
    let options = Options { is_tended: true, ..options };
    let device = LogDevice::claim(folder.store(), "folder", &Rt::real(), options, None).unwrap();
    let works_until_it_is_gone = || {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        for n in 0.. {
            let at = (n * 4 % SECTORS * SECTOR) as u64;
            device.write(at, &[9; 4 * SECTOR]).unwrap();
            device.flush().unwrap();
            if !old.exists() {
                return;
            }
            assert!(std::time::Instant::now() < until, "it is there still");
        }
    };
    works_until_it_is_gone();
    std::fs::write(&old, &bytes).unwrap();
    works_until_it_is_gone();
    drop(device);
    assert_eq!(folder.findings(), []);
}

/// What was collected is missed when the checkpoints are gone that say so.
#[test]
fn a_log_that_does_not_begin_at_its_beginning_needs_a_checkpoint() {
    let folder = Folder::closed();
    let device = folder.write(7, 16);
    device.age().unwrap();
    device.collect().unwrap();
    device.sweep().unwrap();
    drop(device);
    assert!(folder.places()[0] > 1 && folder.findings().is_empty());
    let newest = folder.objects().into_iter().rfind(|o| o.starts_with("ckpt/")).unwrap();
    // The one before it is used.
    let bytes = std::fs::read(folder.path(&newest)).unwrap();
    let end = folder.open().unwrap();
    std::fs::write(folder.path(&newest), []).unwrap();
    assert_eq!(folder.open().unwrap(), end);
    let findings = folder.findings();
    assert_eq!((findings.len(), &findings[0].object), (1, &newest), "{findings:?}");
    // The log behind the one before it has a hole: the damaged one proves that.
    let place = number_of(&newest).unwrap() - 1;
    let segment = std::fs::read(folder.path(&segment_name(place))).unwrap();
    folder.delete(place);
    folder.lacks(place);
    std::fs::write(folder.path(&segment_name(place)), segment).unwrap();
    std::fs::write(folder.path(&newest), bytes).unwrap();
    assert_eq!(folder.findings(), []);
    // Pages of the map that are missing are told as well.
    let pages = folder.objects().into_iter().rfind(|o| o.starts_with("map/")).unwrap();
    std::fs::remove_file(folder.path(&pages)).unwrap();
    let findings = folder.findings();
    assert!(findings.iter().any(|f| f.object == pages && f.what == "it is missing"));
    for kind in ["ckpt", "map"] {
        std::fs::remove_dir_all(folder.path(kind)).unwrap();
    }
    let findings = folder.lacks(1);
    assert!(findings[0].what.contains("and so are all checkpoints"), "{findings:?}");
}

#[test]
fn a_check_goes_on_behind_damaged_headers() {
    let folder = Folder::closed();
    let places = folder.places();
    let [first, second] = [places[2], places[places.len() - 3]];
    std::fs::write(folder.path(&segment_name(first)), []).unwrap();
    let path = folder.path(&segment_name(second));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let before = folder.objects();
    assert!(matches!(folder.claim().err(), Some(DiskError::Damaged(..))));
    assert_eq!(folder.objects(), before);
    let findings = folder.findings();
    let objects: Vec<_> = findings.iter().map(|f| f.object.clone()).collect();
    assert_eq!(objects, [segment_name(first), segment_name(second)], "{findings:?}");
}
