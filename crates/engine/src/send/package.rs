//! Several snapshots in one stream: what lies between two, what is below a dataset, and a list of
//! what is known of them.
//!
//! # Theory
//!
//! A package is a list and, behind it, streams of single snapshots, each as [`SendStream`] writes
//! it. So it is a plan: which snapshots, in which order, each as an increment of what.
//!
//! ```text
//! tree     the dataset, or it and all below it, as their tables have them       -> the list
//! line     of each dataset what is sent, oldest first: the first in full, or as an
//!          increment of FROM or of the clone's origin; each other of the one before
//! order    a dataset when the one above it and its origin were sent             -> the parts
//! ```
//!
//! The snapshots are named by the plan, and opened one at a time when their turns come. One that
//! was destroyed, or replaced by another of its name, ends the stream with an error. In a process
//! that has the pool open for writing they stay until they are sent ([`Package::held_in`]).
//!
//! A snapshot that a dataset lacks does not keep the others from being sent: the plan has it among
//! its [gaps](Gap), and the stream is complete without it.

use super::list::{self, SentDataset};
use super::scope::{Scope, short};
use super::{Forms, SendStream};
use crate::error::{Error, ErrorKind, Hint, Place, Result, Rule, Unsendable};
use crate::reading::lease;
use dsl::{Action, Dataset, Dsl};
use ondisk::nvlist::Packing;
use ondisk::stream::{Begin, KIND_COMPOUND, MAGIC, feature};
use pool::Pool;
use pool::live::{InUse, LivePool};
use rt::Progress;
use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;
use stream::Writer;

/// A snapshot of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its full name.
    pub snapshot: String,
    /// The snapshot of which it is an increment.
    pub from: Option<String>,
    guid: u64,
}

/// Why a dataset is not in a package, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// It lacks the snapshot that is sent, and such datasets are passed over.
    Skipped {
        /// The dataset. Datasets below it are skipped too.
        dataset: String,
        /// The snapshot's name, without the dataset's.
        snapshot: String,
    },
    /// The snapshot from which the line continues is missing, or younger.
    NoSource {
        /// The snapshot that is not sent.
        snapshot: String,
        /// The other one.
        from: String,
    },
    /// The snapshot from which the line continues is not older than the last.
    NotEarlier {
        /// The snapshot that is not sent.
        snapshot: String,
        /// The other one.
        from: String,
    },
}

impl Gap {
    /// Something that was requested is missing: the stream has no end then, like OpenZFS's.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Skipped { .. })
    }
}

/// Snapshots that are to be sent in one stream.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::send::{Forms, Package, Scope};
///
/// engine::datasets::snapshot(&pool, &["tank@a"], false, Vec::new())?;
/// engine::datasets::snapshot(&pool, &["tank@b"], false, Vec::new())?;
/// let scope = Scope { replicate: true, ..Scope::default() };
/// let package = Package::plan(pool.view(), "tank@b", None, Forms::default(), &scope)?;
/// assert_eq!(package.parts()[1].from.as_deref(), Some("tank@a"));
/// let mut stream = Vec::new();
/// package.run(&mut stream, &engine::Progress::new())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Package<'a> {
    pool: &'a Pool,
    forms: Forms,
    name: String,
    /// The list in front of the parts; without it, it is the stream of one snapshot.
    list: Option<Vec<u8>>,
    is_line: bool,
    has_holds: bool,
    parts: Vec<Part>,
    gaps: Vec<Gap>,
    in_use: Vec<InUse>,
}

/// Where the line of a dataset begins.
enum Start {
    /// In full; a clone as an increment of its origin, if everything is sent.
    Beginning,
    /// As an increment of its origin.
    Origin,
    /// Behind the snapshot of this name.
    Snapshot(String),
}

