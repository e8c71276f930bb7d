//! One attempt: from an uberblock to an open pool.
//!
//! Every step decides whether its failure is the end. A structure that later steps do not need is
//! excused: noted in the pool's salvage, and done without. See `docs/decisions/0004-read-path.md`.

use super::{
    AUTOMATIC_ATTEMPTS, AuxSizes, Features, OpenOptions, Pool, STALE_DEVICES, Salvage,
    known_version,
};
use crate::assemble::Candidate;
use crate::dtl;
use crate::error::{Absence, Error, Result, UnknownFeature};
use crate::faults::FaultLog;
use crate::scans_here::ScansHere;
use crate::uberblocks;
use dmu::{BlockStore, CachedStore, Objset, ReadAheadStopper, Zap};
use dsl::Dsl;
use ondisk::config::{PoolConfig, VdevConfig, VdevKind, aux_devices};
use ondisk::features;
use ondisk::nvlist::NvList;
use ondisk::uberblock::{ReflowScratch, Uberblock};
use ondisk::{Endian, checkpoint};
use ondisk::{mos, spelling};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vdev::{BuildError, IndirectSegment, LeafOpen, Reflow, VdevTree};
use zio::Reader;

/// One attempt to open one uberblock.
pub(super) struct Opening<'a> {
    candidate: &'a Candidate,
    uberblock: Uberblock,
    options: &'a OpenOptions,
    faults: Arc<FaultLog>,
    salvage: Vec<Salvage>,
    /// The object directory must be there.
    with_directory: bool,
}

impl<'a> Opening<'a> {
    pub(super) fn new(
        candidate: &'a Candidate,
        uberblock: Uberblock,
        options: &'a OpenOptions,
        with_directory: bool,
    ) -> Self {
        let (faults, salvage) = (Arc::new(FaultLog::default()), Vec::new());
        Self { candidate, uberblock, options, faults, salvage, with_directory }
    }

    fn pool(&self) -> String {
        self.candidate.name().to_owned()
    }

    fn damaged(&self, what: &'static str) -> impl Fn(dmu::Error) -> Error + use<> {
        let (pool, txg) = (self.pool(), self.uberblock.txg);
        move |cause| Error::Damaged { pool: pool.clone(), txg, what, cause }
    }

    /// A reader over the vdevs of `tree`; when they are not enough, also over those devices that
    /// are there and marked as out of use.
    fn reader(&mut self, tree: &VdevConfig) -> Result<Reader> {
        if self.options.for_writers {
            let refused = self.candidate.refused(tree);
            let reader = self.reader_without(&refused, tree, self.options.use_offline)?;
            if !refused.is_empty() && reader.vdevs().is_sufficient() {
                return Ok(reader);
            }
        }
        let reader = self.reader_over(tree, self.options.use_offline)?;
        if self.options.use_offline || reader.vdevs().is_sufficient() {
            return Ok(reader);
        }
        let wider = self.reader_over(tree, true)?;
        if !wider.vdevs().is_sufficient() {
            return Ok(reader);
        }
        let missing = self.candidate.missing(tree, self.uberblock.txg);
        let there = missing.iter().filter(|m| m.absence != Absence::NotFound);
        let guids: Vec<_> = there.map(|m| m.guid.to_string()).collect();
        let guids = guids.join(", ");
        self.salvage.push(Salvage {
            what: STALE_DEVICES,
            cause: format!(
                "too few devices without those that are out of use or outdated: {guids}"
            ),
        });
        Ok(wider)
    }

    fn reader_over(&self, tree: &VdevConfig, use_offline: bool) -> Result<Reader> {
        self.reader_without(&BTreeMap::new(), tree, use_offline)
    }

