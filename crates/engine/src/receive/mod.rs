//! Snapshots out of streams: what `zfs receive` does.
//!
//! # Theory
//!
//! The format is described in `docs/format/stream.md`, the effects of a receive on a pool in
//! `dsl::write::receive`. A stream is read once, by the checked reader of the crate `stream`, and
//! each record is applied when it was read: no more than one payload is in memory beside what the
//! open txgs hold.
//!
//! ```text
//! BEGIN      names, features, the snapshot it goes on from     names.rs, here
//! list       of several: properties, by snapshot               list.rs
//!            what the sender renamed and destroyed since       follow.rs
//! records    into the object set of a hidden or marked head    apply.rs
//!            or to the blocks of a snapshot that is damaged    correct.rs
//! END        the head becomes what it is meant for             pool::live::Receiving
//! ```
//!
//! The checksum of a record covers everything before it. So a payload is applied before it was
//! verified, into a head that is not visible; only END makes it visible. Whatever a damaged stream
//! contains, existing data stays as it was.

mod apply;
mod correct;
mod follow;
mod given;
mod later;
mod list;
mod names;
mod observer;
mod planned;
mod roots;
mod start;

pub use follow::Followed;
pub use names::Naming;
pub use observer::{ReceiveObserver, Stream};

use crate::datasets::{make_above, snapshot_by_guid};
use crate::error::{Error, ErrorKind, Place, Result, Rule, StreamFault, Unreceivable};
use crate::keys::is_of_key;
use crate::values::parse;
use apply::Apply;
use dsl::names::is_within;
use dsl::write::{Encryption, Incoming, NameKind, PropertyChange, check_name};
use dsl::{DatasetKind, PropertyContext, Refusal, ResumeToken, Source, has_property};
use follow::Follow;
use list::{ReceivedPackage, SentProperties};
use names::destination;
use ondisk::ObjsetKind;
use ondisk::props::find_dataset;
use ondisk::spelling::full_name;
use ondisk::stream::{Begin, Body, KIND_COMPOUND, KIND_SNAPSHOT, Record, begin_flag, feature};
use planned::Planned;
use pool::Pool;
pub use pool::live::Restored;
use pool::live::{LivePool, Received, Receiving};
use rt::Progress;
use start::{Start, bad, fault};
use std::collections::BTreeMap;
use std::io::Read;
use stream::Reader;

/// Features of streams that are received.
const KNOWN: u64 = feature::DEDUP_PROPS
    | feature::SA_SPILL
    | feature::EMBED_DATA
    | feature::LZ4
    | feature::LARGE_BLOCKS
    | feature::COMPRESSED
    | feature::LARGE_DNODE
    | feature::ZSTD
    | feature::HOLDS
    | feature::RAW
    | feature::RESUMING;
/// Features that are understood and not received yet.
const NOT_YET: [(u64, Unreceivable); 2] =
    [(feature::REDACTED, Unreceivable::Redacted), (feature::DEDUP, Unreceivable::Deduplicated)];

/// The object that no stream begins before.
const FIRST_OBJECT: u64 = 1;

/// The phase of a receive in which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It was not known yet.
    Reading,
    /// A new dataset.
    New,
    /// A dataset that is there.
    Increment,
    /// The rest of what was received before.
    Rest,
    /// Repeating the sender's changes of a dataset or snapshot.
    Following,
    /// A snapshot that is damaged.
    Correcting,
}

/// Why a stream was not received. By `?` it becomes its error, without the token.
#[derive(Debug)]
pub struct NotReceived {
    /// The phase.
    pub phase: Phase,
    /// The snapshot that it would have become; empty when that was not known yet.
    pub destination: String,
    /// Why.
    pub error: Error,
    /// The received data is kept: with this the sender sends the rest ([`ResumeToken`]).
    pub token: Option<String>,
}

impl From<NotReceived> for Error {
    fn from(failed: NotReceived) -> Self {
        failed.error
    }
}

