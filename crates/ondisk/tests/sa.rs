//! System attributes, old znodes and ACLs that OpenZFS 2.3.2 wrote, and hostile ones.
//!
//! The samples were cut from `basic` (registry, layouts leaf, dnodes 6 and 12 and a spill block of
//! `tank/xattr-sa`, dnode 6 of `tank/flags`) and `version28` (dnodes 12 and 34 of `v28/zpl1`). What
//! the files are is told by the manifests of these pools.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ondisk::acl::{self, Ace, AceWho, AclPhys, PosixEntry, PosixWho};
use ondisk::sa::{AttrInfo, SaHeader, SaTables, SaValue, ZPL_ATTRS, places, zpl};
use ondisk::zap::{Leaf, MicroZap};
use ondisk::znode::{Dirent, Znode, device_numbers, device_word, flags, mode};
use ondisk::{Dnode, Endian, NvList, NvValue};
use proptest::prelude::*;

const LITTLE: Endian = Endian::Little;
const REGISTRY: &[u8] = include_bytes!("data/sa/registry.bin");
const LAYOUTS: &[u8] = include_bytes!("data/sa/layouts-leaf.bin");
const SYMLINK: &[u8] = include_bytes!("data/sa/dnode-symlink-xattr.bin");
const WITH_SPILL: &[u8] = include_bytes!("data/sa/dnode-spill.bin");
const SPILL: &[u8] = include_bytes!("data/sa/spill-block.bin");
const PROJECT: &[u8] = include_bytes!("data/sa/dnode-project.bin");
const OLD_FILE: &[u8] = include_bytes!("data/sa/dnode-znode-file.bin");
const OLD_SYMLINK: &[u8] = include_bytes!("data/sa/dnode-znode-symlink.bin");

fn tables() -> SaTables {
    let registry = MicroZap::decode(REGISTRY, LITTLE).unwrap();
    let layouts = Leaf::decode(LAYOUTS, LITTLE).unwrap().entries(false).unwrap();
    SaTables::new(
        registry.iter().map(|e| (e.name, e.value)),
        layouts.iter().map(|e| (e.name.bytes().unwrap(), e.ints())),
    )
    .unwrap()
}

fn bonus(dnode: &[u8]) -> Vec<u8> {
    Dnode::decode(dnode, LITTLE).unwrap().bonus
}

#[test]
fn registry_is_the_list_of_known_attributes() {
    let tables = tables();
    for (number, (name, length, class)) in ZPL_ATTRS.into_iter().enumerate() {
        let number = number as u16;
        assert_eq!(tables.attr(name), Some(AttrInfo { number, length, class }), "{name}");
    }
    assert_eq!(tables.attrs().count(), ZPL_ATTRS.len());
    for e in MicroZap::decode(REGISTRY, LITTLE).unwrap().iter() {
        assert_eq!(AttrInfo::decode(e.value).unwrap().encode(), e.value);
    }
    assert_eq!(tables.layout(1), Some(&[][..]));
    assert_eq!(tables.layout(4), Some(&[20][..]));
    assert_eq!(tables.layout(10), None);
    assert_eq!(tables.find_layout(&[20]), Some(4));
}

#[test]
fn symlink_with_three_variable_attributes() {
    let tables = tables();
    let bonus = bonus(SYMLINK);
    let header = SaHeader::decode(&bonus).unwrap();
    assert_eq!((header.layout, header.size, header.endian), (8, 16, LITTLE));
    let file = tables.read(&bonus, None).unwrap();
    assert_eq!(file.u64(zpl::MODE), Some(mode::SYMLINK | 0o777));
    assert_eq!(file.u64(zpl::SIZE), Some(3));
    assert_eq!(file.get(zpl::SYMLINK).unwrap().bytes, b"one");
    assert_eq!(file.get(zpl::MTIME).unwrap().time(), Some((1_795_289_129, 344_000_978)));
    assert!(file.get(zpl::PROJID).is_none());
    let xattrs = NvList::decode(&file.get(zpl::DXATTR).unwrap().bytes).unwrap();
    assert!(matches!(xattrs.get("trusted.on-link"), Some(NvValue::ByteArray(v)) if v == b"link"));

    let count = file.u64(zpl::DACL_COUNT).unwrap();
    let aces = &file.get(zpl::DACL_ACES).unwrap();
    let list = acl::decode_aces(&aces.bytes, acl::VERSION_FUID, count, aces.endian).unwrap();
    let who: Vec<AceWho> = list.iter().map(Ace::who).collect();
    assert_eq!(who, [AceWho::Owner, AceWho::OwningGroup, AceWho::Everyone]);
    assert_eq!(acl::encode_aces(&list, acl::VERSION_FUID, LITTLE), aces.bytes);
}

