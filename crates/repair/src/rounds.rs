//! A repair from its first check to the last write.

use crate::attempts::{Attempts, RoundEnd};
use crate::clones::Clones;
use crate::deadlists::DeadLists;
use crate::dedup::Dedup;
use crate::error::{Error, RepairRefusal, Result};
use crate::files::Files;
use crate::links::Links;
use crate::obsolete::Obsolete;
use crate::overlay::{Event, Overlay, Overlays};
use crate::plan::{Failure, Plan, Step};
use crate::sets::Sets;
use crate::space;
use crate::sums::Sums;
use crate::tables::Tables;
use crate::trees::Trees;
use crate::undo::{self, UndoDevice, UndoHead};
use check::{CheckOptions, Issue, Report, Severity, UsedSpace, Verify};
use device::{DeviceRef, DeviceSource, Shared, WriteDeviceRef, write_batch};
use ondisk::scan::State;
use pool::live::{ImportOptions, LivePool, LogDevices, import, obstacles};
use pool::{
    Candidate, CandidateState, DamagedObject, Obstacle, OpenOptions, Pool, SearchOptions,
    SpaceMapRebuild, TxgCandidate, Verdict, by_txg, scan,
};
use rt::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vdev::{NodeRef, Reason, VdevState};

/// Earlier txgs that are looked at.
const EARLIER_MAX: usize = 8;
/// Rounds after which what is still wrong stays so.
const ROUNDS_MAX: usize = 32;

/// Damaged files that are named.
const DAMAGED_MAX: usize = 1000;

/// How to repair.
#[derive(Clone)]
pub struct RepairOptions {
    /// How the pool is opened, also for writing.
    pub import: ImportOptions,
    /// Bytes that are written at most. They are in memory twice until they are.
    pub bytes_max: u64,
    /// The state of this txg is repaired, and what is newer given up.
    pub txg: Option<u64>,
    /// The content of files is read too: what of it is lost is named.
    pub reads_files: bool,
    /// Data that may be on absent devices is given up.
    pub gives_up_absent: bool,
    /// The devices are this process's alone from the first look on: the repair is to be applied.
    pub claims: bool,
}

/// A repair that was done in memory.
pub struct Repair {
    plan: Plan,
    overlays: Arc<Overlays>,
    head: UndoHead,
    pages: Vec<Vec<u64>>,
}

/// The result of one check.
struct CheckResult {
    pool: Pool,
    report: Report,
    taken: UsedSpace,
}

/// Repairs a pool that was found, in memory. Its devices come from `source`.
///
/// # Errors
/// The pool is not such that it can be repaired now. Nothing was changed.
pub fn repair(
    candidate: &Candidate,
    source: Arc<dyn DeviceSource>,
    options: &RepairOptions,
    progress: &Progress,
) -> Result<Repair> {
    let overlays = Arc::new(Overlays::new(source, options.claims, options.bytes_max));
    let newest = candidate.uberblocks.iter().map(|u| u.uberblock.txg).max().unwrap_or(0);
    let paths = paths(candidate, newest);
    let as_source = Arc::clone(&overlays) as Arc<dyn DeviceSource>;
    let search = SearchOptions { paths, source: as_source, leaves_out: true };
    let guid = candidate.config.pool_guid;
    let look = |txg| {
        look(&search, guid, txg, options, progress).map_err(|e| match e {
            // Devices that cannot be written to are not found here.
            Error::Pool(pool::Error::NoSuchPool { .. }) => {
                overlays.refusal().map_or(e, Error::Device)
            }
            e => e,
        })
    };
    let first = look(options.txg)?;
    may_be_repaired(&first.pool)?;
    // When the newest state cannot be opened at all, the one before was.
    let opened = Some(first.report.txg);
    let rewind = options.txg.or_else(|| opened.filter(|opened| *opened < newest));
    let begin = Begin {
        before: first.report.txg,
        newest,
        absent: absent(&first.pool),
        earlier: earlier(&first, options),
        found: issues(&first.report),
    };
    let (mut attempts, mut seen) = (Attempts::default(), first);
    for number in 0..ROUNDS_MAX {
        let rewind = rewind.filter(|_| number == 0);
        let Some(round) = Round::decide(&seen, rewind, &attempts) else { break };
        let failures = attempts.failures();
        round.mend(&seen.pool, &overlays, options, &mut attempts).map_err(|e| {
            let exceeded = overlays.journal.is_exceeded();
            if exceeded { RepairRefusal::TooMuch(options.bytes_max).into() } else { e }
        })?;
        let next = look(None)?;
        // A part that failed may have kept others from being tried.
        let has_more = attempts.failures() != failures;
        let is_better = next.report.issues != seen.report.issues || has_more;
        seen = next;
        if !is_better {
            break;
        }
    }
    let repair = conclude(begin, attempts.into_parts(), &seen, overlays, reads_all(options));
    let plan = &repair.plan;
    match plan.absent.first().filter(|_| options.claims && !options.gives_up_absent) {
        Some(device) if plan.gives_up() => Err(RepairRefusal::Away(device.clone()).into()),
        _ => Ok(repair),
    }
}

