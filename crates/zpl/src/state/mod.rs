//! The state that a file system holds for what changes it ([`crate::write`]): its settings, locks,
//! open files, intent log, and limits. It does not know the file system.

pub(crate) mod limits;
pub(crate) mod locks;
pub(crate) mod opens;
pub(crate) mod settings;

use self::limits::KnownLimits;
use self::locks::KeyedLocks;
use self::opens::OpenTable;
use self::settings::FsSettings;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use zil::IntentLog;

/// The state of a file system that can be changed.
pub(crate) struct State {
    pub(crate) settings: Mutex<FsSettings>,
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
