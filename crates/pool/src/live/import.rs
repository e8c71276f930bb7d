//! Opening a pool for writing.
//!
//! ```text
//! scan, read-only  ->  candidate  ->  open read-only  ->  obstacles?  ->  lock the devices
//!   ->  was it written since?  ->  the tree again, over devices that can be written
//! ```
//!
//! Nothing proportional to the pool's size is read: space maps are read when their metaslab is
//! first used. A pool that was in use elsewhere is refused unless it is forced; one with multihost
//! protection is watched first, forced or not.

use super::LivePool;
use super::config::PoolFacts;
use super::create::allocator;
use super::features::FeatureTable;
use super::interrupted_split::InterruptedSplit;
use super::log::{
    CutLog, LogDevices, claims, cut_logs, damaged_logs, missing_logs, rename_dataset,
};
use super::rewind;
use super::shared::{ConfigState, Parts, USUAL_ROUNDS};
use super::sync_reads::mos_over;
use super::tunables::Setting;
use super::writable::obstacles;
use crate::alloc::SpaceMapRebuild;
use crate::assemble::{Candidate, CandidateState, is_of_log, is_out_of_use};
use crate::choice::{Choice, Destroyed};
use crate::error::{Error, Result};
use crate::mapping::segments;
use crate::obstacle::Obstacle;
use crate::open::{OpenOptions, Pool, find, set_reflow};
use crate::scan::{look_at_device, read_labels};
use crate::uberblocks;
use device::{DeviceRef, DeviceSource, WriteDeviceRef};
use dmu::PendingSource;
use dsl::Dsl;
use ondisk::config::{LabelConfig, VdevConfig, VdevKind};
use ondisk::uberblock::{Mmp, Uberblock};
use ondisk::{ddt, mos};
use rt::Rt;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vdev::label::Round;
use vdev::{LeafOpen, Txgs, VdevTree};
use zio::{Reader, Writer};

/// The shortest time between two uberblocks of a host that shows that it is there.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// A host that is longer silent than that is none that a user has waited for: what says so is
/// damaged.
const SILENCE_MAX: Duration = Duration::from_secs(3600);

/// How to open a pool for writing.
#[derive(Clone)]
pub struct ImportOptions {
    /// How to open it for reading, which comes first. With the checkpoint's state, or that of a
    /// txg, the pool goes back to that for good.
    pub open: OpenOptions,
    /// Identity of this host, 0 for none.
    pub hostid: u64,
    /// Its name.
    pub hostname: String,
    /// Also when it was last used by another host and not exported.
    pub force: bool,
    /// Also when it was destroyed.
    pub destroyed: bool,
    /// Name it has from now on.
    pub rename: Option<String>,
    /// Its configuration names its devices by the paths at which they were found, from now on.
    pub adopt_paths: bool,
    /// Log devices that are missing.
    pub logs: LogDevices,
    /// Devices, by guid, that may have been written without the others: their changes are given up,
    /// and they stay away until they are brought back.
    pub give_up: Vec<u64>,
    /// Limits on the number of file systems and snapshots stop nothing: the user who opens the pool
    /// may change them.
    pub ignore_limits: bool,
    /// The user who opens it: what is made has the permissions that its creator gets.
    pub user: u64,
    /// Tunables that are not to have their defaults.
    pub tunables: Vec<Setting>,
    /// Space maps that are wrong, and what is to be in their place.
    pub maps_anew: Arc<SpaceMapRebuild>,
    /// It is opened to be repaired: datasets that cannot be read are left as they are, and intent
    /// logs that are damaged are replayed up to the damage, and emptied. A pool with deduplicated
    /// blocks is opened too: what is freed of these stays allocated, and counted in their tables.
    pub to_repair: bool,
}

