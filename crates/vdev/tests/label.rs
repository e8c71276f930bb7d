//! Labels that were written are read by the decoders, and survive a crash at any write.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use codec::checksum::{ByteOrder, verify_label};
use common::{list, over_disks, top, with};
use device::{Device, Fault, MemoryDevice, RwFaultDevice, WriteDeviceRef, read_one};
use ondisk::config::VdevConfig;
use ondisk::label::{BootEnv, LABEL_SIZE, LABELS, Label, Part, label_offsets};
use ondisk::nvlist::NvValue;
use ondisk::uberblock::{MMP_MAGIC, slot_count, slot_size};
use ondisk::{BlkPtr, NvList, Uberblock};
use std::sync::Arc;
use vdev::label::{LabelError, Round, clear, initialise, slot, write_config, write_uberblock};
use vdev::queue::IoClass;
use vdev::{LeafOpen, VdevTree};

/// Not a whole number of labels: the end is where it is rounded down.
const SIZE: u64 = (64 << 20) + 100_352;

fn config(txg: u64) -> NvList {
    let mut l = NvList::new();
    l.set("version", NvValue::U64(5000)).set("txg", NvValue::U64(txg));
    l.set("name", NvValue::String("zincpool".into()));
    l
}

fn uberblock(txg: u64) -> Uberblock {
    Uberblock {
        version: 5000,
        txg,
        guid_sum: 77,
        timestamp: 1_700_000_000,
        rootbp: BlkPtr::HOLE,
        software_version: 5000,
        mmp_magic: MMP_MAGIC,
        mmp_delay: 0,
        mmp_config: 0,
        checkpoint_txg: 0,
        raidz_reflow_info: 0,
    }
}

/// Txg of the configuration of each label, `None` where there is none that verifies.
fn configs(device: &dyn Device) -> [Option<u64>; LABELS] {
    label_offsets(device.size()).unwrap().map(|start| {
        let bytes = read_one(device, start, LABEL_SIZE as usize).unwrap();
        let label = Label::new(&bytes).unwrap();
        let sealed = verify_label(label.part(Part::Config), start + Part::Config.start());
        // Zeros are an empty list: only the seal tells.
        assert_eq!(sealed.ok()?, ByteOrder::Little);
        Some(label.nvlist().unwrap().u64("txg").unwrap())
    })
}

/// The newest uberblock of each label, and its slot.
fn newest(device: &dyn Device, ashift: u64) -> [Option<(usize, Uberblock)>; LABELS] {
    label_offsets(device.size()).unwrap().map(|start| {
        let bytes = read_one(device, start, LABEL_SIZE as usize).unwrap();
        let label = Label::new(&bytes).unwrap();
        let good = label.slots(ashift).enumerate().filter_map(|(i, (at, slot))| {
            verify_label(slot, start + at).ok()?;
            Some((i, Uberblock::decode(slot).unwrap().0))
        });
        good.max_by(|a, b| a.1.cmp_age(&b.1))
    })
}

#[test]
fn a_new_device_has_four_labels_and_no_uberblock() {
    let device = MemoryDevice::zeros("m", SIZE);
    for at in (0..SIZE - 512).step_by(8192) {
        device.put(at, &[0xee; 512]);
    }
    initialise(&device, &config(4)).unwrap();
    assert_eq!(configs(&device), [Some(4); LABELS]);
    assert_eq!(newest(&device, 9), [None; LABELS]);
    for start in label_offsets(SIZE).unwrap() {
        let bytes = read_one(&device, start, LABEL_SIZE as usize).unwrap();
        let label = Label::new(&bytes).unwrap();
        assert_eq!(label.boot_env(), Ok(BootEnv::Empty));
        let at = start + Part::BootEnv.start();
        assert!(verify_label(label.part(Part::BootEnv), at).is_ok());
        for part in [Part::Blank, Part::Ring] {
            assert!(label.part(part).iter().all(|b| *b == 0));
        }
    }
    // Labels do not reach the data, nor what is behind the last of them.
    assert_eq!(read_one(&device, 4 << 20, 512).unwrap()[..], [0xee; 512]);
    assert_eq!(read_one(&device, 64 << 20, 512).unwrap()[..], [0xee; 512]);
    clear(&device, &[0, 1, 2, 3]).unwrap();
    assert_eq!(configs(&device), [None; LABELS]);
    assert_eq!(read_one(&device, 4 << 20, 512).unwrap()[..], [0xee; 512]);
}

#[test]
fn rounds_and_slots_go_where_they_belong() {
    let device = MemoryDevice::zeros("m", SIZE);
    initialise(&device, &config(4)).unwrap();
    write_config(&device, &config(5), Round::First).unwrap();
    assert_eq!(configs(&device), [Some(5), Some(4), Some(5), Some(4)]);
    write_config(&device, &config(5), Round::Second).unwrap();
    assert_eq!(configs(&device), [Some(5); LABELS]);
    for (ashift, slots) in [(9, 128), (10, 128), (12, 32), (13, 16), (16, 16)] {
        let device = MemoryDevice::zeros("m", SIZE);
        initialise(&device, &config(4)).unwrap();
        assert_eq!(slot_count(u64::from(ashift)), slots);
        for txg in 1000..1000 + 2 * slots as u64 {
            write_uberblock(&device, ashift, &uberblock(txg)).unwrap();
            let at = (txg % slots as u64) as usize;
            let found = newest(&device, u64::from(ashift));
            assert_eq!(found, [Some((at, uberblock(txg))); LABELS]);
        }
    }
    // The last slot belongs to multihost when that is on.
    let mmp = Uberblock { mmp_delay: 1, ..uberblock(127) };
    assert_eq!((slot(&mmp, 9), slot(&uberblock(127), 9)), (0, 127));
}

