//! A writer as a machine that knows no store: pieces of writes come in, sealed segments go out.
//!
//! ```text
//!   pieces that wait -> the open segment -> under way (pending) -> counts
//!        (backlog)      reads come from here and there            from the store
//! ```
//!
//! Pieces wait while too much does not count yet, and while segments have as many bytes as they
//! may (then garbage has to go first: `gc`). A segment is sealed when it is full, or when a caller
//! waits for it, and a place within the window is free.

use super::format::{
    Change, ENTRIES_MAX, Entry, Extent, HEADER_BYTES, Hash, Header, Kind, MOVED, SegmentRef, Uuid,
    encode_table, payload_start,
};
use super::map::Index;
use super::purse::Purse;
use super::takeover::Owner;
use core::time::Duration;
use device::{AlignedBuf, ErrorKind, Shared};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a write, or a trim, is told in the end.
pub(super) type WriteReply = Box<dyn FnOnce(Result<(), ErrorKind>) + Send>;

/// What a writer remembers from one collection to the next.
#[derive(Default)]
pub(super) struct Memory {
    /// When a segment was first found to be deletable.
    pub(super) since: BTreeMap<u64, Duration>,
    /// Segments whose bytes are not what their table says: they are left alone.
    pub(super) damaged: BTreeSet<u64>,
    /// The last checkpoint.
    pub(super) last: u64,
    /// When it was last looked for what belongs to nothing.
    pub(super) swept: Option<Duration>,
    /// What there is to pay with for what is moved.
    pub(super) purse: Purse,
}

/// The bounds that a writer keeps, and what stands in the headers that it makes.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) volume: Uuid,
    /// Bytes of payload at which a segment is full.
    pub(super) target: u64,
    /// Segments that are under way at most.
    pub(super) window: u64,
    /// Bytes that do not count yet at most.
    pub(super) uncounted_max: u64,
    /// Sectors of all segments at which no more data is taken.
    pub(super) stored_max: u64,
    /// Seconds since 1970.
    pub(super) time: u64,
}

/// The writer's part of a disk's state.
pub(super) struct Writer {
    pub(super) epoch: u64,
    pub(super) uuid: Uuid,
    /// The place of the open segment.
    pub(super) next: u64,
    previous: Hash,
    pub(super) open: Open,
    /// A caller waits for the open segment.
    pub(super) is_wanted: bool,
    /// Segments that do not count yet.
    pending: BTreeMap<u64, Payload>,
    /// Bytes of them and of the open segment.
    pub(super) uncounted: u64,
    pub(super) backlog: VecDeque<Piece>,
    /// The first of them waits until there are fewer bytes in segments.
    pub(super) is_full: bool,
    /// A checkpoint is to be made at the end of the open segment, and what it found there.
    pub(super) wants_snapshot: bool,
    pub(super) snapshot: Option<Snapshot>,
    /// Segments since the last checkpoint.
    pub(super) since: u64,
    /// What is remembered between collections; `None` while one is under way.
    pub(super) memory: Option<Memory>,
    /// It said that it ends.
    pub(super) is_closed: bool,
}

/// The state at a place of the log, for a checkpoint.
pub(super) struct Snapshot {
    pub(super) seq: u64,
    pub(super) epoch: u64,
    pub(super) writer: Uuid,
    pub(super) previous: Hash,
    pub(super) pages: Vec<(u64, Vec<Extent>)>,
    pub(super) segments: Vec<SegmentRef>,
}

/// The segment that grows.
#[derive(Default)]
pub(super) struct Open {
    pub(super) entries: Vec<Entry>,
    payload: Payload,
    /// Sectors so far.
    sectors: u32,
}

/// The bytes of a segment that does not count yet, by where they begin in the payload.
#[derive(Default)]
struct Payload {
    parts: Vec<(u64, Shared)>,
    bytes: u64,
}

