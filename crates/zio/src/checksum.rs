//! From the numbers in a block pointer to the algorithms of `codec`.

use crate::error::ErrorKind;
use codec::checksum::{self, Algorithm, ByteOrder, Salted};
use ondisk::{BlkPtr, Checksum, DmuType, Endian};

/// Byte order as `codec` names it.
pub(crate) fn byte_order(endian: Endian) -> ByteOrder {
    match endian {
        Endian::Little => ByteOrder::Little,
        Endian::Big => ByteOrder::Big,
    }
}

/// Judges whether bytes are the ones a block pointer's checksum was made of.
#[derive(Clone, Copy)]
pub struct Verifier<'a> {
    algorithm: Algorithm,
    order: ByteOrder,
    salted: &'a Salted,
    expected: [u64; 4],
    /// Words 2 and 3 of the pointer are a MAC, so only two words of checksum are stored.
    truncated: bool,
}

impl<'a> Verifier<'a> {
    /// For a level-0 or indirect block with an ordinary checksum.
    ///
    /// # Errors
    /// The checksum number is unknown, or one of those that stand inside the block.
    pub fn new(bp: &BlkPtr, salted: &'a Salted) -> Result<Self, ErrorKind> {
        let algorithm = match bp.checksum_kind() {
            Checksum::OFF => Algorithm::Off,
            Checksum::FLETCHER_2 => Algorithm::Fletcher2,
            Checksum::FLETCHER_4 | Checksum::ON => Algorithm::Fletcher4,
            Checksum::SHA256 => Algorithm::Sha256,
            Checksum::NOPARITY => Algorithm::NoParity,
            Checksum::SHA512 => Algorithm::Sha512_256,
            Checksum::SKEIN => Algorithm::Skein,
            Checksum::EDONR => Algorithm::Edonr,
            Checksum::BLAKE3 => Algorithm::Blake3,
            c => return Err(ErrorKind::UnknownAlgorithm { what: "checksum", number: c.0 }),
        };
        Ok(Self {
            algorithm,
            order: byte_order(bp.byteorder()),
            salted,
            expected: bp.checksum(),
            truncated: bp.uses_crypt() && bp.dmu_type() != DmuType::OBJSET,
        })
    }

    /// True when `data` has the expected checksum.
    #[must_use]
    pub fn matches(&self, data: &[u8]) -> bool {
        if matches!(self.algorithm, Algorithm::Off | Algorithm::NoParity) {
            return true;
        }
        let digest = checksum::compute(self.algorithm, self.order, self.salted, data);
        digest.matches(self.algorithm, self.expected, self.truncated)
    }
}
