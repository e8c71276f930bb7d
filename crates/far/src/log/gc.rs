//! Garbage: what may be deleted, and what is moved so that more can be.
//!
//! Everything here decides from what is durable: the oldest of the checkpoints that are kept says
//! what is dead, and pins are listed after that one was made. What is in doubt is kept.

use super::DiskError;
use super::core::{Core, Phase};
use super::format::{
    CLEAN, HEADER_BYTES, Header, Kind, Location, check_of, checkpoint_name, decode_table,
    epoch_name, number_of, pages_name, pages_of, segment_name,
};
use super::listed::checkpoints;
use super::map::Segment;
use super::probe::TRIALS;
use super::replay::{places, root};
use super::takeover::WRITERS_KEPT;
use super::write::move_of;
use super::writer::{Memory, Piece, Writer};
use crate::store::client::Urgency;
use crate::store::{Request, Response, StoreError};
use core::time::Duration;
use device::{ErrorKind, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Checkpoints that are kept. The newest would do; the others are for the case that it is damaged.
pub(super) const KEPT: usize = 3;
/// Where there is no room, segments of which less than this is alive are moved, in percent.
const WORTH_MOVING: u32 = 95;
/// Deletes that are asked for at once.
const AT_ONCE: usize = 64;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Segments that were deleted.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Other objects that were deleted.
    pub others: u64,
    /// Bytes that were moved to the end of the log.
    pub moved: u64,
    /// Segments that are dead and must wait.
    pub waiting: u64,
}

/// Something lives in a segment, and that is less than `percent`.
fn is_sparse(segment: &Segment, percent: u32) -> bool {
    let (live, sectors) = (u64::from(segment.live), u64::from(segment.sectors));
    live > 0 && live * 100 < sectors * u64::from(percent)
}

