//! What was written is read again: from every vdev, by every algorithm, with as many devices
//! missing as may be.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

mod common;

use common::{Bench, PLACE, SHAPES, Shape, TXG, assert_whole, prose, random, read, spec, subsets};
use ondisk::{BlkPtr, Checksum, Compression, DmuType, Endian};
use std::sync::Arc;
use vdev::Scope;
use zio::{Block, CompressionAlgorithm as Algorithm, ErrorKind, WriteSpec};

#[test]
fn every_vdev_gives_back_what_was_written_whatever_is_missing() {
    for shape in SHAPES {
        for ashift in [9, 12] {
            let bench = Bench::new(&[shape], ashift);
            let (writer, books) = bench.writer(u64::MAX);
            let mut blocks: Vec<(BlkPtr, Arc<Block>)> = Vec::new();
            for (i, sectors) in [1, 2, 3, 5, 8, 9, 25, 64, 256, 257].into_iter().enumerate() {
                let data = random(i as u64, sectors * 512);
                let bp = writer.write(&data, &spec(), PLACE).unwrap();
                assert_eq!((bp.lsize(), bp.psize()), (data.len() as u64, data.len() as u64));
                assert_eq!((bp.logical_birth(), bp.fill(), bp.level()), (TXG, 1, 0));
                let asize = writer.reader().vdevs().psize_to_asize(0, bp.psize(), TXG);
                assert_eq!(Some(bp.asize()), asize);
                blocks.push((bp, data));
            }
            writer.wait().unwrap();
            writer.reader().vdevs().flush().unwrap();
            assert_eq!(books.live(), blocks.len());
            assert!(writer.reader().vdevs().missed().is_empty());
            for missing in subsets(shape.1, shape.spare()) {
                let reader = bench.reader(&missing);
                for (bp, data) in &blocks {
                    if missing.is_empty() {
                        assert_whole(&reader, bp, data);
                    }
                    let out = read(&reader, bp, Scope::Data);
                    let block = out.block.unwrap_or_else(|e| panic!("{shape:?} {missing:?}: {e}"));
                    assert!(block.bytes() == data.bytes(), "{shape:?} {missing:?} {bp:?}");
                }
            }
        }
    }
}

#[test]
fn every_compression_is_stored_as_it_is_read() {
    let algorithms = [
        Algorithm::Lzjb,
        Algorithm::Gzip(1),
        Algorithm::Gzip(6),
        Algorithm::Gzip(9),
        Algorithm::Zle,
        Algorithm::Lz4,
        Algorithm::Zstd(1),
        Algorithm::Zstd(3),
        Algorithm::Zstd(19),
        Algorithm::Zstd(-1),
        Algorithm::Zstd(-10),
    ];
    for ashift in [9, 12] {
        let bench = Bench::new(&[Shape("raidz", 4, 2)], ashift);
        let (writer, _) = bench.writer(u64::MAX);
        let mut blocks = Vec::new();
        for compression in algorithms {
            for (len, data) in [16 << 10, 128 << 10, 1 << 20].map(|n| (n, prose(3, n))) {
                let spec = WriteSpec { compression, ..spec() };
                let bp = writer.write(&data, &spec, PLACE).unwrap();
                assert_eq!(bp.compression().0, compression.number());
                assert!(bp.psize() <= (len - len / 8) as u64, "{compression:?} {bp:?}");
                assert_eq!(bp.psize() % (1 << ashift), 0);
                blocks.push((bp, data));
                // What does not become smaller is stored as it is.
                let data = random(5, len);
                let bp = writer.write(&data, &spec, PLACE).unwrap();
                assert_eq!((bp.compression(), bp.psize()), (Compression::OFF, len as u64));
                blocks.push((bp, data));
            }
        }
        // A saving that rounding eats up: 1 KiB to a sector or two.
        let spec = WriteSpec { compression: Algorithm::Lz4, ..spec() };
        let data = prose(4, 1024);
        let bp = writer.write(&data, &spec, PLACE).unwrap();
        assert_eq!(bp.compression() == Compression::OFF, ashift == 12);
        blocks.push((bp, data));
        writer.wait().unwrap();
        let reader = bench.reader(&[]);
        blocks.iter().for_each(|(bp, data)| assert_whole(&reader, bp, data));
    }
}

