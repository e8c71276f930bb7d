//! Verifying everything that a disk has in its store.
//!
//! A disk that can be opened says itself what it needs. Of one that cannot, everything is read:
//! each object of the log, and where some are missing.

use super::DiskError;
use super::format::{HEADER_BYTES, Header, Kind, check_of, decode_table, number_of, segment_name};
use super::listed::checkpoints;
use super::replay::{State, Volume, load, places, replay};
use super::witness::{is_absent, whole_before};
use crate::store::client::{Client, Urgency};
use crate::store::{Request, Response, Store, StoreError};
use core::time::Duration;
use rt::Rt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Headers that are asked for at once.
const AT_ONCE: usize = 64;

/// Something in a store that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub object: String,
    /// What is wrong.
    pub what: String,
    /// Bytes of the disk that are lost by it.
    pub lost: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments that were read.
    pub segments: u64,
    /// Bytes that were verified.
    pub verified: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

struct Checker<'a> {
    client: &'a Client,
    volume: &'a Volume,
    memory: u64,
    /// The objects of the log, by their places, and their bytes.
    log: BTreeMap<u64, u64>,
    report: Report,
    seen: &'a mut dyn FnMut(u64),
}

/// Verifies the checkpoints and the log of a disk, and the bytes of every segment that has living
/// ones against its table; `seen` is told of the bytes after each.
///
/// # Errors
/// There is nothing to check.
pub fn check(
    store: Arc<dyn Store>,
    rt: &Rt,
    patience: Duration,
    memory: u64,
    mut seen: impl FnMut(u64),
) -> Result<Report, DiskError> {
    let client = &Client::new(store, rt, patience);
    let volume = &match Volume::find(client) {
        Err(DiskError::Damaged(object, damage)) => {
            let finding = Finding { object, what: damage.to_string(), lost: 0 };
            return Ok(Report { findings: vec![finding], ..Report::default() });
        }
        found => found?,
    };
    let (log, report) = (BTreeMap::new(), Report::default());
    let mut checker = Checker { client, volume, memory, log, report, seen: &mut seen };
    checker.run()?;
    Ok(checker.report)
}