impl ImportOptions {
    /// As a host without an identity, everything else as usual.
    #[must_use]
    pub fn new(open: OpenOptions) -> Self {
        let hostname = String::new();
        Self {
            open,
            hostid: 0,
            hostname,
            force: false,
            destroyed: false,
            rename: None,
            adopt_paths: false,
            logs: LogDevices::default(),
            give_up: Vec::new(),
            ignore_limits: false,
            user: 0,
            tunables: Vec::new(),
            maps_anew: Arc::default(),
            to_repair: false,
        }
    }
}

impl LivePool {
    /// Opens a pool for writing by its name or guid. The search, the source of its devices and the
    /// runtime are those of [`ImportOptions::open`]. Which one is meant says [`Choice`]; with
    /// [`ImportOptions::destroyed`] the name of a destroyed pool means it, too, where no other
    /// has it.
    ///
    /// # Errors
    /// Those of [`Pool::open`], and of [`import`].
    pub fn open(wanted: &str, options: &ImportOptions) -> Result<Self> {
        let destroyed = if options.destroyed { Destroyed::IfNoOther } else { Destroyed::ByGuid };
        let candidate = find(&Choice::of(wanted).destroyed(destroyed), &options.open)?;
        import(&options.open.rt, &candidate, options, &*options.open.search.source)
    }
}

/// Opens a pool that was found for writing, with the devices that `source` has under the paths at
/// which they were found.
///
/// # Errors
/// When it cannot be opened at all, is in use, or [`obstacles`] stand in the way.
pub fn import(
    rt: &Rt,
    candidate: &Candidate,
    options: &ImportOptions,
    source: &dyn DeviceSource,
) -> Result<LivePool> {
    let Admitted { mut reading, newest, state, damaged } = admit(rt, candidate, options)?;
    let name = reading.name().to_owned();
    let mut root = reading.config().vdev_tree.clone();
    let was_exported = candidate.state() == CandidateState::Exported;
    let found = |guid: &u64| candidate.leaves.contains_key(guid);
    super::leaves::mark_found(&mut root, &found, was_exported)
        .map_err(|e| Error::Inconsistent { what: e.to_string() })?;
    let split = InterruptedSplit::of(reading.config(), candidate, &root);
    split.take_back(&mut root)?;
    let logs = super::leaves::logs_of(reading.mos(), &root);
    let Devices { open: devices, failed } = open_devices(candidate, &root, &name, source)?;
    unchanged(&devices, newest.txg, &name)?;
    let mut have_aux_moved = false;
    if options.adopt_paths {
        super::paths::adopt(&mut root, &candidate.leaves);
        let found = reading.candidate().aux.clone();
        have_aux_moved = reading.adopt_aux(|device| super::paths::adopt(device, &found));
    }
    let devices = Devices { open: devices, failed };
    let (mut cut, missing) = match options.logs {
        LogDevices::GiveUp => (cut_logs(&reading), missing_logs(&reading)),
        _ => (Vec::new(), Vec::new()),
    };
    cut.extend(damaged);
    let place = StateToOpen { root, newest: newest.txg, state };
    let mut pool = assemble(rt, &reading, options, place, &devices)?;
    rename_logs(&mut cut, &name, pool.name());
    if options.to_repair {
        pool.shared.blocks.keep_deduplicated();
    }
    // In the first txg, before anything else that makes one.
    pool.claim_logs()?;
    pool.end_split(&split)?;
    pool.shared.post_system("pool_import");
    pool.shared.owner.store(options.user, Ordering::Relaxed);
    if options.ignore_limits {
        pool.shared.dsl.ignore_limits();
        pool.view().dsl().ignore_limits();
    }
    let devices = devices.open;
    pool.drop_logs_of_rewound()?;
    pool.replay_logs(&cut)?;
    pool.give_up_logs(&cut, &missing)?;
    pool.discard_unfinished(options.to_repair)?;
    if have_aux_moved {
        pool.rewrite_aux()?;
    }
    pool.online_returned(devices, &logs)?;
    pool.relabel_spares(candidate, source);
    pool.expand_if_wanted()?;
    let autotrim = pool.view().stored_number("autotrim")?;
    pool.shared.set_autotrim(autotrim == Some(1))?;
    pool.shared.resume_works()?;
    if !options.to_repair {
        pool.shared.resume_error_scrub()?;
    }
    if pool.shared.is_removal_running() || pool.shared.is_reflow_running() {
        pool.shared.txgs.want_next();
    }
    Ok(pool)
}

