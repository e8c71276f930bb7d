//! `zinc zfs destroy`: file systems, volumes, snapshots (also lists and ranges of them), bookmarks.

use super::below::{heads, split};
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::live::{self, LiveHow};
use crate::ui;
use engine::Refusal;
use engine::nicenum::nicenum;
use engine::{Dataset, Dsl, LivePool};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `zinc zfs destroy`.
#[derive(clap::Args)]
#[command(after_help = "\
-d PATH names where to search for devices, as everywhere; -d without a path that exists is OpenZFS's
-d, and destroys snapshots that are held or cloned as soon as they are not any more (--defer).
Snapshots: DATASET@A,B,C names several, DATASET@A%B all from A to B, DATASET@%B and @A% all before
and after.")]
pub struct Args {
    /// A place to search for devices (repeatable); without one: defer, as --defer
    #[arg(short = 'd', value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    defer_or_path: Vec<String>,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveHow,
    /// Destroy all below too, and snapshots of the same name of all below
    #[arg(short = 'r')]
    recursive: bool,
    /// Destroy clones outside too
    #[arg(short = 'R')]
    clones: bool,
    /// Accepted; zinc has nothing mounted here
    #[arg(short = 'f')]
    force: bool,
    /// Print what would be destroyed, and destroy nothing
    #[arg(short = 'n')]
    dry: bool,
    /// Print what is destroyed
    #[arg(short = 'v')]
    verbose: bool,
    /// Print it for programs
    #[arg(short = 'p')]
    parsable: bool,
    /// Snapshots that are held or cloned go when they are not any more
    #[arg(long)]
    defer: bool,
    /// What to destroy
    #[arg(value_name = "DATASET|SNAPSHOT|BOOKMARK")]
    names: Vec<String>,
}

/// One sync task of a destruction.
pub enum Step {
    /// Snapshots of one dataset, or of one name.
    Snapshots(Vec<String>),
    /// A file system or volume.
    Head(String),
    /// A bookmark.
    Bookmark(String),
}

