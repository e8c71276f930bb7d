//! Encrypted and authenticated blocks as OpenZFS stored them.
//!
//! `data/crypt/*.bin` are a block pointer (128 bytes, little-endian) and the stored block, from the
//! corpus pools `crypt` (ccm128, gcm192, ccm256) and `zil-slog` (gcm256).
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use codec::compress;
use codec::crypto::{MasterKey, Suite, WrappedKey};
use ondisk::blkptr::BLKPTR_SIZE;
use ondisk::{BlkPtr, DmuType, Dnode, Endian, ObjsetPhys};
use zio::ErrorKind;
use zio::crypt::{
    indirect_mac, objset_macs, open_block, seal_block, verify_indirect, verify_objset_macs,
};

macro_rules! stored {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("data/crypt/", $name, ".bin")).as_slice())),*]
    };
}

/// Level-0 blocks of encrypted types.
fn encrypted() -> Vec<(&'static str, BlkPtr, Vec<u8>)> {
    split(&stored![
        "ccm128-dnodes",
        "ccm128-file",
        "ccm256-file",
        "gcm192-file",
        "gcm256-dnodes",
        "gcm256-log-create",
        "gcm256-log-empty",
        "gcm256-log-write",
        "gcm256-log-clone",
    ])
}

fn objsets() -> Vec<(&'static str, BlkPtr, Vec<u8>)> {
    split(&stored!["ccm128-objset", "gcm256-objset"])
}