/// Whether a pool that was found would be opened for writing, as far as that shows without taking
/// its devices from others: nothing is written.
///
/// # Errors
/// Those of [`import`], but for what other processes do to the devices.
pub fn check_import(rt: &Rt, candidate: &Candidate, options: &ImportOptions) -> Result<()> {
    admit(rt, candidate, options).map(drop)
}

/// A pool that nothing stands in the way of.
struct Admitted {
    /// Open for reading; of one that goes back, with the uberblock that it gets.
    reading: Pool,
    /// The newest uberblock on its devices.
    newest: Uberblock,
    /// The txg of which a device must have everything, or it was away: the newest, or that to
    /// which the pool goes back.
    state: u64,
    /// Intent logs that are damaged, and emptied.
    damaged: Vec<CutLog>,
}

/// Opens it for reading, and refuses what cannot be imported.
fn admit(rt: &Rt, candidate: &Candidate, options: &ImportOptions) -> Result<Admitted> {
    check_state(candidate, options)?;
    let read = OpenOptions { rt: rt.clone(), ..options.open.clone() };
    let mut reading = Pool::open_candidate(candidate, &read)?;
    let opened = reading.uberblock().txg;
    let newest = rewind::begin(rt, &mut reading, rewind::is_wanted(&options.open));
    // What came after the checkpoint may be where a device that was away since lacks something.
    let state = if options.open.txg.is_some() { opened } else { newest.txg };
    let name = reading.name().to_owned();
    let mut obstacles = obstacles(&reading, options.logs)?;
    let damaged = damaged_logs(&obstacles);
    obstacles.retain(|o| match o {
        Obstacle::Diverged { guid, .. } => !options.give_up.contains(guid),
        Obstacle::Dataset(_) | Obstacle::IntentLog { is_damaged: true, .. } => !options.to_repair,
        Obstacle::Dedup => !options.to_repair,
        Obstacle::Feature(guid) if guid == ddt::FEATURE => !options.to_repair,
        _ => true,
    });
    if !obstacles.is_empty() {
        return Err(Error::NotWritable { pool: name, obstacles });
    }
    watch(rt, candidate, &name)?;
    Ok(Admitted { reading, newest, state, damaged })
}

/// Opens a part of a pool's devices as a pool of its own, which has the vdevs and the guid that
/// `shape` makes of those of the whole. `first` gets it, and the whole, before any txg of it, and
/// writes its [`LivePool::new_log_headers`] in the first.
pub(super) fn open_part(
    rt: &Rt,
    candidate: &Candidate,
    options: &ImportOptions,
    open: BTreeMap<u64, WriteDeviceRef>,
    shape: impl FnOnce(&VdevConfig) -> Result<VdevConfig>,
    first: impl FnOnce(&LivePool, &VdevConfig) -> Result<()>,
) -> Result<LivePool> {
    let reading = Pool::open_candidate(candidate, &options.open)?;
    let (mut cut, missing) = (cut_logs(&reading), missing_logs(&reading));
    let whole = reading.config().vdev_tree.clone();
    let txg = reading.uberblock().txg;
    let place = StateToOpen { root: shape(&whole)?, newest: txg, state: txg };
    let devices = Devices { open, failed: BTreeMap::new() };
    let mut pool = assemble(rt, &reading, options, place, &devices)?;
    rename_logs(&mut cut, reading.name(), pool.name());
    first(&pool, &whole)?;
    pool.replay_logs(&cut)?;
    pool.give_up_logs(&cut, &missing)?;
    Ok(pool)
}

