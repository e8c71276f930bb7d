//! Lists of blocks and dead lists, changed at random against models.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use dmu::bpobj::{self, Lists};
use dmu::zap::{self, Zap, ZapSpec};
use dmu::{Objset, Tx, deadlist};
use ondisk::bpobj::{Entry, Space};
use ondisk::mos::{DIRECTORY_OBJECT, FEATURES_FOR_WRITE};
use ondisk::{BlkPtr, DmuType};
use std::collections::BTreeMap;
use support::memory_mos;
use testkit::Rng;

const TXG: u64 = 100;
const EMPTY: &str = "com.delphix:empty_bpobj";
const LIVELIST: &str = "com.delphix:livelist";

fn dsize(bp: &BlkPtr) -> u64 {
    bp.asize() - bp.asize() / 8
}

/// A MOS with a directory and the features named.
fn mos(features: &[(&str, u64)]) -> (Objset, Tx, u64) {
    let mos = memory_mos();
    let tx = Tx::syncing(TXG);
    let spec = ZapSpec::new(DmuType::OBJECT_DIRECTORY).number(DIRECTORY_OBJECT);
    let directory = zap::create(&mos, &tx, &spec).unwrap();
    let table = zap::create(&mos, &tx, &ZapSpec::new(DmuType::ZAP_OTHER)).unwrap();
    zap::insert_u64(&directory, &tx, FEATURES_FOR_WRITE, table.number()).unwrap();
    for (guid, count) in features {
        zap::insert_u64(&table, &tx, *guid, *count).unwrap();
    }
    (mos, tx, table.number())
}

fn objects(mos: &Objset) -> usize {
    mos.objects().map(Result::unwrap).count()
}

/// A block; the offset tells all apart.
fn block(rng: &mut Rng, id: u64) -> BlkPtr {
    let mut words = [0; 16];
    let psize = rng.below(256);
    let lsize = psize + rng.below(8);
    (words[0], words[1]) = (psize + 1 + rng.below(9), id << 3);
    let data = rng.below(3) > 0;
    let kind = if data { DmuType::PLAIN_FILE_CONTENTS } else { DmuType::DNODE };
    words[6] = lsize | psize << 16 | 15 << 32 | 7 << 40 | u64::from(kind.0) << 48 | 1 << 63;
    words[10] = 1 + rng.below(TXG - 1);
    words[11] = 1;
    words[12] = rng.next_u64();
    BlkPtr::from_words(words)
}

fn space_of<'a>(blocks: impl IntoIterator<Item = &'a BlkPtr>) -> Space {
    blocks.into_iter().fold(Space::default(), |s, bp| {
        let [compressed, uncompressed] = bp.accounted_sizes();
        Space {
            used: s.used + dsize(bp),
            compressed: s.compressed + compressed,
            uncompressed: s.uncompressed + uncompressed,
        }
    })
}

fn sorted(blocks: &[BlkPtr]) -> Vec<[u64; 16]> {
    let mut out: Vec<_> = blocks.iter().map(|bp| *Entry::new(bp, false).0.words()).collect();
    out.sort_unstable();
    out
}

fn content(mos: &Objset, list: u64) -> Vec<BlkPtr> {
    let mut out = Vec::new();
    bpobj::entries(mos, list, &mut |e| out.push(e.0)).unwrap();
    out
}

fn assert_list(mos: &Objset, list: u64, blocks: &[BlkPtr]) {
    assert_eq!(sorted(&content(mos, list)), sorted(blocks));
    assert_eq!(bpobj::space(mos, list).unwrap(), space_of(blocks));
}