/// Where the devices of a pool are. One that is not up to date is gone without: as it is, it would
/// be brought up to date first.
fn paths(candidate: &Candidate, newest: u64) -> Vec<PathBuf> {
    let behind = candidate.behind(&candidate.tree, newest);
    let leaves = candidate.leaves.iter().filter(|(guid, _)| !behind.contains_key(guid));
    let leaves = leaves.map(|(_, leaf)| leaf).chain(candidate.aux.values());
    leaves.map(|leaf| leaf.path.clone()).collect()
}

/// The facts known before the first round.
struct Begin {
    before: u64,
    newest: u64,
    absent: Vec<String>,
    earlier: Vec<(u64, u64, Verdict)>,
    found: (Vec<Issue>, u64),
}

/// The repair that was done, when the last check has seen what it leaves.
fn conclude(
    begin: Begin,
    (steps, failed): (Vec<Step>, Vec<Failure>),
    seen: &CheckResult,
    overlays: Arc<Overlays>,
    reads_all: bool,
) -> Repair {
    let Begin { before, newest, absent, earlier, found: (found, found_more) } = begin;
    let (left, left_more) = issues(&seen.report);
    let (pool, after) = (seen.pool.name().to_owned(), seen.report.txg);
    let (devices, pages) = changed(&overlays, &seen.pool);
    // The undo file restores the present state, also when the repair is that of an older txg.
    let guid = seen.pool.guid();
    let head = UndoHead { guid, name: pool.clone(), before: newest, after, devices };
    let undo = undo::length(&head, &pages);
    let sizes = head.devices.iter().zip(&pages).flat_map(|(d, pages)| undo::ranges(pages, d.size));
    let written = sizes.map(|(from, to)| to - from).sum();
    let plan = Plan {
        pool,
        before,
        newest,
        after,
        absent,
        earlier,
        found,
        found_more,
        steps,
        failed,
        left,
        left_more,
        reads_all,
        damaged: damaged_files(seen),
        written,
        undo,
    };
    Repair { plan, overlays, head, pages }
}

/// Whether the content of files is read: what a later txg has overwritten of an earlier one is
/// content as well.
fn reads_all(options: &RepairOptions) -> bool {
    options.reads_files || options.txg.is_some()
}

/// The files of which something is lost, by their names.
fn damaged_files(seen: &CheckResult) -> Vec<String> {
    let of = |i: &Issue| match i {
        Issue::BlockLost { at, .. } if at.place.objset != 0 && at.place.object != 0 => {
            Some(DamagedObject { dataset: at.place.objset, object: at.place.object })
        }
        _ => None,
    };
    let objects: BTreeSet<DamagedObject> = seen.report.issues.iter().filter_map(of).collect();
    objects.iter().take(DAMAGED_MAX).map(|object| seen.pool.damaged_name(object)).collect()
}

/// The verdicts on earlier txgs, if something of this one is lost.
fn earlier(seen: &CheckResult, options: &RepairOptions) -> Vec<(u64, u64, Verdict)> {
    if seen.report.issues.iter().all(|i| i.severity() != Severity::Lost) {
        return Vec::new();
    }
    let candidate = seen.pool.candidate();
    let before = |c: &TxgCandidate| c.uberblock.txg < seen.report.txg;
    let txgs = by_txg(&candidate.uberblocks).into_iter().filter(before).take(EARLIER_MAX);
    let judge = |c: TxgCandidate| {
        let open = OpenOptions { txg: Some(c.uberblock.txg), ..options.import.open.clone() };
        let verdict = match Pool::open_candidate(candidate, &open) {
            Ok(pool) => check::verdict(&pool),
            Err(e) => Verdict::Lost(e.to_string()),
        };
        (c.uberblock.txg, c.uberblock.timestamp, verdict)
    };
    txgs.map(judge).collect()
}

