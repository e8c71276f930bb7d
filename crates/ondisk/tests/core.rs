//! Block pointers, gang headers, dnodes and object sets, against bytes that OpenZFS 2.3.2 wrote.
//!
//! Samples are named `<pool>-<dataset>-<object>` (MOS: `<pool>-<object>`); the figures are what zdb
//! prints for them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use ondisk::blkptr::{BLKPTR_SIZE, EMBEDDED_PAYLOAD_MAX};
use ondisk::dnode::{DNODE_SLOT_SIZE, FLAG_SPILL, FLAG_USED_BYTES, MAX_LEVELS};
use ondisk::gang::{EMBEDDED_CHECKSUM_MAGIC, EMBEDDED_CHECKSUM_SIZE, GANG_HEADER_SIZE};
use ondisk::objset::{
    FLAG_PROJECTQUOTA_COMPLETE, FLAG_USERACCOUNTING_COMPLETE, FLAG_USEROBJACCOUNTING_COMPLETE,
    OBJSET_SIZE_V1, OBJSET_SIZE_V2, OBJSET_SIZE_V3,
};
use ondisk::{
    BlkPtr, Checksum, Compression, DmuType, Dnode, Dva, EmbeddedKind, Endian, ErrorKind,
    GangHeader, Layout, ObjsetKind, ObjsetPhys,
};

const LITTLE: Endian = Endian::Little;

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("data/core/", $name)).as_slice()
    };
}

fn blkptr(bytes: &[u8]) -> BlkPtr {
    let bp = BlkPtr::decode(bytes, LITTLE).unwrap();
    assert_eq!(bp.encode(LITTLE), bytes[..BLKPTR_SIZE]);
    assert_eq!(BlkPtr::decode(&bp.encode(Endian::Big), Endian::Big).unwrap(), bp);
    bp
}

fn dnode(bytes: &[u8]) -> Dnode {
    let dn = Dnode::decode(bytes, LITTLE).unwrap();
    assert_eq!(dn.encode(LITTLE), bytes);
    assert_eq!(dn.size(), bytes.len());
    let big = dn.encode(Endian::Big);
    assert_eq!(Dnode::decode(&big, Endian::Big).unwrap().encode(LITTLE), bytes);
    dn
}

#[test]
fn an_ordinary_block_pointer() {
    // The root of the pool: three copies, fletcher4, lz4, size=1000L/200P birth=124L/124P.
    let bp = blkptr(sample!("history.rootbp"));
    assert!(!bp.is_hole() && !bp.is_embedded() && !bp.is_gang() && !bp.uses_crypt());
    assert_eq!((bp.dmu_type(), bp.level()), (DmuType::OBJSET, 0));
    assert_eq!(bp.checksum_kind(), Checksum::FLETCHER_4);
    assert_eq!(bp.compression(), Compression::LZ4);
    assert_eq!(bp.byteorder(), LITTLE);
    assert_eq!((bp.lsize(), bp.psize()), (0x1000, 0x200));
    assert_eq!((bp.logical_birth(), bp.physical_birth(), bp.dvas().count()), (124, 124, 3));
    assert_eq!(bp.asize(), 3 * 0x200);
}