/// The logs were found under the name that the pool has on its devices, and it gets another one.
fn rename_logs(cut: &mut [CutLog], from: &str, to: &str) {
    cut.iter_mut().for_each(|log| rename_dataset(&mut log.dataset, from, to));
}

/// The devices of a pool, by guid.
struct Devices {
    open: BTreeMap<u64, WriteDeviceRef>,
    /// Those that were found and cannot be opened for writing.
    failed: BTreeMap<u64, device::Error>,
}

/// Opens every device that was found and is in use. One that fails, also because it is read-only or
/// this user must not write to it, is gone without, where the rest does; one that others have open
/// ends the import.
fn open_devices(
    candidate: &Candidate,
    root: &VdevConfig,
    pool: &str,
    source: &dyn DeviceSource,
) -> Result<Devices> {
    let mut devices = Devices { open: BTreeMap::new(), failed: BTreeMap::new() };
    for leaf in root.walk().filter(|v| v.kind.is_leaf() && !is_out_of_use(v)) {
        let Some(sight) = candidate.leaves.get(&leaf.guid) else { continue };
        match source.claim(&sight.path) {
            Ok(device) => {
                devices.open.insert(leaf.guid, device);
            }
            Err(e) if e.kind.is_of_device() => {
                devices.failed.insert(leaf.guid, e);
            }
            Err(cause) => return Err(Error::Device { pool: pool.to_owned(), cause }),
        }
    }
    Ok(devices)
}

/// The name of the pool for now, and the one that its labels get: a name for this time only is not
/// written down.
fn names(reading: &Pool, options: &ImportOptions) -> (String, String) {
    let labelled =
        if options.open.name.is_some() { reading.candidate().name() } else { reading.name() };
    let written = options.rename.clone().unwrap_or_else(|| labelled.to_owned());
    let name = options.open.name.clone().unwrap_or_else(|| written.clone());
    (name, written)
}

/// What a pool that is open for writing makes of a leaf. One that was away while the others were
/// written is not written to before its log on disk says what it missed. One of a log (`of_log`) is
/// read meanwhile: intent logs may lead there.
fn leaf_open(
    config: &VdevConfig,
    devices: &Devices,
    absences: &BTreeMap<u64, Txgs>,
    behind: &BTreeMap<u64, u64>,
    of_log: bool,
) -> LeafOpen {
    let refusal = devices.failed.get(&config.guid).map(|e| e.kind).filter(|why| why.is_refusal());
    if let Some(why) = refusal {
        return LeafOpen::Refused(why);
    }
    let device = devices.open.get(&config.guid);
    match (device, behind.get(&config.guid)) {
        (Some(device), Some(txgs)) if absences.contains_key(&config.guid) => {
            let device = Arc::clone(device).as_device();
            LeafOpen::Behind { device, txgs: *txgs, needed: of_log }
        }
        (device, _) => LeafOpen::writable_by_config(config, device.cloned()),
    }
}

fn check_state(candidate: &Candidate, options: &ImportOptions) -> Result<()> {
    let config = &candidate.config;
    let pool = || config.name.clone();
    let is_active = match candidate.state() {
        CandidateState::Destroyed if !options.destroyed => {
            return Err(Error::Destroyed { pool: pool() });
        }
        CandidateState::Exported | CandidateState::Destroyed => false,
        CandidateState::Active | CandidateState::Other => true,
    };
    if options.force {
        return Ok(());
    }
    let other = config.hostid.unwrap_or(0);
    if is_active && other != options.hostid && other != 0 {
        let host = config.hostname.clone().unwrap_or_default();
        return Err(Error::ForeignHost { pool: pool(), hostid: other, host });
    }
    check_elsewhere(candidate, options)
}