impl Args {
    /// Runs it.
    pub fn run(mut self) -> Result<ExitCode, Failure> {
        for value in std::mem::take(&mut self.defer_or_path) {
            if !value.is_empty() && crate::asked::path(Path::new(&value)).exists() {
                self.search.push(PathBuf::from(value));
                continue;
            }
            self.defer = true;
            self.names.extend((!value.is_empty()).then_some(value));
        }
        let [name] = self.names.as_slice() else {
            return Err(Failure::usage("destroy takes one dataset, or snapshots of one"));
        };
        if self.dry {
            let pool = live::look(&self.search, &self.how, name)?;
            let steps = self.plan(pool.dsl(), name)?;
            self.say(pool.dsl(), &steps)?;
            return Ok(ExitCode::SUCCESS);
        }
        live::change(&self.search, &self.how, name, |pool| {
            let still = pool.view().hold_still();
            let steps = self.plan(pool.view().dsl(), name)?;
            drop(still);
            self.say(pool.view().dsl(), &steps)?;
            steps.iter().try_for_each(|step| {
                crate::asked::check()?;
                run(pool, name, step, self.defer)
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// What is to be done, in order.
    fn plan(&self, dsl: &Dsl, name: &str) -> Result<Vec<Step>, Failure> {
        let mut plan = Plan::new(dsl, self.recursive || self.clones, self.clones);
        if name.contains('#') {
            plan.steps.push(Step::Bookmark(name.to_owned()));
            return Ok(plan.steps);
        }
        if let Some((head, spec)) = split(name) {
            let bases = match self.recursive || self.clones {
                true => heads(dsl, head)?.into_iter().map(|h| h.name).collect(),
                false => vec![head.to_owned()],
            };
            let mut names = Vec::new();
            for base in &bases {
                names.extend(chosen(dsl, base, spec, bases.len() == 1)?);
            }
            if names.is_empty() {
                return Err(Failure::new(format!(
                    "could not find any snapshots to destroy in '{name}'; check snapshot names"
                )));
            }
            if self.clones {
                for snapshot in &names {
                    plan.clones_of(&dsl.by_name(snapshot)?)?;
                }
            }
            plan.steps.push(Step::Snapshots(names));
            return Ok(plan.steps);
        }
        for head in heads(dsl, name)? {
            plan.doomed.insert(head.name);
        }
        plan.tree(name)?;
        Ok(plan.steps)
    }

    fn say(&self, dsl: &Dsl, steps: &[Step]) -> Result<(), Failure> {
        if !(self.verbose || self.parsable) {
            return Ok(());
        }
        let will = if self.dry { "would" } else { "will" };
        let (mut text, mut bytes) = (String::new(), None);
        for step in steps {
            let names = match step {
                Step::Snapshots(names) => {
                    let more = reclaimed(dsl, names)?;
                    bytes = Some(bytes.unwrap_or(0u64).saturating_add(more));
                    names.as_slice()
                }
                Step::Head(name) | Step::Bookmark(name) => std::slice::from_ref(name),
            };
            for name in names {
                text.push_str(&match self.parsable {
                    true => format!("destroy\t{name}\n"),
                    false => format!("{will} destroy {name}\n"),
                });
            }
        }
        // Of file systems it would be a guess: what is destroyed together shares blocks.
        if let (Some(bytes), true) = (bytes, steps.iter().all(|s| matches!(s, Step::Snapshots(_))))
        {
            text.push_str(&match self.parsable {
                true => format!("reclaim\t{bytes}\n"),
                false => format!("{will} reclaim {}\n", nicenum(bytes)),
            });
        }
        ui::out(&text);
        Ok(())
    }
}

/// Does one step of a destruction that began with `name`.
pub fn run(pool: &LivePool, name: &str, step: &Step, defer: bool) -> Result<(), Failure> {
    match step {
        Step::Head(name) => pool.destroy_dataset(name).map_err(|e| cannot("destroy", name, e)),
        Step::Bookmark(name) => pool.destroy_bookmark(name).map_err(|e| cannot("destroy", name, e)),
        Step::Snapshots(names) => {
            let name = if names.len() == 1 { &names[0] } else { name };
            pool.destroy_snapshots(names, defer).map_err(|e| cannot("destroy", name, e))
        }
    }
}

/// How to destroy the clones of all snapshots of its dataset that are younger than `snapshot`.
pub fn clones_after(dsl: &Dsl, snapshot: &str) -> Result<Vec<Step>, Failure> {
    let since = dsl.by_name(snapshot)?;
    let head = split(snapshot).map_or("", |(head, _)| head);
    let mut plan = Plan::new(dsl, true, true);
    let all = dsl.snapshots(&dsl.by_name(head)?)?;
    for younger in all.iter().skip_while(|s| s.object != since.object).skip(1) {
        plan.clones_of(younger)?;
    }
    Ok(plan.steps)
}

/// Refuses a rollback to `snapshot` that would destroy a part and then meet a hold: of what the
/// steps destroy, or of a younger snapshot.
pub fn refuse_held(dsl: &Dsl, snapshot: &str, steps: &[Step]) -> Result<(), Failure> {
    let since = dsl.by_name(snapshot)?;
    let head = split(snapshot).map_or("", |(head, _)| head);
    let all = dsl.snapshots(&dsl.by_name(head)?)?;
    let younger = all.into_iter().skip_while(|s| s.object != since.object).skip(1);
    let mut doomed: Vec<Dataset> = younger.collect();
    for step in steps {
        if let Step::Snapshots(names) = step {
            for name in names {
                doomed.push(dsl.by_name(name)?);
            }
        }
    }
    for one in &doomed {
        if let Some(hold) = dsl.holds(one)?.into_iter().next() {
            let why = Refusal::Held(hold.tag);
            let held = engine::errors::DslError::Refused { name: one.name.clone(), why };
            return Err(cannot("rollback to", snapshot, held));
        }
    }
    Ok(())
}

/// Finds an order in which everything can go.
struct Plan<'a> {
    dsl: &'a Dsl,
    recursive: bool,
    clones: bool,
    /// Heads that go anyway, so that being a clone of another does not save them.
    doomed: HashSet<String>,
    begun: HashSet<String>,
    steps: Vec<Step>,
}

impl<'a> Plan<'a> {
    fn new(dsl: &'a Dsl, recursive: bool, clones: bool) -> Self {
        let (doomed, begun) = (HashSet::new(), HashSet::new());
        Self { dsl, recursive, clones, doomed, begun, steps: Vec::new() }
    }

    /// A head with all below it and its snapshots; what refuses is left to the pool to say.
    fn tree(&mut self, name: &str) -> Result<(), Failure> {
        if !self.begun.insert(name.to_owned()) {
            return Ok(());
        }
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
        // The pool's own file system stays when all in it goes.
        if name.contains('/') || !self.recursive {
            self.steps.push(Step::Head(name.to_owned()));
        }
        Ok(())
    }

    fn clones_of(&mut self, snapshot: &Dataset) -> Result<(), Failure> {
        for clone in self.dsl.clones(snapshot)? {
            if self.clones || self.doomed.contains(&clone) {
                self.tree(&clone)?;
            } else {
                let what = format!("cannot destroy '{}'", snapshot.name);
                return Err(Failure::new(format!("{what}: snapshot has dependent clones"))
                    .hint(format!("use '-R' to destroy them too: {clone} for one")));
            }
        }
        Ok(())
    }
}

/// The snapshots of `head` that `a,b%c` means. `strict`: each must be there.
fn chosen(dsl: &Dsl, head: &str, spec: &str, strict: bool) -> Result<Vec<String>, Failure> {
    let all = dsl.snapshots(&dsl.by_name(head)?)?;
    let short = |d: &Dataset| split(&d.name).map_or("", |(_, s)| s).to_owned();
    let position = |name: &str| all.iter().position(|d| short(d) == name);
    let mut doomed = vec![false; all.len()];
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
            Some((from, to)) => doomed[from..=to].fill(true),
            None if strict && !spec.contains([',', '%']) => {
                let what = format!("cannot destroy '{head}@{part}': dataset does not exist");
                return Err(Failure::new(what));
            }
            None => {}
        }
    }
    let names = all.iter().zip(doomed).filter(|(_, doomed)| *doomed);
    Ok(names.map(|(d, _)| d.name.clone()).collect())
}

/// Bytes that nothing has any more when these snapshots are gone: of each run of neighbours what
/// died within it, and was born after the snapshot before it.
fn reclaimed(dsl: &Dsl, names: &[String]) -> Result<u64, Failure> {
    let doomed: HashSet<&str> = names.iter().map(String::as_str).collect();
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
            let dies = doomed.contains(all[at].name.as_str());
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
