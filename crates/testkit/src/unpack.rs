//! Zstandard files to plain ones, streaming, with holes where the content is zero.
//!
//! Disk images of test pools are mostly zeros: a pool of 256 MiB holds a few. Written sparse, all
//! of them together fit where two would fit otherwise, and reading a hole costs no I/O.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Zeros are left out in units of this many bytes, the block of common file systems.
const HOLE: usize = 4096;

/// Decompresses the file `source` and hands the content on, piece by piece, with its offset.
fn stream(source: &Path, mut sink: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<u64> {
    let mut file = File::open(source)?;
    let mut context = DCtx::create();
    let mut input = vec![0; 1 << 17];
    let mut output = vec![0; 1 << 20];
    let mut filled = 0;
    let mut offset = 0u64;
    loop {
        let count = file.read(&mut input)?;
        if count == 0 {
            break;
        }
        let mut from = InBuffer::around(&input[..count]);
        // Zstandard may hold content back when the output is full, so a full one asks again.
        loop {
            let mut to = OutBuffer::around_pos(output.as_mut_slice(), filled);
            context
                .decompress_stream(&mut to, &mut from)
                .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
            filled = to.pos();
            if filled == output.len() {
                sink(offset, &output)?;
                offset += filled as u64;
                filled = 0;
            } else if from.pos == count {
                break;
            }
        }
    }
    sink(offset, &output[..filled])?;
    Ok(offset + filled as u64)
}

/// Decompresses the Zstandard file `source` into the new, sparse file `target`.
pub fn unpack_zst(source: &Path, target: &Path) -> io::Result<()> {
    let file = File::create(target)?;
    let len = stream(source, |offset, piece| {
        let mut at = offset;
        for block in piece.chunks(HOLE) {
            if block.iter().any(|&byte| byte != 0) {
                file.write_all_at(block, at)?;
            }
            at += block.len() as u64;
        }
        Ok(())
    })?;
    file.set_len(len)
}

/// The whole content of the Zstandard file `source`; for send streams and other small things.
pub fn read_zst(source: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    stream(source, |_, piece| {
        content.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(content)
}
