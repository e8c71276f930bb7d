//! Writing: what of the writer's machine (`writer`) becomes requests, and what waits for them.

use super::core::{Core, Phase, State, kind_of};
use super::format::{Change, Entry, Header, Location, PIECE_MAX, check_of, segment_name};
use super::put::{CreateOutcome, put};
use super::seconds;
use super::tool::{ask_for_writer, described};
use super::writer::{Bounds, Piece, Sealed, Work, WriteReply, Writer};
use crate::store::StoreError;
use crate::store::client::Urgency;
use device::{ErrorKind, Shared};
use parking_lot::MutexGuard;
use std::sync::Arc;

impl Core {
    /// Does something to the writer's state, then all that has become possible by it. Callers that
    /// waited for that are told by the thread for it.
    fn with_writer<T>(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        change: impl FnOnce(&mut Writer) -> T,
    ) -> Option<T> {
        let (result, replies) = self.with_writer_unanswered(state, change)?;
        if !replies.is_empty() {
            self.answers.push(move || replies.into_iter().for_each(|replies| replies(Ok(()))));
        }
        Some(result)
    }

    fn with_writer_unanswered<T>(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        change: impl FnOnce(&mut Writer) -> T,
    ) -> Option<(T, Vec<WriteReply>)> {
        let State { index, writer, .. } = &mut *state;
        let writer = writer.as_mut()?;
        let result = change(writer);
        let mut work = Work::default();
        let bounds = Bounds {
            volume: self.volume.uuid,
            target: u64::from(self.volume.is.target),
            window: u64::from(self.volume.is.window),
            uncounted_max: self.options.uncounted_max,
            stored_max: self.stored_max(),
            time: seconds(self.client.rt()),
        };
        writer.pump(&bounds, index, &mut work);
        let is_wanted = writer.is_full || writer.since >= self.options.checkpoint_every;
        let settled = writer.settled();
        drop(state);
        if let (Some(cache), Some(note)) = (&self.cache, settled) {
            cache.note(note);
        }
        if is_wanted {
            self.keeper.notify_all();
        }
        for Sealed { seq, body } in work.sealed {
            let core = Arc::clone(self);
            let done = move |made| core.created(seq, made);
            put(&self.client, Urgency::Commit, segment_name(seq), body, Box::new(done));
        }
        self.changed.notify_all();
        Some((result, work.replies))
    }

    /// Does all that has become possible.
    pub(super) fn pump(self: &Arc<Self>) {
        let state = self.state.lock();
        self.with_writer(state, |_| ());
    }

    /// A create has its answer.
    fn created(self: &Arc<Self>, seq: u64, made: Result<CreateOutcome, StoreError>) {
        match made {
            Ok(CreateOutcome::Ours) => {}
            Ok(CreateOutcome::Theirs(found)) => {
                let by = Header::decode(&found).map_or(0, |header| header.epoch);
                self.fail(ErrorKind::Fenced { by });
                let core = Arc::clone(self);
                return ask_for_writer(&self.client, by, move |who| {
                    let _ = core.taken_by.set(described(by, &who));
                });
            }
            Err(error) => return self.fail(kind_of(&error)),
        }
        let state = self.state.lock();
        if !matches!(state.phase, Phase::Failed(_)) {
            self.with_writer(state, |writer| writer.counts(seq));
        }
    }

    /// Writes, or trims, in pieces that were made for it.
    pub(super) fn change(self: &Arc<Self>, pieces: Vec<Piece>, reply: WriteReply) {
        let state = self.state.lock();
        let kind = match state.phase {
            Phase::Open if state.writer.is_some() => None,
            Phase::Open | Phase::Closing => Some(ErrorKind::Gone),
            Phase::Failed(kind) => Some(kind),
        };
        let (extents, memory) = state.index.extents();
        let is_full = memory > self.options.map_memory && extents > 0;
        let kind = kind.or_else(|| is_full.then_some(ErrorKind::OutOfMemory));
        if let Some(kind) = kind {
            drop(state);
            return reply(Err(kind));
        }
        let mut pieces = pieces;
        match pieces.last_mut() {
            Some(last) => last.reply = Some(reply),
            None => {
                drop(state);
                return reply(Ok(()));
            }
        }
        // Within the call that submits it, a write may be told at once.
        let done = self.with_writer_unanswered(state, |writer| writer.backlog.extend(pieces));
        done.into_iter().flat_map(|((), reply)| reply).for_each(|reply| reply(Ok(())));
        if !self.options.is_tended {
            // No thread makes room.
            self.refuse_full();
        }
    }

    /// Moves living bytes to the end of the log, as far as they still are where they were; false
    /// when there is no room for them now.
    pub(super) fn move_pieces(self: &Arc<Self>, pieces: Vec<Piece>) -> bool {
        let state = self.state.lock();
        let has_room = state.writer.as_ref().is_some_and(|writer| {
            let is_free = writer.backlog.is_empty() || writer.is_full;
            is_free && writer.uncounted <= self.options.uncounted_max / 2
        });
        if state.phase != Phase::Open || !has_room {
            return false;
        }
        // Before what waits for the room that they make.
        let put = |writer: &mut Writer| {
            pieces.into_iter().rev().for_each(|piece| writer.backlog.push_front(piece));
        };
        self.with_writer(state, put).is_some()
    }

