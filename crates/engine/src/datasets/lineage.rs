//! Operations on a dataset and its line of snapshots: clones, promotion, rollback, renames.

use super::create::{ROOT, below_missing, make_above};
use super::destroy::{clones_after, younger};
use super::names::{one_pool, split};
use super::reserve::whole_volume;
use super::upgrade::upgrade;
use crate::error::{Error, Place, Result, Rule};
use crate::keys::is_of_key;
use crate::owners::OwnerQuota;
use crate::values;
use dsl::{DatasetKind, Refusal};
use pool::Pool;
use pool::live::LivePool;

/// A clone to be made of a snapshot.
///
/// ```
/// use engine::datasets::{self, MakeClone};
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::filesystem("tank/home")?.run(&pool)?;
/// datasets::snapshot(&pool, &["tank/home@monday"], false, Vec::new())?;
/// MakeClone::new("tank/home@monday", "tank/trials/home")?
///     .with_parents()
///     .set("readonly", "on")
///     .run(&pool)?;
/// assert_eq!(pool.filesystem("tank/trials/home")?.root()?.links, 2);
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MakeClone {
    origin: String,
    name: String,
    properties: Vec<(String, String)>,
    quotas: Vec<OwnerQuota>,
    parents: bool,
}

impl MakeClone {
    /// The clone `name` of the snapshot `origin`.
    ///
    /// # Errors
    /// They would be of different pools.
    pub fn new(origin: &str, name: &str) -> Result<Self> {
        one_pool(origin, name)?;
        let (origin, name) = (origin.to_owned(), name.to_owned());
        let (properties, quotas) = (Vec::new(), Vec::new());
        Ok(Self { origin, name, properties, quotas, parents: false })
    }

    /// Gives it a property, from a text as users write it. It is judged when the clone is made:
    /// the origin says whether that is a file system or a volume.
    #[must_use]
    pub fn set(mut self, property: &str, value: &str) -> Self {
        self.properties.push((property.to_owned(), value.to_owned()));
        self
    }

    /// Gives a clone of a file system this quota of an owner of files, beside those of its origin.
    #[must_use]
    pub fn limit(mut self, quota: OwnerQuota) -> Self {
        self.quotas.push(quota);
        self
    }

    /// Makes what is missing above it too, and nothing when it is there.
    #[must_use]
    pub fn with_parents(mut self) -> Self {
        self.parents = true;
        self
    }

    /// Makes it; durable when this returns.
    ///
    /// # Errors
    /// It was not made, or cannot have a quota of an owner and was destroyed again. Missing parents
    /// may have been made.
    pub fn run(&self, pool: &LivePool) -> Result<()> {
        let (origin, kind) = {
            let dsl = pool.view().datasets();
            let origin = dsl.by_name(&self.origin);
            let origin = origin.map_err(|e| Error::from(e).of(&self.origin))?;
            let kind = dsl.kind(&origin);
            (origin, kind)
        };
        let is_auto = |(name, value): &&(String, String)| {
            kind == DatasetKind::Volume && name == "refreservation" && value == "auto"
        };
        let is_refused = |name: &str| is_of_key(name) && name != "encryption";
        if let Some((name, _)) = self.properties.iter().find(|(name, _)| is_refused(name)) {
            return Err(Error::against(Rule::KeyOfClone).at(Place::Property(name.clone())));
        }
        let (auto, given): (Vec<_>, Vec<_>) = self.properties.iter().partition(is_auto);
        let given = given.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut changes = values::parse_all(given, kind, false)?;
        if !auto.is_empty() {
            changes.push(whole_volume(pool, &origin)?);
        }
        if self.parents {
            let is_there = {
                let dsl = pool.view().datasets();
                dsl.dir_by_name(&self.name).is_ok()
            };
            if is_there {
                return Ok(());
            }
            make_above(pool, &self.name, ROOT)?;
        }
        let wanted = values::number(&changes, "version");
        changes.retain(|change| change.name != "version");
        if let Some(wanted) = wanted {
            // It is that of the origin, which a clone may be above and not below.
            let dsl = pool.view().datasets();
            let has = dsl.property(&origin, &Default::default(), "version")?;
            let has = has.and_then(|p| p.number()).unwrap_or(0);
            if wanted < has {
                return Err(dsl::Error::refused(&self.name, Refusal::NewerVersion(has)).into());
            }
        }
        OwnerQuota::check_new(pool, (&self.name, kind), &self.quotas)
            .map_err(|e| below_missing(&self.name, e))?;
        let made = pool.clone_snapshot(&self.origin, &self.name, changes);
        made.map_err(|e| below_missing(&self.name, e.into()))?;
        if let Some(wanted) = wanted {
            upgrade(pool, &[&self.name], false, wanted)?;
        }
        OwnerQuota::set_new(pool, &self.name, &self.quotas)
    }
}

