//! The operating system's randomness.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::sync::OnceLock;

/// Fills a buffer with random bytes that are fit for keys.
pub(crate) fn fill(buf: &mut [u8]) {
    static SOURCE: OnceLock<Option<File>> = OnceLock::new();
    let source = SOURCE.get_or_init(|| File::open("/dev/urandom").ok());
    if source.as_ref().is_some_and(|mut file| file.read_exact(buf).is_ok()) {
        return;
    }
    // A root without /dev. The standard library seeds its hashers from the same source, by a system
    // call: 128 bits of key, and a keyed function whose outputs do not reveal it.
    let key = RandomState::new();
    for (index, part) in buf.chunks_mut(8).enumerate() {
        part.copy_from_slice(&key.hash_one(index).to_le_bytes()[..part.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled() {
        let mut ored = [0u8; 37];
        for _ in 0..64 {
            let mut buf = [0; 37];
            fill(&mut buf);
            ored.iter_mut().zip(buf).for_each(|(all, byte)| *all |= byte);
        }
        assert_eq!(ored, [0xff; 37]);
    }
}