impl<'a> Package<'a> {
    /// Finds out what the stream has: the snapshot, what the scope says, what lies behind `from`
    /// (`@NAME`, `NAME` or the full name of a snapshot of the same dataset; the origin of a clone;
    /// of one snapshot also a bookmark). Where the scope is just the snapshot, the stream is that
    /// of [`SendStream`].
    ///
    /// # Errors
    /// There is no such snapshot, a dataset below lacks it and is not passed over, or they cannot
    /// be read.
    pub fn plan(
        pool: &'a Pool,
        snapshot: &str,
        from: Option<&str>,
        forms: Forms,
        scope: &Scope,
    ) -> Result<Self> {
        let Some((path, to)) = snapshot.split_once('@') else {
            let error = Error::against(Rule::SnapshotName).at(Place::Dataset(snapshot.to_owned()));
            return Err(error.with_hint(Hint::NameSnapshot));
        };
        let forms = Forms { raw: forms.raw || scope.raw, ..forms };
        let dsl = pool.datasets();
        let head = dsl.by_name(path)?;
        let last = dsl.by_name(snapshot)?;
        scope.check_encryption(&head)?;
        let start = Start::find(&dsl, &head, from.filter(|_| scope.is_line()))?;
        let mut plan =
            Plan { dsl: &dsl, to, start: &start, scope, members: Vec::new(), gaps: Vec::new() };
        let parts = match scope.is_line() {
            true => {
                plan.gather(head, last.phys.creation_txg)?;
                plan.order()?
            }
            false => {
                let member = plan.member(head, 0, last.phys.creation_txg)?;
                plan.members.extend(member);
                // A name without a sign is that of a snapshot of the same dataset.
                let from = from.map(|from| match from.contains(['@', '#', '/']) {
                    true => from.to_owned(),
                    false => format!("@{from}"),
                });
                let send = SendStream::among(&dsl, snapshot, from.as_deref(), forms)?;
                let from = send.from().map(str::to_owned);
                vec![Part { snapshot: snapshot.to_owned(), from, guid: last.phys.guid }]
            }
        };
        let list = match (scope.has_list(), scope.is_line()) {
            (true, _) => {
                let list = list::of(&dsl, scope, start.name(), to, &plan.members)?;
                let packed = list.encode(Packing::XDR);
                Some(packed.map_err(|e| Error::new(ErrorKind::Damaged).because(e))?)
            }
            (false, true) => Some(Vec::new()),
            (false, false) => None,
        };
        let (gaps, is_line, has_holds) = (plan.gaps, scope.is_line(), scope.holds);
        let name = snapshot.to_owned();
        let in_use = Vec::new();
        Ok(Self { pool, forms, name, list, is_line, has_holds, parts, gaps, in_use })
    }

    /// For a pool that this process has open for writing, by the handle of the user who is to get
    /// the stream ([`LivePool::on_behalf_of`]): it needs the permission to send each part, and
    /// until the package is dropped no snapshot is destroyed that is read for it.
    ///
    /// # Errors
    /// There is no permission, or a snapshot is not there any more: it is the error's operand.
    pub fn held_in(mut self, pool: &LivePool) -> Result<Self> {
        let names: Vec<&str> = self.parts.iter().map(|part| part.snapshot.as_str()).collect();
        let from = self.parts.iter().filter_map(|part| part.from.as_deref());
        let from = from.filter(|from| from.contains('@'));
        self.in_use = lease(pool, Action::Send, &names, from.chain(names.iter().copied()))?;
        Ok(self)
    }

