//! The block reference table: blocks that file clones share, and how many times.
//!
//! Specified in `docs/format/brt.md`. Feature `block_cloning`. Every top-level vdev with cloned
//! blocks has an object, found in the MOS's object directory as `com.fudosecurity:brt:vdev:N`:
//! its bonus is [`BrtVdev`], its data one 16-bit count per range of 16 MiB of the vdev, the number
//! of entries there. The entries are in a ZAP of their own with keys of one word, the byte offset
//! of the block's first address; the value counts the references *beyond* the first.

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};
use crate::wordstruct::word_struct;

/// The prefix of the name in the object directory; the vdev's number in decimal follows.
pub const OBJECT_PREFIX: &str = "com.fudosecurity:brt:vdev:";
/// Bytes of a vdev that one count is for.
pub const RANGE_SIZE: u64 = 16 << 20;

/// Name of a vdev's object in the object directory.
#[must_use]
pub fn object_name(vdev: u64) -> String {
    format!("{OBJECT_PREFIX}{vdev}")
}

/// The vdev in such a name.
#[must_use]
pub fn parse_object_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(OBJECT_PREFIX)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

word_struct! {
    /// Bonus of a vdev's object (56 bytes).
    pub struct BrtVdev("brt vdev") {
        /// ZAP of the entries.
        pub entries: u64,
        /// Counts in the object's data.
        pub size: u64,
        byteorder: u64,
        /// Sum of all counts: entries of the vdev.
        pub total_count: u64,
        /// Bytes of the vdev per count: [`RANGE_SIZE`].
        pub range_size: u64,
        /// Bytes allocated by cloned blocks.
        pub used_space: u64,
        /// Bytes more that they would take without cloning.
        pub saved_space: u64,
    }
}

impl BrtVdev {
    /// Byte order of the counts: the object's data is stored as bytes, so the host's order at
    /// the time of writing is noted here.
    pub fn count_order(&self) -> Result<Endian> {
        match self.byteorder {
            0 => Ok(Endian::Little),
            1 => Ok(Endian::Big),
            value => Err(crate::Error {
                structure: "brt vdev",
                field: "byteorder",
                offset: 16,
                kind: ErrorKind::Unknown { value },
            }),
        }
    }

    /// A bonus whose counts are written in `order`.
    #[must_use]
    pub fn with_count_order(self, order: Endian) -> Self {
        Self { byteorder: u64::from(order == Endian::Big), ..self }
    }

    /// Bytes of the object's data that the counts take.
    #[must_use]
    pub fn counts_len(&self) -> u64 {
        self.size.saturating_mul(2)
    }
}

/// Decodes counts; `data` is a part of the object's data.
pub fn counts(data: &[u8], order: Endian) -> Result<Vec<u16>> {
    let mut r = Reader::new("brt counts", data, order);
    let mut out = Vec::with_capacity(data.len() / 2);
    while r.remaining() > 0 {
        out.push(r.u16("count")?);
    }
    Ok(out)
}

/// Encodes counts.
#[must_use]
pub fn encode_counts(counts: &[u16], order: Endian) -> Vec<u8> {
    let mut w = Writer::new(order);
    for c in counts {
        w.u16(*c);
    }
    w.into_bytes()
}

/// An entry's value: references beyond the first.
///
/// It is stored as eight integers of one byte, in the order of the host that wrote it: that of
/// [`BrtVdev::count_order`].
pub fn refcount(value: &[u8], order: Endian) -> Result<u64> {
    Reader::new("brt entry", value, order).u64("refcount")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        assert_eq!(object_name(12), "com.fudosecurity:brt:vdev:12");
        assert_eq!(parse_object_name(&object_name(12)), Some(12));
        for bad in ["com.fudosecurity:brt:vdev:", "com.fudosecurity:brt:vdev:+1", "x"] {
            assert_eq!(parse_object_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_byte_order_is_a_field() {
        let v = BrtVdev { size: 3, ..BrtVdev::default() }.with_count_order(Endian::Big);
        assert_eq!(v.count_order(), Ok(Endian::Big));
        assert_eq!(v.counts_len(), 6);
        let bytes = encode_counts(&[1, 2, 0x300], Endian::Big);
        assert_eq!(bytes, [0, 1, 0, 2, 3, 0]);
        assert_eq!(counts(&bytes, Endian::Big), Ok(vec![1, 2, 0x300]));
        assert!(counts(&bytes[..5], Endian::Big).is_err());
        assert!(BrtVdev { byteorder: 2, ..v }.count_order().is_err());
    }
}
