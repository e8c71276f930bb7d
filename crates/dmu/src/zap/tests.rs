//! Tables changed at random against a model, each read again by the reader and by a checker that
//! knows what OpenZFS asserts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod memory;

use super::blocks::Blocks;
use super::table::Table;
use super::{Cursor, EntryKey, Match, Zap, ZapValue};
use crate::error::ErrorKind;
use memory::{Memory, check, read_back};
use ondisk::zap::{
    FLAG_HASH64, FLAG_PRE_HASHED_KEY, FLAG_UINT64_KEY, FirstBlock, KeyHash, NORM_NFC, NORM_TOUPPER,
    ZapName,
};
use std::collections::BTreeMap;
use testkit::Rng;

type Model = BTreeMap<Vec<u8>, ZapValue>;

fn plain(salt: u64) -> KeyHash {
    KeyHash { salt, flags: 0, norm_flags: 0 }
}

/// A new table in memory.
fn new(of: KeyHash, fat_shift: Option<u32>) -> Memory {
    let memory = Memory::default();
    let table = Table::new(&memory, of, fat_shift, 512);
    let changes = table.changes();
    memory.apply(changes);
    memory
}

fn edit<T>(memory: &Memory, f: impl FnOnce(&mut Table<&Memory>) -> crate::Result<T>) -> T {
    let mut table = Table::open(memory).unwrap();
    let out = f(&mut table).unwrap();
    let changes = table.changes();
    memory.apply(changes);
    out
}

fn key(name: &[u8]) -> EntryKey<'_> {
    EntryKey::from(name)
}

fn random_name(rng: &mut Rng) -> Vec<u8> {
    let n = rng.next_u64();
    match rng.below(20) {
        0 => format!("{n:0>width$}", width = 50 + (n % 200) as usize).into_bytes(),
        1 => format!("{:x}", n % 64).into_bytes(),
        _ => format!("name-{:x}", n % 100_000).into_bytes(),
    }
}

fn random_value(rng: &mut Rng) -> ZapValue {
    let int_len = *rng.pick(&[1u8, 2, 4, 8]);
    let mut values = vec![0; usize::from(int_len) * rng.below(40) as usize];
    rng.fill(&mut values);
    ZapValue { int_len, values }
}

/// A random change for each of the `steps`, written together in runs of `batch` or so; checked
/// `checks` times.
fn drive(memory: &Memory, steps: &[u64], batch: u64, checks: usize, simple: bool) -> Model {
    let mut model = Model::new();
    let mut done = 0;
    let mut next_check = 0;
    // The number of a step says whether a run ends with it.
    for run in steps.chunk_by(|step, _| !step.is_multiple_of(batch)) {
        edit(memory, |table| run.iter().try_for_each(|n| change(table, &mut model, *n, simple)));
        done += run.len();
        if done >= next_check {
            next_check += steps.len() / checks;
            compare(memory, &model);
        }
    }
    compare(memory, &model);
    model
}

/// The change that a number says.
fn change(
    table: &mut Table<&Memory>,
    model: &mut Model,
    number: u64,
    simple: bool,
) -> crate::Result<()> {
    let mut rng = Rng::new(number);
    let mut name = random_name(&mut rng);
    if simple {
        name.truncate(49);
    }
    let value = match simple {
        true => ZapValue::from_u64(rng.next_u64()),
        false => random_value(&mut rng),
    };
    match rng.below(10) {
        0..=4 => match table.insert(key(&name), &value) {
            Ok(()) => assert!(model.insert(name, value).is_none()),
            Err(e) => {
                assert!(matches!(e.kind, ErrorKind::EntryExists(_)), "{e}");
                assert!(model.contains_key(&name));
            }
        },
        5..=6 => {
            table.set(key(&name), &value)?;
            model.insert(name, value);
        }
        _ => {
            // Most of the time one that is there.
            let there = model.range(name.clone()..).next().map(|(k, _)| k.clone());
            let name = there.filter(|_| rng.below(4) > 0).unwrap_or(name);
            assert_eq!(table.remove(key(&name))?, model.remove(&name).is_some());
        }
    }
    Ok(())
}