#[test]
fn spill_block_adds_attributes() {
    let tables = tables();
    let bonus = bonus(WITH_SPILL);
    assert!(tables.read(&bonus, None).unwrap().get(zpl::DXATTR).is_none());
    let file = tables.read(&bonus, Some(SPILL)).unwrap();
    assert_eq!(file.u64(zpl::MODE), Some(mode::FILE | 0o644));
    let packed = &file.get(zpl::DXATTR).unwrap().bytes;
    let xattrs = NvList::decode(packed).unwrap();
    assert_eq!(xattrs.pairs.len(), 6);
    assert!(xattrs.pairs.iter().all(|p| p.name.starts_with(b"user.spill")));
}

#[test]
fn project_id_is_an_attribute() {
    let tables = tables();
    let bonus = bonus(PROJECT);
    let file = tables.read(&bonus, None).unwrap();
    assert_eq!(file.u64(zpl::PROJID), Some(42));
    assert_ne!(file.u64(zpl::FLAGS).unwrap() & flags::PROJID, 0);
    assert_eq!(file.u64(zpl::UID), Some(0));
}

#[test]
fn encoding_gives_the_same_bytes() {
    let tables = tables();
    for bytes in [bonus(SYMLINK), bonus(WITH_SPILL), bonus(PROJECT), SPILL.to_vec()] {
        let header = SaHeader::decode(&bytes).unwrap();
        let values = tables.split(&bytes).unwrap();
        let encoded = tables.encode(header.layout, &values, header.endian).unwrap();
        // A bonus ends with its last attribute, a spill block with filler to a sector.
        let common = encoded.len().min(bytes.len());
        assert_eq!(encoded[..common], bytes[..common]);
        assert!(encoded.len() < bytes.len() + 8);
        assert!(bytes[common..].iter().all(|b| *b == 0));
    }
}

#[test]
fn byte_order_is_that_of_the_magic() {
    let tables = tables();
    let values = tables.split(&bonus(PROJECT)).unwrap();
    let swapped: Vec<SaValue> = values
        .iter()
        .map(|v| {
            let bytes = v.words().flat_map(u64::to_be_bytes).collect();
            SaValue { number: v.number, bytes, endian: Endian::Big }
        })
        .collect();
    let big = tables.encode(2, &swapped, Endian::Big).unwrap();
    let file = tables.read(&big, None).unwrap();
    assert_eq!((file.u64(zpl::PROJID), file.u64(zpl::SIZE)), (Some(42), Some(10)));
}

#[test]
fn tables_that_contradict_themselves_are_refused() {
    let none = core::iter::empty::<(&[u8], Vec<u64>)>;
    let two = [(&b"A"[..], 0x0800_0000), (&b"B"[..], 0x0800_0000)];
    assert!(SaTables::new(two, none()).is_err(), "two attributes of one number");
    assert!(SaTables::new([(&b"A"[..], 0x0009_0000)], none()).is_err(), "unknown class");
    let one = [(&b"A"[..], 0x0800_0000)];
    assert!(SaTables::new(one, [(&b"2"[..], vec![0])]).is_ok());
    assert!(SaTables::new(one, [(&b"2"[..], vec![1])]).is_err(), "unregistered attribute");
    assert!(SaTables::new(one, [(&b"1024"[..], vec![0])]).is_err(), "11 bits of layout");
    assert!(SaTables::new(one, [(&b"x"[..], vec![0])]).is_err());
}

