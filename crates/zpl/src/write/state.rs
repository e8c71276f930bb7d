//! The state of a file system that can be changed.

use super::limits::KnownLimits;
use super::locks::KeyedLocks;
use super::opens::OpenTable;
use super::settings::FsSettings;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use zil::IntentLog;

/// The state of a file system that can be changed.
pub(crate) struct State {
    pub(super) settings: Mutex<FsSettings>,
    pub(crate) rename: KeyedLocks,
    pub(crate) content: KeyedLocks,
    pub(crate) attrs: KeyedLocks,
    pub(crate) layouts: KeyedLocks,
    pub(crate) opens: Arc<OpenTable>,
    pub(crate) log: OnceLock<Arc<IntentLog>>,
    /// The limits of owners, once they were read.
    pub(crate) limits: Mutex<KnownLimits>,
}

impl State {
    pub(crate) fn new(rt: &rt::Rt) -> Self {
        Self {
            settings: Mutex::default(),
            rename: KeyedLocks::new(rt),
            content: KeyedLocks::new(rt),
            attrs: KeyedLocks::new(rt),
            layouts: KeyedLocks::new(rt),
            opens: Arc::default(),
            log: OnceLock::new(),
            limits: Mutex::default(),
        }
    }
}