#[test]
fn encrypted_block_pointers() {
    // zdb: DVA[0]=<0:48200:4000> DVA[1]=<0:102a600:4000> salt=56bc3b86a877e4a
    // iv=f7e2149168706484:fa0a4790 [L0 DMU dnode] fletcher4 uncompressed encrypted LE contiguous
    // unique double size=4000L/4000P birth=11L/11P fill=31 cksum=c366c0717f5aae63:36328ff03c889259:
    // 5404a21b3014dd76:9fc7ff6a41e755eb
    let bp = blkptr(sample!("crypt-80.l0"));
    assert!(bp.is_encrypted() && !bp.is_authenticated() && !bp.has_indirect_mac());
    let dvas: Vec<_> = bp.dvas().map(|(_, d)| format!("{d:?}")).collect();
    assert_eq!(dvas, ["0:48200:4000", "0:102a600:4000"], "the third is not an address");
    assert_eq!(bp.crypt_salt(), 0x056b_c3b8_6a87_7e4a_u64.to_le_bytes());
    assert_eq!(bp.crypt_iv()[..8], 0xf7e2_1491_6870_6484_u64.to_le_bytes());
    assert_eq!(bp.crypt_iv()[8..], 0xfa0a_4790_u32.to_le_bytes());
    assert_eq!(bp.fill(), 31);
    assert_eq!(bp.checksum()[0], 0xc366_c071_7f5a_ae63);
    assert_eq!(bp.crypt_mac()[..8], 0x5404_a21b_3014_dd76_u64.to_le_bytes());
    assert_eq!(bp.crypt_mac()[8..], 0x9fc7_ff6a_41e7_55eb_u64.to_le_bytes());
    assert_eq!(blkptr(&sample!("crypt-80.l0")[BLKPTR_SIZE..]).fill(), 16);

    // zdb: [L1 DMU dnode] fletcher4 lz4 indirect-MAC ... size=20000L/400P birth=31L/31P fill=47
    let above = blkptr(sample!("crypt-80.l1"));
    assert!(above.has_indirect_mac() && !above.is_encrypted() && above.uses_crypt());
    assert_eq!((above.level(), above.fill(), above.lsize()), (1, 47, 0x20000));
}

#[test]
fn embedded_block_pointers() {
    // zdb: Spill block: EMBEDDED [L0 System attributes] et=0 lz4 size=1000L/2cP birth=13L
    let bp = dnode(sample!("basic-110-29.dnode")).spill.unwrap();
    assert!(bp.is_embedded() && !bp.is_hole() && !bp.is_redacted() && !bp.is_dedup());
    assert_eq!(bp.embedded_kind(), EmbeddedKind::Data);
    assert_eq!((bp.dmu_type(), bp.compression()), (DmuType::SA, Compression::LZ4));
    assert_eq!((bp.lsize(), bp.psize(), bp.logical_birth()), (0x1000, 0x2c, 13));
    assert_eq!((bp.dvas().count(), bp.fill(), bp.physical_birth()), (0, 1, 0));
    assert_eq!(bp.checksum_kind(), Checksum::OFF);
    let payload = bp.embedded_payload();
    assert_eq!(payload.len(), 0x2c);
    // LZ4 begins with the length of the code, most significant byte first.
    let code = u32::from_be_bytes(payload[..4].try_into().unwrap());
    assert!(code <= 0x2c - 4, "{code}");
}

#[test]
fn gang_blocks() {
    // zdb: DVA[0]=<0:14800:1200> DVA[1]=<0:1014800:1200> DVA[2]=<0:200ca00:1200> [L0 object
    // directory] fletcher4 lz4 unencrypted LE gang unique triple size=4000L/1000P birth=7L/7P
    let bp = blkptr(sample!("gang-1.bp"));
    assert!(bp.is_gang());
    assert_eq!(format!("{:?}", bp.dva(2)), "0:200ca00:1200G");
    assert_eq!((bp.lsize(), bp.psize()), (0x4000, 0x1000));

    let bytes = sample!("gang.header");
    assert_eq!(bytes.len(), GANG_HEADER_SIZE);
    let header = GangHeader::decode(bytes, LITTLE).unwrap();
    assert_eq!(header.encode(LITTLE), bytes);
    assert_eq!(header.parts.len(), 3);
    let sizes: Vec<_> = header.parts.iter().map(BlkPtr::psize).collect();
    assert_eq!(sizes, [0x600, 0x600, 0x400]);
    assert_eq!(sizes.iter().sum::<u64>(), bp.psize(), "the parts make up the whole");
    for part in &header.parts {
        assert_eq!((part.compression(), part.logical_birth()), (Compression::OFF, 7));
        assert!(!part.is_gang());
    }
    let trailer = &bytes[bytes.len() - EMBEDDED_CHECKSUM_SIZE..];
    assert_eq!(trailer[..8], EMBEDDED_CHECKSUM_MAGIC.to_le_bytes());
    assert!(GangHeader::decode(&bytes[..100], LITTLE).is_err());
    // A header as large as a 4 KiB sector has room for 31 parts.
    assert_eq!(GangHeader::decode(&[0; 4096], LITTLE).unwrap().parts.len(), 31);
}

