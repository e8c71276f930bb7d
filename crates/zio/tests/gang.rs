//! Blocks for which there is no space in one piece.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop where it likes")]

mod common;

use common::{Bench, PLACE, Shape, TXG, assert_whole, prose, random, read, spec, subsets};
use ondisk::{BlkPtr, Checksum, Compression, DmuType};
use vdev::Scope;
use zio::{CompressionAlgorithm as Algorithm, ErrorKind, WriteSpec};

/// Header, parts and parts of parts, with the pointer itself.
fn all_of(writer: &zio::Writer, bp: &BlkPtr) -> Vec<BlkPtr> {
    let mut all = writer.reader().gang_members(bp, PLACE);
    all.push(*bp);
    all
}

#[test]
fn gangs_of_every_depth_are_read_and_freed() {
    let shapes =
        [Shape("file", 1, 0), Shape("mirror", 2, 0), Shape("raidz", 4, 1), Shape("raidz", 5, 2)];
    for shape in shapes {
        for (ashift, segment) in [(9, 512), (9, 8192), (12, 4096), (12, 16384)] {
            let bench = Bench::new(&[shape], ashift);
            let (writer, books) = bench.writer(segment);
            for (seed, len) in [(1, 9 << 9), (2, 32 << 10), (3, 60 << 10)] {
                for (copies, checksum) in [(1, Checksum::FLETCHER_4), (2, Checksum::BLAKE3)] {
                    let data = random(seed, len);
                    let spec = WriteSpec { copies, checksum, ..spec() };
                    let bp = writer.write(&data, &spec, PLACE).unwrap();
                    writer.wait().unwrap();
                    if len as u64 <= segment {
                        assert!(!bp.is_gang());
                        writer.free(&bp, TXG);
                        continue;
                    }
                    assert!(bp.is_gang() && bp.psize() == len as u64);
                    // Two headers at least; each copy's address counts its parts.
                    assert_eq!(bp.dvas().count(), 2);
                    assert!(bp.dva(0).asize() > bp.psize());
                    assert_eq!(bp.dva(1).asize() == bp.dva(0).asize(), copies == 2);
                    let members = all_of(&writer, &bp);
                    let dvas: usize = members.iter().map(|m| m.dvas().count()).sum();
                    assert_eq!(dvas, books.live());
                    for m in members.iter().filter(|m| **m != bp) {
                        assert!(m.is_gang() || m.psize() <= segment);
                        assert_eq!((m.dmu_type(), m.level()), (DmuType(0), 0));
                        assert_eq!((m.compression(), m.lsize()), (Compression::OFF, m.psize()));
                        assert_eq!((m.checksum_kind(), m.logical_birth()), (checksum, TXG));
                    }
                    assert_whole(writer.reader(), &bp, &data);
                    for missing in subsets(shape.1, shape.spare()) {
                        let out = read(&bench.reader(&missing), &bp, Scope::Data);
                        assert!(out.block.unwrap().bytes() == data.bytes());
                    }
                    writer.free(&bp, TXG + (seed & 1));
                    assert_eq!(books.live(), 0);
                }
            }
        }
    }
}

#[test]
fn a_lost_header_is_read_from_its_second_copy() {
    let bench = Bench::new(&[Shape("file", 1, 0), Shape("file", 1, 0)], 9);
    let (writer, _) = bench.writer(4096);
    let data = prose(1, 64 << 10);
    let spec = WriteSpec { compression: Algorithm::Lz4, ..spec() };
    let bp = writer.write(&data, &spec, PLACE).unwrap();
    assert!(bp.is_gang() && bp.compression() == Compression::LZ4);
    writer.wait().unwrap();
    let first = bp.dva(0);
    let device = &bench.devices[&u64::from(first.vdev() + 1)];
    device.write((4 << 20) + first.offset(), &[0xff; 512]).unwrap();
    let out = read(writer.reader(), &bp, Scope::Data);
    assert!(out.block.unwrap().bytes() == data.bytes());
    assert_eq!(out.faults.len(), 2, "the device, and the block there");
}

#[test]
fn without_space_nothing_is_taken() {
    let bench = Bench::new(&[Shape("raidz", 3, 1)], 9);
    let mut last = 0;
    // Space runs out after every number of segments: in headers, parts, parts of parts.
    for segments in 0..2000 {
        let (writer, books) = bench.writer(2048);
        books.limit(segments);
        match writer.write(&random(1, 64 << 10), &spec(), PLACE) {
            Ok(bp) => {
                assert!(bp.is_gang());
                last = segments;
                break;
            }
            Err(e) => {
                assert_eq!((&e.kind, e.place), (&ErrorKind::NoSpace, PLACE));
                assert_eq!((books.live(), writer.stats().in_flight), (0, 0));
            }
        }
    }
    assert!((40..200).contains(&last), "{last}");
}