fn compare(memory: &Memory, model: &Model) {
    check(memory, model.len() as u64);
    let zap = read_back(memory);
    let mut found = Model::new();
    for e in zap.to_vec().unwrap() {
        let ZapName::Bytes(name) = e.name else { panic!("names only") };
        let value = ZapValue { int_len: e.int_len, values: e.values };
        assert!(found.insert(name, value).is_none(), "an entry twice");
    }
    assert_eq!(found.len(), model.len());
    assert!(found == *model, "the reader sees other entries than were written");
    for (name, value) in model.iter().step_by(model.len() / 50 + 1) {
        let e = zap.get(name).unwrap().unwrap();
        assert_eq!(e.values, value.values);
    }
    assert!(zap.get(b"never there").unwrap().is_none());
}

#[test]
fn a_micro_table_grows_in_its_block_and_stays_micro() {
    let memory = new(plain(5), None);
    assert_eq!(memory.block_size(), 512);
    for n in 0..2047u64 {
        edit(&memory, |t| t.insert(key(format!("f{n}").as_bytes()), &ZapValue::from_u64(n)));
    }
    assert_eq!(memory.block_size(), 128 << 10);
    let zap = read_back(&memory);
    assert!(zap.micro().unwrap().is_some());
    assert_eq!(zap.get_u64("f2046").unwrap(), Some(2046));
    edit(&memory, |t| t.insert(key(b"one too many"), &ZapValue::from_u64(1)));
    let zap = read_back(&memory);
    assert!(zap.fat_header().is_some());
    assert_eq!(zap.to_vec().unwrap().len(), 2048);
    assert_eq!(memory.block_size(), 16 << 10);
    assert_eq!(zap.key_hash(), plain(5), "the salt stays");
    check(&memory, 2048);
}

#[test]
fn what_a_micro_table_cannot_hold_makes_it_fat() {
    let long = [b'x'; 50];
    let cases: [(&[u8], ZapValue); 4] = [
        (&long, ZapValue::from_u64(1)),
        (b"text", ZapValue::from_text("value")),
        (b"pair", ZapValue::from_words(&[1, 2])),
        (b"old", ZapValue::from_bytes(b"12345678")),
    ];
    for (name, value) in cases {
        let memory = new(plain(7), None);
        edit(&memory, |t| t.insert(key(b"old"), &ZapValue::from_u64(9)));
        edit(&memory, |t| t.set(key(name), &value));
        let zap = read_back(&memory);
        assert!(zap.fat_header().is_some());
        assert_eq!(zap.get(name).unwrap().unwrap().values, value.values);
        assert!(zap.get(b"old").unwrap().is_some());
        check(&memory, if name == b"old" { 1 } else { 2 });
    }
}

#[test]
fn a_patch_leaves_the_rest_of_a_micro_block_alone() {
    let memory = new(plain(3), None);
    for n in 0..5u64 {
        edit(&memory, |t| t.insert(key(&[b'a' + n as u8]), &ZapValue::from_u64(n)));
    }
    let mut table = Table::open(&memory).unwrap();
    table.set(key(b"c"), &ZapValue::from_u64(77)).unwrap();
    table.set(key(b"c"), &ZapValue::from_u64(78)).unwrap();
    let changes = table.changes();
    assert_eq!(changes.len(), 1, "one chunk: {changes:?}");
    let table = Table::open(&memory).unwrap();
    assert!(table.changes().is_empty());
}

#[test]
fn random_changes_of_a_small_table() {
    for seed in 0..20 {
        testkit::shrinking_seed(seed, 400, |steps| {
            drive(&new(plain(seed | 1), None), steps, 4, 20, seed % 2 == 0);
        });
    }
}

#[test]
fn random_changes_with_blocks_of_each_size() {
    // Small blocks make many leaves, so the pointer table leaves the header and doubles often.
    for shift in [9, 10, 12, 14, 17] {
        testkit::shrinking_seed(u64::from(shift), 6000, |steps| {
            drive(&new(plain(99), Some(shift)), steps, 150, 8, shift == 9);
        });
    }
}

#[test]
fn a_hundred_thousand_names() {
    let memory = new(plain(0xdead), None);
    let mut model = Model::new();
    for run in 0..100u64 {
        edit(&memory, |table| {
            for n in 0..1000 {
                let name = format!("file number {} of many", run * 1000 + n).into_bytes();
                let value = ZapValue::from_u64(run << 32 | n);
                table.insert(key(&name), &value)?;
                model.insert(name, value);
            }
            Ok(())
        });
    }
    compare(&memory, &model);
    let mut rng = Rng::new(4);
    edit(&memory, |table| {
        for name in model.keys().cloned().collect::<Vec<_>>() {
            if rng.below(10) > 0 {
                assert!(table.remove(key(&name))?);
                model.remove(&name);
            }
        }
        Ok(())
    });
    compare(&memory, &model);
}