/// Makes a clone independent of its origin, which becomes its clone.
///
/// # Errors
/// It is not a clone, or the names of snapshots collide.
pub fn promote(pool: &LivePool, name: &str) -> Result<()> {
    Ok(pool.promote(name)?)
}

/// How to treat snapshots and bookmarks that are younger than the state to return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewerSnapshots {
    /// They stay: if there are any, nothing is done.
    Keep,
    /// They are destroyed, unless clones were made of them.
    Destroy,
    /// They are destroyed, and their clones with all that is in these.
    DestroyWithClones,
}

/// Checks that there is the snapshot, and that nothing younger is in the way of a rollback to it.
/// [`rollback`] may be refused all the same, for what only shows in the pool that is open for
/// writing, such as a hold.
///
/// # Errors
/// There is no such snapshot; younger ones are in the way.
pub fn may_roll_back(pool: &Pool, snapshot: &str, way: NewerSnapshots) -> Result<()> {
    let dsl = pool.datasets();
    match younger(&dsl, snapshot)?.last() {
        Some(last) if way == NewerSnapshots::Keep => {
            Err(dsl::Error::refused(snapshot, Refusal::HasYounger(last.name)).into())
        }
        _ => Ok(()),
    }
}

/// Takes a file system or volume back to a snapshot. Clones go before, each in a task of its own,
/// and only if nothing of all that is to go is held.
///
/// # Errors
/// Younger ones are in the way, held, or cloned.
pub fn rollback(pool: &LivePool, snapshot: &str, younger: NewerSnapshots) -> Result<()> {
    if !snapshot.contains('@') {
        let why = Refusal::NotASnapshot;
        return Err(dsl::Error::refused(snapshot, why).into());
    }
    if younger == NewerSnapshots::DestroyWithClones {
        let clones = {
            let dsl = pool.view().datasets();
            // Its clones are not given up for what cannot be done.
            pool.check_unused(&dsl.by_name(snapshot.split('@').next().unwrap_or_default())?)?;
            clones_after(&dsl, snapshot)?
        };
        clones.run_within(pool)?;
    }
    Ok(pool.rollback(snapshot, younger != NewerSnapshots::Keep)?)
}

/// Another name for a file system or volume with all below, or for a snapshot.
///
/// ```
/// use engine::datasets::Rename;
/// use engine::{ErrorKind, Rule};
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::filesystem("tank/home")?.run(&pool)?;
/// Rename::new("tank/home", "tank/users")?.run(&pool)?;
/// assert!(pool.filesystem("tank/users").is_ok() && pool.filesystem("tank/home").is_err());
/// // What no pool does is refused before one is opened.
/// let error = Rename::new("tank/users", "other/users").unwrap_err();
/// assert_eq!(error.kind(), &ErrorKind::Against(Rule::OnePool));
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rename {
    from: String,
    to: String,
    what: Renamed,
    parents: bool,
}

