//! Object sets that are received as they were encrypted elsewhere.
//!
//! # Theory
//!
//! The key is not there. Every block of a type that is encrypted or authenticated comes as it is
//! stored, with salt, IV and MAC ([`zio::Block::sealed`]); these are valid as long as everything
//! that the MACs cover is the same, which is all of a dnode but the space it uses, and of a pointer
//! its type, its sizes and the MAC of what is below. So objects are made exactly as received,
//! levels and last block included, and blocks are replaced or freed whole.
//!
//! ```text
//! data, spill     as they came               came with the block
//! dnodes          here, bonuses as they came came for the block: `seal_dnodes`
//! indirect        here                       computed: no key is needed
//! header          here                       came with the stream; that of the accounting is none
//! ```
//!
//! A block of dnodes can reach a disk before all of its dnodes came: its code does not fit then.
//! But the dataset is marked as inconsistent, and is not read with a key.
//!
//! The space of users is not counted: the owners of files are not known here. A flag in the header
//! records that.

use super::objects::NewDnode;
use crate::error::{ErrorKind, Result};
use crate::object::Object;
use crate::objset::Objset;
use crate::refusal::InvalidChange;
use crate::shape::is_tree;
use crate::tx::Tx;
use crate::versions::set::SLOTS_PER_BLOCK;
use device::AlignedBuf;
use ondisk::blkptr::CryptParams;
use ondisk::{Dnode, Endian};
use std::sync::Arc;
use zio::{Block, Seal};

impl Objset {
    /// Whether it is received as it was encrypted elsewhere.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.inner.live.as_ref().is_some_and(|live| live.is_sealed())
    }

    /// How the block of dnodes is encrypted that object `first` is the first of, from now on.
    ///
    /// # Errors
    /// It is the first of no block; the set is not received sealed.
    pub fn seal_dnodes(&self, first: u64, params: CryptParams, mac: [u8; 16]) -> Result<()> {
        let live = self.live_set()?;
        if !live.is_sealed() || !first.is_multiple_of(SLOTS_PER_BLOCK) {
            let rule = InvalidChange::DnodeBlockStart;
            return Err(self.error(first, ErrorKind::Invalid(rule)));
        }
        live.dnode_seals.lock().insert(first / SLOTS_PER_BLOCK, (params, mac));
        Ok(())
    }

    /// Makes an object with exactly this dnode, its levels included, but without blocks.
    ///
    /// # Errors
    /// The number is taken; the set is not received sealed.
    pub fn create_sealed(&self, tx: &Tx, number: u64, dnode: Dnode) -> Result<Object> {
        if !self.is_sealed() {
            return Err(self.error(number, ErrorKind::Invalid(InvalidChange::NotSealed)));
        }
        if !is_tree(&dnode) {
            return Err(self.error(number, ErrorKind::Invalid(InvalidChange::Levels)));
        }
        let levels = Some(dnode.levels);
        self.make(tx, Some(number), NewDnode { dnode, levels })
    }
}

impl Object {
    /// Makes the dnode this one, but for its blocks, which are freed behind its last one. It has
    /// the same size and the same number of pointers, and no fewer levels than the object has.
    ///
    /// # Errors
    /// The set is not received sealed.
    pub fn set_sealed(&self, tx: &Tx, dnode: &Dnode) -> Result<()> {
        let behind = dnode.max_block.saturating_add(1).saturating_mul(dnode.block_size());
        self.free_range(tx, behind, u64::MAX)?;
        self.change(tx, |version, attrs| {
            let is_same = (attrs.size(), attrs.blkptrs.len(), attrs.block_size())
                == (dnode.size(), dnode.blkptrs.len(), dnode.block_size())
                && (attrs.indirect_shift == dnode.indirect_shift || attrs.levels == 1)
                && attrs.levels <= dnode.levels;
            if !self.objset().is_sealed() || !is_same || !is_tree(dnode) {
                return Err(self.error(ErrorKind::Invalid(InvalidChange::OtherForm)));
            }
            let attrs = Arc::make_mut(attrs);
            let mut new = dnode.clone();
            new.blkptrs = std::mem::take(&mut attrs.blkptrs);
            (new.used, new.flags) = (attrs.used, attrs.flags);
            (new.levels, new.spill) = (attrs.levels, attrs.spill.take());
            *attrs = new;
            version.levels = Some(dnode.levels);
            Ok(())
        })
    }

    /// Writes block `blkid`, or [`zio::Place::BLKID_SPILL`], as it was encrypted elsewhere.
    ///
    /// # Errors
    /// It has not the size of the object's blocks, or no spill pointer has room; the set is not
    /// received sealed.
    pub fn write_sealed(
        &self,
        tx: &Tx,
        blkid: u64,
        bytes: AlignedBuf,
        endian: Endian,
        seal: Seal,
    ) -> Result<()> {
        let block = Arc::new(Block::new(bytes, endian).sealed(seal));
        match blkid {
            zio::Place::BLKID_SPILL => self.put_spill(tx, Some(block)),
            _ => self.write_shared(tx, blkid, &block),
        }
    }
}