/// The names of a table in pages of `limit`, while `between` changes it after each page.
fn paged(
    memory: &Memory,
    limit: usize,
    mut between: impl FnMut(usize, &[Vec<u8>]),
) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    let mut next = Some(Cursor::default());
    for number in 0.. {
        let Some(from) = next else { break };
        let page = read_back(memory).page(from, limit);
        assert!(page.entries.len() <= limit, "{} entries", page.entries.len());
        assert!(page.next.is_none_or(|next| next > from), "a page goes on");
        for entry in page.entries {
            let ZapName::Bytes(name) = entry.unwrap().name else { panic!("names only") };
            seen.push(name);
        }
        next = page.next;
        between(number, &seen);
    }
    seen
}

#[test]
fn pages_of_any_size_are_the_whole_table() {
    for fat in [None, Some(9), Some(12)] {
        let memory = new(plain(11), fat);
        assert!(paged(&memory, 1, |_, _| ()).is_empty());
        let mut names: Vec<_> = (0..1500u64).map(|n| format!("f{n}").into_bytes()).collect();
        edit(&memory, |t| names.iter().try_for_each(|n| t.insert(key(n), &ZapValue::from_u64(1))));
        let whole: Vec<_> = read_back(&memory).to_vec().unwrap();
        let whole: Vec<_> = whole.iter().map(|e| e.name.bytes().unwrap().to_vec()).collect();
        for limit in [1, 7, 100, 1499, 1500, 9999] {
            assert!(paged(&memory, limit, |_, _| ()) == whole, "in pages of {limit}");
        }
        names.sort();
        let mut sorted = whole;
        sorted.sort();
        assert!(sorted == names);
    }
}

#[test]
fn what_stays_is_met_once_however_the_table_changes_between_two_pages() {
    for fat in [None, Some(9), Some(12)] {
        let memory = new(plain(12), fat);
        let names: Vec<_> = (0..1000u64).map(|n| format!("stays {n}").into_bytes()).collect();
        edit(&memory, |t| names.iter().try_for_each(|n| t.insert(key(n), &ZapValue::from_u64(1))));
        let mut gone = Vec::new();
        let seen = paged(&memory, 64, |page, seen| {
            // A micro table becomes a fat one by this, and leaves are split many times.
            let more = (0..400u64).map(|n| format!("new {page} {n}").into_bytes());
            let more: Vec<_> = more.take(if page < 12 { 400 } else { 0 }).collect();
            let old: Vec<_> = seen.iter().rev().step_by(3).take(20).cloned().collect();
            edit(&memory, |t| {
                more.iter().try_for_each(|n| t.insert(key(n), &ZapValue::from_u64(2)))?;
                old.iter().try_for_each(|n| t.remove(key(n)).map(drop))
            });
            gone.extend(old);
        });
        assert!(read_back(&memory).fat_header().is_some() && !gone.is_empty());
        let mut stayed: Vec<_> = seen.into_iter().filter(|n| n.starts_with(b"stays")).collect();
        stayed.sort();
        let mut names = names;
        names.sort();
        assert!(stayed == names, "{} of {}", stayed.len(), names.len());
    }
}

#[test]
fn names_of_one_hash_are_told_apart() {
    let of = KeyHash { salt: 1, flags: FLAG_UINT64_KEY | FLAG_PRE_HASHED_KEY, norm_flags: 0 };
    let memory = new(of, Some(12));
    let hash = 0xabcd_ef00_0000_0000u64;
    let words = |n: u64| [hash, n];
    for n in 0..30 {
        edit(&memory, |t| t.insert(EntryKey::Words(&words(n)), &ZapValue::from_u64(n)));
    }
    let entries = read_back(&memory).to_vec().unwrap();
    assert_eq!(entries.iter().map(|e| e.cd).collect::<Vec<_>>(), (0..30).collect::<Vec<_>>());
    // A differentiator that became free is used again.
    edit(&memory, |t| {
        assert!(t.remove(EntryKey::Words(&words(7)))?);
        t.insert(EntryKey::Words(&words(100)), &ZapValue::from_u64(100))
    });
    let entries = read_back(&memory).to_vec().unwrap();
    let new = entries.iter().find(|e| e.name == ZapName::U64s(words(100).to_vec())).unwrap();
    assert_eq!(new.cd, 7);
    check(&memory, 30);
    // More of them than a leaf holds cannot be: refused, not looped over.
    let mut table = Table::open(&memory).unwrap();
    let refused = (1000..2000)
        .find_map(|n| table.insert(EntryKey::Words(&words(n)), &ZapValue::from_u64(n)).err());
    assert!(matches!(refused.unwrap().kind, ErrorKind::Invalid(_)));
}