#[test]
fn a_list_grows_and_is_emptied_from_its_end() {
    let (mos, tx, _) = mos(&[]);
    let lists = Lists::new(&mos, &tx, &dsize).unwrap();
    let before = objects(&mos);
    let list = lists.create().unwrap();
    let mut rng = Rng::new(1);
    // Three blocks of the object and a bit.
    let blocks: Vec<_> = (1..=3500).map(|n| block(&mut rng, n)).collect();
    for part in blocks.chunks(700) {
        lists.append(list, part.iter().map(|bp| (*bp, false))).unwrap();
    }
    let header = bpobj::header(&mos, list).unwrap();
    assert_eq!((header.num_blkptrs, header.num_freed), (3500, None));
    assert_list(&mos, list, &blocks);
    let stripped: Vec<_> = blocks.iter().map(|bp| Entry::new(bp, false).0).collect();
    assert_eq!(content(&mos, list), stripped, "in the order they were put in");

    let mut taken = Vec::new();
    assert!(!lists.drain(list, 3000, &mut |bp| taken.push(bp)).unwrap());
    assert_eq!(taken.len(), 3000);
    assert_list(&mos, list, &blocks[..500]);
    assert!(lists.drain(list, 3000, &mut |bp| taken.push(bp)).unwrap());
    assert_eq!(taken, stripped.iter().rev().copied().collect::<Vec<_>>());
    assert!(bpobj::header(&mos, list).unwrap().is_empty());
    lists.append(list, [(blocks[0], false)]).unwrap();
    assert_list(&mos, list, &blocks[..1]);
    lists.free(list).unwrap();
    assert_eq!(objects(&mos), before);
}

#[test]
fn frees_of_a_livelist_count_backwards() {
    let (mos, tx, _) = mos(&[(LIVELIST, 1)]);
    let lists = Lists::new(&mos, &tx, &dsize).unwrap();
    let list = lists.create().unwrap();
    let mut rng = Rng::new(2);
    let blocks: Vec<_> = (1..=10).map(|n| block(&mut rng, n)).collect();
    lists.append(list, blocks.iter().map(|bp| (*bp, false))).unwrap();
    lists.append(list, blocks[..4].iter().map(|bp| (*bp, true))).unwrap();
    let header = bpobj::header(&mos, list).unwrap();
    assert_eq!((header.num_blkptrs, header.num_freed), (14, Some(4)));
    assert_eq!(header.space(), space_of(&blocks[4..]));
    let mut frees = 0;
    bpobj::entries(&mos, list, &mut |e| frees += u64::from(e.is_freed())).unwrap();
    assert_eq!(frees, 4);
    lists.drain(list, 4, &mut |_| ()).unwrap();
    let header = bpobj::header(&mos, list).unwrap();
    assert_eq!(header.num_freed, Some(0));
    assert_eq!(header.space(), space_of(&blocks));
}

#[test]
fn lists_in_lists_at_random() {
    testkit::shrinking(12, 160, |steps| {
        let (mos, tx, _) = mos(&[]);
        let lists = Lists::new(&mos, &tx, &dsize).unwrap();
        let nothing = objects(&mos);
        let mut model: BTreeMap<u64, Vec<BlkPtr>> = BTreeMap::new();
        let mut id = 0;
        for step in steps {
            let mut rng = Rng::new(*step);
            let keys: Vec<u64> = model.keys().copied().collect();
            match rng.below(8) {
                0 | 1 => drop(model.insert(lists.create().unwrap(), Vec::new())),
                2..=4 if !keys.is_empty() => {
                    let list = *rng.pick(&keys);
                    // Sometimes more than one block, so that it is not copied when it is nested.
                    let n = if rng.below(4) == 0 { 1500 } else { rng.below(40) };
                    let new: Vec<_> = (0..n).map(|n| block(&mut rng, id + n)).collect();
                    id += n;
                    lists.append(list, new.iter().map(|bp| (*bp, false))).unwrap();
                    model.get_mut(&list).unwrap().extend(new);
                }
                5 | 6 if keys.len() > 1 => {
                    let (a, b) = (*rng.pick(&keys), *rng.pick(&keys));
                    if a != b {
                        lists.append_list(a, b).unwrap();
                        let below = model.remove(&b).unwrap();
                        model.get_mut(&a).unwrap().extend(below);
                    }
                }
                7 if !keys.is_empty() => {
                    let list = *rng.pick(&keys);
                    let n = rng.below(2500);
                    let mut taken = Vec::new();
                    let done = lists.drain(list, n, &mut |bp| taken.push(bp)).unwrap();
                    let blocks = model.get_mut(&list).unwrap();
                    let before = blocks.len();
                    assert_eq!(taken.len(), before.min(n as usize));
                    let gone: Vec<u64> = taken.iter().map(|bp| bp.words()[1]).collect();
                    blocks.retain(|bp| !gone.contains(&bp.words()[1]));
                    assert_eq!(blocks.len(), before - taken.len());
                    assert!(!done || blocks.is_empty());
                }
                _ => {}
            }
        }
        for (list, blocks) in &model {
            assert_list(&mos, *list, blocks);
        }
        for (n, list) in model.keys().enumerate() {
            if n % 2 == 0 {
                while !lists.drain(*list, 333, &mut |_| ()).unwrap() {}
            }
            lists.free(*list).unwrap();
        }
        assert_eq!(objects(&mos), nothing, "nothing is left behind");
    });
}

