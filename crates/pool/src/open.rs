//! Opening a pool for reading.

mod opening;

use self::opening::Opening;
pub(crate) use self::opening::{in_their_places, set_reflow};
use crate::assemble::{Candidate, newest_label};
use crate::choice::Choice;
use crate::error::{Error, Result, UnknownFeature};
use crate::faults::FaultLog;
use crate::gate::{Gate, ReadGuard};
use crate::not_used::Refused;
use crate::scan::{SearchOptions, look_at_device, scan};
use crate::scans_here::ScansHere;
use crate::uberblocks::{self, TxgCandidate};
use device::DeviceRef;
use dmu::{BlockStore, CachedStore, Objset, ReadAheadStopper, Zap};
use dsl::Dsl;
use ondisk::BlkPtr;
use ondisk::config::{PoolConfig, VdevConfig};
use ondisk::features;
use ondisk::mos;
use ondisk::uberblock::Uberblock;
use parking_lot::Mutex;
use rt::Rt;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vdev::{DeflateRatio, ErrorCounts, VdevState, VdevTree};
use zio::Reader;

/// Default of the bytes that are read ahead of one reader: what a device of 2 GB/s reads in 8 ms.
pub(crate) const READ_AHEAD_BYTES: u64 = 16 << 20;
/// Of a pool with a device in an object store this much is read at a time: each request has a
/// price, and is answered after tens of milliseconds. As much as one object has; two are under way
/// together.
const STORE_PIECE_BYTES: u64 = 16 << 20;
/// And it is read ahead this many times as far.
const STORE_AHEAD: u64 = 2;

/// How to open a pool.
#[derive(Clone)]
pub struct OpenOptions {
    /// The runtime that the pool is read with; by default the operating system. A simulation passes
    /// its own.
    pub rt: Rt,
    /// Where to search for devices.
    pub search: SearchOptions,
    /// Open the state of this txg instead of the newest.
    pub txg: Option<u64>,
    /// Open the state the pool's checkpoint kept.
    pub checkpoint: bool,
    /// Cap of the block cache in bytes.
    pub cache_bytes: usize,
    /// Bytes that are read at most ahead of one reader of a file or volume; 0: none.
    pub read_ahead_bytes: u64,
    /// Go on without top-level vdevs that are missing; what is on them is lost.
    pub allow_missing: bool,
    /// Read devices that are offline, faulted or removed as the last choice.
    pub use_offline: bool,
    /// Show the pool as a process that writes to it has it: a device that may be read and not be
    /// written counts as one that cannot be opened, when the others do without it.
    pub for_writers: bool,
    /// Take blocks as they are, whatever their checksums say: the last resort.
    pub ignore_checksums: bool,
    /// Open it also without its object directory, as far as its datasets are found without: only to
    /// copy out of it.
    pub without_directory: bool,
    /// The name of the pool as long as it is open, if its labels have another.
    pub name: Option<String>,
    /// Folder that is shown before its mount points (the property `altroot`).
    pub altroot: Option<String>,
    /// Errors that its vdevs had when it was open before, by guid: they count on.
    pub errors: BTreeMap<u64, ErrorCounts>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            rt: Rt::real(),
            search: SearchOptions::default(),
            txg: None,
            checkpoint: false,
            cache_bytes: 256 << 20,
            read_ahead_bytes: READ_AHEAD_BYTES,
            allow_missing: false,
            use_offline: false,
            for_writers: false,
            ignore_checksums: false,
            without_directory: false,
            name: None,
            altroot: None,
            errors: BTreeMap::new(),
        }
    }
}

impl OpenOptions {
    /// Devices are looked for in these places: directories, files and disks.
    #[must_use]
    pub fn in_places(places: impl IntoIterator<Item = impl Into<std::path::PathBuf>>) -> Self {
        let paths = places.into_iter().map(Into::into).collect();
        let search = SearchOptions { paths, ..SearchOptions::default() };
        Self { search, ..Self::default() }
    }

    /// The blocks of a pool that is opened like this; faults of its blocks go to `faults`.
    pub(crate) fn store(&self, reader: &Arc<Reader>, faults: &Arc<FaultLog>) -> Arc<CachedStore> {
        let sink = Some(Arc::clone(faults) as _);
        let store = CachedStore::new(Arc::clone(reader), self.cache_bytes, sink);
        read_ahead(&store, &reader.vdevs(), self.read_ahead_bytes);
        Arc::new(store)
    }
}

