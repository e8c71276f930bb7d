//! Follows the sender's renames and destructions of datasets and snapshots since the earlier
//! streams: `zfs receive` of an increment of a whole tree repeats them here.
//!
//! # Theory
//!
//! Names change and GUIDs do not. The list of a package has the GUIDs of all snapshots that the
//! sender has of each dataset, and a snapshot that was received has the GUID of its source. So a
//! dataset here and one there are the same when a snapshot of one is a snapshot of the other, and:
//!
//! | here | there | what is done |
//! | --- | --- | --- |
//! | the origin of a clone is another's | it is the clone's own | the clone is promoted |
//! | a snapshot | none of that GUID | destroyed, with `-F` |
//! | a snapshot | of another name | renamed |
//! | a dataset | none that is the same | destroyed, with `-F` |
//! | a dataset | of another last name, or below another one | renamed |
//!
//! The dataset that was named keeps its name and place. One change may need another: a dataset can
//! be destroyed when those below it have moved, and two datasets or snapshots that exchange their
//! names need a third. So the changes are computed again after each one, and one that was refused
//! is retried after another has succeeded. Those that are left in the end have failed.
//!
//! This is done before the streams are received, and again after them: what is new there may be
//! above what was here.

use super::list::Sent;
use crate::datasets::{Destroy, Rename, promote};
use crate::error::{Error, Result};
use dsl::Dsl;
use dsl::names::is_within;
use pool::Pool;
use pool::live::LivePool;
use rt::Progress;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Something that the sender did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// It promoted this clone.
    Promoted(String),
    /// It destroyed this snapshot or dataset.
    Destroyed(String),
    /// It gave this snapshot or dataset another name.
    Renamed(String, String),
}

impl Followed {
    /// The name that it has before.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Promoted(name) | Self::Destroyed(name) | Self::Renamed(name, _) => name,
        }
    }
}

/// Makes a change by calling what makes it, when that may be.
type Through<'a> = dyn Fn(&Followed, &mut dyn FnMut() -> Result<()>) -> Result<()> + 'a;

/// A dataset of this pool.
struct Local {
    name: String,
    /// GUID of the snapshot that it is a clone of.
    origin: Option<u64>,
    /// GUIDs of its snapshots with their short names, oldest first.
    snapshots: Vec<(u64, String)>,
}

/// Both sides.
pub(super) struct Follow<'a> {
    /// The datasets of the sender.
    pub(super) sent: Vec<Sent>,
    /// The dataset that the one that was sent is here.
    pub(super) top: &'a str,
    /// Datasets and snapshots that the sender does not have are destroyed.
    pub(super) force: bool,
}

/// Its origin is a snapshot of its own there.
fn promoted(one: &Local, sent: &Sent) -> Option<Followed> {
    let is_own = sent.snapshots.contains_key(&one.origin?);
    is_own.then(|| Followed::Promoted(one.name.clone()))
}

/// It has another name there, or is below another dataset, which is `above` here.
fn renamed(one: &Local, sent: &Sent, above: &Local) -> Option<Followed> {
    let name = format!("{}/{}", above.name, split(&sent.name).1);
    // Nothing goes below itself: what is above it there has not moved yet.
    let is_other = name != one.name && !is_within(&name, &one.name);
    is_other.then(|| Followed::Renamed(one.name.clone(), name))
}

/// The name above another, and the last part of that.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

