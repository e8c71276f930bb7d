//! Checksums that are stored inside the block they protect.
//!
//! Labels, uberblock slots, gang headers and intent-log blocks are found by their place, not by a
//! pointer that could hold a checksum, so they carry a *trailer* of 40 bytes themselves:
//!
//! ```text
//! +0   magic 0x0210da7ab10c7a11, which also tells the writer's byte order
//! +8   four checksum words
//! ```
//!
//! The checksum covers the trailer too. While it is computed, its words hold a *seed* that
//! identifies the block: a block that was written to the wrong place, or is left from an earlier
//! life of that place, does not verify.
//!
//! | block | algorithm | seed | trailer |
//! | --- | --- | --- | --- |
//! | label, uberblock slot, boot environment | SHA-256 | byte offset on the vdev, 0, 0, 0 | end |
//! | gang header | SHA-256 | vdev and offset of its first copy, birth txg, 0 | end |
//! | intent log, classic ("zilog") | Fletcher-2 | checksum words of the pointer to it | end |
//! | intent log, slim ("zilog2") | Fletcher-4 | the same | in the header |
//!
//! An intent-log block has a header of 184 bytes (a *chain*: padding, pointer to the next block,
//! bytes used, trailer), at the end of a classic block and at the front of a slim one. A slim
//! block is summed only as far as it is used, rounded up to 4 KiB, so that a large block with
//! little in it is written and read cheaply. In an encrypted dataset words 2 and 3 of the trailer
//! hold a MAC (of a gang header: zeros), and words 0 and 1 the folded checksum.

use super::{Algorithm, ByteOrder, Digest, Fletcher2, Fletcher4};
use sha2::Digest as _;

/// First word of a trailer.
pub const TRAILER_MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// Bytes of a trailer: the magic and four words.
pub const TRAILER_SIZE: usize = 40;
/// Bytes of the header of an intent-log block.
pub const ZIL_CHAIN_SIZE: usize = 184;

/// Place of the bytes-used word in the header.
const CHAIN_USED: usize = 136;
/// Place of the trailer in the header.
const CHAIN_TRAILER: usize = 144;
/// The used part of a slim block is summed in units of this many bytes.
const ZIL_BLOCK_MIN: u64 = 4096;
/// Bytes of four checksum words.
const WORDS: usize = 32;

/// Why a block that checks itself is not what it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The block is too short to have a trailer.
    #[error("block of {len} bytes has no room for its checksum")]
    TooShort {
        /// Bytes of the block.
        len: usize,
    },
    /// There is no trailer in either byte order. A block that was never written ends here.
    #[error("no checksum trailer (magic {found:#x})")]
    NoMagic {
        /// What stands there instead, read little-endian.
        found: u64,
    },
    /// An intent-log block says that more of it is used than there is.
    #[error("{used} bytes used of {len}")]
    Overrun {
        /// Bytes used, as the block says.
        used: u64,
        /// Bytes of the block.
        len: usize,
    },
    /// The checksum is another one.
    #[error("checksum does not match")]
    Mismatch {
        /// The words in the trailer.
        expected: [u64; 4],
        /// The words computed.
        actual: [u64; 4],
    },
}

/// Verifies a label's nvlist region, an uberblock slot or a boot environment.
///
/// `offset_on_vdev` is the byte offset of the block's first byte from the start of the device.
/// Gives the byte order of the machine that wrote it.
///
/// # Errors
/// The trailer is missing, or the checksum is another one.
pub fn verify_label(block: &[u8], offset_on_vdev: u64) -> Result<ByteOrder, EmbeddedError> {
    verify_sha256(block, [offset_on_vdev, 0, 0, 0], false)
}

/// Verifies a gang header.
///
/// `vdev` and `offset` are those of the **first** DVA of the pointer to it, `birth` is the
/// pointer's physical birth txg. All copies of a header are the same bytes, sealed with the first
/// address: the second copy does not verify with its own. `mac`: words 2 and 3 of the pointer's
/// own checksum are a MAC, so the trailer holds a folded checksum of two words.
///
/// # Errors
/// The trailer is missing, or the checksum is another one.
pub fn verify_gang_header(
    block: &[u8],
    vdev: u64,
    offset: u64,
    birth: u64,
    mac: bool,
) -> Result<ByteOrder, EmbeddedError> {
    verify_sha256(block, [vdev, offset, birth, 0], mac)
}