    /// The snapshots, in the order in which they are sent.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The snapshots that are left out.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The source that OpenZFS announces for a part before sending it: of several snapshots the
    /// name of the one before, and nothing of the origin of a clone.
    #[must_use]
    pub fn announced_from<'p>(&self, part: &'p Part) -> Option<&'p str> {
        let from = part.from.as_deref()?;
        let (dataset, name) = from.split_once('@').unwrap_or((from, ""));
        let is_same = part.snapshot.split_once('@').is_some_and(|(of, _)| of == dataset);
        match self.is_line {
            false => Some(from),
            true => is_same.then_some(name),
        }
    }

    /// About how long the stream of a part will be, in bytes, by what it is [announced as an
    /// increment of](Self::announced_from).
    ///
    /// # Errors
    /// As [`Self::open`] and [`SendStream::estimate`].
    pub fn estimate(&self, part: &Part, progress: &Progress) -> Result<u64> {
        let from = part.from.clone().filter(|_| self.announced_from(part).is_some());
        self.open(&Part { from, ..part.clone() })?.estimate(progress)
    }

    /// Opens a part.
    ///
    /// # Errors
    /// It is not there any more, or cannot be sent.
    pub fn open(&self, part: &Part) -> Result<SendStream<'a>> {
        let send = SendStream::new(self.pool, &part.snapshot, part.from.as_deref(), self.forms)?;
        if send.dataset.phys.guid != part.guid {
            let at = Place::Dataset(part.snapshot.clone());
            return Err(Error::new(ErrorKind::NotFound).at(at));
        }
        Ok(send)
    }

    /// Writes the stream. The progress has the bytes that were written.
    ///
    /// # Errors
    /// As [`SendStream::run`] and [`Self::open`].
    pub fn run<W: Write + Send>(&self, out: W, progress: &Progress) -> Result<()> {
        let mut writer = Writer::new(std::io::BufWriter::with_capacity(1 << 18, out));
        progress.begin("records sent", 0);
        if let Some(list) = &self.list {
            let features = if self.has_holds { feature::HOLDS } else { 0 };
            let begin = Begin {
                magic: MAGIC,
                version: Begin::version_of(KIND_COMPOUND, features),
                to_name: ondisk::spelling::stored(&self.name),
                ..Begin::default()
            };
            writer.package(begin, list).map_err(Error::external)?;
        }
        for part in &self.parts {
            writer = self.open(part)?.write(writer, progress)?;
        }
        match self.list.is_some() && !self.gaps.iter().any(Gap::is_error) {
            true => writer.end_package().map_err(Error::external),
            false => Ok(()),
        }
    }
}

impl Start {
    fn find(dsl: &Dsl, head: &Dataset, from: Option<&str>) -> Result<Self> {
        let Some(from) = from else { return Ok(Self::Beginning) };
        if from.contains('#') {
            return Err(Error::against(Rule::SnapshotName).at(Place::Dataset(from.to_owned())));
        }
        let (dataset, name) = from.split_once('@').unwrap_or(("", from));
        if dataset.is_empty() || dataset == head.name {
            dsl.by_name(&format!("{}@{name}", head.name))?;
            return Ok(Self::Snapshot(name.to_owned()));
        }
        if dsl.origin(&head.dir)?.as_deref() == Some(from) {
            return Ok(Self::Origin);
        }
        let error = Error::against(Rule::NotEarlier).at(Place::Dataset(from.to_owned()));
        Err(error.with_hint(Hint::OlderFirst))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Snapshot(name) => Some(name),
            _ => None,
        }
    }
}

/// A package in the making.
struct Plan<'a> {
    dsl: &'a Dsl,
    /// Name of the last snapshot, without the dataset's.
    to: &'a str,
    start: &'a Start,
    scope: &'a Scope,
    members: Vec<SentDataset>,
    gaps: Vec<Gap>,
}

