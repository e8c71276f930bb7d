//! gzip: a zlib stream (RFC 1950, window of 32 KiB), in spite of its name not a gzip file.
//!
//! The stream ends itself and has an Adler-32 of the data, which is verified here; what stands
//! behind it is padding.

use super::Fault;
use zlib_rs::{DeflateConfig, InflateConfig, ReturnCode};

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Fault> {
    let expected = dst.len();
    let (out, code) = zlib_rs::decompress_slice(dst, src, InflateConfig::default());
    match code {
        ReturnCode::Ok if out.len() == expected => Ok(()),
        ReturnCode::Ok => Err(Fault::WrongSize { expected, found: out.len() }),
        _ => Err(Fault::Malformed { at: out.len() }),
    }
}

pub(super) fn compress(src: &[u8], limit: usize, level: u8) -> Option<Vec<u8>> {
    let config = DeflateConfig::new(i32::from(level.clamp(1, 9)));
    let mut out = vec![0; limit];
    let (stream, code) = zlib_rs::compress_slice(&mut out, src, config);
    let length = stream.len();
    (code == ReturnCode::Ok).then(|| {
        out.truncate(length);
        out
    })
}
