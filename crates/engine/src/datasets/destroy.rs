//! Destroying: what a request means, in which order everything in it can go, and what that gives
//! back.

use super::names::{heads_of, split};
use crate::error::{Error, Hint, Place, Result, Rule};
use dsl::{Action, Dataset, Dsl, Refusal};
use ondisk::dsl::RECV_DIR_NAME;
use pool::Pool;
use pool::live::LivePool;
use rt::Progress;
use std::collections::HashSet;

/// Destroys a file system or volume, a bookmark, or snapshots of a dataset, where `DATASET@A,B,C`
/// names several, `DATASET@A%B` all from A to B, `DATASET@%B` and `@A%` all before and after.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::datasets::{Create, Destroy, snapshot};
///
/// Create::filesystem("tank/old/below")?.with_parents().run(&pool)?;
/// snapshot(&pool, &["tank/old@a"], true, Vec::new())?;
/// let plan = Destroy::new("tank/old").recursive().plan(pool.view())?;
/// let names: Vec<_> = plan.names().collect();
/// assert_eq!(names, ["tank/old/below@a", "tank/old/below", "tank/old@a", "tank/old"]);
/// plan.run(&pool, &engine::Progress::new())?;
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Destroy {
    name: String,
    recursive: bool,
    clones: bool,
    deferred: bool,
}

/// One sync task of a destruction.
#[derive(Clone, Debug)]
enum Step {
    /// Snapshots of one dataset, or of one name.
    Snapshots(Vec<String>),
    /// A file system or volume.
    Head(String),
    /// A bookmark.
    Bookmark(String),
}

/// The datasets and snapshots to destroy, in an order in which that is possible.
#[derive(Clone, Debug)]
pub struct DestroyPlan {
    name: String,
    steps: Vec<Step>,
    deferred: bool,
}

impl Destroy {
    /// Destroys what is named, and nothing else.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), recursive: false, clones: false, deferred: false }
    }

    /// All below too, and the snapshots of the same names of all below.
    #[must_use]
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// All below, and clones outside of it.
    #[must_use]
    pub fn with_clones(mut self) -> Self {
        self.clones = true;
        self.recursive()
    }

    /// Snapshots that are held or cloned go when they are not any more.
    #[must_use]
    pub fn deferred(mut self) -> Self {
        self.deferred = true;
        self
    }

    /// Returns what would be destroyed, in order.
    ///
    /// # Errors
    /// There is no such dataset, or something is below it, or clones of it are in the way. Whether
    /// snapshots that are named are cloned is seen when they are destroyed.
    pub fn plan(&self, pool: &Pool) -> Result<DestroyPlan> {
        let dsl = pool.datasets();
        let steps = self.steps(&dsl)?;
        Ok(DestroyPlan { name: self.name.clone(), steps, deferred: self.deferred })
    }

    fn steps(&self, dsl: &Dsl) -> Result<Vec<Step>> {
        let name = &self.name;
        let mut order = Order::new(dsl, self.recursive, self.clones);
        if name.contains('#') {
            return Ok(vec![Step::Bookmark(name.clone())]);
        }
        if let Some((head, spec)) = split(name) {
            let bases = match self.recursive {
                true => heads_of(dsl, head)?.into_iter().map(|h| h.name).collect(),
                false => vec![head.to_owned()],
            };
            let mut names = Vec::new();
            for base in &bases {
                names.extend(chosen(dsl, base, spec, bases.len() == 1)?);
            }
            if names.is_empty() {
                return Err(Error::against(Rule::NoSnapshots).at(Place::Dataset(name.clone())));
            }
            if self.clones {
                for snapshot in &names {
                    order.clones_of(&dsl.by_name(snapshot)?)?;
                }
            }
            order.steps.push(Step::Snapshots(names));
            return Ok(order.steps);
        }
        for head in heads_of(dsl, name)? {
            order.destroyed.insert(head.name);
        }
        order.tree(name)?;
        Ok(order.steps)
    }
}

