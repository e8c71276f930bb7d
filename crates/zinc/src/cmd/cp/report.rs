//! The messages of a copy, whichever way it goes: each failure in a line, and at the end the exit
//! code.

use crate::failure::FAILED;
use crate::session::Session;
use crate::ui;
use engine::extract::ExtractObserver;
use engine::{Hint, Node};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use views::places::printable;

/// Tells the user, from any thread.
pub struct CopyReport {
    /// Of the verb.
    pub session: Session,
    verbose: bool,
    failures: AtomicU64,
    attributes: AtomicU64,
    has_named_one: AtomicBool,
}

impl CopyReport {
    /// Nothing was reported yet; with `verbose` every file is named.
    pub fn new(session: &Session, verbose: bool) -> Self {
        let (failures, attributes) = (AtomicU64::new(0), AtomicU64::new(0));
        let session = session.clone();
        Self { session, verbose, failures, attributes, has_named_one: AtomicBool::new(false) }
    }

    /// Something was not copied.
    pub fn failed(&self, path: &[u8], why: &dyn std::fmt::Display) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        ui::note(&self.session, &format!("{}: {why}", printable(path)));
    }

    /// The target does not take an attribute.
    pub fn not_kept(&self, path: &[u8], what: &[u8], why: &dyn std::fmt::Display) {
        self.attributes.fetch_add(1, Ordering::Relaxed);
        // One is worth a line; thousands are worth a number at the end.
        if self.verbose || !self.has_named_one.swap(true, Ordering::Relaxed) {
            let (path, what) = (printable(path), printable(what));
            ui::note(&self.session, &format!("{path}: {what} not kept: {why}"));
        }
    }

    /// It was copied.
    pub fn done(&self, path: impl FnOnce() -> Vec<u8>) {
        if self.verbose {
            ui::error(&self.session, &format!("{}\n", printable(&path())));
        }
    }

    /// The copy has ended.
    pub fn end(self) -> ExitCode {
        let refused = self.attributes.into_inner();
        if refused > 1 && !self.verbose {
            ui::note(&self.session, &format!("{refused} attributes not kept; -v names them"));
        }
        match self.failures.into_inner() {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(FAILED),
        }
    }
}

/// Out of a pool. A read error ends the copy of its file.
impl ExtractObserver for CopyReport {
    fn failed(&self, path: &[u8], object: u64, why: &str) {
        let path = format!("{} (object {object})", printable(path));
        Self::failed(self, path.as_bytes(), &why);
    }

    fn refused(&self, path: &[u8], object: u64, why: &str, hint: &Hint) {
        ExtractObserver::failed(
            self,
            path,
            object,
            &format!("{why}; {}", views::hints::text(hint)),
        );
    }

    fn not_kept(&self, path: &[u8], what: &str, why: &str) {
        Self::not_kept(self, path, what.as_bytes(), &why);
    }

    fn done(&self, path: &[u8], _: &Node, _: u64) {
        Self::done(self, || path.to_vec());
    }
}
