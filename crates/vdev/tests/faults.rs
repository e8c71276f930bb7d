//! Every loss that redundancy covers is made good, every other one is an error, and the right
//! device is blamed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{
    ASHIFT, Bench, DEVICE_SIZE, blamed, leaf, list, over_disks, random, read, set, subsets, top,
    with,
};
use device::{DeviceRef, MemoryDevice};
use ondisk::Dva;
use ondisk::nvlist::NvValue;
use std::sync::Arc;
use testkit::Rng;
use vdev::draid::Draid;
use vdev::map::{BlockMap, LABEL_START_SIZE};
use vdev::raidz::Raidz;
use vdev::{
    BlockRead, ErrorKind, FaultKind, Heal, IndirectSegment, LeafOpen, Reason, Scope, VdevState,
    VdevTree,
};

const SECTOR: u64 = 1 << ASHIFT;
/// Where the mirror's turn is at the first side.
const AT: u64 = 2 << 20;

fn mirror() -> (Bench, Vec<u8>) {
    let bench = Bench::new(vec![over_disks(list("mirror", 0, 50), 3)]);
    let block = random(1, 3 * SECTOR);
    let map = BlockMap::single(0, AT, block.len() as u64).unwrap();
    bench.write(&map, |_, o| vec![(1, o), (2, o), (3, o)], &block);
    (bench, block)
}

#[test]
fn mirror_sides_stand_in_for_each_other() {
    let (bench, block) = mirror();
    let at = LABEL_START_SIZE + AT;
    bench.damage(1, at + 600, 1);
    bench.damage(3, at, 10);
    let tree = bench.tree(&[]);
    let r = read(&tree, (0, AT), 1, &block, Scope::Data);
    assert_eq!(&r.data.unwrap()[..], &block[..]);
    let r = read(&tree, (0, AT), 1, &block, Scope::All);
    assert_eq!(blamed(&r), [1, 3]);
    assert!(r.faults.iter().all(|f| f.kind == FaultKind::Checksum && f.repaired));
    assert!(r.faults.iter().all(|f| f.offset == at && f.len == 3 * SECTOR && f.vdev == 0));
    assert_eq!(&*r.faults[0].path, "/disk1");
    assert_eq!(
        tree.leaves().map(|l| l.checksum_errors() > 0).collect::<Vec<_>>(),
        [true, false, true]
    );
    // Without the good side nothing is left, and all devices that answered are wrong.
    let tree = bench.tree(&[2]);
    for scope in [Scope::Data, Scope::All] {
        let r = read(&tree, (0, AT), 1, &block, scope);
        assert_eq!(blamed(&r), [1, 2, 3, 50]);
        let e = r.data.unwrap_err();
        assert_eq!(e.kind, ErrorKind::Checksum { tried: 2 });
        assert_eq!(
            e.to_string(),
            "vdev 0, offset 0x200000, 1536 bytes: \
             no copy and no combination has the right checksum (2 tried)"
        );
    }
    let r = read(&bench.tree(&[1, 2, 3]), (0, AT), 1, &block, Scope::Data);
    assert_eq!(r.data.unwrap_err().kind, ErrorKind::TooFewDevices);
}

/// What a reader has counted is written anew and not counted again; what is new is counted by the
/// caller.
#[test]
fn what_was_met_is_healed_without_being_counted() {
    let (bench, block) = mirror();
    let at = LABEL_START_SIZE + AT;
    bench.damage(1, at + 600, 1);
    bench.damage(3, at, 10);
    let tree = VdevTree::build(&rt::Rt::current(), &bench.config, &mut |c| {
        LeafOpen::Writable(Arc::clone(&bench.devices[&c.guid]) as _)
    })
    .unwrap();
    let r = read(&tree, (0, AT), 1, &block, Scope::Data);
    assert_eq!(blamed(&r), [1, 3]);
    let counted = || tree.leaves().map(|l| l.checksum_errors()).collect::<Vec<_>>();
    assert_eq!(counted(), [1, 0, 1]);
    let verify = |bytes: &[u8]| bytes == &block[..];
    let (dva, size) = (Dva::new(0, AT, block.len() as u64, false), block.len() as u64);
    let request = BlockRead { dva, size, birth: 1, verify: &verify, speculative: false };
    let healed = tree.heal_batch(&[request], Heal::Met).pop().unwrap();
    assert_eq!((healed.faults.len(), healed.repaired), (2, 2 * size));
    assert_eq!(counted(), [1, 0, 1]);
    healed.faults.iter().take(1).for_each(|fault| tree.count_fault(fault));
    assert_eq!(counted(), [2, 0, 1]);
    let healed = tree.heal_batch(&[request], Heal::All).pop().unwrap();
    assert_eq!((healed.faults.len(), healed.repaired), (0, 0));
}