#[test]
fn a_list_that_belongs_to_two_is_an_error() {
    let (mos, tx, _) = mos(&[]);
    let lists = Lists::new(&mos, &tx, &dsize).unwrap();
    let mut rng = Rng::new(3);
    let [a, b] = [lists.create().unwrap(), lists.create().unwrap()];
    for list in [a, b] {
        let blocks: Vec<_> = (0..1100).map(|n| block(&mut rng, n)).collect();
        lists.append(list, blocks.iter().map(|bp| (*bp, false))).unwrap();
    }
    lists.append_list(a, b).unwrap();
    lists.append_list(b, a).unwrap();
    assert!(bpobj::entries(&mos, a, &mut |_| ()).is_err());
    assert!(lists.drain(a, u64::MAX, &mut |_| ()).is_err());
}

/// A dead list as it should be: blocks by key.
type Model = BTreeMap<u64, Vec<BlkPtr>>;

fn assert_dead(mos: &Objset, number: u64, model: &Model) {
    let keys = deadlist::keys(mos, number).unwrap();
    assert!(keys.keys().eq(model.keys()));
    for (key, list) in keys {
        assert_list(mos, list, &model[&key]);
    }
    let all = space_of(model.values().flatten());
    assert_eq!(deadlist::space(mos, number).unwrap(), all);
    let some = model.range(20..60).flat_map(|(_, b)| b);
    assert_eq!(deadlist::space_range(mos, number, 20, 60).unwrap(), space_of(some));
    let mut n = 0;
    deadlist::entries(mos, number, &mut |_| n += 1).unwrap();
    assert_eq!(n, model.values().flatten().count());
}

fn insert(model: &mut Model, bp: BlkPtr) {
    let (_, blocks) = model.range_mut(..bp.logical_birth()).next_back().unwrap();
    blocks.push(bp);
}

#[test]
fn dead_lists_at_random() {
    testkit::shrinking(8, 240, |steps| dead_lists(steps, false));
    testkit::shrinking(16, 240, |steps| dead_lists(steps, true));
}

/// Takes away a key, whose blocks go to the one before; with the first key the list.
fn remove_key(lists: &Lists<'_>, all: &mut BTreeMap<u64, Model>, number: u64, rng: &mut Rng) {
    let model = all.get_mut(&number).unwrap();
    let keys: Vec<u64> = model.keys().copied().collect();
    let txg = *rng.pick(&keys);
    assert_eq!(deadlist::remove_key(lists, number, txg).is_ok(), txg != 0);
    if txg == 0 {
        all.remove(&number);
        deadlist::free(lists, number).unwrap();
    } else {
        let blocks = model.remove(&txg).unwrap();
        model.range_mut(..txg).next_back().unwrap().1.extend(blocks);
    }
}

/// Moves all of one list to another, when all keys of this are keys of that, as in one line of
/// snapshots.
fn merge(
    mos: &Objset,
    lists: &Lists<'_>,
    all: &mut BTreeMap<u64, Model>,
    (number, from): (u64, u64),
) {
    if from == number || !all[&number].keys().all(|k| all[&from].contains_key(k)) {
        return;
    }
    deadlist::merge(lists, number, from).unwrap();
    assert_dead(mos, from, &Model::new());
    deadlist::free(lists, from).unwrap();
    let gone = all.remove(&from).unwrap();
    let model = all.get_mut(&number).unwrap();
    for (key, blocks) in gone {
        model.range_mut(..=key).next_back().unwrap().1.extend(blocks);
    }
}

