//! A little pool of memory devices, written by the geometry under test and by nothing else.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, unreachable_pub, missing_docs)]

pub mod walk;

use codec::raidz;
use device::{DeviceRef, MemoryDevice};
use ondisk::Dva;
use ondisk::config::VdevConfig;
use ondisk::nvlist::{NvList, NvValue};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::Rng;
use vdev::map::BlockMap;
use vdev::{BlockRead, BlockResult, LeafOpen, Scope, VdevTree};

pub const ASHIFT: u64 = 9;
/// Bytes of every device: sparse, so nothing.
pub const DEVICE_SIZE: u64 = 4 << 30;

pub fn list(kind: &str, id: u64, guid: u64) -> NvList {
    let mut l = NvList::new();
    l.set("type", NvValue::String(kind.into()));
    l.set("id", NvValue::U64(id)).set("guid", NvValue::U64(guid));
    l
}

pub fn leaf(id: u64, guid: u64) -> NvList {
    let mut l = list("file", id, guid);
    l.set("path", NvValue::String(format!("/disk{guid}").into_bytes()));
    l
}

pub fn with(mut l: NvList, children: Vec<NvList>) -> NvList {
    l.set("children", NvValue::NvListArray(children));
    l
}

pub fn top(mut l: NvList) -> NvList {
    l.set("ashift", NvValue::U64(ASHIFT));
    l
}

pub fn set(mut l: NvList, name: &str, value: u64) -> NvList {
    l.set(name, NvValue::U64(value));
    l
}

/// Disks 1 to `n` below a vdev of this kind.
pub fn over_disks(l: NvList, n: u64) -> NvList {
    with(top(l), (0..n).map(|i| leaf(i, i + 1)).collect())
}

/// The devices by guid, and the tree's configuration.
pub struct Bench {
    pub config: VdevConfig,
    pub devices: BTreeMap<u64, Arc<MemoryDevice>>,
}

impl Bench {
    pub fn new(tops: Vec<NvList>) -> Self {
        let config = VdevConfig::decode(&with(list("root", 0, 99), tops)).unwrap();
        let mut devices = BTreeMap::new();
        for v in config.walk().filter(|v| v.kind.name() == "file") {
            let name = v.path.clone().unwrap();
            devices.insert(v.guid, Arc::new(MemoryDevice::zeros(&name, DEVICE_SIZE)));
        }
        Self { config, devices }
    }

    pub fn tree(&self, missing: &[u64]) -> VdevTree {
        VdevTree::build(
            &rt::Rt::current(),
            &self.config,
            &mut |c| match self.devices.get(&c.guid) {
                Some(d) if !missing.contains(&c.guid) => {
                    LeafOpen::Online(Arc::clone(d) as DeviceRef)
                }
                _ => LeafOpen::Missing,
            },
        )
        .unwrap()
    }

    /// Writes a block as the geometry says; `guids` are the devices of each child.
    pub fn write(&self, map: &BlockMap, guids: impl Fn(usize, u64) -> Vec<(u64, u64)>, b: &[u8]) {
        let mut block = b.to_vec();
        block.resize(map.size as usize, 0);
        for s in &map.stripes {
            let data: Vec<&[u8]> = s.columns[s.nparity..]
                .iter()
                .map(|c| &block[c.at as usize..(c.at + c.size) as usize])
                .collect();
            let mut parity = vec![vec![0; s.height() as usize]; s.nparity];
            if s.nparity > 0 {
                let mut refs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
                raidz::generate(&mut refs, &data).unwrap();
            }
            let all = parity.iter().map(Vec::as_slice).chain(data);
            for (c, bytes) in s.columns.iter().zip(all) {
                for (guid, offset) in guids(c.child, c.offset) {
                    self.devices[&guid].put(offset, bytes);
                }
            }
        }
    }

    /// Turns over one bit of every byte.
    pub fn damage(&self, guid: u64, offset: u64, len: u64) {
        let mut bytes = self.bytes(guid, offset, len);
        bytes.iter_mut().for_each(|b| *b ^= 0x10);
        self.devices[&guid].put(offset, &bytes);
    }

    pub fn bytes(&self, guid: u64, offset: u64, len: u64) -> Vec<u8> {
        let device = &*self.devices[&guid];
        device::read_one(device, offset, len as usize).unwrap().to_vec()
    }
}

pub fn random(seed: u64, len: u64) -> Vec<u8> {
    let mut out = vec![0; len as usize];
    Rng::new(seed).fill(&mut out);
    out
}

/// Reads the block `expected` at `vdev:offset`.
pub fn read(tree: &VdevTree, at: (u32, u64), birth: u64, expected: &[u8], s: Scope) -> BlockResult {
    let verify = |b: &[u8]| b == expected;
    let size = expected.len() as u64;
    let dva = Dva::new(at.0, at.1, size, false);
    tree.read_batch(vec![BlockRead { dva, size, birth, verify: &verify, speculative: false }], s)
        .pop()
        .unwrap()
}

/// Guids of the faults, sorted, each once.
pub fn blamed(r: &BlockResult) -> Vec<u64> {
    let mut out: Vec<u64> = r.faults.iter().map(|f| f.guid).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// All sets of up to `k` of `1..=n`, the empty one first.
pub fn subsets(n: u64, k: usize) -> Vec<Vec<u64>> {
    let all = (0..1u32 << n).map(|m| (1..=n).filter(|g| m >> (g - 1) & 1 != 0).collect());
    let mut out: Vec<Vec<u64>> = all.filter(|s: &Vec<u64>| s.len() <= k).collect();
    out.sort_by_key(Vec::len);
    out
}
