//! Opens a corpus pool as far as this floor can and walks every block pointer in it: a scrub made
//! of nothing but the decoders, the codec and the vdev tree.

use codec::checksum::{Algorithm, ByteOrder, Salted, compute, verify_label};
use codec::compress;
use device::{DeviceRef, FileDevice, Options};
use ondisk::config::{LabelConfig, PoolConfig, VdevConfig};
use ondisk::dsl::DslDataset;
use ondisk::indirect::{MappingHeader, mapping};
use ondisk::label::{LABEL_SIZE, Label};
use ondisk::nvlist::{NvList, NvValue};
use ondisk::uberblock::Uberblock;
use ondisk::{BlkPtr, Checksum, DmuType, Dnode, Dva, Endian, ObjsetPhys};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use testkit::CorpusPool;
use vdev::{BlockRead, BlockResult, Fault, IndirectSegment, LeafOpen, Scope, VdevTree};

/// Requests of one batch.
const BATCH: usize = 64;

/// A pool as its labels tell it.
pub struct Pool {
    pub devices: BTreeMap<u64, DeviceRef>,
    pub root: VdevConfig,
    pub uberblock: Uberblock,
}

/// What a walk found.
#[derive(Default, Debug)]
pub struct Tally {
    pub blocks: u64,
    pub bytes: u64,
    pub unreadable: u64,
    pub faults: Vec<Fault>,
}

fn algorithm(c: Checksum) -> Algorithm {
    match c {
        Checksum::FLETCHER_2 => Algorithm::Fletcher2,
        Checksum::FLETCHER_4 => Algorithm::Fletcher4,
        Checksum::SHA256 => Algorithm::Sha256,
        Checksum::OFF | Checksum::NOPARITY => Algorithm::Off,
        other => panic!("the walked pools have no {other}"),
    }
}

fn verify(bp: &BlkPtr, bytes: &[u8]) -> bool {
    let algorithm = algorithm(bp.checksum_kind());
    let order = match bp.byteorder() {
        Endian::Little => ByteOrder::Little,
        Endian::Big => ByteOrder::Big,
    };
    algorithm == Algorithm::Off
        || compute(algorithm, order, &Salted::default(), bytes).matches(
            algorithm,
            bp.checksum(),
            false,
        )
}

impl Pool {
    /// Reads the labels of all images.
    pub fn open(case: &CorpusPool) -> Self {
        let mut devices = BTreeMap::new();
        let mut tops: BTreeMap<u64, (u64, VdevConfig)> = BTreeMap::new();
        let mut best: Option<Uberblock> = None;
        for image in &case.images {
            let (device, config, ub) = label(image);
            let Some(config) = config else { continue };
            devices.insert(config.guid.unwrap(), device);
            let tree = config.vdev_tree;
            let known = tops.get(&tree.guid).map_or(0, |t| t.0);
            if config.txg > known {
                tops.insert(tree.guid, (config.txg, tree));
            }
            if ub.is_some_and(|u| best.is_none_or(|b| u.cmp_age(&b).is_gt())) {
                best = ub;
            }
        }
        let mut children: Vec<VdevConfig> = tops.into_values().map(|t| t.1).collect();
        children.sort_by_key(|c| c.id);
        let mut root = NvList::new();
        root.set("type", NvValue::String(b"root".to_vec())).set("guid", NvValue::U64(1));
        let children = children.iter().map(VdevConfig::to_nvlist).collect();
        root.set("children", NvValue::NvListArray(children));
        let root = VdevConfig::decode(&root).unwrap();
        Self { devices, root, uberblock: best.unwrap() }
    }

    /// The tree, with what the MOS adds to the labels; devices in `missing` stay closed.
    pub fn tree(&self, missing: &[u64]) -> VdevTree {
        self.tree_or_none(missing).expect("objset of the MOS")
    }

    /// The same, or `None` when the MOS cannot be read.
    pub fn tree_or_none(&self, missing: &[u64]) -> Option<VdevTree> {
        let from_labels = self.build(&self.root, missing);
        let objset = fetch(&from_labels, &self.uberblock.rootbp)?;
        drop(objset);
        let configs = self.objects(&from_labels, Some(DmuType::PACKED_NVLIST));
        let root = configs
            .into_iter()
            .filter_map(|(_, data)| {
                let list = NvList::decode(&data).ok()?;
                VdevConfig::decode(list.list("vdev_tree").ok()?).ok()
            })
            .next()
            .expect("the MOS has the configuration");
        let mut tree = self.build(&root, missing);
        let removed = root.children.iter().filter_map(|c| Some((c.id, c.indirect_object?)));
        for (vdev, object) in removed {
            let all = self.objects(&tree, None);
            let (dnode, data) = all.into_iter().find(|(d, _)| d.0 == object).expect("mapping");
            let header = MappingHeader::decode(&dnode.1.bonus, dnode.1.endian).unwrap();
            let entries = mapping(&header, &data, dnode.1.endian).unwrap();
            let segment = |e: &ondisk::indirect::MappingEntry| IndirectSegment {
                src_offset: e.src,
                size: e.size(),
                dst: e.dst,
                txg: 0,
            };
            tree.set_indirect(vdev as u32, entries.iter().map(segment).collect()).unwrap();
        }
        Some(tree)
    }

