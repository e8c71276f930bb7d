//! Making a pool.
//!
//! The first txg is [`FIRST_TXG`], as everywhere. Everything is built in memory as one txg's
//! changes of an empty MOS and synced like any other; the labels are written first with a
//! configuration that says "not part of a pool yet" (txg 0), so that a crash in between leaves
//! nothing that looks like one.
//!
//! What is refused must be refused before that, because labels destroy what was on the devices.
//! Whether a property can have a value is known for certain only when it is set, and that is after
//! the labels. So with properties the pool is made twice: first in memory, on devices of the same
//! sizes that were never written, then for real. What fails in between is the devices' fault, and
//! takes the labels off again.

use super::blocks::TxgBlocks;
use super::config::{FIRST_TXG, PoolFacts, Split, distributed_spares, guid_sum, new_root};
use super::datasets::NewFilesystem;
use super::features::{ENABLED_BY_DEFAULT, FeatureTable, to_enable};
use super::history::{self, Invocation};
use super::new_vdevs::{
    Devices, NewTop, add_top_zaps, count_draids, guid_from, is_draid, new_tops, new_vdev_zap,
    set_member,
};
use super::shared::{ConfigState, Parts, TaskCx, USUAL_ROUNDS};
use super::stored_property::StoredPropertyValue;
use super::sync_reads::mos_over;
use super::tunables::Setting;
use super::{LivePool, mos as util};
use crate::alloc::{self, AllocOptions, Allocator, MovedSpec, SpaceMapRebuild, TopSpec};
use crate::assemble::Candidate;
use crate::error::{Error, Result};
use crate::faults::FaultLog;
use crate::live::config_edit::bad;
use crate::mapping;
use crate::open::{Pool, READ_AHEAD_BYTES, read_ahead};
use crate::refusal::{PoolRefusal, VdevFault};
use crate::scan::look_at_device;
use device::{MemoryDevice, WriteDeviceRef};
use dmu::bpobj::Lists;
use dmu::zap::ZapSpec;
use dmu::{CachedStore, Objset, PendingSource, Tx, Zap, ZapValue, zap};
use dsl::DatasetKind;
use dsl::write::{DslCx, Encryption, PoolTree, PropertyChange, Timestamp, parse_value};
use ondisk::config::{PoolConfig, PoolState, VdevConfig, VdevKind};
use ondisk::features;
use ondisk::label::LABELS;
use ondisk::mos::vdev_zap;
use ondisk::uberblock::Uberblock;
use ondisk::{DmuType, mos};
use rt::Rt;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use vdev::{LeafOpen, VdevTree};
use zio::{Allocate, Reader, SpaceClass, Writer};

/// The labels of a device, by number.
const ALL_LABELS: [usize; LABELS] = [0, 1, 2, 3];

/// Wraps the allocator for the writer of a pool.
pub type WrapAllocator = fn(Arc<Allocator>) -> Arc<dyn Allocate>;

/// How to make a pool.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Its name.
    pub name: String,
    /// Its top-level vdevs, at least one of the normal class.
    pub tops: Vec<NewTop>,
    /// log2 of the sector size to use, 9 to 16; `None`: what the devices say, at least 12.
    pub ashift: Option<u32>,
    /// Features by name that are enabled (true) or left out (false) against the default.
    pub features: BTreeMap<String, bool>,
    /// Only what is in `features` is enabled.
    pub no_features: bool,
    /// Pool properties that are stored: name and value as it is stored. A comment and the name of
    /// a set of features go into the labels, as OpenZFS has them.
    pub properties: Vec<(String, StoredPropertyValue)>,
    /// Properties of the root dataset as text, validated by [`dsl`].
    pub fs_properties: Vec<(String, String)>,
    /// How its root file system is encrypted: not, when nothing is said.
    pub encryption: Encryption,
    /// Identity of this host, 0 for none.
    pub hostid: u64,
    /// Its name.
    pub hostname: String,
    /// For the history.
    pub invocation: Invocation,
    /// Cap of the block cache in bytes.
    pub cache_bytes: usize,
    /// Bytes that are read at most ahead of one reader of a file or volume; 0: none.
    pub read_ahead_bytes: u64,
    /// Owner, group and mode of the root directory.
    pub root_owner: (u64, u64, u32),
    /// Tunables that are not to have their defaults.
    pub tunables: Vec<Setting>,
    /// Wraps the allocator before the writer has it: for tests that break the rules on purpose, to
    /// see that it is noticed.
    #[doc(hidden)]
    pub wrap_allocator: Option<WrapAllocator>,
}