/// Opens the newest state, or that of a txg, through the overlays, and checks it.
fn look(
    search: &SearchOptions,
    guid: u64,
    txg: Option<u64>,
    options: &RepairOptions,
    progress: &Progress,
) -> Result<CheckResult> {
    let found = Candidate::group(&scan(search)?);
    let candidate = found.into_iter().find(|c| c.config.pool_guid == guid);
    let absent = || pool::Error::NoSuchPool {
        wanted: guid.to_string(),
        found: Vec::new(),
        searched: search.paths.clone(),
    };
    let open = OpenOptions { search: search.clone(), txg, ..options.import.open.clone() };
    let pool = Pool::open_candidate(&candidate.ok_or_else(absent)?, &open)?;
    let verify = if reads_all(options) { Verify::All } else { Verify::Metadata };
    let how = CheckOptions { verify, ..CheckOptions::default() };
    let (report, taken) = check::survey(&pool, &how, progress);
    match taken {
        Some(taken) if !report.cancelled => Ok(CheckResult { pool, report, taken }),
        _ => Err(Error::Cancelled),
    }
}

/// Issues, without mere notes; and how many were not kept.
fn issues(report: &Report) -> (Vec<Issue>, u64) {
    let is_wrong = |i: &&Issue| i.severity() != Severity::Note;
    (report.issues.iter().filter(is_wrong).cloned().collect(), report.dropped.values().sum())
}

/// The changed places of each device, and the devices.
fn changed(overlays: &Overlays, pool: &Pool) -> (Vec<UndoDevice>, Vec<Vec<u64>>) {
    let leaves = &pool.candidate().leaves;
    let of = |(path, overlay): (PathBuf, Arc<Overlay>)| {
        let guid = leaves.iter().find(|(_, sight)| sight.path == path).map_or(0, |(g, _)| *g);
        // A file of this machine is named by its absolute path.
        let whole = if path.exists() { std::path::absolute(&path) } else { Ok(path.clone()) };
        let path = whole.unwrap_or(path);
        let device = UndoDevice { guid, size: overlay.under().size(), path };
        (device, overlay.changed())
    };
    overlays.all().into_iter().map(of).unzip()
}

/// Whether a leaf is there and up to date. Errors that were counted on it change nothing of that.
fn is_here(leaf: NodeRef<'_>) -> bool {
    match leaf.state() {
        VdevState::Online => true,
        VdevState::Degraded => leaf.reason() == Reason::TooManyErrors,
        _ => false,
    }
}

/// The devices that are away or out of use, each with its state.
fn absent(pool: &Pool) -> Vec<String> {
    let tree = pool.vdevs();
    let away = tree.leaves().filter(|leaf| !is_here(*leaf));
    away.map(|leaf| format!("{} is {}", leaf.name(), leaf.state())).collect()
}

/// Refuses what a repair cannot be made sure of: what is under way, or kept.
fn may_be_repaired(pool: &Pool) -> Result<()> {
    if pool.features().count(ondisk::checkpoint::FEATURE).is_some_and(|n| n > 0) {
        return Err(RepairRefusal::Checkpoint.into());
    }
    if let Ok(Some(removal)) = pool.removal()
        && removal.state.state() == State::Active
    {
        return Err(RepairRefusal::Removal.into());
    }
    Ok(())
}

/// The repairs of one round.
struct Round {
    maps: Option<(SpaceMapRebuild, Vec<Step>)>,
    labels: Vec<(String, usize)>,
    /// The labels are of two txgs, as a crash leaves them.
    half_labels: bool,
    /// Intent logs are damaged.
    has_damaged_logs: bool,
    clones: Clones,
    tables: Tables,
    links: Links,
    dead: DeadLists,
    sets: Sets,
    sums: Sums,
    dedup: Dedup,
    files: Files,
    trees: Trees,
    obsolete: Obsolete,
    /// The txg to go back to.
    rewind: Option<u64>,
}