/// Refuses a pool that another machine may have open, unless it is imported by force. To be asked
/// before its devices are claimed: a claim takes a disk in a store away from the other machine.
///
/// # Errors
/// [`Error::Elsewhere`].
pub fn check_elsewhere(candidate: &Candidate, options: &ImportOptions) -> Result<()> {
    match candidate.used_elsewhere().filter(|_| !options.force) {
        None => Ok(()),
        Some(why) => Err(Error::Elsewhere { pool: candidate.config.name.clone(), why }),
    }
}

/// How long an import looks whether another host writes uberblocks to show that it is there
/// (multihost); `None`: the pool was not used so, and it does not look.
#[must_use]
pub fn multihost_wait(candidate: &Candidate) -> Option<Duration> {
    let uberblocks = candidate.uberblocks.iter().map(|found| &found.uberblock);
    let newest = uberblocks.max_by(|a, b| a.cmp_age(b))?;
    let is_active = candidate.state() == CandidateState::Active;
    newest.mmp().filter(|mmp| is_active && mmp.delay != 0).map(|mmp| silence_of(&mmp))
}

/// How long no uberblock comes from a host that has gone, at least.
fn silence_of(mmp: &Mmp) -> Duration {
    let interval = Duration::from_millis(u64::from(mmp.interval.unwrap_or(1000))).max(INTERVAL_MIN);
    let silence = match mmp.fail_intervals {
        // As many intervals as it may miss before it stops itself, and as many again to be safe.
        Some(fails @ 1..) => interval.saturating_mul(u32::from(fails).max(10) * 2),
        // It never stops itself, and may be as slow as it was.
        _ => interval.saturating_add(Duration::from_nanos(mmp.delay)).saturating_mul(20),
    };
    silence.min(SILENCE_MAX)
}

/// Waits, when another host may write uberblocks to show that it is there, to see it.
pub(super) fn watch(rt: &Rt, candidate: &Candidate, pool: &str) -> Result<()> {
    let Some(wait) = multihost_wait(candidate) else { return Ok(()) };
    let seen = newest(candidate);
    rt.sleep(wait);
    match newest(candidate) == seen {
        true => Ok(()),
        false => Err(Error::InUse { pool: pool.to_owned() }),
    }
}

/// Txg, time and multihost sequence of the newest uberblock on the devices now.
fn newest(candidate: &Candidate) -> Option<(u64, u64, u64)> {
    let rings = candidate.leaves.values().filter_map(|l| l.device.as_ref());
    let rings = rings.flat_map(|device| ring(device, |_| true));
    rings.map(|u| (u.txg, u.timestamp, u.mmp_config)).max()
}

fn ring(device: &DeviceRef, is_wanted: impl Fn(&Uberblock) -> bool) -> Vec<Uberblock> {
    let leaf = look_at_device(device, PathBuf::new());
    let found = leaf.map(|l| uberblocks::read_ring_where(&l, is_wanted)).unwrap_or_default();
    found.into_iter().map(|f| f.uberblock).collect()
}

/// Between the first look and the lock another program may have written.
fn unchanged(devices: &BTreeMap<u64, WriteDeviceRef>, txg: u64, pool: &str) -> Result<()> {
    for device in devices.values() {
        if !ring(&Arc::clone(device).as_device(), |u| u.txg > txg).is_empty() {
            return Err(Error::InUse { pool: pool.to_owned() });
        }
    }
    Ok(())
}

/// The order in which labels are written: the older ones first, after a crash between the
/// uberblock, which is of txg `txg`, and the last labels.
fn rounds(devices: &Devices, txg: u64) -> [Round; 2] {
    let is_older = |device: &WriteDeviceRef| {
        let labels = read_labels(&Arc::clone(device).as_device());
        let newest = |round: Round| {
            let of_round = labels.iter().filter(|l| round.labels().contains(&l.index));
            let member = |config: &LabelConfig| match config {
                LabelConfig::Member(config) => Some(config.txg),
                LabelConfig::Aux(_) => None,
            };
            of_round.filter_map(|l| l.config.as_ref().ok().and_then(member)).max()
        };
        newest(Round::First).is_some_and(|n| n <= txg && newest(Round::Second) < Some(n))
    };
    let [first, second] = USUAL_ROUNDS;
    match devices.open.values().any(is_older) {
        true => [second, first],
        false => [first, second],
    }
}

