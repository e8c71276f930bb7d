//! From a store to the state of the disk: the newest checkpoint, and the log behind it.

use super::DiskError;
use super::format::{
    Change, Damage, Entry, HEADER_BYTES, Hash, Header, Kind, PageRef, Root, SUPER_NAME, Superblock,
    Uuid, checkpoint_name, decode_page, decode_table, pages_name, segment_name,
};
use super::listed::checkpoints;
use super::map::Index;
use super::witness::{Behind, End, is_absent, look_behind};
use crate::store::client::{Client, Urgency};
use crate::store::lists::{ListAnswer, NameList};
use crate::store::{Request, Response, StoreError};

/// Bytes of a segment that are read at first: its header, and the table of one that is not of small
/// blocks alone.
const HEAD_BYTES: u64 = 64 << 10;
/// Segments that are asked for at once, at most and at first.
const PROBES_MAX: u64 = 64;
const PROBES: u64 = 4;
/// Bytes of pages that are read at once.
const PAGES_BYTES: u64 = 16 << 20;
/// How often a replay begins again because the log has gone on without it.
const AGAIN: u32 = 100;

/// The answer to a request.
type Answer = Result<Response, StoreError>;

/// A disk in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) uuid: Uuid,
    pub(super) is: Superblock,
}

impl Volume {
    /// Reads what disk a store has.
    pub(super) fn find(client: &Client) -> Result<Self, DiskError> {
        Ok(Self::find_and_list(client, [])?.0)
    }

    /// The same, and lists that are asked for at the same time.
    pub(super) fn find_and_list<const N: usize>(
        client: &Client,
        lists: [NameList; N],
    ) -> Result<(Self, [ListAnswer; N]), DiskError> {
        let (mut answers, lists) = client.call_and_list(vec![head_of(SUPER_NAME)], lists);
        let bytes = match answers.pop().unwrap_or(Err(StoreError::Lost)) {
            Err(StoreError::Absent) => return Err(DiskError::NoDisk),
            answer => bytes_of(answer)?,
        };
        Ok((Self::decode(&bytes)?, lists))
    }

    fn decode(bytes: &[u8]) -> Result<Self, DiskError> {
        let name = SUPER_NAME.to_owned();
        let damaged = |damage| DiskError::Damaged(name.clone(), damage);
        let header = Header::decode(bytes).map_err(damaged)?;
        if header.kind != Kind::Super {
            return Err(damaged(Damage("it is another object")));
        }
        let body = header.body_of(bytes).map_err(damaged)?;
        Ok(Self { uuid: header.volume, is: Superblock::decode(body).map_err(damaged)? })
    }

    /// Sectors of the disk.
    pub(super) fn sectors(&self) -> u64 {
        self.is.size / u64::from(self.is.sector)
    }
}

/// Asks for the beginning of an object.
fn head_of(name: &str) -> Request {
    Request::Get { name: name.to_owned(), from: 0, len: HEAD_BYTES }
}

/// Asks for the beginnings of the segments at these places.
fn heads_from(place: u64, count: u64) -> Vec<Request> {
    (0..count).map(|n| head_of(&segment_name(place.saturating_add(n)))).collect()
}

fn bytes_of(answer: Answer) -> Result<Vec<u8>, DiskError> {
    match answer? {
        Response::Bytes(bytes) => Ok(bytes),
        _ => Err(DiskError::Store(StoreError::Other("the answer has no data".to_owned()))),
    }
}

/// The same of an object that a checkpoint needs.
fn present(name: &str, answer: Answer) -> Result<Vec<u8>, DiskError> {
    match answer {
        Err(StoreError::Absent) => {
            Err(DiskError::Damaged(name.to_owned(), Damage("it is missing")))
        }
        answer => bytes_of(answer),
    }
}

/// The state of a disk at a place in its log.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) index: Index,
    /// The place that has no segment yet.
    pub(super) next: u64,
    /// The number of the writer, and its name; 0 before the first one.
    pub(super) epoch: u64,
    pub(super) writer: Uuid,
    /// Hash of the last header.
    pub(super) previous: Hash,
    /// The writer has ended: nothing of it can be under way.
    pub(super) is_closed: bool,
    /// The checkpoint that it began with; 0 for none.
    pub(super) base: u64,
    /// Segments since that.
    pub(super) since: u64,
}

