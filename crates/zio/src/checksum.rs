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

/// The algorithm of a checksum in a block pointer.
///
/// # Errors
/// The number is unknown, or that of a checksum that is stored elsewhere.
pub(crate) fn algorithm(kind: Checksum) -> Result<Algorithm, ErrorKind> {
    Ok(match kind {
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
    })
}

/// Words 2 and 3 of the pointer's checksum are a MAC, so the checksum itself has two words only,
/// gang headers included. The MACs of an object set are stored within it.
pub(crate) fn has_mac(bp: &BlkPtr) -> bool {
    bp.uses_crypt() && bp.dmu_type() != DmuType::OBJSET
}

/// Where the checksum is stored that the data is compared with.
#[derive(Clone, Copy)]
enum Checks {
    /// In the block pointer.
    Pointer(Algorithm),
    /// At the end of an intent log block; the pointer holds its seed.
    LogBack,
    /// At the start of an intent log block.
    LogFront,
    /// Not compared at all.
    Nowhere,
}

/// Judges whether bytes are the ones a block pointer's checksum was made of.
#[derive(Clone, Copy)]
pub struct Verifier<'a> {
    place: Checks,
    order: ByteOrder,
    salted: &'a Salted,
    expected: [u64; 4],
    /// Words 2 and 3 of the pointer are a MAC, so only two words of checksum are stored.
    truncated: bool,
}

impl<'a> Verifier<'a> {
    /// For a block of any kind but labels and gang headers.
    ///
    /// # Errors
    /// The checksum number is unknown, or that of a label or gang header.
    pub fn new(bp: &BlkPtr, salted: &'a Salted) -> Result<Self, ErrorKind> {
        let algorithm = match bp.checksum_kind() {
            Checksum::ZILOG => return Ok(Self::log(bp, salted, Checks::LogBack)),
            Checksum::ZILOG2 => return Ok(Self::log(bp, salted, Checks::LogFront)),
            kind => algorithm(kind)?,
        };
        Ok(Self {
            place: Checks::Pointer(algorithm),
            order: byte_order(bp.byteorder()),
            salted,
            expected: bp.checksum(),
            truncated: has_mac(bp),
        })
    }

    /// The same, judging everything good.
    #[must_use]
    pub fn trusting(self) -> Self {
        Self { place: Checks::Nowhere, ..self }
    }

    fn log(bp: &BlkPtr, salted: &'a Salted, place: Checks) -> Self {
        let (order, expected) = (byte_order(bp.byteorder()), bp.checksum());
        Self { place, order, salted, expected, truncated: bp.uses_crypt() }
    }

    /// True when `data` has the expected checksum.
    #[must_use]
    pub fn matches(&self, data: &[u8]) -> bool {
        let algorithm = match self.place {
            Checks::LogBack => {
                return checksum::verify_zilog(data, self.expected, self.truncated).is_ok();
            }
            Checks::LogFront => {
                return checksum::verify_zilog2(data, self.expected, self.truncated).is_ok();
            }
            Checks::Nowhere | Checks::Pointer(Algorithm::Off | Algorithm::NoParity) => return true,
            Checks::Pointer(algorithm) => algorithm,
        };
        let digest = checksum::compute(algorithm, self.order, self.salted, data);
        digest.matches(algorithm, self.expected, self.truncated)
    }
}
