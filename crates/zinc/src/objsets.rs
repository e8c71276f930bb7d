//! How verbs open the content of a dataset: as it is on disk, or with its intent log replayed.
//!
//! Changes that were acknowledged to a program (fsync, `sync=always`) may be in the intent log
//! alone, after a crash. An import for writing replays it. So a pool that is imported here, and
//! that no process holds, is shown as it will be then; one that is only looked at is shown as it
//! is, with a warning.

use crate::args::OpenArgs;
use crate::session::Session;
use crate::{known, ui};
use engine::live::InUse;
use engine::{Dataset, Filesystem, Objset, Pool};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The object sets of a pool, for one verb.
pub struct Sets<'a> {
    session: &'a Session,
    pool: &'a Pool,
    args: &'a OpenArgs,
    /// Whether intent logs are replayed; the files that decide that are read when it is first
    /// needed.
    replays: OnceLock<bool>,
    /// Objects that were opened of a pool that this process holds are kept as long as the verb may
    /// read them: after a destruction their space could be read as its new contents.
    in_use: Mutex<Vec<InUse>>,
}

impl<'a> Sets<'a> {
    /// Those of a pool that was opened by these options.
    pub fn new(session: &'a Session, pool: &'a Pool, args: &'a OpenArgs) -> Self {
        Self { session, pool, args, replays: OnceLock::new(), in_use: Mutex::default() }
    }

    /// Opens that of a dataset. A log that could not be replayed to its end, and one that is not
    /// replayed, is a warning.
    pub fn open(&self, dataset: &Dataset) -> engine::Result<Objset> {
        let held = self.session.held(&self.pool.guid().to_string());
        // One whose name cannot be read is not destroyed by name either.
        if let Some(Ok(in_use)) = held.map(|pool| pool.hold_open(&dataset.name)) {
            self.in_use.lock().unwrap_or_else(PoisonError::into_inner).push(in_use);
        }
        let as_it_is = self.pool.datasets().objset(dataset)?;
        if !self.args.replay && !self.is_behind(dataset, &as_it_is) {
            return Ok(as_it_is);
        }
        let warn = |text: &str| ui::note(self.session, &format!("{}: {text}", dataset.name));
        if !self.replays() {
            warn("its intent log has later changes, which are not shown here: use --replay");
            return Ok(as_it_is);
        }
        let (objset, report) = engine::replay::objset(self.pool, dataset)?;
        if let Some(problem) = report.and_then(|r| r.problem()) {
            warn(&problem);
        }
        Ok(objset)
    }

    /// Opens the file system of a dataset.
    pub fn filesystem(&self, dataset: &Dataset) -> engine::Result<Filesystem> {
        Ok(Filesystem::open(self.open(dataset)?)?)
    }

    /// Whether datasets are opened with what their intent logs say.
    pub fn replays(&self) -> bool {
        *self.replays.get_or_init(|| {
            let known = || known::pools(self.session).by_guid(self.pool.guid());
            let is_imported = || known().is_some_and(|known| !known.is_readonly());
            self.args.replay || (self.args.is_of_now() && is_imported())
        })
    }

    /// Whether a change that the newest state would have is in the intent log alone. A pool that a
    /// process holds has no such log: its sets are ahead of their logs.
    fn is_behind(&self, dataset: &Dataset, as_it_is: &Objset) -> bool {
        let is_held = || self.session.held(&self.pool.guid().to_string()).is_some();
        let may_be = !dataset.is_snapshot() && self.args.is_of_now() && !is_held();
        may_be && engine::replay::is_pending(self.pool, as_it_is)
    }
}