    fn reader_without(
        &self,
        refused: &BTreeMap<u64, device::ErrorKind>,
        tree: &VdevConfig,
        use_offline: bool,
    ) -> Result<Reader> {
        let behind = self.candidate.behind(tree, self.uberblock.txg);
        let mut leaf = |c: &VdevConfig| match (refused.get(&c.guid), use_offline) {
            (Some(why), _) => LeafOpen::Refused(*why),
            (None, true) => self.candidate.leaf_or_offline(c, &behind),
            (None, false) => self.candidate.leaf_for(c, &behind),
        };
        let config = |e: BuildError| Error::Config { pool: self.pool(), cause: e.into() };
        let mut vdevs = VdevTree::build(&self.options.rt, tree, &mut leaf).map_err(config)?;
        vdevs.count_errors(&self.options.errors);
        set_reflow(&mut vdevs, tree, &self.uberblock).map_err(config)?;
        let mut reader = Reader::new(vdevs, &[0; 32]);
        reader.set_trusting(self.options.ignore_checksums);
        Ok(reader)
    }

    fn missing(&self, tree: &VdevConfig) -> Error {
        Error::MissingDevices {
            pool: self.pool(),
            missing: self.candidate.missing(tree, self.uberblock.txg),
        }
    }

    fn store(&self, reader: Reader) -> Arc<CachedStore> {
        self.options.store(&Arc::new(reader), &self.faults)
    }

    fn mos(&self, store: &Arc<CachedStore>) -> Result<Objset> {
        let store: Arc<dyn BlockStore> = Arc::clone(store) as _;
        Objset::open(store, 0, &self.uberblock.rootbp, None).map_err(self.damaged("the MOS"))
    }

    /// The object directory; `None` if it is lost and need not be there.
    fn directory(&self, mos: &Objset) -> Result<Option<Zap>> {
        let directory = mos.object(mos::DIRECTORY_OBJECT).and_then(|o| Zap::open(&o));
        match directory {
            Err(_) if !self.with_directory => Ok(None),
            other => other.map(Some).map_err(self.damaged("the object directory")),
        }
    }

    /// Notes what a pool does without whose object directory is lost.
    fn note_directory(&mut self) {
        let cause =
            "datasets are found by the types of their objects; checksums with a salt (skein, \
                     edonr, blake3) cannot be verified without it"
                .to_owned();
        self.salvage.push(Salvage { what: "the object directory", cause });
    }

    pub(super) fn run(mut self) -> Result<Pool> {
        known_version(self.candidate.name(), self.uberblock.version)?;
        // With the labels' tree, only to reach the configuration in the MOS, so whatever device
        // there is may help. Labels do not tell removed vdevs from missing ones, so the tree may
        // look worse than it is.
        let reader = self.reader_over(&self.candidate.tree, true)?;
        let complete = self.reader_over(&self.candidate.tree, false)?.vdevs().is_sufficient();
        let first = self.store(reader);
        let root = self.mos(&first).and_then(|mos| Ok((self.directory(&mos)?, mos)));
        let (directory, mos) = match root {
            Err(Error::Damaged { .. }) if !complete => {
                return Err(self.missing(&self.candidate.tree));
            }
            other => other?,
        };
        let (directory, mos) = self.at_checkpoint(&first, (directory, mos))?;
        let mut config = self.configuration(&first, &mos, directory.as_ref());
        // Tables may be on removed vdevs; the mappings of these are not.
        let tables = self.with_tables(&mos, &config.vdev_tree);
        self.fill_classes(&tables, &mut config.vdev_tree);
        let mut reader = match self.reader(&config.vdev_tree) {
            Err(Error::Config { cause, .. }) => {
                let cause = cause.to_string();
                self.salvage.push(Salvage { what: "the configuration in the MOS", cause });
                config.vdev_tree = self.candidate.tree.clone();
                self.reader(&config.vdev_tree)?
            }
            other => other?,
        };
        if !self.options.allow_missing && !reader.vdevs().is_sufficient() {
            return Err(self.missing(&config.vdev_tree));
        }
        if let Some(salt) = directory.as_ref().and_then(|d| self.salt(d)) {
            reader.set_salt(&salt);
        }
        self.set_missed(&tables, &reader, &config.vdev_tree);
        let reader = self.with_indirect(reader, &config.vdev_tree)?;
        let store = self.store(reader);
        let mos = self.mos(&store)?;
        let directory = self.directory(&mos)?;
        let Some(directory) = directory else {
            self.note_directory();
            let dsl = Dsl::search(mos.clone(), &config.name);
            return Ok(self.pool_of(config, store, mos, dsl));
        };
        let features = self.features(&mos, &directory)?;
        let dsl = match Dsl::open(mos.clone(), &config.name) {
            Ok(dsl) => dsl,
            Err(dsl::Error::Dmu(_)) if !self.with_directory => {
                self.note_directory();
                Dsl::search(mos.clone(), &config.name)
            }
            Err(dsl::Error::Dmu(e)) => return Err(self.damaged("the root dataset")(e)),
            Err(other) => {
                return Err(Error::Config { pool: self.pool(), cause: other.into() });
            }
        };
        let spares = self.aux(&mos, &directory, mos::SPARES, "spares");
        let l2cache = self.aux(&mos, &directory, mos::L2CACHE, "l2cache");
        let deflate = self.deflates(&directory);
        let mut pool = self.pool_of(config, store, mos, dsl);
        pool.candidate.note_given_back(&pool.config.vdev_tree, &spares);
        Ok(Pool { features, spares, l2cache, deflate, ..pool })
    }

