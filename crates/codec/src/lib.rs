//! Pure functions over blocks: checksums, compression, encryption, RAID-Z arithmetic.
//!
//! Nothing here does I/O, keeps state between calls or knows a structure on disk beyond the
//! trailers and headers of its own algorithms. Bytes of any content and length are accepted by
//! every function: the answer is a value or an error, never a panic.
//!
//! Invariant: no unsafe code outside the SIMD kernels, each of which has a plain twin and a test
//! that they agree.

#![deny(unsafe_code)]

pub mod checksum;
pub mod compress;
pub mod crypto;
pub mod raidz;