/// Some of these devices are in an object store.
pub(crate) fn is_in_store(vdevs: &VdevTree) -> bool {
    let mut devices = vdevs.leaves().filter_map(|leaf| leaf.device());
    devices.any(|device| device.stats().store.is_some())
}

/// From now on this much is read ahead of a reader of these devices.
pub(crate) fn read_ahead(store: &CachedStore, vdevs: &VdevTree, bytes: u64) {
    let (ahead, is_far) = (store.reading_ahead(), is_in_store(vdevs));
    if is_far {
        ahead.set_piece(STORE_PIECE_BYTES);
    }
    ahead.set_max(if is_far { bytes.saturating_mul(STORE_AHEAD) } else { bytes });
}

/// Features of an open pool, by guid, with the reference counts in the MOS.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Those a reader must know.
    pub for_read: Vec<(String, u64)>,
    /// Those only a writer must know.
    pub for_write: Vec<(String, u64)>,
    /// Txg in which each was enabled, where recorded.
    pub enabled_txg: Vec<(String, u64)>,
}

impl Features {
    /// Reference count of a feature; `None` when it is not enabled.
    #[must_use]
    pub fn count(&self, guid: &str) -> Option<u64> {
        let all = self.for_read.iter().chain(&self.for_write);
        all.into_iter().find(|(g, _)| g == guid).map(|(_, n)| *n)
    }
}

/// The state of a pool in the process that writes it, available without reading.
pub(crate) struct LiveState {
    pub(crate) root: VdevConfig,
    /// Spares and cache devices.
    pub(crate) aux: [Vec<VdevConfig>; 2],
    pub(crate) comment: Option<String>,
    pub(crate) compatibility: Option<String>,
    pub(crate) features: Features,
    pub(crate) uberblock: Uberblock,
    pub(crate) suspended: Option<Arc<str>>,
    pub(crate) is_waiting: bool,
    pub(crate) scans: ScansHere,
    pub(crate) refused: BTreeMap<u64, Refused>,
}

/// Spares and cache devices that can be opened, as far as is known, and their sizes in bytes, by
/// guid.
pub(crate) type AuxSizes = Arc<Mutex<BTreeMap<u64, u64>>>;

/// The salvage entry of a pool that is read from devices which lack a part of it.
pub(crate) const STALE_DEVICES: &str = "the state of devices";

/// A structure that could not be read while opening and was not needed.
#[derive(Clone, Debug)]
pub struct Salvage {
    /// The structure.
    pub what: &'static str,
    /// Why it could not be read.
    pub cause: String,
}

/// A pool, open for reading.
pub struct Pool {
    candidate: Candidate,
    config: PoolConfig,
    uberblock: Uberblock,
    /// Before the store: what is being read ahead holds the devices. A pool that is open for
    /// writing has another end.
    #[allow(dead_code, reason = "held, not used")]
    ahead: Option<ReadAheadStopper>,
    store: Arc<CachedStore>,
    mos: Objset,
    dsl: Dsl,
    features: Features,
    faults: Arc<FaultLog>,
    salvage: Vec<Salvage>,
    spares: Vec<VdevConfig>,
    l2cache: Vec<VdevConfig>,
    /// Datasets count space on RAID-Z without its parity.
    deflate: bool,
    altroot: Option<String>,
    /// Of a pool that is open for writing: what its syncs hold while they change the MOS.
    gate: Option<Arc<Gate>>,
    /// It is looked at without long waits; set when one was given up.
    haste: Option<Arc<AtomicBool>>,
    /// Why a pool that was open for writing takes no more changes.
    suspended: Option<Arc<str>>,
    /// It takes none only until its devices are back.
    pub(crate) is_waiting: bool,
    /// Scrub, resilver and rebuilds, where this process runs them.
    pub(crate) scans: ScansHere,
    /// Of a pool that is open for writing: what came back and is not used, by leaf.
    pub(crate) refused: BTreeMap<u64, Refused>,
    /// The same: spares and cache devices that can be opened, and their sizes in bytes.
    pub(crate) aux_sizes: AuxSizes,
}

/// The word for the state of a pool that takes no more changes.
pub const SUSPENDED: &str = "SUSPENDED";

/// The datasets of a pool, kept as they are as long as this lives. See [`Pool::datasets`].
pub struct Datasets<'a> {
    pool: &'a Pool,
    guard: Option<ReadGuard<'a>>,
}