    /// The pool, with nothing that the object directory leads to.
    fn pool_of(self, config: PoolConfig, store: Arc<CachedStore>, mos: Objset, dsl: Dsl) -> Pool {
        Pool {
            deflate: true,
            candidate: self.candidate.clone(),
            config,
            uberblock: self.uberblock,
            ahead: Some(ReadAheadStopper::new(store.reading_ahead())),
            store,
            mos,
            dsl,
            features: Features::default(),
            faults: self.faults,
            salvage: self.salvage,
            spares: Vec::new(),
            l2cache: Vec::new(),
            altroot: None,
            gate: None,
            haste: None,
            suspended: None,
            is_waiting: false,
            scans: ScansHere::default(),
            refused: BTreeMap::new(),
            aux_sizes: AuxSizes::default(),
        }
    }

    /// Whether datasets count space without parity. Nearly every pool has the flag, so a directory
    /// that cannot be read is taken to have it.
    fn deflates(&mut self, directory: &Zap) -> bool {
        let flag = self.excuse("the flag of deflation", directory.get_u64(mos::DEFLATE));
        flag.is_none_or(|flag| flag.is_some_and(|n| n != 0))
    }

    /// The MOS through the mappings of removed vdevs; as it is when there are none, or they cannot
    /// be
    /// read, which is found again where it matters.
    fn with_tables(&mut self, mos: &Objset, tree: &VdevConfig) -> Objset {
        if !tree.children.iter().any(|top| top.kind == VdevKind::Indirect) {
            return mos.clone();
        }
        let known = self.salvage.len();
        let reader = self.reader(tree).and_then(|reader| self.with_indirect(reader, tree));
        let mapped = reader.and_then(|reader| {
            let store = self.store(reader);
            self.mos(&store)
        });
        self.salvage.truncate(known);
        mapped.unwrap_or_else(|_| mos.clone())
    }

