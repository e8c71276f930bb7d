//! How pools end: exported or destroyed, politely or by force, and what is left when that fails.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use engine::config::{LabelConfig, PoolState};
use engine::devices::{AnyDevices, DeviceSource as _, MemoryDevice};
use engine::inside::device::{DeviceRef, ErrorKind as Trouble, Fault, RwFaultDevice};
use engine::inside::pool::live::FailMode;
use engine::live::{Devices, ImportOptions, Invocation};
use engine::pools::{ByName, Closed, EndObserver, EndPool, Ended, ListedAs, WaitUpTo};
use engine::pools::{let_go, look_at_device};
use engine::{Candidate, Error, ErrorKind, LivePool, NewPool, OpenOptions, Rt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

fn line() -> Invocation {
    Invocation { command: "zpool ends tank".to_owned(), ..Invocation::default() }
}

fn state_of(device: &DeviceRef) -> PoolState {
    match look_at_device(device, PathBuf::from("/m/0")).unwrap().config {
        LabelConfig::Member(config) => config.state,
        LabelConfig::Aux(_) => panic!("it is a spare"),
    }
}

/// A disk in memory, which can fail, and a pool on it.
fn on_a_disk() -> (Arc<RwFaultDevice>, LivePool) {
    let memory = Arc::new(MemoryDevice::zeros("/m/0", 64 << 20));
    let disk = Arc::new(RwFaultDevice::new(memory));
    let devices = Devices::from([("/m/0".to_owned(), Arc::clone(&disk) as _)]);
    let new = NewPool::new("tank").with_source(Arc::new(devices));
    (disk, new.device("/m/0").unwrap().create().unwrap())
}

/// The end of the pool, as far as its line in the history.
fn logged(end: &EndPool, pool: &LivePool) -> Result<engine::pools::PoolEnd, Error> {
    let end = end.begin(pool)?;
    end.log(pool).map(|()| end)
}

#[test]
fn the_history_is_written_first_then_the_labels_and_the_list_last() {
    let ends =
        [(EndPool::export(), PoolState::Exported), (EndPool::destroy(), PoolState::Destroyed)];
    for (end, state) in ends {
        let (disk, pool) = on_a_disk();
        let device: DeviceRef = disk;
        let guid = pool.guid();
        let end = logged(&end.by(line()), &pool).unwrap();
        let records = pool.look().unwrap().history().unwrap();
        let last = records.into_iter().filter_map(|r| r.ok()?.command()).last();
        assert_eq!(last.unwrap(), line().command);
        assert_eq!(state_of(&device), PoolState::Active);
        let mut forgotten = None;
        let ended = end.finish(pool, |guid| forgotten = Some((guid, state_of(&device))));
        assert!(matches!(ended, Ok(Ended::Complete)));
        assert_eq!(forgotten, Some((guid, state)));
    }
}

#[test]
fn a_pool_that_takes_no_changes_is_kept_and_by_force_let_go_as_it_is() {
    let (disk, pool) = on_a_disk();
    let trouble = Trouble::Io { errno: 5 };
    disk.add(Fault::fail_writes(0..u64::MAX, trouble));
    disk.add(Fault::fail_flushes(trouble));
    assert!(logged(&EndPool::export().by(line()), &pool).is_err());
    assert!(pool.look().is_ok(), "it is open");
    let end = logged(&EndPool::export().by(line()).by_force(true), &pool).unwrap();
    let mut forgotten = false;
    let ended = end.finish(pool, |_| forgotten = true);
    assert!(matches!(ended, Ok(Ended::Suspended(_))), "{ended:?}");
    assert!(forgotten);
    disk.clear();
    assert_eq!(state_of(&(disk as _)), PoolState::Active);
}

/// What waits for the devices of a suspended pool is not given up for a destroy that cannot be
/// made: the devices may come back.
#[test]
fn a_suspended_pool_is_not_destroyed_by_force_either() {
    let (disk, pool) = on_a_disk();
    pool.outlast_failures().unwrap();
    pool.set_fail_mode(FailMode::Continue);
    let trouble = Trouble::Io { errno: 5 };
    disk.add(Fault::fail_writes(0..u64::MAX, trouble));
    disk.add(Fault::fail_flushes(trouble));
    assert!(pool.log(&line()).is_err() && pool.is_waiting());
    let refused = EndPool::destroy().by(line()).by_force(true).begin(&pool);
    assert!(refused.is_err_and(|e| e.to_string().contains("is suspended")));
    disk.clear();
    assert!(pool.is_waiting() && pool.resume(&AnyDevices::default()).unwrap());
    assert!(matches!(
        logged(&EndPool::destroy(), &pool).map(|end| end.finish(pool, |_| ())),
        Ok(Ok(Ended::Complete))
    ));
}

#[test]
fn a_pool_that_cannot_be_closed_stays_on_the_list() {
    let (disk, pool) = on_a_disk();
    let end = logged(&EndPool::export().by(line()), &pool).unwrap();
    disk.add(Fault::fail_writes(0..u64::MAX, Trouble::Io { errno: 5 }));
    let mut forgotten = false;
    assert!(end.finish(pool, |_| forgotten = true).is_err());
    assert!(!forgotten);
}

#[test]
fn a_pool_that_would_not_be_found_again_is_kept_and_by_force_what_is_lost_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.img");
    let pool = NewPool::new("tank").file(&image, 64 << 20).unwrap().create().unwrap();
    std::fs::remove_file(&image).unwrap();
    let refused = EndPool::export().begin(&pool).map(drop).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Displaced);
    pool.sync().unwrap();
    let end = logged(&EndPool::destroy().by(line()).by_force(true), &pool).unwrap();
    let ended = end.finish(pool, |_| ()).unwrap();
    assert!(matches!(ended, Ended::Lost(why) if *why.kind() == ErrorKind::Displaced));
}