impl CreateOptions {
    /// A pool of these vdevs with everything else as usual.
    #[must_use]
    pub fn new(name: &str, tops: Vec<NewTop>) -> Self {
        Self {
            name: name.to_owned(),
            tops,
            ashift: None,
            features: BTreeMap::new(),
            no_features: false,
            properties: Vec::new(),
            fs_properties: Vec::new(),
            encryption: Encryption::Inherit,
            hostid: 0,
            hostname: String::new(),
            invocation: Invocation::default(),
            cache_bytes: 256 << 20,
            read_ahead_bytes: READ_AHEAD_BYTES,
            root_owner: (0, 0, 0o755),
            tunables: Vec::new(),
            wrap_allocator: None,
        }
    }

    /// The features to enable, in the table's order.
    fn enabled_features(&self) -> Result<Vec<&'static features::Feature>> {
        for (name, is_on) in &self.features {
            match to_enable(name) {
                Err(Error::UnwrittenFeature { .. }) if !is_on => {}
                Err(e) => return Err(e),
                Ok(_) => {}
            }
        }
        let wanted = |f: &&features::Feature| {
            let default = !self.no_features && ENABLED_BY_DEFAULT.contains(&f.name());
            self.features.get(f.name()).copied().unwrap_or(default)
        };
        Ok(features::FEATURES.iter().filter(wanted).collect())
    }
}

/// What the allocator must know of a vdev that was removed, or is being removed.
fn moved_spec(mos: &Objset, top: &VdevConfig) -> dmu::Result<Option<MovedSpec>> {
    let (Ok(id), Some(segments)) = (u32::try_from(top.id), mapping::segments(mos, top)?) else {
        return Ok(None);
    };
    let zap = top.vdev_zap_top.unwrap_or(0);
    let obsolete = match zap {
        0 => None,
        n => Zap::open(&mos.object(n)?)?.get_u64(vdev_zap::INDIRECT_OBSOLETE_SPACE_MAP)?,
    };
    Ok(Some(MovedSpec {
        id,
        ashift: top.ashift.and_then(|n| u8::try_from(n).ok()).unwrap_or(9),
        zap,
        obsolete: obsolete.unwrap_or(0),
        segments,
        is_leaving: top.kind != VdevKind::Indirect,
    }))
}

/// The allocator over the vdevs of a configuration.
pub(super) fn allocator(
    mos: &Objset,
    reader: &Arc<Reader>,
    root: &VdevConfig,
    features: &FeatureTable,
    anew: &SpaceMapRebuild,
) -> dmu::Result<Allocator> {
    let tops: Vec<_> = root.children.iter().filter_map(|c| TopSpec::of(c, reader)).collect();
    let options = AllocOptions {
        threads: 0,
        two_words: features.is_enabled("spacemap_v2"),
        histograms: features.is_enabled("spacemap_histogram"),
        obsolete: features.is_enabled("obsolete_counts"),
    };
    let alloc = Allocator::open(mos, &tops, options, anew)?;
    for top in &root.children {
        moved_spec(mos, top)?.into_iter().for_each(|spec| alloc.add_moved(spec));
    }
    Ok(alloc)
}

/// What is decided before anything is written.
struct Plan {
    wanted: Vec<&'static features::Feature>,
    root: VdevConfig,
}

impl Plan {
    fn new(rt: &Rt, options: &CreateOptions, devices: &Devices) -> Result<Self> {
        if !options.tops.iter().any(|t| t.class == SpaceClass::Normal) {
            return Err(Error::refused(&options.name, VdevFault::NoNormal));
        }
        let wanted = options.enabled_features()?;
        let mut guid = guid_from(rt);
        let tops = new_tops(
            &options.name,
            &options.tops,
            0,
            FIRST_TXG,
            options.ashift,
            devices,
            &mut guid,
        )?;
        if tops.iter().any(is_draid) && !wanted.iter().any(|f| f.name() == "draid") {
            return Err(Error::refused(&options.name, PoolRefusal::FeatureNotEnabled("draid")));
        }
        let root = new_root(guid(), FIRST_TXG, &tops).map_err(|e| bad(&e))?;
        Ok(Self { wanted, root })
    }
}