impl Plan<'_> {
    /// Finds the datasets and their snapshots; none of those is younger than txg `limit`.
    fn gather(&mut self, head: Dataset, limit: u64) -> Result<()> {
        // With the GUID of the snapshot that the list names for the dataset above.
        let mut waiting = vec![(head, 0)];
        while let Some((head, above)) = waiting.pop() {
            let dir = Arc::clone(&head.dir);
            let Some(member) = self.member(head, above, limit)? else { continue };
            let named = |name: &str| member.snapshot(name).map(|s| s.phys.guid);
            let guid = self.start.name().and_then(named).or_else(|| named(self.to)).unwrap_or(0);
            self.members.push(member);
            if self.scope.replicate {
                for dir in self.dsl.children_as_stored(&dir)?.into_iter().rev() {
                    waiting.extend(self.dsl.head(&dir)?.map(|head| (head, guid)));
                }
            }
        }
        Ok(())
    }

    /// A dataset; `None` when it lacks the snapshot and that is not an error: it is younger, or
    /// such are passed over.
    fn member(&mut self, head: Dataset, above: u64, limit: u64) -> Result<Option<SentDataset>> {
        let mut snapshots = self.dsl.snapshots(&head)?;
        let Some(end) = snapshots.iter().position(|s| short(&s.name) == self.to) else {
            if head.phys.creation_txg > limit || self.scope.excludes(&head.name) {
                return Ok(None);
            }
            if !self.scope.skip_missing {
                let at = Place::Dataset(format!("{}@{}", head.name, self.to));
                return Err(Error::new(ErrorKind::NotFound).at(at));
            }
            let (dataset, snapshot) = (head.name, self.to.to_owned());
            self.gaps.push(Gap::Skipped { dataset, snapshot });
            return Ok(None);
        };
        if !self.scope.excludes(&head.name) {
            self.scope.check_encryption(&head)?;
        }
        snapshots.truncate(end + 1);
        let origin_name = self.dsl.origin(&head.dir)?;
        let origin = match &origin_name {
            None => None,
            Some(_) => Some(self.dsl.nameless(head.dir.phys.origin)?.phys.guid),
        };
        Ok(Some(SentDataset { head, above, origin, origin_name, snapshots }))
    }

    /// The snapshots in the order in which a receiver can take them.
    fn order(&mut self) -> Result<Vec<Part>> {
        let origins: HashSet<u64> = self.members.iter().filter_map(|m| m.origin).collect();
        let guids = |m: &SentDataset| m.snapshots.iter().map(|s| s.phys.guid).collect::<Vec<_>>();
        let all: HashSet<u64> = self.members.iter().flat_map(guids).collect();
        let (mut sent, mut parts) = (HashSet::new(), Vec::new());
        let mut waiting: Vec<usize> = (0..self.members.len()).collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for at in waiting {
                let Some(member) = self.members.get(at) else { continue };
                let is_ready = |guid: u64| !all.contains(&guid) || sent.contains(&guid);
                if !is_ready(member.above) || !member.origin.is_none_or(is_ready) {
                    later.push(at);
                    continue;
                }
                sent.extend(guids(member));
                if self.scope.excludes(&member.head.name) {
                    continue;
                }
                match self.line(member, &origins) {
                    Ok(line) => parts.extend(line),
                    Err(gap) => self.gaps.push(gap),
                }
            }
            if later.len() == before {
                let why = Error::new(ErrorKind::NotSent(Unsendable::ClonedFromBelow));
                let mut left = later.iter().filter_map(|at| self.members.get(*at));
                let clone = left.find(|member| member.origin.is_some());
                return Err(match clone {
                    Some(member) => why.at(Place::Dataset(member.head.name.clone())),
                    None => why,
                });
            }
            waiting = later;
        }
        Ok(parts)
    }

    /// The parts sent of one dataset.
    fn line(
        &self,
        member: &SentDataset,
        origins: &HashSet<u64>,
    ) -> std::result::Result<Vec<Part>, Gap> {
        let full = |name: &str| format!("{}@{name}", member.head.name);
        let snapshot = full(self.to);
        let source = match self.start {
            Start::Snapshot(name) if member.snapshot(name).is_some() => Some(name.as_str()),
            Start::Snapshot(name) if !self.scope.replicate => {
                return Err(Gap::NoSource { snapshot, from: full(name) });
            }
            // With -R a dataset that was made since, which is sent from its beginning; but not one
            // whose source is younger than the snapshot.
            Start::Snapshot(name) if self.dsl.by_name(&full(name)).is_ok() => {
                return Err(Gap::NotEarlier { snapshot, from: full(name) });
            }
            _ => None,
        };
        let mut from = match (source, self.start) {
            (Some(name), _) => Some(full(name)),
            (None, Start::Origin) => member.origin_name.clone(),
            (None, _) if self.scope.replicate => member.origin_name.clone(),
            (None, _) => None,
        };
        let behind = source.and_then(|name| member.position(name)).map_or(0, |at| at + 1);
        let is_whole = !matches!(self.start, Start::Snapshot(_));
        let are_all = self.scope.intermediates || is_whole;
        let mut line = Vec::new();
        for one in member.snapshots.iter().skip(behind) {
            let name = short(&one.name);
            // The origins of clones must exist for them.
            let is_needed = self.scope.replicate && origins.contains(&one.phys.guid);
            if are_all || is_needed || name == self.to {
                let next = full(name);
                let part = Part { snapshot: next.clone(), from, guid: one.phys.guid };
                line.push(part);
                from = Some(next);
            }
        }
        if line.is_empty() {
            return Err(Gap::NotEarlier { snapshot, from: full(source.unwrap_or(self.to)) });
        }
        Ok(line)
    }
}
