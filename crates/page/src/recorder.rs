//! Polls each pool: two threads for each.

use crate::report::Report;
use crate::series::{SeenTxg, Series};
use engine::live::TxgRecord;
use engine::stats::Snapshot;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two samples.
const SAMPLE_EACH: Duration = Duration::from_secs(1);
/// Between two reports, at least, while a page is open.
pub const REPORT_EACH: Duration = Duration::from_secs(3);

/// The counters of a pool, and the txgs that are alive.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The counters.
    pub snapshot: Snapshot,
    /// Txgs that are not durable yet.
    pub alive: Vec<TxgRecord>,
}

/// Where a pool is held. A call may hang; it keeps only its own thread.
pub trait Source: Send + Sync + 'static {
    /// Its counters now. `Break`: the pool is gone for good. `Continue(None)`: not now.
    fn sample(&self) -> ControlFlow<(), Option<Sample>>;
    /// A report on the pool, beside its counters.
    fn report(&self) -> ControlFlow<(), Option<Report>>;
}

/// Remembers an hour of several pools.
pub struct Recorder {
    pub(crate) began: f64,
    pools: Mutex<Vec<Arc<Recorded>>>,
}

/// One pool.
pub(crate) struct Recorded {
    pub(crate) state: Mutex<Remembered>,
    /// A page asked since the last report.
    is_requested: Mutex<bool>,
    wanted: Condvar,
}

/// The records of a pool.
#[derive(Default)]
pub(crate) struct Remembered {
    pub(crate) series: Series,
    pub(crate) last: Option<Sample>,
    pub(crate) interval: Option<Snapshot>,
    pub(crate) sampled: Option<Instant>,
    pub(crate) report: Option<Report>,
}

impl Remembered {
    fn add(&mut self, sample: Sample) {
        if let Some(before) = &self.last {
            let interval = sample.snapshot.since(&before.snapshot);
            self.series.add(&interval);
            self.interval = Some(interval);
        }
        (self.last, self.sampled) = (Some(sample), Some(Instant::now()));
    }

    pub(crate) fn alive(&self) -> Vec<SeenTxg> {
        let Some(last) = &self.last else { return Vec::new() };
        last.alive.iter().map(|t| SeenTxg::new(t, &last.snapshot)).collect()
    }
}

impl Default for Recorder {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: now.as_secs_f64(), pools: Mutex::default() }
    }
}

impl Recorder {
    /// Begins to remember a pool, until it is gone.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn watch(self: &Arc<Self>, source: Arc<dyn Source>) -> io::Result<()> {
        let recorded = Arc::new(Recorded {
            state: Mutex::default(),
            is_requested: Mutex::new(true),
            wanted: Condvar::new(),
        });
        self.pools.lock().push(Arc::clone(&recorded));
        let (of, reporter) = (Arc::clone(&recorded), Arc::clone(&source));
        let report = move || while of.report(&*reporter).is_continue() {};
        std::thread::Builder::new().name("page_report".to_owned()).spawn(report)?;
        let recorder = Arc::downgrade(self);
        let sample = move || {
            while recorded.sample(&*source).is_continue() {}
            // The thread of reports notices the same at its next request.
            recorded.want_report();
            if let Some(recorder) = recorder.upgrade() {
                recorder.pools.lock().retain(|one| !Arc::ptr_eq(one, &recorded));
            }
        };
        std::thread::Builder::new().name("page_sample".to_owned()).spawn(sample).map(drop)
    }

    /// The pools, for a browser that looks: reports of them are needed.
    pub(crate) fn look(&self) -> Vec<Arc<Recorded>> {
        let pools = self.pools.lock().clone();
        pools.iter().for_each(|pool| pool.want_report());
        pools
    }

    /// The counters of all pools, as they were seen last.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let pools = self.pools.lock().clone();
        pools.iter().filter_map(|p| Some(p.state.lock().last.as_ref()?.snapshot.clone())).collect()
    }
}

impl Recorded {
    fn sample(&self, source: &dyn Source) -> ControlFlow<()> {
        match source.sample() {
            Break(()) => return Break(()),
            Continue(None) => {}
            Continue(Some(sample)) => self.state.lock().add(sample),
        }
        std::thread::sleep(SAMPLE_EACH);
        Continue(())
    }

    fn want_report(&self) {
        *self.is_requested.lock() = true;
        self.wanted.notify_one();
    }

    fn report(&self, source: &dyn Source) -> ControlFlow<()> {
        {
            let mut is_requested = self.is_requested.lock();
            while !*is_requested {
                self.wanted.wait(&mut is_requested);
            }
            *is_requested = false;
        }
        match source.report() {
            Break(()) => return Break(()),
            Continue(None) => {}
            Continue(report) => self.state.lock().report = report,
        }
        std::thread::sleep(REPORT_EACH);
        Continue(())
    }
}