/// Makes a pool on `devices` and opens it.
///
/// # Errors
/// When the devices or options do not make a pool: nothing was written then. When a device fails:
/// the labels are cleared again, as far as the devices can be written to.
pub fn create(rt: &Rt, options: &CreateOptions, devices: &Devices) -> Result<LivePool> {
    let plan = Plan::new(rt, options, devices)?;
    if !options.fs_properties.is_empty() || !matches!(options.encryption, Encryption::Inherit) {
        rehearse(rt, options, devices)?;
    }
    let made = make(rt, options, devices, plan);
    if made.is_err() {
        clear_labels(devices);
    }
    made
}

/// Makes the pool in memory, to see whether it can have these properties.
fn rehearse(rt: &Rt, options: &CreateOptions, devices: &Devices) -> Result<()> {
    let empty = |(path, device): (&String, &WriteDeviceRef)| {
        let copy = MemoryDevice::zeros(path, device.size());
        (path.clone(), Arc::new(copy.with_sector_size(device.sector_size())) as WriteDeviceRef)
    };
    let devices: Devices = devices.iter().map(empty).collect();
    make(rt, options, &devices, Plan::new(rt, options, &devices)?)?.close()
}

/// Takes the labels off devices of a pool that could not be made whole, as far as they can be
/// written to.
pub fn clear_labels(devices: &Devices) {
    for device in devices.values() {
        // One that fails is why there is no pool.
        let _ = vdev::label::clear(device.as_ref(), &ALL_LABELS);
    }
}

/// Writes labels that say "not part of a pool yet".
fn first_labels(facts: &PoolFacts, root: &VdevConfig, devices: &Devices) -> Result<()> {
    for top in &root.children {
        for leaf in top.walk().filter(|v| v.kind.is_leaf()) {
            let list = facts.for_label(PoolState::Active, 0, root, top, leaf.guid);
            let Some(device) = leaf.path.as_ref().and_then(|p| devices.get(p)) else { continue };
            let failed = |e| Error::failed(&facts.name, "writing labels", e);
            vdev::label::initialise(device.as_ref(), &list).map_err(failed)?;
        }
    }
    Ok(())
}

