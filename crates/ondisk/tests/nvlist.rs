//! Name-value lists against bytes that OpenZFS's own library packed (`data/nvlist`), and against
//! bytes that no program should have packed.
//!
//! `all-*.bin` hold one member of every type, packed by libnvpair 2.3 in both forms; `narrow-xdr`
//! holds narrow numbers with all bits set, whose sign that library extends over the unit.
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use ondisk::nvlist::{Encoding, MAX_DEPTH, NvList, NvPair, NvValue, Packing, UNIQUE_NAME};
use ondisk::{Endian, ErrorKind};
use proptest::prelude::*;

const NATIVE: &[u8] = include_bytes!("data/nvlist/all-native.bin");
const XDR: &[u8] = include_bytes!("data/nvlist/all-xdr.bin");
const NARROW: &[u8] = include_bytes!("data/nvlist/narrow-xdr.bin");

const PACKINGS: [Packing; 4] = [
    Packing::XDR,
    Packing { encoding: Encoding::Xdr, endian: Endian::Big },
    Packing::NATIVE,
    Packing { encoding: Encoding::Native, endian: Endian::Big },
];

fn list(members: Vec<(&str, NvValue)>) -> NvList {
    let pairs = members
        .into_iter()
        .map(|(name, value)| NvPair { name: name.as_bytes().to_vec(), value })
        .collect();
    NvList { version: 0, flags: UNIQUE_NAME, pairs }
}

fn text(s: &str) -> NvValue {
    NvValue::String(s.as_bytes().to_vec())
}

/// What the generator of `all-*.bin` put in.
fn every_type() -> NvList {
    let a = list(vec![("in", text("side"))]);
    let b = list(vec![("n", NvValue::U64(7)), ("deeper", NvValue::NvList(a.clone()))]);
    let strings = ["a", "", "longer than eight"].map(|s| s.as_bytes().to_vec()).to_vec();
    list(vec![
        ("flag", NvValue::Boolean),
        ("yes", NvValue::BooleanValue(true)),
        ("no", NvValue::BooleanValue(false)),
        ("byte", NvValue::Byte(0x7e)),
        ("int8", NvValue::I8(0x12)),
        ("uint8", NvValue::U8(0x34)),
        ("int16", NvValue::I16(0x1234)),
        ("uint16", NvValue::U16(0x5678)),
        ("int32", NvValue::I32(-2)),
        ("uint32", NvValue::U32(0x89ab_cdef)),
        ("int64", NvValue::I64(-3)),
        ("uint64", NvValue::U64(0x0123_4567_89ab_cdef)),
        ("hrtime", NvValue::Hrtime(1_234_567_890_123)),
        ("double", NvValue::Double(1.5)),
        ("string", text("zinc")),
        ("empty", text("")),
        ("booleans", NvValue::BooleanArray(vec![true, false, true])),
        ("bytes", NvValue::ByteArray(vec![1, 2, 3, 254, 255])),
        ("int8s", NvValue::I8Array(vec![1, 2, 127])),
        ("uint8s", NvValue::U8Array(vec![1, 2, 127])),
        ("int16s", NvValue::I16Array(vec![1, 2, 32767])),
        ("uint16s", NvValue::U16Array(vec![1, 2, 65535])),
        ("int32s", NvValue::I32Array(vec![1, -2, 3])),
        ("uint32s", NvValue::U32Array(vec![1, 2, u32::MAX])),
        ("int64s", NvValue::I64Array(vec![1, -2])),
        ("uint64s", NvValue::U64Array(vec![1, u64::MAX])),
        ("strings", NvValue::StringArray(strings)),
        ("list", NvValue::NvList(b.clone())),
        ("lists", NvValue::NvListArray(vec![a, b, NvList::new()])),
        ("last", NvValue::U64(1)),
    ])
}

#[test]
fn every_type_as_the_library_packs_it() {
    for (bytes, packing) in [(NATIVE, Packing::NATIVE), (XDR, Packing::XDR)] {
        let (found, how, used) = NvList::decode_packed(bytes).unwrap();
        assert_eq!((found, how, used), (every_type(), packing, bytes.len()));
        assert_eq!(every_type().encode(packing).unwrap(), bytes, "{packing:?}");
    }
}