    /// Notes a failure that costs only what it is about.
    fn excuse<T>(&mut self, what: &'static str, result: dmu::Result<T>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(e) => {
                self.salvage.push(Salvage { what, cause: e.to_string() });
                None
            }
        }
    }

    fn packed_list(mos: &Objset, directory: &Zap, name: &str) -> dmu::Result<Option<NvList>> {
        /// Packed lists are a few KiB; a pool of thousands of disks stays below this.
        const LIST_MAX: u64 = 64 << 20;
        let Some(number) = directory.get_u64(name)?.filter(|n| *n != 0) else { return Ok(None) };
        let object = mos.object(number)?;
        // The bonus has the length of the list in bytes.
        let dnode = object.dnode();
        let size = match dnode.bonus.first_chunk::<8>() {
            Some(b) => dnode.endian.u64(*b),
            None => object.size_of_blocks(),
        };
        if size > LIST_MAX.min(object.size_of_blocks()) {
            return Err(object.error(dmu::ErrorKind::Tree("a packed list is too large")));
        }
        let mut bytes = vec![0; size as usize];
        object.read_at(0, &mut bytes)?;
        NvList::decode(&bytes).map(Some).map_err(|e| object.format_error(0, e))
    }

    /// The configuration in the MOS; without that, one of an older MOS, which describes the same
    /// devices unless some came or went in between; without that, what the labels know.
    fn configuration(
        &mut self,
        store: &Arc<CachedStore>,
        mos: &Objset,
        directory: Option<&Zap>,
    ) -> PoolConfig {
        let by_labels = || PoolConfig {
            vdev_tree: self.candidate.tree.clone(),
            ..self.candidate.config.clone()
        };
        let (by_labels, name) = (by_labels(), self.pool());
        if let Some(config) = directory.and_then(|d| self.mos_config(mos, d)) {
            return config;
        }
        let all = uberblocks::by_txg(&self.candidate.uberblocks);
        let older = all.iter().filter(|c| c.uberblock.txg < self.uberblock.txg);
        for c in older.take(AUTOMATIC_ATTEMPTS) {
            let store: Arc<dyn BlockStore> = Arc::clone(store) as _;
            let list = Objset::open(store, 0, &c.uberblock.rootbp, None).and_then(|mos| {
                let directory = Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
                Self::packed_list(&mos, &directory, mos::CONFIG)
            });
            if let Some(config) = list.ok().flatten().and_then(|l| PoolConfig::decode(&l).ok()) {
                let cause = format!("that of txg {} is used", c.uberblock.txg);
                let cause = cause.to_string();
                self.salvage.push(Salvage { what: "the configuration in the MOS", cause });
                return PoolConfig { name, ..config };
            }
        }
        by_labels
    }

    fn mos_config(&mut self, mos: &Objset, directory: &Zap) -> Option<PoolConfig> {
        let list = Self::packed_list(mos, directory, mos::CONFIG);
        let list = self.excuse("the configuration in the MOS", list)??;
        match PoolConfig::decode(&list) {
            // A pool that was renamed on import keeps its old name in an old MOS.
            Ok(c) => Some(PoolConfig { name: self.pool(), ..c }),
            Err(e) => {
                let what = "the configuration in the MOS";
                self.salvage.push(Salvage { what, cause: e.to_string() });
                None
            }
        }
    }

    /// The class of a top-level vdev is stored in its ZAP, not in the configuration.
    fn fill_classes(&mut self, mos: &Objset, tree: &mut VdevConfig) {
        for top in &mut tree.children {
            let Some(zap) = top.vdev_zap_top.filter(|n| *n != 0) else { continue };
            let entry = mos.object(zap).and_then(|o| Zap::open(&o));
            let entry = entry.and_then(|z| z.get(mos::vdev_zap::ALLOCATION_BIAS.as_bytes()));
            let entry = self.excuse("the allocation class of a vdev", entry).flatten();
            if let Some(name) = entry.as_ref().and_then(|e| e.value_text()) {
                top.alloc_bias = Some(spelling::in_line(&String::from_utf8_lossy(name)));
            }
        }
    }

    /// Tells the reader which txgs devices missed. What was read so far may have met that these
    /// lack it, which is no error of theirs.
    fn set_missed(&mut self, mos: &Objset, reader: &Reader, tree: &VdevConfig) {
        let mut complete: BTreeSet<u64> = tree.walk().map(|vdev| vdev.guid).collect();
        for leaf in tree.walk() {
            let Some(number) = leaf.dtl.filter(|n| *n != 0) else { continue };
            let txgs = self.excuse("the txgs a device missed", dtl::read(mos, number));
            if let Some(txgs) = txgs.filter(|t| !t.is_empty()) {
                reader.vdevs().set_missed(leaf.guid, &txgs);
                complete.remove(&leaf.guid);
            }
        }
        self.faults.forget_all_but(&complete);
    }

    fn aux(
        &mut self,
        mos: &Objset,
        directory: &Zap,
        name: &'static str,
        member: &'static str,
    ) -> Vec<VdevConfig> {
        let list = Self::packed_list(mos, directory, name);
        let list = self.excuse(name, list).flatten();
        list.and_then(|l| aux_devices(&l, member).ok()).unwrap_or_default()
    }

    fn salt(&mut self, directory: &Zap) -> Option<[u8; 32]> {
        let entry = directory.get(mos::CHECKSUM_SALT.as_bytes());
        let entry = self.excuse("the checksum salt", entry)??;
        entry.value_bytes()?.try_into().ok()
    }

    /// The directory and the MOS of the checkpoint, if requested: the configuration and the classes
    /// of vdevs are those of the checkpoint, too.
    fn at_checkpoint(
        &mut self,
        store: &Arc<CachedStore>,
        (directory, mos): (Option<Zap>, Objset),
    ) -> Result<(Option<Zap>, Objset)> {
        let Some(directory) = directory.as_ref().filter(|_| self.options.checkpoint) else {
            return Ok((directory, mos));
        };
        self.rewind_to_checkpoint(directory)?;
        let mos = self.mos(store)?;
        Ok((self.directory(&mos)?, mos))
    }

    /// Replaces the uberblock by the checkpoint's.
    fn rewind_to_checkpoint(&mut self, directory: &Zap) -> Result<()> {
        let none = || Error::NoCheckpoint { pool: self.pool() };
        let entry = directory.get(mos::ZPOOL_CHECKPOINT.as_bytes());
        let entry = entry.map_err(self.damaged("the checkpoint"))?.ok_or_else(none)?;
        let words: Vec<u64> = entry.ints().collect();
        let order = Endian::Little;
        let uberblock = checkpoint::uberblock_bytes(&words, order)
            .and_then(|bytes| Uberblock::decode(&bytes))
            .map_err(|e| self.damaged("the checkpoint")(directory.object().format_error(0, e)));
        (self.uberblock, _) = uberblock?;
        Ok(())
    }

    /// Loads the mappings of removed vdevs. Those removed last are loaded first: the mapping of an
    /// earlier removal may itself have been moved by a later one.
    fn with_indirect(&mut self, mut reader: Reader, tree: &VdevConfig) -> Result<Reader> {
        let indirect = |t: &&VdevConfig| t.kind == VdevKind::Indirect;
        let mut todo: Vec<&VdevConfig> = tree.children.iter().filter(indirect).collect();
        let previous: Vec<_> = todo.iter().filter_map(|t| t.prev_indirect_vdev).collect();
        // The latest removal is the one no other names as its predecessor.
        let mut next = todo.iter().map(|t| t.id).find(|id| !previous.contains(id));
        while !todo.is_empty() {
            let at = todo.iter().position(|t| Some(t.id) == next).unwrap_or(0);
            let top = todo.remove(at);
            next = top.prev_indirect_vdev;
            let store = self.store(reader);
            let segments = self.mapping(&store, top);
            // Nothing that read the mapping is left, so both are ours again.
            let inner = Arc::into_inner(store).and_then(CachedStore::into_reader);
            reader = inner.ok_or_else(|| Error::Config {
                pool: self.pool(),
                cause: "the reader is still in use".into(),
            })?;
            if let Some(segments) = segments {
                let id = u32::try_from(top.id).unwrap_or(u32::MAX);
                let tree = reader.vdevs_mut().ok_or_else(|| Error::Config {
                    pool: self.pool(),
                    cause: "the tree of vdevs is still in use".into(),
                })?;
                if let Err(e) = tree.set_indirect(id, segments) {
                    let what = "the mapping of a removed vdev";
                    self.salvage.push(Salvage { what, cause: e.to_string() });
                }
            }
        }
        Ok(reader)
    }

    fn mapping(
        &mut self,
        store: &Arc<CachedStore>,
        top: &VdevConfig,
    ) -> Option<Vec<IndirectSegment>> {
        let what = "the mapping of a removed vdev";
        let read = || -> dmu::Result<Option<Vec<IndirectSegment>>> {
            let store: Arc<dyn BlockStore> = Arc::clone(store) as _;
            let mos = Objset::open(store, 0, &self.uberblock.rootbp, None)?;
            crate::mapping::segments(&mos, top)
        };
        let segments = read();
        self.excuse(what, segments).flatten()
    }

    fn features(&mut self, mos: &Objset, directory: &Zap) -> Result<Features> {
        let mut table = |name: &'static str| -> Vec<(String, u64)> {
            let table = feature_table(mos, directory, name);
            self.excuse(name, table).unwrap_or_default()
        };
        let features = Features {
            for_read: table(mos::FEATURES_FOR_READ),
            for_write: table(mos::FEATURES_FOR_WRITE),
            enabled_txg: table(mos::FEATURE_ENABLED_TXG),
        };
        // An enabled feature does not matter: only an active one changes the format.
        let unknown = |(g, n): &&(String, u64)| *n > 0 && features::by_guid(g).is_none();
        let unknown: Vec<_> = features.for_read.iter().filter(unknown).collect();
        if unknown.is_empty() {
            return Ok(features);
        }
        let describe = |guid: &str| -> Option<String> {
            let n = directory.get_u64(mos::FEATURE_DESCRIPTIONS).ok()??;
            let entry =
                Zap::open(&mos.object(n).ok()?).ok()?.get(&spelling::stored(guid)).ok()??;
            Some(String::from_utf8_lossy(entry.value_text()?).into_owned())
        };
        let named =
            |(g, _): &&(String, u64)| UnknownFeature { guid: g.clone(), description: describe(g) };
        Err(Error::UnknownFeatures {
            pool: self.pool(),
            features: unknown.iter().map(named).collect(),
        })
    }
}

