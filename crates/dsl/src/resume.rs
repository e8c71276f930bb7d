//! The token with which an interrupted receive is resumed (`receive_resume_token`).
//!
//! Where the receive stopped is in the dataset's later fields. The token carries them to the
//! sender: a list in native encoding, compressed with gzip level 6, in hexadecimal, after version,
//! first word of the Fletcher-4 checksum of the compressed bytes, and size of the list.
//!
//! ```text
//! 1-<checksum>-<size>-<bytes>
//! ```
//!
//! A token comes from a user, who may have copied half of it, and contains its own size: the list
//! is never larger than [`LIST_MAX`].

use crate::error::Result;
use codec::checksum::{ByteOrder, Fletcher4};
use codec::compress::Algorithm;
use dmu::Zap;
use ondisk::Endian;
use ondisk::dsl::dataset_field as field;
use ondisk::hex;
use ondisk::nvlist::{Encoding, NvList, NvValue, Packing};

/// Version of the token.
const VERSION: &str = "1";
/// Largest list of a token, in bytes: a name, and the GUIDs of some snapshots.
const LIST_MAX: usize = 64 << 10;

/// Marks: there or not.
const MARKS: [(&str, &str); 4] = [
    (field::RESUME_LARGEBLOCK, "largeblockok"),
    (field::RESUME_EMBEDOK, "embedok"),
    (field::RESUME_COMPRESSOK, "compressok"),
    (field::RESUME_RAWOK, "rawok"),
];

/// A receive that did not come to its end: of which stream, and how far it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeToken {
    /// GUID of the snapshot that the stream is an increment of; 0: of none.
    pub from_guid: u64,
    /// The object with which the rest begins.
    pub object: u64,
    /// The offset in that object.
    pub offset: u64,
    /// Bytes of the stream that were received.
    pub bytes: u64,
    /// GUID of the snapshot.
    pub to_guid: u64,
    /// Full name of the snapshot where it was sent.
    pub to_name: Vec<u8>,
    /// The stream has blocks of more than 128 KiB, embedded blocks, blocks as they are compressed
    /// on disk, blocks as they are encrypted on disk.
    pub forms: [bool; 4],
    /// GUIDs of the snapshots that it was redacted by.
    pub redaction: Option<Vec<u64>>,
}

/// Why a text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It has not the form of one.
    Form,
    /// It is of another version.
    Version,
    /// Its bytes are not hexadecimal.
    Hexadecimal,
    /// Its checksum is not that of its bytes.
    Checksum,
    /// Its bytes cannot be decompressed.
    Compression,
    /// Its list cannot be read, or lacks what every one has.
    List,
}

impl ResumeToken {
    /// The token of the fields of a dataset; `None` if no receive into it was interrupted.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn of_fields(fields: &Zap) -> Result<Option<Self>> {
        let Some(to_guid) = fields.get_u64(field::RESUME_TOGUID)? else { return Ok(None) };
        let number = |key| Ok::<_, crate::Error>(fields.get_u64(key)?.unwrap_or(0));
        let name = fields.get(field::RESUME_TONAME.as_bytes())?;
        let redaction = fields.get(field::RESUME_REDACT_BOOKMARK_SNAPS.as_bytes())?;
        let mut forms = [false; 4];
        for (has, (key, _)) in forms.iter_mut().zip(MARKS) {
            *has = fields.get(key.as_bytes())?.is_some();
        }
        Ok(Some(Self {
            from_guid: number(field::RESUME_FROMGUID)?,
            object: number(field::RESUME_OBJECT)?,
            offset: number(field::RESUME_OFFSET)?,
            bytes: number(field::RESUME_BYTES)?,
            to_guid,
            to_name: name.and_then(|e| Some(e.value_text()?.to_vec())).unwrap_or_default(),
            forms,
            redaction: redaction.map(|e| e.ints().collect()),
        }))
    }

    /// The fields of the token that are numbers; the name's is separate.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let from = (self.from_guid != 0).then_some((field::RESUME_FROMGUID, self.from_guid));
        let numbers = [
            (field::RESUME_TOGUID, self.to_guid),
            (field::RESUME_OBJECT, self.object),
            (field::RESUME_OFFSET, self.offset),
            (field::RESUME_BYTES, self.bytes),
        ];
        let marks = MARKS.into_iter().zip(self.forms).filter(|(_, has)| *has);
        from.into_iter().chain(numbers).chain(marks.map(|((key, _), _)| (key, 1)))
    }

    /// All fields that a token can come from.
    pub(crate) fn field_names() -> impl Iterator<Item = &'static str> {
        let others = [
            field::RESUME_TOGUID,
            field::RESUME_FROMGUID,
            field::RESUME_OBJECT,
            field::RESUME_OFFSET,
            field::RESUME_BYTES,
            field::RESUME_TONAME,
            field::RESUME_REDACT_BOOKMARK_SNAPS,
        ];
        others.into_iter().chain(MARKS.map(|(key, _)| key))
    }

    /// The list in it.
    #[must_use]
    pub fn list(&self) -> NvList {
        let mut list = NvList::new();
        if self.from_guid != 0 {
            list.set("fromguid", NvValue::U64(self.from_guid));
        }
        let numbers = [
            ("object", self.object),
            ("offset", self.offset),
            ("bytes", self.bytes),
            ("toguid", self.to_guid),
        ];
        for (name, n) in numbers {
            list.set(name, NvValue::U64(n));
        }
        list.set("toname", NvValue::String(self.to_name.clone()));
        for ((_, name), has) in MARKS.into_iter().zip(self.forms) {
            if has {
                list.set(name, NvValue::Boolean);
            }
        }
        if let Some(snapshots) = &self.redaction {
            list.set("book_redact_snaps", NvValue::U64Array(snapshots.clone()));
        }
        list
    }

    /// As users give it to `zfs send -t`; `None` when the name cannot be in a list.
    #[must_use]
    pub fn encode(&self) -> Option<String> {
        let packing = Packing { encoding: Encoding::Native, endian: Endian::Little };
        let packed = self.list().encode(packing).ok()?;
        let compressed = codec::compress::compress(Algorithm::Gzip(6), &packed);
        let bytes = compressed.as_deref().unwrap_or(&packed);
        let (sum, digits) = (checksum(bytes), hex::encode(bytes));
        Some(format!("{VERSION}-{sum:x}-{:x}-{digits}", packed.len()))
    }

    /// Decodes a token that a user gave.
    ///
    /// # Errors
    /// Why it is not a token.
    pub fn decode(text: &str) -> std::result::Result<Self, TokenFault> {
        let parts: Vec<&str> = text.trim().splitn(4, '-').collect();
        let [version, sum, size, bytes] = parts[..] else { return Err(TokenFault::Form) };
        if version != VERSION {
            let is_number = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
            return Err(if is_number { TokenFault::Version } else { TokenFault::Form });
        }
        let sum = u64::from_str_radix(sum, 16).map_err(|_| TokenFault::Form)?;
        let size = usize::from_str_radix(size, 16).map_err(|_| TokenFault::Form)?;
        if size > LIST_MAX || bytes.len() > 4 * LIST_MAX {
            return Err(TokenFault::Form);
        }
        let bytes = hex::decode(bytes).ok_or(TokenFault::Hexadecimal)?;
        if checksum(&bytes) != sum {
            return Err(TokenFault::Checksum);
        }
        let mut packed = vec![0; size];
        codec::compress::decompress(Algorithm::Gzip(6), &bytes, &mut packed)
            .map_err(|_| TokenFault::Compression)?;
        let list = NvList::decode(&packed).map_err(|_| TokenFault::List)?;
        Self::of_list(&list).ok_or(TokenFault::List)
    }

    fn of_list(list: &NvList) -> Option<Self> {
        let number = |name| list.u64(name).ok();
        Some(Self {
            from_guid: number("fromguid").unwrap_or(0),
            object: number("object")?,
            offset: number("offset")?,
            bytes: number("bytes")?,
            to_guid: number("toguid")?,
            to_name: list.string("toname").ok()?.to_vec(),
            forms: MARKS.map(|(_, name)| list.get(name).is_some()),
            redaction: list.u64s("book_redact_snaps").ok().map(<[u64]>::to_vec),
        })
    }
}