impl Round {
    /// `None`: there is nothing that can be mended.
    fn decide(seen: &CheckResult, rewind: Option<u64>, attempts: &Attempts) -> Option<Self> {
        let round = |i: &Issue| matches!(i, Issue::LabelRound { .. });
        let half_labels = seen.report.issues.iter().any(round);
        let label = |i: &Issue| match i {
            Issue::Label { device, label, .. } => Some((device.clone(), *label)),
            _ => None,
        };
        let mut labels: Vec<_> = seen.report.issues.iter().filter_map(label).collect();
        labels.sort();
        labels.dedup();
        let maps = space::decide(&seen.pool, &seen.report, &seen.taken);
        let files = Files::decide(&seen.pool, &seen.report, attempts);
        let tables = Tables::decide(&seen.pool, &seen.report, attempts);
        let clones = Clones::decide(&seen.taken, attempts);
        let links = match tables.is_empty() {
            true => Links::decide(&seen.pool, &seen.report, attempts),
            false => Links::default(),
        };
        // Datasets are found by the tables, and what is in dead lists depends on the datasets.
        let sets = match tables.is_empty() && links.is_empty() {
            true => Sets::decide(&seen.pool, attempts),
            false => Sets::default(),
        };
        let dead = match tables.is_empty() && sets.is_empty() && links.is_empty() {
            true => DeadLists::decide(&seen.pool, &seen.report, attempts),
            false => DeadLists::default(),
        };
        // Space and references are summed when all datasets and their files are right.
        let is_counted = files.is_empty() && tables.is_empty() && sets.is_empty();
        let is_counted = is_counted && links.is_empty() && dead.is_empty();
        let (sums, dedup, trees, obsolete) = match is_counted {
            true => (
                Sums::decide(&seen.pool, &seen.report, attempts),
                Dedup::decide(&seen.taken, attempts),
                Trees::decide(&seen.pool, &seen.report, attempts),
                Obsolete::decide(&seen.taken, attempts),
            ),
            false => Default::default(),
        };
        let is_damaged = |o: &Obstacle| matches!(o, Obstacle::IntentLog { is_damaged: true, .. });
        let found = obstacles(&seen.pool, LogDevices::default()).unwrap_or_default();
        let has_damaged_logs = found.iter().any(is_damaged);
        let round = Self {
            maps,
            labels,
            half_labels,
            has_damaged_logs,
            clones,
            tables,
            links,
            dead,
            sets,
            sums,
            dedup,
            files,
            trees,
            obsolete,
            rewind,
        };
        round.is_of_use().then_some(round)
    }

    fn is_of_use(&self) -> bool {
        let is_labelled = self.labels.is_empty() && !self.half_labels;
        let is_well = self.maps.is_none() && is_labelled && !self.has_damaged_logs;
        let has_mos = self.tables.is_empty() && self.links.is_empty() && self.dead.is_empty();
        let is_counted = self.sums.is_empty() && self.clones.is_empty() && self.dedup.is_empty();
        let is_counted = is_counted && self.obsolete.is_empty();
        let has_sets = self.sets.is_empty() && self.files.is_empty() && self.trees.is_empty();
        !is_well || !has_mos || !is_counted || !has_sets || self.rewind.is_some()
    }

    /// Does it, over the overlays.
    fn mend(
        self,
        pool: &Pool,
        overlays: &Overlays,
        options: &RepairOptions,
        attempts: &mut Attempts,
    ) -> Result<()> {
        let (anew, steps) = self.maps.unwrap_or_default();
        attempts.push(self.rewind.map(|txg| Step::Rewind { txg }));
        attempts.push(steps);
        let was_exported = pool.candidate().state() == CandidateState::Exported;
        let open = OpenOptions { txg: self.rewind, ..options.import.open.clone() };
        let (maps_anew, to_repair) = (Arc::new(anew), true);
        let how = ImportOptions { open, maps_anew, to_repair, ..options.import.clone() };
        let live = import(&options.import.open.rt, pool.candidate(), &how, overlays)?;
        let logs = live.given_up_logs().iter();
        attempts.push(
            logs.map(|log| Step::LogLost { dataset: log.dataset.clone(), replayed: log.replayed }),
        );
        // Each of these is durable when it is made; files are so together, below. Clones come
        // before all that frees data.
        let of_pool = self.clones.mend(&live, attempts);
        let of_pool = of_pool.and_then(|()| self.tables.mend(&live, attempts));
        let of_pool = of_pool.and_then(|()| self.links.mend(&live, attempts));
        let of_pool = of_pool.and_then(|()| self.sets.mend(&live, attempts));
        let of_pool = of_pool.and_then(|()| self.dead.mend(&live, attempts));
        let of_pool = of_pool.and_then(|()| self.sums.mend(&live, attempts));
        let of_pool = of_pool.and_then(|()| self.dedup.mend(&live, attempts));
        let of_pool = of_pool.and_then(|()| self.obsolete.mend(&live, attempts));
        if !RoundEnd::is_whole(of_pool)? {
            return Ok(());
        }
        let before = attempts.step_count();
        let of_files = self.files.mend(&live, attempts);
        let of_files = of_files.and_then(|()| self.trees.mend(&live, attempts));
        if !RoundEnd::is_whole(of_files)? {
            attempts.take_back(before);
            return Ok(());
        }
        live.sync()?;
        forget_damage(pool, &live)?;
        leave(live, was_exported)?;
        if !self.labels.is_empty() || self.half_labels {
            attempts.push([Step::Labels { wrong: self.labels }]);
        }
        Ok(())
    }
}