/// Every top-level vdev takes blocks that can be read again.
fn can_write(vdevs: &VdevTree, pool: &str) -> Result<()> {
    let is_needed =
        |t: &vdev::TopRef<'_>| !matches!(t.node().kind(), "hole" | "indirect") && !t.is_log();
    let lost = vdevs.tops().filter(|t| is_needed(t) && !t.is_writable());
    let obstacle = |top: vdev::TopRef<'_>| Obstacle::Vdev {
        name: top.node().name().to_owned(),
        what: "too few of its devices are writable".to_owned(),
    };
    let obstacles: Vec<_> = lost.map(obstacle).collect();
    if obstacles.is_empty() {
        return Ok(());
    }
    Err(Error::NotWritable { pool: pool.to_owned(), obstacles })
}

/// Why too few devices can be written: when one of them could not be opened, that says it.
fn too_few(e: Error, pool: &str, devices: &Devices) -> Error {
    match devices.failed.values().next() {
        Some(cause) => Error::Device { pool: pool.to_owned(), cause: cause.clone() },
        None => e,
    }
}

/// Gives removed vdevs their mappings. One that could not be read has been an obstacle.
fn map_removed(vdevs: &mut VdevTree, reading: &Pool, root: &VdevConfig) -> Result<()> {
    for top in root.children.iter().filter(|top| top.kind == VdevKind::Indirect) {
        let invalid = |what: String| Error::Inconsistent { what };
        let id = u32::try_from(top.id).map_err(|e| invalid(e.to_string()))?;
        let segments = segments(reading.mos(), top)?.unwrap_or_default();
        vdevs.set_indirect(id, segments).map_err(|e| invalid(e.to_string()))?;
    }
    Ok(())
}

/// The vdevs of a pool, the newest txg on its devices, and that whose state is opened.
struct StateToOpen {
    root: VdevConfig,
    newest: u64,
    state: u64,
}

