//! Error scrubs that are interrupted, paused and stopped.

use super::DEVICE_BYTES;
use super::random::Bench;
use super::scrubs::{set, wait_until_it_is_on_disk};
use engine::LivePool;
use engine::files::{NewFile, NewKind, Time};
use engine::inside::device::{Device, WriteDevice};
use engine::inside::ondisk::label::DATA_START;
use engine::inside::ondisk::scan::{ErrorScrubState, State};
use engine::pools::ErrorScrubNote;
use poolkit::Shape;
use std::time::Duration;

const NOW: Time = Time { seconds: 1, nanos: 0 };

/// A mirror with a file that is in the error log, and can be read again.
fn healthy_again() -> (Bench, LivePool) {
    let bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12);
    let pool = bench.create();
    let fs = pool.filesystem("tank").unwrap();
    let new = NewFile::new(NewKind::File, 0o644, NOW);
    let file = fs.create(fs.root_object(), b"file", &new).unwrap().object().number();
    let data: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    fs.write_at(file, 0, &data, NOW).unwrap();
    pool.sync().unwrap();
    let bp = fs.node(file).unwrap().object().block_pointer(0, 0).unwrap().unwrap();
    drop(fs);
    let at = DATA_START + bp.dva(0).offset();
    let mut right = vec![0; bp.psize() as usize];
    bench.devices[0].read(at, &mut right).unwrap();
    let wrong: Vec<u8> = right.iter().map(|byte| !byte).collect();
    bench.devices[..2].iter().for_each(|device| device.write(at, &wrong).unwrap());
    pool.scrub().unwrap();
    pool.wait_for_scan().unwrap();
    assert_eq!(logged(&pool), 1);
    bench.devices[..2].iter().for_each(|device| device.write(at, &right).unwrap());
    (bench, pool)
}

fn logged(pool: &LivePool) -> usize {
    pool.look().unwrap().error_log().unwrap().blocks.len()
}

fn state(pool: &LivePool) -> ErrorScrubState {
    pool.look().unwrap().error_scrub_state().unwrap().expect("an error scrub")
}

fn note(pool: &LivePool) -> ErrorScrubNote {
    let seen = pool.look().unwrap();
    seen.status(&seen.space()).error_scrub.expect("an error scrub")
}

/// Blocks that it has looked at, and those that it is still to look at.
fn counts(pool: &LivePool) -> (u64, u64) {
    (state(pool).examined, state(pool).to_examine)
}

/// As a program does that is told to end at once.
fn interrupt(pool: &LivePool) {
    let cancelled = pool.error_scrub(&|| false).unwrap_err().to_string();
    assert!(cancelled.contains("cancelled"), "{cancelled}");
    assert_eq!((state(pool).state(), state(pool).paused), (State::ErrorScrubbing, 0));
    assert_eq!((logged(pool), counts(pool)), (1, (0, 1)));
    assert!(note(pool).is_left && note(pool).paused_at == 0);
}

#[test]
fn one_that_was_interrupted_goes_on_with_the_next_import() {
    let (mut bench, pool) = healthy_again();
    interrupt(&pool);
    bench.fork();
    drop(pool);
    let pool = bench.import();
    let is_done = || state(&pool).state() == State::Finished;
    let done = (0..12_000).any(|_| {
        is_done() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(done, "{:?}", state(&pool));
    assert_eq!((state(&pool).errors, logged(&pool)), (0, 0));
    assert_eq!((counts(&pool), note(&pool).is_left), ((1, 0), false));
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
}

#[test]
fn one_that_is_paused_stays_so_until_it_is_asked_for() {
    let (bench, pool) = healthy_again();
    interrupt(&pool);
    pool.pause_error_scrub().unwrap();
    let again = pool.pause_error_scrub().unwrap_err().to_string();
    assert!(again.contains("already paused"), "{again}");
    assert!(!note(&pool).is_left && note(&pool).paused_at >= state(&pool).start_time);
    pool.export().unwrap();
    let pool = bench.import();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((state(&pool).state(), state(&pool).paused), (State::ErrorScrubbing, 1));
    assert!(!note(&pool).is_left && note(&pool).paused_at == 0);
    assert_eq!(pool.error_scrub(&|| true).unwrap(), 0);
    assert_eq!((state(&pool).state(), state(&pool).paused), (State::Finished, 0));
    assert_eq!(logged(&pool), 0);
    let none = pool.stop_error_scrub().unwrap_err().to_string();
    assert!(none.contains("no active scrub"), "{none}");
}

/// A scan that begins ends it, and none begins while a scrub is paused.
#[test]
fn a_scrub_and_an_error_scrub_are_not_under_way_both() {
    let (bench, pool) = healthy_again();
    interrupt(&pool);
    set(&pool, "zfs_scan_suspend_progress=1");
    pool.scrub().unwrap();
    wait_until_it_is_on_disk(&pool);
    assert_eq!(state(&pool).state(), State::Canceled);
    pool.pause_scrub().unwrap();
    let refused = pool.error_scrub(&|| true).unwrap_err().to_string();
    assert!(refused.contains("currently scrubbing"), "{refused}");
    assert_eq!((state(&pool).state(), logged(&pool)), (State::Canceled, 1));
    pool.stop_scrub().unwrap();
    set(&pool, "zfs_scan_suspend_progress=0");
    assert_eq!(pool.error_scrub(&|| true).unwrap(), 0);
    assert_eq!((state(&pool).state(), logged(&pool)), (State::Finished, 0));
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap();
}

#[test]
fn one_that_is_stopped_does_not_go_on() {
    let (bench, pool) = healthy_again();
    interrupt(&pool);
    pool.stop_error_scrub().unwrap();
    assert_eq!(state(&pool).state(), State::Canceled);
    pool.export().unwrap();
    let pool = bench.import();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((state(&pool).state(), logged(&pool)), (State::Canceled, 1));
    pool.export().unwrap();
    bench.check(&bench.open()).unwrap_err();
}

/// A tunable holds it up, and reports show how far the one is that stands.
#[test]
fn one_that_is_held_up_stands_and_is_paused_there() {
    let (_bench, pool) = healthy_again();
    set(&pool, "zfs_scan_suspend_progress=1");
    let begin = |pool: &LivePool| {
        while !pool.has_error_scrub().unwrap() || note(pool).is_left {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!((state(pool).state(), counts(pool)), (State::ErrorScrubbing, (0, 1)));
    };
    std::thread::scope(|threads| {
        let scrub = threads.spawn(|| pool.error_scrub(&|| true));
        begin(&pool);
        pool.pause_error_scrub().unwrap();
        assert_eq!(scrub.join().unwrap().unwrap(), 0);
        assert_eq!((state(&pool).paused, logged(&pool)), (1, 1));
        let scrub = threads.spawn(|| pool.error_scrub(&|| true));
        while state(&pool).paused != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        begin(&pool);
        assert_eq!(note(&pool).paused_at, 0);
        set(&pool, "zfs_scan_suspend_progress=0");
        assert_eq!(scrub.join().unwrap().unwrap(), 0);
    });
    assert_eq!((state(&pool).state(), counts(&pool)), (State::Finished, (1, 0)));
    assert_eq!(logged(&pool), 0);
}