#[test]
fn a_short_device_is_an_io_fault() {
    let (bench, block) = mirror();
    let small: DeviceRef = Arc::new(MemoryDevice::zeros("short", 1 << 20));
    let tree = VdevTree::build(&rt::Rt::current(), &bench.config, &mut |c| match c.guid {
        1 => LeafOpen::Online(Arc::clone(&small)),
        g => LeafOpen::Online(Arc::clone(&bench.devices[&g]) as DeviceRef),
    })
    .unwrap();
    let r = read(&tree, (0, AT), 1, &block, Scope::Data);
    assert_eq!(&r.data.unwrap()[..], &block[..]);
    assert!(matches!(r.faults[..], [ref f] if matches!(f.kind, FaultKind::Io(_)) && f.guid == 1));
    assert_eq!(tree.leaves().next().unwrap().read_errors(), 1);
}

#[test]
fn stale_sides_come_last_and_are_no_fault() {
    let (bench, block) = mirror();
    let at = LABEL_START_SIZE + AT;
    bench.damage(1, at, 100);
    let tree = bench.tree(&[]);
    assert!(tree.set_missed(1, &[5..=9].into_iter().collect()));
    assert!(!tree.set_missed(1234, &vdev::Txgs::default()));
    let r = read(&tree, (0, AT), 7, &block, Scope::Data);
    assert!(r.data.is_ok() && r.faults.is_empty());
    let r = read(&tree, (0, AT), 7, &block, Scope::All);
    assert!(matches!(r.faults[..], [ref f] if f.kind == FaultKind::Stale && f.guid == 1));
    let r = read(&tree, (0, AT), 10, &block, Scope::All);
    assert!(matches!(r.faults[..], [ref f] if f.kind == FaultKind::Checksum && f.guid == 1));
    // When it is all there is, it is used.
    let (bench, block) = mirror();
    let tree = bench.tree(&[2, 3]);
    tree.set_missed(1, &[5..=9].into_iter().collect());
    let r = read(&tree, (0, AT), 7, &block, Scope::Data);
    assert!(r.data.is_ok() && r.faults.is_empty());
}

/// Loses every set of children, silently and openly, and one too many.
fn lose_everything(
    make: &dyn Fn() -> Bench,
    map: &BlockMap,
    at: u64,
    birth: u64,
    block: &[u8],
    width: u64,
) {
    let nparity = map.stripes[0].nparity;
    for set in subsets(width, nparity + 1) {
        let bench = make();
        bench.write(map, |c, o| vec![(c as u64 + 1, o)], block);
        let per_stripe = |s: &vdev::map::Stripe| {
            let hit = |c: &&vdev::map::Column| c.size > 0 && set.contains(&(c.child as u64 + 1));
            s.columns.iter().filter(hit).count()
        };
        let covered = map.stripes.iter().all(|s| per_stripe(s) <= nparity);
        let tree = bench.tree(&set);
        let r = read(&tree, (0, at), birth, block, Scope::Data);
        assert_eq!(r.data.is_ok(), covered, "missing {set:?}");
        assert!(!covered || r.faults.is_empty());
        assert!(tree.walk().all(|node| node.checksum_errors() == 0), "missing {set:?}");
        let mut hit = Vec::new();
        for c in map.stripes.iter().flat_map(|s| &s.columns).filter(|c| c.size > 0) {
            let guid = c.child as u64 + 1;
            if set.contains(&guid) {
                bench.damage(guid, c.offset, 1);
                hit.push(guid);
            }
        }
        hit.sort_unstable();
        hit.dedup();
        let tree = bench.tree(&[]);
        let r = read(&tree, (0, at), birth, block, Scope::Data);
        assert_eq!(r.data.is_ok(), covered, "wrong {set:?}");
        let r = read(&tree, (0, at), birth, block, Scope::All);
        match r.data {
            Ok(ref b) => {
                assert!(covered);
                assert_eq!((&b[..], blamed(&r)), (block, hit), "wrong {set:?}");
            }
            Err(e) => {
                assert!(!covered);
                assert!(matches!(e.kind, ErrorKind::Checksum { .. }), "{e}");
                assert_eq!(blamed(&BlockResultOf(r.faults)), [50], "only the vdev is to blame");
                // All that delivered a column are suspects, in each of the two reads.
                let columns = map.stripes.iter().flat_map(|s| &s.columns);
                let mut counts = vec![0; width as usize];
                columns.filter(|c| c.size + c.pad > 0).for_each(|c| counts[c.child] += 2);
                let leaves: Vec<u64> = tree.leaves().map(|l| l.checksum_errors()).collect();
                assert_eq!(leaves, counts, "wrong {set:?}");
                assert_eq!(tree.tops().next().unwrap().node().checksum_errors(), 2);
            }
        }
    }
}

