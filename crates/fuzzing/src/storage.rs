//! Targets for what finds and opens blocks: vdev trees, encrypted blocks, the intent log.

use crate::Target;
use crate::structures::{round, split};
use codec::crypto::{MasterKey, Suite};
use device::{DeviceRef, MemoryDevice};
use ondisk::objset::OBJSET_SIZE_V1;
use ondisk::zil::{CHAIN_SIZE, Chain, ChainPlace, Record, encode_records, records, records_by};
use ondisk::{BlkPtr, DmuType, Dva, Endian, LabelConfig, NvList};
use std::sync::{Arc, OnceLock};
use vdev::draid::Draid;
use vdev::map::BlockMap;
use vdev::raidz::Raidz;
use vdev::{BlockRead, LeafOpen, Reflow, Scope, VdevTree};
use zio::crypt::{indirect_mac, objset_macs, open_block, seal_block, verify_objset_macs};

pub(crate) const TARGETS: &[(&str, Target)] =
    &[("block", block), ("geometry", geometry), ("vdev_tree", vdev_tree), ("zil", zil)];

fn key() -> &'static MasterKey {
    static KEY: OnceLock<MasterKey> = OnceLock::new();
    KEY.get_or_init(|| match MasterKey::new(Suite::Aes256Gcm, 1, 1, &[3; 32], &[5; 64]) {
        Ok(key) => key,
        Err(error) => panic!("{error}"),
    })
}

/// What is walked to find the secret and the authenticated bytes of a block. What can be sealed
/// must open again.
fn block(data: &[u8]) {
    let (endian, body) = split(data);
    let _ = indirect_mac(body, u64::from(body.len() % 2 == 0), endian);
    if let Ok(macs) = objset_macs(key(), body, endian)
        && body.len() >= OBJSET_SIZE_V1
    {
        let mut whole = body.to_vec();
        let local = macs.local.unwrap_or_default();
        whole[720..752].copy_from_slice(&macs.portable);
        whole[752..784].copy_from_slice(&local);
        assert_eq!(verify_objset_macs(key(), &whole, endian), Ok(()), "its own MACs");
    }
    let kinds = [DmuType::DNODE, DmuType::PLAIN_FILE_CONTENTS, DmuType::INTENT_LOG];
    // Only a whole chain structure has room for the MAC.
    let fitting = if body.len() < CHAIN_SIZE { 2 } else { 3 };
    for kind in kinds.into_iter().take(fitting) {
        let mut sealed = body.to_vec();
        let (salt, iv) = ([1; 8], [2; 12]);
        let Ok(mac) = seal_block(key(), kind, endian, salt, &iv, &mut sealed) else { continue };
        if kind == DmuType::INTENT_LOG {
            sealed[168..184].copy_from_slice(&mac);
        }
        let bp = encrypted_pointer(kind, endian, &mac);
        let opened = open_block(Some(key()), &bp, &mut sealed);
        assert_eq!(opened, Ok(()), "{kind}: what was sealed does not open");
        if kind == DmuType::INTENT_LOG {
            sealed[168..184].copy_from_slice(&body[168..184]);
        }
        assert!(sealed == body, "{kind}: opening gives other bytes");
    }
}

/// A pointer to a block that was sealed with salt 1… and IV 2….
fn encrypted_pointer(kind: DmuType, endian: Endian, mac: &[u8; 16]) -> BlkPtr {
    let mut words = [0; 16];
    words[0] = 1;
    words[4] = u64::from_le_bytes([1; 8]);
    words[5] = u64::from_le_bytes([2; 8]);
    let order = u64::from(endian == Endian::Little) << 63;
    words[6] = order | (1 << 61) | (u64::from(kind.0) << 48);
    words[11] = u64::from(u32::from_le_bytes([2; 4])) << 32;
    let (low, high) = mac.split_at(8);
    let word = |half: &[u8]| half.first_chunk::<8>().map_or(0, |b| endian.u64(*b));
    (words[14], words[15]) = (word(low), word(high));
    BlkPtr::from_words(words)
}

