//! The same work on many items, by a bounded number of threads.

use crate::thread::threads_available;
use parking_lot::Mutex;
use std::thread;

/// [`Rt::for_each_parallel`](crate::Rt::for_each_parallel) on the operating system's threads.
pub(crate) fn on_real_threads<I, F, E>(workers: usize, items: I, work: F) -> Result<(), E>
where
    I: IntoIterator,
    I::IntoIter: Send,
    F: Fn(I::Item) -> Result<(), E> + Sync,
    E: Send,
{
    let workers = if workers == 0 { threads_available() } else { workers };
    let items = Mutex::new(items.into_iter().fuse());
    let failure = Mutex::new(None);
    let run = || {
        while failure.lock().is_none() {
            // Its own statement, so that the lock is released before the work begins.
            let item = items.lock().next();
            let Some(item) = item else { break };
            if let Err(error) = work(item) {
                failure.lock().get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            // With fewer threads than wanted the work is only slower.
            if thread::Builder::new().name("worker".to_owned()).spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::on_real_threads;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_item_once() {
        for workers in [0, 1, 3] {
            let sum = AtomicU64::new(0);
            let result = on_real_threads(workers, 1..=1000u64, |n| {
                sum.fetch_add(n, Ordering::Relaxed);
                Ok::<(), ()>(())
            });
            assert_eq!((result, sum.into_inner()), (Ok(()), 500_500));
        }
    }

    #[test]
    fn workers_run_at_the_same_time() {
        let barrier = Barrier::new(3);
        let result = on_real_threads(3, 0..3, |_| {
            barrier.wait();
            Ok::<(), ()>(())
        });
        assert_eq!(result, Ok(()));
    }

    #[test]
    fn the_first_error_stops_an_endless_job() {
        let result = on_real_threads(2, 0u64.., |n| if n < 50 { Ok(()) } else { Err(n) });
        assert!(result.is_err_and(|n| n >= 50));
    }
}