#[test]
fn every_checksum_verifies_in_both_byte_orders() {
    let bench = Bench::new(&[Shape("mirror", 2, 0)], 9);
    let (writer, _) = bench.writer(u64::MAX);
    let kinds = [
        (Checksum::ON, Checksum::FLETCHER_4),
        (Checksum::INHERIT, Checksum::FLETCHER_4),
        (Checksum::OFF, Checksum::OFF),
        (Checksum::NOPARITY, Checksum::NOPARITY),
        (Checksum::FLETCHER_2, Checksum::FLETCHER_2),
        (Checksum::FLETCHER_4, Checksum::FLETCHER_4),
        (Checksum::SHA256, Checksum::SHA256),
        (Checksum::SHA512, Checksum::SHA512),
        (Checksum::SKEIN, Checksum::SKEIN),
        (Checksum::EDONR, Checksum::EDONR),
        (Checksum::BLAKE3, Checksum::BLAKE3),
    ];
    for endian in [Endian::Little, Endian::Big] {
        for (wish, kind) in kinds {
            let data = Arc::new(Block::new(device::AlignedBuf::copy_of(&random(1, 8192)), endian));
            let spec = WriteSpec { checksum: wish, ..spec() };
            let bp = writer.write(&data, &spec, PLACE).unwrap();
            assert_eq!((bp.checksum_kind(), bp.byteorder()), (kind, endian));
            writer.wait().unwrap();
            assert_whole(writer.reader(), &bp, &data);
        }
    }
    for wish in [Checksum::LABEL, Checksum::GANG_HEADER, Checksum::ZILOG, Checksum(99)] {
        let spec = WriteSpec { checksum: wish, ..spec() };
        let e = writer.write(&random(1, 512), &spec, PLACE).unwrap_err();
        assert_eq!(e.kind, ErrorKind::UnknownAlgorithm { what: "checksum", number: wish.0 });
    }
    // Metadata are never without one.
    let indirect = WriteSpec { checksum: Checksum::OFF, level: 1, ..spec() };
    let dnodes = WriteSpec { checksum: Checksum::OFF, kind: DmuType::DNODE, ..spec() };
    for spec in [indirect, dnodes] {
        let bp = writer.write(&random(2, 4096), &spec, PLACE).unwrap();
        assert_eq!(bp.checksum_kind(), Checksum::FLETCHER_4);
    }
}

#[test]
fn zeros_become_holes_and_little_goes_into_the_pointer() {
    let bench = Bench::new(&[Shape("file", 1, 0)], 12);
    let (writer, books) = bench.writer(u64::MAX);
    let zeros = Arc::new(Block::new(device::AlignedBuf::zeroed(128 << 10), Endian::Little));
    let lz4 = WriteSpec { compression: Algorithm::Lz4, embed: true, ..spec() };
    let bp = writer.write(&zeros, &lz4, PLACE).unwrap();
    assert!(bp.is_hole() && bp.logical_birth() == TXG && bp.lsize() == 128 << 10);
    assert_eq!(bp.dmu_type(), DmuType(19));
    let (old, _) = bench.writer_with(u64::MAX, |s| s.hole_birth = false);
    assert_eq!(old.write(&zeros, &lz4, PLACE).unwrap(), BlkPtr::HOLE);
    assert!(!writer.write(&zeros, &spec(), PLACE).unwrap().is_hole());
    assert_eq!(books.live(), 1);

    let mut bytes = device::AlignedBuf::zeroed(16 << 10);
    bytes[5000..5004].copy_from_slice(b"zinc");
    let little = Arc::new(Block::new(bytes, Endian::Little));
    let algorithms =
        [Algorithm::Lz4, Algorithm::Zstd(3), Algorithm::Gzip(6), Algorithm::Zle, Algorithm::Lzjb];
    let mut embedded = 0;
    for compression in algorithms {
        let bp = writer.write(&little, &WriteSpec { compression, ..lz4 }, PLACE).unwrap();
        embedded += usize::from(bp.is_embedded());
        writer.wait().unwrap();
        assert_whole(writer.reader(), &bp, &little);
    }
    assert!(embedded >= 3, "{embedded}");
    let not = [
        WriteSpec { embed: false, ..lz4 },
        WriteSpec { level: 1, ..lz4 },
        WriteSpec { kind: DmuType::DNODE, ..lz4 },
        WriteSpec { kind: DmuType::OBJSET, ..lz4 },
    ];
    for spec in not {
        let bp = writer.write(&little, &spec, PLACE).unwrap();
        assert!(!bp.is_embedded() && bp.psize() == 4096);
    }
    let stats = writer.stats();
    assert_eq!((stats.holes, stats.embedded), (1, embedded as u64));
}

