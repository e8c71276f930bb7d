//! The allocator over the space maps of pools that OpenZFS wrote: it counts as the reports do, and
//! takes nothing that a space map or a log of one says is allocated.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dmu::{Object, Zap};
use ondisk::mos::{self, vdev_zap};
use ondisk::spacemap::{self, Action, Entry, LOG_SHIFT, SpaceMapHeader};
use pool::{AllocOptions, Allocator, OpenOptions, Pool, TopSpec};
use std::collections::BTreeMap;
use testkit::CorpusPool;
use zio::{AllocRequest, Allocate, SpaceClass};

/// One pool after the other: some of the images are large.
fn every_pool(judge: impl Fn(&Pool, &mut Vec<String>)) {
    let mut differences = Vec::new();
    let mut judge_case = |case: &CorpusPool| {
        let mut options = OpenOptions::default();
        options.search.paths = vec![case.dir.clone()];
        let pool = Pool::open(case.name(), &options).expect("the pool opens");
        let mut here = Vec::new();
        judge(&pool, &mut here);
        differences.extend(here.into_iter().map(|d| format!("{}: {d}", case.name())));
    };
    testkit::fixture_cases().iter().for_each(|n| judge_case(&testkit::fixture(n)));
    testkit::corpus_cases().iter().for_each(|case| judge_case(&testkit::corpus(case)));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn specs(pool: &Pool) -> Vec<TopSpec> {
    let tops = &pool.config().vdev_tree.children;
    tops.iter().filter_map(|t| TopSpec::of(t, pool.reader())).collect()
}

fn open(pool: &Pool) -> Allocator {
    let options = AllocOptions { threads: 2, two_words: true, histograms: true, obsolete: true };
    Allocator::open(pool.mos(), &specs(pool), options, &pool::SpaceMapRebuild::default())
        .expect("the headers can be read")
}

#[test]
fn pools_of_openzfs_are_understood() {
    every_pool(|pool, out| {
        figures(pool, out);
        all_that_is_free(pool, out);
    });
}

/// The figures are those of the reports.
fn figures(pool: &Pool, out: &mut Vec<String>) {
    let (figures, space) = (open(pool).figures(), pool.space());
    let mut same = |what: &str, ours: u64, want: u64| {
        if ours != want {
            out.push(format!("{what}: {ours} for {want}"));
        }
    };
    let total = space.total();
    same("size", figures.total().0, total.size);
    same("allocated", figures.total().1, total.allocated);
    let log = space.class(SpaceClass::Log);
    same("size of logs", figures.log.size, log.size);
    same("allocated of logs", figures.log.allocated, log.allocated);
    same("deflated", figures.special.deflated, space.class(SpaceClass::Special).deflated);
    if space.tops.iter().all(|t| t.class == Some(SpaceClass::Normal)) {
        same("of datasets", figures.normal.deflated, total.deflated);
    }
}

/// By vdev, which sectors of 512 bytes are in use.
type Used = BTreeMap<u32, Vec<bool>>;

fn apply(used: &mut Used, vdev: u32, r: &spacemap::Range) {
    let Some(map) = used.get_mut(&vdev) else { return };
    let (from, to) = ((r.offset >> 9) as usize, ((r.offset + r.size) >> 9) as usize);
    map[from..to].fill(r.action == Action::Alloc);
}

fn ranges(object: &Object, start: u64, shift: u8, mut each: impl FnMut(&spacemap::Range)) {
    let dnode = object.dnode();
    let header = SpaceMapHeader::decode(&dnode.bonus, dnode.endian).unwrap();
    let mut bytes = vec![0; header.length as usize];
    object.read_at(0, &mut bytes).unwrap();
    for entry in spacemap::entries(&bytes, dnode.endian, start, shift) {
        if let Entry::Range(r) = entry.unwrap() {
            each(&r);
        }
    }
}

fn words(pool: &Pool, object: u64) -> Vec<u64> {
    let object = pool.mos().object(object).unwrap();
    let mut bytes = vec![0; object.size_of_blocks() as usize];
    object.read_at(0, &mut bytes).unwrap();
    bytes.as_chunks::<8>().0.iter().map(|b| object.dnode().endian.u64(*b)).collect()
}

fn used(pool: &Pool, specs: &[TopSpec]) -> Used {
    let mut used = Used::new();
    let mut since = BTreeMap::new();
    for spec in specs {
        used.insert(spec.id, vec![false; (spec.ms_count << spec.ms_shift >> 9) as usize]);
        for (i, object) in (0..spec.ms_count).zip(words(pool, spec.ms_array)) {
            if object != 0 {
                let object = pool.mos().object(object).unwrap();
                let start = spec.bounds(i).0;
                ranges(&object, start, spec.ashift, |r| apply(&mut used, spec.id, r));
            }
        }
        if spec.zap != 0 {
            let zap = Zap::open(&pool.mos().object(spec.zap).unwrap()).unwrap();
            let txgs = zap.get_u64(vdev_zap::METASLAB_UNFLUSHED_TXGS).unwrap();
            since.insert(spec.id, txgs.map_or_else(Vec::new, |n| words(pool, n)));
        }
    }
    if let Some(table) = pool.directory().unwrap().get_u64(mos::LOG_SPACEMAP_ZAP).unwrap() {
        let mut logs = BTreeMap::new();
        for e in Zap::open(&pool.mos().object(table).unwrap()).unwrap().entries() {
            let e = e.unwrap();
            let name = std::str::from_utf8(e.name.bytes().unwrap()).unwrap();
            logs.insert(u64::from_str_radix(name, 16).unwrap(), e.u64().unwrap());
        }
        for (txg, object) in logs {
            ranges(&pool.mos().object(object).unwrap(), 0, LOG_SHIFT, |r| {
                let Some(spec) = specs.iter().find(|s| Some(s.id) == r.vdev) else { return };
                let from = since[&spec.id].get((r.offset >> spec.ms_shift) as usize);
                if from.is_none_or(|from| txg >= *from) {
                    apply(&mut used, spec.id, r);
                }
            });
        }
    }
    used
}

/// All that is free is had, and nothing else.
fn all_that_is_free(pool: &Pool, out: &mut Vec<String>) {
    let specs = specs(pool);
    let mut used = used(pool, &specs);
    let alloc = open(pool);
    let txg = pool.uberblock().txg + 1;
    for class in [SpaceClass::Normal, SpaceClass::Log, SpaceClass::Special, SpaceClass::Dedup] {
        let mut psize = 1 << 20;
        while psize >= 512 {
            let want = AllocRequest { psize, copies: 1, class, txg, gang: false, hint: psize };
            while let Ok([dva, ..]) = alloc.allocate(&want) {
                let from = (dva.offset() >> 9) as usize;
                let to = from + (dva.asize() >> 9) as usize;
                let map = used.get_mut(&dva.vdev()).expect("a vdev of the pool");
                if map[from..to].contains(&true) {
                    return out.push(format!("{dva:?} was in use"));
                }
                map[from..to].fill(true);
            }
            psize /= 2;
        }
    }
    out.extend(alloc.problems());
    for spec in specs.iter().filter(|s| s.allocating) {
        let map = &used[&spec.id];
        // No range that is left could hold the smallest block.
        let unit = (spec.asize)(1, u64::MAX) >> 9;
        for i in 0..spec.ms_count {
            let (start, end) = spec.bounds(i);
            let here = &map[(start >> 9) as usize..(end >> 9) as usize];
            let runs = here.chunk_by(|a, b| a == b);
            let left = runs.filter(|r| !r[0]).map(|r| r.len() as u64).max().unwrap_or(0);
            if left >= unit {
                out.push(format!("{left} sectors are left in metaslab {i} of vdev {}", spec.id));
            }
        }
    }
}
