//! Scans that are held up where a test wants them, however the machine shares its processors.

use super::random::Bench;
use super::scrubs::{set, stands_still};
use engine::LivePool;
use parking_lot::{Condvar, Mutex};
use poolkit::HookedDevice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(120);

/// Stands before the devices of a bench: whatever reads them waits here while it is closed.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<Passed>,
    changed: Condvar,
}

#[derive(Default)]
struct Passed {
    bytes: u64,
    /// It closes when as many have passed.
    most: Option<u64>,
}

impl Passed {
    fn is_closed(&self) -> bool {
        self.most.is_some_and(|most| self.bytes >= most)
    }
}

impl Gate {
    /// This bench behind a gate, which is open.
    pub(super) fn before(bench: Bench) -> (Bench, Arc<Self>) {
        let gate = Arc::<Self>::default();
        let own = Arc::clone(&gate);
        let bench = bench.behind(Box::new(move |_, device| {
            let gate = Arc::clone(&own);
            let pass = Box::new(move |bytes| gate.pass(bytes));
            Arc::new(HookedDevice::before_reads(Arc::clone(device) as _, pass))
        }));
        (bench, gate)
    }

    fn pass(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.bytes += bytes;
        self.changed.notify_all();
        let until = Instant::now() + 2 * LONG;
        // A test that failed lets nothing through any more, and all is to end.
        while state.is_closed() && !self.changed.wait_until(&mut state, until).timed_out() {}
    }

    /// Bytes that have passed it so far.
    pub(super) fn passed(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Holds up the scan of a pool that `begin` begins or lets go on, when as many bytes have
    /// passed in all: it is in the middle of a piece, which it ends before it stands still.
    pub(super) fn hold_up(&self, pool: &LivePool, passed: u64, begin: impl FnOnce()) {
        self.state.lock().most = Some(passed);
        begin();
        let mut state = self.state.lock();
        let until = Instant::now() + LONG;
        while !state.is_closed() {
            let is_late = self.changed.wait_until(&mut state, until).timed_out();
            assert!(!is_late, "{} of {passed} bytes were read", state.bytes);
        }
        drop(state);
        set(pool, "zfs_scan_suspend_progress=1");
        // The time of the piece is over.
        std::thread::sleep(Duration::from_millis(2));
        self.state.lock().most = None;
        self.changed.notify_all();
        stands_still(pool);
    }
}