fn split(files: &[(&'static str, &[u8])]) -> Vec<(&'static str, BlkPtr, Vec<u8>)> {
    let decode = |b: &[u8]| BlkPtr::decode(b, Endian::Little).unwrap();
    files.iter().map(|(n, b)| (*n, decode(b), b[BLKPTR_SIZE..].to_vec())).collect()
}

fn hex<const N: usize>(text: &str) -> [u8; N] {
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

/// The key of the dataset a block is from: the first part of its name says.
fn key_of(block: &str) -> MasterKey {
    let prefix = block.split('-').next().unwrap();
    let keys = include_str!("data/crypt/keys.txt").lines();
    let line = keys.filter_map(|l| l.strip_prefix(prefix)).next().unwrap();
    let f: Vec<&str> = line.split_whitespace().collect();
    let wrapped = WrappedKey {
        suite: Suite::ALL.into_iter().find(|s| s.name() == f[0]).unwrap(),
        version: f[1].parse().unwrap(),
        guid: u64::from_str_radix(f[2], 16).unwrap(),
        iv: hex(f[3]),
        mac: hex(f[4]),
        master: hex(f[5]),
        hmac: hex(f[6]),
    };
    wrapped.unwrap(&hex(f[7])).unwrap()
}

fn opened(name: &str, bp: &BlkPtr, stored: &[u8]) -> Vec<u8> {
    let mut data = stored.to_vec();
    open_block(Some(&key_of(name)), bp, &mut data).unwrap_or_else(|e| panic!("{name}: {e}"));
    data
}

#[test]
fn opens_what_openzfs_encrypted() {
    for (name, bp, stored) in encrypted() {
        assert!(bp.is_encrypted(), "{name}");
        let data = opened(name, &bp, &stored);
        if name.ends_with("-file") {
            let algorithm = compress::from_number(bp.compression().0).unwrap();
            let mut plain = vec![0; bp.lsize() as usize];
            compress::decompress(algorithm, &data, &mut plain).unwrap();
        }
    }
}

/// The bonus of a file is system attributes: their magic number shows that it is plain text.
#[test]
fn bonus_areas_are_decrypted_in_place() {
    for (name, bp, stored) in encrypted().into_iter().filter(|(n, ..)| n.ends_with("dnodes")) {
        let data = opened(name, &bp, &stored);
        let mut files = 0;
        let mut at = 0;
        while at < data.len() {
            if Dnode::is_free_slot(&data[at..]) {
                at += 512;
                continue;
            }
            let dnode = Dnode::decode(&data[at..], bp.byteorder()).unwrap();
            if dnode.bonus_kind == DmuType::SA {
                assert_eq!(dnode.bonus[..4], 0x002f_505a_u32.to_le_bytes(), "{name}: {at}");
                files += 1;
            }
            at += dnode.size();
        }
        assert!(files > 3, "{name}: {files}");
    }
}

#[test]
fn sealing_again_gives_the_same_bytes() {
    for (name, bp, stored) in encrypted() {
        let mut data = opened(name, &bp, &stored);
        let key = key_of(name);
        let (salt, iv, kind) = (bp.crypt_salt(), bp.crypt_iv(), bp.dmu_type());
        let mac = seal_block(&key, kind, bp.byteorder(), salt, &iv, &mut data).unwrap();
        assert_eq!(data, stored, "{name}");
        match kind {
            DmuType::INTENT_LOG => assert_eq!(mac, stored[168..184], "{name}"),
            _ => assert_eq!(mac, bp.crypt_mac(), "{name}"),
        }
    }
}

#[test]
fn without_a_key_only_what_is_readable_passes() {
    for (name, bp, stored) in encrypted() {
        assert_eq!(open_block(None, &bp, &mut stored.clone()), Err(ErrorKind::NoKey), "{name}");
    }
    for (name, bp, stored) in objsets() {
        assert_eq!(open_block(None, &bp, &mut stored.clone()), Ok(()), "{name}");
    }
}

#[test]
fn another_key_does_not_fit() {
    let strangers = [key_of("ccm128-"), key_of("gcm256-")];
    for (name, bp, stored) in encrypted().into_iter().chain(objsets()) {
        for key in strangers.iter().filter(|k| k.guid() != key_of(name).guid()) {
            let result = open_block(Some(key), &bp, &mut stored.clone());
            assert_eq!(result, Err(ErrorKind::Authentication), "{name}");
        }
    }
}

/// Every byte that a raw send carries is authenticated; the rest of a dnode block is not, and
/// this lists exactly what: space used, and of block pointers addresses, births, fill counts, half
/// of the checksum and two fields of the property word.
#[test]
fn every_byte_of_a_dnode_block_is_authenticated_or_not_portable() {
    let (name, bp, stored) = encrypted().remove(0);
    let key = key_of(name);
    let dnode = Dnode::decode(&opened(name, &bp, &stored)[512..], bp.byteorder()).unwrap();
    assert!(dnode.spill.is_none() && !dnode.blkptrs[0].is_hole() && dnode.blkptrs[1].is_hole());
    for at in 0..512 {
        let mut data = stored.clone();
        data[512 + at] ^= 0x01;
        let open = open_block(Some(&key), &bp, &mut data).is_ok();
        let pointer = at.checked_sub(64).map(|p| (p / BLKPTR_SIZE, p % BLKPTR_SIZE));
        let portable = match pointer.filter(|(i, _)| *i < dnode.blkptrs.len()) {
            // The core: flags (the lowest is not the spill flag) and space used.
            None if at < 64 => at != 7 && !(24..32).contains(&at),
            // The bonus.
            None => true,
            // The MAC of the block below, and of the property word all but the checksum algorithm
            // in byte 5; of a hole only what would be the MAC.
            Some((_, 112..)) => true,
            Some((i, p @ 48..56)) => !dnode.blkptrs[i].is_hole() && p != 53,
            Some(_) => false,
        };
        assert_eq!(open, !portable, "byte {at}");
    }
}

#[test]
fn authenticated_blocks_fit_and_changed_ones_do_not() {
    for (name, bp, stored) in split(&stored!["ccm128-authenticated"]) {
        assert!(bp.is_authenticated());
        let key = key_of(name);
        assert_eq!(open_block(Some(&key), &bp, &mut stored.clone()), Ok(()));
        let mut changed = stored.clone();
        changed[100] ^= 1;
        let result = open_block(Some(&key), &bp, &mut changed);
        assert_eq!(result, Err(ErrorKind::Authentication));
    }
}

#[test]
fn indirect_blocks_fit_and_changed_ones_do_not() {
    for (name, bp, stored) in split(&stored!["ccm128-indirect1", "gcm192-indirect2"]) {
        let algorithm = compress::from_number(bp.compression().0).unwrap();
        let mut plain = vec![0; bp.lsize() as usize];
        compress::decompress(algorithm, &stored, &mut plain).unwrap();
        assert_eq!(verify_indirect(&bp, &plain), Ok(()), "{name}");
        assert_eq!(indirect_mac(&plain, 1, bp.byteorder()).unwrap(), bp.crypt_mac());
        // The upper half of the first pointer's checksum is the MAC of the block below.
        plain[120] ^= 1;
        assert_eq!(verify_indirect(&bp, &plain), Err(ErrorKind::Authentication), "{name}");
    }
}

#[test]
fn object_sets_fit_and_changed_ones_do_not() {
    for (name, bp, stored) in objsets() {
        let key = key_of(name);
        assert_eq!(open_block(Some(&key), &bp, &mut stored.clone()), Ok(()), "{name}");
        assert!(objset_macs(&key, &stored, bp.byteorder()).unwrap().local.is_some(), "{name}");
        // Type, flags, both MACs, a pointer's MAC of the meta dnode, size of a user dnode's block.
        // (Not the lowest flag: without finished accounting there is no local MAC.)
        for at in [704, 712, 720, 752, 64 + 112, 1024 + 8] {
            let mut changed = stored.clone();
            changed[at] ^= 2;
            let result = verify_objset_macs(&key, &changed, bp.byteorder());
            assert_eq!(result, Err(ErrorKind::Authentication), "{name}: byte {at}");
        }
        // The log's header is not protected: claiming changes it without a key.
        let mut claimed = stored.clone();
        claimed[512..704].fill(0x55);
        assert_eq!(verify_objset_macs(&key, &claimed, bp.byteorder()), Ok(()), "{name}");
    }
}

/// The MACs of an object set are of its values, so the same ones in the other byte order have
/// the same MACs. (Its pointers stay those to blocks of a little-endian machine.)
#[test]
fn object_set_macs_do_not_depend_on_the_byte_order() {
    for (name, bp, stored) in objsets() {
        let key = key_of(name);
        let little = ObjsetPhys::decode(&stored, bp.byteorder()).unwrap();
        let big = little.encode(Endian::Big);
        assert_ne!(big, stored);
        assert_eq!(verify_objset_macs(&key, &big, Endian::Big), Ok(()), "{name}");
        assert!(verify_objset_macs(&key, &big, Endian::Little).is_err(), "{name}");
    }
}

/// The block of dnodes a big-endian machine would have stored.
#[test]
fn big_endian_dnodes_go_both_ways() {
    let (name, bp, stored) = encrypted().remove(0);
    let key = key_of(name);
    let plain = opened(name, &bp, &stored);
    let mut big = Vec::new();
    while big.len() < plain.len() {
        let rest = &plain[big.len()..];
        if Dnode::is_free_slot(rest) {
            big.extend_from_slice(&[0; 512]);
        } else {
            big.extend(Dnode::decode(rest, Endian::Little).unwrap().encode(Endian::Big));
        }
    }
    let mut sealed = big.clone();
    let mac = seal_block(&key, DmuType::DNODE, Endian::Big, [1; 8], &[2; 12], &mut sealed).unwrap();
    let pointer = pointer(Endian::Big, DmuType::DNODE, mac);
    assert!(pointer.is_encrypted());
    let mut opened = sealed.clone();
    assert_eq!(open_block(Some(&key), &pointer, &mut opened), Ok(()));
    assert_eq!(opened, big);
    // The clear part is still clear, the secret one is not.
    assert_eq!(sealed[512..512 + 64], big[512..512 + 64]);
    assert_ne!(sealed, big);
}

/// Log blocks with all words turned round: the walk and the clear parts follow the byte order.
#[test]
fn big_endian_log_blocks_go_both_ways() {
    let logs = encrypted().into_iter().filter(|(_, bp, _)| bp.dmu_type() == DmuType::INTENT_LOG);
    for (name, bp, stored) in logs {
        let key = key_of(name);
        let mut big = opened(name, &bp, &stored);
        big.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        let mut sealed = big.clone();
        let kind = DmuType::INTENT_LOG;
        let mac = seal_block(&key, kind, Endian::Big, [1; 8], &[2; 12], &mut sealed).unwrap();
        sealed[168..184].copy_from_slice(&mac);
        big[168..184].copy_from_slice(&mac);
        assert_eq!(sealed[..216], big[..216], "{name}: chain and head of the first record");
        let bp = pointer(Endian::Big, kind, [0; 16]);
        assert_eq!(open_block(Some(&key), &bp, &mut sealed), Ok(()), "{name}");
        assert_eq!(sealed, big, "{name}");
    }
}

/// A pointer to an encrypted block with salt `[1; 8]` and IV `[2; 12]`.
fn pointer(endian: Endian, kind: DmuType, mac: [u8; 16]) -> BlkPtr {
    let mut words = [0; 16];
    let order = u64::from(endian == Endian::Little) << 63;
    words[0] = 1;
    words[4] = u64::from_le_bytes([1; 8]);
    words[5] = u64::from_le_bytes([2; 8]);
    words[6] = order | 1 << 61 | u64::from(kind.0) << 48 | 2 << 32;
    words[11] = 0x0202_0202 << 32 | 1;
    words[14] = endian.u64(mac[..8].try_into().unwrap());
    words[15] = endian.u64(mac[8..].try_into().unwrap());
    BlkPtr::from_words(words)
}

#[test]
fn unwalkable_blocks_are_refused_not_followed() {
    let key = key_of("gcm256-");
    let dnodes = |change: fn(&mut [u8])| {
        let mut data = vec![0; 2048];
        change(&mut data);
        let bp = pointer(Endian::Little, DmuType::DNODE, [0; 16]);
        open_block(Some(&key), &bp, &mut data)
    };
    // More slots than the block has, more pointers than the slots have, a spill on top of them,
    // and a block that is not a whole number of slots.
    assert_eq!(dnodes(|d| d[1536 + 12] = 31), Err(ErrorKind::Authentication));
    assert_eq!(dnodes(|d| d[3] = 255), Err(ErrorKind::Authentication));
    assert_eq!(dnodes(|d| d[..8].copy_from_slice(&[1, 0, 0, 3, 0, 0, 0, 4])).err(), {
        Some(ErrorKind::Authentication)
    });
    let bp = pointer(Endian::Little, DmuType::DNODE, [0; 16]);
    assert!(open_block(Some(&key), &bp, &mut [0; 700]).is_err());
    let bp = pointer(Endian::Little, DmuType::INTENT_LOG, [0; 16]);
    for (at, word) in [(136, 1 << 40), (136, u64::MAX), (192, 0), (192, 8), (192, u64::MAX)] {
        let mut data = vec![0; 1024];
        data[136..144].copy_from_slice(&1000_u64.to_le_bytes());
        data[184] = 9;
        data[at..at + 8].copy_from_slice(&word.to_le_bytes());
        assert!(open_block(Some(&key), &bp, &mut data).is_err(), "{at}: {word}");
    }
    assert!(open_block(Some(&key), &bp, &mut [0; 100]).is_err());
    assert!(verify_objset_macs(&key, &[0; 700], Endian::Little).is_err());
}