/// Shapes of RAID-Z and dRAID vdevs, and where a block lies on them: numbers taken as they come.
fn geometry(data: &[u8]) {
    let words: Vec<u64> = data.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
    let [small, offset, psize, birth, reflow, expansions @ ..] = words.as_slice() else { return };
    let byte = |i: u32| (small >> (8 * i)) & 0xff;
    let (nparity, children, ashift) = (byte(0) % 5, byte(1) as usize, (byte(2) % 32) as u32);
    let expansions = &expansions[..expansions.len().min(8)];
    if let Some(mut shape) = Raidz::new(nparity, ashift, children, expansions, byte(3) & 1 == 1) {
        shape.set_reflow(Reflow { offset: *reflow, scratch_valid: byte(3) & 2 == 2 });
        let asize = shape.asize(*psize, *birth);
        let map = shape.map(*offset, *psize, *birth);
        check_map(map.ok().as_ref(), children, asize, *psize);
    }
    let (ndata, nspares, ngroups) = (byte(4), byte(5), byte(6));
    if let Some(shape) = Draid::new(nparity, ndata, nspares, ngroups, children, ashift) {
        let asize = shape.asize(*psize);
        check_map(shape.map(*offset, *psize).ok().as_ref(), children, asize, *psize);
        if let Some((child, left)) = shape.spare_child(byte(7), *offset) {
            assert!(child < children && left > 0, "a spare lies on a child");
        }
    }
}

fn check_map(map: Option<&BlockMap>, children: usize, asize: u64, psize: u64) {
    let Some(map) = map else { return };
    assert!(asize >= psize, "parity takes room");
    let columns = map.stripes.iter().flat_map(|s| &s.columns);
    for column in columns {
        assert!(column.child < children, "a column lies on a child");
    }
}

/// A configuration, the tree it describes over small devices, and reads from it.
fn vdev_tree(data: &[u8]) {
    let Ok(list) = NvList::decode(data) else { return };
    let Ok(LabelConfig::Member(config)) = LabelConfig::decode(&list) else { return };
    let mut opened = 0;
    let mut open = |leaf: &ondisk::VdevConfig| {
        opened += 1;
        let device: DeviceRef = Arc::new(MemoryDevice::zeros("small", 8 << 20));
        LeafOpen::by_config(leaf, (opened < 64).then_some(device))
    };
    let root = ondisk::VdevConfig { kind: ondisk::VdevKind::Root, ..config.vdev_tree.clone() };
    let whole = VdevTree::build(&rt::Rt::current(), &config.vdev_tree, &mut open);
    let alone = ondisk::VdevConfig { children: vec![config.vdev_tree.clone()], ..root };
    for tree in
        [whole, VdevTree::build(&rt::Rt::current(), &alone, &mut open)].into_iter().flatten()
    {
        let _ = (tree.is_sufficient(), tree.walk().count(), tree.tops().count());
        for (vdev, offset, size) in [(0, 0, 512), (0, 1 << 20, 128 << 10), (1, 0, 4096)] {
            let dva = Dva::new(vdev, offset, size, false);
            let read = BlockRead {
                dva,
                size,
                birth: 1,
                verify: &|b| b.len() as u64 == size,
                speculative: false,
            };
            let _ = tree.read(read);
            let _ = tree.read_batch(vec![read], Scope::All);
            let _ = tree.psize_to_asize(vdev, size, 1);
        }
    }
}

/// The chain structure of a block and its records, in both places the chain can stand.
fn zil(data: &[u8]) {
    let (endian, block) = split(data);
    for place in [ChainPlace::Front, ChainPlace::Back] {
        let Ok(chain) = Chain::decode(block, place, endian) else { continue };
        assert_eq!(chain.encode(endian).len(), CHAIN_SIZE);
        walk_records(chain.records_in(block, place), endian);
    }
    walk_records(block, endian);
    let whole = |data: &[u8], order| records(data, order).collect::<Result<Vec<_>, _>>();
    round(data, whole, |all, order| encode_records(all, order));
}

fn walk_records(bytes: &[u8], endian: Endian) {
    for record in
        records(bytes, endian).chain(records_by(bytes, endian, Record::decode_clear)).flatten()
    {
        let _ = (record.kind.name(), record.object());
        let _ = format!("{record:?}");
    }
}