/// How streams are received. A full stream makes a dataset below one that is there. Into one that
/// is there, as the pool's own always is, it goes by [force](Self::force) alone, and replaces it.
///
/// ```
/// use engine::receive::{Receive, ReceiveObserver};
/// use engine::send::{Forms, SendStream};
/// use engine::{NewPool, Progress, datasets};
///
/// struct Silent;
/// impl ReceiveObserver for Silent {
///     fn not_set(&self, _dataset: &str, _property: &str, _why: &str) {}
/// }
///
/// let from = NewPool::new("tank").memory(128 << 20).create()?;
/// datasets::snapshot(&from, &["tank@monday"], false, Vec::new())?;
/// let (view, mut stream) = (from.look()?, Vec::new());
/// let send = SendStream::new(&view, "tank@monday", None, Forms::default())?;
/// send.run(&mut stream, &Progress::new())?;
///
/// let to = NewPool::new("store").memory(128 << 20).create()?;
/// let receive = Receive { target: "store/copy".to_owned(), ..Receive::default() };
/// let received = receive.run(&to, &stream[..], &Silent, &Progress::new());
/// received.map_err(|failed| failed.error)?;
/// assert!(to.filesystem("store/copy").is_ok());
/// assert!(to.view().datasets().by_name("store/copy@monday")?.is_snapshot());
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Receive {
    /// The dataset or snapshot that the stream becomes, or that it goes below.
    pub target: String,
    /// Which of them.
    pub naming: Naming,
    /// A dataset that is there is taken back to where the stream begins.
    pub force: bool,
    /// The snapshot that a new dataset is a clone of.
    pub origin: Option<String>,
    /// Properties that are set here, as users write them. Those of the encryption of what comes
    /// unencrypted are [`ReceiveObserver::encryption`]'s.
    pub set: Vec<(String, String)>,
    /// Properties that are not received.
    pub except: Vec<String>,
    /// When the stream is cut, what was received stays for the rest to come.
    pub resumable: bool,
    /// Nothing is received: what is damaged of the snapshot that the stream is of is made good.
    pub corrective: bool,
}

/// One receive.
struct Run<'a, R> {
    view: &'a Pool,
    /// Without it nothing is changed.
    pool: Option<&'a LivePool>,
    how: &'a Receive,
    reader: Reader<R>,
    observer: &'a dyn ReceiveObserver,
    progress: &'a Progress,
    /// How what comes unencrypted is encrypted, once that is known.
    encryption: Option<Encryption>,
    planned: Planned,
}

impl Receive {
    /// Receives what `input` has: the stream of one snapshot, or of several. Nothing behind it is
    /// read. It is read in whole records, so it needs no buffer.
    ///
    /// # Errors
    /// It cannot be received. Of several streams those before the one that failed were. Nothing is
    /// left of that one, unless it can be resumed.
    pub fn run(
        &self,
        pool: &LivePool,
        input: impl Read,
        observer: &dyn ReceiveObserver,
        progress: &Progress,
    ) -> std::result::Result<(), NotReceived> {
        self.started(pool.view(), Some(pool), input, observer, progress).all()
    }

    /// Reads what `input` has, and says where it would go.
    ///
    /// # Errors
    /// It would not be received, as far as can be seen without doing it.
    pub fn plan(
        &self,
        pool: &Pool,
        input: impl Read,
        observer: &dyn ReceiveObserver,
        progress: &Progress,
    ) -> std::result::Result<(), NotReceived> {
        self.started(pool, None, input, observer, progress).all()
    }

    fn started<'a, R: Read>(
        &'a self,
        view: &'a Pool,
        pool: Option<&'a LivePool>,
        input: R,
        observer: &'a dyn ReceiveObserver,
        progress: &'a Progress,
    ) -> Run<'a, R> {
        let reader = Reader::new(input);
        let (encryption, planned) = (None, Planned::default());
        Run { view, pool, how: self, reader, observer, progress, encryption, planned }
    }
}

/// While nothing is known of the stream.
fn reading(error: Error) -> NotReceived {
    NotReceived { phase: Phase::Reading, destination: String::new(), error, token: None }
}

