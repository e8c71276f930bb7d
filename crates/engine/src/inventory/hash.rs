//! SHA-256 of files and volumes, read in large batches.
//!
//! Blocks go from the cache to the hash without a copy. When there are many batches, a second
//! thread reads ahead by one, so that hashing and reading overlap. Holes are hashed as zeros
//! without being looked up block by block.

use dmu::{Block, Object};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::sync::mpsc;

/// Bytes read in one batch, at most (but always one block).
const BATCH_BYTES: u64 = 8 << 20;
/// Blocks read in one batch, at most.
const BATCH_BLOCKS: u64 = 1024;
/// Zeros hashed at a time.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

/// Part of an object's bytes.
enum Piece {
    /// Blocks in order; `None` is a hole.
    Blocks(Vec<Option<Arc<Block>>>),
    /// So many blocks that are all holes.
    Holes(u64),
}

/// Hashes the first `size` bytes of an object; `seen` is told how many bytes were read.
///
/// # Errors
/// The first block that cannot be read.
pub fn sha256(
    object: &Object,
    size: u64,
    seen: &(dyn Fn(u64) + Sync),
) -> Result<[u8; 32], dmu::Error> {
    let mut sink = Sink { hash: Sha256::new(), left: size, block: object.dnode().block_size() };
    if size == 0 {
        return Ok(sink.hash.finalize().into());
    }
    if sink.block == 0 {
        return Err(object.error(dmu::ErrorKind::Tree("block size 0")));
    }
    let blocks = size.div_ceil(sink.block);
    let batch = (BATCH_BYTES / sink.block).clamp(1, BATCH_BLOCKS);
    let mut reader = Batches { object, next: 0, blocks, batch };
    if blocks <= 2 * batch {
        for piece in reader.by_ref() {
            sink.add(&piece?, seen);
        }
        return Ok(sink.hash.finalize().into());
    }
    std::thread::scope(|scope| {
        // One batch is being hashed, one waits here, one is being read.
        let (send, receive) = mpsc::sync_channel(1);
        scope.spawn(move || {
            for piece in reader {
                let failed = piece.is_err();
                if send.send(piece).is_err() || failed {
                    break;
                }
            }
        });
        for piece in receive {
            sink.add(&piece?, seen);
        }
        Ok(sink.hash.finalize().into())
    })
}

struct Sink {
    hash: Sha256,
    left: u64,
    block: u64,
}

impl Sink {
    fn add(&mut self, piece: &Piece, seen: &(dyn Fn(u64) + Sync)) {
        let before = self.left;
        match piece {
            Piece::Holes(n) => self.zeros(n.saturating_mul(self.block)),
            Piece::Blocks(blocks) => {
                for b in blocks {
                    let content = b.as_ref().map_or(&[][..], |b| b.bytes());
                    let want = self.block.min(self.left) as usize;
                    let content = content.get(..want).unwrap_or(content);
                    self.hash.update(content);
                    self.left -= content.len() as u64;
                    // A block shorter than the object's (the only one of a small file, kept at
                    // its first size) is followed by zeros, as is a hole.
                    self.zeros((want - content.len()) as u64);
                }
            }
        }
        seen(before - self.left);
    }

    fn zeros(&mut self, n: u64) {
        let mut n = n.min(self.left);
        self.left -= n;
        while n > 0 {
            let step = n.min(ZEROS.len() as u64) as usize;
            self.hash.update(&ZEROS[..step]);
            n -= step as u64;
        }
    }
}

/// The blocks of an object, batch by batch.
struct Batches<'a> {
    object: &'a Object,
    next: u64,
    blocks: u64,
    batch: u64,
}

impl Batches<'_> {
    fn read(&mut self) -> Result<Piece, dmu::Error> {
        let stored = match self.object.next_block(self.next) {
            Ok(Some(b)) => b.min(self.blocks),
            Ok(None) => self.blocks,
            Err((e, _)) => return Err(e),
        };
        if stored > self.next {
            let holes = stored - self.next;
            self.next = stored;
            return Ok(Piece::Holes(holes));
        }
        let n = self.batch.min(self.blocks - self.next);
        let got = self.object.read_blocks(self.next, n);
        self.next += n;
        let blocks = got.into_iter().map(|(_, b)| b).collect::<Result<_, _>>()?;
        Ok(Piece::Blocks(blocks))
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Piece, dmu::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.next < self.blocks).then(|| self.read())
    }
}
