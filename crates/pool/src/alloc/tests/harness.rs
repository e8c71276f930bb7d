//! Space maps in memory, and an allocator over them.

use crate::alloc::maps::{BlockVisitor, ReadMaps, WriteMaps};
use crate::alloc::open::summary;
use crate::alloc::spec::{Summaries, TopSpec};
use crate::alloc::top::Top;
use crate::alloc::{AllocOptions, Allocator};
use ondisk::spacemap::{self, Action, Entry, SpaceMapHeader};
use ondisk::{BlkPtr, Dva, Endian};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use zio::{AllocRequest, SpaceClass};

/// Small blocks, so that maps are condensed and two-word entries meet the ends of blocks.
pub(super) const BLOCK: usize = 512;

#[derive(Default)]
struct Objects {
    next: u64,
    maps: BTreeMap<u64, (SpaceMapHeader, Vec<u8>)>,
    arrays: BTreeMap<(u64, u64), u64>,
    named: BTreeMap<String, u64>,
    rewritten: u64,
}

/// The objects of a MOS that matter here.
#[derive(Clone, Default)]
pub(super) struct Store(Arc<Mutex<Objects>>);

impl ReadMaps for Store {
    fn read(&self, object: u64, each: &mut BlockVisitor<'_>) -> Result<(), String> {
        let bytes = self.0.lock().maps.get(&object).ok_or("no such map")?.1.clone();
        bytes.chunks(3 * BLOCK).try_for_each(|piece| each(piece, Endian::Little))
    }
}

impl WriteMaps for Store {
    fn create(&mut self, array: u64, index: u64) -> dmu::Result<u64> {
        let mut o = self.0.lock();
        o.next += 1;
        let n = o.next;
        o.maps.insert(n, (SpaceMapHeader::new(true), Vec::new()));
        assert_eq!(o.arrays.insert((array, index), n), None, "a second map for a metaslab");
        Ok(n)
    }

    fn create_named(&mut self, _: u64, name: &str) -> dmu::Result<u64> {
        let mut o = self.0.lock();
        o.next += 1;
        let n = o.next;
        o.maps.insert(n, (SpaceMapHeader::new(true), Vec::new()));
        assert_eq!(o.named.insert(name.to_owned(), n), None, "a second map of that name");
        Ok(n)
    }

    fn open(&self, object: u64) -> dmu::Result<(SpaceMapHeader, usize)> {
        Ok((self.0.lock().maps[&object].0.clone(), BLOCK))
    }

    fn write(
        &mut self,
        object: u64,
        at: u64,
        bytes: &[u8],
        header: &SpaceMapHeader,
    ) -> dmu::Result<()> {
        let mut o = self.0.lock();
        o.rewritten += u64::from(at == 0);
        let map = o.maps.get_mut(&object).unwrap();
        map.1.truncate(at as usize);
        assert_eq!(map.1.len() as u64, at, "no gaps");
        map.1.extend_from_slice(bytes);
        assert_eq!(map.1.len() as u64, header.length);
        map.0 = header.clone();
        Ok(())
    }
}

impl Store {
    /// Maps that were written from their beginning.
    pub(super) fn rewritten(&self) -> u64 {
        self.0.lock().rewritten
    }

    /// Bytes of the longest map.
    pub(super) fn longest(&self) -> u64 {
        self.0.lock().maps.values().map(|(header, _)| header.length).max().unwrap_or(0)
    }

    pub(super) fn damage(&self, object: u64) {
        let mut o = self.0.lock();
        let (_, bytes) = o.maps.get_mut(&object).unwrap();
        let twice = bytes.clone();
        bytes.extend(twice);
    }