#[test]
fn sign_extended_units_are_understood() {
    let expected = list(vec![
        ("i8", NvValue::I8(-1)),
        ("i16", NvValue::I16(-1)),
        ("u8", NvValue::U8(255)),
        ("u16", NvValue::U16(65535)),
        ("b", NvValue::Byte(255)),
    ]);
    assert_eq!(NvList::decode(NARROW).unwrap(), expected);
}

#[test]
fn other_byte_orders_round_trip() {
    for packing in PACKINGS {
        let bytes = every_type().encode(packing).unwrap();
        let decoded = NvList::decode_packed(&bytes).unwrap();
        assert_eq!(decoded, (every_type(), packing, bytes.len()));
    }
}

#[test]
fn every_truncation_is_an_error() {
    for bytes in [NATIVE, XDR] {
        for end in 0..bytes.len() {
            assert!(NvList::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn what_follows_a_list_is_not_its_business() {
    let bytes = [XDR, &[0xa5; 100]].concat();
    assert_eq!(NvList::decode_packed(&bytes).unwrap().2, XDR.len());
}

#[test]
fn text_is_that_of_zdb() {
    let expected = "    flag\n    n: 7\n    s: 'x'\n    a[0]: 1\n    a[1]: 2\n    l:\n        \
                    in: 'side'\n    ls[0]:\n        in: 'side'\n";
    let inner = list(vec![("in", text("side"))]);
    let l = list(vec![
        ("flag", NvValue::Boolean),
        ("n", NvValue::U64(7)),
        ("s", text("x")),
        ("a", NvValue::U64Array(vec![1, 2])),
        ("l", NvValue::NvList(inner.clone())),
        ("ls", NvValue::NvListArray(vec![inner])),
    ]);
    assert_eq!(format!("{l:4}"), expected);
}

fn nested(depth: u32) -> NvList {
    let mut l = NvList::new();
    for _ in 1..depth {
        l = list(vec![("l", NvValue::NvList(l))]);
    }
    l
}

#[test]
fn depth_is_bounded_both_ways() {
    let too_deep = ErrorKind::TooDeep { limit: MAX_DEPTH };
    for packing in PACKINGS {
        let deepest = nested(MAX_DEPTH);
        let bytes = deepest.encode(packing).unwrap();
        assert_eq!(NvList::decode(&bytes).unwrap(), deepest);
        assert_eq!(nested(MAX_DEPTH + 1).encode(packing).unwrap_err().kind, too_deep);
    }
    // Bytes that only claim to go deeper: in the native form a list in a list in a list...
    let mut bytes = nested(MAX_DEPTH).encode(Packing::NATIVE).unwrap();
    let pair = bytes[12..12 + 48].to_vec();
    for _ in 0..1000 {
        bytes.splice(12..12, pair.iter().copied());
    }
    assert_eq!(NvList::decode(&bytes).unwrap_err().kind, too_deep);
}

#[test]
fn one_name_twice_is_refused_where_names_are_unique() {
    let mut l = list(vec![("a", NvValue::U64(1)), ("a", text("b"))]);
    for packing in PACKINGS {
        l.flags = UNIQUE_NAME;
        let bytes = l.encode(packing).unwrap();
        assert!(matches!(NvList::decode(&bytes).unwrap_err().kind, ErrorKind::Inconsistent(_)));
        for flags in [0, ondisk::nvlist::UNIQUE_NAME_TYPE] {
            l.flags = flags;
            assert_eq!(NvList::decode(&l.encode(packing).unwrap()).unwrap(), l);
        }
    }
}

#[test]
fn nul_inside_text_is_refused() {
    for l in [list(vec![("a\0b", NvValue::Boolean)]), list(vec![("a", text("b\0c"))])] {
        for packing in PACKINGS {
            assert_eq!(l.encode(packing).unwrap_err().kind, ErrorKind::BadText);
        }
    }
}

#[test]
fn lying_lengths_cost_nothing() {
    // An array of 2^31 - 1 numbers in a list of 40 bytes.
    let mut bytes = list(vec![("a", NvValue::U64Array(vec![]))]).encode(Packing::XDR).unwrap();
    for at in [bytes.len() - 16, bytes.len() - 12] {
        bytes[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    }
    assert!(matches!(NvList::decode(&bytes).unwrap_err().kind, ErrorKind::Truncated { .. }));
}

#[test]
fn getters_name_what_is_wrong() {
    let l = list(vec![("n", NvValue::U64(1)), ("s", NvValue::String(vec![0xff]))]);
    assert_eq!(l.u64("n").unwrap(), 1);
    assert_eq!(l.opt_u64("m").unwrap(), None);
    let e = l.u64("m").unwrap_err();
    assert_eq!((e.structure, e.field, e.kind), ("nvlist", "m", ErrorKind::Missing));
    assert_eq!(l.u64("s").unwrap_err().kind, ErrorKind::WrongType);
    assert_eq!(l.text("s").unwrap_err().kind, ErrorKind::BadText);
    assert_eq!(l.opt_lossy("s").unwrap().unwrap(), "\u{fffd}");
}

fn any_value() -> impl Strategy<Value = NvValue> {
    let word = || proptest::collection::vec(1u8.., 0..12);
    let leaf = prop_oneof![
        Just(NvValue::Boolean),
        any::<bool>().prop_map(NvValue::BooleanValue),
        any::<u8>().prop_map(NvValue::Byte),
        any::<i16>().prop_map(NvValue::I16),
        any::<i32>().prop_map(NvValue::I32),
        any::<u64>().prop_map(NvValue::U64),
        word().prop_map(NvValue::String),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(NvValue::ByteArray),
        proptest::collection::vec(any::<i8>(), 0..20).prop_map(NvValue::I8Array),
        proptest::collection::vec(any::<u16>(), 0..20).prop_map(NvValue::U16Array),
        proptest::collection::vec(any::<u32>(), 0..20).prop_map(NvValue::U32Array),
        proptest::collection::vec(any::<i64>(), 0..20).prop_map(NvValue::I64Array),
        proptest::collection::vec(word(), 0..5).prop_map(NvValue::StringArray),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let members = proptest::collection::vec((word(), inner), 0..5);
        let lists = members.prop_map(|members| NvList {
            version: 0,
            flags: 0,
            pairs: members.into_iter().map(|(name, value)| NvPair { name, value }).collect(),
        });
        prop_oneof![
            lists.clone().prop_map(NvValue::NvList),
            proptest::collection::vec(lists, 0..4).prop_map(NvValue::NvListArray),
        ]
    })
}

proptest! {
    #[test]
    fn any_list_round_trips(value in any_value(), how in 0..4usize) {
        let l = list(vec![("value", value)]);
        let bytes = l.encode(PACKINGS[how]).unwrap();
        let (found, packing, used) = NvList::decode_packed(&bytes).unwrap();
        prop_assert_eq!((found, packing, used), (l, PACKINGS[how], bytes.len()));
    }

    /// Damaged lists are refused or mean something that packs and unpacks again.
    #[test]
    fn damage_does_no_harm(
        native in any::<bool>(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = if native { NATIVE.to_vec() } else { XDR.to_vec() };
        for (at, byte) in damage {
            let n = bytes.len();
            bytes[at.index(n)] = byte;
        }
        if let Ok((l, packing, used)) = NvList::decode_packed(&bytes) {
            prop_assert!(used <= bytes.len());
            let again = l.encode(packing).unwrap();
            prop_assert_eq!(NvList::decode(&again).unwrap().encode(packing).unwrap(), again);
            prop_assert!(!l.to_string().is_empty() || l.pairs.is_empty());
        }
    }

    #[test]
    fn noise_does_no_harm(
        mut bytes in proptest::collection::vec(any::<u8>(), 4..200),
        xdr in 0..2u8,
    ) {
        bytes[0] = xdr;
        bytes[1] &= 1;
        let _ = NvList::decode(&bytes);
    }
}
