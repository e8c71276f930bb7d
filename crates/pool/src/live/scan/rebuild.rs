//! Sequential rebuild: a device gets what it lacks in the order of the space of its top-level vdev.
//!
//! # Theory
//!
//! A resilver follows pointers, so it knows every block and its checksum, and reads where the tree
//! leads. A rebuild reads what the space maps say is allocated, from the first byte to the last,
//! knows no block, and verifies nothing: mirrors are copied, columns of dRAID are computed from the
//! others. It is faster where seeking is slow, and redundancy is back sooner; a scrub follows,
//! which finds what was copied wrong as long as another copy is right.
//!
//! ```text
//! attach, replace: active --- walk, in pieces ---> complete, then a scrub
//!                  ^   |  \
//!       one more   |   |   `--- the device goes: canceled
//!       device     '---'
//! ```
//!
//! How far one is stands in the table of its top-level vdev (`docs/format/scan.md`): another
//! process goes on, of OpenZFS as well. Everything below that offset is on the device, because the
//! txg that says so flushed all devices before it became true.
//!
//! **What is copied does not change meanwhile.** A piece holds the gate, so no txg is committed:
//! what the last durable maps say is allocated is neither given away nor taken anew. What was
//! taken since is left out, for all devices get it. A block of an intent log may be written at any
//! moment, also between the reading and the writing of its place here, which then puts back what
//! was there before, on the new device alone. That does not matter once the txg is durable that
//! the block belongs to; and the new device counts as having it in the same txg or a later one.
//!
//! Each top-level vdev has a rebuild of its own, with its own state on disk, and those that are
//! under way run beside each other: they have no device in common. What is replaced on one is
//! detached when that one is done.
//!
//! When it has come to its end without an error, all that was missed up to the txg in which it
//! began leaves the logs. What could not be read or written stays, and a resilver follows.

use super::super::config::{FIRST_TXG, unset};
use super::super::config_edit::bad;
use super::super::new_vdevs::set_member;
use super::super::shared::{Shared, TaskCx};
use super::super::tunables::Tunable;
use super::{End, REAPED};
use crate::error::Result;
use crate::refusal::{DeviceFault, PoolRefusal, VdevFault};
use crate::removal::rebuild_state;
use dmu::{Objset, Zap, ZapValue, zap};
use ondisk::Dva;
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::mos::vdev_zap;
use ondisk::scan::{RebuildState, State};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use vdev::{BlockRead, Heal, Txgs};

/// The member of a leaf's configuration: the txg in which a rebuild began that is for it.
pub(in crate::live) const REBUILD_TXG: &str = "rebuild_txg";

const FEATURE: &str = "org.openzfs:device_rebuild";

/// Bytes of one vdev that are read and written at the same time.
const BATCH: u64 = 32 << 20;
/// Vdevs that are rebuilt at the same time, at most.
const BESIDE: usize = 16;

fn state_in(mos: &Objset, top: &VdevConfig) -> Result<Option<RebuildState>> {
    let Some(table) = top.vdev_zap_top.filter(|n| *n != 0) else { return Ok(None) };
    Ok(rebuild_state(&Zap::open(&mos.object(table)?)?)?)
}

fn put(cx: &TaskCx<'_>, top: &VdevConfig, state: &RebuildState) -> Result<()> {
    let table = top.vdev_zap_top.filter(|n| *n != 0);
    let table = table.ok_or_else(|| cx.shared.refused(PoolRefusal::NoVdevTables("a rebuild")))?;
    let words = ZapValue::from_words(&state.to_words());
    let object = cx.objects().object(table)?;
    Ok(zap::set(&object, cx.tx, vdev_zap::REBUILD.as_bytes(), &words)?)
}

fn log(cx: &TaskCx<'_>, top: &VdevConfig, what: &str) -> Result<()> {
    let text = format!("vdev_id={} vdev_guid={} {what}", top.id, top.guid);
    cx.log_event_of_pool("rebuild", &text)?;
    match what {
        "started" => cx.shared.post_rebuild("resilver_start", top),
        "reset" => {}
        _ => cx.shared.post_rebuild("resilver_finish", top),
    }
    Ok(())
}

impl Shared {
    /// What an import finds: rebuilds that go on.
    pub(in crate::live) fn find_rebuilds(&self) -> Result<()> {
        let tops = self.config.lock().root.children.clone();
        let mut active = self.scans.rebuilds.lock();
        for top in &tops {
            if state_in(&self.mos, top)?.is_some_and(|s| s.state() == State::Active) {
                active.insert(top.guid);
            }
        }
        Ok(())
    }