fn dead_lists(steps: &[u64], shared: bool) {
    let features: &[(&str, u64)] = if shared { &[(EMPTY, 0)] } else { &[] };
    let (mos, tx, table) = mos(features);
    let lists = Lists::new(&mos, &tx, &dsize).unwrap();
    let free_list = lists.create().unwrap();
    let nothing = objects(&mos);
    let mut freed: Vec<BlkPtr> = Vec::new();
    let mut all: BTreeMap<u64, Model> = BTreeMap::new();
    let mut id = 0;
    for step in steps {
        let mut rng = Rng::new(*step);
        let numbers: Vec<u64> = all.keys().copied().collect();
        let some = (!numbers.is_empty()).then(|| *rng.pick(&numbers));
        match (rng.below(12), some) {
            (0, _) | (_, None) => {
                let number = deadlist::create(&lists).unwrap();
                deadlist::add_key(&lists, number, 0).unwrap();
                all.insert(number, Model::from([(0, Vec::new())]));
            }
            (1..=5, Some(number)) => {
                let n = if rng.below(6) == 0 { 1200 } else { rng.below(30) };
                let new: Vec<_> = (0..n).map(|n| block(&mut rng, id + n)).collect();
                id += n;
                deadlist::insert(&lists, number, new.iter().map(|bp| (*bp, false))).unwrap();
                let model = all.get_mut(&number).unwrap();
                new.into_iter().for_each(|bp| insert(model, bp));
            }
            (6 | 7, Some(number)) => {
                // As with a snapshot: no block there is younger than the new key.
                let model = all.get_mut(&number).unwrap();
                let youngest = model.values().flatten().map(BlkPtr::logical_birth).max();
                let last = *model.keys().next_back().unwrap();
                let txg = youngest.unwrap_or(0).max(last + 1) + rng.below(5);
                deadlist::add_key(&lists, number, txg).unwrap();
                model.insert(txg, Vec::new());
            }
            (8, Some(number)) => remove_key(&lists, &mut all, number, &mut rng),
            (9, Some(number)) => {
                let max = if rng.below(2) == 0 { u64::MAX } else { 1 + rng.below(TXG) };
                let new = deadlist::clone(&lists, number, max).unwrap();
                let keys = all[&number].range(..max).map(|(k, _)| (*k, Vec::new())).collect();
                all.insert(new, keys);
            }
            (10, Some(number)) => {
                merge(&mos, &lists, &mut all, (number, *rng.pick(&numbers)));
            }
            (_, Some(number)) => {
                let model = all.get_mut(&number).unwrap();
                let keys: Vec<u64> = model.keys().copied().skip(1).collect();
                if !keys.is_empty() {
                    let txg = *rng.pick(&keys);
                    deadlist::move_to(&lists, number, free_list, txg).unwrap();
                    freed.extend(model.split_off(&txg).into_values().flatten());
                }
            }
        }
        if shared {
            assert_empty_count(&mos, table, &lists, &all);
        }
    }
    for (number, model) in &all {
        assert_dead(&mos, *number, model);
    }
    assert_list(&mos, free_list, &freed);
    while !lists.drain(free_list, 500, &mut |_| ()).unwrap() {}
    for number in all.into_keys() {
        deadlist::free(&lists, number).unwrap();
    }
    assert_eq!(objects(&mos), nothing, "nothing is left behind");
    assert_eq!(lists.empty().unwrap(), None);
}

/// The feature counts just the keys that share the empty list, and that list is empty.
fn assert_empty_count(mos: &Objset, table: u64, lists: &Lists<'_>, all: &BTreeMap<u64, Model>) {
    let count = Zap::open(&mos.object(table).unwrap()).unwrap().get_u64(EMPTY).unwrap();
    let empty = lists.empty().unwrap();
    let keys = all.keys().flat_map(|n| deadlist::keys(mos, *n).unwrap().into_values());
    let users = keys.filter(|list| Some(*list) == empty).count() as u64;
    assert_eq!(count, Some(users));
    assert_eq!(empty.is_some(), users > 0);
    if let Some(empty) = empty {
        assert!(bpobj::header(mos, empty).unwrap().is_empty());
    }
}
