//! Changing file systems and volumes.
//!
//! Everything here works on a live object set (see [`dmu::Objset::live`]). Each change is a value
//! ([`Op`]) that [`Filesystem::apply`] carries out within a transaction. The functions with names
//! build one (`calls.rs`): those that end in `_tx` take the caller's transaction, so that several
//! changes become one, the others begin their own. A change checks and reads everything it can
//! before it changes anything, and takes back what it did when it fails all the same (`undo.rs`):
//! an error leaves all as it was.
//!
//! # Order of locks
//!
//! First begin the transaction, then lock, then change. Never begin while holding a lock: the
//! txg that is to end waits for those inside it, and they may wait for the lock. Locks are
//! taken in this order, several of one kind by ascending object number:
//!
//! 1. `rename`: one directory is moved below another at a time, so that no ancestors change
//!    while it is checked that no directory gets below itself.
//! 2. `content` of a file: shared to write within its blocks, exclusive where the size of its
//!    block or its end may change otherwise, and where blocks of it are shared.
//! 3. `attrs` of files: the attributes, and for a directory its entries too. Extended attributes
//!    kept as files are guarded by the lock of the file they belong to.
//! 4. `layouts`: the tables that define how attributes are stored.
//!
//! Lookups and listings of a live file system take the `attrs` lock shared: a table has several
//! blocks, and they must be of one moment. A lookup that leads to a change is therefore done twice:
//! shared to learn which files to lock, and again when all are locked.
//!
//! A [`Node`](crate::Node) shows the attributes as they were when it was opened; its content is
//! read as it is.

mod accounting;
mod apply;
pub(crate) mod attrs;
mod calls;
mod cloning;
mod create;
mod data;
mod format;
mod log;
mod mend;
mod names;
mod open;
mod pieces;
mod queue;
mod quotas;
mod remove;
mod rename;
mod setattr;
mod stored;
mod tables;
mod undo;
mod unnamed;
mod upgrade;
mod volume;
mod whole;
mod xattr;

pub use crate::op::{FlagChange, NewFile, NewKind, SetAttrs, XattrMode};
pub use crate::state::settings::{FsSettings, XattrStore};
pub use accounting::FileOwners;
pub use calls::RenameMode;
pub use cloning::{CloneRange, CopiedSnapshot};
pub use format::FormatOptions;
pub use mend::{LOST_AND_FOUND, Mend};
pub use open::OpenFile;
pub use quotas::{ProjectRoom, QuotaKind};
pub use whole::WholeFile;

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Op, Outcome};
use crate::refusal::{InvalidRequest, Protection};
use dmu::{Hold, Tx};
use ondisk::znode::{Time, flags};

/// Bytes of indirect blocks and dnodes that a change of content makes dirty beside its data, at
/// most but for odd cases.
const HOLD_TREE: u64 = 256 << 10;

/// Bytes that a change of names or attributes makes dirty, at most but for odd cases: a few blocks
/// of dnodes and leaves of directories.
const HOLD_NAMES: u64 = 128 << 10;

impl Filesystem {
    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> FsSettings {
        *self.inner.state.settings.lock()
    }

    /// Sets what is done from now on.
    ///
    /// # Errors
    /// An invalid record size.
    pub fn configure(&self, settings: FsSettings) -> Result<()> {
        let size = settings.record_size;
        if !size.is_power_of_two() || !(512..=16 << 20).contains(&size) {
            return Err(Error::refused(InvalidRequest::RecordSize));
        }
        if settings.dnode_slots.is_some_and(|n| !(1..=32).contains(&n)) {
            return Err(Error::refused(InvalidRequest::DnodeSlots));
        }
        *self.inner.state.settings.lock() = settings;
        Ok(())
    }

    /// Begins a transaction that can change this file system.
    ///
    /// # Errors
    /// No space by `hold`; the file system is open for reading only.
    pub fn begin(&self, hold: Hold) -> Result<Tx> {
        self.check_writable()?;
        Ok(self.objset().begin(hold)?)
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        let is_read_only = self.settings().read_only && !self.is_writable_anyway();
        if is_read_only || !self.objset().is_live() {
            return Err(Error::ReadOnly);
        }
        Ok(())
    }

    /// Runs `change` in a transaction of its own, and frees what it left for later.
    pub(crate) fn with_tx<T>(
        &self,
        hold: Hold,
        change: impl FnOnce(&Tx) -> Result<T>,
    ) -> Result<T> {
        let done = {
            let tx = self.begin(hold)?;
            change(&tx)
        };
        self.free_left();
        done
    }

    /// For changes of names and attributes.
    pub(crate) fn with_small_tx<T>(&self, change: impl FnOnce(&Tx) -> Result<T>) -> Result<T> {
        self.with_tx(Hold::write(HOLD_NAMES), change)
    }

    /// Applies an operation in a transaction of its own.
    pub(crate) fn run(&self, op: &Op<'_>, now: Time) -> Result<Outcome> {
        let done = self.with_tx(op.hold(), |tx| self.apply(tx, op, now))?;
        self.promise_always(op)?;
        Ok(done)
    }
}

/// Refuses to change what is marked as unchangeable.
pub(crate) fn check_flags(attrs: &attrs::Attrs, forbidden: u64) -> Result<()> {
    if attrs.replays() {
        return Ok(());
    }
    if attrs.has_flag(forbidden & flags::IMMUTABLE) {
        return Err(Error::refused(Protection::Immutable));
    }
    if attrs.has_flag(forbidden & flags::APPENDONLY) {
        return Err(Error::refused(Protection::AppendOnly));
    }
    if attrs.has_flag(forbidden) {
        return Err(Error::refused(Protection::Flags));
    }
    Ok(())
}
