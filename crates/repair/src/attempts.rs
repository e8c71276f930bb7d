//! The parts of a round, each tried by itself.
//!
//! # Theory
//!
//! ```text
//! made       its steps are told
//! refused    it failed before it changed anything: it is left, and the next part is tried
//! stopped    it failed half way, and the pool in memory takes no more changes: the round ends.
//!            What was durable by then stays, the half is not there
//! waiting    the overlays take no more: the repair ends
//! ```
//!
//! A part that failed is not tried again: what it was to mend is found by the last check, and the
//! plan says why it stays.

use crate::error::{Error, Result};
use crate::plan::{Failure, Step};
use pool::live::LivePool;
use std::collections::BTreeMap;

/// The results of the parts so far.
#[derive(Default)]
pub(crate) struct Attempts {
    steps: Vec<Step>,
    /// Why, by what was to be mended.
    failed: BTreeMap<String, String>,
}

/// Why a round ended early.
pub(crate) enum RoundEnd {
    /// The pool in memory has stopped.
    Stopped,
    /// The repair ends with it.
    Failed(Error),
}

impl RoundEnd {
    /// Whether all was tried.
    ///
    /// # Errors
    /// The error that ends the repair.
    pub(crate) fn is_whole(round: std::result::Result<(), Self>) -> Result<bool> {
        match round {
            Ok(()) => Ok(true),
            Err(Self::Stopped) => Ok(false),
            Err(Self::Failed(e)) => Err(e),
        }
    }
}

impl Attempts {
    /// Makes a part, unless it failed before. `what` is its name, for the plan.
    pub(crate) fn make<E: Into<pool::Error>>(
        &mut self,
        live: &LivePool,
        what: &str,
        part: impl FnOnce() -> std::result::Result<Vec<Step>, E>,
    ) -> std::result::Result<(), RoundEnd> {
        if self.has_failed(what) {
            return Ok(());
        }
        match part() {
            Ok(steps) => self.steps.extend(steps),
            Err(e) => {
                let e = e.into();
                if live.is_waiting() {
                    return Err(RoundEnd::Failed(e.into()));
                }
                self.failed.insert(what.to_owned(), e.to_string());
                if live.suspended().is_some() {
                    return Err(RoundEnd::Stopped);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn has_failed(&self, what: &str) -> bool {
        self.failed.contains_key(what)
    }

    /// How many parts failed.
    pub(crate) fn failures(&self) -> usize {
        self.failed.len()
    }

    pub(crate) fn push(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
    }

    /// The number of steps so far.
    pub(crate) fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// Discards the steps after the first `count`: they did not become durable.
    pub(crate) fn take_back(&mut self, count: usize) {
        self.steps.truncate(count);
    }

    /// All steps, and what could not be mended.
    pub(crate) fn into_parts(self) -> (Vec<Step>, Vec<Failure>) {
        let failed = self.failed.into_iter().map(|(what, why)| Failure { what, why });
        (self.steps, failed.collect())
    }
}
