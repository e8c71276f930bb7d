//! The set itself.
use super::{LiveSpec, NewObject, SetPolicy, SyncContext};
use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::objset::Objset;
use crate::tx::{Hold, Tx};
use ondisk::BlkPtr;
use ondisk::objset::ZilHeader;
use std::sync::Arc;

pub(super) fn open(spec: LiveSpec) -> Result<Objset> {
    Objset::open(spec.store, spec.id, &spec.root.unwrap_or_default(), spec.key)
}

impl Objset {
    /// Whether it can be changed.
    #[must_use]
    pub fn is_live(&self) -> bool {
        false
    }

    /// Enters the open txg to change this set.
    ///
    /// # Errors
    /// No space by `hold`; a set that is not live, or the MOS.
    pub fn begin(&self, hold: Hold) -> Result<Tx> {
        let _ = hold;
        Err(self.error(0, ErrorKind::ReadOnly))
    }

    /// Pushes `txg` along and waits until it is durable.
    ///
    /// # Errors
    /// When the pool stops before.
    pub fn wait_synced(&self, txg: u64) -> Result<()> {
        let _ = txg;
        Err(self.error(0, ErrorKind::ReadOnly))
    }

    /// How blocks are written now; `None` for a set that is not live.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<SetPolicy>> {
        None
    }

    /// Sets how blocks and objects are written from now on.
    pub fn set_policy(&self, policy: SetPolicy) {
        let _ = policy;
    }

    /// Makes an object.
    ///
    /// # Errors
    /// The number is taken, a size cannot be, or the bonus does not fit.
    pub fn create(&self, tx: &Tx, spec: &NewObject) -> Result<Object> {
        let _ = (tx, spec);
        Err(self.error(0, ErrorKind::ReadOnly))
    }

    /// Removes an object and all its blocks.
    ///
    /// # Errors
    /// There is no such object.
    pub fn free(&self, tx: &Tx, number: u64) -> Result<()> {
        let _ = tx;
        Err(self.error(number, ErrorKind::ReadOnly))
    }

    /// Replaces the header of the intent log.
    ///
    /// # Errors
    /// The set is not live.
    pub fn set_zil(&self, tx: &Tx, zil: &ZilHeader) -> Result<()> {
        let _ = (tx, zil);
        Err(self.error(0, ErrorKind::ReadOnly))
    }

    /// From now on no open transaction may change `txg`: its last one has ended.
    pub fn freeze(&self, txg: u64) {
        let _ = txg;
    }

    /// Whether `txg` has changes that are not synced.
    #[must_use]
    pub fn is_dirty(&self, txg: u64) -> bool {
        let _ = txg;
        false
    }

    /// Writes the changes of a txg: of what was changed since the last call with the same txg.
    /// Returns the new pointer to the header, or `None` when there was nothing to write.
    ///
    /// # Errors
    /// A block that must be read first is lost, or there is no space. The set must not be synced
    /// or changed after that: its trees and those of the owner may differ.
    pub fn sync(&self, cx: &SyncContext<'_>) -> Result<Option<BlkPtr>> {
        let _ = cx;
        Err(self.error(0, ErrorKind::ReadOnly))
    }

    /// The txg is durable: readers see its tree, and its versions are dropped.
    pub fn synced(&self, txg: u64) {
        let _ = txg;
    }
}
