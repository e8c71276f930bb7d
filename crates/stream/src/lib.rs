//! Send streams as sequences of records: their checksums, their payloads, where they begin and end.
//!
//! # Theory
//!
//! A stream is one long sum. Each record carries the fletcher-4 of all bytes before its checksum,
//! records and payloads alike, and END carries that of all before END; then the sum restarts, for
//! what may follow:
//!
//! ```text
//! BEGIN  OBJECT bonus  FREE  WRITE data ...  END        one snapshot
//! BEGIN list  END  [ the stream of a snapshot ]...  END     several, and what is known of them
//! ```
//!
//! So what is cut off, changed or out of order is noticed at the next record, and nothing can be
//! left out of the middle. BEGIN has no checksum, and records that a user's program writes rather
//! than the kernel have zeros for it: those are not verified.
//!
//! [`Writer`] joins what is freed side by side into one record, as a receiver expects it: a FREE
//! waits for the next record. [`Reader`] takes any bytes. It holds one payload, and no more memory
//! than it has read bytes for.
//!
//! [`recompress`], [`decompress`] and [`redup`] make another stream of one, record by record.
#![forbid(unsafe_code)]

mod compression;
mod read;
mod redup;
mod rewrite;
mod write;

pub use compression::{Decompressed, decompress, recompress};
pub use read::{Error, ErrorKind, Reader, Result};
pub use redup::{Converted, redup};
pub use rewrite::{RewriteError, RewriteResult};
pub use write::Writer;

use codec::checksum::ByteOrder;
use ondisk::Endian;

fn byte_order(endian: Endian) -> ByteOrder {
    match endian {
        Endian::Little => ByteOrder::Little,
        Endian::Big => ByteOrder::Big,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ondisk::stream::{Begin, Body, Free, FreeObjects, MAGIC, Write};

    fn stream() -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let begin = Begin { magic: MAGIC, to_guid: 7, to_name: b"a@b".into(), ..Begin::default() };
        writer.begin(begin, &[]).unwrap();
        for (first, count) in [(1, 2), (3, 4), (9, 1)] {
            writer.free_objects(FreeObjects { first, count, to_guid: 7 }).unwrap();
        }
        for (object, offset, length) in [
            (1, 512, u64::MAX),
            (1, 0, 512),
            (1, 512, 512),
            (2, 1024, 512),
            (2, 1536, u64::MAX - 9),
        ] {
            writer.free(Free { object, offset, length, to_guid: 7 }).unwrap();
        }
        let write = Write { object: 2, logical_size: 16, to_guid: 7, ..Write::default() };
        writer.record(write, &[5; 16]).unwrap();
        writer.end(7).unwrap();
        assert_eq!(writer.length(), out.len() as u64);
        out
    }

    fn bodies(bytes: &[u8]) -> Result<Vec<Body>> {
        let mut reader = Reader::new(bytes);
        let mut out = Vec::new();
        while let Some(record) = reader.record()? {
            out.push(record.body);
        }
        Ok(out)
    }

    #[test]
    fn what_is_freed_side_by_side_is_one_record() {
        let free = |object, offset, length| Body::from(Free { object, offset, length, to_guid: 7 });
        let objects = |first, count| Body::from(FreeObjects { first, count, to_guid: 7 });
        let all = bodies(&stream()).unwrap();
        // A range that reaches to the end is not joined with those after it; those before are
        // joined.
        let freed = [
            objects(1, 6),
            objects(9, 1),
            free(1, 512, u64::MAX),
            free(1, 0, 1024),
            free(2, 1024, u64::MAX),
        ];
        assert_eq!(all[1..6], freed);
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn a_package_is_a_list_and_streams_and_an_end() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let begin = Begin { magic: MAGIC, to_name: b"a@b".into(), ..Begin::default() };
        writer.package(begin.clone(), b"list").unwrap();
        writer.begin(Begin { to_guid: 7, ..begin }, &[]).unwrap();
        writer.free_objects(FreeObjects { first: 1, count: 2, to_guid: 7 }).unwrap();
        writer.end(7).unwrap();
        writer.end_package().unwrap();
        assert_eq!(writer.length(), out.len() as u64);
        let kinds: Vec<u32> = bodies(&out).unwrap().iter().map(Body::number).collect();
        assert_eq!(kinds, [0, 5, 0, 2, 5, 5]);
        // The ends of the list and of all are the command's: they have no checksums of their own.
        let sums = |at: usize| out[at + 280..at + 312].iter().any(|byte| *byte != 0);
        assert!(!sums(312 + 4) && !sums(out.len() - 312) && sums(out.len() - 2 * 312));
        assert!(out[out.len() - 308..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let mut bytes = stream();
        bytes.extend(b"another's");
        let mut left = &bytes[..];
        let mut reader = Reader::new(&mut left);
        while !matches!(reader.record().unwrap().unwrap().body, Body::End(_)) {}
        drop(reader);
        assert_eq!(left, b"another's");
    }

    #[test]
    fn every_change_is_noticed() {
        let good = stream();
        for at in (0..good.len()).step_by(7) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(bodies(&bad).is_err(), "byte {at}");
        }
        for length in 1..good.len() {
            assert!(bodies(&good[..length]).is_err(), "{length} bytes");
        }
        assert!(bodies(&[]).unwrap().is_empty());
    }
}
