//! Block pointers: where a block is, how large, how it is protected, and when it was born.
//!
//! Specified in `docs/format/blkptr.md`. A block pointer is sixteen 64-bit words. It is kept as
//! those words, decoded in the byte order of the block that holds it, and read through accessors,
//! so that decode and encode are exact for every form: ordinary, gang, encrypted, embedded, hole.
//!
//! ```text
//! words 0..=5   three DVAs (encrypted: word 4 = salt, word 5 = first 8 bytes of the IV)
//! word  6       properties: byteorder, dedup, crypt, level, type, checksum, embedded,
//!               compression, psize, lsize
//! words 7..=8   padding (written as zero, accepted as anything)
//! word  9       physical birth txg (0: the same as the logical one)
//! word 10       logical birth txg
//! word 11       fill count (encrypted: low half fill, high half last 4 bytes of the IV)
//! words 12..=15 checksum (encrypted or authenticated: words 14 and 15 are the MAC)
//! ```
//!
//! An embedded block pointer carries up to 112 bytes of compressed payload in words 0..=5,
//! 7..=9 and 11..=15.

mod build;

pub use build::{BlkPtrParts, CryptParams, CryptParts};

use crate::cursor::{Endian, Reader, Writer};
use crate::dmu_type::DmuType;
use crate::error::Result;
use crate::kinds::{Checksum, Compression};

/// Size of a block pointer on disk in bytes.
pub const BLKPTR_SIZE: usize = 128;
/// Largest number of copies one block pointer can name.
pub const DVAS_PER_BP: usize = 3;
/// Unit of sizes and offsets in block pointers, in bytes.
pub const SECTOR_SIZE: u64 = 512;
/// Largest payload of an embedded block pointer in bytes.
pub const EMBEDDED_PAYLOAD_MAX: usize = 112;

/// A data virtual address: one copy of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Dva {
    word0: u64,
    word1: u64,
}

impl Dva {
    /// An address on top-level vdev `vdev` at byte `offset` (behind the front labels), of `asize`
    /// allocated bytes. Both must be multiples of 512.
    #[must_use]
    pub fn new(vdev: u32, offset: u64, asize: u64, gang: bool) -> Self {
        Self {
            word0: (u64::from(vdev) << 32) | ((asize / SECTOR_SIZE) & 0xff_ffff),
            word1: (u64::from(gang) << 63) | ((offset / SECTOR_SIZE) & (u64::MAX >> 1)),
        }
    }

    /// The two words as on disk.
    #[must_use]
    pub fn from_words(word0: u64, word1: u64) -> Self {
        Self { word0, word1 }
    }

    /// The two words as on disk.
    #[must_use]
    pub fn words(self) -> [u64; 2] {
        [self.word0, self.word1]
    }

    /// Index of the top-level vdev (the upper 8 of 32 bits have never been used).
    #[must_use]
    pub fn vdev(self) -> u32 {
        (self.word0 >> 32) as u32
    }

    /// RAID-Z layout information; reserved, always zero so far.
    #[must_use]
    pub fn grid(self) -> u8 {
        (self.word0 >> 24) as u8
    }

    /// Bytes allocated, with parity, padding and gang headers.
    #[must_use]
    pub fn asize(self) -> u64 {
        (self.word0 & 0xff_ffff) * SECTOR_SIZE
    }

    /// Byte offset from the end of the two front labels and the boot block (4 MiB into the vdev).
    #[must_use]
    pub fn offset(self) -> u64 {
        // At most 2^63 sectors: saturating keeps a lying value out of every range check.
        (self.word1 & (u64::MAX >> 1)).saturating_mul(SECTOR_SIZE)
    }

    /// The address holds a gang header, not the data.
    #[must_use]
    pub fn is_gang(self) -> bool {
        self.word1 >> 63 != 0
    }

    /// No address: this copy does not exist.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.asize() == 0
    }
}