fn assemble(
    rt: &Rt,
    reading: &Pool,
    options: &ImportOptions,
    StateToOpen { root, newest, state }: StateToOpen,
    devices: &Devices,
) -> Result<LivePool> {
    let (config, candidate) = (reading.config(), reading.candidate());
    let logs = super::leaves::logs_of(reading.mos(), &root);
    let behind = candidate.behind(&root, state);
    let absences = candidate.absences(&root, state, &logs);
    let mut leaf =
        |c: &VdevConfig| leaf_open(c, devices, &absences, &behind, is_of_log(&root, c.guid));
    let invalid = |e: vdev::BuildError| Error::Inconsistent { what: e.to_string() };
    let mut vdevs = VdevTree::build(rt, &root, &mut leaf).map_err(invalid)?;
    map_removed(&mut vdevs, reading, &root)?;
    set_reflow(&mut vdevs, &root, reading.uberblock()).map_err(invalid)?;
    vdevs.count_errors(&options.open.errors);
    // Before anything is read: what a device missed is no error of it.
    for (guid, missed) in logs.iter().chain(&absences) {
        vdevs.has_missed(*guid, missed);
    }
    note_short(&vdevs, reading.uberblock().txg);
    vdevs.set_queue_limits(rt, &Arc::default());
    can_write(&vdevs, reading.name()).map_err(|e| too_few(e, reading.name(), devices))?;
    let salt = reading.directory()?.get(mos::CHECKSUM_SALT.as_bytes())?;
    let salt = salt.and_then(|e| <[u8; 32]>::try_from(e.value_bytes()?).ok()).unwrap_or_default();
    let reader = Arc::new(Reader::new(vdevs, &salt));
    let block_faults = Arc::clone(reading.faults());
    if options.to_repair {
        // What is to be written is decided before the first of it is.
        block_faults.forget_bad();
    }
    let store = options.open.store(&reader, &block_faults);
    let uberblock = last_uberblock(reading);
    let mos = mos_over(&store, Some(uberblock.rootbp))?;
    let features = FeatureTable::open(&mos.in_sync, reading.features())?;
    let alloc = Arc::new(allocator(&mos.in_sync, &reader, &root, &features, &options.maps_anew)?);
    // Logs go elsewhere when their devices are missing.
    reader.vdevs().tops().filter(|t| !t.is_writable()).for_each(|t| alloc.avoid_log(t.id()));
    // Before anything else can have their space.
    let (name, written) = names(reading, options);
    let mut claims = claims(reading, &alloc, &reader)?;
    claims.iter_mut().for_each(|claim| claim.rename(reading.name(), &name));
    let writer = Arc::new(Writer::new(rt, Arc::clone(&reader), Arc::clone(&alloc) as _));
    store.set_pending(&(Arc::clone(&writer) as Arc<dyn PendingSource>));
    let facts = PoolFacts {
        name: written,
        guid: root.guid,
        hostid: options.hostid,
        hostname: options.hostname.clone(),
        features_for_read: features.for_labels(),
        ..PoolFacts::of(config)
    };
    let object =
        dmu::Zap::open(&mos.objects.object(mos::DIRECTORY_OBJECT)?)?.need_u64(mos::CONFIG)?;
    super::vdev_properties::set_error_limits(&reader.vdevs(), &mos.objects, &root);
    let config = ConfigState::new(facts, root, object, logs, rounds(devices, newest));
    let parts =
        Parts { reader, store, writer, alloc, mos, features, config, uberblock, block_faults };
    rewind::commit(&parts, rewind::is_wanted(&options.open))?;
    let dsl = Dsl::open(parts.mos.objects.clone(), &name)?;
    let view = reading.with_live(&name, &parts.store, &parts.mos.objects, dsl);
    let mut pool = LivePool::start(rt, parts, view, &options.tunables)?;
    pool.left_out = devices.failed.values().cloned().collect();
    pool.claims = claims;
    Ok(pool)
}

/// The uberblock that the pool goes on from. Where `multihost` is off, no host shows from here on
/// that it is there, and the next import need not look for one.
fn last_uberblock(reading: &Pool) -> Uberblock {
    let mut uberblock = *reading.uberblock();
    if reading.stored_number("multihost").is_ok_and(|wanted| wanted != Some(1)) {
        (uberblock.mmp_delay, uberblock.mmp_config) = (0, 0);
    }
    uberblock
}

/// What was cut off of a device that is too short may be of any txg so far. That is so when it has
/// its size again, too.
fn note_short(vdevs: &VdevTree, last: u64) {
    let short = vdevs.leaves().filter(|leaf| leaf.size_missed().is_some());
    short.for_each(|leaf| _ = vdevs.has_missed(leaf.guid(), &std::iter::once(1..=last).collect()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_has_gone_is_waited_for_as_long_as_it_may_be_silent() {
        let secs = Duration::from_secs;
        let silence = |delay: u64, interval, fail_intervals| {
            silence_of(&Mmp { delay, interval, sequence: Some(1), fail_intervals })
        };
        let slow = secs(137).as_nanos() as u64;
        // It stops itself before it is that slow.
        assert_eq!(silence(slow, Some(1000), Some(10)), secs(20));
        assert_eq!(silence(1, Some(0), Some(1)), secs(2));
        // It does not.
        assert_eq!(silence(secs(4).as_nanos() as u64, Some(1000), Some(0)), secs(100));
        assert_eq!(silence(secs(4).as_nanos() as u64, None, None), secs(100));
        // Nothing that damage says is waited for without end.
        assert_eq!(silence(u64::MAX, None, None), SILENCE_MAX);
        assert_eq!(silence(1, Some(0xff_ffff), Some(u16::MAX)), SILENCE_MAX);
    }
}
