//! Opening pools for writing by their names, as a program does that has a list of known pools.
#![allow(clippy::unwrap_used)]

use engine::devices::{AnyDevices, DeviceError, DeviceRef, DeviceSource, WriteDeviceRef};
use engine::live::ImportOptions;
use engine::pools::{Busy, ByName, WaitUpTo, Waiter, wait_for_writers};
use engine::{Create, Error, ErrorKind, Hint, LivePool, NewPool, OpenOptions, Place, Rt};
use engine::{Result, SearchOptions};
use imported::{Cachefile, Found, Known, KnownPools, LookError, Opening, SearchScope};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const SIZE: u64 = 64 << 20;

/// A folder with pools in files, and a list of those that are known.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn list(&self) -> KnownPools<'_> {
        KnownPools::in_folder(Some(self.at("state")), |notice| panic!("{notice:?}"))
    }

    /// A pool in a file of this name, which is exported.
    fn pool(&self, name: &str, file: &str) -> u64 {
        let pool = NewPool::new(name).file(self.at(file), SIZE).unwrap().create().unwrap();
        let guid = pool.guid();
        pool.export().unwrap();
        guid
    }

    /// The same, known under its name.
    fn known(&self, name: &str, file: &str, is_read_only: bool) {
        let pool = NewPool::new(name).file(self.at(file), SIZE).unwrap().create().unwrap();
        let known = Known::new(pool.cache_config()).unwrap().marked(None, is_read_only);
        self.list().remember(&known, &Cachefile::Usual).unwrap();
        pool.close().unwrap();
    }
}

fn options() -> ImportOptions {
    ImportOptions::new(OpenOptions::default())
}

fn in_places(places: &[PathBuf]) -> SearchOptions {
    SearchOptions { paths: places.to_vec(), ..SearchOptions::default() }
}

fn up_to(seconds: f64) -> WaitUpTo {
    WaitUpTo::new(&Rt::real(), Duration::from_secs_f64(seconds))
}

/// Opens the pool of this name in these places.
fn open(
    list: &KnownPools<'_>,
    name: &str,
    places: &[PathBuf],
    waiter: &dyn Waiter<LookError>,
) -> std::result::Result<(Found, LivePool), LookError> {
    let search = in_places(places);
    let find = || list.by_name(name, &search, SearchScope::Known);
    let opening = Opening::new(list, find, |found| found.import_options(options()));
    opening.open(&Rt::real(), &*search.source, waiter)
}

fn engine_error(e: LookError) -> Error {
    match e {
        LookError::Search(e) => e,
        e => panic!("{e:?}"),
    }
}

/// Waits for ever, and says when it begins to.
struct Patient(Sender<Option<u32>>);

impl Waiter<LookError> for Patient {
    fn wait(&self, busy: Busy<'_>) -> std::result::Result<(), LookError> {
        self.0.send(busy.holder().map(|process| process.pid)).unwrap();
        Ok(())
    }
}

/// The devices of this machine, and the names of those that were opened.
#[derive(Default)]
struct Opened(AnyDevices, Mutex<Vec<PathBuf>>);

impl DeviceSource for Opened {
    fn open(&self, name: &Path) -> std::result::Result<DeviceRef, DeviceError> {
        self.1.lock().unwrap().push(name.to_owned());
        self.0.open(name)
    }

    fn claim(&self, name: &Path) -> std::result::Result<WriteDeviceRef, DeviceError> {
        self.0.claim(name)
    }
}

/// So that a caller learns which of them were slow.
#[test]
fn devices_of_a_known_pool_are_opened_by_the_source_of_the_search() {
    let place = Folder::new();
    place.known("tank", "a", false);
    let source = Arc::<Opened>::default();
    let search = SearchOptions { source: Arc::clone(&source) as _, ..SearchOptions::default() };
    place.list().by_name("tank", &search, SearchScope::Known).unwrap();
    assert_eq!(*source.1.lock().unwrap(), [place.at("a")]);
}

#[test]
fn of_two_at_once_the_second_waits_and_sees_what_the_first_did() {
    let place = Folder::new();
    place.known("tank", "a", false);
    let list = place.list();
    let (first, pool) = open(&list, "tank", &[], &up_to(0.0)).unwrap();
    // One that does not wait is refused, and told which process has it.
    let refused = engine_error(open(&list, "tank/home", &[], &up_to(0.0)).err().unwrap());
    assert_eq!(*refused.kind(), ErrorKind::InUse);
    assert_eq!(refused.place(), Some(&Place::Pool("tank".to_owned())));
    let (waits, waiting) = channel();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let list = place.list();
            let (second, pool) = open(&list, "tank", &[], &Patient(waits)).unwrap();
            pool.view().filesystem("tank/new").unwrap();
            second.leave(&list, pool).unwrap();
        });
        assert_eq!(waiting.recv().unwrap(), Some(std::process::id()));
        Create::filesystem("tank/new").unwrap().run(&pool).unwrap();
        first.leave(&list, pool).unwrap();
        second.join().unwrap();
    });
    // It was active, and is so again.
    assert!(!list.by_name("tank", &in_places(&[]), SearchScope::Known).unwrap().is_exported());
}