impl core::fmt::Debug for Dva {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::fmt::Display for Dva {
    /// `vdev:offset:asize` in hexadecimal with a `G` for a gang header, as zdb writes it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let gang = if self.is_gang() { "G" } else { "" };
        write!(f, "{}:{:x}:{:x}{gang}", self.vdev(), self.offset(), self.asize())
    }
}

/// The payload of an embedded block pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddedKind {
    /// The block's compressed data.
    Data,
    /// Reserved by another implementation, never written by OpenZFS.
    Reserved,
    /// Mark of a redacted block: the data was left out when the stream was made.
    Redacted,
    /// Anything else.
    Unknown(u8),
}

/// A block pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlkPtr([u64; 16]);

impl Default for BlkPtr {
    fn default() -> Self {
        Self::HOLE
    }
}

impl BlkPtr {
    /// The hole that was never written: all words zero.
    pub const HOLE: Self = Self([0; 16]);

    /// Takes the sixteen words in host form.
    #[must_use]
    pub fn from_words(words: [u64; 16]) -> Self {
        Self(words)
    }

    /// The sixteen words in host form.
    #[must_use]
    pub fn words(&self) -> &[u64; 16] {
        &self.0
    }

    /// Decodes the first 128 bytes of `data`.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        Reader::new("blkptr", data, endian).blkptr("words")
    }

    /// Encodes into 128 bytes.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> [u8; BLKPTR_SIZE] {
        let mut out = [0; BLKPTR_SIZE];
        for (w, o) in self.0.iter().zip(out.chunks_exact_mut(8)) {
            o.copy_from_slice(&endian.put_u64(*w));
        }
        out
    }

    fn prop(&self, shift: u32, bits: u32) -> u64 {
        (self.0[6] >> shift) & ((1 << bits) - 1)
    }

    /// Copy `i` of the block (0, 1 or 2). Meaningless when embedded; the third of an encrypted
    /// block is its salt and IV. [`Self::dvas`] takes care of both.
    #[must_use]
    pub fn dva(&self, i: usize) -> Dva {
        match i {
            0 => Dva::from_words(self.0[0], self.0[1]),
            1 => Dva::from_words(self.0[2], self.0[3]),
            2 => Dva::from_words(self.0[4], self.0[5]),
            _ => Dva::default(),
        }
    }

    /// The copies that exist, in order, with their indices.
    pub fn dvas(&self) -> impl Iterator<Item = (usize, Dva)> + use<> {
        let n = match () {
            () if self.is_embedded() => 0,
            () if self.is_encrypted() => 2,
            () => DVAS_PER_BP,
        };
        let bp = *self;
        (0..n).map(move |i| (i, bp.dva(i))).filter(|(_, d)| !d.is_empty())
    }

    /// Payload in the pointer itself.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.prop(39, 1) != 0
    }

    /// Kind of the embedded payload; only when [`Self::is_embedded`].
    #[must_use]
    pub fn embedded_kind(&self) -> EmbeddedKind {
        match self.prop(40, 8) as u8 {
            0 => EmbeddedKind::Data,
            1 => EmbeddedKind::Reserved,
            2 => EmbeddedKind::Redacted,
            n => EmbeddedKind::Unknown(n),
        }
    }

    /// A hole: no block here, reads as zeros. May still have a birth txg (feature `hole_birth`).
    #[must_use]
    pub fn is_hole(&self) -> bool {
        !self.is_embedded() && self.0[0] == 0 && self.0[1] == 0
    }

    /// The block was left out of a redacted stream.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        self.is_embedded() && self.embedded_kind() == EmbeddedKind::Redacted
    }

    /// The first copy is a gang header (then all are).
    #[must_use]
    pub fn is_gang(&self) -> bool {
        !self.is_embedded() && self.dva(0).is_gang()
    }

    /// Size of the data in bytes, uncompressed.
    #[must_use]
    pub fn lsize(&self) -> u64 {
        match () {
            () if self.is_embedded() => (self.0[6] & 0x1ff_ffff) + 1,
            () => (self.prop(0, 16) + 1) * SECTOR_SIZE,
        }
    }

    /// Size of the data in bytes as stored, without parity.
    #[must_use]
    pub fn psize(&self) -> u64 {
        match () {
            () if self.is_embedded() => self.prop(25, 7) + 1,
            () => (self.prop(16, 16) + 1) * SECTOR_SIZE,
        }
    }

    /// Bytes allocated over all copies.
    #[must_use]
    pub fn asize(&self) -> u64 {
        self.dvas().map(|(_, d)| d.asize()).sum()
    }

    /// The compressed and the uncompressed size for space accounting (dead lists, datasets,
    /// directories): an embedded block stores nothing, and metadata count as stored.
    #[must_use]
    pub fn accounted_sizes(&self) -> [u64; 2] {
        let stored = if self.is_embedded() || self.is_hole() { 0 } else { self.psize() };
        let is_data = self.level() == 0 && !self.dmu_type().is_metadata();
        match () {
            () if self.is_hole() || self.is_redacted() => [0, 0],
            () if is_data => [stored, self.lsize()],
            () => [stored, stored],
        }
    }

    /// Compression of the stored data.
    #[must_use]
    pub fn compression(&self) -> Compression {
        Compression(self.prop(32, 7) as u8)
    }

    /// Checksum algorithm; [`Checksum::OFF`] when embedded.
    #[must_use]
    pub fn checksum_kind(&self) -> Checksum {
        match () {
            () if self.is_embedded() => Checksum::OFF,
            () => Checksum(self.prop(40, 8) as u8),
        }
    }

    /// Type of the object this block belongs to.
    #[must_use]
    pub fn dmu_type(&self) -> DmuType {
        DmuType(self.prop(48, 8) as u8)
    }

    /// Level above the data: 0 is data, 1 points to data.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.prop(56, 5) as u8
    }

    /// The crypt bit: encrypted, or authenticated only; see the two methods below.
    #[must_use]
    pub fn uses_crypt(&self) -> bool {
        self.prop(61, 1) != 0 && !self.is_embedded()
    }

    /// Data is encrypted: the third DVA is salt and IV, the MAC is in the checksum.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.uses_crypt() && self.level() == 0 && self.dmu_type().is_encrypted()
    }

    /// Data of an encrypted dataset that is stored in the clear with a MAC.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.uses_crypt() && self.level() == 0 && !self.dmu_type().is_encrypted()
    }

    /// Indirect block of an encrypted dataset: its checksum covers the MACs of what is below.
    #[must_use]
    pub fn has_indirect_mac(&self) -> bool {
        self.uses_crypt() && self.level() > 0
    }

    /// The block is in the deduplication table.
    #[must_use]
    pub fn is_dedup(&self) -> bool {
        self.prop(62, 1) != 0 && !self.is_embedded()
    }

    /// Byte order of the machine that wrote the block.
    #[must_use]
    pub fn byteorder(&self) -> Endian {
        if self.0[6] >> 63 != 0 { Endian::Little } else { Endian::Big }
    }

    /// Txg in which this pointer was written into the tree.
    #[must_use]
    pub fn logical_birth(&self) -> u64 {
        self.0[10]
    }

    /// Txg in which the data was allocated: earlier than the logical one for dedup, clones and
    /// blocks copied by device removal.
    #[must_use]
    pub fn physical_birth(&self) -> u64 {
        match self.0[9] {
            _ if self.is_embedded() => 0,
            0 => self.0[10],
            txg => txg,
        }
    }

    /// Non-hole level-0 blocks below (of a dnode block: allocated dnodes); 1 for a level-0 block.
    #[must_use]
    pub fn fill(&self) -> u64 {
        match () {
            () if self.is_embedded() => 1,
            () if self.is_encrypted() => self.0[11] & 0xffff_ffff,
            () => self.0[11],
        }
    }

    /// [`Self::fill`] of the pointer in these bytes, `None` when it is a hole. Of the thousand
    /// pointers of an indirect block, only this is needed whenever one of them has changed.
    #[must_use]
    pub fn fill_of(bytes: &[u8; BLKPTR_SIZE], endian: Endian) -> Option<u64> {
        let mut out = Self::HOLE;
        let (stored, _) = bytes.as_chunks::<8>();
        // The words with the hole, embedded and encryption bits, and the count itself.
        for at in [0, 1, 6, 11] {
            out.0[at] = endian.u64(stored[at]);
        }
        (!out.is_hole()).then(|| out.fill())
    }

    /// The four checksum words.
    #[must_use]
    pub fn checksum(&self) -> [u64; 4] {
        [self.0[12], self.0[13], self.0[14], self.0[15]]
    }

    /// Salt (8 bytes) from which the block's key is derived; only when encrypted.
    #[must_use]
    pub fn crypt_salt(&self) -> [u8; 8] {
        self.byteorder().put_u64(self.0[4])
    }

    /// Initialisation vector; only when encrypted.
    #[must_use]
    pub fn crypt_iv(&self) -> [u8; 12] {
        let mut iv = [0; 12];
        let e = self.byteorder();
        iv[..8].copy_from_slice(&e.put_u64(self.0[5]));
        iv[8..].copy_from_slice(&e.put_u32((self.0[11] >> 32) as u32));
        iv
    }

    /// Salt and initialisation vector; `None` when the block is not encrypted.
    #[must_use]
    pub fn crypt_params(&self) -> Option<CryptParams> {
        self.is_encrypted().then(|| CryptParams { salt: self.crypt_salt(), iv: self.crypt_iv() })
    }

    /// Message authentication code; when encrypted or authenticated.
    #[must_use]
    pub fn crypt_mac(&self) -> [u8; 16] {
        let mut mac = [0; 16];
        let e = self.byteorder();
        mac[..8].copy_from_slice(&e.put_u64(self.0[14]));
        mac[8..].copy_from_slice(&e.put_u64(self.0[15]));
        mac
    }

    /// The payload as stored (compressed), [`Self::psize`] bytes.
    ///
    /// Payload bytes fill the words from their least significant byte up, so the result does not
    /// depend on the byte order of the block that held the pointer.
    #[must_use]
    pub fn embedded_payload(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(EMBEDDED_PAYLOAD_MAX);
        for (i, w) in self.0.iter().enumerate() {
            if i != 6 && i != 10 {
                out.extend_from_slice(&w.to_le_bytes());
            }
        }
        out.truncate(self.psize() as usize);
        out
    }
}