    /// Allocated sectors according to the maps of a vdev; every entry must change something.
    pub(super) fn allocated(&self, spec: &TopSpec) -> Vec<bool> {
        let o = self.0.lock();
        let size = spec.ms_count << spec.ms_shift;
        let mut out = vec![false; (size >> spec.ashift) as usize];
        for index in 0..spec.ms_count {
            let Some(object) = o.arrays.get(&(spec.ms_array, index)) else { continue };
            let (header, bytes) = &o.maps[object];
            let (start, end) = spec.bounds(index);
            let mut walk = spacemap::entries(bytes, Endian::Little, start, spec.ashift);
            loop {
                let from = walk.at();
                let Some(entry) = walk.next() else { break };
                if let Entry::Range(r) = entry.unwrap() {
                    assert!(r.offset >= start && r.offset + r.size <= end, "{r:?}");
                    assert_eq!(from / BLOCK, (walk.at() - 1) / BLOCK, "across blocks");
                    let (a, b) = (r.offset >> spec.ashift, (r.offset + r.size) >> spec.ashift);
                    for bit in &mut out[a as usize..b as usize] {
                        assert_eq!(*bit, r.action == Action::Free, "{r:?} changes nothing");
                        *bit = !*bit;
                    }
                }
            }
            let bits = &out[(start >> spec.ashift) as usize..(end >> spec.ashift) as usize];
            let sectors = bits.iter().filter(|b| **b).count() as i64;
            assert_eq!(header.allocated, sectors << spec.ashift, "header of {object}");
        }
        out
    }

    /// An allocator that knows what the headers say.
    pub(super) fn open(&self, specs: &[TopSpec], threads: usize) -> Allocator {
        let options = AllocOptions { threads, two_words: true, histograms: true, obsolete: true };
        let mut out = Allocator::empty(Box::new(self.clone()), options);
        out.map_block = BLOCK;
        for spec in specs {
            let of = |i| {
                let (start, end) = spec.bounds(i);
                let o = self.0.lock();
                let object = o.arrays.get(&(spec.ms_array, i));
                object.map_or_else(Default::default, |n| {
                    summary(*n, &o.maps[n].0, end - start, spec.ashift)
                })
            };
            let summaries = Summaries((0..spec.ms_count).map(of).collect());
            out.add(Top::new(spec, &summaries));
        }
        out
    }

    /// One whole sync: passes until nothing changes. `between` plays the MOS: it may allocate and
    /// discard after each pass that wrote, and is given the number of the pass.
    pub(super) fn sync(&self, alloc: &Allocator, txg: u64, mut between: impl FnMut(u32)) {
        let mut pass = 1;
        while alloc.sync_maps(&mut self.clone(), txg, pass).unwrap() {
            between(pass);
            pass += 1;
            assert!(pass < 50, "does not converge");
        }
        alloc.sync_done(txg);
    }
}

/// A vdev without parity.
pub(super) fn plain(id: u32, ashift: u8, ms_shift: u32, ms_count: u64) -> TopSpec {
    TopSpec {
        id,
        ashift,
        ms_shift,
        ms_count,
        row: 1 << ashift,
        class: SpaceClass::Normal,
        allocating: true,
        ms_array: 1000 + u64::from(id),
        zap: 0,
        asize: Arc::new(move |psize, _| psize.next_multiple_of(1 << ashift)),
    }
}

/// A RAID-Z of `width` devices.
pub(super) fn raidz(spec: &TopSpec, nparity: u64, width: u64) -> TopSpec {
    let ashift = spec.ashift;
    let asize = move |psize: u64, _| {
        let data = psize.div_ceil(1 << ashift);
        let all = data + nparity * data.div_ceil(width - nparity);
        all.next_multiple_of(nparity + 1) << ashift
    };
    TopSpec { asize: Arc::new(asize), ..spec.clone() }
}

pub(super) fn want(psize: u64, copies: u8, txg: u64, hint: u64) -> AllocRequest {
    AllocRequest { psize, copies, class: SpaceClass::Normal, txg, gang: false, hint }
}

pub(super) fn pointer(dvas: [Dva; 3]) -> BlkPtr {
    let mut words = [0; 16];
    for (i, d) in dvas.iter().enumerate() {
        words[2 * i..2 * i + 2].copy_from_slice(&d.words());
    }
    BlkPtr::from_words(words)
}