#[test]
fn holes() {
    assert!(BlkPtr::HOLE.is_hole() && BlkPtr::default() == BlkPtr::HOLE);
    assert_eq!(BlkPtr::HOLE.dvas().count(), 0);
    // A file of 300 MiB with one block at its end: the dnode's other pointers are holes.
    let dn = dnode(sample!("basic-120-9.dnode"));
    assert_eq!((dn.levels, dn.max_block, dn.block_size()), (3, 2400, 128 << 10));
    assert!(!dn.blkptrs[0].is_hole());
}

#[test]
fn dvas() {
    let dva = Dva::new(7, 0x1234_5600, 0x2_0000, true);
    assert_eq!(
        (dva.vdev(), dva.offset(), dva.asize(), dva.is_gang()),
        (7, 0x1234_5600, 0x2_0000, true)
    );
    assert_eq!(format!("{dva:?}"), "7:12345600:20000G");
    let [a, b] = dva.words();
    assert_eq!(Dva::from_words(a, b), dva);
    assert!(Dva::default().is_empty() && !dva.is_empty());
    // 2^63 - 1 sectors do not fit 64 bits of bytes: clamped, so that every range check fails.
    assert_eq!(Dva::from_words(1, u64::MAX >> 1).offset(), u64::MAX);
}

#[test]
fn a_dnode_with_spill() {
    let dn = dnode(sample!("basic-110-29.dnode"));
    assert_eq!((dn.kind, dn.bonus_kind), (DmuType::PLAIN_FILE_CONTENTS, DmuType::SA));
    assert_eq!((dn.bonus.len(), dn.block_size(), dn.levels), (192, 512, 1));
    assert_eq!(dn.flags & FLAG_SPILL, FLAG_SPILL);
    assert_eq!(dn.used_bytes(), 0);
    assert!(dn.blkptrs[0].is_hole());
}

#[test]
fn large_dnodes() {
    let dn = dnode(sample!("mirror-215-4.dnode"));
    assert_eq!((dn.size(), dn.extra_slots, dn.bonus.len()), (1024, 1, 176));
    let dn = dnode(sample!("mirror-215-140.dnode"));
    assert_eq!((dn.size(), dn.bonus.len(), dn.used_bytes()), (1024, 704, 12 << 10));
    assert_eq!(dn.block_size(), 3072);
    let spill = dn.spill.as_ref().unwrap();
    assert_eq!(format!("{:?}", spill.dva(0)), "0:479d000:1000");
    assert_eq!((spill.lsize(), spill.psize()), (0x400, 0x400));
    assert!(Dnode::decode(&sample!("mirror-215-140.dnode")[..512], LITTLE).is_err(), "cut");
}

#[test]
fn dnodes_that_lie() {
    let good = sample!("basic-54-1.dnode");
    assert_eq!(dnode(good).kind, DmuType::MASTER_NODE);
    assert!(dnode(sample!("basic-54-2.dnode")).blkptrs[0].is_embedded());
    // Byte to change, value, field that must be named.
    let wrong = [
        (0, 0, "type"),
        (0, 54, "type"),
        (0, 0x8a, "type"),
        (1, 9, "indblkshift"),
        (1, 21, "indblkshift"),
        (2, 0, "nlevels"),
        (2, MAX_LEVELS + 1, "nlevels"),
        (3, 0, "nblkptr"),
        (3, 4, "nblkptr"),
        (9, 0x81, "datablkszsec"),
        (11, 2, "bonuslen"),
        (12, 32, "extra_slots"),
    ];
    for (at, value, field) in wrong {
        let mut bytes = good.to_vec();
        bytes[at] = value;
        let e = Dnode::decode(&bytes, LITTLE).unwrap_err();
        assert_eq!((e.structure, e.field), ("dnode", field), "byte {at} = {value}");
    }
    // Three block pointers and a spill pointer are more than 512 bytes hold.
    let mut crowded = good.to_vec();
    (crowded[3], crowded[7]) = (3, FLAG_SPILL);
    let e = Dnode::decode(&crowded, LITTLE).unwrap_err();
    assert!(matches!(e.kind, ErrorKind::Inconsistent(_)));

    let mut old = good.to_vec();
    old[7] &= !FLAG_USED_BYTES;
    old[24..32].copy_from_slice(&3u64.to_le_bytes());
    assert_eq!(Dnode::decode(&old, LITTLE).unwrap().used_bytes(), 1536, "counted in sectors");
    assert!(Dnode::is_free_slot(&[0; 512]) && Dnode::is_free_slot(&[]));
}