#[test]
fn integer_keys_and_long_hashes() {
    let of = KeyHash { salt: 77, flags: FLAG_UINT64_KEY | FLAG_HASH64, norm_flags: 0 };
    let memory = new(of, Some(10));
    edit(&memory, |t| {
        for n in 0..3000u64 {
            let value = ZapValue::from_bytes(&n.to_le_bytes()[..(n % 9) as usize]);
            t.insert(EntryKey::Words(&[n, n * n, !n]), &value)?;
        }
        assert!(matches!(
            t.insert(key(b"name"), &ZapValue::from_u64(0)).unwrap_err().kind,
            ErrorKind::Invalid(_)
        ));
        Ok(())
    });
    check(&memory, 3000);
    let entries = read_back(&memory).to_vec().unwrap();
    assert_eq!(entries.len(), 3000);
    for e in entries {
        let ZapName::U64s(w) = e.name else { panic!("integers only") };
        assert_eq!(e.values, w[0].to_le_bytes()[..(w[0] % 9) as usize]);
    }
}

#[test]
fn normalised_names() {
    let of = KeyHash { salt: 4711, flags: 0, norm_flags: NORM_TOUPPER | NORM_NFC };
    for fat in [None, Some(14)] {
        let memory = new(of, fat);
        let any = |n: &'static str| EntryKey::Name(n.as_bytes(), Match::Normalize);
        edit(&memory, |t| {
            t.insert(any("ReadMe"), &ZapValue::from_u64(1))?;
            let e = t.insert(any("README"), &ZapValue::from_u64(2)).unwrap_err();
            assert!(matches!(e.kind, ErrorKind::EntryExists(_)));
            // Exactly compared it is another name, of the same hash.
            t.insert(key(b"README"), &ZapValue::from_u64(3))?;
            t.insert(any("\u{e9}t\u{e9}"), &ZapValue::from_u64(4))?;
            assert_eq!(t.get(any("E\u{301}T\u{c9}"))?.and_then(|e| e.u64()), Some(4));
            Ok(())
        });
        let zap = read_back(&memory);
        let cds: Vec<u32> = zap
            .to_vec()
            .unwrap()
            .iter()
            .filter(|e| e.name.bytes().is_some_and(|n| n.eq_ignore_ascii_case(b"readme")))
            .map(|e| e.cd)
            .collect();
        assert_eq!(cds, [0, 1]);
        check(&memory, 3);
        edit(&memory, |t| {
            assert!(t.remove(any("readme"))?);
            assert_eq!(t.get(any("readme"))?.and_then(|e| e.u64()), Some(3));
            Ok(())
        });
        check(&memory, 2);
    }
}

#[test]
fn what_no_entry_can_be_is_refused_and_changes_nothing() {
    let memory = new(plain(1), Some(9));
    let before = memory.clone();
    let mut table = Table::open(&memory).unwrap();
    let bad: [(&[u8], ZapValue); 4] = [
        (b"nul\0", ZapValue::from_u64(1)),
        (b"half", ZapValue { int_len: 8, values: vec![0; 7] }),
        (b"odd", ZapValue { int_len: 3, values: vec![0; 3] }),
        (b"large for this block size", ZapValue::from_bytes(&[1; 500])),
    ];
    for (name, value) in bad {
        let e = table.insert(key(name), &value).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::Invalid(_)), "{e}");
        assert!(table.set(key(name), &value).is_err());
    }
    assert!(table.changes().is_empty());
    assert!(before.same_as(&memory));
}

#[test]
fn a_table_in_the_other_byte_order_is_turned_where_it_changes() {
    for shift in [None, Some(9)] {
        let memory = new(plain(31), shift);
        let mut model = drive(&memory, &testkit::steps(8, 900), 25, 2, true);
        memory.turn();
        compare(&memory, &model);
        edit(&memory, |t| t.set(key(b"zz"), &ZapValue::from_u64(1)));
        model.insert(b"zz".to_vec(), ZapValue::from_u64(1));
        compare(&memory, &model);
        edit(&memory, |t| {
            for n in 0..500u64 {
                let name = format!("more {n}");
                t.set(key(name.as_bytes()), &ZapValue::from_u64(n))?;
                model.insert(name.into_bytes(), ZapValue::from_u64(n));
            }
            Ok(())
        });
        compare(&memory, &model);
    }
}