/// Lets [`blamed`] look at faults whose result was taken apart.
#[allow(non_snake_case)]
fn BlockResultOf(faults: Vec<vdev::Fault>) -> vdev::BlockResult {
    vdev::BlockResult { data: Ok(device::AlignedBuf::default()), faults }
}

#[test]
fn raidz_survives_as_many_losses_as_it_has_parity() {
    for (nparity, width) in [(1u64, 3u64), (2, 5), (3, 6)] {
        let config = || set(over_disks(list("raidz", 0, 50), width), "nparity", nparity);
        let geometry = Raidz::new(nparity, 9, width as usize, &[], false).unwrap();
        // Less than a row, a short last row, and a size that is not a multiple of a sector.
        for size in [SECTOR, 7 * SECTOR, 4 * SECTOR + 100] {
            let at = (1 << 20) + 5 * SECTOR;
            let block = random(size, size);
            let map = geometry.map(at, size, 1).unwrap();
            lose_everything(&|| Bench::new(vec![config()]), &map, at, 1, &block, width);
        }
    }
}

/// The rest of a block's last sector has no checksum: what is wrong there is found by parity, also
/// where a device is away, and no other device is blamed for it.
#[test]
fn what_is_wrong_behind_the_end_of_a_block_is_blamed_on_its_device() {
    for (nparity, width) in [(2u64, 5u64), (3, 6)] {
        let config = || set(over_disks(list("raidz", 0, 50), width), "nparity", nparity);
        let geometry = Raidz::new(nparity, 9, width as usize, &[], false).unwrap();
        for size in [100, SECTOR + 100, 4 * SECTOR + 100] {
            let at = (1 << 20) + 5 * SECTOR;
            let (block, map) = (random(size, size), geometry.map(at, size, 1).unwrap());
            let columns = || map.stripes[0].columns.iter().filter(|c| c.size > 0);
            for (away, wrong) in columns().flat_map(|a| columns().map(move |w| (a, w))) {
                let [away, guid] = [away, wrong].map(|c| c.child as u64 + 1);
                if away == guid {
                    continue;
                }
                let bench = Bench::new(vec![config()]);
                bench.write(&map, |c, o| vec![(c as u64 + 1, o)], &block);
                bench.damage(guid, wrong.offset + wrong.size - 1, 1);
                let r = read(&bench.tree(&[away]), (0, at), 1, &block, Scope::All);
                assert_eq!(r.data.as_ref().unwrap()[..], block[..]);
                let case = format!("{nparity}, {size} bytes, without {away}");
                let mut both = vec![away, guid];
                both.sort_unstable();
                assert_eq!(blamed(&r), both, "{case}");
            }
        }
    }
}

fn expanded(nparity: u64, width: u64) -> ondisk::nvlist::NvList {
    let mut l = set(over_disks(list("raidz", 0, 50), width), "nparity", nparity);
    l.set("raidz_expand_txgs", NvValue::U64Array(vec![100]));
    l
}

