//! Indirect blocks of every size that OpenZFS reads: objects are made, changed and cut with them,
//! and both judges agree.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

mod writing;

use engine::inside::dsl::DatasetKind;
use engine::inside::dsl::write::{PropertyChange, parse_value};
use engine::inside::ondisk::DmuType;
use engine::inside::pool::live::{NewFilesystem, Setting, Tunable};
use engine::inside::zpl::write::{NewFile, NewKind};
use poolkit::Shape;
use writing::{Pools, bytes, fs_time};

fn property(name: &str, value: &str) -> PropertyChange {
    let parsed = parse_value(name, value, DatasetKind::Filesystem, false).unwrap();
    PropertyChange { name: name.to_owned(), value: Some(parsed) }
}

/// Levels of a tree over `blocks` blocks below a dnode with one pointer.
fn levels(mut blocks: u64, shift: u64) -> u8 {
    let mut levels = 1;
    while blocks > 1 {
        blocks = blocks.div_ceil(1 << (shift - 7));
        levels += 1;
    }
    levels
}

#[test]
fn every_size_of_indirect_blocks_is_written_as_openzfs_reads_it() {
    for shift in [14u64, 15, 16, 17] {
        let pools = Pools::new("indirect");
        let pool = pools.create("tank", Shape::Disk);
        pool.set_tunable(Setting { tunable: Tunable::DefaultIbs, value: shift });
        let small = vec![property("recordsize", "512"), property("compression", "off")];
        pool.create_filesystem("tank/fs", NewFilesystem::default(), small).unwrap();
        let fs = pool.filesystem("tank/fs").unwrap();
        let (now, root) = (fs_time(1), fs.root_object());
        let new = NewFile::new(NewKind::File, 0o644, now);
        // Two levels of indirect blocks at least, and a hole before the last block.
        let blocks = (2 << (shift - 7)) + 3;
        let mut data = bytes(shift, blocks as usize * 512);
        let file = fs.create(root, b"file", &new).unwrap().number();
        fs.write_at(file, 0, &data, now).unwrap();
        pool.sync().unwrap();
        let far = (blocks + 100) * 512;
        fs.write_at(file, far, &data[..512], now).unwrap();
        data.resize(far as usize, 0);
        data.extend_from_within(..512);
        pool.sync().unwrap();
        // A piece in the middle, over an edge of indirect blocks.
        let edge = (512 << (shift - 7)) - 700;
        data[edge..edge + 1500].copy_from_slice(&bytes(7, 1500));
        fs.write_at(file, edge as u64, &data[edge..edge + 1500], now).unwrap();
        pool.snapshot(&["tank/fs@before".to_owned()], Vec::new()).unwrap();
        data.truncate(edge + 900);
        fs.truncate(file, data.len() as u64, now).unwrap();
        pool.sync().unwrap();

        let object = fs.objset().object(file).unwrap();
        let dnode = object.dnode();
        assert_eq!(u64::from(dnode.indirect_shift), shift);
        assert_eq!(dnode.levels, levels(blocks + 101, shift), "shift {shift}");
        let written = pool.view().block_stats();
        let top = written.find(DmuType::PLAIN_FILE_CONTENTS, dnode.levels - 1).written;
        assert!(top.ios >= 2, "the top of the tree has two copies: {top:?}");
        drop((object, fs));
        pool.export().unwrap();
        pools.judge("tank");

        // What was made keeps its size; the tunable is of the pool that is open, not of the disk.
        let pool = pools.import("tank");
        let fs = pool.filesystem("tank/fs").unwrap();
        let node = fs.by_path(b"/file", true).unwrap();
        let mut got = vec![0; node.size as usize];
        node.read_at(0, &mut got).unwrap();
        assert!(got == data, "shift {shift}");
        let other = fs.create(root, b"other", &new).unwrap().number();
        assert_eq!(fs.objset().object(other).unwrap().dnode().indirect_shift, 17);
        fs.write_at(file, 0, &data[..5000], now).unwrap();
        pool.sync().unwrap();
        let dnode = fs.objset().object(file).unwrap();
        assert_eq!(u64::from(dnode.dnode().indirect_shift), shift);
        drop((dnode, node, fs));
        pool.export().unwrap();
        pools.judge("tank");
    }
}