#[test]
fn many_at_once_come_one_after_the_other() {
    const THREADS: usize = 4;
    let place = Folder::new();
    place.known("tank", "a", false);
    let together = Arc::new(Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (place, together) = (&place, Arc::clone(&together));
            scope.spawn(move || {
                let list = place.list();
                together.wait();
                let (found, pool) = open(&list, "tank", &[], &up_to(60.0)).unwrap();
                Create::filesystem(&format!("tank/{n}")).unwrap().run(&pool).unwrap();
                found.leave(&list, pool).unwrap();
            });
        }
    });
    let (_, pool) = open(&place.list(), "tank", &[], &up_to(0.0)).unwrap();
    for n in 0..THREADS {
        pool.view().filesystem(&format!("tank/{n}")).unwrap();
    }
}

#[test]
fn an_exported_pool_is_found_in_places_and_exported_again() {
    let place = Folder::new();
    let guid = place.pool("tank", "a");
    let list = place.list();
    let unknown = open(&list, "tank/home", &[], &up_to(0.0)).err().unwrap();
    assert!(matches!(unknown, LookError::NotKnown { name } if name == "tank"));
    for name in ["tank/home", &guid.to_string()] {
        let (found, pool) = open(&list, name, &[place.at("a")], &up_to(0.0)).unwrap();
        assert_eq!(pool.guid(), guid);
        found.leave(&list, pool).unwrap();
        let found = list.by_name("tank", &in_places(&[place.at("a")]), SearchScope::Known);
        assert!(found.unwrap().is_exported());
    }
    assert!(list.all().is_empty());
}

#[test]
fn a_name_that_means_two_pools_opens_neither() {
    let place = Folder::new();
    let guids = [place.pool("tank", "a"), place.pool("tank", "b")];
    let places = [place.at("a"), place.at("b")];
    let list = place.list();
    let refused = engine_error(open(&list, "tank", &places, &up_to(0.0)).err().unwrap());
    assert_eq!(*refused.kind(), ErrorKind::AmbiguousPool);
    assert_eq!(refused.place(), Some(&Place::Pool("tank".to_owned())));
    assert_eq!(refused.hint(), Some(&Hint::UseGuid));
    for guid in guids {
        let (_, pool) = open(&list, &guid.to_string(), &places, &up_to(0.0)).unwrap();
        assert_eq!(pool.guid(), guid);
        pool.export().unwrap();
    }
}

#[test]
fn what_was_imported_to_be_read_only_is_not_changed() {
    let place = Folder::new();
    place.known("tank", "a", true);
    let before = std::fs::read(place.at("a")).unwrap();
    let refused = open(&place.list(), "tank", &[], &up_to(0.0)).err().unwrap();
    assert!(matches!(refused, LookError::ReadOnly { name, old_version: None } if name == "tank"));
    assert!(std::fs::read(place.at("a")).unwrap() == before);
}

/// Whether a reader has to wait; its pool is let go at once.
fn has_to_wait(path: &Path, seconds: f64) -> Result<bool> {
    let list = KnownPools::in_folder(None, |_| {});
    let found = list.by_name("tank", &in_places(&[path.to_owned()]), SearchScope::Known);
    let found = found.map_err(engine_error)?;
    wait_for_writers(&Rt::real(), &found.candidate, &up_to(seconds)).map(|none| none.had_to_wait)
}

#[test]
fn readers_wait_for_writers_and_keep_them_out() {
    let place = Folder::new();
    place.pool("tank", "a");
    let by_name = || {
        let open = OpenOptions::in_places([place.at("a")]);
        ByName::new("tank", ImportOptions::new(open)).open(&up_to(0.0))
    };
    assert!(!has_to_wait(&place.at("a"), 0.0).unwrap());
    let pool = by_name().unwrap();
    let busy = has_to_wait(&place.at("a"), 0.02).unwrap_err();
    assert_eq!(*busy.kind(), ErrorKind::InUse);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| has_to_wait(&place.at("a"), 60.0));
        std::thread::sleep(Duration::from_millis(100));
        pool.export().unwrap();
        assert!(reader.join().unwrap().unwrap());
    });
    let list = KnownPools::in_folder(None, |_| {});
    let found = list.by_name("tank", &in_places(&[place.at("a")]), SearchScope::Known).unwrap();
    let reading = wait_for_writers::<Error>(&Rt::real(), &found.candidate, &up_to(0.0)).unwrap();
    assert_eq!(*by_name().err().unwrap().kind(), ErrorKind::InUse);
    drop(reading);
    by_name().unwrap().export().unwrap();
}

/// Notes what failed while no other process had the pool.
struct Alone;

impl Waiter<LookError> for Alone {
    fn wait(&self, busy: Busy<'_>) -> std::result::Result<(), LookError> {
        Err(busy.into_error().into())
    }

    fn failed_alone(&self, error: Error) -> LookError {
        LookError::NotKnown { name: format!("{:?}", error.kind()) }
    }
}

#[test]
fn what_fails_alone_is_told_from_what_others_are_in_the_way_of() {
    let place = Folder::new();
    place.pool("tank", "a");
    let list = place.list();
    let pool = NewPool::new("depot").file(place.at("b"), SIZE).unwrap().create().unwrap();
    pool.destroy().unwrap();
    let search = in_places(&[place.at("b")]);
    let find = || list.by_name("depot", &search, SearchScope::Anywhere);
    let opening = Opening::new(&list, find, |found| found.import_options(options()));
    let failed = opening.open(&Rt::real(), &*search.source, &Alone).err().unwrap();
    assert!(matches!(failed, LookError::NotKnown { name } if name == "Destroyed"), "alone");
    let held = std::fs::File::open(place.at("a")).unwrap();
    held.lock().unwrap();
    let failed = engine_error(open(&list, "tank", &[place.at("a")], &Alone).err().unwrap());
    assert_eq!(*failed.kind(), ErrorKind::InUse);
}