impl<'a> Datasets<'a> {
    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// They may be others as soon as this is dropped: the pool is open for writing.
    #[must_use]
    pub fn can_change(&self) -> bool {
        self.guard.is_some()
    }
}

/// The datasets of a pool that nothing changes meanwhile: one that is open for reading, or whose
/// only user is the caller. All others have [`Pool::datasets`]: what is read of several objects
/// without its guard may not fit together.
pub trait UnguardedDatasets {
    /// The datasets.
    fn dsl(&self) -> &Dsl;
}

impl UnguardedDatasets for Pool {
    fn dsl(&self) -> &Dsl {
        &self.dsl
    }
}

impl Deref for Datasets<'_> {
    type Target = Dsl;

    fn deref(&self) -> &Dsl {
        &self.pool.dsl
    }
}

impl Pool {
    /// Searches for the pool with this name or guid and opens it. Which one is meant says
    /// [`Choice`]; a destroyed pool is opened by its guid.
    pub fn open(wanted: &str, options: &OpenOptions) -> Result<Self> {
        Self::open_candidate(&find(&Choice::of(wanted), options)?, options)
    }

    /// Opens a pool that was found.
    pub fn open_candidate(candidate: &Candidate, options: &OpenOptions) -> Result<Self> {
        let name = candidate.name().to_owned();
        known_version(&name, candidate.config.version)?;
        let unknown = |g: &&String| features::by_guid(g).is_none();
        let unknown: Vec<_> = candidate.config.features_for_read.iter().filter(unknown).collect();
        if !unknown.is_empty() {
            let named = |g: &&String| UnknownFeature { guid: (*g).clone(), description: None };
            let features = unknown.iter().map(named).collect();
            return Err(Error::UnknownFeatures { pool: name, features });
        }
        let chosen = choose(candidate, options.txg)?;
        let mut failure = None;
        // When the newest uberblock's MOS is lost, an older one may still be intact; the user
        // learns of it from the uberblock's txg. A requested txg is tried alone.
        let attempts = if options.txg.is_some() { 1 } else { AUTOMATIC_ATTEMPTS };
        // The newest without its directory comes after all that have theirs. A checkpoint is found
        // by the directory alone.
        let may_lack_it = options.without_directory && !options.checkpoint;
        let newest = chosen.first().filter(|_| may_lack_it).cloned();
        let attempts = chosen.into_iter().take(attempts).map(|c| (c, true));
        for (c, with_directory) in attempts.chain(newest.map(|c| (c, false))) {
            match Opening::new(candidate, c.uberblock, options, with_directory).run() {
                Ok(mut pool) => {
                    if let Some(e) = failure.filter(|_| with_directory) {
                        let what = "the newest uberblock; an older one was opened";
                        pool.salvage.insert(0, Salvage { what, cause: Error::to_string(&e) });
                    }
                    pool.altroot.clone_from(&options.altroot);
                    return match &options.name {
                        Some(name) if name != pool.name() => Ok(pool.with_name(name)),
                        _ => Ok(pool),
                    };
                }
                Err(e @ Error::Damaged { .. }) => failure = failure.or(Some(e)),
                Err(e) => return Err(e),
            }
        }
        let none = || Error::NoUberblock { pool: name, txg: options.txg, available: Vec::new() };
        Err(failure.unwrap_or_else(none))
    }

    /// The same pool under another name.
    fn with_name(self, name: &str) -> Self {
        let dsl = self.dsl.named(name);
        let config = PoolConfig { name: name.to_owned(), ..self.config };
        Self { dsl, config, ..self }
    }

    /// The same pool seen through a live MOS, under this name.
    pub(crate) fn with_live(
        &self,
        name: &str,
        store: &Arc<CachedStore>,
        mos: &Objset,
        dsl: Dsl,
    ) -> Self {
        Self {
            candidate: self.candidate.clone(),
            config: PoolConfig { name: name.to_owned(), ..self.config.clone() },
            uberblock: self.uberblock,
            ahead: None,
            store: Arc::clone(store),
            mos: mos.clone(),
            dsl,
            features: self.features.clone(),
            faults: Arc::clone(&self.faults),
            salvage: self.salvage.clone(),
            spares: self.spares.clone(),
            l2cache: self.l2cache.clone(),
            deflate: self.deflate,
            altroot: self.altroot.clone(),
            gate: self.gate.clone(),
            haste: self.haste.clone(),
            suspended: self.suspended.clone(),
            is_waiting: self.is_waiting,
            scans: self.scans,
            refused: self.refused.clone(),
            aux_sizes: Arc::clone(&self.aux_sizes),
        }
    }