impl DestroyPlan {
    /// The names of what goes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.steps.iter().flat_map(|step| step.names().iter().map(String::as_str));
        all.filter(|name| !name.ends_with(RECV_DIR_NAME))
    }

    /// Bytes that come free when snapshots go; clones that go with them are not counted. Of file
    /// systems and volumes it would be a guess: what is destroyed together shares blocks.
    ///
    /// # Errors
    /// A dead list cannot be read.
    pub fn reclaims(&self, pool: &Pool) -> Result<Option<u64>> {
        match self.steps.last() {
            Some(Step::Snapshots(names)) if self.name.contains('@') => {
                let dsl = pool.datasets();
                Ok(Some(reclaimed(&dsl, names)?))
            }
            _ => Ok(None),
        }
    }

    /// Destroys all of it; durable when this returns. Cancelling takes effect between two steps.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: some of it is in use ([`Refusal::Busy`]), held ([`Refusal::Held`])
    /// or cloned ([`Refusal::HasClones`]), and nothing is done. Or a step failed, and those before
    /// it are done.
    ///
    /// [`ErrorKind::Refused`]: crate::ErrorKind::Refused
    pub fn run(&self, pool: &LivePool, progress: &Progress) -> Result<()> {
        if !self.name.contains(['@', '#']) {
            // Also when there is nothing in it that could go.
            pool.permit(Action::Destroy, &self.name)?;
        }
        self.check(pool)?;
        for step in &self.steps {
            progress.check()?;
            step.run(pool, self.deferred).map_err(|e| match step.names() {
                [one] => e.of(one),
                _ => e.of(&self.name),
            })?;
            progress.add(step.names().len() as u64, 0);
        }
        Ok(())
    }

    /// Refuses what keeps any of it. One step alone looks for itself.
    fn check(&self, pool: &LivePool) -> Result<()> {
        let steps = self.steps.iter().filter(|step| !matches!(step, Step::Bookmark(_)));
        let names: Vec<String> = steps.flat_map(Step::names).cloned().collect();
        if self.steps.len() < 2 {
            return Ok(());
        }
        pool.check_destroyable(&names, self.deferred).map_err(|e| {
            let e = Error::from(e);
            let kept = e.dataset().unwrap_or(&self.name).to_owned();
            e.of(&kept)
        })
    }

    /// The same as a part of another operation, which is what fails.
    pub(super) fn run_within(&self, pool: &LivePool) -> Result<()> {
        self.check(pool)?;
        self.steps.iter().try_for_each(|step| step.run(pool, self.deferred))
    }

    /// The snapshots among it.
    fn snapshots(&self) -> impl Iterator<Item = &String> {
        let all = self.steps.iter().filter(|step| matches!(step, Step::Snapshots(_)));
        all.flat_map(Step::names)
    }
}

impl Step {
    fn names(&self) -> &[String] {
        match self {
            Self::Snapshots(names) => names,
            Self::Head(name) | Self::Bookmark(name) => std::slice::from_ref(name),
        }
    }

    fn run(&self, pool: &LivePool, deferred: bool) -> Result<()> {
        Ok(match self {
            Self::Head(name) => pool.destroy_dataset(name),
            Self::Bookmark(name) => pool.destroy_bookmark(name),
            Self::Snapshots(names) => pool.destroy_snapshots(names, deferred),
        }?)
    }
}

/// The snapshots of its dataset that are younger than `snapshot`, oldest first.
pub(super) fn younger(dsl: &Dsl, snapshot: &str) -> Result<impl Iterator<Item = Dataset>> {
    let since = dsl.by_name(snapshot)?.object;
    let head = split(snapshot).map_or("", |(head, _)| head);
    let all = dsl.snapshots(&dsl.by_name(head)?)?;
    Ok(all.into_iter().skip_while(move |s| s.object != since).skip(1))
}