/// What an entry will be made of.
pub(super) struct Piece {
    pub(super) entry: Entry,
    pub(super) parts: Vec<Shared>,
    /// Of the last piece of a write.
    pub(super) reply: Option<WriteReply>,
}

/// A segment that is to be created.
pub(super) struct Sealed {
    pub(super) seq: u64,
    pub(super) body: Vec<Shared>,
}

/// What is to be done once the state is not locked any more.
#[derive(Default)]
pub(super) struct Work {
    pub(super) sealed: Vec<Sealed>,
    pub(super) replies: Vec<WriteReply>,
}

impl Piece {
    /// First sector on the disk.
    pub(super) fn lba(&self) -> u64 {
        self.entry.lba
    }
}

impl Payload {
    fn push(&mut self, part: Shared) {
        let at = self.bytes;
        self.bytes += part.len() as u64;
        self.parts.push((at, part));
    }

    /// Copies the bytes from `at` on.
    fn copy(&self, at: u64, out: &mut [u8]) {
        let first = self.parts.partition_point(|(from, _)| *from <= at).saturating_sub(1);
        let mut filled = 0;
        for (from, part) in self.parts.iter().skip(first) {
            let skip = (at + filled as u64).saturating_sub(*from) as usize;
            let Some(rest) = part.get(skip..) else { continue };
            let n = rest.len().min(out.len() - filled);
            out[filled..filled + n].copy_from_slice(&rest[..n]);
            filled += n;
            if filled == out.len() {
                return;
            }
        }
    }
}

impl Writer {
    pub(super) fn new(owner: &Owner) -> Self {
        Self {
            epoch: owner.epoch,
            uuid: owner.writer,
            next: owner.state.next,
            previous: owner.state.previous,
            open: Open::default(),
            is_wanted: false,
            pending: BTreeMap::new(),
            uncounted: 0,
            backlog: VecDeque::new(),
            is_full: false,
            wants_snapshot: false,
            snapshot: None,
            since: owner.state.since,
            memory: Some(Memory { last: owner.state.base, ..Memory::default() }),
            is_closed: false,
        }
    }

    /// The lowest place that does not count yet.
    pub(super) fn lowest(&self) -> u64 {
        self.pending.first_key_value().map_or(self.next, |(seq, _)| *seq)
    }

    /// The last place and the hash of its header, when all that was sealed counts.
    pub(super) fn settled(&self) -> Option<(u64, Hash)> {
        self.pending.is_empty().then(|| (self.next - 1, self.previous))
    }

    /// A segment counts.
    pub(super) fn counts(&mut self, seq: u64) {
        if let Some(payload) = self.pending.remove(&seq) {
            self.uncounted -= payload.bytes;
        }
    }

    /// Forgets what does not count; returns what waited.
    pub(super) fn give_up(&mut self) -> Vec<WriteReply> {
        self.pending.clear();
        self.open = Open::default();
        self.refuse()
    }

    /// Forgets what waits, and returns it.
    pub(super) fn refuse(&mut self) -> Vec<WriteReply> {
        self.is_full = false;
        self.backlog.drain(..).filter_map(|piece| piece.reply).collect()
    }

    /// Bytes of a segment that does not count yet; false when it does.
    pub(super) fn copy(&self, seq: u64, at: u64, out: &mut [u8]) -> bool {
        if seq == self.next {
            self.open.payload.copy(at, out);
            return true;
        }
        self.pending.get(&seq).map(|payload| payload.copy(at, out)).is_some()
    }