    /// A rebuild runs, or is about to.
    pub(in crate::live) fn is_rebuilding(&self) -> bool {
        !self.scans.rebuilds.lock().is_empty()
    }

    /// Refuses a rebuild of a side of this top-level vdev.
    pub(in crate::live) fn check_rebuild(&self, top: &VdevConfig) -> Result<()> {
        if !self.features.is_enabled("device_rebuild") {
            return Err(self.refused(PoolRefusal::FeatureNotEnabled("device_rebuild")));
        }
        let sides = [VdevKind::Mirror, VdevKind::Replacing, VdevKind::Spare];
        let is_draid = matches!(top.kind, VdevKind::Draid { .. });
        if !is_draid && !top.kind.is_leaf() && !sides.contains(&top.kind) {
            return Err(self.refused(VdevFault::NotSequential));
        }
        Ok(())
    }

    /// Those that are under way.
    fn active_rebuilds(&self) -> Result<Vec<(VdevConfig, RebuildState)>> {
        let _gate = self.gate.read();
        let active = self.scans.rebuilds.lock().clone();
        let tops = self.config.lock().root.children.clone();
        let mut out = Vec::new();
        for top in tops.into_iter().filter(|top| active.contains(&top.guid)) {
            let state = state_in(&self.mos, &top)?.filter(|s| s.state() == State::Active);
            out.extend(state.map(|state| (top, state)));
        }
        Ok(out)
    }

    /// Does all that are under way, beside each other. One that begins meanwhile interrupts them,
    /// and all go on together.
    pub(super) fn rebuild_all(&self) -> Result<End> {
        // A scrub that was under way would not cover all that is there by the end.
        self.cancel_paused()?;
        self.run_keeping_datasets(|cx| cx.end_left_over())?;
        loop {
            let active = self.active_rebuilds()?;
            if active.is_empty() {
                return Ok(End::Done);
            }
            let ends = Mutex::new(Vec::with_capacity(active.len()));
            let workers = active.len().min(BESIDE);
            let Ok(()) = self.rt.for_each_parallel(workers, active, |(top, state)| {
                let end = self.rebuild_one(top, state);
                ends.lock().push(end);
                Ok::<(), Infallible>(())
            });
            // What fails on one vdev keeps none of the others from its end.
            let ends: Vec<End> = ends.into_inner().into_iter().collect::<Result<_>>()?;
            if ends.contains(&End::Interrupted) {
                return Ok(End::Interrupted);
            }
        }
    }

    /// One, from where it is; what it replaces goes at once.
    fn rebuild_one(&self, top: VdevConfig, state: RebuildState) -> Result<End> {
        self.wait_for_txg(last_missed(&state))?;
        let mut pass = Pass::new(self, top, state);
        let end = pass.run()?;
        match end {
            End::Interrupted => pass.keep()?,
            End::Done => self.detach_outlived()?,
        }
        Ok(end)
    }
}

/// The last txg that devices missed and a rebuild brings.
fn last_missed(state: &RebuildState) -> u64 {
    state.max_txg.saturating_sub(1)
}

/// One of a top-level vdev, from where it was.
struct Pass<'a> {
    shared: &'a Shared,
    top: VdevConfig,
    id: u32,
    state: RebuildState,
    /// What devices lack.
    targets: BTreeMap<u64, Txgs>,
    began: Duration,
    /// Milliseconds that it ran before.
    before: u64,
    kept: Duration,
}

impl<'a> Pass<'a> {
    fn new(shared: &'a Shared, top: VdevConfig, state: RebuildState) -> Self {
        let now = shared.rt.now();
        let id = u32::try_from(top.id).unwrap_or(u32::MAX);
        let before = state.scan_time_ms;
        let mut pass = Self {
            shared,
            top,
            id,
            state,
            targets: BTreeMap::new(),
            began: now,
            before,
            kept: now,
        };
        pass.targets = pass.lacking();
        let spaces = shared.alloc.space_of_tops();
        let used = spaces.get(&pass.top.id).map_or(0, |(_, used)| *used);
        pass.state.bytes_estimated = pass.state.bytes_estimated.max(used);
        pass
    }

    /// The sides below the vdev that are written to and lack something.
    fn lacking(&self) -> BTreeMap<u64, Txgs> {
        let root = self.shared.config.lock().root.clone();
        let Some(top) = root.children.iter().find(|top| top.id == self.top.id) else {
            return BTreeMap::new();
        };
        let stale = self.shared.stale_leaves().into_iter();
        stale.filter(|(guid, _)| top.find(*guid).is_some()).collect()
    }

