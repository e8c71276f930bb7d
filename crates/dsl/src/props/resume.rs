//! The token with which an interrupted receive goes on (`receive_resume_token`).
//!
//! Where the receive stopped is in the dataset's later fields. The token carries them to the
//! sender: a list in native encoding, compressed with gzip level 6, in hexadecimal, after version,
//! first word of the Fletcher-4 checksum of the compressed bytes, and size of the list.
//!
//! ```text
//! 1-<checksum>-<size>-<bytes>
//! ```

use crate::error::Result;
use codec::checksum::{ByteOrder, Fletcher4};
use codec::compress::Algorithm;
use dmu::Zap;
use ondisk::Endian;
use ondisk::dsl::dataset_field as field;
use ondisk::nvlist::{Encoding, NvList, NvValue, Packing};
use std::fmt::Write as _;

/// Version of the token.
const VERSION: u32 = 1;

/// Numbers: field and name in the list.
const NUMBERS: [(&str, &str); 5] = [
    (field::RESUME_FROMGUID, "fromguid"),
    (field::RESUME_OBJECT, "object"),
    (field::RESUME_OFFSET, "offset"),
    (field::RESUME_BYTES, "bytes"),
    (field::RESUME_TOGUID, "toguid"),
];

/// Marks: there or not.
const MARKS: [(&str, &str); 4] = [
    (field::RESUME_LARGEBLOCK, "largeblockok"),
    (field::RESUME_EMBEDOK, "embedok"),
    (field::RESUME_COMPRESSOK, "compressok"),
    (field::RESUME_RAWOK, "rawok"),
];

/// The token of a dataset with these fields; `None` when no receive was interrupted.
pub(super) fn token(fields: &Zap) -> Result<Option<String>> {
    if fields.get(field::RESUME_TOGUID.as_bytes())?.is_none() {
        return Ok(None);
    }
    let mut list = NvList::new();
    for (key, name) in NUMBERS {
        if let Some(n) = fields.get_u64(key)? {
            list.set(name, NvValue::U64(n));
        }
    }
    if let Some(e) = fields.get(field::RESUME_TONAME.as_bytes())? {
        list.set("toname", NvValue::String(e.value_text().unwrap_or_default().to_vec()));
    }
    for (key, name) in MARKS {
        if fields.get(key.as_bytes())?.is_some() {
            list.set(name, NvValue::Boolean);
        }
    }
    if let Some(e) = fields.get(field::RESUME_REDACT_BOOKMARK_SNAPS.as_bytes())? {
        list.set("book_redact_snaps", NvValue::U64Array(e.ints().collect()));
    }
    let packing = Packing { encoding: Encoding::Native, endian: Endian::Little };
    Ok(list.encode(packing).ok().map(|packed| form(&packed)))
}

fn form(packed: &[u8]) -> String {
    let compressed = codec::compress::compress(Algorithm::Gzip(6), packed);
    let bytes = compressed.as_deref().unwrap_or(packed);
    // The checksum leaves out what is no whole word at the end.
    let words = bytes.get(..bytes.len() / 4 * 4).unwrap_or_default();
    let mut sum = Fletcher4::new();
    sum.update(ByteOrder::Little, words);
    let mut out = format!("{VERSION}-{:x}-{:x}-", sum.digest().0[0], packed.len());
    for b in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "{b:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_holds_its_list() {
        let mut list = NvList::new();
        list.set("object", NvValue::U64(7)).set("toname", NvValue::String(b"tank/a@b".to_vec()));
        let packing = Packing { encoding: Encoding::Native, endian: Endian::Little };
        let packed = list.encode(packing).unwrap();
        let token = form(&packed);
        let [version, sum, size, hex] = token.split('-').collect::<Vec<_>>()[..] else {
            panic!("{token}");
        };
        assert_eq!((version, size), ("1", format!("{:x}", packed.len()).as_str()));
        assert!(u64::from_str_radix(sum, 16).is_ok());
        let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let mut back = vec![0; packed.len()];
        codec::compress::decompress(Algorithm::Gzip(6), &bytes, &mut back).unwrap();
        assert_eq!(NvList::decode(&back).unwrap(), list);
    }
}