    /// It has gone back to the checkpoint or txg with which it was opened: its uberblock is of this
    /// txg and time (seconds since 1970) from now on.
    pub(crate) fn go_back(&mut self, txg: u64, timestamp: u64) {
        // That of a checkpoint has it already.
        if self.uberblock.checkpoint_txg == 0 {
            self.uberblock.checkpoint_txg = self.uberblock.txg;
        }
        (self.uberblock.txg, self.uberblock.timestamp) = (txg, timestamp);
    }

    /// Lets `adopt` change what is known of spares and cache devices; whether it did.
    pub(crate) fn adopt_aux(&mut self, adopt: impl Fn(&mut VdevConfig)) -> bool {
        let mut changed = false;
        for device in self.spares.iter_mut().chain(&mut self.l2cache) {
            let before = device.path.clone();
            adopt(device);
            changed |= device.path != before;
        }
        changed
    }

    /// Looks at a pool that is open for writing between two of its syncs.
    pub(crate) fn set_gate(&mut self, gate: &Arc<Gate>) {
        self.gate = Some(Arc::clone(gate));
    }

    /// It is open for writing from now on, and has its devices elsewhere: those that were found are
    /// let go of. The sizes of its spares and cache devices are in `known` from now on.
    pub(crate) fn close_found(&mut self, known: &AuxSizes) {
        let size = |device: &VdevConfig| {
            let found = self.candidate.aux.get(&device.guid)?.device.as_ref()?;
            Some((device.guid, found.size()))
        };
        known.lock().extend(self.spares.iter().chain(&self.l2cache).filter_map(size));
        self.aux_sizes = Arc::clone(known);
        self.candidate.close();
    }

    /// The device of a leaf that was found, also of a pool that is open for writing.
    #[must_use]
    pub fn device_of(&self, guid: u64) -> Option<DeviceRef> {
        let found = self.candidate.leaves.get(&guid)?;
        let in_use = || self.vdevs().leaves().find(|l| l.guid() == guid)?.device().cloned();
        found.device.clone().or_else(in_use)
    }

    /// A scrub or resilver runs in this process.
    pub(crate) fn is_scanned_here(&self) -> bool {
        self.scans.now.is_some()
    }