    fn run(&mut self) -> Result<End> {
        loop {
            if self.shared.is_scan_interrupted() {
                return Ok(End::Interrupted);
            }
            if self.lacking().is_empty() {
                self.end(State::Canceled)?;
                return Ok(End::Done);
            }
            if self.shared.tunables.get(Tunable::ScanSuspend) == 1 {
                self.shared.scans.changed.notify_all();
                self.shared.rt.sleep(REAPED);
                continue;
            }
            if self.piece()? {
                self.end(State::Finished)?;
                return Ok(End::Done);
            }
            if self.shared.rt.now().saturating_sub(self.kept) >= self.shared.place_each() {
                self.keep()?;
            }
            self.shared.scans.changed.notify_all();
        }
    }

    /// Walks on for a while; whether everything was visited.
    fn piece(&mut self) -> Result<bool> {
        let shared = self.shared;
        // The first txg takes in what logs of space maps say.
        if shared.alloc.has_logs() {
            self.keep()?;
            return Ok(false);
        }
        let _gate = shared.gate.read();
        let until =
            shared.rt.now() + Duration::from_millis(shared.tunables.get(Tunable::ScanPiece));
        let max = shared.tunables.get(Tunable::RebuildSegment);
        loop {
            let ranges = shared.alloc.allocated_from(self.id, self.state.last_offset, BATCH);
            let ranges = ranges.map_err(|what| bad(&format!("cannot read {what}")))?;
            if ranges.is_empty() {
                return Ok(true);
            }
            let vdevs = shared.reader.vdevs();
            let (mut batch, mut bytes) = (Vec::new(), 0);
            'all: for range in ranges {
                let mut rest = range;
                while !rest.is_empty() {
                    if bytes >= BATCH {
                        break 'all;
                    }
                    let part = vdevs.rebuild_range(self.id, &rest, max);
                    let (end, psize) = part.ok_or_else(|| bad(&"space is not what it was"))?;
                    batch.push((rest.start..end, psize));
                    bytes += end - rest.start;
                    rest.start = end;
                }
            }
            self.heal(&vdevs, &batch);
            if shared.rt.now() >= until || shared.is_scan_interrupted() {
                return Ok(false);
            }
        }
    }

    fn heal(&mut self, vdevs: &vdev::VdevTree, batch: &[(core::ops::Range<u64>, u64)]) {
        let any = |_: &[u8]| true;
        let read = |(space, psize): &(core::ops::Range<u64>, u64)| BlockRead {
            dva: Dva::new(self.id, space.start, space.end - space.start, false),
            size: *psize,
            birth: 0,
            // Which of several that differ is right is not known here: the scrub blames.
            speculative: true,
            verify: &any,
        };
        let reads: Vec<_> = batch.iter().map(read).collect();
        let healed = vdevs.heal_batch(&reads, Heal::Rebuild);
        for ((space, _), healed) in batch.iter().zip(healed) {
            let size = space.end - space.start;
            self.state.bytes_scanned += size;
            self.state.last_offset = space.end;
            let Some(data) = healed.data else { continue };
            self.state.bytes_issued += size;
            self.state.bytes_rebuilt += healed.repaired;
            self.state.errors += u64::from(data.is_err() || !healed.refused.is_empty());
        }
    }

    fn now(&self) -> RebuildState {
        let passed = self.shared.rt.now().saturating_sub(self.began).as_millis();
        let scan_time_ms = self.before.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        RebuildState { scan_time_ms, ..self.state }
    }

    /// Writes how far it is, unless it was begun anew meanwhile.
    fn keep(&mut self) -> Result<()> {
        if self.shared.txgs.why_stopped().is_some() {
            return Ok(());
        }
        let (top, now) = (self.top.id, self.now());
        self.shared.run_keeping_datasets(move |cx| cx.change_rebuild(top, now.max_txg, &now))?;
        self.kept = self.shared.rt.now();
        Ok(())
    }

    fn end(&mut self, end: State) -> Result<()> {
        // What was written is durable before a log says less.
        let shared = self.shared;
        shared.reader.vdevs().flush().map_err(|e| shared.failed("flushing", e))?;
        let mut now = self.now().with_state(end);
        now.end_time = shared.rt.wall().as_secs();
        let (top, targets) = (self.top.id, self.targets.clone());
        shared.run_keeping_datasets(move |cx| cx.end_rebuild(top, &now, &targets))
    }
}

