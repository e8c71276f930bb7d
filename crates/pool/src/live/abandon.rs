//! Heads whose object set cannot be read: what becomes of them. And what else of the MOS is made
//! anew for a repair.
//!
//! Nothing of such a head can be read, so nothing of it is lost by this. What it was made of can:
//!
//! ```text
//! a snapshot of it that can be read      it is rolled back to the youngest of these
//! no snapshot, but it is a clone         it is as it was when it was cloned
//! nothing, and nothing is below it       it is destroyed
//! nothing, and others are below it       it is an empty file system: they stay where they are;
//!                                        one that is encrypted stays as it is
//! ```
//!
//! Its tree cannot be freed: the space stays taken until space maps are made anew.

use super::LivePool;
use super::datasets::NewFilesystem;
use super::shared::TaskCx;
use crate::error::{Error, Result};
use crate::refusal::PoolRefusal;
use dsl::{Dataset, Dsl};
use ondisk::{BlkPtr, mos};

/// What became of a head that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbandonedHead {
    /// It is as this snapshot of it.
    RolledBack(String),
    /// It is as the snapshot of which it was cloned.
    AsCloned(String),
    /// It is an empty file system.
    Emptied,
    /// It is no more.
    Destroyed,
}

/// What can become of a head, and the snapshots in the way.
fn outcome_for(pool: &str, dsl: &Dsl, head: &Dataset) -> Result<AbandonedHead> {
    let is_whole = |d: &Dataset| dsl.objset(d).is_ok();
    let snapshots = dsl.snapshots(head)?;
    if let Some(snapshot) = snapshots.iter().rev().find(|s| is_whole(s)) {
        return Ok(AbandonedHead::RolledBack(snapshot.name.clone()));
    }
    if !snapshots.is_empty() {
        return Err(Error::refused(pool, PoolRefusal::UnreadableSnapshots(head.name.clone())));
    }
    if let Some(origin) = dsl.origin(&head.dir)? {
        return match is_whole(&dsl.by_name(&origin)?) {
            true => Ok(AbandonedHead::AsCloned(origin)),
            false => Err(Error::refused(pool, PoolRefusal::UnreadableOrigin(head.name.clone()))),
        };
    }
    let is_root = head.dir.object == dsl.root()?.object;
    let is_needed = is_root || !dsl.child_names(&head.dir)?.is_empty();
    match is_needed {
        true if dsl.key_object(&head.dir)?.is_some() => {
            Err(Error::refused(pool, PoolRefusal::KeyNeeded(head.name.clone())))
        }
        true => Ok(AbandonedHead::Emptied),
        false => Ok(AbandonedHead::Destroyed),
    }
}

impl TaskCx<'_> {
    fn abandon(&self, name: &str) -> Result<AbandonedHead> {
        let dsl = self.datasets();
        let head = dsl.by_name(name)?;
        if dsl.objset(&head).is_ok() {
            return Err(self.shared.refused(PoolRefusal::Readable(name.to_owned())));
        }
        self.check_unused(&head)?;
        let way = outcome_for(self.shared.pool(), dsl, &head)?;
        match &way {
            AbandonedHead::RolledBack(snapshot) => {
                dsl::write::check_rollback(&self.dsl(), dsl, snapshot, true)?;
            }
            AbandonedHead::Destroyed => {
                dsl::write::check_destroy_head(&self.dsl(), dsl, name)?;
            }
            AbandonedHead::AsCloned(_) | AbandonedHead::Emptied => {
                self.check_room(name)?;
            }
        }
        self.touch();
        self.drop_livelist(&head)?;
        self.drop_head(head.object);
        dsl::write::forget_tree(&self.dsl(), head.object)?;
        match &way {
            AbandonedHead::RolledBack(snapshot) => {
                dsl::write::rollback(&self.dsl(), dsl, snapshot, true)?;
                self.empty_log(&dsl.by_name(name)?, false)?;
            }
            AbandonedHead::AsCloned(_) => {
                dsl::write::reset_head(&self.dsl(), head.object)?;
                self.empty_log(&dsl.by_name(name)?, false)?;
            }
            AbandonedHead::Emptied => {
                dsl::write::reset_head(&self.dsl(), head.object)?;
                self.format_filesystem(head.object, &NewFilesystem::default())?;
            }
            AbandonedHead::Destroyed => dsl::write::destroy_head(&self.dsl(), dsl, name)?,
        }
        self.log_event_of("give_up", " ", (name, head.object))?;
        Ok(way)
    }
}

impl LivePool {
    /// Makes the dead list of a dataset anew, of these blocks.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn renew_deadlist(&self, dataset: u64, blocks: Vec<BlkPtr>) -> Result<()> {
        self.run(move |cx| Ok(dsl::write::renew_deadlist(&cx.dsl(), dataset, &blocks)?))
    }

    /// Begins a new history: the old one cannot be read.
    ///
    /// # Errors
    /// The object directory cannot be changed.
    pub fn renew_history(&self) -> Result<()> {
        self.run(|cx| {
            let (mos, tx) = (cx.objects(), cx.tx);
            let directory = dmu::Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
            if let Some(old) = directory.get_u64(mos::HISTORY)? {
                mos.free(tx, old)?;
            }
            let size = cx.shared.alloc.figures().dspace;
            let new = super::history::create(mos, tx, size)?;
            let directory = mos.object(mos::DIRECTORY_OBJECT)?;
            Ok(dmu::zap::set_u64(&directory, tx, mos::HISTORY, new)?)
        })
    }

    /// Gives up the object set of a head, which cannot be read.
    ///
    /// # Errors
    /// It can be read; or nothing can be done: snapshots or the origin are lost too.
    pub fn abandon_head(&self, name: &str) -> Result<AbandonedHead> {
        let name = name.to_owned();
        self.run(move |cx| cx.abandon(&name))
    }
}