    /// The datasets, to be read. Those of a pool that is open for writing stay as they are as long
    /// as this lives, so that what is read of several objects fits together: no txg becomes durable
    /// meanwhile. So it is for some reads, and not for anything that waits, asks the pool for a
    /// change, or takes this again, which would wait for itself.
    #[must_use]
    pub fn datasets(&self) -> Datasets<'_> {
        let guard = self.gate.as_ref().and_then(|gate| match &self.haste {
            Some(has_given_up) => gate.read_hastily(has_given_up),
            None => Some(gate.read()),
        });
        Datasets { pool: self, guard }
    }

    /// The same pool, seen through a store that does not wait long for devices; the flag is set
    /// when it has done so.
    pub(crate) fn in_haste(&self, store: Arc<dyn BlockStore>, haste: &Arc<AtomicBool>) -> Self {
        let mos = self.mos.through(store);
        let dsl = self.dsl.through(mos.clone());
        let haste = Some(Arc::clone(haste));
        Self { haste, ..self.with_live(self.name(), &self.store, &mos, dsl) }
    }

    /// From now on its keys are those of `dsl`.
    pub(crate) fn share_keys(&mut self, dsl: &Dsl) {
        self.dsl.share_keys(dsl);
    }

    /// The same pool at the state reported by the process that has it open for writing. Succeeds
    /// even if no device can be read: a command that only looks reports that.
    pub(crate) fn refreshed(&self, now: LiveState) -> Self {
        let dsl = self.dsl.apart();
        let mut pool = self.with_live(self.name(), &self.store, &self.mos, dsl);
        // Some counts are kept in the tables alone; without those, what is known of the others.
        pool.features = self
            .features_again()
            .unwrap_or(Features { enabled_txg: self.features.enabled_txg.clone(), ..now.features });
        (pool.config.pool_guid, pool.config.comment) = (now.root.guid, now.comment);
        pool.config.compatibility = now.compatibility;
        pool.config.vdev_tree = now.root;
        (pool.uberblock, pool.suspended) = (now.uberblock, now.suspended);
        (pool.is_waiting, pool.scans) = (now.is_waiting, now.scans);
        pool.refused = now.refused;
        [pool.spares, pool.l2cache] = now.aux;
        pool
    }

    fn features_again(&self) -> dmu::Result<Features> {
        let directory = self.directory()?;
        let table = |name| opening::feature_table(&self.mos, &directory, name);
        Ok(Features {
            for_read: table(mos::FEATURES_FOR_READ)?,
            for_write: table(mos::FEATURES_FOR_WRITE)?,
            enabled_txg: table(mos::FEATURE_ENABLED_TXG)?,
        })
    }

    /// A pool that was made just now: seen through its live MOS, which is on no disk yet.
    pub(crate) fn new_live(
        candidate: Candidate,
        config: PoolConfig,
        uberblock: Uberblock,
        store: &Arc<CachedStore>,
        mos: &Objset,
        features: Features,
        faults: &Arc<FaultLog>,
    ) -> Result<Self> {
        let dsl = Dsl::open(mos.clone(), &config.name)?;
        Ok(Self {
            candidate,
            config,
            uberblock,
            ahead: None,
            store: Arc::clone(store),
            mos: mos.clone(),
            dsl,
            features,
            faults: Arc::clone(faults),
            salvage: Vec::new(),
            spares: Vec::new(),
            l2cache: Vec::new(),
            deflate: true,
            altroot: None,
            gate: None,
            haste: None,
            suspended: None,
            is_waiting: false,
            scans: ScansHere::default(),
            refused: BTreeMap::new(),
            aux_sizes: AuxSizes::default(),
        })
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The pool's guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.config.pool_guid
    }

    /// Its devices and uberblocks as found.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The configuration in the MOS; of very damaged pools the one of the labels.
    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// The state in its labels; of one that is open for writing, active.
    #[must_use]
    pub fn label_state(&self) -> crate::CandidateState {
        match self.gate {
            Some(_) => crate::CandidateState::Active,
            None => self.candidate.state(),
        }
    }

    /// The uberblock that was opened.
    #[must_use]
    pub fn uberblock(&self) -> &Uberblock {
        &self.uberblock
    }

    /// The runtime that its devices are waited for with.
    #[must_use]
    pub fn rt(&self) -> Rt {
        self.store.rt()
    }

    /// Where blocks come from.
    #[must_use]
    pub fn store(&self) -> &Arc<CachedStore> {
        &self.store
    }

    /// The read pipeline.
    #[must_use]
    pub fn reader(&self) -> &Arc<Reader> {
        self.store.reader()
    }

    /// Reads from the devices and writes to them, by type of block and level.
    #[must_use]
    pub fn block_stats(&self) -> zio::stats::TypeStats {
        self.reader().stats().snapshot()
    }

    /// The vdev tree as it is now; that of a pool that is open for writing may be another one soon.
    #[must_use]
    pub fn vdevs(&self) -> Arc<VdevTree> {
        self.store.reader().vdevs()
    }

    /// The meta object set.
    #[must_use]
    pub fn mos(&self) -> &Objset {
        &self.mos
    }

    /// See [`UnguardedDatasets`].
    pub(crate) fn dsl(&self) -> &Dsl {
        &self.dsl
    }

    /// Enabled features.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The faults met while reading.
    #[must_use]
    pub fn faults(&self) -> &Arc<FaultLog> {
        &self.faults
    }

    /// Structures that could not be read while opening and were not needed.
    #[must_use]
    pub fn salvage(&self) -> &[Salvage] {
        &self.salvage
    }

    /// Spares of the pool.
    #[must_use]
    pub fn spares(&self) -> &[VdevConfig] {
        &self.spares
    }

    /// Cache devices of the pool.
    #[must_use]
    pub fn l2cache(&self) -> &[VdevConfig] {
        &self.l2cache
    }

    /// Whether the pool was changed on its devices since it was opened for reading: a label or an
    /// uberblock is newer than all that were found then. Data that was read may be a mixture of
    /// several states.
    #[must_use]
    pub fn has_moved(&self) -> bool {
        let age = |u: &uberblocks::FoundUberblock| (u.uberblock.txg, u.uberblock.timestamp);
        let newest = self.candidate.uberblocks.iter().map(age).max();
        self.candidate.leaves.values().any(|seen| {
            let leaf = seen.device.as_ref().and_then(|d| look_at_device(d, seen.path.clone()));
            let Some(leaf) = leaf else { return false };
            newest_label(&leaf) > seen.newest_label
                || uberblocks::read_ring(&leaf).iter().map(age).max() > newest
        })
    }

    /// Why a pool that is open for writing takes no more changes: its devices failed, and what was
    /// not durable by then is lost. It can still be read.
    #[must_use]
    pub fn suspended(&self) -> Option<&str> {
        self.suspended.as_deref()
    }

    /// Devices in use that are not where they were opened any more, and what became of them. Those
    /// that are OFFLINE or FAULTED are not in use: nothing is lost with them.
    #[must_use]
    pub fn displaced(&self) -> Vec<(String, device::Displacement)> {
        let tree = self.vdevs();
        let in_use = |l: &vdev::NodeRef<'_>| l.state().is_readable();
        let displaced = |l: vdev::NodeRef<'_>| Some((l.name().to_owned(), l.displaced()?));
        tree.leaves().filter(in_use).filter_map(displaced).collect()
    }

    /// Devices that were in use, are not where they were opened any more, and are gone without: the
    /// others make up for them.
    #[must_use]
    pub fn displaced_leaves(&self) -> Vec<(String, device::Displacement)> {
        let tree = self.vdevs();
        let is_out = |l: &vdev::NodeRef<'_>| l.state() == VdevState::Removed;
        let displaced = |l: vdev::NodeRef<'_>| Some((l.name().to_owned(), l.displaced()?));
        tree.leaves().filter(is_out).filter_map(displaced).collect()
    }

    /// It takes no more changes until its devices are back.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// The word for the pool's state: that of its vdevs, or `SUSPENDED`.
    #[must_use]
    pub fn health(&self) -> String {
        match self.suspended {
            Some(_) => SUSPENDED.to_owned(),
            None => self.vdevs().root().state().to_string(),
        }
    }

    /// Whether datasets count space on RAID-Z without its parity: what a flag in the object
    /// directory says. Pools that were made with version 1 or 2 lack it for ever, upgraded or not.
    #[must_use]
    pub fn deflates(&self) -> bool {
        self.deflate
    }

    pub(crate) fn deflate_ratio(&self, vdev: u32) -> DeflateRatio {
        if self.deflate { self.vdevs().deflate_ratio(vdev) } else { DeflateRatio::WHOLE }
    }

    /// Bytes that all copies of a block take as datasets count them.
    #[must_use]
    pub fn dsize(&self, bp: &BlkPtr) -> u64 {
        DeflateRatio::dsize(bp, |vdev| self.deflate_ratio(vdev))
    }

    /// The prefix of its mount points.
    #[must_use]
    pub fn altroot(&self) -> Option<&str> {
        self.altroot.as_deref()
    }

    /// The object directory of the MOS.
    pub fn directory(&self) -> dmu::Result<Zap> {
        Zap::open(&self.mos.object(mos::DIRECTORY_OBJECT)?)
    }
}