/// Damage that the repair itself met makes no device DEGRADED that was not before.
fn forget_damage(before: &Pool, live: &LivePool) -> Result<()> {
    let was_online = |guid: u64| {
        let tree = before.vdevs();
        tree.leaves().any(|l| l.guid() == guid && l.state() == VdevState::Online)
    };
    let tree = live.view().vdevs();
    let hurt = tree.leaves().filter(|l| l.state() == VdevState::Degraded && was_online(l.guid()));
    let guids: Vec<u64> = hurt.map(NodeRef::guid).collect();
    Ok(guids.into_iter().try_for_each(|guid| live.forget_errors(Some(guid)))?)
}

/// Lets go of the pool as it was found, with labels that all say the same.
fn leave(live: LivePool, was_exported: bool) -> Result<()> {
    if was_exported {
        return Ok(live.export()?);
    }
    live.rewrite_labels()?;
    Ok(live.close()?)
}

impl Repair {
    /// The plan of the repair.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Makes the undo file durable, with its name; the devices, to be written.
    fn keep(&self, file: &File, undo: &Path) -> Result<Vec<WriteDeviceRef>> {
        let folder = undo.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        let overlays = self.overlays.all();
        let old: Vec<DeviceRef> = overlays.iter().map(|(_, o)| Arc::clone(o.under())).collect();
        undo::write(file, &self.head, &old, &self.pages)?;
        let source = self.overlays.under();
        let claimed = overlays.iter().map(|(path, _)| source.claim(path));
        Ok(claimed.collect::<std::result::Result<_, _>>()?)
    }

    /// Applies it to the devices, after the old contents of the changed places are durable in a new
    /// file.
    ///
    /// # Errors
    /// Those of the file, which must not exist, and of the devices. Places that were written by
    /// then can be restored.
    pub fn apply(&self, undo: &Path) -> Result<()> {
        let in_place = |e| Error::Undo(format!("the undo file {}: {e}", undo.display()));
        let file = File::create_new(undo).map_err(in_place)?;
        let devices = self.keep(&file, undo).inspect_err(|_| {
            // Nothing was written, and the rest of the file would be in the way of the next try.
            let _ = std::fs::remove_file(undo);
        })?;
        let mut waiting: BTreeMap<(usize, u64), Vec<Shared>> = BTreeMap::new();
        for event in self.overlays.journal.events() {
            match event {
                Event::Write { device, offset, parts } => {
                    if overlaps(&waiting, device, offset, length(&parts)) {
                        submit(&devices, &mut waiting)?;
                    }
                    waiting.insert((device, offset), parts);
                }
                Event::Flush { device } => {
                    submit(&devices, &mut waiting)?;
                    if let Some(device) = devices.get(device) {
                        device.flush()?;
                    }
                }
            }
        }
        submit(&devices, &mut waiting)?;
        devices.iter().try_for_each(|device| Ok(device.flush()?))
    }
}

fn length(parts: &[Shared]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// Whether a write shares bytes with one that waits: then the order counts.
fn overlaps(
    waiting: &BTreeMap<(usize, u64), Vec<Shared>>,
    device: usize,
    offset: u64,
    len: u64,
) -> bool {
    let before = waiting.range((device, 0)..(device, offset.saturating_add(len))).next_back();
    before.is_some_and(|((_, at), parts)| at.saturating_add(length(parts)) > offset)
}

/// Does all writes that wait, and waits for them.
fn submit(
    devices: &[WriteDeviceRef],
    waiting: &mut BTreeMap<(usize, u64), Vec<Shared>>,
) -> Result<()> {
    let mut by_device: BTreeMap<usize, Vec<(u64, Vec<Shared>)>> = BTreeMap::new();
    for ((device, offset), parts) in std::mem::take(waiting) {
        by_device.entry(device).or_default().push((offset, parts));
    }
    for (index, writes) in by_device {
        let Some(device) = devices.get(index) else { continue };
        write_batch(device.as_ref(), writes).into_iter().try_for_each(|done| done)?;
    }
    Ok(())
}