#[derive(Clone, Debug)]
enum Renamed {
    Head,
    /// A snapshot, which gets this short name; or those of its name of all datasets below as well.
    Snapshot {
        short: String,
        recursive: bool,
    },
}

impl Rename {
    /// `from` is called `to` from now on; of a snapshot `to` can be the short name alone.
    ///
    /// # Errors
    /// These names cannot be of the same thing.
    pub fn new(from: &str, to: &str) -> Result<Self> {
        let wrong = |rule| Err(Error::against(rule).at(Place::Dataset(to.to_owned())));
        if from.contains('#') {
            return wrong(Rule::BookmarkRename);
        }
        let what = match (split(from), to.split_once('@')) {
            (None, _) if to.contains(['@', '#']) => return wrong(Rule::HeadName),
            (None, _) => {
                one_pool(from, to)?;
                Renamed::Head
            }
            (Some((head, _)), Some((base, short))) if base.is_empty() || base == head => {
                Renamed::Snapshot { short: short.to_owned(), recursive: false }
            }
            (Some(_), None) if !to.contains('/') => {
                Renamed::Snapshot { short: to.to_owned(), recursive: false }
            }
            (Some(_), _) => return wrong(Rule::SameDataset),
        };
        Ok(Self { from: from.to_owned(), to: to.to_owned(), what, parents: false })
    }

    /// Snapshots of that name of all datasets below too.
    ///
    /// # Errors
    /// It is not a snapshot.
    pub fn recursive(mut self) -> Result<Self> {
        match &mut self.what {
            Renamed::Head => Err(Error::against(Rule::RecursiveRename)),
            Renamed::Snapshot { recursive, .. } => {
                *recursive = true;
                Ok(self)
            }
        }
    }

    /// Makes what is missing above the new name.
    #[must_use]
    pub fn with_parents(mut self) -> Self {
        self.parents = true;
        self
    }

    /// Checks that do not depend on missing parents come before these are made.
    fn check_with_parents(&self, pool: &LivePool) -> Result<()> {
        let dsl = pool.view().datasets();
        Ok(dsl::write::check_rename_with_parents(&dsl, &self.from, &self.to)?)
    }

    /// Renames it; durable when this returns.
    ///
    /// # Errors
    /// It has its old name. Missing parents of the new one may have been made.
    pub fn run(&self, pool: &LivePool) -> Result<()> {
        match &self.what {
            Renamed::Snapshot { short, recursive } => {
                Ok(pool.rename_snapshot(&self.from, short, *recursive)?)
            }
            Renamed::Head => {
                if self.parents {
                    self.check_with_parents(pool)?;
                    make_above(pool, &self.to, ROOT)?;
                }
                let done = pool.rename(&self.from, &self.to);
                done.map_err(|e| below_missing(&self.to, e.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn rule(renamed: Result<Rename>) -> Option<Rule> {
        match renamed.err()?.kind() {
            ErrorKind::Against(rule) => Some(*rule),
            _ => None,
        }
    }

    #[test]
    fn what_is_renamed_stays_what_it_is() {
        for (from, to, why) in [
            ("p/a", "p/b", None),
            ("p/a@x", "y", None),
            ("p/a@x", "@y", None),
            ("p/a@x", "p/a@y", None),
            ("p/a@x", "p/b@y", Some(Rule::SameDataset)),
            ("p/a@x", "p/b", Some(Rule::SameDataset)),
            ("p/a", "p/a@x", Some(Rule::HeadName)),
            ("p/a", "q/a", Some(Rule::OnePool)),
            ("p/a#b", "p/a#c", Some(Rule::BookmarkRename)),
        ] {
            assert_eq!(rule(Rename::new(from, to)), why, "{from} to {to}");
        }
        let head = Rename::new("p/a", "p/b").and_then(Rename::recursive);
        assert_eq!(rule(head), Some(Rule::RecursiveRename));
    }
}