/// Makes what was planned.
fn make(rt: &Rt, options: &CreateOptions, devices: &Devices, plan: Plan) -> Result<LivePool> {
    let Plan { wanted, root } = plan;
    let of_labels = |name: &str| {
        let found = options.properties.iter().rev().find(|(known, _)| known == name);
        found.and_then(|(_, word)| match word {
            StoredPropertyValue::Text(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        })
    };
    let facts = PoolFacts {
        version: 5000,
        name: options.name.clone(),
        guid: root.guid,
        hostid: options.hostid,
        hostname: options.hostname.clone(),
        errata: 0,
        comment: of_labels("comment"),
        compatibility: of_labels("compatibility"),
        features_for_read: Vec::new(),
        split: Split::default(),
    };
    first_labels(&facts, &root, devices)?;
    let mut open = |c: &VdevConfig| match c.path.as_ref().and_then(|p| devices.get(p)) {
        Some(device) => LeafOpen::Writable(Arc::clone(device)),
        None => LeafOpen::Missing,
    };
    let vdevs = VdevTree::build(rt, &root, &mut open);
    let mut vdevs = vdevs.map_err(|e| bad(&e))?;
    vdevs.set_queue_limits(rt, &Arc::default());
    let mut salt = [0; 32];
    rt.fill_random(&mut salt);
    let reader = Arc::new(Reader::new(vdevs, &salt));
    let block_faults = Arc::<FaultLog>::default();
    let (cache, sink) = (options.cache_bytes, Arc::clone(&block_faults) as _);
    let store = Arc::new(CachedStore::new(Arc::clone(&reader), cache, Some(sink)));
    read_ahead(&store, &reader.vdevs(), options.read_ahead_bytes);
    let failed = |e: dmu::Error| Error::failed(&options.name, "making the MOS", e);
    let mos = mos_over(&store, None).map_err(failed)?;
    let tx = Tx::syncing(FIRST_TXG);
    let maker = Maker { mos: &mos.in_sync, tx: &tx, options, salt };
    let (features, root, config) = maker.make(root, &wanted).map_err(failed)?;
    let alloc = Arc::new(
        allocator(&mos.in_sync, &reader, &root, &features, &SpaceMapRebuild::default())
            .map_err(failed)?,
    );
    let space = match options.wrap_allocator {
        Some(wrap) => wrap(Arc::clone(&alloc)),
        None => Arc::clone(&alloc) as _,
    };
    let writer = Arc::new(Writer::new(rt, Arc::clone(&reader), space));
    store.set_pending(&(Arc::clone(&writer) as Arc<dyn PendingSource>));
    let uberblock = Uberblock {
        version: 5000,
        txg: 0,
        guid_sum: guid_sum(&root),
        timestamp: 0,
        rootbp: ondisk::BlkPtr::HOLE,
        software_version: 5000,
        mmp_magic: ondisk::uberblock::MMP_MAGIC,
        mmp_delay: 0,
        mmp_config: 0,
        checkpoint_txg: 0,
        raidz_reflow_info: 0,
    };
    let config = ConfigState::new(facts, root, config, BTreeMap::new(), USUAL_ROUNDS);
    let parts =
        Parts { reader, store, writer, alloc, mos, features, config, uberblock, block_faults };
    first_txg(rt, parts, options, devices)
}

/// Makes the datasets, and syncs the first txg.
fn first_txg(
    rt: &Rt,
    parts: Parts,
    options: &CreateOptions,
    devices: &Devices,
) -> Result<LivePool> {
    let tx = Tx::syncing(FIRST_TXG);
    let blocks = TxgBlocks::new(&parts.alloc, &parts.writer, &Arc::default());
    let wall = rt.wall();
    let cx = DslCx {
        mos: &parts.mos.in_sync,
        tx: &tx,
        blocks: &blocks,
        features: &parts.features,
        now: Timestamp { secs: wall.as_secs(), nanos: u64::from(wall.subsec_nanos()) },
        guid: &|| rt.random_u64(),
        pool_size: u64::MAX,
        creator: 0,
    };
    let tree = dsl::write::create_pool_tree(&cx)?;
    let candidate = candidate_on(devices, &options.name)?;
    let list = parts.config.facts.for_mos(PoolState::Active, FIRST_TXG, &parts.config.root);
    let config = PoolConfig::decode(&list).map_err(|e| bad(&e))?;
    let known = parts.features.snapshot();
    let (uberblock, faults) = (parts.uberblock, &parts.block_faults);
    let view = Pool::new_live(
        candidate,
        config,
        uberblock,
        &parts.store,
        &parts.mos.objects,
        known,
        faults,
    )?;
    let pool = LivePool::start(rt, parts, view, &options.tunables)?;
    pool.shared.post_system("pool_create");
    let options = options.clone();
    let mut root = NewFilesystem { root: options.root_owner, ..NewFilesystem::default() };
    let (mut properties, mut of_itself) = (Vec::new(), Vec::new());
    for (name, value) in &options.fs_properties {
        let value = parse_value(name, value, DatasetKind::Filesystem, true)?;
        let change = PropertyChange { name: name.clone(), value: Some(value.clone()) };
        match root.take(name, &value) {
            true => of_itself.push(change),
            false => properties.push(change),
        }
    }
    dsl::write::check_version(&options.name, root.version, &of_itself)?;
    pool.run(move |cx| {
        let set = |change| {
            let dsl = cx.datasets();
            Ok(dsl::write::set_property(&cx.dsl(), dsl, &options.name, change)?)
        };
        // What is refused here says why no pool was made; it broke nothing.
        let set = properties.iter().try_for_each(|change| cx.whole(|_| set(change)));
        if set.is_err() {
            return Ok(set);
        }
        if let Err(e) = encrypt_root(cx, &tree, &options.encryption) {
            return Ok(Err(e));
        }
        cx.format_filesystem(tree.root_head, &root)?;
        let tops = cx.shared.config.lock().root.children.clone();
        cx.append_spares(distributed_spares(&tops, &mut guid_from(&cx.shared.rt)))?;
        let command = history::command(&options.invocation, cx.dsl().now.secs);
        cx.append_history(&[command], true).map(Ok)
    })??;
    Ok(pool)
}

/// Encrypts the root file system, as was said, before it has a block.
fn encrypt_root(cx: &TaskCx<'_>, tree: &PoolTree, wanted: &Encryption) -> Result<()> {
    let place = (tree.root_dir, tree.root_head);
    cx.whole(|cx| Ok(dsl::write::encrypt_root(&cx.dsl(), cx.datasets(), place, wanted)?))
}

/// The new pool as a search would find it.
fn candidate_on(devices: &Devices, pool: &str) -> Result<Candidate> {
    let look = |(path, device): (&String, &WriteDeviceRef)| {
        look_at_device(&Arc::clone(device).as_device(), PathBuf::from(path))
    };
    let found: Vec<_> = devices.iter().filter_map(look).collect();
    let candidate = Candidate::group(&found).into_iter().find(|c| c.name() == pool);
    candidate.ok_or_else(|| Error::failed(pool, "reading the new labels", "they are not there"))
}

/// Makes what is in a new MOS beside the datasets.
struct Maker<'a> {
    mos: &'a Objset,
    tx: &'a Tx,
    options: &'a CreateOptions,
    salt: [u8; 32],
}