/// A list of imported pools, and what was called.
#[derive(Default)]
struct Watch {
    calls: Vec<&'static str>,
    forgotten: Vec<u64>,
}

impl EndObserver<Candidate> for Watch {
    fn opened(&mut self, found: &Candidate, pool: &LivePool) {
        assert_eq!(found.config.pool_guid, pool.guid());
        self.calls.push("opened");
    }

    fn logged(&mut self, _: &LivePool) {
        self.calls.push("logged");
    }

    fn forget(&mut self, _: &Candidate, guid: u64) {
        self.calls.push("forget");
        self.forgotten.push(guid);
    }
}

/// A pool of two files, which no process has.
struct Closing {
    folder: TempDir,
    guid: u64,
}

impl Closing {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = |name| folder.path().join(name);
        let new = NewPool::new("tank").file(image("a.img"), 64 << 20).unwrap();
        let pool = new.file(image("b.img"), 64 << 20).unwrap().create().unwrap();
        let guid = pool.guid();
        pool.close().unwrap();
        Self { folder, guid }
    }

    /// The same, of which a half is gone.
    fn half() -> Self {
        let case = Self::new();
        std::fs::remove_file(case.folder.path().join("b.img")).unwrap();
        case
    }

    fn run(&self, end: &EndPool) -> (Result<Closed<Candidate, Error>, Error>, Watch) {
        let options = ImportOptions::new(OpenOptions::in_places([self.folder.path()]));
        let (rt, mut search) = (Rt::real(), ByName::new("tank", options));
        let (wait, mut watch) = (WaitUpTo::new(&rt, Duration::ZERO), Watch::default());
        let disks = AnyDevices::default();
        let done = end.run_when_free(&rt, &mut search, &disks, &wait, &mut watch);
        (done, watch)
    }

    fn state(&self) -> PoolState {
        let image = self.folder.path().join("a.img");
        state_of(&AnyDevices::default().open(&image).unwrap())
    }
}

#[test]
fn a_pool_that_no_process_has_is_opened_and_ended() {
    let case = Closing::new();
    let (done, watch) = case.run(&EndPool::export().by(line()));
    assert!(matches!(done, Ok(Closed::Ended(Ended::Complete))));
    assert_eq!(watch.calls, ["opened", "logged", "forget"]);
    assert_eq!((watch.forgotten.as_slice(), case.state()), (&[case.guid][..], PoolState::Exported));
}

#[test]
fn a_pool_that_no_process_can_write_to_is_given_up() {
    let case = Closing::half();
    let (done, watch) = case.run(&EndPool::export().listed(ListedAs::ReadWrite));
    let Ok(Closed::GivenUp(found, why)) = done else { panic!("it was not given up") };
    assert_eq!((found.config.pool_guid, why.kind()), (case.guid, &ErrorKind::MissingDevices));
    assert!(watch.calls.is_empty(), "it is for the caller to forget");
    assert_eq!(case.state(), PoolState::Active);
    // There is nothing to give up of what is not on the list.
    for force in [false, true] {
        let (done, _) = case.run(&EndPool::export().by_force(force));
        assert_eq!(done.map(drop).unwrap_err().kind(), &ErrorKind::MissingDevices);
    }
}

