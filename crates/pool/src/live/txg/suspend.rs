//! The machine, suspended: its one thread that syncs waits for devices, and may go on.

use super::{StopReason, Txgs};
use crate::live::mode::{FailMode, Patience};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What those are told that do not wait.
pub(crate) fn suspended(why: &str) -> StopReason {
    Arc::from(format!("I/O is suspended: {why}"))
}

/// Waits for the end of a pool that is open for writing, and does not keep it open.
pub struct StopWaiter(Arc<Txgs>);

impl StopWaiter {
    pub(crate) fn new(txgs: &Arc<Txgs>) -> Self {
        Self(Arc::clone(txgs))
    }

    /// Waits until the pool has stopped, or was closed, and says why. One that is suspended may
    /// still go on.
    #[must_use]
    pub fn wait(&self) -> Arc<str> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(why) = &state.stop {
                return Arc::clone(why);
            }
            self.0.resumed.wait(&mut state);
        }
    }
}

impl Txgs {
    pub(crate) fn fail_mode(&self) -> FailMode {
        FailMode::of(u64::from(self.fail_mode.load(Ordering::Relaxed)))
    }

    /// What a thread with this patience does.
    pub(super) fn mode(&self, patience: Patience) -> FailMode {
        match patience {
            Patience::OfPool => self.fail_mode(),
            Patience::None => FailMode::Continue,
        }
    }

    pub(crate) fn set_fail_mode(&self, mode: FailMode) {
        self.fail_mode.store(mode as u8, Ordering::Relaxed);
        // Threads that wait may not have to any more.
        let _state = self.state.lock();
        self.notify_all_waiters();
    }

    /// Whether devices that fail suspend the machine, or stop it.
    pub(crate) fn outlast(&self, on: bool) {
        self.outlasts.store(on, Ordering::Relaxed);
    }

    /// Waits until the machine is resumed. Several threads may, all of the sync.
    ///
    /// # Errors
    /// It is stopped, or not to be suspended.
    pub(crate) fn suspend(&self, why: &str) -> Result<(), StopReason> {
        let mut state = self.state.lock();
        state.check()?;
        if !self.outlasts.load(Ordering::Relaxed) || self.fail_mode() == FailMode::Panic {
            return Err(Arc::from(why));
        }
        state.suspended.get_or_insert_with(|| Arc::from(why));
        self.stands.store(true, Ordering::Relaxed);
        self.notify_all_waiters();
        while state.suspended.is_some() && state.stop.is_none() {
            self.resumed.wait(&mut state);
        }
        state.check()
    }

    /// Lets the sync go on; whether it was suspended.
    pub(crate) fn resume(&self) -> bool {
        let mut state = self.state.lock();
        let was_suspended = state.suspended.take().is_some();
        if state.stop.is_none() {
            self.stands.store(false, Ordering::Relaxed);
        }
        self.notify_all_waiters();
        was_suspended
    }

    /// For a thread that wants to enter: waits as long as the machine is suspended, where the mode
    /// says so.
    pub(super) fn wait_while_suspended(
        &self,
        mode: &dyn Fn() -> FailMode,
    ) -> Result<(), StopReason> {
        let mut state = self.state.lock();
        loop {
            state.check_not_suspended(mode())?;
            if state.suspended.is_none() {
                return Ok(());
            }
            self.resumed.wait(&mut state);
        }
    }

    /// Waits until the machine is suspended again or `txg` is durable; why it is suspended.
    pub(crate) fn outcome_of(&self, txg: u64) -> Result<(), StopReason> {
        let mut state = self.state.lock();
        while state.synced < txg {
            state.check()?;
            if let Some(why) = &state.suspended {
                return Err(Arc::clone(why));
            }
            self.synced.wait(&mut state);
        }
        Ok(())
    }
}
