//! Programs: several changes of datasets in one task, in an order that a script decides while it
//! runs.
//!
//! # Theory
//!
//! The script runs within one task, in the sync of one txg: what it reads is the state of that
//! moment with all its own changes so far, nothing else changes a dataset between them, and they
//! become durable together with the txg, or none of them does. Each of them is a task of its own
//! all the same ([`TaskCx::whole`]): one that is refused leaves those before it done, and the
//! script learns why and goes on. There is no way back (`task.rs`): a script that gives up keeps
//! what it did.
//!
//! The txg waits for the script. The caller limits what the script may take.
//!
//! A head whose log has blocks cannot be destroyed or rolled back, and a script may do that to any.
//! So all logs are empty before it runs: `fsync` waits for the txg meanwhile. A head that was
//! opened in between counts as in use.

use super::LivePool;
use super::datasets::LogQuiesced;
use super::shared::TaskCx;
use crate::error::Result;
use dsl::write::{PropertyChange, check_rename_snapshot, check_user_property};
use dsl::{Dataset, Dsl, PropertyContext, Refusal};
use std::collections::HashSet;

/// A change that a program makes, or asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramChange {
    /// Takes the snapshot of this name.
    Snapshot(String),
    /// Destroys a file system, volume or snapshot; a snapshot that is held or cloned goes later
    /// when `defer` is set.
    Destroy {
        /// Its name.
        name: String,
        /// It may go later.
        defer: bool,
    },
    /// Makes this clone independent of its origin.
    Promote(String),
    /// Takes this file system or volume back to its last snapshot.
    Rollback(String),
    /// Gives this snapshot another short name.
    RenameSnapshot {
        /// Its name.
        name: String,
        /// The short name.
        to: String,
    },
    /// Makes a bookmark.
    Bookmark {
        /// The snapshot or bookmark that it is of.
        source: String,
        /// Its name.
        name: String,
    },
    /// Sets or clears a property.
    Property(String, PropertyChange),
}

/// What a program works with.
pub struct ProgramCx<'a> {
    task: &'a TaskCx<'a>,
    pool: String,
    /// The heads whose logs are empty; `None` when nothing is changed, and no log was emptied.
    quiet: Option<HashSet<u64>>,
    altroot: Option<String>,
}

impl LivePool {
    /// Runs a program, and returns what it returns. With `makes_changes` it may change datasets,
    /// which are durable then; without it can only ask what would be.
    ///
    /// # Errors
    /// It was not run; or a change failed half way, and the pool stops.
    pub fn run_program<T: Send + 'static>(
        &self,
        makes_changes: bool,
        program: impl FnOnce(&ProgramCx<'_>) -> T + Send + 'static,
    ) -> Result<T> {
        self.check_administrator()?;
        let (pool, altroot) = (self.name().to_owned(), self.view().altroot().map(str::to_owned));
        if !makes_changes {
            return self.shared.run_keeping_datasets(move |task| {
                Ok(program(&ProgramCx { task, pool, quiet: None, altroot }))
            });
        }
        let logs = LogQuiesced::of_all(&self.shared)?;
        let quiet = Some(logs.iter().map(LogQuiesced::dataset).collect());
        self.shared.run(move |task| Ok(program(&ProgramCx { task, pool, quiet, altroot })))
    }
}

impl ProgramCx<'_> {
    /// The name of the pool.
    #[must_use]
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The datasets as they are now, after what the program did so far.
    #[must_use]
    pub fn datasets(&self) -> &Dsl {
        self.task.datasets()
    }

    /// What properties are computed from.
    #[must_use]
    pub fn property_context(&self) -> PropertyContext {
        PropertyContext { pool_size: Some(self.task.pool_size), altroot: self.altroot.clone() }
    }

    /// Why nothing that the program does will be durable; `None` when it will.
    #[must_use]
    pub fn why_broken(&self) -> Option<String> {
        self.task.broken.borrow().clone()
    }

    /// Whether a change can be made now.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self, change: &ProgramChange) -> Result<()> {
        let (task, dsl) = (self.task, self.datasets());
        match change {
            ProgramChange::Snapshot(name) => task.check_snapshots(std::slice::from_ref(name)),
            ProgramChange::Destroy { name, defer } => match name.contains('@') {
                true => task.check_destroy_snapshots(std::slice::from_ref(name), *defer),
                false => {
                    let head = task.check_destroy_head(name)?;
                    self.check_quiet(&head)
                }
            },
            ProgramChange::Promote(name) => {
                dsl::write::check_promote(dsl, name)?;
                Ok(())
            }
            ProgramChange::Rollback(name) => {
                let head = task.check_roll_back(&self.last_snapshot(name)?, false)?;
                self.check_quiet(&head)
            }
            ProgramChange::RenameSnapshot { name, to } => {
                check_rename_snapshot(dsl, name, to, false)?;
                Ok(())
            }
            ProgramChange::Bookmark { source, name } => {
                dsl::write::check_bookmark(&task.dsl(), dsl, name, source)?;
                Ok(())
            }
            // To inherit one of the others is always possible.
            ProgramChange::Property(dataset, PropertyChange { value: None, .. }) => {
                dsl.by_name(dataset)?;
                Ok(())
            }
            ProgramChange::Property(dataset, change) => {
                Ok(check_user_property(dsl, dataset, change)?)
            }
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    /// It was refused, and nothing of it is done; or it failed half way, and the pool stops
    /// ([`Self::why_broken`]).
    pub fn make(&self, change: &ProgramChange) -> Result<()> {
        self.task.whole(|task| match change {
            ProgramChange::Snapshot(name) => task.take_snapshots(std::slice::from_ref(name), &[]),
            ProgramChange::Destroy { name, defer } => match name.contains('@') {
                true => task.destroy_snapshots(std::slice::from_ref(name), *defer),
                false => {
                    self.check_quiet(&self.datasets().by_name(name)?)?;
                    task.destroy_head(name)
                }
            },
            ProgramChange::Promote(name) => task.promote(name),
            ProgramChange::Rollback(name) => {
                self.check_quiet(&self.datasets().by_name(name)?)?;
                task.roll_back(&self.last_snapshot(name)?, false)
            }
            ProgramChange::RenameSnapshot { name, to } => task.rename_snapshots(name, to, false),
            ProgramChange::Bookmark { source, name } => task.make_bookmark(name, source),
            ProgramChange::Property(dataset, change) => task.set_property(dataset, change),
        })
    }

    /// The last snapshot of a file system or volume.
    fn last_snapshot(&self, name: &str) -> Result<String> {
        let dsl = self.datasets();
        let head = dsl.by_name(name)?;
        if head.is_snapshot() {
            return Err(dsl::Error::refused(name, Refusal::NotAHead).into());
        }
        match dsl.snapshots(&head)?.pop() {
            Some(last) => Ok(last.name),
            None => Err(dsl::Error::NoSuchDataset(format!("{name}@")).into()),
        }
    }

    /// Refuses a head that was opened after the logs were emptied.
    fn check_quiet(&self, head: &Dataset) -> Result<()> {
        let Some(quiet) = &self.quiet else { return Ok(()) };
        let is_open = self.task.shared.heads.read().contains_key(&head.object);
        match is_open && !quiet.contains(&head.object) {
            true => Err(dsl::Error::refused(&head.name, Refusal::Busy).into()),
            false => Ok(()),
        }
    }
}