impl State {
    /// A disk that was never written to.
    fn empty(volume: &Volume) -> Self {
        Self {
            index: Index::new(volume.is.sector),
            next: 1,
            epoch: 0,
            writer: [0; 16],
            previous: [0; 32],
            is_closed: true,
            base: 0,
            since: 0,
        }
    }

    /// Where the log seems to end.
    fn end(&self, volume: &Volume) -> End {
        End {
            place: self.next,
            epoch: self.epoch,
            is_closed: self.is_closed,
            window: u64::from(volume.is.window),
            has_checkpoint: self.base != 0,
            segments: self.index.segments().count(),
        }
    }

    /// Goes on with the header of the next place, whose object begins with these bytes.
    pub(super) fn step(
        &mut self,
        volume: &Volume,
        header: &Header,
        bytes: &[u8],
    ) -> Result<(), Damage> {
        if header.volume != volume.uuid || header.seq != self.next {
            return Err(Damage("it belongs to another place in the log"));
        }
        if header.kind == Kind::Seal {
            if header.resume <= header.seq {
                return Err(Damage("it is a seal of nothing"));
            }
            // A seal that came too late cuts all the same, and does not make its writer the present
            // one.
            self.writer = if header.epoch > self.epoch { header.writer } else { [0; 16] };
            self.epoch = self.epoch.max(header.epoch);
            (self.next, self.is_closed) = (header.resume, false);
        } else {
            if header.epoch != self.epoch || header.writer != self.writer || self.is_closed {
                return Err(Damage("it was written by a writer that had already been replaced"));
            }
            if header.previous != self.previous {
                return Err(Damage(
                    "it does not follow the one before: the store was set back to an older state",
                ));
            }
            match header.kind {
                Kind::Data => {
                    let entries = decode_table(header, header.body_of(bytes)?, volume.sectors())?;
                    self.index.begin(header.seq);
                    entries.iter().for_each(|entry| self.index.apply(header.seq, entry));
                    self.index.end(header.seq, header.payload);
                }
                Kind::Close => self.is_closed = true,
                _ => return Err(Damage("it does not belong in the log")),
            }
            self.next += 1;
        }
        self.previous = header.hash();
        self.since += 1;
        Ok(())
    }

    /// Goes on to the end of the log as it is now. The first places may have been asked for before.
    fn advance(
        &mut self,
        client: &Client,
        volume: &Volume,
        mut known: Vec<Answer>,
    ) -> Result<(), DiskError> {
        let mut probes = PROBES;
        loop {
            let answers = if known.is_empty() {
                client.call_all(Urgency::Read, heads_from(self.next, probes))
            } else {
                core::mem::take(&mut known)
            };
            let first = self.next;
            for (place, answer) in (first..).zip(answers) {
                let name = segment_name(place);
                let bytes = match answer {
                    Err(StoreError::Absent) => return Ok(()),
                    answer => bytes_of(answer)?,
                };
                let damaged = |damage| DiskError::Damaged(name.clone(), damage);
                let header = Header::decode(&bytes).map_err(damaged)?;
                let whole = HEADER_BYTES as u64 + u64::from(header.body);
                let bytes = if whole <= bytes.len() as u64 {
                    bytes
                } else {
                    let get = Request::Get { name: name.clone(), from: 0, len: whole };
                    bytes_of(client.call(Urgency::Read, get))?
                };
                let expected = self.next + 1;
                self.step(volume, &header, &bytes).map_err(damaged)?;
                if self.next != expected {
                    // The log goes on elsewhere.
                    break;
                }
            }
            probes = (probes * 2).min(PROBES_MAX);
        }
    }
}

/// The state of the disk now, or a little later.
///
/// A place that is absent is the end of the log only if it was never there: what is deleted lies
/// before a newer checkpoint. So the checkpoints are listed again at the end, and if there is one
/// beyond the place where the log seemed to end, everything begins anew. What was lost is told by
/// what stands behind it (`witness`).
pub(super) fn replay(client: &Client, volume: &Volume, memory: u64) -> Result<State, DiskError> {
    replay_from(client, volume, memory, checkpoints(client, 0)?)
}

/// The same, when all checkpoints were listed already.
pub(super) fn replay_from(
    client: &Client,
    volume: &Volume,
    memory: u64,
    mut checkpoints_now: Vec<u64>,
) -> Result<State, DiskError> {
    for _ in 0..AGAIN {
        if let Some(state) = try_replay(client, volume, memory, checkpoints_now)? {
            return Ok(state);
        }
        checkpoints_now = checkpoints(client, 0)?;
    }
    Err(DiskError::Gone)
}

