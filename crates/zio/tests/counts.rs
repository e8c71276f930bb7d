//! What reaches the devices is counted by type and level; what does not, is not.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

mod common;

use common::{Bench, PLACE, Shape, prose, random, read, spec};
use device::AlignedBuf;
use ondisk::{DmuType, Endian};
use std::sync::Arc;
use vdev::Scope;
use zio::stats::Count;
use zio::{Block, CompressionAlgorithm as Algorithm, WriteSpec};

#[test]
fn a_block_counts_once_for_each_copy_with_the_bytes_it_is_stored_in() {
    let bench = Bench::new(&[Shape("file", 1, 0), Shape("mirror", 2, 0)], 9);
    let (writer, _) = bench.writer(u64::MAX);
    let reader = writer.reader();
    let (kind, level) = (DmuType::PLAIN_FILE_CONTENTS, 1);
    let lz4 = WriteSpec { compression: Algorithm::Lz4, kind, level, copies: 2, ..spec() };
    let bp = writer.write(&prose(1, 128 << 10), &lz4, PLACE).unwrap();
    writer.wait().unwrap();
    let ios = |ios| Count { ios, bytes: ios * bp.psize() };
    let after_write = reader.stats().snapshot();
    let row = after_write.find(kind, level);
    assert_eq!((row.written, row.read), (ios(2), ios(0)));
    assert!(bp.psize() < 128 << 10);
    read(reader, &bp, Scope::Data).block.unwrap();
    read(reader, &bp, Scope::All).block.unwrap();
    let since = reader.stats().snapshot().since(&after_write);
    assert_eq!(since.rows().len(), 1);
    assert_eq!(since.find(kind, level).read, ios(3), "one copy, then all");
}

#[test]
fn holes_and_embedded_blocks_do_not_count_and_gangs_count_as_what_was_split() {
    let bench = Bench::new(&[Shape("file", 1, 0)], 9);
    let (writer, _) = bench.writer(4096);
    let reader = writer.reader();
    let kind = DmuType::ZVOL;
    let lz4 = WriteSpec { compression: Algorithm::Lz4, kind, embed: true, ..spec() };
    let zeros = Arc::new(Block::new(AlignedBuf::zeroed(8192), Endian::Little));
    let mut few = AlignedBuf::zeroed(8192);
    few[..4].copy_from_slice(b"zinc");
    let few = Arc::new(Block::new(few, Endian::Little));
    for block in [zeros, few] {
        let bp = writer.write(&block, &lz4, PLACE).unwrap();
        read(reader, &bp, Scope::Data).block.unwrap();
    }
    assert_eq!(reader.stats().snapshot().rows(), []);
    let bp = writer.write(&random(1, 8192), &WriteSpec { kind, ..spec() }, PLACE).unwrap();
    assert!(bp.is_gang());
    writer.wait().unwrap();
    read(reader, &bp, Scope::Data).block.unwrap();
    let all = reader.stats().snapshot();
    assert_eq!(all.rows().len(), 1);
    let row = all.find(kind, 0);
    // Three parts and a header, which is written twice.
    assert_eq!(row.read, Count { ios: 4, bytes: 8192 + 512 });
    assert_eq!(row.written, Count { ios: 5, bytes: 8192 + 1024 });
}