#[test]
fn damage_is_an_error_and_never_a_loop() {
    let memory = new(plain(17), Some(9));
    drive(&memory, &testkit::steps(3, 1500), 50, 1, true);
    testkit::shrinking_seed(99, 2000, |steps| {
        for step in steps {
            let mut rng = Rng::new(*step);
            let broken = memory.clone();
            for _ in 0..1 + rng.below(6) {
                broken.damage(&mut rng);
            }
            let Ok(mut table) = Table::open(&broken) else { continue };
            for _ in 0..20 {
                let name = random_name(&mut rng);
                let value = random_value(&mut rng);
                // What they say does not matter, only that they return.
                let _ = table.insert(key(&name), &value);
                let _ = table.set(key(&name), &value);
                let _ = table.remove(key(&name));
            }
            let _ = table.changes();
        }
    });
}

/// The tables that OpenZFS wrote are rebuilt entry by entry; leaves that it made are changed.
#[test]
fn tables_that_openzfs_wrote_can_be_changed() {
    let micro = include_bytes!("../../../ondisk/tests/data/sa/registry.bin");
    let header = include_bytes!("../../../ondisk/tests/data/zap/header-formc-insensitive.bin");
    let leaf = include_bytes!("../../../ondisk/tests/data/zap/leaf-formc-insensitive.bin");
    let micro = Memory::of(&[micro]);
    let fat = Memory::of(&[header, leaf]);
    for memory in [micro, fat] {
        let before = read_back(&memory).to_vec().unwrap();
        check(&memory, before.len() as u64);
        edit(&memory, |t| {
            for n in 0..1000u64 {
                t.insert(key(format!("added {n}").as_bytes()), &ZapValue::from_u64(n))?;
            }
            Ok(())
        });
        check(&memory, before.len() as u64 + 1000);
        edit(&memory, |t| {
            for n in 0..1000u64 {
                assert!(t.remove(key(format!("added {n}").as_bytes()))?);
            }
            Ok(())
        });
        check(&memory, before.len() as u64);
        assert_eq!(read_back(&memory).to_vec().unwrap(), before);

        // Built anew from the same entries with the same salt it reads the same.
        let of = read_back(&memory).key_hash();
        let again = new(of, Some(14));
        edit(&again, |t| {
            for e in &before {
                let value = ZapValue { int_len: e.int_len, values: e.values.clone() };
                t.insert(key(e.name.bytes().unwrap()), &value)?;
            }
            Ok(())
        });
        assert_eq!(read_back(&again).to_vec().unwrap(), before);
    }
}

#[test]
fn a_copy_of_the_pointer_table_that_openzfs_left_half_done_is_completed() {
    let memory = new(plain(23), Some(9));
    let model = drive(&memory, &testkit::steps(12, 3000), 100, 1, true);
    let block = (&memory).read(0).unwrap();
    let FirstBlock::Fat(mut header) = FirstBlock::decode(&block, block.endian()).unwrap() else {
        panic!("fat")
    };
    assert!(header.table.block_count > 0, "the test needs an external table");
    // As OpenZFS leaves it: the blocks of the copy are taken, one of the old ones is copied.
    header.table.next_block = header.free_block;
    header.table.blocks_copied = 1;
    header.free_block += 2 * header.table.block_count;
    let blank = vec![0; 512];
    for n in header.table.next_block..header.free_block {
        memory.put(n, blank.clone());
    }
    memory.put(0, header.encode(ondisk::Endian::Little));
    let shift = header.table.shift;
    let mut model = model;
    edit(&memory, |t| {
        for n in 0..2000u64 {
            let name = format!("behind {n}").into_bytes();
            t.set(key(&name), &ZapValue::from_u64(n))?;
            model.insert(name, ZapValue::from_u64(n));
        }
        Ok(())
    });
    compare(&memory, &model);
    let zap: Zap = read_back(&memory);
    assert!(zap.fat_header().unwrap().table.shift > shift);
    assert_eq!(zap.fat_header().unwrap().table.next_block, 0);
}