#[test]
fn object_sets() {
    let bytes = sample!("history-mos.objset");
    let mos = ObjsetPhys::decode(bytes, LITTLE).unwrap();
    assert_eq!(mos.encode(LITTLE), bytes);
    assert_eq!((mos.kind, mos.flags, mos.size), (ObjsetKind::Meta, 0, OBJSET_SIZE_V3));
    assert_eq!(mos.meta_dnode.as_ref().map(|d| d.kind), Some(DmuType::DNODE));
    assert!(mos.user_used.is_none() && mos.zil.log.is_hole());

    let bytes = sample!("crypt-80.objset");
    let fs = ObjsetPhys::decode(bytes, LITTLE).unwrap();
    assert_eq!(fs.encode(LITTLE), bytes);
    let all =
        FLAG_USERACCOUNTING_COMPLETE | FLAG_USEROBJACCOUNTING_COMPLETE | FLAG_PROJECTQUOTA_COMPLETE;
    assert_eq!((fs.kind, fs.flags), (ObjsetKind::Zfs, all));
    assert_eq!(fs.meta_dnode.as_ref().map(|d| (d.levels, d.max_block)), Some((6, 1)));
    for used in [&fs.user_used, &fs.group_used, &fs.project_used] {
        assert_eq!(used.as_ref().map(|d| d.kind), Some(DmuType::USERGROUP_USED));
    }
    assert_ne!((fs.portable_mac, fs.local_mac), ([0; 32], [0; 32]));

    let big = fs.encode(Endian::Big);
    let there = ObjsetPhys::decode(&big, Endian::Big).unwrap();
    assert_eq!(there.encode(LITTLE), bytes, "there and back");
}

#[test]
fn sizes_of_object_sets() {
    let bytes = sample!("crypt-80.objset");
    let v1 = ObjsetPhys::decode(&bytes[..OBJSET_SIZE_V1], LITTLE).unwrap();
    assert!(v1.meta_dnode.is_some() && v1.user_used.is_none());
    assert_eq!(v1.encode(LITTLE), bytes[..OBJSET_SIZE_V1]);
    let v2 = ObjsetPhys::decode(&bytes[..OBJSET_SIZE_V2], LITTLE).unwrap();
    assert!(v2.group_used.is_some() && v2.project_used.is_none());
    assert_eq!(v2.encode(LITTLE), bytes[..OBJSET_SIZE_V2]);
    let e = ObjsetPhys::decode(&bytes[..512], LITTLE).unwrap_err();
    assert!(matches!(e.kind, ErrorKind::Truncated { .. }));

    let mut without = ObjsetPhys::decode(bytes, LITTLE).unwrap();
    without.project_used = None;
    let out = without.encode(LITTLE);
    assert!(Dnode::is_free_slot(&out[2048..]), "a dnode that is taken out is gone");
    assert_eq!(out[..2048], bytes[..2048]);
}

#[test]
fn types_describe_themselves() {
    assert_eq!(DmuType::OBJSET.to_string(), "DMU objset");
    assert_eq!(DmuType(77).to_string(), "type 77");
    let t = DmuType(0xc4);
    assert_eq!((t.layout(), t.is_metadata(), t.is_encrypted()), (Layout::Zap, true, false));
    let t = DmuType(0xa3);
    assert_eq!((t.layout(), t.is_metadata(), t.is_encrypted()), (Layout::U64, false, true));
    assert!(DmuType(0x89).is_valid() && !DmuType(0x8a).is_valid() && !DmuType(54).is_valid());
    for n in 0..=255 {
        assert!(!DmuType(n).name().is_empty());
    }
    assert!(DmuType::DNODE.is_encrypted() && !DmuType::ZNODE.is_encrypted());
}

#[test]
fn names_of_algorithms() {
    assert_eq!(Compression::ZSTD.name(), Some("zstd"));
    assert_eq!(Checksum::BLAKE3.to_string(), "blake3");
    assert_eq!(Checksum(99).name(), None);
    assert_eq!(Compression(99).to_string(), "Compression(99)");
}

mod hostile {
    //! Any bytes: an error or a value, never a panic; a value survives encoding.