#[test]
fn blocks_older_than_an_expansion_survive_as_well() {
    for (nparity, width) in [(1u64, 4u64), (2, 5)] {
        let geometry = Raidz::new(nparity, 9, width as usize, &[100], false).unwrap();
        let (at, block) = (7 * SECTOR, random(width, 9 * SECTOR));
        let map = geometry.map(at, block.len() as u64, 50).unwrap();
        assert!(map.stripes.len() > 1);
        let make = || Bench::new(vec![expanded(nparity, width)]);
        lose_everything(&make, &map, at, 50, &block, width);
    }
}

#[test]
fn damage_that_an_expansion_has_spread_is_made_good() {
    let geometry = Raidz::new(1, 9, 4, &[100], false).unwrap();
    let (at, block) = (2 * SECTOR, random(8, 11 * SECTOR));
    let map = geometry.map(at, block.len() as u64, 50).unwrap();
    for former in 0..3 {
        let bench = Bench::new(vec![expanded(1, 4)]);
        bench.write(&map, |c, o| vec![(c as u64 + 1, o)], &block);
        let mut hit = Vec::new();
        for c in map.stripes.iter().flat_map(|s| &s.columns) {
            if c.size > 0 && c.sector % 3 == former {
                bench.damage(c.child as u64 + 1, c.offset, 3);
                hit.push(c.child as u64 + 1);
            }
        }
        hit.sort_unstable();
        hit.dedup();
        assert!(hit.len() > 1, "spread over several disks of today");
        assert_eq!(blamed(&read(&bench.tree(&[]), (0, at), 50, &block, Scope::All)), hit);
        let r = read(&bench.tree(&[]), (0, at), 50, &block, Scope::Data);
        assert_eq!(&r.data.unwrap()[..], &block[..]);
    }
}

fn draid_list() -> ondisk::nvlist::NvList {
    let l = set(set(list("draid", 0, 50), "nparity", 2), "draid_ndata", 3);
    set(set(l, "draid_nspares", 1), "draid_ngroups", 7)
}

fn draid_geometry() -> Draid {
    Draid::new(2, 3, 1, 7, 8, 9).unwrap()
}

#[test]
fn draid_survives_also_where_a_block_crosses_groups() {
    let group = 5 * (16 << 20);
    for (at, sectors) in [(0, 1), (25 * SECTOR, 7), (group - 5 * SECTOR, 7)] {
        let block = random(at + sectors, sectors * SECTOR);
        let map = draid_geometry().map(at, block.len() as u64).unwrap();
        let make = || Bench::new(vec![over_disks(draid_list(), 8)]);
        lose_everything(&make, &map, at, 1, &block, 8);
    }
}

/// A block is written when no stripe of it lost more columns than there is parity, and then it is
/// read without as many devices as parity covers, wherever its groups end.
#[test]
fn draid_is_written_without_devices_and_across_groups() {
    let group = 5 * (16 << 20);
    for (at, sectors) in [(0, 1), (25 * SECTOR, 7), (group - 5 * SECTOR, 7)] {
        for away in subsets(8, 2) {
            let bench = Bench::new(vec![over_disks(draid_list(), 8)]);
            let block = random(at + sectors, sectors * SECTOR);
            let tree = VdevTree::build(&rt::Rt::current(), &bench.config, &mut |c| match away
                .contains(&c.guid)
            {
                true => LeafOpen::Missing,
                false => LeafOpen::Writable(Arc::clone(&bench.devices[&c.guid]) as _),
            })
            .unwrap();
            let answer = Arc::new(std::sync::Mutex::new(None));
            let noted = Arc::clone(&answer);
            tree.write_batch(vec![vdev::BlockWrite {
                dva: Dva::new(0, at, draid_geometry().asize(sectors * SECTOR), false),
                data: device::AlignedBuf::copy_of(&block).into(),
                birth: 9,
                class: vdev::queue::IoClass::AsyncWrite,
                done: Box::new(move |done| *noted.lock().unwrap() = Some(done)),
            }]);
            tree.flush().unwrap();
            assert_eq!(*answer.lock().unwrap(), Some(Ok(())), "{at} without {away:?}");
            let map = draid_geometry().map(at, block.len() as u64).unwrap();
            let on = |guid: &u64| {
                let mut columns = map.stripes.iter().flat_map(|s| &s.columns);
                columns.any(|c| c.child as u64 + 1 == *guid)
            };
            let missed: Vec<u64> = tree.missed().into_iter().map(|(guid, _)| guid).collect();
            assert_eq!(missed, away.iter().copied().filter(on).collect::<Vec<_>>());
            let r = read(&bench.tree(&away), (0, at), 9, &block, Scope::All);
            assert_eq!(&r.data.unwrap()[..], &block[..]);
            assert!(r.faults.iter().all(|f| away.contains(&f.guid)), "{:?}", r.faults);
        }
    }
}

