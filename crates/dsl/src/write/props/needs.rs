//! Features that values of properties need.

use super::PropertyChange;
use crate::write::features::FILESYSTEM_LIMITS;
use ondisk::props::{compression_parts, dedup_parts};
use ondisk::{Checksum, Compression};

const LARGE_BLOCKS: &str = "org.open-zfs:large_blocks";
const LARGE_DNODE: &str = "org.zfsonlinux:large_dnode";
const LONG_NAMES: &str = "org.zfsonlinux:longname";
const LZ4: &str = "org.illumos:lz4_compress";
/// Named by every dataset with that property, before the first block.
pub(super) const ZSTD: &str = "org.freebsd:zstd_compress";

/// Largest block without the feature for larger ones.
const OLD_BLOCK_MAX: u64 = 128 << 10;

/// The feature without which a property cannot have the value.
pub(super) fn feature(change: &PropertyChange) -> Option<&'static str> {
    let n = change.number()?;
    match change.name.as_str() {
        "recordsize" if n > OLD_BLOCK_MAX => Some(LARGE_BLOCKS),
        "dnodesize" if n != 0 => Some(LARGE_DNODE),
        "filesystem_limit" | "snapshot_limit" => Some(FILESYSTEM_LIMITS),
        "longname" if n != 0 => Some(LONG_NAMES),
        "compression" => match compression_parts(n).0 {
            Compression::LZ4 => Some(LZ4),
            Compression::ZSTD => Some(ZSTD),
            _ => None,
        },
        "checksum" => of_checksum(Checksum(u8::try_from(n).ok()?)),
        "dedup" => of_checksum(dedup_parts(n).0),
        _ => None,
    }
}

fn of_checksum(checksum: Checksum) -> Option<&'static str> {
    match checksum {
        Checksum::SHA512 => Some("org.illumos:sha512"),
        Checksum::SKEIN => Some("org.illumos:skein"),
        Checksum::EDONR => Some("org.illumos:edonr"),
        Checksum::BLAKE3 => Some("org.openzfs:blake3"),
        _ => None,
    }
}