#[test]
fn old_znodes() {
    let dnode = Dnode::decode(OLD_FILE, LITTLE).unwrap();
    let file = Znode::decode(&dnode.bonus, LITTLE).unwrap();
    assert_eq!(file.encode(LITTLE), dnode.bonus);
    assert_eq!((file.mode, file.size, file.links), (mode::FILE | 0o644, 112, 1));
    assert_eq!((file.mtime.seconds, file.mtime.nanos), (1_795_294_618, 744_000_944));
    assert_eq!(file.inline_symlink(), None);
    let aces = file.acl.embedded_aces(LITTLE).unwrap().unwrap();
    assert_eq!(aces.len() as u64, file.acl.count);
    assert!(aces.iter().any(|a| a.who() == AceWho::Owner));
    assert!(aces.iter().any(|a| a.who() == AceWho::Everyone));
    assert_eq!(
        acl::encode_aces(&aces, file.acl.version, LITTLE),
        file.acl.embedded[..file.acl.size as usize]
    );
    let big = Znode::decode(&file.encode(Endian::Big), Endian::Big).unwrap();
    assert_eq!((big.size, big.mtime), (file.size, file.mtime));

    let dnode = Dnode::decode(OLD_SYMLINK, LITTLE).unwrap();
    let link = Znode::decode(&dnode.bonus, LITTLE).unwrap();
    assert_eq!(link.inline_symlink(), Some(&b"dir1/sub3"[..]));
    assert_eq!(link.encode(LITTLE), dnode.bonus);
}