#[test]
fn draid_padding_is_part_of_a_scrub() {
    let bench = Bench::new(vec![over_disks(draid_list(), 8)]);
    let block = random(3, SECTOR);
    let map = draid_geometry().map(0, SECTOR).unwrap();
    bench.write(&map, |c, o| vec![(c as u64 + 1, o)], &block);
    let padded = map.stripes[0].columns.iter().find(|c| c.size == 0).unwrap();
    bench.damage(padded.child as u64 + 1, padded.offset, 1);
    let tree = bench.tree(&[]);
    assert!(read(&tree, (0, 0), 1, &block, Scope::Data).faults.is_empty());
    let r = read(&tree, (0, 0), 1, &block, Scope::All);
    assert_eq!(blamed(&r), [padded.child as u64 + 1]);
    assert_eq!(r.faults[0].kind, FaultKind::ParityMismatch);
}

#[test]
fn a_distributed_spare_stands_in_for_its_child() {
    let spare = set(set(list("dspare", 1, 70), "top_guid", 50), "spareid", 0);
    let mut children: Vec<_> = (0..8).map(|i| leaf(i, i + 1)).collect();
    children[3] = with(list("spare", 3, 60), vec![leaf(0, 4), spare]);
    let bench = Bench::new(vec![with(top(draid_list()), children)]);
    let geometry = draid_geometry();
    for n in 0..30u64 {
        let at = n * 5 * (16 << 20) + 10 * SECTOR;
        let block = random(n, 5 * SECTOR);
        let map = geometry.map(at, block.len() as u64).unwrap();
        // The disk of child 3 has nothing; the spare, spread over the others, has all.
        let place = |c: usize, o: u64| match c {
            3 => {
                let (child, left) = geometry.spare_child(0, o).unwrap();
                assert!(left > SECTOR && child != 3);
                vec![(child as u64 + 1, o)]
            }
            c => vec![(c as u64 + 1, o)],
        };
        if map.stripes[0]
            .columns
            .iter()
            .any(|c| c.child == 3 && geometry.spare_child(0, c.offset).is_some_and(|(s, _)| s == 3))
        {
            continue;
        }
        bench.write(&map, place, &block);
        let tree = bench.tree(&[4]);
        for scope in [Scope::Data, Scope::All] {
            let r = read(&tree, (0, at), 1, &block, scope);
            assert_eq!(&r.data.unwrap()[..], &block[..]);
            assert!(r.faults.iter().all(|f| f.kind == FaultKind::Missing && f.guid == 4));
        }
        // With two more lost the spare is needed.
        let lost: Vec<u64> = map.stripes[0].columns.iter().map(|c| c.child as u64 + 1).collect();
        let lost: Vec<u64> = lost.into_iter().filter(|g| *g != 4).take(1).chain([4]).collect();
        assert!(read(&bench.tree(&lost), (0, at), 1, &block, Scope::Data).data.is_ok());
    }
}