/// Verifies a classic intent-log block against the checksum words of the pointer to it. `mac`: the
/// dataset is encrypted.
///
/// Gives the byte order and the bytes used by records, from the start of the block.
///
/// # Errors
/// The header is missing, the checksum is another one, or more is used than there is.
pub fn verify_zilog(
    block: &[u8],
    seed: [u64; 4],
    mac: bool,
) -> Result<(ByteOrder, usize), EmbeddedError> {
    let too_short = EmbeddedError::TooShort { len: block.len() };
    let room = block.len().checked_sub(ZIL_CHAIN_SIZE).ok_or(too_short)?;
    let at = room + CHAIN_TRAILER;
    let (order, expected) = trailer(block, at)?;
    compare(expected, fletcher2_sealed(block, order, seed), mac)?;
    let used = order.u64(array(block, room + CHAIN_USED)?);
    match usize::try_from(used) {
        Ok(used) if used <= room => Ok((order, used)),
        _ => Err(EmbeddedError::Overrun { used, len: block.len() }),
    }
}

/// Verifies a slim intent-log block against the checksum words of the pointer to it. `mac`: the
/// dataset is encrypted. Only the used part of the block need be present.
///
/// Gives the byte order and the bytes used, from the start of the block and with its header.
///
/// # Errors
/// The header is missing, the checksum is another one, or more is used than there is.
pub fn verify_zilog2(
    block: &[u8],
    seed: [u64; 4],
    mac: bool,
) -> Result<(ByteOrder, usize), EmbeddedError> {
    let (order, expected) = trailer(block, CHAIN_TRAILER)?;
    let (used, summed) = slim_extent(block, order)?;
    let summed = block.get(..summed).unwrap_or(block);
    compare(expected, fletcher4_sealed(summed, order, seed), mac)?;
    Ok((order, used))
}

/// Writes the trailer of a label's region, an uberblock slot or a boot environment.
///
/// # Errors
/// The block is too short.
pub fn seal_label(
    block: &mut [u8],
    order: ByteOrder,
    offset_on_vdev: u64,
) -> Result<(), EmbeddedError> {
    seal_sha256(block, order, [offset_on_vdev, 0, 0, 0], false)
}

/// Writes the trailer of a gang header; the arguments are those of [`verify_gang_header`].
///
/// # Errors
/// The block is too short.
pub fn seal_gang_header(
    block: &mut [u8],
    order: ByteOrder,
    vdev: u64,
    offset: u64,
    birth: u64,
    mac: bool,
) -> Result<(), EmbeddedError> {
    seal_sha256(block, order, [vdev, offset, birth, 0], mac)
}

/// Writes the trailer of a classic intent-log block whose header is otherwise complete. `mac`: the
/// MAC of an encrypted block, which takes the place of words 2 and 3.
///
/// # Errors
/// The block is too short.
pub fn seal_zilog(
    block: &mut [u8],
    order: ByteOrder,
    seed: [u64; 4],
    mac: Option<[u64; 2]>,
) -> Result<(), EmbeddedError> {
    let too_short = EmbeddedError::TooShort { len: block.len() };
    let at = block.len().checked_sub(TRAILER_SIZE).ok_or(too_short)?;
    put_magic(block, at, order)?;
    let digest = fletcher2_sealed(block, order, seed);
    put_trailer(block, at, order, words(digest, mac))
}

/// Writes the trailer of a slim intent-log block whose header is otherwise complete, with the bytes
/// used; the arguments are those of [`seal_zilog`].
///
/// # Errors
/// The block is too short for its header or for what it says is used.
pub fn seal_zilog2(
    block: &mut [u8],
    order: ByteOrder,
    seed: [u64; 4],
    mac: Option<[u64; 2]>,
) -> Result<(), EmbeddedError> {
    put_magic(block, CHAIN_TRAILER, order)?;
    let (_, summed) = slim_extent(block, order)?;
    let digest = fletcher4_sealed(block.get(..summed).unwrap_or(block), order, seed);
    put_trailer(block, CHAIN_TRAILER, order, words(digest, mac))
}

/// Bytes used of a slim block, and bytes its checksum covers; the block holds both.
fn slim_extent(block: &[u8], order: ByteOrder) -> Result<(usize, usize), EmbeddedError> {
    let used = order.u64(array(block, CHAIN_USED)?);
    let overrun = EmbeddedError::Overrun { used, len: block.len() };
    let summed = used.checked_next_multiple_of(ZIL_BLOCK_MIN).ok_or(overrun)?;
    let summed = usize::try_from(summed).map_err(|_| overrun)?;
    // The header is always summed: less than it cannot be used.
    if summed > block.len() || used < ZIL_CHAIN_SIZE as u64 {
        return Err(overrun);
    }
    Ok((used as usize, summed))
}

/// What a trailer holds; with a MAC, the checksum folded into its first two words.
fn words(digest: Digest, mac: Option<[u64; 2]>) -> [u64; 4] {
    let Some([m0, m1]) = mac else { return digest.0 };
    // Checksums within blocks are folded whatever they are, SHA-256 too: so a weak one's name.
    let [a, b] = digest.truncated(Algorithm::Fletcher4);
    [a, b, m0, m1]
}