impl Follow<'_> {
    /// The dataset that was named here, and those below it, in the order of their names.
    fn local(&self, dsl: &Dsl) -> Result<Vec<Local>> {
        let mut out = Vec::new();
        for (name, dir) in dsl.walk() {
            if !is_within(&name, self.top) {
                continue;
            }
            let Some(head) = dsl.head(&dir?)? else { continue };
            if head.phys.is_inconsistent() {
                continue;
            }
            let short = |full: &str| full.split_once('@').map_or("", |(_, short)| short).to_owned();
            let snapshots = dsl.snapshots(&head)?;
            let origin = dsl.origin(&head.dir)?;
            out.push(Local {
                origin: origin.map(|name| dsl.by_name(&name)).transpose()?.map(|o| o.phys.guid),
                snapshots: snapshots.iter().map(|s| (s.phys.guid, short(&s.name))).collect(),
                name,
            });
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(out)
    }

    /// The sender's changes, as far as they are visible now, in the order in which to repeat them;
    /// some of them were `refused`.
    fn changes(&self, local: &[Local], refused: &BTreeMap<Followed, Error>) -> Vec<Followed> {
        let mut sent: HashMap<u64, &Sent> = HashMap::new();
        for one in &self.sent {
            sent.extend(one.snapshots.keys().map(|guid| (*guid, one)));
        }
        // The newest one: older ones go over to a clone that is promoted.
        let there = |one: &Local| one.snapshots.iter().rev().find_map(|(guid, _)| sent.get(guid));
        let promoted = local.iter().filter_map(|one| promoted(one, there(one)?));
        let mut out: Vec<Followed> = promoted.collect();
        if out.iter().any(|change| !refused.contains_key(change)) {
            // Whose a snapshot is decides which dataset is which.
            return out;
        }
        for one in local {
            for (guid, short) in &one.snapshots {
                let full = format!("{}@{short}", one.name);
                match sent.get(guid).and_then(|sent| sent.snapshots.get(guid)) {
                    None if self.force => out.push(Followed::Destroyed(full)),
                    Some(name) if name != short => {
                        out.push(Followed::Renamed(full, format!("{}@{name}", one.name)));
                    }
                    _ => {}
                }
            }
        }
        let below = || local.iter().filter(|one| one.name != self.top);
        // Those below others first.
        for one in below().rev().filter(|one| self.force && there(one).is_none()) {
            out.push(Followed::Destroyed(one.name.clone()));
        }
        let mut here: HashMap<u64, &Local> = HashMap::new();
        for one in local {
            here.extend(one.snapshots.iter().map(|(guid, _)| (*guid, one)));
        }
        for one in below() {
            out.extend(there(one).and_then(|sent| renamed(one, sent, here.get(&sent.above)?)));
        }
        out
    }

    /// The changes that would be made, as far as they do not depend on earlier ones.
    pub(super) fn plan(&self, view: &Pool) -> Result<Vec<Followed>> {
        let dsl = view.datasets();
        let local = self.local(&dsl)?;
        Ok(self.changes(&local, &BTreeMap::new()))
    }

    /// Does what the sender did, each change through `with`. Returns what was refused, with the
    /// reasons.
    ///
    /// # Errors
    /// The pool stopped, or the work was called off.
    pub(super) fn run(
        &self,
        pool: &LivePool,
        progress: &Progress,
        with: &Through<'_>,
    ) -> Result<BTreeMap<Followed, Error>> {
        let mut refused = BTreeMap::new();
        // Each dataset moves twice at most, and each snapshot once; a list that contradicts itself
        // has an end too.
        let local = self.look(pool)?;
        let all: usize = local.iter().map(|one| 2 + one.snapshots.len()).sum();
        for _ in 0..all.saturating_mul(2) {
            let local = self.look(pool)?;
            let changes = self.changes(&local, &refused);
            let next = changes.iter().find(|change| !refused.contains_key(change)).cloned();
            let Some(change) = next else { break };
            // Where nothing is left to be done it does not matter.
            progress.check()?;
            let step = first_step(&change, &local, &changes);
            match with(&step, &mut || apply(&step, pool, progress)) {
                Ok(()) => refused.clear(),
                Err(e) if e.kind().ends_all() => return Err(e),
                Err(e) => drop(refused.insert(change, e)),
            }
        }
        let still: BTreeSet<Followed> =
            self.changes(&self.look(pool)?, &refused).into_iter().collect();
        refused.retain(|change, _| still.contains(change));
        Ok(refused)
    }

    fn look(&self, pool: &LivePool) -> Result<Vec<Local>> {
        let view = pool.view();
        let dsl = view.datasets();
        self.local(&dsl)
    }
}

/// A change, or what makes room for it: where another dataset has the name still, the one that is
/// to get it goes beside it, so that the other finds its own name free. So does a snapshot, when
/// the one of that name is to get another one.
fn first_step(change: &Followed, local: &[Local], changes: &[Followed]) -> Followed {
    let Followed::Renamed(from, to) = change else { return change.clone() };
    let (parent, guid) = match from.split_once('@') {
        Some((name, short)) => {
            let is_free = !changes.iter().any(|c| matches!(c, Followed::Renamed(n, _) if n == to));
            let of = local.iter().filter(|_| !is_free).find(|one| one.name == name);
            let mut snapshots = of.map_or(&[][..], |one| &one.snapshots).iter();
            (format!("{name}@"), snapshots.find(|(_, own)| own == short).map(|(guid, _)| *guid))
        }
        None => {
            let is_free = !local.iter().any(|other| other.name == *to);
            let one = local.iter().filter(|_| !is_free).find(|one| one.name == *from);
            let first = one.map(|one| one.snapshots.first().map_or(0, |(guid, _)| *guid));
            (format!("{}/", split(to).0), first)
        }
    };
    let aside = guid.map(|guid| format!("{parent}recv-{guid:x}"));
    let aside = aside.filter(|aside| aside != from);
    aside.map_or_else(|| change.clone(), |aside| Followed::Renamed(from.clone(), aside))
}

fn apply(change: &Followed, pool: &LivePool, progress: &Progress) -> Result<()> {
    match change {
        Followed::Promoted(name) => promote(pool, name),
        Followed::Renamed(from, to) => Rename::new(from, to)?.run(pool),
        Followed::Destroyed(name) => Destroy::new(name).plan(pool.view())?.run(pool, progress),
    }
}