#[test]
fn split_blocks_of_removed_vdevs_combine_sides() {
    let tops = vec![
        top(list("indirect", 0, 40)),
        over_disks(list("mirror", 1, 50), 2),
        with(top(list("mirror", 2, 51)), vec![leaf(0, 3), leaf(1, 4)]),
        top(list("indirect", 3, 41)),
    ];
    let bench = Bench::new(tops);
    let block = random(9, 8 * SECTOR);
    let segment = |src, size, vdev, dst| IndirectSegment {
        src_offset: src,
        size,
        dst: Dva::new(vdev, dst, size, false),
        txg: 0,
    };
    // Two sectors on vdev 1, then by way of removed vdev 3: three on vdev 2, three on vdev 1.
    let first = vec![segment(0, 4 * SECTOR, 1, 0x8000), segment(4 * SECTOR, 0x10000, 3, 0)];
    let second = vec![segment(0, 3 * SECTOR, 2, 0x4000), segment(3 * SECTOR, 0x8000, 1, 0x20000)];
    let put = |guid: u64, offset: u64, from: u64, n: u64| {
        let part = &block[(from * SECTOR) as usize..((from + n) * SECTOR) as usize];
        bench.devices[&guid].put(LABEL_START_SIZE + offset, part);
    };
    for (guid, other) in [(1, 3), (2, 4)] {
        put(guid, 0x8000 + 2 * SECTOR, 0, 2);
        put(other, 0x4000, 2, 3);
        put(guid, 0x20000, 5, 3);
    }
    let mut tree = bench.tree(&[]);
    let at = (0, 2 * SECTOR);
    let unloaded = read(&tree, at, 1, &block, Scope::Data);
    assert_eq!(unloaded.data.unwrap_err().kind, ErrorKind::NoMapping);
    tree.set_indirect(0, first.clone()).unwrap();
    tree.set_indirect(3, second).unwrap();
    let r = read(&tree, at, 1, &block, Scope::All);
    assert!(r.data.is_ok() && r.faults.is_empty(), "{:?}", r.faults);
    // Each part has its good copy on another side.
    bench.damage(1, LABEL_START_SIZE + 0x8000 + 2 * SECTOR, 5);
    bench.damage(4, LABEL_START_SIZE + 0x4000 + 5, 5);
    bench.damage(2, LABEL_START_SIZE + 0x20000, 1);
    let r = read(&tree, at, 1, &block, Scope::Data);
    assert_eq!(blamed(&r), [1, 2, 4]);
    assert_eq!(&r.data.unwrap()[..], &block[..]);
    bench.damage(3, LABEL_START_SIZE + 0x4000, 5);
    let r = read(&tree, at, 1, &block, Scope::Data);
    assert!(matches!(r.data.unwrap_err().kind, ErrorKind::Checksum { tried: 8 }));
    // Holes in the mapping, and circles.
    let r = read(&tree, (0, 0x40000), 1, &block, Scope::Data);
    assert_eq!(r.data.unwrap_err().kind, ErrorKind::Unmapped { vdev: 0, offset: 0x40000 });
    tree.set_indirect(3, vec![segment(0, 0x10000, 0, 4 * SECTOR)]).unwrap();
    let r = read(&tree, (0, 4 * SECTOR), 1, &block, Scope::Data);
    assert_eq!(r.data.unwrap_err().kind, ErrorKind::MappingLoop);
    assert!(tree.set_indirect(1, first).is_err(), "not a removed vdev");
}

#[test]
fn a_batch_keeps_its_order_and_failures_stay_alone() {
    let bench = Bench::new(vec![set(over_disks(list("raidz", 0, 50), 4), "nparity", 1)]);
    let geometry = Raidz::new(1, 9, 4, &[], false).unwrap();
    let blocks: Vec<Vec<u8>> = (0..50).map(|i| random(i, (i % 9 + 1) * SECTOR)).collect();
    let mut at = Vec::new();
    let mut next = 0;
    for b in &blocks {
        at.push(next);
        let map = geometry.map(next, b.len() as u64, 1).unwrap();
        bench.write(&map, |c, o| vec![(c as u64 + 1, o)], b);
        next += geometry.asize(b.len() as u64, 1);
    }
    // Block 20 loses one column, block 30 all.
    let map = geometry.map(at[20], blocks[20].len() as u64, 1).unwrap();
    let c = &map.stripes[0].columns[1];
    bench.damage(c.child as u64 + 1, c.offset, 1);
    let map = geometry.map(at[30], blocks[30].len() as u64, 1).unwrap();
    for c in &map.stripes[0].columns {
        bench.damage(c.child as u64 + 1, c.offset, 1);
    }
    let tree = bench.tree(&[]);
    let checks: Vec<_> = blocks.iter().map(|b| move |x: &[u8]| x == &b[..]).collect();
    for scope in [Scope::Data, Scope::All] {
        let reads = blocks.iter().zip(&at).zip(&checks).map(|((b, at), verify)| {
            let size = b.len() as u64;
            BlockRead {
                dva: Dva::new(0, *at, size, false),
                size,
                birth: 1,
                verify,
                speculative: false,
            }
        });
        let results = tree.read_batch(reads.collect(), scope);
        for (i, (r, b)) in results.iter().zip(&blocks).enumerate() {
            assert_eq!(r.data.is_err(), i == 30, "{i}");
            assert_eq!(r.faults.is_empty(), i != 20 && i != 30, "{i}");
            assert!(r.data.as_ref().is_ok_and(|d| d[..] == b[..]) || i == 30);
        }
    }
}

