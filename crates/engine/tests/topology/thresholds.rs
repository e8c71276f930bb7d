//! How many errors of a leaf are too many: numbers of OpenZFS's, or what a user set for a vdev.

use super::scrubs::set;
use super::*;
use engine::files::Time;
use engine::inside::device::Write;
use engine::live::StoredPropertyValue;
use poolkit::HookedDevice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Sets a number for a vdev; `None`: it has none of its own.
fn limit(pool: &LivePool, vdev: u64, name: &str, value: Option<u64>) {
    let value = StoredPropertyValue::Number(value.unwrap_or(u64::MAX));
    pool.set_vdev_property(vdev, name, value).unwrap();
}

/// The vdev around the leaves.
fn top(pool: &LivePool) -> u64 {
    pool.look().unwrap().config().vdev_tree.children[0].guid
}

/// Scrubs with a fault of a leaf until it has this number of errors.
pub(super) fn scrub_until(pool: &LivePool, bench: &Bench, leaf: usize, fault: Fault, want: u64) {
    bench.faults[leaf].add(fault);
    for _ in 0..20 {
        pool.scrub().unwrap();
        pool.wait_for_scan().unwrap();
        let tree = pool.view().vdevs();
        let node = tree.leaves().nth(leaf).unwrap();
        if node.read_errors() + node.checksum_errors() >= want {
            bench.faults[leaf].clear();
            drop(tree);
            return pool.sync().unwrap();
        }
    }
    panic!("there are no errors");
}

/// What is set for the leaf counts, else what is set for the vdev around it; what was counted
/// before, too. Another process that opens the pool knows it.
#[test]
fn how_many_errors_are_too_many_is_a_property() {
    const DATA: std::ops::Range<u64> = 5 << 20..u64::MAX;
    scenario(2300, |steps| {
        let run = run(steps, Shape::Mirror, 60);
        let (pool, top) = (run.pool(), top(run.pool()));
        let leaves = [guid(pool, 0), guid(pool, 1)];
        limit(pool, top, "io_n", Some(1 << 20));
        scrub_until(pool, &run.bench, 0, Fault::fail(DATA, EIO), 12);
        assert_eq!(state(pool, 0), VdevState::Online, "they are not too many");
        limit(pool, leaves[1], "io_n", Some(1));
        limit(pool, leaves[0], "io_t", Some(0));
        limit(pool, top, "io_n", Some(12));
        assert_eq!(state(pool, 0), VdevState::Online, "in no time there are none");
        limit(pool, leaves[0], "io_t", None);
        assert_eq!((state(pool, 0), state(pool, 1)), (VdevState::Faulted, VdevState::Online));
        online_leaf(pool, &run.bench, 0);
        pool.wait_for_scan().unwrap();
        limit(pool, top, "checksum_n", Some(1));
        limit(pool, leaves[1], "checksum_n", Some(1 << 20));
        scrub_until(pool, &run.bench, 1, Fault::flip(DATA, 1), 12);
        assert_eq!(state(pool, 1), VdevState::Online, "its own number counts");
        limit(pool, leaves[1], "checksum_n", None);
        assert_eq!((state(pool, 0), state(pool, 1)), (VdevState::Online, VdevState::Degraded));
        pool.forget_errors(None).unwrap();
        limit(pool, leaves[0], "io_n", Some(1 << 20));
        // It is known when the pool is opened again.
        let (bench, model) = run.finish();
        let before = bench.devices.clone();
        let bench = bench.again_from(&before);
        let pool = bench.import();
        scrub_until(&pool, &bench, 0, Fault::fail(DATA, EIO), 12);
        assert_eq!(state(&pool, 0), VdevState::Online, "it was set before");
        limit(&pool, leaves[0], "io_n", None);
        assert_eq!((state(&pool, 0), state(&pool, 1)), (VdevState::Faulted, VdevState::Online));
        online_leaf(&pool, &bench, 0);
        pool.wait_for_scan().unwrap();
        pool.export().unwrap();
        holds_on_each(bench, &model);
    });
}

/// Only where the user says so, and only one that is slow while no other is.
#[test]
fn a_leaf_that_is_often_slow_is_degraded_if_a_user_wants_that() {
    for (slow, both_numbers, want) in [
        (1, true, [VdevState::Degraded, VdevState::Online]),
        (1, false, [VdevState::Online; 2]),
        (2, true, [VdevState::Online; 2]),
    ] {
        let bench = rt::Rt::simulate(2310, |rt| {
            let slow_leaves = Arc::<AtomicUsize>::default();
            let (clock, count) = (rt.clone(), Arc::clone(&slow_leaves));
            let wrap = move |n: usize, device: &Arc<MemoryDevice>| {
                let (clock, count) = (clock.clone(), Arc::clone(&count));
                let on_write = move |batch: Vec<Write>| {
                    if n < count.load(Ordering::Relaxed) {
                        clock.sleep(Duration::from_secs(2));
                    }
                    batch
                };
                let device = Arc::clone(device) as Arc<dyn WriteDevice>;
                Arc::new(HookedDevice::new(device, Box::new(on_write))) as _
            };
            let bench = Bench::new(Shape::Mirror, DEVICE_BYTES, 12).behind(Box::new(wrap));
            let pool = bench.create();
            set(&pool, "zio_slow_io_ms=1000");
            limit(&pool, top(&pool), "slow_io_n", Some(4));
            limit(&pool, guid(&pool, 0), "slow_io_t", both_numbers.then_some(600));
            limit(&pool, guid(&pool, 1), "slow_io_t", both_numbers.then_some(600));
            slow_leaves.store(slow, Ordering::Relaxed);
            let fs = pool.filesystem(pool.name()).unwrap();
            let now = Time { seconds: 1, nanos: 0 };
            let new = engine::files::NewFile::new(engine::files::NewKind::File, 0o644, now);
            for n in 0..6 {
                fs.create(fs.root_object(), format!("f{n}").as_bytes(), &new).unwrap();
                pool.sync().unwrap();
            }
            assert_eq!([state(&pool, 0), state(&pool, 1)], want, "{slow}, {both_numbers}");
            slow_leaves.store(0, Ordering::Relaxed);
            pool.forget_errors(None).unwrap();
            assert_eq!([state(&pool, 0), state(&pool, 1)], [VdevState::Online; 2]);
            drop(fs);
            pool.export().unwrap();
            bench
        });
        bench.check(&bench.open()).unwrap();
    }
}
