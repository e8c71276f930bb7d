//! Targets for what pools are made of: labels, pointers, dnodes, object sets, lists and ZAPs.

use crate::Target;
use core::fmt::Debug;
use device::MemoryDevice;
use device::gpt::Gpt;
use ondisk::zap::{FirstBlock, Leaf, MicroZap, ZapHeader};
use ondisk::{BlkPtr, Dnode, Endian, Error, GangHeader, LabelConfig, NvList, ObjsetPhys};

pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("blkptr", blkptr),
    ("dnode", dnode),
    ("fatzap_header", fatzap_header),
    ("fatzap_leaf", fatzap_leaf),
    ("gang", gang),
    ("gpt", gpt),
    ("label_config", label_config),
    ("microzap", microzap),
    ("nvlist", nvlist),
    ("objset", objset),
    ("uberblock", uberblock),
];

/// Splits off the first byte: the byte order of what follows.
pub(crate) fn split(data: &[u8]) -> (Endian, &[u8]) {
    match data.split_first() {
        Some((first, rest)) if first & 1 == 1 => (Endian::Big, rest),
        Some((_, rest)) => (Endian::Little, rest),
        None => (Endian::Little, data),
    }
}

/// Decodes `data`, and if that works, requires that nothing more changes: encoding and decoding
/// again yields the same value, and a detour through the other byte order the same bytes. The
/// first decoding may normalise, the second must not.
pub(crate) fn round<T: PartialEq + Debug, B: AsRef<[u8]>>(
    data: &[u8],
    decode: impl Fn(&[u8], Endian) -> Result<T, Error>,
    encode: impl Fn(&T, Endian) -> B,
) -> Option<T> {
    let (endian, data) = split(data);
    let value = decode(data, endian).ok()?;
    let reread = |from: &T, order: Endian| match decode(encode(from, order).as_ref(), order) {
        Ok(again) => again,
        Err(error) => panic!("{order:?}: {error} in what was encoded from {from:?}"),
    };
    assert_eq!(value, reread(&value, endian), "{endian:?}: encoding changes the value");
    let detour = reread(&value, endian.swapped());
    assert!(
        encode(&detour, endian).as_ref() == encode(&value, endian).as_ref(),
        "the other byte order changes {value:?} to {detour:?}"
    );
    Some(value)
}

fn blkptr(data: &[u8]) {
    if let Some(pointer) = round(data, BlkPtr::decode, BlkPtr::encode) {
        let _ = format!("{pointer:?}");
    }
}

fn dnode(data: &[u8]) {
    let (endian, _) = split(data);
    if let Some(dnode) = round(data, Dnode::decode, Dnode::encode) {
        let _ = format!("{dnode:?} {endian:?}");
    }
}

fn fatzap_header(data: &[u8]) {
    let Some(header) = round(data, ZapHeader::decode, ZapHeader::encode) else { return };
    let (endian, _) = split(data);
    for hash in [0, 1, u64::MAX, 1 << 63] {
        let _ = header.place(hash);
        let _ = header.leaf_of(hash, endian, |_| Ok::<_, Error>(&data[..data.len().min(4096)]));
    }
    let mut fetched = 0;
    let _ = header.leaf_blocks(endian, |block| {
        fetched += 1;
        match fetched {
            // A table larger than the object it is in is the caller's to notice.
            9.. => Err(ondisk::cursor::Reader::new("fuzz", &[], endian)
                .error("block", ondisk::ErrorKind::Unknown { value: block })),
            _ => Ok(vec![0x11; header.block_size()]),
        }
    });
}

fn fatzap_leaf(data: &[u8]) {
    let decode = |block: &[u8], endian| Leaf::decode(block, endian).map(Leaf::into_owned);
    let Some(leaf) = round(data, decode, Leaf::encode) else { return };
    for integer_keys in [false, true] {
        if let Ok(entries) = leaf.entries(integer_keys) {
            for entry in &entries {
                let _ = (entry.u64(), entry.value_text(), entry.ints().count());
            }
        }
        let _ = leaf.salvage(integer_keys).count();
    }
}

fn gang(data: &[u8]) {
    round(data, GangHeader::decode, GangHeader::encode);
}

/// A disk of 68 sectors at most, of 512 bytes (or 4096 where the first byte is odd).
fn gpt(data: &[u8]) {
    let Some((kind, disk)) = data.split_first() else { return };
    let sector = if kind & 1 == 1 { 4096 } else { 512 };
    let disk = MemoryDevice::from_bytes("disk", disk).with_sector_size(sector);
    if let Ok(Some(table)) = Gpt::read(&disk) {
        let _ = table.zfs().count();
        let _ = format!("{table:?}");
    }
}

fn label_config(data: &[u8]) {
    let _ = ondisk::label::BootEnv::decode(data);
    let Ok(list) = NvList::decode(data) else { return };
    if let Ok(config) = LabelConfig::decode(&list) {
        let _ = (config.guid(), config.state());
        let _ = format!("{config:?}");
    }
}

fn microzap(data: &[u8]) {
    if let Some(zap) = round(data, MicroZap::decode, MicroZap::encode) {
        let _ = (zap.entries(), zap.iter().count(), zap.key_hash());
    }
    let (endian, block) = split(data);
    if let Ok(first) = FirstBlock::decode(block, endian) {
        let _ = first.key_hash().name(block);
    }
}

fn nvlist(data: &[u8]) {
    let Ok((list, packing, used)) = NvList::decode_packed(data) else { return };
    assert!(used <= data.len());
    let packed = match list.encode(packing) {
        Ok(packed) => packed,
        Err(error) => panic!("{error} when packing what was unpacked"),
    };
    assert_eq!(NvList::decode(&packed).as_ref(), Ok(&list), "packing changes the list");
}

fn objset(data: &[u8]) {
    round(data, ObjsetPhys::decode, ObjsetPhys::encode);
}

fn uberblock(data: &[u8]) {
    use ondisk::uberblock::Uberblock;
    let Ok((uberblock, endian)) = Uberblock::decode(data) else { return };
    let again = Uberblock::decode(&uberblock.encode(endian));
    assert_eq!(again, Ok((uberblock, endian)), "encoding changes the value");
    let _ = (uberblock.mmp(), uberblock.raidz_reflow(), uberblock.cmp_age(&uberblock));
}
