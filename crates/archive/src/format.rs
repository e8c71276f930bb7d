//! Shared by all parts of the reader: the block size, numbers, and limits.

/// Bytes of a block of an archive.
pub(crate) const BLOCK: usize = 512;
/// Bytes of names and attributes that one member may have.
pub(crate) const HEADERS_MAX: u64 = 16 << 20;
/// Pieces of a sparse file, at most.
pub(crate) const PIECES_MAX: usize = 1 << 20;
/// Size of a sparse file, at most: 1 PiB. Only hostile archives claim more.
pub(crate) const SIZE_MAX: u64 = 1 << 50;

/// A number in decimal digits.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