/// The same from a state on.
pub(super) fn go_on(
    client: &Client,
    volume: &Volume,
    memory: u64,
    mut state: State,
) -> Result<State, DiskError> {
    let from = state.base;
    match state.advance(client, volume, Vec::new()) {
        // What was found where segments had been deleted says nothing.
        Err(DiskError::Damaged(..)) if !checkpoints(client, from)?.is_empty() => {
            replay(client, volume, memory)
        }
        Err(trouble) => Err(trouble),
        Ok(()) if checkpoints(client, state.next)?.is_empty() => Ok(state),
        Ok(()) => replay(client, volume, memory),
    }
}

fn try_replay(
    client: &Client,
    volume: &Volume,
    memory: u64,
    mut newest: Vec<u64>,
) -> Result<Option<State>, DiskError> {
    let last = newest.last().copied().unwrap_or_default();
    let mut damaged = None;
    let (mut state, known) = loop {
        let Some(seq) = newest.pop() else {
            break match damaged {
                None => (State::empty(volume), Vec::new()),
                Some(trouble) => return Err(trouble),
            };
        };
        match load_and_probe(client, volume, seq, memory) {
            Ok(found) => break found,
            Err(trouble @ DiskError::Damaged(..)) => {
                // Of what is deleted there are newer ones.
                if !checkpoints(client, last)?.is_empty() {
                    return Ok(None);
                }
                // The one before it is as good, and the way from there longer.
                damaged = damaged.or(Some(trouble));
            }
            Err(trouble) => return Err(trouble),
        }
    };
    match state.advance(client, volume, known) {
        // What was found where segments had been deleted says nothing.
        Err(DiskError::Damaged(..)) if !checkpoints(client, last)?.is_empty() => Ok(None),
        Err(trouble) => Err(trouble),
        Ok(()) => Ok(is_end(client, volume, &state, last)?.then_some(state)),
    }
}

/// Whether the log ended where a replay found its end, at that time; false: what was there may have
/// been deleted, as there is a newer checkpoint than `newest`, the last one when the replay began.
fn is_end(client: &Client, volume: &Volume, state: &State, newest: u64) -> Result<bool, DiskError> {
    let Behind { mut proof, checkpoints: mut later } = look_behind(client, &state.end(volume))?;
    if proof.is_some() {
        // It may have been created since; then it was absent before, and what is behind it came
        // later.
        if !is_absent(client, state.next)? {
            proof = None;
        }
        later = checkpoints(client, state.next)?;
    }
    // After it was absent: a place is deleted when there is a checkpoint behind it.
    match later.last() {
        Some(last) if *last > newest => return Ok(false),
        // Nothing is deleted behind a checkpoint without three newer ones.
        Some(last) => proof = Some(checkpoint_name(*last)),
        None => {}
    }
    match proof {
        None => Ok(true),
        Some(proof) => Err(DiskError::Missing(segment_name(state.next), proof)),
    }
}

/// Reads the root of a checkpoint.
pub(super) fn root(
    client: &Client,
    volume: &Volume,
    seq: u64,
) -> Result<(Header, Root), DiskError> {
    let head = client.call(Urgency::Read, head_of(&checkpoint_name(seq)));
    root_of(client, volume, seq, head)
}

/// The root that begins so.
fn root_of(
    client: &Client,
    volume: &Volume,
    seq: u64,
    head: Answer,
) -> Result<(Header, Root), DiskError> {
    let name = checkpoint_name(seq);
    let damaged = |damage| DiskError::Damaged(name.clone(), damage);
    let mut bytes = present(&name, head)?;
    let header = Header::decode(&bytes).map_err(damaged)?;
    if (header.kind, header.volume, header.seq) != (Kind::Checkpoint, volume.uuid, seq) {
        return Err(damaged(Damage("it belongs to another place in the log")));
    }
    let whole = HEADER_BYTES as u64 + u64::from(header.body);
    if whole > bytes.len() as u64 {
        let get = Request::Get { name: name.clone(), from: 0, len: whole };
        bytes = present(&name, client.call(Urgency::Read, get))?;
    }
    let root = header.body_of(&bytes).and_then(Root::decode).map_err(damaged)?;
    Ok((header, root))
}

/// The state that a checkpoint has.
pub(super) fn load(
    client: &Client,
    volume: &Volume,
    seq: u64,
    memory: u64,
) -> Result<State, DiskError> {
    state_of(client, volume, root(client, volume, seq)?, memory)
}