    /// The tree by the labels alone, with every device in use whatever the configuration says.
    pub fn tree_with_all(&self) -> VdevTree {
        VdevTree::build(&rt::Rt::current(), &self.root, &mut |c| match self.devices.get(&c.guid) {
            Some(d) => LeafOpen::Online(Arc::clone(d)),
            None => LeafOpen::Missing,
        })
        .unwrap()
    }

    fn build(&self, root: &VdevConfig, missing: &[u64]) -> VdevTree {
        let device = |c: &VdevConfig| {
            self.devices.get(&c.guid).filter(|_| !missing.contains(&c.guid)).cloned()
        };
        VdevTree::build(&rt::Rt::current(), root, &mut |c| LeafOpen::by_config(c, device(c)))
            .unwrap()
    }

    /// Objects of the MOS of one type, or of all: number, dnode and data (of small ones).
    fn objects(&self, tree: &VdevTree, kind: Option<DmuType>) -> Vec<((u64, Dnode), Vec<u8>)> {
        let objset = fetch(tree, &self.uberblock.rootbp).expect("objset of the MOS");
        let objset = ObjsetPhys::decode(&objset, self.uberblock.rootbp.byteorder()).unwrap();
        let meta = objset.meta_dnode.unwrap();
        let endian = meta.endian;
        let table = contents(tree, &meta);
        let mut out = Vec::new();
        for (number, dnode) in dnodes(&table, endian) {
            let small = dnode.max_block < 64;
            if small && kind.is_none_or(|k| dnode.kind == k) {
                let data = contents(tree, &dnode);
                out.push(((number, dnode), data));
            }
        }
        out
    }

    /// Reads every block of the pool once for every address it has.
    pub fn walk(&self, tree: &VdevTree, scope: Scope) -> Tally {
        self.walk_all(tree, scope).tally
    }

    /// Every block pointer in the pool, each once.
    pub fn pointers(&self, tree: &VdevTree) -> Vec<BlkPtr> {
        self.walk_all(tree, Scope::Data).found
    }

    /// Every address in the pool on vdevs that are not removed, with its block pointer.
    pub fn sizes(&self, tree: &VdevTree) -> Vec<(BlkPtr, Dva)> {
        let there = |d: &Dva| tree.top(d.vdev()).is_some_and(|t| t.node().kind() != "indirect");
        let found = self.pointers(tree);
        let dvas = found.iter().flat_map(|bp| bp.dvas().map(|(_, d)| (*bp, d)));
        dvas.filter(|(_, d)| there(d)).collect()
    }

    fn walk_all<'t>(&self, tree: &'t VdevTree, scope: Scope) -> Walk<'t> {
        let (seen, found, tally) = (HashSet::new(), Vec::new(), Tally::default());
        let mut walk = Walk { tree, scope, seen, found, tally };
        let mut objsets = vec![self.uberblock.rootbp];
        while let Some(bp) = objsets.pop() {
            walk.objset(&bp, &mut objsets);
        }
        walk
    }
}

fn label(image: &Path) -> (DeviceRef, Option<PoolConfig>, Option<Uberblock>) {
    let device: DeviceRef = Arc::new(FileDevice::open(image, &Options::default()).unwrap());
    let bytes = device::read_one(&*device, 0, LABEL_SIZE as usize).unwrap();
    let label = Label::new(&bytes).unwrap();
    let Ok(LabelConfig::Member(config)) = label.config() else { return (device, None, None) };
    let ashift = config.vdev_tree.ashift.unwrap();
    let uberblock = label
        .slots(ashift)
        .filter(|(offset, slot)| verify_label(slot, *offset).is_ok())
        .filter_map(|(_, slot)| Uberblock::decode(slot).ok())
        .map(|(u, _)| u)
        .max_by(Uberblock::cmp_age);
    (device, Some(*config), uberblock)
}

/// Reads a block of metadata, verified and decompressed.
fn fetch(tree: &VdevTree, bp: &BlkPtr) -> Option<Vec<u8>> {
    if bp.is_hole() {
        return Some(vec![0; bp.lsize() as usize]);
    }
    let stored = match bp.is_embedded() {
        true => bp.embedded_payload(),
        false => bp.dvas().find_map(|(_, dva)| {
            let check = |b: &[u8]| verify(bp, b);
            let (size, birth) = (bp.psize(), bp.physical_birth());
            let r = tree.read(BlockRead { dva, size, birth, verify: &check, speculative: false });
            r.data.ok().map(|b| b.to_vec())
        })?,
    };
    let mut out = vec![0; bp.lsize() as usize];
    let algorithm = compress::from_number(bp.compression().0).unwrap();
    compress::decompress(algorithm, &stored, &mut out).unwrap();
    Some(out)
}

