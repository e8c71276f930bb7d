//! Changing volumes. The blocks of a volume never change their size, so nothing is locked: what
//! overlaps is the writer's business, as with any disk.

use super::HOLD_TREE;
use super::pieces::free_most;
use super::stored::{Content, put_cloned};
use crate::error::{Error, Result};
use crate::op::{Data, VolumeOp};
use crate::refusal::InvalidRequest;
use crate::volume::{SIZE, VOLUME_DATA, VOLUME_PROPERTIES, Volume};
use dmu::{Hold, Objset, SpaceUse, Tx, zap};

/// Bytes written in one transaction by [`Volume::write_at`].
const CHUNK: u64 = 4 << 20;

impl Volume {
    fn objset(&self) -> &Objset {
        self.object().objset()
    }

    /// Whether a volume can have this size.
    pub(super) fn check_size(size: u64, block_size: u64) -> Result<()> {
        if size == 0 || size > i64::MAX as u64 || !size.is_multiple_of(block_size) {
            return Err(Error::refused(InvalidRequest::VolumeSize));
        }
        Ok(())
    }

    /// Writes `data` at byte `offset`, in transactions of at most 4 MiB.
    ///
    /// # Errors
    /// It ends behind the volume; no space. Data written before the error stays.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_range(offset, data.len() as u64)?;
        let usage = self.objset().usage();
        usage.writing(data.len() as u64, || self.write_in_chunks(offset, data))
    }

    fn write_in_chunks(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            // Transactions end at multiples of the chunk, so that no block is in two.
            let n = (CHUNK - at % CHUNK).min(rest.len() as u64) as usize;
            let (part, behind) = rest.split_at(n);
            let tx = self.objset().begin(Hold::write(part.len() as u64 + HOLD_TREE))?;
            self.write_now(&tx, at, &Data::Bytes(part))?;
            self.note(&tx, Some(&VolumeOp::Write { offset: at, data: Data::Bytes(part) }));
            at += n as u64;
            rest = behind;
        }
        self.promise_always()
    }

    /// [`Self::write_at`] within a transaction.
    pub fn write_at_tx(&self, tx: &Tx, offset: u64, data: &[u8]) -> Result<()> {
        self.apply(tx, &VolumeOp::Write { offset, data: Data::Bytes(data) })
    }

    /// Carries out an operation as part of `tx`.
    ///
    /// # Errors
    /// It ends behind the volume; a block that changes in part cannot be read.
    pub fn apply(&self, tx: &Tx, op: &VolumeOp<'_>) -> Result<()> {
        match op {
            VolumeOp::Write { offset, data } => {
                let write = || self.write_now(tx, *offset, data);
                self.objset().usage().writing(data.len(), write)?;
            }
            VolumeOp::Free { offset, length } => {
                self.check_range(*offset, *length)?;
                self.object().free_range(tx, *offset, *length)?;
            }
            VolumeOp::Clone(cloned) => {
                self.check_range(cloned.offset, cloned.length)?;
                // A replay has no log of its own.
                put_cloned(self.object(), tx, cloned, self.log().is_none())?;
            }
        }
        self.note(tx, Some(op));
        Ok(())
    }

    fn write_now(&self, tx: &Tx, offset: u64, data: &Data<'_>) -> Result<()> {
        let data = Content::of(self.objset(), VOLUME_DATA, offset, data)?;
        self.check_range(data.offset, data.bytes.len() as u64)?;
        data.put(self.object(), tx)
    }

    /// Frees `len` bytes from `offset`; they read as zeros.
    ///
    /// # Errors
    /// They end behind the volume; a block at an edge cannot be read.
    pub fn trim(&self, offset: u64, len: u64) -> Result<()> {
        self.check_range(offset, len)?;
        self.free_most(offset, offset.saturating_add(len))?;
        {
            let tx = self.objset().begin(Hold { bytes: HOLD_TREE, space: SpaceUse::Free })?;
            self.trim_tx(&tx, offset, len)?;
        }
        self.promise_always()
    }

    /// [`Self::trim`] within a transaction.
    pub fn trim_tx(&self, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        self.apply(tx, &VolumeOp::Free { offset, length: len })
    }

    /// Gives the volume another size; what is behind is gone.
    ///
    /// # Errors
    /// The size is not a multiple of the block size.
    pub fn resize(&mut self, size: u64) -> Result<()> {
        Self::check_size(size, self.block_size())?;
        self.free_most(size, u64::MAX)?;
        let tx = self.objset().begin(Hold { bytes: HOLD_TREE, space: SpaceUse::Free })?;
        self.resize_tx(&tx, size)
    }

    /// [`Self::resize`] within a transaction.
    pub fn resize_tx(&mut self, tx: &Tx, size: u64) -> Result<()> {
        Self::check_size(size, self.block_size())?;
        let properties = self.objset().object(VOLUME_PROPERTIES)?;
        zap::set_u64(&properties, tx, SIZE, size)?;
        if size < self.size() {
            self.object().free_range(tx, size, u64::MAX)?;
        }
        self.set_size(size);
        self.note(tx, None);
        Ok(())
    }

    /// Frees a large range but for what one transaction can free.
    fn free_most(&self, offset: u64, end: u64) -> Result<()> {
        free_most(self.object(), offset, end, |tx, at, len| {
            self.object().free_range(tx, at, len)?;
            Ok(true)
        })
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        match offset.checked_add(len).filter(|end| *end <= self.size()) {
            Some(_) => Ok(()),
            None => Err(Error::refused(InvalidRequest::BehindVolume)),
        }
    }
}