#[test]
fn a_pool_that_is_only_read_is_not_written_to_at_its_end() {
    let case = Closing::new();
    for (end, force) in
        [(EndPool::export(), false), (EndPool::export(), true), (EndPool::destroy(), true)]
    {
        let (done, watch) = case.run(&end.listed(ListedAs::ReadOnly).by_force(force));
        assert!(matches!(done, Ok(Closed::Untouched)));
        assert!(watch.calls.is_empty(), "it is for the caller to forget");
        assert_eq!(case.state(), PoolState::Active);
    }
    let (done, _) = case.run(&EndPool::destroy().listed(ListedAs::ReadOnly));
    assert!(matches!(done, Ok(Closed::Ended(_))), "its labels are to say so");
    assert_eq!(case.state(), PoolState::Destroyed);
}

#[test]
fn a_pool_that_is_not_there_is_only_forgotten_by_an_export_by_force() {
    let case = Closing::new();
    std::fs::remove_file(case.folder.path().join("a.img")).unwrap();
    std::fs::remove_file(case.folder.path().join("b.img")).unwrap();
    let listed = |end: EndPool| end.listed(ListedAs::ReadWrite);
    let (done, _) = case.run(&listed(EndPool::export()).by_force(true));
    assert!(matches!(done, Ok(Closed::Untouched)));
    let not_listed = EndPool::export().by_force(true);
    for end in [listed(EndPool::export()), listed(EndPool::destroy()).by_force(true), not_listed] {
        let (done, _) = case.run(&end);
        let why = done.map(drop).unwrap_err();
        assert!(matches!(why.kind(), ErrorKind::NoSuchPool { .. }), "{why}");
    }
}

#[test]
fn a_process_lets_go_of_what_is_imported_and_exports_the_rest() {
    for (listed, state) in [
        (ListedAs::ReadWrite, PoolState::Active),
        (ListedAs::ReadOnly, PoolState::Active),
        (ListedAs::NotListed, PoolState::Exported),
    ] {
        let (disk, pool) = on_a_disk();
        let (device, guid): (DeviceRef, u64) = (disk, pool.guid());
        let mut forgotten = None;
        let_go(pool, listed, |guid| forgotten = Some((guid, state_of(&device)))).unwrap();
        assert_eq!(state_of(&device), state);
        let is_exported = listed == ListedAs::NotListed;
        assert_eq!(forgotten, is_exported.then_some((guid, PoolState::Exported)));
    }
    let (disk, pool) = on_a_disk();
    disk.add(Fault::fail_writes(0..u64::MAX, Trouble::Io { errno: 5 }));
    let mut is_forgotten = false;
    assert!(let_go(pool, ListedAs::NotListed, |_| is_forgotten = true).is_err());
    assert!(!is_forgotten);
}

#[test]
fn a_pool_that_no_process_can_write_to_is_destroyed_by_force_alone() {
    let case = Closing::half();
    let (done, watch) = case.run(&EndPool::destroy());
    assert_eq!(done.map(drop).unwrap_err().kind(), &ErrorKind::MissingDevices);
    assert_eq!((watch.calls.len(), case.state()), (0, PoolState::Active));
    let (done, watch) = case.run(&EndPool::destroy().by_force(true));
    assert!(matches!(done, Ok(Closed::Marked)));
    assert_eq!((watch.forgotten, case.state()), (vec![case.guid], PoolState::Destroyed));
}

#[test]
fn no_force_takes_a_pool_from_another_process() {
    let case = Closing::new();
    let image = case.folder.path().join("a.img");
    let held = AnyDevices::default().claim(&image).unwrap();
    for end in [EndPool::export(), EndPool::destroy()] {
        let (done, watch) = case.run(&end.by_force(true));
        assert_eq!(done.map(drop).unwrap_err().kind(), &ErrorKind::InUse);
        assert!(watch.calls.is_empty());
    }
    drop(held);
    assert_eq!(case.state(), PoolState::Active);
}
