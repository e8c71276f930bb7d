//! The pool checkpoint: an old uberblock, kept in the MOS.
//!
//! Specified in `docs/format/checkpoint.md`. While a pool has a checkpoint, the object directory
//! has the uberblock of that moment under [`crate::mos::ZPOOL_CHECKPOINT`], as an array of words.
//! Nothing that uberblock reaches is freed: frees go to the vdev's checkpoint space map
//! ([`crate::mos::vdev_zap::CHECKPOINT_SPACE_MAP`]) instead. `zpool import --rewind-to-checkpoint`
//! opens the pool with it.

use crate::cursor::{Endian, Reader, Writer};
use crate::error::{ErrorKind, Result};
use crate::uberblock::{UBERBLOCK_MAGIC, UBERBLOCK_SIZE};

/// The feature that is active as long as something is kept.
pub const FEATURE: &str = "com.delphix:zpool_checkpoint";
/// Words of the uberblocks kept so far: 27 since OpenZFS 2.2, fewer before.
pub const WORDS: usize = UBERBLOCK_SIZE / 8;
/// Fewest words of an uberblock: magic, version, txg, GUID sum, time, root block pointer.
pub const MIN_WORDS: usize = 21;

/// The uberblock's bytes, as [`crate::uberblock`] decodes them, from the words of the ZAP value.
/// Words an old pool does not have are zero.
pub fn uberblock_bytes(words: &[u64], endian: Endian) -> Result<Vec<u8>> {
    let r = Reader::new("checkpoint", &[], endian);
    if words.len() < MIN_WORDS {
        let (needed, available) = (MIN_WORDS as u64 * 8, words.len() as u64 * 8);
        return Err(r.error("uberblock", ErrorKind::Truncated { needed, available }));
    }
    match words.first() {
        Some(&UBERBLOCK_MAGIC) => {}
        found => {
            let found = found.copied().unwrap_or(0);
            return Err(r.error("magic", ErrorKind::BadMagic { found }));
        }
    }
    let mut w = Writer::new(endian);
    w.words(words).pad_to(UBERBLOCK_SIZE);
    Ok(w.into_bytes())
}

/// The words of the ZAP value from the bytes of an uberblock.
pub fn uberblock_words(bytes: &[u8], endian: Endian) -> Result<Vec<u64>> {
    let mut r = Reader::new("checkpoint", bytes, endian);
    let mut words = Vec::with_capacity(WORDS);
    for _ in 0..(bytes.len() / 8).min(WORDS) {
        words.push(r.u64("uberblock")?);
    }
    Ok(words)
}
