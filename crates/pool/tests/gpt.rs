//! Whole disks: the pool is in a partition, and the partition table may be damaged.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

mod common;

use codec::checksum::ByteOrder;
use common::{Lab, assert_same, contents};
use ondisk::nvlist::NvValue;
use pool::{OpenOptions, Pool, SearchOptions};
use std::path::PathBuf;
use testkit::SparseImage;
use vdev::VdevState;

/// Type 6a898cc3-1dd2-11b2-99a6-080020736631, as stored.
const ZFS: [u8; 16] = [
    0xc3, 0x8c, 0x89, 0x6a, 0xd2, 0x1d, 0xb2, 0x11, 0x99, 0xa6, 0x08, 0x00, 0x20, 0x73, 0x66, 0x31,
];
/// Type 0fc63daf-8483-4772-8e79-3d69d8477de4: a Linux file system.
const LINUX: [u8; 16] = [
    0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4,
];
/// Where the pool's partition begins in bytes, as `zpool create` on a whole disk does.
const START: u64 = 1 << 20;

/// CRC-32 of IEEE 802.3, bit by bit: short, and not the one under test.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

/// The image of a disk that has the pool in partition 1 and an empty one in partition 9.
fn disk(pool: &SparseImage, sector: u64) -> SparseImage {
    let behind = START + pool.len();
    let size = behind + (9 << 20);
    let mut disk = SparseImage::new(size);
    let mut bytes = vec![0; 1 << 20];
    let mut at = 0;
    while at < pool.len() {
        let n = (pool.len() - at).min(1 << 20) as usize;
        pool.read_at(at, &mut bytes[..n]).unwrap();
        if bytes[..n].iter().any(|b| *b != 0) {
            disk.write_at(START + at, &bytes[..n]).unwrap();
        }
        at += n as u64;
    }
    let mut table = vec![0; 128 * 128];
    for (slot, kind, from, to) in [(0, ZFS, START, behind), (8, LINUX, behind, behind + 4096)] {
        let entry = &mut table[slot * 128..][..128];
        entry[..16].copy_from_slice(&kind);
        entry[16] = 1;
        entry[32..40].copy_from_slice(&(from / sector).to_le_bytes());
        entry[40..48].copy_from_slice(&(to / sector - 1).to_le_bytes());
    }
    let last = size / sector - 1;
    let table_sectors = table.len() as u64 / sector;
    for (own, other, entries) in [(1, last, 2), (last, 1, last - table_sectors)] {
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[8..16].copy_from_slice(&[0, 0, 1, 0, 92, 0, 0, 0]);
        header[24..32].copy_from_slice(&own.to_le_bytes());
        header[32..40].copy_from_slice(&other.to_le_bytes());
        header[72..80].copy_from_slice(&entries.to_le_bytes());
        header[80..88].copy_from_slice(&[128, 0, 0, 0, 128, 0, 0, 0]);
        header[88..92].copy_from_slice(&crc32(&table).to_le_bytes());
        let crc = crc32(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        disk.write_at(own * sector, &header).unwrap();
        disk.write_at(entries * sector, &table).unwrap();
    }
    disk.write_at(450, &[0xee]).unwrap();
    disk.write_at(510, &[0x55, 0xaa]).unwrap();
    disk
}

fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("gpt-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn options(path: PathBuf) -> OpenOptions {
    let search = SearchOptions { paths: vec![path], ..SearchOptions::default() };
    OpenOptions { search, ..OpenOptions::default() }
}

#[test]
fn a_pool_in_a_partition_is_found() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = contents(&lab.open());
    for sector in [512, 4096] {
        let dir = folder(&format!("whole-{sector}"));
        for (number, image) in &lab.images {
            disk(image, sector).save(&dir.join(format!("disk{number}"))).unwrap();
        }
        let pool = Pool::open(&lab.name, &options(dir.clone())).unwrap();
        assert_eq!(pool.vdevs().root().state(), VdevState::Online);
        let mut names: Vec<_> = pool.candidate().leaves.values().map(|l| l.path.clone()).collect();
        names.sort();
        assert_eq!(names, [dir.join("disk0#1"), dir.join("disk1#1")]);
        assert_same(&whole, &contents(&pool));
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_disk_with_a_damaged_table_is_found_by_the_backup() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = contents(&lab.open());
    for sector in [512u64, 4096] {
        // The header, the entries, or all of the disk's start.
        for (what, at, len) in
            [("header", sector, 512), ("table", 2 * sector, 512), ("all", 0, 40960)]
        {
            let dir = folder(&format!("damaged-{what}-{sector}"));
            let mut image = disk(&lab.images[&0], sector);
            image.write_at(at, &vec![0x77; len]).unwrap();
            image.save(&dir.join("disk")).unwrap();
            // Named itself, and as something in a folder.
            for path in [dir.join("disk"), dir.clone()] {
                let pool = Pool::open(&lab.name, &options(path)).unwrap();
                assert_same(&whole, &contents(&pool));
            }
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn labels_left_from_before_the_table_hide_nothing() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let whole = contents(&lab.open());
    // The disk as a whole was once part of another pool: two of its labels are left at the end.
    let mut old = Lab { name: "old".into(), images: lab.images.clone() };
    *old.image(0) = disk(&lab.images[&0], 512);
    let mut list = lab.labels(0)[0].clone();
    list.set("pool_guid", NvValue::U64(4711)).set("name", NvValue::String(b"old".to_vec()));
    old.set_label(0, 2, &list, ByteOrder::Little);
    let dir = folder("left-over");
    old.images[&0].save(&dir.join("disk")).unwrap();
    let found = pool::scan(&options(dir.clone()).search).unwrap();
    assert_eq!(found.len(), 2, "the disk and its partition");
    let pool = Pool::open(&lab.name, &options(dir.clone())).unwrap();
    assert_same(&whole, &contents(&pool));
    assert!(Pool::open("old", &options(dir.clone())).is_err());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_table_that_is_wrong_finds_nothing_and_harms_nothing() {
    let lab = Lab::of(&testkit::fixture("sample"));
    let good = disk(&lab.images[&0], 512);
    let last = good.len() / 512 - 1;
    let dir = folder("wrong");
    let mut both = good.clone();
    both.write_at(512, &[0; 512]).unwrap();
    both.write_at(last * 512, &[0; 512]).unwrap();
    both.save(&dir.join("both")).unwrap();
    assert!(pool::scan(&options(dir.clone()).search).unwrap().is_empty());
    // Cut short behind the partition's half: the table promises more than there is.
    let mut cut = good;
    cut.truncate(START + lab.images[&0].len() / 2);
    cut.save(&dir.join("cut")).unwrap();
    let found = pool::scan(&options(dir.clone()).search).unwrap();
    let labels = found.iter().flat_map(|l| &l.labels).filter(|l| l.config.is_ok()).count();
    assert_eq!((found.len(), labels), (1, 2), "the two labels at the front");
    std::fs::remove_dir_all(dir).unwrap();
}