    /// Refuses what waits for room.
    pub(super) fn refuse_full(&self) {
        let mut state = self.state.lock();
        let full = state.writer.as_mut().filter(|writer| writer.is_full);
        let Some(waiting) = full.map(Writer::refuse) else { return };
        drop(state);
        let full = Err(ErrorKind::Io { errno: libc::ENOSPC });
        self.answers.push(move || waiting.into_iter().for_each(|reply| reply(full)));
    }

    /// Waits until everything that is done counts.
    pub(super) fn commit(self: &Arc<Self>) -> Result<(), ErrorKind> {
        let state = self.state.lock();
        if let Phase::Failed(kind) = state.phase {
            return Err(kind);
        }
        let target = self.with_writer(state, |writer| {
            let is_empty = writer.open.entries.is_empty() && !writer.is_closed;
            writer.is_wanted |= !is_empty;
            if is_empty { writer.next } else { writer.next + 1 }
        });
        let Some(target) = target else { return Ok(()) };
        self.wait_for(target)
    }

    /// Waits until all places before `target` count.
    pub(super) fn wait_for(&self, target: u64) -> Result<(), ErrorKind> {
        let mut state = self.state.lock();
        loop {
            if let Phase::Failed(kind) = state.phase {
                return Err(kind);
            }
            match &state.writer {
                Some(writer) if writer.lowest() < target => self.changed.wait(&mut state),
                _ => return Ok(()),
            }
        }
    }

    /// Writes a segment without changes, so that the log goes on by one place.
    pub(super) fn go_on(self: &Arc<Self>) -> Result<(), ErrorKind> {
        let state = self.state.lock();
        let target = self.with_writer(state, |writer| {
            writer.is_wanted = true;
            writer.next + 1
        });
        target.map_or(Ok(()), |target| self.wait_for(target))
    }

    /// Ends the log of this writer: what is done counts, and the next writer knows that nothing is
    /// under way.
    pub(super) fn notify_closed(self: &Arc<Self>) -> Result<(), ErrorKind> {
        loop {
            self.commit()?;
            let mut state = self.state.lock();
            if let Phase::Failed(kind) = state.phase {
                return Err(kind);
            }
            let Some(writer) = &state.writer else { return Ok(()) };
            if writer.is_full {
                // No thread makes room any more.
                drop(state);
                self.refuse_full();
                continue;
            }
            let is_empty = writer.backlog.is_empty() && writer.open.entries.is_empty();
            if is_empty && writer.settled().is_some() {
                // Nothing comes behind it, and everything before it counts.
                let target = self.with_writer(state, |writer| {
                    (writer.is_closed, writer.is_wanted) = (true, true);
                    writer.next + 1
                });
                return target.map_or(Ok(()), |target| self.wait_for(target));
            }
            if writer.open.entries.is_empty() {
                // What waits will be taken when something counts.
                self.changed.wait(&mut state);
            }
        }
    }
}

/// Cuts a write at `offset` into pieces.
pub(super) fn pieces_of(core: &Core, offset: u64, parts: &[Shared]) -> Vec<Piece> {
    let sector = core.sector();
    let most = PIECE_MAX.min(core.volume.is.target as usize);
    let (mut pieces, mut lba) = (Vec::new(), offset / sector);
    let (mut own, mut len) = (Vec::new(), 0);
    let mut end = |own: &mut Vec<Shared>, len: &mut usize| {
        let sectors = (*len as u64 / sector) as u32;
        let check = check_of(own.iter().map(|part: &Shared| &**part));
        let entry = Entry { lba, sectors, change: Change::Data, check };
        pieces.push(Piece { entry, parts: core::mem::take(own), reply: None });
        lba += u64::from(sectors);
        *len = 0;
    };
    for part in parts {
        let mut from = 0;
        while from < part.len() {
            let n = (most - len).min(part.len() - from);
            own.push(part.slice(from..from + n));
            (from, len) = (from + n, len + n);
            if len == most {
                end(&mut own, &mut len);
            }
        }
    }
    if len > 0 {
        end(&mut own, &mut len);
    }
    pieces
}

/// The pieces of a trim of whole sectors.
pub(super) fn trims_of(lba: u64, sectors: u64) -> Vec<Piece> {
    const MOST: u64 = 1 << 30;
    let piece = |n: u64| {
        let (lba, sectors) = (lba + n * MOST, (sectors - n * MOST).min(MOST) as u32);
        let entry = Entry { lba, sectors, change: Change::Trim, check: 0 };
        Piece { entry, parts: Vec::new(), reply: None }
    };
    (0..sectors.div_ceil(MOST)).map(piece).collect()
}

/// A piece that moves bytes; `from` is where they are now.
pub(super) fn move_of(lba: u64, sectors: u32, from: Location, bytes: Shared) -> Piece {
    let change = Change::Move { seq: from.seq, at: from.at };
    let check = check_of([&*bytes]);
    Piece { entry: Entry { lba, sectors, change, check }, parts: vec![bytes], reply: None }
}