#[test]
fn health_follows_the_children() {
    let mut log = leaf(1, 9);
    log.set("is_log", NvValue::U64(1));
    let tops = vec![set(over_disks(list("raidz", 0, 50), 4), "nparity", 1), top(log)];
    let bench = Bench::new(tops);
    let state = |missing: &[u64]| {
        let tree = bench.tree(missing);
        let top = tree.top(0).unwrap().node();
        (tree.root().state(), top.state(), top.reason(), tree.is_sufficient())
    };
    use VdevState::{Degraded, Online, Unavail};
    assert_eq!(state(&[]), (Online, Online, Reason::None, true));
    assert_eq!(state(&[2]), (Degraded, Degraded, Reason::None, true));
    assert_eq!(state(&[2, 3]), (Unavail, Unavail, Reason::NoReplicas, false));
    assert_eq!(state(&[9]), (Degraded, Online, Reason::None, true));
    let tree = bench.tree(&[2]);
    let names: Vec<_> = tree.walk().map(|n| (n.name().to_owned(), n.state().to_string())).collect();
    assert_eq!(names[1], ("raidz1-0".to_owned(), "DEGRADED".to_owned()));
    assert_eq!(names[3], ("/disk2".to_owned(), "UNAVAIL".to_owned()));
    assert_eq!(tree.psize_to_asize(0, 7 * SECTOR, 1), Some(10 * SECTOR));
    assert_eq!(tree.psize_to_asize(1, 100, 1), Some(SECTOR));
    assert_eq!(tree.psize_to_asize(2, 100, 1), None);
}

#[test]
fn addresses_made_up_by_the_disk_are_errors() {
    let tops = vec![
        set(set(over_disks(list("raidz", 0, 50), 4), "nparity", 1), "asize", 16 << 30),
        with(top(draid_list()), (0..8).map(|i| leaf(i, i + 11)).collect()),
        set(list("hole", 2, 0), "ashift", 9),
        list("missing", 3, 5),
        top(list("indirect", 4, 6)),
        top(leaf(5, 30)),
    ];
    let mut tops = tops;
    tops[1] = set(tops[1].clone(), "id", 1);
    let tree = Bench::new(tops).tree(&[]);
    let verify = |_: &[u8]| false;
    testkit::shrinking_seed(7, 3000, |steps| {
        for step in steps {
            let mut rng = Rng::new(*step);
            let offset = rng.next_u64() >> rng.below(64);
            let dva = Dva::new(rng.below(8) as u32, offset, 512, false);
            let size = rng.next_u64() >> rng.below(64);
            let size = if rng.below(2) == 0 { size } else { size % 10_000 };
            let birth = rng.next_u64();
            let read = BlockRead { dva, size, birth, verify: &verify, speculative: false };
            let scope = if rng.below(2) == 0 { Scope::Data } else { Scope::All };
            let r = tree.read_batch(vec![read], scope).pop().unwrap();
            assert!(r.data.is_err() && !r.faults.is_empty());
        }
    });
    let r = read(&tree, (0, DEVICE_SIZE * 4 - SECTOR), 1, &[1; 512], Scope::Data);
    assert_eq!(r.data.unwrap_err().kind, ErrorKind::BeyondEnd { asize: 16 << 30 });
    let kind = |vdev| read(&tree, (vdev, 0), 1, &[1; 512], Scope::Data).data.unwrap_err().kind;
    assert_eq!(
        [kind(2), kind(3), kind(4), kind(6)],
        [ErrorKind::Hole, ErrorKind::MissingVdev, ErrorKind::NoMapping, ErrorKind::NoSuchVdev]
    );
}
