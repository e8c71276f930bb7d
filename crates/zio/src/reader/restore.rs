//! Blocks that no device has any more, written again from what was kept of them elsewhere.
//!
//! # Theory
//!
//! A block pointer has the form in which its block is stored: size, compression, salt and IV,
//! checksum. The kept data is brought into that form, and is right if its checksum matches. Nothing
//! else is written, and nothing but the block changes.
//!
//! ```text
//! plain ---- compressed as the pointer says ---> packed --- encrypted, padded ---> sealed
//!                                                                                     |
//!                        to all places of the pointer <--- the checksum fits <--------'
//! ```
//!
//! The compressor must make the same bytes that the writer's made; an implementation that makes
//! others cannot restore from plain bytes. The pointer does not have the level of zstd, so all are
//! tried.
//!
//! The parts of a gang are parts of what is stored. They are written where its header has them, so
//! one whose header is lost is not restored.

use super::{Reader, sane};
use crate::block::Place;
use crate::checksum::Verifier;
use crate::crypt::seal_block;
use codec::compress::{self, Algorithm};
use codec::crypto::MasterKey;
use device::{AlignedBuf, Shared};
use ondisk::{BlkPtr, Checksum, Compression};

/// The kept data of a block.
#[derive(Clone, Copy, Debug)]
pub enum Kept<'a> {
    /// The plain data.
    Plain(&'a [u8]),
    /// The same, compressed so.
    Packed(Compression, &'a [u8]),
    /// The stored bytes of an encrypted block.
    Sealed(&'a [u8]),
}

impl Reader {
    /// Computes the stored bytes of the block from the kept data; `None` if that is another
    /// block's, or its form cannot be made. A block that is encrypted needs its key unless it was
    /// kept encrypted.
    #[must_use]
    pub fn stored_form(
        &self,
        bp: &BlkPtr,
        kept: Kept<'_>,
        key: Option<&MasterKey>,
    ) -> Option<AlignedBuf> {
        let is_sure = !matches!(bp.checksum_kind(), Checksum::OFF | Checksum::NOPARITY);
        let is_one = !bp.is_hole() && !bp.is_embedded() && bp.level() == 0;
        sane(bp).ok().filter(|()| is_sure && is_one)?;
        let verifier = Verifier::new(bp, &self.salted).ok()?;
        let stored = |packed: &[u8]| {
            let stored = sealed(bp, padded(bp, packed)?, key)?;
            verifier.matches(&stored).then_some(stored)
        };
        match kept {
            Kept::Sealed(bytes) => {
                let whole = padded(bp, bytes).filter(|whole| whole.len() == bytes.len());
                whole.filter(|whole| verifier.matches(whole))
            }
            Kept::Packed(how, bytes) => {
                let as_it_is = (how == bp.compression()).then(|| stored(bytes)).flatten();
                as_it_is.or_else(|| {
                    let mut plain = AlignedBuf::zeroed(usize::try_from(bp.lsize()).ok()?);
                    let algorithm = Algorithm::from_number(how.0)?;
                    compress::decompress(algorithm, bytes, &mut plain).ok()?;
                    packings(bp, &plain)?.find_map(|packed| stored(&packed))
                })
            }
            Kept::Plain(plain) => packings(bp, plain)?.find_map(|packed| stored(&packed)),
        }
    }

    /// Writes what is stored of a block to all its places and waits; whether all took it. It is
    /// durable after the next flush. The space of the block must not be given to others meanwhile.
    #[must_use]
    pub fn write_in_place(&self, bp: &BlkPtr, place: Place, stored: AlignedBuf) -> bool {
        let stored = Shared::from(stored);
        if !bp.is_gang() {
            return self.write_copies(bp, &stored);
        }
        let mut parts = self.gang_members(bp, place);
        parts.retain(|part| !part.is_gang());
        if parts.iter().map(BlkPtr::psize).sum::<u64>() != bp.psize() {
            return false;
        }
        let (mut at, mut is_taken) = (0, self.write_copies(bp, &stored));
        for part in parts {
            let end = at + usize::try_from(part.psize()).unwrap_or(0);
            is_taken &= self.write_copies(&part, &stored.slice(at..end));
            at = end;
        }
        is_taken
    }

    /// The same for the copies that are in one piece. Each is tried, whatever became of another.
    fn write_copies(&self, bp: &BlkPtr, stored: &Shared) -> bool {
        let birth = bp.physical_birth();
        let whole = bp.dvas().filter(|(_, dva)| !dva.is_gang());
        let taken: Vec<bool> =
            whole.map(|(_, dva)| self.write_at(dva, birth, stored.clone())).collect();
        taken.into_iter().all(|taken| taken)
    }
}

/// The plain bytes of a block in all forms that its pointer may mean; `None` when they are not of
/// its size, or its compression is not known.
fn packings<'a>(bp: &BlkPtr, plain: &'a [u8]) -> Option<impl Iterator<Item = Vec<u8>> + use<'a>> {
    if plain.len() as u64 != bp.lsize() {
        return None;
    }
    let algorithm = Algorithm::from_number(bp.compression().0)?;
    let all: Vec<Algorithm> = match algorithm {
        Algorithm::Zstd(usual) => {
            let fast = (1..=10).chain((20..=100).step_by(10)).chain([500, 1000]);
            let levels = (1..=19).chain(fast.map(|level: i32| -level));
            std::iter::once(usual).chain(levels).map(Algorithm::Zstd).collect()
        }
        other => vec![other],
    };
    Some(all.into_iter().filter_map(move |algorithm| match algorithm {
        Algorithm::Off => Some(plain.to_vec()),
        algorithm => compress::compress(algorithm, plain),
    }))
}

/// Packed bytes with zeros behind them, up to the size that is stored.
fn padded(bp: &BlkPtr, packed: &[u8]) -> Option<AlignedBuf> {
    let mut out = AlignedBuf::zeroed(usize::try_from(bp.psize()).ok()?);
    out.get_mut(..packed.len())?.copy_from_slice(packed);
    Some(out)
}

fn sealed(bp: &BlkPtr, mut stored: AlignedBuf, key: Option<&MasterKey>) -> Option<AlignedBuf> {
    if !bp.is_encrypted() {
        return Some(stored);
    }
    let (kind, endian) = (bp.dmu_type(), bp.byteorder());
    let mac = seal_block(key?, kind, endian, bp.crypt_salt(), &bp.crypt_iv(), &mut stored).ok()?;
    (mac == bp.crypt_mac()).then_some(stored)
}