/// The clones of all snapshots of its dataset that are younger than `snapshot`, when none of all
/// these is held.
pub(super) fn clones_after(dsl: &Dsl, snapshot: &str) -> Result<DestroyPlan> {
    let mut order = Order::new(dsl, true, true);
    for one in younger(dsl, snapshot)? {
        order.clones_of(&one)?;
    }
    let plan = DestroyPlan { name: snapshot.to_owned(), steps: order.steps, deferred: false };
    let mut destroyed: Vec<Dataset> = younger(dsl, snapshot)?.collect();
    for name in plan.snapshots() {
        destroyed.push(dsl.by_name(name)?);
    }
    for one in &destroyed {
        if let Some(hold) = dsl.holds(one)?.into_iter().next() {
            return Err(dsl::Error::refused(&one.name, Refusal::Held(hold.tag)).into());
        }
    }
    Ok(plan)
}

/// Finds an order in which everything can go.
struct Order<'a> {
    dsl: &'a Dsl,
    recursive: bool,
    clones: bool,
    /// Heads that go anyway, so that being a clone of another does not save them.
    destroyed: HashSet<String>,
    begun: HashSet<String>,
    /// Heads that go when what is looked at now is gone.
    open: Vec<String>,
    steps: Vec<Step>,
}

impl<'a> Order<'a> {
    fn new(dsl: &'a Dsl, recursive: bool, clones: bool) -> Self {
        let (destroyed, begun) = (HashSet::new(), HashSet::new());
        let (open, steps) = (Vec::new(), Vec::new());
        Self { dsl, recursive, clones, destroyed, begun, open, steps }
    }

    /// A head with everything below it and its snapshots. Whether a head that is destroyed alone
    /// has children or snapshots, or is the pool's root, is checked here, before it is unmounted;
    /// all other rules are the pool's.
    fn tree(&mut self, name: &str) -> Result<()> {
        if !self.begun.insert(name.to_owned()) {
            return Ok(());
        }
        self.open.push(name.to_owned());
        self.tree_of_open(name)?;
        self.open.pop();
        Ok(())
    }

    fn tree_of_open(&mut self, name: &str) -> Result<()> {
        self.half_received(name);
        if self.recursive {
            let dir = self.dsl.dir_by_name(name)?;
            for child in self.dsl.children(&dir)? {
                self.tree(&child.name)?;
            }
            let head = self.dsl.by_name(name)?;
            let snapshots = self.dsl.snapshots(&head)?;
            for snapshot in &snapshots {
                self.clones_of(snapshot)?;
            }
            if !snapshots.is_empty() {
                let names = snapshots.into_iter().map(|s| s.name).collect();
                self.steps.push(Step::Snapshots(names));
            }
        }
        match (name.contains('/'), self.recursive) {
            (true, recursive) => {
                if !recursive {
                    self.refuse_full(name)?;
                }
                self.steps.push(Step::Head(name.to_owned()));
                Ok(())
            }
            // The pool's own file system stays when all in it goes.
            (false, true) => Ok(()),
            (false, false) => {
                Err(Error::from(dsl::Error::refused(name, Refusal::PoolRoot)).of(name))
            }
        }
    }

    /// A partly received state of a head is destroyed with it.
    fn half_received(&mut self, name: &str) {
        let hidden = format!("{name}/{RECV_DIR_NAME}");
        if self.dsl.by_name(&hidden).is_ok() {
            self.begun.insert(hidden.clone());
            self.destroyed.insert(hidden.clone());
            self.steps.push(Step::Head(hidden));
        }
    }

    fn refuse_full(&self, name: &str) -> Result<()> {
        let refused = |why| Error::from(dsl::Error::refused(name, why)).of(name);
        let last = |name: &str| name.rsplit(['/', '@']).next().unwrap_or_default().to_owned();
        let dir = self.dsl.dir_by_name(name)?;
        if let Some(child) = self.dsl.children(&dir)?.into_iter().next() {
            return Err(refused(Refusal::HasChildren(last(&child.name))));
        }
        let head = self.dsl.by_name(name)?;
        match self.dsl.snapshots(&head)?.into_iter().next() {
            Some(snapshot) => {
                let kind = self.dsl.kind(&head);
                Err(refused(Refusal::HasSnapshots(kind, last(&snapshot.name))))
            }
            None => Ok(()),
        }
    }