/// One of the tables of features in the MOS: guids and numbers.
pub(super) fn feature_table(
    mos: &Objset,
    directory: &Zap,
    name: &'static str,
) -> dmu::Result<Vec<(String, u64)>> {
    let Some(n) = directory.get_u64(name)? else { return Ok(Vec::new()) };
    let entries = Zap::open(&mos.object(n)?)?.to_vec()?;
    let pair = |e: dmu::ZapEntry| {
        let name = spelling::name(e.name.bytes()?);
        Some((name, e.u64()?))
    };
    Ok(entries.into_iter().filter_map(pair).collect())
}

/// Sets the progress of the expansion that an uberblock records.
pub(crate) fn set_reflow(
    vdevs: &mut VdevTree,
    tree: &VdevConfig,
    uberblock: &Uberblock,
) -> std::result::Result<(), BuildError> {
    let (scratch, offset) = uberblock.raidz_reflow();
    let reflow = Reflow { offset, scratch_valid: scratch == ReflowScratch::Valid };
    for top in tree.children.iter().filter(|top| top.raidz_expanding) {
        vdevs.set_reflow(u32::try_from(top.id).unwrap_or(u32::MAX), reflow)?;
    }
    Ok(())
}

/// Devices of a list as they were known before: where they were found is not in the list.
pub(crate) fn in_their_places(devices: Vec<VdevConfig>, before: &[VdevConfig]) -> Vec<VdevConfig> {
    let known = |device: &VdevConfig| before.iter().find(|b| b.guid == device.guid).cloned();
    devices.into_iter().map(|device| known(&device).unwrap_or(device)).collect()
}
