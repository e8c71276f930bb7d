//! Pure functions over blocks: checksums, compression, encryption, RAID-Z arithmetic.

pub mod checksum;
pub mod compress;
pub mod crypto;
pub mod raidz;