/// Uberblocks tried by default: as many as OpenZFS never reuses the blocks of.
const AUTOMATIC_ATTEMPTS: usize = 3;

/// The pool that is meant, of those in the places to search.
pub(crate) fn find(choice: &Choice<'_>, options: &OpenOptions) -> Result<Candidate> {
    choice.among(Candidate::group(&scan(&options.search)?), &options.search.paths)
}

/// Versions 29 to 4999 were never given to a format; 5000 has features instead of versions.
fn known_version(pool: &str, version: u64) -> Result<()> {
    match version {
        1..=28 | 5000 => Ok(()),
        _ => Err(Error::NewerVersion { pool: pool.to_owned(), version }),
    }
}

/// The uberblocks to try, best first: none of those from before rows of a raidz were moved.
fn choose(candidate: &Candidate, txg: Option<u64>) -> Result<Vec<TxgCandidate>> {
    let mut all = uberblocks::by_txg(&candidate.uberblocks);
    let available: Vec<u64> = all.iter().map(|c| c.uberblock.txg).collect();
    let newest = all.first().map(|c| c.uberblock);
    let is_gone = |older: &Uberblock| {
        newest.is_some_and(|newest| uberblocks::is_before_move(older, &newest, &candidate.tree))
    };
    match txg {
        Some(txg) => {
            all.retain(|c| c.uberblock.txg == txg);
            if all.iter().any(|c| is_gone(&c.uberblock)) {
                return Err(Error::RowsMoved { pool: candidate.name().to_owned(), txg });
            }
        }
        None => all.retain(|c| !is_gone(&c.uberblock)),
    }
    if all.is_empty() {
        let pool = candidate.name().to_owned();
        return Err(Error::NoUberblock { pool, txg, available });
    }
    Ok(all)
}