    /// Takes what may be taken from the backlog, and seals what may be sealed.
    pub(super) fn pump(&mut self, bounds: &Bounds, index: &mut Index, work: &mut Work) {
        self.is_full = false;
        loop {
            let is_full =
                self.open.payload.bytes >= bounds.target || self.open.entries.len() >= ENTRIES_MAX;
            let is_wanted = is_full || self.is_wanted;
            let may_seal = self.next < self.lowest() + bounds.window;
            if is_wanted && may_seal {
                let sealed = self.seal(bounds, index);
                work.sealed.push(sealed);
                continue;
            }
            if is_full {
                return;
            }
            let Some(piece) = self.backlog.front() else { return };
            let bytes: u64 = piece.parts.iter().map(|part| part.len() as u64).sum();
            // What is moved makes room in the end, and trims take none.
            let is_data = piece.entry.change == Change::Data;
            if is_data && index.stored() + u64::from(piece.entry.sectors) > bounds.stored_max {
                self.is_full = true;
                return;
            }
            if self.uncounted > 0 && self.uncounted + bytes > bounds.uncounted_max {
                // What counts makes room.
                if self.is_wanted || self.open.entries.is_empty() {
                    return;
                }
                self.is_wanted = true;
                continue;
            }
            if let Some(piece) = self.backlog.pop_front() {
                self.uncounted += bytes;
                work.replies.extend(self.append(index, piece));
            }
        }
    }

    fn append(&mut self, index: &mut Index, piece: Piece) -> Option<WriteReply> {
        if self.open.entries.is_empty() {
            index.begin(self.next);
        }
        index.apply(self.next, &piece.entry);
        self.open.sectors += piece.entry.payload();
        self.open.entries.push(piece.entry);
        piece.parts.into_iter().for_each(|part| self.open.payload.push(part));
        piece.reply
    }

    /// Ends the open segment, which takes its place.
    fn seal(&mut self, bounds: &Bounds, index: &mut Index) -> Sealed {
        let open = core::mem::take(&mut self.open);
        let kind = if self.is_closed { Kind::Close } else { Kind::Data };
        let table = encode_table(&open.entries);
        let start = payload_start(open.entries.len());
        let is_move = |entry: &Entry| matches!(entry.change, Change::Move { .. });
        let is_moved = !open.entries.is_empty() && open.entries.iter().all(is_move);
        let header = Header {
            flags: if is_moved { MOVED } else { 0 },
            epoch: self.epoch,
            seq: self.next,
            previous: self.previous,
            time: bounds.time,
            count: open.entries.len() as u32,
            payload: start as u32,
            sectors: open.sectors,
            ..Header::over(kind, bounds.volume, self.uuid, &table)
        };
        if kind == Kind::Data {
            if open.entries.is_empty() {
                index.begin(self.next);
            }
            index.end(self.next, start as u32);
        }
        let mut head =
            AlignedBuf::zeroed(if open.sectors == 0 { HEADER_BYTES + table.len() } else { start });
        let encoded = header.encode();
        head[..encoded.len()].copy_from_slice(&encoded);
        head[encoded.len()..encoded.len() + table.len()].copy_from_slice(&table);
        let mut body = vec![Shared::from(head)];
        body.extend(open.payload.parts.iter().map(|(_, part)| part.clone()));
        let seq = self.next;
        self.previous = header.hash();
        self.pending.insert(seq, open.payload);
        (self.next, self.is_wanted) = (seq + 1, false);
        self.since += 1;
        if core::mem::take(&mut self.wants_snapshot) {
            self.snapshot = Some(self.snapshot_now(index));
        }
        Sealed { seq, body }
    }

    /// The state at the end of the log, when the open segment is empty.
    fn snapshot_now(&self, index: &mut Index) -> Snapshot {
        Snapshot {
            seq: self.next,
            epoch: self.epoch,
            writer: self.uuid,
            previous: self.previous,
            pages: index.take_changed(),
            segments: index.segment_refs(),
        }
    }

    /// Asks for a snapshot at the end of what was written until now.
    pub(super) fn want_snapshot(&mut self, index: &mut Index) {
        if self.open.entries.is_empty() {
            self.snapshot = Some(self.snapshot_now(index));
        } else {
            (self.wants_snapshot, self.is_wanted) = (true, true);
        }
    }
}