    use super::*;
    use proptest::prelude::*;

    fn endian() -> impl Strategy<Value = Endian> {
        prop_oneof![Just(Endian::Little), Just(Endian::Big)]
    }

    /// A dnode sample with some bytes of its head replaced: most get past the first checks.
    fn nearly_a_dnode() -> impl Strategy<Value = Vec<u8>> {
        let changes = prop::collection::vec((0usize..64, any::<u8>()), 0..4);
        (changes, 0usize..1025, prop::bool::ANY).prop_map(|(changes, len, spill)| {
            let mut bytes = sample!("mirror-215-140.dnode").to_vec();
            for (at, value) in changes {
                bytes[at] = value;
            }
            if spill {
                bytes[7] ^= FLAG_SPILL;
            }
            bytes.truncate(len.max(1));
            bytes
        })
    }

    proptest! {
        #[test]
        fn block_pointers(words in prop::array::uniform16(any::<u64>()), e in endian()) {
            let bp = BlkPtr::from_words(words);
            prop_assert_eq!(BlkPtr::decode(&bp.encode(e), e), Ok(bp));
            prop_assert!(bp.embedded_payload().len() <= EMBEDDED_PAYLOAD_MAX);
            prop_assert!(bp.dvas().count() <= 3);
            prop_assert!(bp.lsize() > 0 && bp.psize() > 0);
            prop_assert!(!(bp.is_encrypted() && bp.is_authenticated()));
            let _ = (bp.asize(), bp.fill(), bp.crypt_iv(), bp.crypt_mac(), bp.crypt_salt());
            let _ = (bp.is_hole(), bp.is_redacted(), bp.embedded_kind(), bp.physical_birth());
            let _ = format!("{bp:?}");
        }

        #[test]
        fn short_block_pointers(bytes in prop::collection::vec(any::<u8>(), 0..BLKPTR_SIZE)) {
            prop_assert!(BlkPtr::decode(&bytes, LITTLE).is_err());
        }

        #[test]
        fn addresses(vdev: u32, sectors in 0u64..1 << 54, size in 0u64..1 << 24, gang: bool) {
            let dva = Dva::new(vdev, sectors * 512, size * 512, gang);
            prop_assert_eq!((dva.vdev(), dva.offset()), (vdev, sectors * 512));
            prop_assert_eq!((dva.asize(), dva.is_gang(), dva.grid()), (size * 512, gang, 0));
        }

        #[test]
        fn dnodes(bytes in nearly_a_dnode(), e in endian()) {
            if let Ok(dn) = Dnode::decode(&bytes, e) {
                prop_assert_eq!(&dn.encode(e)[..], &bytes[..dn.size()]);
                let _ = (dn.used_bytes(), dn.block_size(), dn.pointers_per_indirect());
            }
        }

        #[test]
        fn random_dnodes(bytes in prop::collection::vec(any::<u8>(), 0..3 * DNODE_SLOT_SIZE)) {
            if let Ok(dn) = Dnode::decode(&bytes, LITTLE) {
                prop_assert_eq!(&dn.encode(LITTLE)[..], &bytes[..dn.size()]);
            }
        }

        #[test]
        fn gang_headers(bytes in prop::collection::vec(any::<u8>(), 0..2000), e in endian()) {
            if let Ok(h) = GangHeader::decode(&bytes, e) {
                prop_assert_eq!(h.encode(e), bytes);
            }
        }

        #[test]
        fn nearly_object_sets(changes in prop::collection::vec((0usize..4096, any::<u8>()), 0..9),
                              len in prop_oneof![
                                  Just(1024usize), Just(2048), Just(4096), 0usize..5000,
                              ],
                              e in endian()) {
            let mut bytes = sample!("crypt-80.objset").to_vec();
            for (at, value) in changes {
                bytes[at] = value;
            }
            bytes.resize(len, 0);
            if let Ok(o) = ObjsetPhys::decode(&bytes, e) {
                prop_assert_eq!(&o.encode(e)[..], &bytes[..o.size]);
            }
        }

        #[test]
        fn random_object_sets(bytes in prop::collection::vec(any::<u8>(), 0..5000), e in endian()) {
            let _ = ObjsetPhys::decode(&bytes, e);
        }
    }
}