impl<R: Read> Run<'_, R> {
    fn all(mut self) -> std::result::Result<(), NotReceived> {
        self.check_properties().map_err(reading)?;
        let record = self.reader.record().map_err(|e| reading(fault(e, true)))?;
        let record = record.ok_or_else(|| reading(bad(StreamFault::Unread)))?;
        let Body::Begin(begin) = record.body else {
            return Err(reading(bad(StreamFault::Magic)));
        };
        self.check_features(&begin).map_err(reading)?;
        let name = full_name(&begin.to_name);
        match begin.kind() {
            KIND_SNAPSHOT if self.how.corrective => self.correct(&begin, &name),
            KIND_COMPOUND if self.how.corrective => {
                Err(reading(Error::new(ErrorKind::Against(Rule::HeadName))))
            }
            KIND_SNAPSHOT => {
                let top = name.split('@').next().unwrap_or_default().to_owned();
                self.one(&begin, &name, &top, None)
            }
            KIND_COMPOUND => self.several(&name),
            _ => Err(reading(bad(StreamFault::Features(begin.features(), 0)))),
        }
    }

    fn check_features(&self, begin: &Begin) -> Result<()> {
        if self.reader.is_foreign() {
            return Err(Error::new(ErrorKind::NotReceived(Unreceivable::ByteOrder)));
        }
        let features = begin.features();
        if let Some((_, what)) = NOT_YET.iter().find(|(bit, _)| features & bit != 0) {
            return Err(Error::new(ErrorKind::NotReceived(*what)));
        }
        match features & !KNOWN {
            0 => Ok(()),
            unknown => Err(bad(StreamFault::Features(features, unknown))),
        }
    }

    /// A list, and the streams that it is about.
    fn several(&mut self, name: &str) -> std::result::Result<(), NotReceived> {
        let list = self.reader.payload().map_err(|e| reading(fault(e, false)))?.to_vec();
        // Its checksum is that of the list too.
        let end = self.reader.record().map_err(|e| reading(fault(e, false)))?;
        if !end.is_some_and(|end| matches!(end.body, Body::End(_))) {
            return Err(reading(bad(StreamFault::List)));
        }
        let package = ReceivedPackage::new(&list, name).map_err(reading)?;
        if package.is_recursive() && self.how.target.contains('@') {
            return Err(reading(Error::new(ErrorKind::Against(Rule::HeadName))));
        }
        self.follow(&package)?;
        loop {
            let record = self.reader.record().map_err(|e| reading(fault(e, false)))?;
            match record.map(|record| record.body) {
                Some(Body::Begin(begin)) => {
                    self.check_features(&begin).map_err(reading)?;
                    let name = full_name(&begin.to_name);
                    self.one(&begin, &name, &package.top, Some(&package))?;
                }
                Some(Body::End(_)) => break,
                None => return Err(reading(bad(StreamFault::Incomplete))),
                Some(_) => return Err(reading(bad(StreamFault::Record("it is in no stream")))),
            }
        }
        let Some(pool) = self.pool else { return Ok(()) };
        if package.is_raw() {
            let top = destination(&self.how.target, self.how.naming, &package.top, &package.top);
            let top = top.split('@').next().unwrap_or_default();
            let done = roots::follow(pool, &package.datasets(), top);
            done.map_err(|error| {
                let (phase, destination) = (Phase::Following, top.to_owned());
                NotReceived { phase, destination, error, token: None }
            })?;
        }
        match self.follow(&package)?.pop_first() {
            None => Ok(()),
            Some((change, error)) => {
                let destination = change.name().to_owned();
                Err(NotReceived { phase: Phase::Following, destination, error, token: None })
            }
        }
    }

    /// Does what the sender did to the tree since the streams before; what was refused.
    fn follow(
        &self,
        package: &ReceivedPackage,
    ) -> std::result::Result<BTreeMap<Followed, Error>, NotReceived> {
        if !package.is_recursive() || !package.is_increment() {
            return Ok(BTreeMap::new());
        }
        let top = destination(&self.how.target, self.how.naming, &package.top, &package.top);
        let follow = Follow { sent: package.datasets(), top: &top, force: self.how.force };
        let done = match self.pool {
            Some(pool) => follow.run(pool, self.progress, &|change, act| {
                self.observer.follows(change);
                self.observer.follow(change, act)
            }),
            None => follow.plan(self.view).map(|changes| {
                changes.iter().for_each(|change| self.observer.follows(change));
                BTreeMap::new()
            }),
        };
        let failed = |error| {
            let (phase, destination) = (Phase::Following, top.clone());
            NotReceived { phase, destination, error, token: None }
        };
        done.map_err(failed)
    }

    /// The stream of one snapshot, whose BEGIN was read.
    fn one(
        &mut self,
        begin: &Begin,
        sent: &str,
        top: &str,
        package: Option<&ReceivedPackage>,
    ) -> std::result::Result<(), NotReceived> {
        if !sent.contains('@') {
            return Err(reading(bad(StreamFault::SnapshotName)));
        }
        let dataset = sent.split('@').next().unwrap_or_default();
        if top.is_empty() || !is_within(dataset, top) {
            return Err(reading(bad(StreamFault::Record("a dataset is not below the one sent"))));
        }
        let is_clone = begin.flags & begin_flag::CLONE != 0;
        let is_rest = begin.features() & feature::RESUMING != 0;
        let is_new = begin.from_guid == 0 || is_clone || self.how.origin.is_some();
        let phase = match is_new {
            _ if is_rest => Phase::Rest,
            true => Phase::New,
            false => Phase::Increment,
        };
        let mut destination = destination(&self.how.target, self.how.naming, top, sent);
        let done = match is_rest {
            true => self.rest_into(begin, sent, &destination),
            false => self.one_into(begin, sent, &mut destination, package, is_new),
        };
        done.map_err(|error| {
            let token = self.token(&destination);
            NotReceived { phase, destination, error, token }
        })
    }

    /// How the rest of what was received is sent, when it stays.
    fn token(&self, destination: &str) -> Option<String> {
        if self.pool.is_none() || !self.how.resumable {
            return None;
        }
        let view = self.view;
        let dsl = view.datasets();
        let name = destination.split('@').next().unwrap_or_default();
        let (_, token) = dsl::write::partly_received(&dsl, name).ok()?;
        token.encode()
    }

    /// What the stream contains, for the dataset `name`.
    fn arriving(&self, begin: &Start, name: String, snapshot: String) -> Result<Incoming> {
        let is_volume = match ObjsetKind::from_number(begin.objset_kind.into()) {
            ObjsetKind::Zfs => false,
            ObjsetKind::Zvol => true,
            _ => {
                return Err(bad(StreamFault::Record(
                    "the stream is neither of a file system nor of a volume",
                )));
            }
        };
        let has = |bit: u64| begin.features() & bit != 0;
        let forms = [feature::LARGE_BLOCKS, feature::EMBED_DATA, feature::COMPRESSED, feature::RAW];
        let resumable = self.how.resumable.then(|| ResumeToken {
            from_guid: begin.from_guid,
            object: FIRST_OBJECT,
            to_guid: begin.to_guid,
            to_name: begin.to_name.clone(),
            forms: forms.map(has),
            ..ResumeToken::default()
        });
        self.check_no_encryption(begin)?;
        Ok(Incoming {
            name,
            snapshot,
            from_guid: begin.from_guid,
            origin: None,
            force: self.how.force,
            is_volume,
            is_case_insensitive: begin.flags & begin_flag::CASE_INSENSITIVE != 0,
            has_large_blocks: has(feature::LARGE_BLOCKS),
            has_large_dnodes: has(feature::LARGE_DNODE),
            guid: begin.to_guid,
            creation_time: begin.creation_time,
            properties: Vec::new(),
            received: Vec::new(),
            resumable,
            later: None,
            encryption: Encryption::Inherit,
            sealed: begin.sealed.clone(),
        })
    }

    /// The rest of the stream of a snapshot, whose beginning was received before.
    fn rest_into(&mut self, begin: &Begin, sent: &str, destination: &str) -> Result<()> {
        let mut begin = Start::read(&mut self.reader, begin)?;
        let (at, first) = (begin.at, begin.first.take());
        let first = first.ok_or_else(|| bad(StreamFault::Incomplete))?;
        let start = begin.rest.ok_or_else(|| bad(StreamFault::List))?;
        if check_name(destination)? != NameKind::Snapshot {
            return Err(dsl::Error::BadName(destination.to_owned()).into());
        }
        let (name, snapshot) = destination.split_once('@').unwrap_or((destination, ""));
        let incoming = self.arriving(&begin, name.to_owned(), snapshot.to_owned())?;
        self.observer.begins(&Stream {
            sent: sent.to_owned(),
            destination: destination.to_owned(),
            is_increment: begin.from_guid != 0,
            origin: None,
            heals: false,
        });
        let Some(pool) = self.pool else { return self.skip_from(first) };
        let began = pool.rt().now();
        let with = self.properties(&incoming, SentProperties::default(), true, false)?;
        if self.is_seen(&incoming.name) {
            self.observer.starts(&incoming.name)?;
        }
        if incoming.sealed.is_none() {
            self.observer.encryption(false)?;
        }
        let receiving = pool.resume_receive(incoming, start)?;
        let with = self.with_kept(with, receiving.later());
        let is_new = !receiving.is_hidden();
        let apply = Apply::new(&receiving, &begin).resumable(start.0);
        let has_large_dnodes = self.apply(apply, &begin, at, Some(first))?;
        self.finish(receiving, with, has_large_dnodes, is_new)?;
        let time = pool.rt().now().saturating_sub(began);
        self.observer.ends(self.reader.length() - at, time);
        Ok(())
    }

    /// Applies all records up to the end; the reader is behind BEGIN, which ended at byte `start`,
    /// or behind the record after it. Returns whether there are dnodes of several slots.
    fn apply(
        &mut self,
        mut apply: Apply<'_>,
        begin: &Begin,
        start: u64,
        mut first: Option<Record>,
    ) -> Result<bool> {
        loop {
            self.progress.check()?;
            let record = match first.take() {
                Some(first) => first,
                None => {
                    let record = self.reader.record().map_err(|e| fault(e, false))?;
                    record.ok_or_else(|| bad(StreamFault::Incomplete))?
                }
            };
            if matches!(record.body, Body::End(_)) {
                break;
            }
            self.reader.payload().map_err(|e| fault(e, false))?;
            let bytes = self.reader.length().saturating_sub(start);
            let payload = self.reader.last_payload();
            apply.record(&record.body, payload, bytes)?;
            self.progress.add(1, payload.len() as u64);
        }
        apply.end(begin.from_guid == 0)?;
        Ok(apply.has_large_dnodes())
    }

    /// All of it came: the dataset gets its content.
    fn finish(
        &self,
        receiving: Receiving,
        with: Received,
        has_large_dnodes: bool,
        is_new: bool,
    ) -> Result<()> {
        let name = receiving.incoming().name.clone();
        let mut finish = Some((receiving, with));
        let mut refused = Vec::new();
        self.observer.finish(&name, is_new, &mut || {
            let Some((receiving, with)) = finish.take() else { return Ok(()) };
            refused = receiving.finish(with, has_large_dnodes)?;
            Ok(())
        })?;
        self.report_refused_properties(&name, refused);
        Ok(())
    }

    fn report_refused_properties(&self, name: &str, refused: Vec<(String, String)>) {
        for (property, why) in refused {
            self.observer.not_set(name, &property, &why);
        }
    }

    fn one_into(
        &mut self,
        begin: &Begin,
        sent: &str,
        destination: &mut String,
        package: Option<&ReceivedPackage>,
        wants_new: bool,
    ) -> Result<()> {
        let mut begin = Start::read(&mut self.reader, begin)?;
        let (at, first) = (begin.at, begin.first.take());
        let is_top = package.is_none_or(|p| sent.split('@').next() == Some(&*p.top));
        if check_name(destination)? != NameKind::Snapshot {
            return Err(dsl::Error::BadName(destination.clone()).into());
        }
        // The one that was named is meant, and no other that has the snapshot.
        let is_named = is_top && self.how.naming == Naming::AsTarget;
        let begin = &begin;
        let wanted = destination.split('@').next().unwrap_or_default().to_owned();
        let (incoming, is_there) = self.incoming(begin, destination, wants_new, is_named)?;
        if self.pool.is_none() {
            self.planned.insert(wanted, &incoming.name, (begin.to_guid, incoming.full_name()));
        }
        let stream = Stream {
            sent: sent.to_owned(),
            destination: incoming.full_name(),
            is_increment: begin.from_guid != 0,
            origin: incoming.origin.clone(),
            heals: false,
        };
        if self.how.naming != Naming::AsTarget && !self.exists(&incoming.name) {
            self.need_target()?;
        }
        if is_there == Some(begin.to_guid) && package.is_some() && !wants_new {
            self.observer.is_there(&incoming.full_name());
            return self.skip(first);
        }
        self.observer.begins(&stream);
        let Some(pool) = self.pool else { return self.skip(first) };
        let began = pool.rt().now();
        let listed = package.map(|p| p.properties_of(begin.to_guid)).unwrap_or_default();
        let is_new = !self.exists(&incoming.name);
        if !is_new {
            self.observer.starts(&incoming.name)?;
        }
        let encryption = self.encryption(&incoming, wants_new, listed.has_properties)?;
        let incoming = Incoming { encryption, ..incoming };
        let with = self.properties(&incoming, listed, is_top, is_new)?;
        let incoming = self.with_first_properties(incoming, &with, is_new);
        if is_new && self.how.naming == Naming::WithoutPool && incoming.name != self.how.target {
            make_above(pool, &incoming.name)?;
        }
        let mut with = with;
        // Properties that are not set now are kept for the end, for the rest of the stream does not
        // have them.
        let now = (self.how.resumable && is_new).then(|| with.all_but_limits());
        let later = self.how.resumable.then(|| later::encode(&with)).flatten();
        let receiving = pool.begin_receive(Incoming { later, ..incoming })?;
        let mut apply = Apply::new(&receiving, begin);
        if self.how.resumable {
            apply = apply.resumable(0);
        }
        if let Some(now) = now {
            self.report_refused_properties(&receiving.incoming().name, receiving.set(now)?);
        }
        let has_large_dnodes = self.apply(apply, begin, at, first)?;
        self.finish(receiving, with, has_large_dnodes, is_new)?;
        let time = pool.rt().now().saturating_sub(began);
        self.observer.ends(self.reader.length() - at, time);
        Ok(())
    }

    /// Whether it was said how what comes unencrypted is encrypted. What comes with its properties
    /// was not encrypted where it comes from, because encrypted datasets are sent without; so it is
    /// not here either, unless that was said.
    fn encryption_is_given(&self) -> bool {
        self.how.set.iter().any(|(name, _)| is_of_key(name))
            || self.how.except.iter().any(|name| name == "encryption")
    }

    /// The encryption of a new dataset. Datasets below the one that was named have its key.
    fn encryption(
        &mut self,
        incoming: &Incoming,
        wants_new: bool,
        has_properties: bool,
    ) -> Result<Encryption> {
        if incoming.sealed.is_some() {
            return Ok(Encryption::Inherit);
        }
        if wants_new && has_properties && !self.encryption_is_given() {
            return Ok(Encryption::Off);
        }
        let encryption = match &self.encryption {
            Some(known) => known.clone(),
            None => self.observer.encryption(wants_new)?,
        };
        let target = self.how.target.split('@').next().unwrap_or_default();
        let above = incoming.name.rsplit_once('/').map_or("", |(above, _)| above);
        let is_top = match self.how.naming {
            Naming::AsTarget => incoming.name == target,
            Naming::WithoutPool | Naming::LastPart => above == target,
        };
        self.encryption = Some(encryption.clone());
        Ok(if is_top { encryption } else { Encryption::Inherit })
    }

    /// The properties set at the end, with those kept for it when the stream began. Properties
    /// given now take precedence.
    fn with_kept(&self, with: Received, kept: Option<&str>) -> Received {
        let Some(mut kept) = kept.and_then(later::decode) else { return with };
        let full = |name: &str| find_dataset(name).map_or(name, |p| p.name).to_owned();
        let mut given: Vec<String> = self.how.except.iter().map(|name| full(name)).collect();
        kept.received.retain(|change| !given.contains(&change.name));
        given.extend(with.local.iter().map(|change| change.name.clone()));
        kept.local.retain(|change| !given.contains(&change.name));
        kept.local.extend(with.local);
        kept
    }

    /// Whether there is such a dataset.
    fn exists(&self, name: &str) -> bool {
        let view = self.view;
        let dsl = view.datasets();
        dsl.by_name(name).is_ok()
    }

    /// Refuses to put something below a target that is not there.
    fn need_target(&self) -> Result<()> {
        let view = self.view;
        let dsl = view.datasets();
        let target = &self.how.target;
        match dsl.by_name(target) {
            Err(dsl::Error::NoSuchDataset(_)) => {
                Err(Error::against(Rule::Target).at(Place::Dataset(target.clone())))
            }
            found => Ok(found.map(drop)?),
        }
    }

    /// Whether there is such a dataset, and it is not what is half received itself.
    fn is_seen(&self, name: &str) -> bool {
        let view = self.view;
        let dsl = view.datasets();
        dsl.by_name(name).is_ok_and(|there| !there.phys.is_inconsistent())
    }

    /// Reads the rest of the stream of a snapshot.
    fn skip(&mut self, first: Option<Record>) -> Result<()> {
        if let Some(first) = first {
            return self.skip_from(first);
        }
        let record = self.reader.record().map_err(|e| fault(e, false))?;
        self.skip_from(record.ok_or_else(|| bad(StreamFault::Incomplete))?)
    }

    /// The same where one of its records was read already.
    fn skip_from(&mut self, mut record: Record) -> Result<()> {
        while !matches!(record.body, Body::End(_)) {
            self.progress.check()?;
            let next = self.reader.record().map_err(|e| fault(e, false))?;
            record = next.ok_or_else(|| bad(StreamFault::Incomplete))?;
        }
        Ok(())
    }

    /// Where a stream goes, as far as datasets are concerned; and the GUID of the snapshot of that
    /// name, if there is one.
    fn incoming(
        &self,
        begin: &Start,
        destination: &mut String,
        wants_new: bool,
        is_named: bool,
    ) -> Result<(Incoming, Option<u64>)> {
        let view = self.view;
        let dsl = view.datasets();
        let split = |name: &str| {
            let (dataset, snapshot) = name.split_once('@').unwrap_or((name, ""));
            (dataset.to_owned(), snapshot.to_owned())
        };
        let (mut name, snapshot) = split(destination);
        if !wants_new && !is_named && dsl.by_name(&name).is_err() {
            // It may have another name here.
            let from = snapshot_by_guid(&dsl, &name, begin.from_guid).map(|from| split(&from).0);
            let from = from.or_else(|| self.planned.name_of(&name).cloned());
            let target = split(&self.how.target).0;
            if let Some(from) = from.filter(|from| is_within(from, &target)) {
                name = from;
                *destination = format!("{name}@{snapshot}");
            }
        }
        let origin = self.origin(&dsl, begin, &name)?;
        let mut is_there = None;
        match dsl.by_name(&name) {
            Ok(head) => {
                is_there = dsl.by_name(destination).ok().map(|snapshot| snapshot.phys.guid);
                if wants_new {
                    self.check_overwritten(&dsl, &head, begin)?;
                }
            }
            Err(_) if wants_new && name.contains('/') => {}
            Err(_) if self.planned.name_of(&name).is_some() => {}
            Err(e) => return Err(e.into()),
        }
        let incoming = Incoming { origin, ..self.arriving(begin, name, snapshot)? };
        Ok((incoming, is_there))
    }

    /// The snapshot that a new dataset `name` is a clone of, if it is one.
    fn origin(&self, dsl: &dsl::Dsl, begin: &Begin, name: &str) -> Result<Option<String>> {
        let origin = match &self.how.origin {
            Some(origin) => {
                dsl.by_name(origin)?;
                Some(origin.clone())
            }
            None if begin.flags & begin_flag::CLONE != 0 => {
                let found = snapshot_by_guid(dsl, name, begin.from_guid)
                    .or_else(|| self.planned.snapshot(begin.from_guid).cloned());
                let absent = || Error::new(ErrorKind::Refused(Refusal::NoLocalOrigin));
                Some(found.ok_or_else(absent)?)
            }
            None => None,
        };
        if origin.is_some() && begin.from_guid == 0 && begin.flags & begin_flag::FREE_RECORDS == 0 {
            return Err(bad(StreamFault::Record("a full stream cannot be received as a clone")));
        }
        Ok(origin)
    }

    /// Refuses to put a new dataset in the place of one that is not to be overwritten, or cannot.
    fn check_overwritten(&self, dsl: &dsl::Dsl, head: &dsl::Dataset, begin: &Begin) -> Result<()> {
        let refused = |why| Err(dsl::Error::refused(&head.name, why).into());
        if !self.how.force {
            return refused(Refusal::Exists);
        }
        if let Some(one) = dsl.snapshots(head)?.first() {
            return refused(Refusal::HasSnapshots(dsl.kind(head), one.name.clone()));
        }
        if dsl.origin(&head.dir)?.is_some() || self.how.origin.is_some() || begin.from_guid != 0 {
            return refused(Refusal::IsAClone);
        }
        let is_volume = ObjsetKind::from_number(begin.objset_kind.into()) == ObjsetKind::Zvol;
        if is_volume && !head.name.contains('/') {
            return refused(Refusal::PoolRoot);
        }
        match dsl.child_names(&head.dir)?.first() {
            Some((one, _)) if is_volume => refused(Refusal::HasChildren(one.clone())),
            _ => Ok(()),
        }
    }

    /// The properties that the dataset gets beside its content.
    fn properties(
        &self,
        incoming: &Incoming,
        listed: SentProperties,
        is_top: bool,
        is_new: bool,
    ) -> Result<Received> {
        let kind = match incoming.is_volume {
            true => DatasetKind::Volume,
            false => DatasetKind::Filesystem,
        };
        let mut local = Vec::new();
        let mut is_set_above = Vec::new();
        for (name, value) in &self.how.set {
            let is_kept = is_top && (incoming.sealed.is_some() || !is_new);
            match is_of_key(name) {
                true if name == "keylocation" && is_kept => {
                    self.check_location(&incoming.name, value, is_new)?;
                }
                true => continue,
                false => {}
            }
            let fits = find_dataset(name).is_none_or(|p| has_property(p, kind, false));
            if listed.is_in_tree && !fits {
                continue;
            }
            let change = parse(name, value, kind, is_new)?;
            let is_inherited = find_dataset(name).is_none_or(|p| p.is_inheritable());
            if is_top || !is_inherited {
                local.push(change);
            } else {
                is_set_above.push(change.name);
            }
        }
        let is_except = |name: &str| {
            let is_named = |one: &String| find_dataset(one).map_or(&**one, |p| p.name) == name;
            self.how.except.iter().any(is_named)
        };
        let is_inherited = |name: &str| find_dataset(name).is_none_or(|p| p.is_inheritable());
        let mut received = listed.properties;
        received.retain(|change| is_inherited(&change.name) || !is_except(&change.name));
        // Properties to ignore are received all the same, and inherited in spite of it.
        for change in &received {
            let is_above = is_set_above.contains(&change.name);
            let is_left_out = is_except(&change.name)
                && (is_new || !self.is_set_here(&incoming.name, &change.name));
            if is_above || is_left_out {
                local.push(PropertyChange { name: change.name.clone(), value: None });
            }
        }
        let mut cleared = Vec::new();
        if !is_new && listed.has_properties {
            let view = self.view;
            let dsl = view.datasets();
            let dataset = dsl.by_name(&incoming.name)?;
            cleared = dsl::write::received_properties(&dsl, &dataset)?;
            cleared.retain(|name| !received.iter().any(|change| change.name == *name));
        }
        Ok(Received { received, cleared, local, of_snapshot: listed.of_snapshot })
    }

    /// Whether a property is set on the dataset itself.
    fn is_set_here(&self, dataset: &str, property: &str) -> bool {
        let view = self.view;
        let dsl = view.datasets();
        let found = dsl
            .by_name(dataset)
            .and_then(|dataset| dsl.property(&dataset, &PropertyContext::default(), property));
        found.is_ok_and(|found| found.is_some_and(|p| p.source == Source::Local))
    }

    /// The same with the properties that a new dataset has from the start, so that they apply to
    /// what is written. Limits of its size are set at the end.
    fn with_first_properties(
        &self,
        mut incoming: Incoming,
        with: &Received,
        is_new: bool,
    ) -> Incoming {
        let shapes = ["compression", "checksum", "copies", "redundant_metadata"];
        let first = |all: &[PropertyChange]| -> Vec<PropertyChange> {
            all.iter().filter(|change| shapes.contains(&change.name.as_str())).cloned().collect()
        };
        if is_new {
            incoming.properties = first(&with.local);
            incoming.received = first(&with.received);
            let is_hidden = |name: &str| with.local.iter().any(|change| change.name == name);
            incoming.received.retain(|change| !is_hidden(&change.name));
            incoming.properties.retain(|change| change.value.is_some());
        }
        incoming
    }
}