impl Maker<'_> {
    fn put(&self, name: &str, value: u64) -> dmu::Result<()> {
        util::set_u64(self.mos, self.tx, mos::DIRECTORY_OBJECT, name, value)
    }

    fn make(
        &self,
        mut root: VdevConfig,
        wanted: &[&'static features::Feature],
    ) -> dmu::Result<(FeatureTable, VdevConfig, u64)> {
        let (mos, tx) = (self.mos, self.tx);
        let spec = ZapSpec::new(DmuType::OBJECT_DIRECTORY).number(mos::DIRECTORY_OBJECT);
        zap::create(mos, tx, &spec)?;
        let features = FeatureTable::create(mos, tx)?;
        for feature in wanted {
            features.enable(tx, feature)?;
        }
        self.put(mos::DEFLATE, 1)?;
        self.put(mos::CREATION_VERSION, 5000)?;
        let salt = ZapValue { int_len: 1, values: self.salt.to_vec() };
        let directory = mos.object(mos::DIRECTORY_OBJECT)?;
        zap::set(&directory, tx, mos::CHECKSUM_SALT.as_bytes(), &salt)?;
        self.put(mos::SYNC_BPOBJ, Lists::new(mos, tx, &|_| 0)?.create()?)?;
        self.vdev_zaps(&mut root, &features)?;
        count_draids(&features, tx, &root.children)?;
        for top in &mut root.children {
            let made = alloc::init_top(mos, tx, top.asize.unwrap_or(0))?;
            set_member(mos, top, "metaslab_array", made.ms_array)?;
        }
        let size = root.children.iter().filter_map(|c| c.asize).sum();
        let number = history::create(mos, tx, size)?;
        self.put(mos::HISTORY, number)?;
        self.properties()?;
        let config = util::new_packed(mos, tx)?;
        self.put(mos::CONFIG, config)?;
        Ok((features, root, config))
    }

    /// A ZAP for every vdev, and the table of them.
    fn vdev_zaps(&self, root: &mut VdevConfig, features: &FeatureTable) -> dmu::Result<()> {
        let map = util::new_zap(self.mos, self.tx, util::TABLE)?;
        self.put(mos::VDEV_ZAP_MAP, map)?;
        if features.is_enabled("vdev_zaps_v2") {
            let zap = new_vdev_zap(self.mos, self.tx, map)?;
            set_member(self.mos, root, "com.klarasystems:vdev_zap_root", zap)?;
        }
        for top in &mut root.children {
            add_top_zaps(self.mos, self.tx, map, top, features)?;
        }
        Ok(())
    }

    fn properties(&self) -> dmu::Result<()> {
        let is_of_table = |(name, _): &&(String, StoredPropertyValue)| !is_in_labels(name);
        let mut properties = self.options.properties.iter().filter(is_of_table).peekable();
        if properties.peek().is_none() {
            return Ok(());
        }
        let table = util::new_zap(self.mos, self.tx, DmuType::POOL_PROPS)?;
        self.put(mos::POOL_PROPS, table)?;
        let object = self.mos.object(table)?;
        for (name, word) in properties {
            zap::set(&object, self.tx, name.as_bytes(), &word.value())?;
        }
        Ok(())
    }
}

/// Whether a pool property is in the labels and the configuration instead of the table.
fn is_in_labels(name: &str) -> bool {
    matches!(name, "comment" | "compatibility")
}