#[test]
fn aces_of_both_versions_and_all_sizes() {
    let ace = |kind, flags, id| Ace { kind, flags, mask: 0x1601ff, id, object: None };
    let guids = Some([[1; 16], [2; 16]]);
    let list = [
        ace(acl::TYPE_DENY, acl::FLAG_OWNER, 0),
        ace(acl::TYPE_ALLOW, acl::FLAG_GROUP | acl::FLAG_IDENTIFIER_GROUP, 0),
        ace(acl::TYPE_ALLOW, 0x3, 0x1_0000_03e8),
        ace(acl::TYPE_ALLOW, acl::FLAG_IDENTIFIER_GROUP, 100),
        // Audit entries always have an id.
        ace(2, acl::FLAG_EVERYONE, 7),
        Ace { object: guids, ..ace(5, 0, 9) },
    ];
    for endian in [LITTLE, Endian::Big] {
        let data = acl::encode_aces(&list, acl::VERSION_FUID, endian);
        assert_eq!(data.len(), 8 + 8 + 16 + 16 + 16 + 48);
        let back = acl::decode_aces(&data, acl::VERSION_FUID, 6, endian).unwrap();
        assert_eq!(back, list);
        assert!(acl::decode_aces(&data, acl::VERSION_FUID, 5, endian).is_err());
        assert!(acl::decode_aces(&data, acl::VERSION_FUID, 7, endian).is_err());
        assert!(acl::decode_aces(&data, 2, 6, endian).is_err());
    }
    assert_eq!(list[2].who(), AceWho::User(0x1_0000_03e8));
    assert_eq!(list[3].who(), AceWho::Group(100));
    let old = acl::encode_aces(&list[..2], acl::VERSION_INITIAL, LITTLE);
    assert_eq!(old.len(), 24);
    assert_eq!(acl::decode_aces(&old, acl::VERSION_INITIAL, 2, LITTLE).unwrap(), list[..2]);
    assert!(acl::decode_aces(&old, acl::VERSION_FUID, u64::MAX, LITTLE).is_err());
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

#[test]
fn posix_lists_read_as_getfacl_prints_them() {
    // xattrs and text of `acl-dir` and `acl` in the manifest of `basic`.
    let access = "0200000001000700ffffffff02000700e903000004000500ffffffff10000700ffffffff\
                  20000500ffffffff";
    let default = "0200000001000700ffffffff02000700e903000004000500ffffffff08000400c8000000\
                   10000700ffffffff20000500ffffffff";
    let text = "user::rwx\nuser:1001:rwx\ngroup::r-x\nmask::rwx\nother::r-x\n\
                default:user::rwx\ndefault:user:1001:rwx\ndefault:group::r-x\n\
                default:group:200:r--\ndefault:mask::rwx\ndefault:other::r-x";
    let (access, default) = (hex(access), hex(default));
    let (a, d) = (acl::decode_posix(&access).unwrap(), acl::decode_posix(&default).unwrap());
    assert_eq!(acl::posix_text(&a, &d), text);
    assert_eq!((acl::encode_posix(&a), acl::encode_posix(&d)), (access, default));
    assert_eq!(a[1], PosixEntry::new(PosixWho::User(1001), 7));

    assert!(acl::decode_posix(&hex("0300000001000700ffffffff")).is_err(), "version");
    assert!(acl::decode_posix(&hex("0200000003000700ffffffff")).is_err(), "tag");
    assert!(acl::decode_posix(&hex("0200000001000800ffffffff")).is_err(), "permissions");
    assert!(acl::decode_posix(&hex("02000000010007")).is_err(), "cut");
    let plain = acl::posix_from_mode(0o100_640);
    assert_eq!(acl::posix_text(&plain, &[]), "user::rw-\ngroup::r--\nother::---");
}

#[test]
fn directory_entries_and_devices() {
    let entry = Dirent::decode(0x4000_0000_0000_0022);
    assert_eq!((entry.object, entry.mode_type()), (34, Some(mode::DIR)));
    assert_eq!(entry.encode(), 0x4000_0000_0000_0022);
    assert_eq!(Dirent::decode(0x0fff_0000_0000_0001), Dirent { object: 1, kind: 0 });
    assert_eq!(Dirent::decode(1).mode_type(), None);
    // The words of `null`, `disk` and `large-dev` of `basic`.
    let devices = [(0x10_0003, 1, 3), (0x80_0011, 8, 17), (0x1fef_4240, 510, 1_000_000)];
    for (word, major, minor) in devices {
        assert_eq!(device_numbers(word), (major, minor));
        assert_eq!(device_word(major, minor), word);
    }
    assert_eq!(device_numbers(0x0000_00d8_0000_0002), (216, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_attributes_never_panic(
        which in 0..6usize,
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let tables = tables();
        let mut data = match which {
            0 => bonus(SYMLINK),
            1 => bonus(PROJECT),
            2 => SPILL.to_vec(),
            3 => bonus(OLD_FILE),
            4 => bonus(OLD_SYMLINK),
            _ => Vec::new(),
        };
        if let Some(cut) = cut {
            data.truncate(cut.index(data.len() + 1));
        }
        for (at, value) in hits {
            let i = at.index(data.len().max(1));
            if let Some(byte) = data.get_mut(i) {
                *byte = value;
            }
        }
        let spill = if which == 2 { Some(data.as_slice()) } else { None };
        if let Ok(file) = tables.read(&data, spill) {
            let size: usize = file.values.iter().map(|v| v.bytes.len()).sum();
            prop_assert!(size <= 2 * data.len());
            for v in &file.values {
                let _ = acl::decode_aces(&v.bytes, acl::VERSION_FUID, 3, v.endian);
                let _ = acl::decode_posix(&v.bytes);
            }
        }
        for endian in [LITTLE, Endian::Big] {
            if let Ok(znode) = Znode::decode(&data, endian) {
                prop_assert_eq!(znode.encode(endian), data.clone());
                let _ = znode.acl.embedded_aces(endian);
                let _ = (znode.inline_symlink(), znode.scanstamp());
            }
            let _ = AclPhys::decode(&data, endian);
        }
        let _ = ondisk::fuid::FuidTable::decode(&data);
        for has_spill in [false, true] {
            if let Some(found) = places::in_bonus(&data, has_spill) {
                prop_assert!(found.places.iter().all(|(_, place)| place.end <= data.len()));
            }
        }
        let aces = Some(3);
        let facts = places::Facts { mode: mode::SYMLINK, size: 3, flags: u64::MAX, aces };
        if let Some(found) = places::in_spill(&data, facts) {
            prop_assert!(found.places.iter().all(|(_, place)| place.end <= data.len()));
        }
    }

    #[test]
    fn any_value_of_the_registry_is_kept_or_refused(value in any::<u64>()) {
        if let Ok(info) = AttrInfo::decode(value) {
            prop_assert_eq!(info.encode(), value & 0xff_ffff_ffff);
        }
    }
}

/// Names and bytes, in the order of the block.
fn named(tables: &SaTables, data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let name = |number| {
        let (name, _) = tables.attrs().find(|(_, info)| info.number == number).unwrap();
        String::from_utf8(name.to_vec()).unwrap()
    };
    tables.split(data).unwrap().into_iter().map(|v| (name(v.number), v.bytes)).collect()
}

fn by_places(found: &places::Found, data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let bytes = |(name, place): &(&str, std::ops::Range<usize>)| {
        ((*name).to_owned(), data[place.clone()].to_vec())
    };
    found.places.iter().map(bytes).collect()
}

#[test]
fn attributes_are_found_without_their_tables() {
    let tables = tables();
    for (dnode, has_spill) in [(SYMLINK, false), (WITH_SPILL, true), (PROJECT, false)] {
        let bonus = bonus(dnode);
        let found = places::in_bonus(&bonus, has_spill).unwrap();
        assert!(found.is_whole);
        assert_eq!(by_places(&found, &bonus), named(&tables, &bonus));
    }
    let bonus = bonus(WITH_SPILL);
    let file = tables.read(&bonus, None).unwrap();
    let facts = places::Facts {
        mode: file.u64(zpl::MODE).unwrap(),
        size: file.u64(zpl::SIZE).unwrap(),
        flags: file.u64(zpl::FLAGS).unwrap(),
        aces: file.u64(zpl::DACL_COUNT),
    };
    let found = places::in_spill(SPILL, facts).unwrap();
    assert!(found.is_whole);
    assert_eq!(by_places(&found, SPILL), named(&tables, SPILL));
}

#[test]
fn what_cannot_be_a_file_is_not_taken_for_one() {
    let good = bonus(SYMLINK);
    let header = SaHeader::decode(&good).unwrap();
    // The type bits of the mode, and the nanoseconds of a time.
    for (at, byte) in [(header.size + 1, 0), (header.size + 7, 1), (header.size + 67, 0xff)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(places::in_bonus(&bad, false), None, "byte {at}");
    }
    assert_eq!(places::in_bonus(&good[..100], false), None);
    // What all files have is found even if the rest is not what it should be.
    let mut odd = good.clone();
    odd[header.size + 128..].fill(0xff);
    let found = places::in_bonus(&odd, false).unwrap();
    assert!(!found.is_whole && found.places.len() == 12);
}

#[test]
fn tables_are_completed() {
    let known = tables();
    let none = core::iter::empty::<(&[u8], Vec<u64>)>;
    let whole = SaTables::completed(core::iter::empty(), none());
    for (name, info) in known.attrs() {
        assert_eq!(whole.attr(core::str::from_utf8(name).unwrap()), Some(info));
    }
    // What was read counts, and a layout with what is not known is left out.
    let read = AttrInfo { number: 3, ..known.attr(zpl::MODE).unwrap() };
    let registry = [(zpl::MODE.as_bytes(), read.encode())];
    let layouts = [(&b"2"[..], vec![3, 6]), (&b"3"[..], vec![3, 99]), (&b"x"[..], vec![3])];
    let part = SaTables::completed(registry, layouts);
    assert_eq!(part.attr(zpl::MODE), Some(read));
    assert_eq!(part.attr(zpl::CRTIME), None, "its number is another's");
    assert_eq!(part.layout(2), Some(&[3, 6][..]));
    assert_eq!(part.layout(3), None);
}