#[test]
fn copies_are_on_different_vdevs_and_each_is_whole() {
    let bench = Bench::new(&[Shape("file", 1, 0), Shape("mirror", 2, 0), Shape("raidz", 3, 1)], 9);
    let (writer, books) = bench.writer(u64::MAX);
    let data = random(1, 20 << 10);
    for copies in 1..=3 {
        let bp = writer.write(&data, &WriteSpec { copies, ..spec() }, PLACE).unwrap();
        assert_eq!(bp.dvas().count(), usize::from(copies));
        writer.wait().unwrap();
        assert_whole(writer.reader(), &bp, &data);
        writer.free(&bp, TXG);
        assert_eq!(books.live(), 0);
    }
}

#[test]
fn sizes_that_no_block_has_are_refused() {
    let bench = Bench::new(&[Shape("file", 1, 0)], 9);
    let (writer, books) = bench.writer(u64::MAX);
    for len in [0, 1, 511, 513, (16 << 20) + 512] {
        let e = writer.write(&random(1, len), &spec(), PLACE).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::BadBlock(_)), "{len}: {e}");
    }
    let bp = writer.write(&random(1, 16 << 20), &spec(), PLACE).unwrap();
    assert_eq!((bp.psize(), books.live()), (16 << 20, 1));
}

#[test]
fn many_threads_write_at_once_in_little_room() {
    let bench = Bench::new(&[Shape("mirror", 2, 0), Shape("raidz", 4, 1)], 12);
    let (writer, books) = bench.writer_with(64 << 10, |s| s.in_flight_max = 200 << 10);
    let blocks = std::sync::Mutex::new(Vec::new());
    rt::Rt::real()
        .for_each_parallel(4, 0..200u64, |i| {
            let compression = [Algorithm::Off, Algorithm::Lz4][i as usize % 2];
            let hold = i % 5 == 0;
            let spec = WriteSpec { compression, hold, copies: 1 + (i % 3) as u8, ..spec() };
            let data = if i % 3 == 0 { prose(i, 128 << 10) } else { random(i, 512 << (i % 9)) };
            let bp = writer.write(&data, &spec, PLACE)?;
            blocks.lock().unwrap().push((bp, data));
            Ok::<(), zio::Error>(())
        })
        .unwrap();
    writer.release();
    writer.wait().unwrap();
    assert_eq!(writer.stats().in_flight, 0);
    let blocks = blocks.into_inner().unwrap();
    assert!(blocks.iter().any(|(bp, _)| bp.is_gang()));
    for (bp, data) in &blocks {
        assert!(writer.read_pending(bp).is_none());
        assert_whole(writer.reader(), bp, data);
        writer.free(bp, TXG + 1);
    }
    assert_eq!(books.live(), 0);
}