/// The checksum leaves out a word at the end that is not whole.
fn checksum(bytes: &[u8]) -> u64 {
    let words = bytes.get(..bytes.len() / 4 * 4).unwrap_or_default();
    let mut sum = Fletcher4::new();
    sum.update(ByteOrder::Little, words);
    sum.digest().0[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token of OpenZFS 2.3.2.
    const THEIRS: &str = "1-e90125f3a-f8-789c636064000310a500c4ec50360710e72765a526973030e8409460c\
                          aa7a515a79630c001489e0d493ea9b224b51848bfd063c6aabf243fbd34338581c15586d\
                          7a934f6628206923c27583e2f31379581a138bfb42839553f25b124d1a1d804620e2f03c\
                          2dd398945e9a94939f9c9d9f9d9307bb891e493f3730b8a528b8b21b2100000bb2a1ff9";

    #[test]
    fn a_token_is_that_of_openzfs() {
        let token = ResumeToken::decode(THEIRS).unwrap();
        let expected = ResumeToken {
            object: 0x2c,
            bytes: 0x32ee8,
            to_guid: 0x60d1_5d75_420d_1c45,
            to_name: b"source/data@s4".to_vec(),
            forms: [true, false, true, false],
            ..ResumeToken::default()
        };
        assert_eq!(token, expected);
        // Compressors differ; what they compress does not.
        let ours = token.encode().unwrap();
        let size = |text: &str| text.split('-').nth(2).unwrap().to_owned();
        assert_eq!(size(&ours), size(THEIRS));
        assert_eq!(ResumeToken::decode(&ours), Ok(expected));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let fault = |text: &str| ResumeToken::decode(text).unwrap_err();
        for text in ["", "1", "1-2-3", "x-1-1-00", "1-zz-1-00", "1-0-ffffffffff-00", "1-0--00"] {
            assert_eq!(fault(text), TokenFault::Form, "{text}");
        }
        assert_eq!(fault("2-0-1-00"), TokenFault::Version);
        assert_eq!(fault("1-0-1-0"), TokenFault::Hexadecimal);
        assert_eq!(fault("1-0-1-\u{e9}"), TokenFault::Hexadecimal);
        assert_eq!(fault("1-0-8-78"), TokenFault::Compression);
        assert_eq!(fault(&THEIRS[..THEIRS.len() - 24]), TokenFault::Checksum);
        for at in 30..THEIRS.len() {
            let mut bytes = THEIRS.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            // The last bytes that are not a whole word have no checksum.
            let read = ResumeToken::decode(std::str::from_utf8(&bytes).unwrap());
            assert!(read.is_err() || at > THEIRS.len() - 8, "digit {at}");
        }
    }
}