impl TaskCx<'_> {
    fn top_of_id(&self, id: u64) -> Option<VdevConfig> {
        let config = self.shared.config.lock();
        config.root.children.iter().find(|top| top.id == id).cloned()
    }

    /// A side that lacks everything has come below this top-level vdev, and is rebuilt; one that
    /// runs there begins anew. `last` is the last txg that the side missed.
    pub(in crate::live) fn begin_rebuild(&self, top: u64, last: u64) -> Result<()> {
        let top =
            &self.top_of_id(top).ok_or_else(|| self.shared.refused(DeviceFault::NotInPool))?;
        let is_resumed = state_in(self.objects(), top)?.is_some_and(|s| s.state() == State::Active);
        let state = RebuildState {
            min_txg: FIRST_TXG - 1,
            max_txg: last.saturating_add(1),
            start_time: self.dsl().now.secs,
            ..RebuildState::default()
        };
        put(self, top, &state.with_state(State::Active))?;
        if !is_resumed {
            self.shared.features.add(self.tx, FEATURE, 1)?;
        }
        self.shared.scans.rebuilds.lock().insert(top.guid);
        log(self, top, if is_resumed { "reset" } else { "started" })
    }

    /// Marks a new side as one that is rebuilt.
    pub(in crate::live) fn mark_rebuilt(&self, side: &mut VdevConfig) -> Result<()> {
        Ok(set_member(self.objects(), side, REBUILD_TXG, self.tx.txg())?)
    }

    /// The rebuild that began with this second txg still runs.
    fn is_rebuild(&self, top: &VdevConfig, end: u64) -> Result<bool> {
        let is_it = |s: RebuildState| s.state() == State::Active && s.max_txg == end;
        Ok(state_in(self.objects(), top)?.is_some_and(is_it))
    }

    /// Writes the state of a rebuild that began with this second txg, and still runs.
    fn change_rebuild(&self, top: u64, end: u64, now: &RebuildState) -> Result<()> {
        let Some(top) = self.top_of_id(top) else { return Ok(()) };
        match self.is_rebuild(&top, end)? {
            true => put(self, &top, now),
            false => Ok(()),
        }
    }

    /// Notes the result, and takes out of the logs what devices have by now.
    fn end_rebuild(
        &self,
        top: u64,
        end: &RebuildState,
        targets: &BTreeMap<u64, Txgs>,
    ) -> Result<()> {
        let shared = self.shared;
        let Some(top) = self.top_of_id(top) else { return Ok(()) };
        if !self.is_rebuild(&top, end.max_txg)? {
            return Ok(());
        }
        put(self, &top, end)?;
        shared.features.add(self.tx, FEATURE, -1)?;
        shared.scans.rebuilds.lock().remove(&top.guid);
        let is_complete = end.state() == State::Finished;
        log(self, &top, if is_complete { "complete" } else { "canceled" })?;
        self.touch();
        if is_complete && end.errors == 0 {
            let tree = shared.reader.vdevs();
            // One that left and came back, here or while another process went on with this, has
            // missed a txg since, and a part of what was copied.
            let has_stayed = |guid: &u64| {
                let mut sides = tree.sides().filter(|side| side.guid() == *guid);
                let missed = sides.find(|side| side.is_written()).map(|side| side.missed());
                let last = missed.and_then(|missed| missed.bounds()).map(|(_, last)| last);
                last.is_some_and(|last| last <= last_missed(end))
            };
            for guid in targets.keys().filter(|guid| has_stayed(guid)) {
                tree.has_caught_up(*guid, &std::iter::once(0..=last_missed(end)).collect());
            }
        }
        self.unmark_rebuilt()
    }

    /// Takes the mark off all sides below vdevs that are not rebuilt any more.
    fn unmark_rebuilt(&self) -> Result<()> {
        let active = self.shared.scans.rebuilds.lock().clone();
        let mut root = self.shared.config.lock().root.clone();
        let mut changed = false;
        for top in root.children.iter_mut().filter(|top| !active.contains(&top.guid)) {
            changed |= unmark_below(top).map_err(|e| bad(&e))?;
        }
        if changed {
            let mut config = self.shared.config.lock();
            (config.root, config.dirty) = (root, true);
        }
        Ok(())
    }
}

/// The depth of a configuration is bounded.
fn unmark_below(vdev: &mut VdevConfig) -> ondisk::Result<bool> {
    let mut changed = vdev.rebuild_txg.is_some();
    if changed {
        unset(vdev, &[REBUILD_TXG])?;
    }
    for child in &mut vdev.children {
        changed |= unmark_below(child)?;
    }
    Ok(changed)
}
