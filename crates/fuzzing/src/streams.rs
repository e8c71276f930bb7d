//! The targets for send streams and for the tokens with which they are resumed.

use crate::Target;
use codec::compress::Algorithm;
use dsl::ResumeToken;
use ondisk::Endian;
use ondisk::stream::{Body, RECORD_SIZE, Record};
use std::io::Cursor;
use stream::Reader;

pub(crate) const TARGETS: &[(&str, Target)] =
    &[("stream", stream), ("rewrite", rewritten), ("token", token)];

/// A stream in other forms: what comes out is a stream that needs no checksum to be believed, and
/// the same again.
fn rewritten(data: &[u8]) {
    let reader = || Reader::new(data).trusting();
    for to in [Algorithm::Off, Algorithm::Lz4] {
        let mut out = Vec::new();
        if stream::recompress(&mut reader(), &mut out, to).is_ok() {
            let mut again = Vec::new();
            let mut reader = Reader::new(&out[..]).trusting();
            let done = stream::recompress(&mut reader, &mut again, to);
            assert!(done.is_ok() && again == out, "{to:?}: it is not the same again");
        }
    }
    let blocks = (0..64).map(|n| ((n, 0), Algorithm::Lz4)).collect();
    let _ = stream::decompress(&mut reader(), &mut Vec::new(), &blocks, |_, _| {});
    let mut out = Vec::new();
    if stream::redup(Cursor::new(data), &mut Cursor::new(data), &mut out).is_ok() {
        let mut reader = Reader::new(&out[..]);
        while let Ok(Some(record)) = reader.record() {
            assert!(!matches!(record.body, Body::WriteByRef(_)), "a reference is left");
        }
    }
}

/// What a user gives to `zfs send -t`; and the list in it, with a checksum that is right.
fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(token) = ResumeToken::decode(&text) else { return };
    let again = token.encode().map(|text| ResumeToken::decode(&text));
    // Another encoding of a list can be too long.
    let other = again.and_then(Result::ok).filter(|again| *again != token);
    assert_eq!(other, None, "encoding changes the value");
}

/// A stream as it is, and with every checksum believed, which comes further in damaged copies; its
/// records one by one.
fn stream(data: &[u8]) {
    for trusting in [false, true] {
        let mut input = Reader::new(data);
        if trusting {
            input = input.trusting();
        }
        let mut records = 0u64;
        while let Ok(Some(record)) = input.record() {
            records += 1;
            let size = record.payload_size();
            match input.payload() {
                Ok(payload) => assert_eq!(payload.len() as u64, size),
                Err(_) => break,
            }
        }
        let length = input.length();
        assert!(length <= data.len() as u64 && records <= data.len() as u64);
    }
    for bytes in data.chunks_exact(RECORD_SIZE) {
        let Ok(bytes) = <&[u8; RECORD_SIZE]>::try_from(bytes) else { continue };
        for endian in [Endian::Little, Endian::Big] {
            let Ok(record) = Record::decode(bytes, endian) else { continue };
            let again = Record::decode(&record.encode(endian), endian);
            assert_eq!(again.as_ref(), Ok(&record), "{endian:?}: encoding changes the value");
        }
    }
}