#[test]
fn what_does_not_fit_is_refused() {
    let small = MemoryDevice::zeros("small", 4 << 20);
    assert!(matches!(initialise(&small, &config(1)), Err(LabelError::TooSmall { .. })));
    assert!(matches!(clear(&small, &[0, 1, 2, 3]), Err(LabelError::TooSmall { .. })));
    let device = MemoryDevice::zeros("m", SIZE);
    let room = (112 << 10) - 40;
    let mut large = config(1);
    let extra = room - large.encode(ondisk::nvlist::Packing::XDR).unwrap().len();
    // A pair takes some bytes beside its string, and strings are padded to four bytes.
    for (len, fits) in [(extra - 64, true), (extra, false)] {
        large.set("extra", NvValue::String(vec![b'x'; len]));
        let result = write_config(&device, &large, Round::First);
        assert_eq!(result.is_ok(), fits, "{result:?}");
        assert!(fits || matches!(result, Err(LabelError::TooLarge { .. })));
    }
    assert_eq!(configs(&device), [Some(1), None, Some(1), None]);
}

/// Two mirrors of two disks, each disk with its own faults.
fn tree() -> (VdevTree, Vec<Arc<RwFaultDevice>>) {
    let mut root = with(list("root", 0, 99), vec![over_disks(list("mirror", 0, 50), 2)]);
    let second = (0..2).map(|i| common::leaf(i, 3 + i)).collect();
    let second = with(top(list("mirror", 1, 51)), second);
    if let Some(NvValue::NvListArray(tops)) = root.get("children").cloned() {
        root.set("children", NvValue::NvListArray([tops, vec![second]].concat()));
    }
    let config = VdevConfig::decode(&root).unwrap();
    let mut faults = Vec::new();
    let tree = VdevTree::build(&rt::Rt::current(), &config, &mut |c| {
        let memory = MemoryDevice::zeros(c.path.as_deref().unwrap_or("?"), SIZE);
        let device = Arc::new(RwFaultDevice::new(Arc::new(memory)));
        faults.push(Arc::clone(&device));
        LeafOpen::Writable(device as WriteDeviceRef)
    });
    (tree.unwrap(), faults)
}

#[test]
fn a_tree_writes_each_device_its_own_label_and_all_the_uberblock() {
    let (tree, devices) = tree();
    let own = |txg: u64| {
        move |leaf: vdev::NodeRef<'_>, top: vdev::TopRef<'_>| {
            let mut l = config(txg);
            l.set("guid", NvValue::U64(leaf.guid()));
            l.set("top", NvValue::U64(u64::from(top.id())));
            l
        }
    };
    tree.write_labels(Round::First, &own(8)).unwrap();
    tree.write_uberblock(&uberblock(8)).unwrap();
    tree.write_labels(Round::Second, &own(8)).unwrap();
    for leaf in tree.leaves() {
        let io = leaf.io().unwrap();
        let counts = io.class(IoClass::SyncWrite);
        assert_eq!((counts.ops, counts.bytes), (2 + 4 + 2, 4 * (112 << 10) + 4 * 1024));
        assert_eq!((counts.errors, counts.active, counts.disk_ns.count()), (0, 0, 8));
    }
    for (i, device) in devices.iter().enumerate() {
        assert_eq!(configs(&**device), [Some(8); LABELS]);
        assert_eq!(newest(&**device, 9), [Some((8, uberblock(8))); LABELS]);
        let bytes = read_one(&**device, 0, LABEL_SIZE as usize).unwrap();
        let list = Label::new(&bytes).unwrap().nvlist().unwrap();
        assert_eq!((list.u64("guid"), list.u64("top")), (Ok(i as u64 + 1), Ok(i as u64 / 2)));
    }
    // One side fails: the pool goes on without it. Both: no commit.
    let eio = device::ErrorKind::Io { errno: 5 };
    devices[2].add(Fault::fail_writes(0..u64::MAX, eio));
    tree.write_uberblock(&uberblock(9)).unwrap();
    let errors = |l: vdev::NodeRef<'_>| l.io().unwrap().class(IoClass::SyncWrite).errors;
    assert_eq!(tree.leaves().map(errors).collect::<Vec<_>>(), [0, 0, 4, 0]);
    assert_eq!(newest(&*devices[2], 9), [Some((8, uberblock(8))); LABELS]);
    assert_eq!(newest(&*devices[3], 9), [Some((9, uberblock(9))); LABELS]);
    devices[3].add(Fault::fail_flushes(eio));
    let e = tree.write_uberblock(&uberblock(10)).unwrap_err();
    assert!(matches!(&e, LabelError::Vdev(e) if e.vdev == 1), "{e}");
    // The round is refused before anything is written when a list does not fit.
    let (tree, devices) = self::tree();
    let large = |leaf: vdev::NodeRef<'_>, _: vdev::TopRef<'_>| {
        let mut l = config(1);
        let len = if leaf.guid() == 4 { 200 << 10 } else { 1 };
        l.set("extra", NvValue::String(vec![b'x'; len]));
        l
    };
    let e = tree.write_labels(Round::First, &large).unwrap_err();
    assert!(matches!(e, LabelError::TooLarge { .. }));
    assert!(devices.iter().all(|d| configs(&**d) == [None; LABELS]));
}

#[test]
fn slots_have_the_size_of_a_sector_within_bounds() {
    assert_eq!([9, 10, 12, 13, 16].map(slot_size), [1024, 1024, 4096, 8192, 8192]);
}