/// The same, and what stands at the first places behind it, asked for together with its root.
fn load_and_probe(
    client: &Client,
    volume: &Volume,
    seq: u64,
    memory: u64,
) -> Result<(State, Vec<Answer>), DiskError> {
    let mut requests = heads_from(seq, PROBES);
    requests.push(head_of(&checkpoint_name(seq)));
    let mut known = client.call_all(Urgency::Read, requests);
    let head = known.pop().unwrap_or(Err(StoreError::Lost));
    let root = root_of(client, volume, seq, head)?;
    Ok((state_of(client, volume, root, memory)?, known))
}

fn state_of(
    client: &Client,
    volume: &Volume,
    (header, root): (Header, Root),
    memory: u64,
) -> Result<State, DiskError> {
    let seq = header.seq;
    let mut index = Index::of_root(volume.is.sector, &root);
    // An extent has 20 bytes there, and twice as many in memory.
    let bytes: u64 = root.pages.iter().map(|page| u64::from(page.len)).sum();
    if bytes.saturating_mul(2) > memory {
        return Err(DiskError::MapTooLarge { needed: bytes.saturating_mul(2), limit: memory });
    }
    load_pages(client, volume, &root.pages, &mut index)?;
    Ok(State {
        index,
        next: seq,
        epoch: header.epoch,
        writer: header.writer,
        previous: header.previous,
        is_closed: false,
        base: seq,
        since: 0,
    })
}

/// Reads pages, those that stand side by side together.
fn load_pages(
    client: &Client,
    volume: &Volume,
    pages: &[PageRef],
    index: &mut Index,
) -> Result<(), DiskError> {
    let mut sorted = pages.to_vec();
    sorted.sort_by_key(|page| (page.object, page.from));
    let mut runs: Vec<Vec<PageRef>> = Vec::new();
    for page in sorted {
        match runs.last_mut() {
            Some(run) if follows(run, &page) => run.push(page),
            _ => runs.push(vec![page]),
        }
    }
    for some in runs.chunks(16) {
        let get = |run: &Vec<PageRef>| {
            let (first, last) = (run.first(), run.last());
            let from = first.map_or(0, |page| u64::from(page.from));
            let end = last.map_or(0, |page| u64::from(page.from) + u64::from(page.len));
            let name = pages_name(first.map_or((0, 0), |page| page.object));
            Request::Get { name, from, len: end.saturating_sub(from) }
        };
        let answers = client.call_all(Urgency::Read, some.iter().map(get).collect());
        for (run, answer) in some.iter().zip(answers) {
            let object = run.first().map_or((0, 0), |page| page.object);
            let bytes = present(&pages_name(object), answer)?;
            let start = run.first().map_or(0, |page| page.from);
            for page in run {
                let from = (page.from - start) as usize;
                let own = bytes.get(from..from.saturating_add(page.len as usize));
                restore(volume, index, page, own.unwrap_or_default())
                    .map_err(|damage| DiskError::Damaged(pages_name(page.object), damage))?;
            }
        }
    }
    Ok(())
}

fn follows(run: &[PageRef], page: &PageRef) -> bool {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
    let end = u64::from(last.from) + u64::from(last.len);
    let len = u64::from(page.from) + u64::from(page.len) - u64::from(first.from);
    first.object == page.object && end == u64::from(page.from) && len <= PAGES_BYTES
}

fn restore(volume: &Volume, index: &mut Index, page: &PageRef, bytes: &[u8]) -> Result<(), Damage> {
    if bytes.len() != page.len as usize || blake3::hash(bytes).as_bytes()[..16] != page.hash {
        return Err(Damage("a page of the map is damaged"));
    }
    let (base, end) = index.page_range(page.page);
    let extents = decode_page(base, end.min(volume.sectors()), bytes)?;
    match extents.iter().all(|extent| index.restore(extent)) {
        true => Ok(()),
        false => Err(Damage("the map refers to a segment that the checkpoint lacks")),
    }
}

/// Where in its payload each entry of a table begins, in sectors; a trim has nothing there.
pub(super) fn places(entries: &[Entry]) -> impl Iterator<Item = (u32, &Entry)> {
    let mut at = 0u32;
    entries.iter().filter_map(move |entry| {
        let own = at;
        at = at.saturating_add(entry.payload());
        (entry.change != Change::Trim).then_some((own, entry))
    })
}