impl Checker<'_> {
    fn find(&mut self, object: String, what: impl Into<String>, lost: u64) {
        self.report.findings.push(Finding { object, what: what.into(), lost });
    }

    fn run(&mut self) -> Result<(), DiskError> {
        let base = self.checkpoints()?;
        let state = replay(self.client, self.volume, self.memory);
        let names = self.client.names("log/", String::new())?;
        // No log is that long.
        let place = |name: &str| number_of(name).filter(|seq| *seq < u64::MAX);
        let known = |(name, len): (String, u64)| Some((place(&name)?, len));
        self.log = names.into_iter().filter_map(known).collect();
        let trouble = match state {
            Ok(state) => match self.beyond(&state)? {
                None => return self.whole(&state),
                Some(trouble) => trouble,
            },
            Err(trouble @ (DiskError::Damaged(..) | DiskError::Missing(..))) => trouble,
            Err(trouble) => return Err(trouble),
        };
        self.in_pieces(base)?;
        // What the replay met is the least that is wrong.
        let (object, what) = match trouble {
            DiskError::Damaged(object, damage) => (object, damage.to_string()),
            DiskError::Missing(object, proof) => {
                (object, format!("it is missing ({proof} is not)"))
            }
            _ => return Ok(()),
        };
        if self.report.findings.iter().all(|finding| finding.object != object) {
            self.find(object, what, 0);
        }
        Ok(())
    }

    /// Verifies all checkpoints; the newest that is whole.
    fn checkpoints(&mut self) -> Result<Option<State>, DiskError> {
        let mut newest = None;
        for seq in checkpoints(self.client, 0)? {
            match load(self.client, self.volume, seq, self.memory) {
                Ok(state) => newest = Some(state),
                Err(DiskError::Damaged(object, damage)) => {
                    // It may have been deleted since: there are newer ones.
                    if checkpoints(self.client, 0)?.contains(&seq) {
                        self.find(object, damage.to_string(), 0);
                    }
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(newest)
    }

    /// What is wrong with the end of a log because of objects far behind it.
    fn beyond(&self, state: &State) -> Result<Option<DiskError>, DiskError> {
        let far = state.next.saturating_add(u64::from(self.volume.is.window));
        let Some((proof, _)) = self.log.range(far..).next() else { return Ok(None) };
        // The log may have gone on while it was listed, and what it left may have been deleted.
        let is_hole =
            is_absent(self.client, state.next)? && checkpoints(self.client, state.next)?.is_empty();
        let missing = || DiskError::Missing(segment_name(state.next), segment_name(*proof));
        Ok(is_hole.then(missing))
    }

    /// Verifies the segments that a disk needs, and the headers of all other objects.
    fn whole(&mut self, state: &State) -> Result<(), DiskError> {
        let sector = u64::from(self.volume.is.sector);
        let mut others: Vec<u64> = self.log.keys().copied().collect();
        let segments = state.index.segments().filter(|(_, s)| s.live > 0);
        let needed: BTreeMap<u64, (u64, u64)> = segments
            .map(|(seq, s)| {
                let len = u64::from(s.payload) + u64::from(s.sectors) * sector;
                (seq, (len, u64::from(s.live) * sector))
            })
            .collect();
        for (seq, (len, live)) in &needed {
            self.segment(*seq, *len, *live)?;
        }
        others.retain(|seq| !needed.contains_key(seq));
        for some in others.chunks(AT_ONCE) {
            for (seq, header) in some.iter().zip(self.headers(some)?) {
                if let Some(Err(what)) = header {
                    self.find(segment_name(*seq), what, 0);
                }
            }
        }
        Ok(())
    }

    /// The headers at some places; `None` for one that is not there any more.
    fn headers(&self, seqs: &[u64]) -> Result<Vec<Option<Result<Header, String>>>, DiskError> {
        let len = HEADER_BYTES as u64;
        let get = |seq: &u64| Request::Get { name: segment_name(*seq), from: 0, len };
        let answers = self.client.call_all(Urgency::Later, seqs.iter().map(get).collect());
        let header = |(seq, answer)| match answer {
            Ok(Response::Bytes(bytes)) => Ok(Some(self.header(seq, &bytes))),
            Ok(_) => Ok(Some(Err("the answer has no data".to_owned()))),
            Err(StoreError::Absent) => Ok(None),
            Err(error) => Err(error.into()),
        };
        seqs.iter().copied().zip(answers).map(header).collect()
    }

    fn header(&self, seq: u64, bytes: &[u8]) -> Result<Header, String> {
        let header = Header::decode(bytes).map_err(|damage| damage.to_string())?;
        let is_of_log = matches!(header.kind, Kind::Data | Kind::Seal | Kind::Close);
        match is_of_log && (header.volume, header.seq) == (self.volume.uuid, seq) {
            true => Ok(header),
            false => Err("it belongs to another place in the log".to_owned()),
        }
    }

    /// Verifies a segment of which `live` bytes are needed; its header.
    fn segment(&mut self, seq: u64, len: u64, live: u64) -> Result<Option<Header>, DiskError> {
        let object = segment_name(seq);
        let get = Request::Get { name: object.clone(), from: 0, len };
        let (header, wrong) = match self.client.call(Urgency::Later, get) {
            Ok(Response::Bytes(bytes)) => match self.header(seq, &bytes) {
                Ok(header) => {
                    let wrong = verify(&header, &bytes, self.volume);
                    (Some(header), wrong)
                }
                Err(what) => (None, Some((what, live))),
            },
            Ok(_) => (None, Some(("the answer has no data".to_owned(), live))),
            Err(StoreError::Absent) => (None, Some(("it is gone".to_owned(), live))),
            Err(error) => return Err(error.into()),
        };
        self.report.segments += 1;
        self.report.verified += live;
        if let Some((what, lost)) = wrong {
            self.find(object, what, lost.min(live));
        }
        (self.seen)(live);
        Ok(header)
    }

    /// Verifies all objects of a log that cannot be gone through; `base` is the newest checkpoint.
    fn in_pieces(&mut self, base: Option<State>) -> Result<(), DiskError> {
        let mut found = BTreeMap::new();
        for (seq, len) in self.log.clone() {
            found.insert(seq, self.segment(seq, len, len)?);
        }
        let Some(base) = base else {
            // Of checkpoints that are damaged the place is known; what is before it may be deleted.
            let last = checkpoints(self.client, 0)?.last().copied();
            return self.holes(last.unwrap_or(1), last.map_or(0, |_| u64::MAX), &found);
        };
        let sector = u64::from(self.volume.is.sector);
        let gone = base.index.segments().filter(|(seq, s)| s.live > 0 && !found.contains_key(seq));
        for (seq, s) in gone {
            self.find(segment_name(seq), "it is gone", u64::from(s.live) * sector);
        }
        self.holes(base.next, base.epoch, &found)
    }

    /// Finds what is missing from the log behind a place, whose writer has this number.
    fn holes(
        &mut self,
        from: u64,
        mut epoch: u64,
        found: &BTreeMap<u64, Option<Header>>,
    ) -> Result<(), DiskError> {
        let (window, mut next) = (u64::from(self.volume.is.window), from);
        while let Some((stop, _)) = found.range(next..).next() {
            let stop = *stop;
            if let Some(own) = found.get(&next) {
                let resume =
                    own.as_ref().filter(|own| own.kind == Kind::Seal).map(|own| own.resume);
                epoch = own.as_ref().map_or(epoch, |own| epoch.max(own.epoch));
                next = resume.unwrap_or(0).max(next + 1);
                continue;
            }
            let whole = |(seq, header): (&u64, &Option<Header>)| {
                whole_before(window, epoch, (*seq, header.as_ref()))
            };
            let is_end = found.range(next..).map(whole).all(|whole| whole <= next);
            if is_end || !is_absent(self.client, next)? {
                return Ok(());
            }
            if next == 1 && checkpoints(self.client, 0)?.is_empty() {
                // What was deleted in order cannot be told from what was lost.
                let what =
                    format!("it is missing, and so are all checkpoints; {}", behind(1, found));
                self.find(segment_name(1), what, self.payload(1, found));
                return Ok(());
            }
            let what = format!("it is missing; {}", behind(next, found));
            self.find(segment_name(next), what, self.payload(next, found));
            next = stop;
        }
        Ok(())
    }

    /// Bytes of the segments from a place on.
    fn payload(&self, from: u64, found: &BTreeMap<u64, Option<Header>>) -> u64 {
        let sector = u64::from(self.volume.is.sector);
        let headers = found.range(from..).filter_map(|(_, header)| header.as_ref());
        headers.map(|header| u64::from(header.sectors) * sector).sum()
    }
}

/// What stands in the log from a place on.
fn behind(from: u64, found: &BTreeMap<u64, Option<Header>>) -> String {
    let count = found.range(from..).count();
    let epochs = || found.range(from..).filter_map(|(_, header)| Some(header.as_ref()?.epoch));
    let name = |at: Option<(&u64, &Option<Header>)>| {
        at.map_or(String::new(), |(seq, _)| segment_name(*seq))
    };
    let mut places = found.range(from..);
    let (first, last) = (name(places.next()), name(found.range(from..).next_back()));
    let (low, high) = (epochs().min().unwrap_or(0), epochs().max().unwrap_or(0));
    format!("behind it are {count} objects, {first} to {last}, of writers {low} to {high}")
}

/// What is wrong with an object of the log, and how many bytes of it are.
fn verify(header: &Header, bytes: &[u8], volume: &Volume) -> Option<(String, u64)> {
    if header.kind != Kind::Data {
        return None;
    }
    let table = header.body_of(bytes).and_then(|b| decode_table(header, b, volume.sectors()));
    let entries = match table {
        Ok(entries) => entries,
        Err(damage) => return Some((damage.to_string(), u64::MAX)),
    };
    let (sector, mut lost) = (volume.is.sector as usize, 0);
    for (at, entry) in places(&entries) {
        let from = header.payload as usize + at as usize * sector;
        let len = entry.sectors as usize * sector;
        let own = bytes.get(from..from + len);
        if own.is_none_or(|own| check_of([own]) != entry.check) {
            lost += len as u64;
        }
    }
    (lost > 0).then(|| ("some of its data does not match its table".to_owned(), lost))
}
