//! A disk image in memory that keeps only what is not zero, and whose copies share their content.
//!
//! A corruption test needs hundreds of slightly different copies of the same image. Here a copy
//! costs a map of pointers, and a change costs the one chunk it touches.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Content is kept in chunks of this many bytes; a chunk that is missing is zeros.
const CHUNK: usize = 4096;
/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// Whether bytes are all zero, in the time of a comparison of memory also where nothing is
/// optimized.
pub fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(PIECE).all(|piece| *piece == ZEROS[..piece.len()])
}

/// A disk image in memory; cloning is cheap. Two are equal when they keep the
/// same: bytes that were overwritten with zeros are still kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparseImage {
    len: u64,
    chunks: BTreeMap<u64, Arc<[u8; CHUNK]>>,
}

impl SparseImage {
    /// An image of `len` zero bytes.
    pub fn new(len: u64) -> SparseImage {
        SparseImage { len, chunks: BTreeMap::new() }
    }

    /// The content of the file `path`; its holes are not read.
    pub fn load(path: &Path) -> io::Result<SparseImage> {
        let file = File::open(path)?;
        let mut image = SparseImage::new(file.metadata()?.len());
        let mut buffer = vec![0; PIECE];
        let mut end = 0;
        loop {
            let mut at = match seek(&file, SeekFrom::Data(end)) {
                // Chunks are whole: where others begin, a file system says itself.
                Ok(at) => at / CHUNK as u64 * CHUNK as u64,
                Err(Errno::NXIO) => return Ok(image),
                Err(e) => return Err(e.into()),
            };
            end = seek(&file, SeekFrom::Hole(end.max(at)))?.next_multiple_of(CHUNK as u64);
            end = end.min(image.len);
            while at < end {
                let count = PIECE.min(usize::try_from(end - at).unwrap_or(PIECE));
                file.read_exact_at(&mut buffer[..count], at)?;
                for (offset, block) in (at..).step_by(CHUNK).zip(buffer[..count].chunks(CHUNK)) {
                    if !is_zero(block) {
                        let mut chunk = [0; CHUNK];
                        chunk[..block.len()].copy_from_slice(block);
                        image.chunks.insert(offset / CHUNK as u64, Arc::new(chunk));
                    }
                }
                at += count as u64;
            }
            if end >= image.len {
                return Ok(image);
            }
        }
    }

    /// Writes the image to the new, sparse file `path`.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        for (at, bytes) in self.pieces() {
            file.write_all_at(bytes, at)?;
        }
        file.set_len(self.len)
    }

    /// Length in bytes, holes included.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the image has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `buffer` from `offset` on. An error past the end, as a short device gives.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.check(offset, buffer.len())?;
        self.each_chunk(offset, buffer.len(), |chunk, within, done, count| {
            match self.chunks.get(&chunk) {
                Some(bytes) => {
                    buffer[done..done + count].copy_from_slice(&bytes[within..within + count]);
                }
                None => buffer[done..done + count].fill(0),
            }
        });
        Ok(())
    }

    /// Replaces the bytes from `offset` on. An error past the end.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        let mut changes = Vec::new();
        self.each_chunk(offset, bytes.len(), |chunk, within, done, count| {
            changes.push((chunk, within, done, count));
        });
        for (chunk, within, done, count) in changes {
            // Zeros where nothing is are nothing, so that images of the same bytes are equal.
            if is_zero(&bytes[done..done + count]) && !self.chunks.contains_key(&chunk) {
                continue;
            }
            let content = self.chunks.entry(chunk).or_insert_with(|| Arc::new([0; CHUNK]));
            Arc::make_mut(content)[within..within + count]
                .copy_from_slice(&bytes[done..done + count]);
        }
        Ok(())
    }

    /// Cuts the image (or lengthens it with zeros) to `len` bytes.
    pub fn truncate(&mut self, len: u64) {
        let kept = len.div_ceil(CHUNK as u64);
        self.chunks.retain(|&index, _| index < kept);
        let within = (len % CHUNK as u64) as usize;
        if within > 0
            && let Some(last) = self.chunks.get_mut(&(len / CHUNK as u64))
        {
            Arc::make_mut(last)[within..].fill(0);
        }
        self.len = len;
    }

    /// Offsets of the 4 KiB chunks that hold something, in ascending order.
    pub fn populated(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.keys().map(|&index| index * CHUNK as u64)
    }

    /// The same chunks with their bytes, which are fewer where the image ends.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> + '_ {
        self.populated().zip(self.chunks.values()).map(|(at, chunk)| {
            let count = (self.len.saturating_sub(at)).min(CHUNK as u64) as usize;
            (at, &chunk[..count])
        })
    }

    fn check(&self, offset: u64, count: usize) -> io::Result<()> {
        match offset.checked_add(count as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "past the end of the image")),
        }
    }

    /// Calls `each(chunk, offset within it, bytes before, count)` for every chunk of a range.
    fn each_chunk(&self, offset: u64, len: usize, mut each: impl FnMut(u64, usize, usize, usize)) {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let within = (at % CHUNK as u64) as usize;
            let count = (CHUNK - within).min(len - done);
            each(at / CHUNK as u64, within, done, count);
            done += count;
        }
    }
}