impl core::fmt::Debug for BlkPtr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_hole() {
            return write!(
                f,
                "HOLE [L{} {:?}] birth={}",
                self.level(),
                self.dmu_type(),
                self.0[10]
            );
        }
        if self.is_embedded() {
            write!(f, "EMBEDDED {:?}", self.embedded_kind())?;
        }
        for (i, dva) in self.dvas() {
            write!(f, "DVA[{i}]=<{dva}> ")?;
        }
        write!(
            f,
            "[L{} {:?}] {:?} {:?} {:?} size={:x}L/{:x}P birth={}L/{}P fill={} cksum={:x?}",
            self.level(),
            self.dmu_type(),
            self.checksum_kind(),
            self.compression(),
            self.byteorder(),
            self.lsize(),
            self.psize(),
            self.logical_birth(),
            self.physical_birth(),
            self.fill(),
            self.checksum()
        )
    }
}

impl Reader<'_> {
    /// A block pointer.
    pub fn blkptr(&mut self, field: &'static str) -> Result<BlkPtr> {
        Ok(BlkPtr::from_words(self.words(field)?))
    }
}

impl Writer {
    /// A block pointer.
    pub fn blkptr(&mut self, bp: &BlkPtr) -> &mut Self {
        self.words(bp.words())
    }
}