    fn clones_of(&mut self, snapshot: &Dataset) -> Result<()> {
        for clone in self.dsl.clones(snapshot)? {
            if self.open.contains(&clone) {
                // What the snapshot lies in goes before its own clone: neither can be the first.
                let why = Refusal::HasClones(vec![clone.clone()]);
                let error = Error::from(dsl::Error::refused(&snapshot.name, why));
                return Err(error.with_hint(Hint::Promote(clone)).of(&snapshot.name));
            }
            if self.clones || self.destroyed.contains(&clone) {
                self.tree(&clone)?;
            } else {
                let clones = vec![clone];
                let why = Refusal::HasClones(clones.clone());
                let hint = Hint::DestroyClones { clones, are_examples: true };
                let error = Error::from(dsl::Error::refused(&snapshot.name, why));
                return Err(error.with_hint(hint).of(&snapshot.name));
            }
        }
        Ok(())
    }
}

/// The snapshots of `head` that `a,b%c` means. `strict`: each must be there.
fn chosen(dsl: &Dsl, head: &str, spec: &str, strict: bool) -> Result<Vec<String>> {
    let all = dsl.snapshots(&dsl.by_name(head)?)?;
    let short = |d: &Dataset| split(&d.name).map_or("", |(_, s)| s).to_owned();
    let position = |name: &str| all.iter().position(|d| short(d) == name);
    let mut destroyed = vec![false; all.len()];
    for part in spec.split(',') {
        let range = match part.split_once('%') {
            None => position(part).map(|at| (at, at)),
            Some((from, to)) => {
                let first = if from.is_empty() { Some(0) } else { position(from) };
                let last = match to.is_empty() {
                    true => all.len().checked_sub(1),
                    false => position(to),
                };
                first.zip(last).filter(|(a, b)| a <= b)
            }
        };
        match range {
            Some((from, to)) => destroyed[from..=to].fill(true),
            None if strict && !spec.contains([',', '%']) => {
                let name = format!("{head}@{part}");
                return Err(Error::no_dataset(&name).of(&name));
            }
            None => {}
        }
    }
    let names = all.iter().zip(destroyed).filter(|(_, destroyed)| *destroyed);
    Ok(names.map(|(d, _)| d.name.clone()).collect())
}

/// Bytes that nothing has any more when these snapshots are gone: of each run of neighbours what
/// died within it, and was born after the snapshot before it.
fn reclaimed(dsl: &Dsl, names: &[String]) -> Result<u64> {
    let destroyed: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut sum = 0u64;
    let mut heads_seen = HashSet::new();
    for name in names {
        let head = split(name).map_or("", |(head, _)| head);
        if !heads_seen.insert(head) {
            continue;
        }
        let head = dsl.by_name(head)?;
        let all = dsl.snapshots(&head)?;
        // Where the run began: everything born before this is shared with what stays.
        let mut born_after = None;
        for at in 0..all.len() {
            let dies = destroyed.contains(all[at].name.as_str());
            if !dies {
                born_after = None;
                continue;
            }
            let since = *born_after.get_or_insert(all[at].phys.prev_snap_txg);
            let next = all.get(at + 1).unwrap_or(&head);
            let whole = dsl.deadlist_space(next.phys.deadlist, u64::MAX)?.used;
            // Births of the txg of a snapshot itself belong to the snapshot.
            let older = dsl.deadlist_space(next.phys.deadlist, since)?.used;
            sum = sum.saturating_add(whole.saturating_sub(older));
        }
    }
    Ok(sum)
}