impl Core {
    /// Deletes what is not needed any more, when it was not for a time.
    pub(super) fn collect(
        &self,
        memory: &mut Memory,
        grace: Duration,
    ) -> Result<Collected, DiskError> {
        let mut done = Collected::default();
        let all = self.own_checkpoints()?;
        let (old, kept) = all.split_at(all.len().saturating_sub(KEPT));
        let (Some(horizon), KEPT) = (kept.first(), kept.len()) else { return Ok(done) };
        // After the checkpoints: a reader pins first, and looks for newer checkpoints then.
        let pins = self.pins()?;
        let now = self.client.rt().now();
        let dead: Vec<(u64, u64)> = {
            let state = self.state.lock();
            let is_dead = |death: u64| death != 0 && death < *horizon;
            let of = state.index.segments().filter(|(_, s)| s.live == 0 && is_dead(s.death));
            let is_pinned = |seq: u64, death| pins.iter().any(|at| seq < *at && death >= *at);
            let of = of.filter(|(seq, s)| !is_pinned(*seq, s.death));
            of.map(|(seq, s)| (seq, u64::from(s.sectors) * self.sector())).collect()
        };
        let mut first = BTreeMap::new();
        for (seq, _) in &dead {
            first.insert(*seq, memory.since.get(seq).copied().unwrap_or(now));
        }
        memory.since = first;
        let is_due = |seq: &u64| {
            let since = memory.since.get(seq).copied().unwrap_or(now);
            now.saturating_sub(since) >= grace
        };
        let (due, waiting): (Vec<_>, Vec<_>) = dead.into_iter().partition(|(seq, _)| is_due(seq));
        done.waiting = waiting.len() as u64;
        done.others += self.delete_all(old.iter().map(|seq| checkpoint_name(*seq)).collect())?;
        done.others += self.delete_pages(kept)?;
        for some in due.chunks(AT_ONCE) {
            self.delete_all(some.iter().map(|(seq, _)| segment_name(*seq)).collect())?;
            let mut state = self.state.lock();
            some.iter().for_each(|(seq, _)| state.index.forget(*seq));
            done.segments += some.len() as u64;
            done.bytes += some.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        done.others += self.delete_epochs()?;
        Ok(done)
    }

    /// The checkpoints. One beyond what of this writer counts is that of another that has taken
    /// over: then what this one believes to be dead, because of changes that never counted, may
    /// live, and what it does not know may belong to the other.
    fn own_checkpoints(&self) -> Result<Vec<u64>, DiskError> {
        // First: what counts later only makes a checkpoint more our own.
        let own = self.state.lock().writer.as_ref().map_or(0, Writer::lowest);
        let all = checkpoints(&self.client, 0)?;
        if all.last().is_some_and(|newest| *newest > own) {
            self.fail(ErrorKind::Fenced { by: 0 });
            return Err(DiskError::Fenced(0));
        }
        Ok(all)
    }

    /// The places that pins are at.
    fn pins(&self) -> Result<Vec<u64>, DiskError> {
        let mut pins = Vec::new();
        for (name, _) in self.client.names("pin/", String::new())? {
            let get = Request::Get { name: name.clone(), from: 0, len: HEADER_BYTES as u64 };
            match self.client.call(Urgency::Later, get) {
                // It was taken back.
                Err(StoreError::Absent) => {}
                Ok(Response::Bytes(bytes)) => {
                    // One that cannot be read may be at any place.
                    let header = Header::decode(&bytes)
                        .map_err(|damage| DiskError::Damaged(name, damage))?;
                    pins.push(header.seq);
                }
                Ok(_) => return Err(StoreError::Other("the answer has no data".to_owned()).into()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pins)
    }

    fn delete_all(&self, names: Vec<String>) -> Result<u64, DiskError> {
        let count = names.len() as u64;
        let all = names.into_iter().map(|name| Request::Delete { name }).collect();
        for answer in self.client.call_all(Urgency::Later, all) {
            answer?;
        }
        Ok(count)
    }

    /// Deletes pages that none of the checkpoints has, but what a newer one may be going to have.
    fn delete_pages(&self, kept: &[u64]) -> Result<u64, DiskError> {
        let mut used = BTreeSet::new();
        for seq in kept {
            match root(&self.client, &self.volume, *seq) {
                Ok((_, root)) => used.extend(root.pages.iter().map(|page| page.object)),
                // What a damaged one had is not known.
                Err(_) => return Ok(0),
            }
        }
        let newest = kept.last().copied().unwrap_or_default();
        let all = self.client.names("map/", String::new())?;
        let unused = all.iter().filter_map(|(name, _)| pages_of(name));
        let unused = unused.filter(|object| object.0 < newest && !used.contains(object));
        self.delete_all(unused.map(pages_name).collect())
    }

    fn delete_epochs(&self) -> Result<u64, DiskError> {
        let own = self.state.lock().writer.as_ref().map_or(0, |writer| writer.epoch);
        let all = self.client.names("epoch/", String::new())?;
        let numbers = all.iter().filter_map(|(name, _)| number_of(name));
        let old = numbers.filter(|epoch| epoch.saturating_add(WRITERS_KEPT) < own);
        self.delete_all(old.map(epoch_name).collect())
    }

    /// Deletes what lies in the log before the oldest checkpoint and belongs to nothing: segments
    /// of writers that were fenced, and the ends of writers; and what is left of trials of the
    /// store, none of which is under way where there is a disk. Lists the whole log.
    pub(super) fn sweep(&self) -> Result<u64, DiskError> {
        let all = self.own_checkpoints()?;
        let trials = self.client.names(TRIALS, String::new())?;
        let mut unused: Vec<String> = trials.into_iter().map(|(name, _)| name).collect();
        let kept = all.get(all.len().saturating_sub(KEPT)..).unwrap_or_default();
        let (Some(horizon), KEPT) = (kept.first(), kept.len()) else {
            return self.delete_all(unused);
        };
        for (name, _) in self.client.names("log/", String::new())? {
            let Some(seq) = number_of(&name).filter(|seq| seq < horizon) else { continue };
            if self.state.lock().index.segment(seq).is_some() {
                continue;
            }
            let get = Request::Get { name: name.clone(), from: 0, len: HEADER_BYTES as u64 };
            let Ok(Response::Bytes(bytes)) = self.client.call(Urgency::Later, get) else {
                continue;
            };
            let Ok(header) = Header::decode(&bytes) else { continue };
            // A seal that is not clean keeps a writer out that may have stood still since.
            let is_seal = header.kind == Kind::Seal && header.flags & CLEAN == 0;
            if !is_seal && header.volume == self.volume.uuid {
                unused.push(name);
            }
        }
        self.delete_all(unused)
    }

    /// Sweeps when the last time is long ago: what is found is little, and costs a list of all.
    fn sweep_in_time(&self, memory: &mut Memory) -> Result<u64, DiskError> {
        let now = self.client.rt().now();
        let last = *memory.swept.get_or_insert(now);
        if now.saturating_sub(last) < self.options.sweep_every {
            return Ok(0);
        }
        memory.swept = Some(now);
        self.sweep()
    }

    /// The segment with the least life in it, when that is less than `percent`, and bytes of it.
    pub(super) fn emptiest(&self, memory: &Memory, percent: u32) -> Option<u64> {
        let state = self.state.lock();
        let writer = state.writer.as_ref()?;
        let (lowest, next) = (writer.lowest(), writer.next);
        let of = state.index.segments().filter(|(seq, s)| {
            let counts = *seq < lowest && *seq != next;
            is_sparse(s, percent) && counts && !memory.damaged.contains(seq)
        });
        of.min_by_key(|(_, s)| u64::from(s.live) * 1000 / u64::from(s.sectors).max(1))
            .map(|(seq, _)| seq)
    }

    /// Bytes that are dead in segments of which less than `percent` is alive.
    fn garbage(&self, percent: u32) -> u64 {
        let state = self.state.lock();
        let sparse = state.index.segments().filter(|(_, s)| is_sparse(s, percent));
        sparse.map(|(_, s)| u64::from(s.sectors - s.live)).sum::<u64>() * self.sector()
    }

    /// Moves what lives in a segment to the end of the log; returns the bytes, or `None` when there
    /// is no room for them now.
    pub(super) fn clean(
        self: &Arc<Self>,
        memory: &mut Memory,
        seq: u64,
    ) -> Result<Option<u64>, DiskError> {
        let name = segment_name(seq);
        let len = match self.state.lock().index.segment(seq) {
            Some(s) => u64::from(s.payload) + u64::from(s.sectors) * self.sector(),
            None => return Ok(Some(0)),
        };
        let whole = Request::Get { name: name.clone(), from: 0, len };
        if let Some(budget) = &self.options.clean_budget {
            memory.purse.pay(budget, len, self.client.rt().now());
        }
        let Response::Bytes(bytes) = self.client.call(Urgency::Later, whole)? else {
            return Err(StoreError::Other("the answer has no data".to_owned()).into());
        };
        let damaged = |damage| DiskError::Damaged(name.clone(), damage);
        let found = Header::decode(&bytes).and_then(|header| {
            let body = header.body_of(&bytes)?;
            let entries = decode_table(&header, body, self.volume.sectors())?;
            Ok((header, entries))
        });
        let (header, entries) = match found {
            Ok(found) => found,
            Err(damage) => {
                memory.damaged.insert(seq);
                return Err(damaged(damage));
            }
        };
        let sector = self.sector() as usize;
        let (mut pieces, mut moved) = (Vec::new(), 0);
        for (at, entry) in places(&entries) {
            let living = self.living(Location { seq, at }, entry.lba, entry.sectors);
            let from = header.payload as usize + at as usize * sector;
            let own = bytes.get(from..from + entry.sectors as usize * sector);
            if living.is_empty() {
                continue;
            }
            let Some(own) = own.filter(|own| check_of([*own]) == entry.check) else {
                memory.damaged.insert(seq);
                return Err(damaged(super::format::Damage("its payload is damaged")));
            };
            for (skipped, sectors) in living {
                let first = skipped as usize * sector;
                let bytes = Shared::copy_of(&own[first..first + sectors as usize * sector]);
                let from = Location { seq, at: at + skipped };
                moved += bytes.len() as u64;
                pieces.push(move_of(entry.lba + u64::from(skipped), sectors, from, bytes));
            }
        }
        // In the order of the disk: what was apart comes together.
        pieces.sort_by_key(Piece::lba);
        Ok(self.move_pieces(pieces).then_some(moved))
    }

    /// What of an entry the map still has: first sector within it, and sectors.
    fn living(&self, from: Location, lba: u64, sectors: u32) -> Vec<(u32, u32)> {
        let state = self.state.lock();
        let mut out = Vec::new();
        for piece in state.index.find(lba, sectors) {
            let skipped = (piece.lba - lba) as u32;
            if piece.to == Some(Location { seq: from.seq, at: from.at + skipped }) {
                out.push((skipped, piece.sectors));
            }
        }
        out
    }

    /// Does something with what the writer remembers, when no other thread does.
    pub(super) fn with_memory<T>(&self, what: impl FnOnce(&mut Memory) -> T) -> Option<T> {
        let mut state = self.state.lock();
        let mut memory = loop {
            let memory = &mut state.writer.as_mut()?.memory;
            match memory.take() {
                Some(memory) => break memory,
                None => self.changed.wait(&mut state),
            }
        };
        drop(state);
        let result = what(&mut memory);
        if let Some(writer) = &mut self.state.lock().writer {
            writer.memory = Some(memory);
        }
        self.changed.notify_all();
        Some(result)
    }

    /// Moves what is alive in segments of which less than a percentage is alive, up to a number of
    /// bytes; returns the bytes that were moved.
    pub(super) fn clean_most(
        self: &Arc<Self>,
        memory: &mut Memory,
        percent: u32,
        most: u64,
    ) -> Result<u64, DiskError> {
        let mut moved = 0;
        while moved < most {
            let Some(seq) = self.emptiest(memory, percent) else { break };
            match self.clean(memory, seq)? {
                Some(bytes) if bytes > 0 => moved += bytes,
                // What is moved must count first.
                None => self.commit().map_err(|e| DiskError::Machine(e.to_string()))?,
                Some(_) => break,
            }
        }
        Ok(moved)
    }

    /// Writes segments without changes and checkpoints, so that what is dead now is so in all
    /// checkpoints that are kept.
    pub(super) fn age(self: &Arc<Self>, memory: &mut Memory) -> Result<(), DiskError> {
        for _ in 0..KEPT {
            self.go_on().map_err(|kind| DiskError::Machine(kind.to_string()))?;
            memory.last = self.checkpoint(memory.last)?;
        }
        Ok(())
    }

    /// Sectors that segments take, and whether a write waits for there to be fewer.
    fn stored(&self) -> (u64, bool) {
        let state = self.state.lock();
        let is_full = state.writer.as_ref().is_some_and(|writer| writer.is_full);
        (state.index.stored(), is_full)
    }

    /// Makes room on a disk whose segments take as many bytes as they may. What is dead goes at
    /// once, even if readers without a pin still use it; then what is moved is as much as has
    /// room beside it. A write that still has none, because of pins, is refused.
    fn make_room(self: &Arc<Self>, memory: &mut Memory) -> Result<Collected, DiskError> {
        let (max, limit) = (self.stored_max(), self.limit());
        let enough = max - (max - self.volume.sectors()) / 4;
        // The rest is for the map, and what a segment has too much.
        let most = max + (limit - max) / 2;
        let (first, _) = self.stored();
        let (mut done, mut before) = (Collected::default(), u64::MAX);
        loop {
            self.age(memory)?;
            let collected = self.collect(memory, Duration::ZERO)?;
            done.segments += collected.segments;
            done.bytes += collected.bytes;
            done.others += collected.others;
            let (stored, _) = self.stored();
            if stored <= enough || stored >= before || self.state.lock().phase != Phase::Open {
                break;
            }
            before = stored;
            let room = most.saturating_sub(stored) * self.sector();
            match self.clean_most(memory, WORTH_MOVING, room)? {
                0 => break,
                moved => done.moved += moved,
            }
        }
        self.pump();
        // One for which there is a little room has it next time.
        if let (stored, true) = self.stored()
            && stored >= first
        {
            self.refuse_full();
        }
        Ok(done)
    }

    /// What a writer does while it has time: a checkpoint when the log has become long, then what
    /// may be deleted, then what is worth moving. And what it does when there is no room.
    pub(super) fn maintain(self: &Arc<Self>, memory: &mut Memory) -> Result<Collected, DiskError> {
        if let (_, true) = self.stored() {
            let made = self.make_room(memory);
            if made.is_err() {
                self.refuse_full();
            }
            return made;
        }
        let since = self.state.lock().writer.as_ref().map_or(0, |writer| writer.since);
        let (mut done, grace) = (Collected::default(), self.options.grace);
        if since >= self.options.checkpoint_every {
            memory.last = self.checkpoint(memory.last)?;
            done = self.collect(memory, grace)?;
            done.others += self.sweep_in_time(memory)?;
        } else if !memory.since.is_empty() {
            done = self.collect(memory, grace)?;
        }
        let mut budget = self.options.clean_bytes;
        self.unpaid.store(0, Relaxed);
        while budget > 0 && self.state.lock().phase == Phase::Open {
            let Some(seq) = self.emptiest(memory, self.options.clean_below) else { break };
            let now = self.client.rt().now();
            if self.options.clean_budget.as_ref().is_some_and(|b| !memory.purse.has_some(b, now)) {
                self.unpaid.store(self.garbage(self.options.clean_below), Relaxed);
                break;
            }
            match self.clean(memory, seq)? {
                // What was moved counts as living there until the move is sealed.
                Some(moved) if moved > 0 => {
                    done.moved += moved;
                    budget = budget.saturating_sub(moved);
                }
                _ => break,
            }
        }
        Ok(done)
    }
}
