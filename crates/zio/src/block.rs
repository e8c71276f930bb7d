//! A block in memory, and its name in the tree.

use device::{AlignedBuf, Shared};
use ondisk::blkptr::CryptParams;
use ondisk::{Checksum, Compression, Endian};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Where a block belongs: object set, object, level, block number (OpenZFS: a bookmark).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    /// Object set: number of the dataset's object in the MOS; 0 is the MOS itself.
    pub objset: u64,
    /// Object; 0 is the meta dnode.
    pub object: u64,
    /// Level: 0 is data, -1 the object set block, -2 an intent log block, -3 a gang header.
    pub level: i8,
    /// Block number at that level.
    pub blkid: u64,
}

impl Place {
    /// Level of an object set's header block.
    pub const LEVEL_OBJSET: i8 = -1;
    /// Level of an intent log block.
    pub const LEVEL_ZIL: i8 = -2;
    /// Block number by which a spill block is named.
    pub const BLKID_SPILL: u64 = u64::MAX;

    /// The header block of an object set.
    #[must_use]
    pub fn objset(objset: u64) -> Self {
        Self { objset, object: 0, level: Self::LEVEL_OBJSET, blkid: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Self::LEVEL_OBJSET => write!(f, "objset {} header", self.objset),
            Self::LEVEL_ZIL => write!(f, "objset {} intent log block {}", self.objset, self.blkid),
            _ if self.blkid == Self::BLKID_SPILL => {
                write!(f, "objset {} object {} spill", self.objset, self.object)
            }
            l => {
                let (os, ob, b) = (self.objset, self.object, self.blkid);
                write!(f, "objset {os} object {ob} level {l} block {b}")
            }
        }
    }
}

/// The parameters of a block that is as it was encrypted elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Bytes of the block before compression and encryption.
    pub size: u64,
    /// How it was compressed before it was encrypted.
    pub compression: Compression,
    /// How it is encrypted; `None`: it is of a type that is only authenticated.
    pub params: Option<CryptParams>,
    /// Its authentication code.
    pub mac: [u8; 16],
}

/// The content of a block: as read, verified, decrypted and decompressed; or to be written.
pub struct Block {
    bytes: Arc<AlignedBuf>,
    endian: Endian,
    /// Its checksum of one kind, once it was computed: a block that is shared is written to many
    /// places.
    sum: OnceLock<(Checksum, [u64; 4])>,
    /// The same compressed, when it came so.
    packed: Option<(Compression, Arc<[u8]>)>,
    /// The bytes are those that are stored, and no key is at hand to read them with.
    seal: Option<Seal>,
}

impl Block {
    /// Takes bytes and the byte order of the machine that wrote them.
    #[must_use]
    pub fn new(bytes: AlignedBuf, endian: Endian) -> Self {
        Self { bytes: Arc::new(bytes), endian, sum: OnceLock::new(), packed: None, seal: None }
    }

    /// The bytes are a block as it was encrypted elsewhere: they are stored as they are.
    #[must_use]
    pub fn sealed(mut self, seal: Seal) -> Self {
        self.seal = Some(seal);
        self
    }

    /// The parameters of a block whose bytes are those that are stored.
    #[must_use]
    pub fn seal(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    /// Bytes of the block as its readers see it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.seal.map_or(self.bytes.len() as u64, |seal| seal.size)
    }

    /// The same, which is written with this compression as these bytes, whatever the compression
    /// of its object. They are what decompresses to it: that is for the caller to know.
    #[must_use]
    pub fn packed_as(mut self, compression: Compression, packed: &[u8]) -> Self {
        self.packed = Some((compression, packed.into()));
        self
    }

    /// How it came compressed.
    pub(crate) fn packed(&self) -> Option<(Compression, &[u8])> {
        self.packed.as_ref().map(|(compression, packed)| (*compression, &**packed))
    }

    /// Its checksum of a kind that the bytes alone decide, which `sum` computes if that was not
    /// done before.
    pub(crate) fn sum<E>(
        &self,
        kind: Checksum,
        sum: impl FnOnce() -> Result<[u64; 4], E>,
    ) -> Result<[u64; 4], E> {
        if let Some((_, known)) = self.sum.get().filter(|(known, _)| *known == kind) {
            return Ok(*known);
        }
        let sum = sum()?;
        // That of another kind stays.
        let _ = self.sum.set((kind, sum));
        Ok(sum)
    }

    /// Byte order of the machine that wrote the block.
    #[must_use]
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// The bytes, to be written without a copy.
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared::from(Arc::clone(&self.bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, to be changed. Copied first when they are being written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.sum.take();
        self.packed = None;
        let bytes: &mut AlignedBuf = Arc::make_mut(&mut self.bytes);
        bytes
    }

    /// Gives the bytes back; a copy when they are being written.
    #[must_use]
    pub fn into_bytes(self) -> AlignedBuf {
        Arc::unwrap_or_clone(self.bytes)
    }
}

impl std::ops::Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes, {:?})", self.bytes.len(), self.endian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_changed_is_summed_and_compressed_again() {
        let block = Block::new(AlignedBuf::zeroed(512), Endian::Little);
        let kind = Checksum::FLETCHER_4;
        let sum = |block: &Block, sum| block.sum(kind, || Ok::<_, ()>([sum; 4]));
        assert_eq!(block.sum(kind, || Err(())), Err(()));
        assert_eq!((sum(&block, 1), sum(&block, 2)), (Ok([1; 4]), Ok([1; 4])));
        let other = block.sum(Checksum::SHA256, || Ok::<_, ()>([5; 4]));
        assert_eq!((other, sum(&block, 2)), (Ok([5; 4]), Ok([1; 4])));
        let mut block = block.packed_as(Compression::LZ4, &[1]);
        assert_eq!(block.packed(), Some((Compression::LZ4, &[1][..])));
        block.bytes_mut()[0] = 1;
        assert_eq!(block.packed(), None);
        assert_eq!(sum(&block, 3), Ok([3; 4]));
    }
}