fn verify_sha256(block: &[u8], seed: [u64; 4], mac: bool) -> Result<ByteOrder, EmbeddedError> {
    let too_short = EmbeddedError::TooShort { len: block.len() };
    let at = block.len().checked_sub(TRAILER_SIZE).ok_or(too_short)?;
    let (order, expected) = trailer(block, at)?;
    compare(expected, sha256_sealed(block, order, seed), mac)?;
    Ok(order)
}

fn seal_sha256(
    block: &mut [u8],
    order: ByteOrder,
    seed: [u64; 4],
    mac: bool,
) -> Result<(), EmbeddedError> {
    let too_short = EmbeddedError::TooShort { len: block.len() };
    let at = block.len().checked_sub(TRAILER_SIZE).ok_or(too_short)?;
    put_magic(block, at, order)?;
    let digest = sha256_sealed(block, order, seed);
    // Of a gang header the MAC stands in the pointer, so its two words stay empty here.
    put_trailer(block, at, order, words(digest, mac.then_some([0, 0])))
}

/// The digest of a block whose last four words are taken to be the seed.
fn sha256_sealed(block: &[u8], order: ByteOrder, seed: [u64; 4]) -> Digest {
    let (body, _) = block.split_at(block.len().saturating_sub(WORDS));
    let hash = sha2::Sha256::new().chain_update(body).chain_update(order.put_words(seed));
    Digest::from_bytes(&hash.finalize().into(), ByteOrder::Big)
}

/// As [`sha256_sealed`], with Fletcher-2.
fn fletcher2_sealed(block: &[u8], order: ByteOrder, seed: [u64; 4]) -> Digest {
    let (body, _) = block.split_at(block.len().saturating_sub(WORDS));
    // A block whose length is not a multiple of 16 was never written by anyone: the sum then only
    // has to be defined.
    let mut sum = Fletcher2::new();
    sum.update(order, body);
    sum.update(order, &order.put_words(seed));
    sum.digest()
}

/// The Fletcher-4 digest of a slim block whose four words in the header are taken to be the seed.
fn fletcher4_sealed(block: &[u8], order: ByteOrder, seed: [u64; 4]) -> Digest {
    let (front, rest) = block.split_at((CHAIN_TRAILER + 8).min(block.len()));
    let mut sum = Fletcher4::new();
    sum.update(order, front);
    sum.update(order, &order.put_words(seed));
    sum.update(order, rest.get(WORDS..).unwrap_or_default());
    sum.digest()
}

fn compare(expected: [u64; 4], actual: Digest, mac: bool) -> Result<(), EmbeddedError> {
    if actual.matches(Algorithm::Fletcher4, expected, mac) {
        return Ok(());
    }
    Err(EmbeddedError::Mismatch { expected, actual: actual.0 })
}

/// Byte order and words of the trailer at `at`.
fn trailer(block: &[u8], at: usize) -> Result<(ByteOrder, [u64; 4]), EmbeddedError> {
    let magic = array(block, at)?;
    let order = match (u64::from_le_bytes(magic), u64::from_be_bytes(magic)) {
        (TRAILER_MAGIC, _) => ByteOrder::Little,
        (_, TRAILER_MAGIC) => ByteOrder::Big,
        (found, _) => return Err(EmbeddedError::NoMagic { found }),
    };
    let mut words = [0; 4];
    for (i, w) in words.iter_mut().enumerate() {
        *w = order.u64(array(block, at + 8 + 8 * i)?);
    }
    Ok((order, words))
}

fn put_magic(block: &mut [u8], at: usize, order: ByteOrder) -> Result<(), EmbeddedError> {
    put(block, at, &order.put_u64(TRAILER_MAGIC))
}

fn put_trailer(
    block: &mut [u8],
    at: usize,
    order: ByteOrder,
    words: [u64; 4],
) -> Result<(), EmbeddedError> {
    put_magic(block, at, order)?;
    put(block, at + 8, &order.put_words(words))
}

fn array<const N: usize>(block: &[u8], at: usize) -> Result<[u8; N], EmbeddedError> {
    let too_short = EmbeddedError::TooShort { len: block.len() };
    block.get(at..).and_then(|b| b.first_chunk()).copied().ok_or(too_short)
}

fn put(block: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), EmbeddedError> {
    let too_short = EmbeddedError::TooShort { len: block.len() };
    let place = at.checked_add(bytes.len()).and_then(|end| block.get_mut(at..end));
    place.ok_or(too_short)?.copy_from_slice(bytes);
    Ok(())
}