/// The block pointers of an indirect block.
fn pointers(block: &[u8], endian: Endian) -> Vec<BlkPtr> {
    block.chunks_exact(128).map(|c| BlkPtr::decode(c, endian).unwrap()).collect()
}

/// All data of a small object.
fn contents(tree: &VdevTree, dnode: &Dnode) -> Vec<u8> {
    let mut level: Vec<BlkPtr> = dnode.blkptrs.clone();
    for _ in 1..dnode.levels {
        let below = |bp: &BlkPtr| match bp.is_hole() {
            true => vec![BlkPtr::HOLE; dnode.pointers_per_indirect() as usize],
            false => pointers(&fetch(tree, bp).expect("indirect block"), bp.byteorder()),
        };
        level = level.iter().flat_map(below).collect();
    }
    let blocks = level.iter().take(dnode.max_block as usize + 1);
    let zeros = || vec![0; dnode.block_size() as usize];
    blocks.flat_map(|bp| if bp.is_hole() { zeros() } else { fetch(tree, bp).unwrap() }).collect()
}

/// The allocated dnodes of a run of slots, with the numbers of their slots.
fn dnodes(table: &[u8], endian: Endian) -> Vec<(u64, Dnode)> {
    let mut out = Vec::new();
    let mut at = 0;
    while at + 512 <= table.len() {
        let slot = &table[at..];
        let number = (at / 512) as u64;
        at += 512;
        if !Dnode::is_free_slot(slot) {
            let dnode = Dnode::decode(slot, endian).unwrap();
            at += dnode.size() - 512;
            out.push((number, dnode));
        }
    }
    out
}

struct Walk<'t> {
    tree: &'t VdevTree,
    scope: Scope,
    seen: HashSet<[u64; 2]>,
    found: Vec<BlkPtr>,
    tally: Tally,
}

impl Walk<'_> {
    /// One object set; the object sets its datasets name are added to `more`.
    fn objset(&mut self, bp: &BlkPtr, more: &mut Vec<BlkPtr>) {
        let fresh = self.read(&[*bp]);
        if fresh.is_empty() {
            return;
        }
        let Some(block) = fetch(self.tree, bp) else { return };
        let objset = ObjsetPhys::decode(&block, bp.byteorder()).unwrap();
        for d in [&objset.user_used, &objset.group_used, &objset.project_used] {
            d.iter().for_each(|d| self.object(d, &mut |_, _| {}));
        }
        let Some(meta) = objset.meta_dnode else { return };
        let mut found = Vec::new();
        self.object(&meta, &mut |block, endian| found.extend(dnodes(block, endian)));
        for (_, dnode) in found {
            if dnode.bonus_kind == DmuType::DSL_DATASET {
                more.push(DslDataset::decode(&dnode.bonus, dnode.endian).unwrap().bp);
            }
            self.object(&dnode, &mut |_, _| {});
        }
    }

    /// All blocks of an object, level by level; `data` gets those of the meta dnode.
    fn object(&mut self, dnode: &Dnode, data: &mut dyn FnMut(&[u8], Endian)) {
        let mut level: Vec<BlkPtr> = dnode.blkptrs.iter().chain(&dnode.spill).copied().collect();
        while !level.is_empty() {
            let mut below = Vec::new();
            for bp in self.read(&level) {
                if bp.level() > 0 {
                    let block = fetch(self.tree, &bp).expect("it was just read");
                    below.extend(pointers(&block, bp.byteorder()));
                } else if dnode.kind == DmuType::DNODE {
                    data(&fetch(self.tree, &bp).expect("it was just read"), bp.byteorder());
                }
            }
            level = below;
        }
    }

    /// Reads blocks at all their addresses; returns those that were read for the first time.
    fn read(&mut self, bps: &[BlkPtr]) -> Vec<BlkPtr> {
        let mut fresh = Vec::new();
        for bp in bps.iter().filter(|b| !b.is_hole() && !b.is_embedded()) {
            assert!(!bp.is_gang(), "the walked pools have no gang blocks");
            if self.seen.insert(bp.dva(0).words()) {
                fresh.push(*bp);
            }
        }
        self.found.extend_from_slice(&fresh);
        for group in fresh.chunks(BATCH) {
            let checks: Vec<_> = group.iter().map(|bp| move |b: &[u8]| verify(bp, b)).collect();
            let reads = group.iter().zip(&checks).flat_map(|(bp, verify)| {
                let (size, birth) = (bp.psize(), bp.physical_birth());
                bp.dvas().map(move |(_, dva)| BlockRead {
                    dva,
                    size,
                    birth,
                    verify,
                    speculative: false,
                })
            });
            for r in self.tree.read_batch(reads.collect(), self.scope) {
                self.count(r);
            }
        }
        fresh
    }

    fn count(&mut self, r: BlockResult) {
        self.tally.faults.extend(r.faults);
        match r.data {
            Ok(b) => {
                self.tally.blocks += 1;
                self.tally.bytes += b.len() as u64;
            }
            Err(_) => self.tally.unreadable += 1,
        }
    }
}
