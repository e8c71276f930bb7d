//! `zinc lab`: the studies zinc began with, repeated.

mod sensitivity;
mod what_if;

use crate::cmd::verb::{Served, Verb};
use crate::cmd::zpool::claim;
use crate::failure::{FAILED, Failure};
use crate::live::LiveArgs;
use crate::report_file::ReportFile;
use crate::session::Session;
use crate::ui;
use clap::{ArgGroup, Subcommand};
use engine::LivePool;
use engine::pools::Content;
use lab::error::LabError;
use lab::experiment::{Experiment, SEEDS, Setting};
use lab::fit::Effort;
use lab::options::{self, IsCalledOff, number, part, seconds};
use lab::outcome::Outcome;
use lab::raw_disk::{Access, FileDisk, ModelDisk};
use lab::report;
use lab::runs::Job;
use lab::target::{PoolTarget, Target};
use lab::validate::{Steps, fitted};
use lab::workspace::{CACHE_BYTES, POOL_ON_DEVICE};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The verbs.
#[derive(Subcommand)]
pub enum Command {
    /// Run experiments and compare them with the studies they repeat
    Run(Run),
    /// List the experiments
    List,
    /// List the simulated disks, or print one as JSON
    Presets(Presets),
    /// Measure a disk by reading it, and print a preset for --sim
    Fit(Fit),
    /// Vary every number of an experiment's simulated disk, and show the effect on each row
    Sensitivity(sensitivity::Sensitivity),
    /// Simulate a pool and a load: throughput, latency, and what limits it
    WhatIf(what_if::WhatIf),
}

/// Arguments of `zinc lab run`.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
#[command(group = ArgGroup::new("target").args(["sim", "device", "pool"]))]
pub struct Run {
    /// Names of experiments (`zinc lab list`), or `all`
    #[arg(required = true, value_name = "EXPERIMENT")]
    names: Vec<String>,
    /// On simulated disks, which is the default: the study's own, or these (`zinc lab presets`, or
    /// a file with one)
    #[arg(long, value_name = "PRESET", num_args = 0..=1, default_missing_value = "")]
    sim: Option<String>,
    /// On this disk or file
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// In this pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Search this directory, file or disk for the pool's devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// Allow experiments that write to the device, which destroys its data
    #[arg(long, requires = "device")]
    destroy_data: bool,
    /// Also if the device holds something, such as a part of a pool
    #[arg(short, long, requires = "destroy_data")]
    force: bool,
    /// Do not ask before data is destroyed
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Write a report with charts into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the table of every published figure, with what this run gave, into this file
    #[arg(long, value_name = "FILE", hide = true)]
    figures: Option<PathBuf>,
    /// Change a number of the study's machine, by its name among the parameters (repeatable); rows
    /// are then shown and not judged
    #[arg(long, value_name = "NAME=VALUE", value_parser = number)]
    machine: Vec<(String, f64)>,
    /// Fraction of the study's amount of work, at most 1
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = part)]
    scale: f64,
    /// Seconds for each figure on a real device
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Seed of all that is random: where platters and heads are, where reads go, which comes first.
    /// Without --seeds, only this one is run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run with this many seeds, from --seed or 1 on, and show median and range. The default is 5
    /// on simulated disks, and 1 elsewhere or with --seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
}

/// Arguments of `zinc lab presets`.
#[derive(clap::Args)]
pub struct Presets {
    /// Print this one as JSON, in the form that `--sim FILE` reads
    name: Option<String>,
}

impl Command {
    /// The verb.
    pub fn verb(self) -> Box<dyn Verb> {
        match self {
            Self::Run(a) => Box::new(a),
            Self::List => Box::new(List),
            Self::Presets(a) => Box::new(a),
            Self::Fit(a) => Box::new(a),
            Self::Sensitivity(a) => Box::new(a),
            Self::WhatIf(a) => Box::new(a),
        }
    }
}

impl From<LabError> for Failure {
    fn from(e: LabError) -> Self {
        let why = Some(e.why).filter(|why| !why.is_empty());
        let failure = why.into_iter().fold(Self::new(e.what), Self::because);
        e.hint.into_iter().fold(failure, Self::hint)
    }
}

fn experiment(name: &str) -> Result<&'static Experiment, Failure> {
    lab::experiment(name).ok_or_else(|| no_experiment(name))
}

fn no_experiment(name: &str) -> Failure {
    Failure::usage(format!("no experiment '{name}'"))
        .hint("`zinc lab list` lists them; `zinc lab run all` runs all")
}

/// `zinc lab list`.
struct List;

impl Verb for List {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        ui::out(session, &report::experiments());
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Presets {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Some(name) = self.name else {
            ui::out(session, &report::presets());
            return Ok(ExitCode::SUCCESS);
        };
        let preset = lab::disk::preset(&name).ok_or_else(|| {
            Failure::usage(format!("no simulated disk '{name}'"))
                .hint("`zinc lab presets` lists them")
        })?;
        ui::json(session, &serde_json::to_value(preset).map_err(|e| Failure::new(e.to_string()))?);
        Ok(ExitCode::SUCCESS)
    }
}

/// Arguments of `zinc lab fit`.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
#[command(group = ArgGroup::new("disk").args(["sim", "device"]).required(true))]
pub struct Fit {
    /// This disk or file, which is only read without --write
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// A simulated disk: a preset, or a file with one
    #[arg(long, value_name = "PRESET")]
    sim: Option<String>,
    /// Seconds for each step on a real device
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Read the disk with patterns that the preset was not fitted to, and compare with its
    /// predictions on standard error. With --write, also write such patterns
    #[arg(long)]
    validate: bool,
    /// Write to the disk too: reads do not show its write cache. Needs --destroy-data with --device
    #[arg(long)]
    write: bool,
    /// Allow writes to the device, which destroys its data
    #[arg(long, requires_all = ["device", "write"])]
    destroy_data: bool,
    /// Also if the device holds something, such as a part of a pool
    #[arg(short, long, requires = "destroy_data")]
    force: bool,
    /// Do not ask before data is destroyed
    #[arg(long, requires = "destroy_data")]
    yes: bool,
}

impl Verb for Fit {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let show = |what: &str| ui::progress(session, &format!("fit: {what}"));
        let steps = Steps { write: self.write, validate: self.validate };
        let (preset, found) = if let Some(path) = &self.device {
            if self.write && !self.destroy_data {
                return Err(Failure::new(format!("{} was not touched", path.display()))
                    .because("--write destroys what is on it")
                    .hint("pass --destroy-data to allow that"));
            }
            if self.write {
                may_destroy(session, path, self.force, self.yes)?;
            }
            let access = if self.write { Access::Write } else { Access::Read };
            let mut disk = FileDisk::open(path, access)?;
            let effort = Effort { seconds: self.seconds, requests: u64::MAX >> 8 };
            fitted(&mut disk, &path.display().to_string(), effort, steps, &show)?
        } else {
            let name = self.sim.as_deref().unwrap_or("");
            let Target::Sim(Some(preset)) = Target::sim(name)? else {
                return Err(Failure::usage("which simulated disk?"));
            };
            let effort = Effort { seconds: f64::MAX, requests: 2000 };
            fitted(&mut ModelDisk::new(&preset, 1), &preset.name, effort, steps, &show)?
        };
        clear_line(session);
        if !found.is_empty() {
            ui::error(session, &report::validations(&found));
        }
        ui::json(session, &serde_json::to_value(preset).map_err(|e| Failure::new(e.to_string()))?);
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Run {
    fn served(&self, _: &Session) -> Served {
        // Only what is measured in the pool that it holds.
        match self.pool.is_some() {
            true => Served::ToOwner,
            false => Served::Never,
        }
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let target = self.target(session)?;
        let experiments = options::experiments(&self.names, &target);
        let experiments = experiments.map_err(|name| no_experiment(&name))?;
        experiments.iter().try_for_each(|experiment| target.check(experiment))?;
        if let Target::Device { path, destroy: true } = &target
            && experiments.iter().any(|experiment| experiment.destroys())
        {
            may_destroy(session, path, self.force, self.yes)?;
        }
        let ends = ending(session, &target)?;
        let page = self.html.as_deref().map(|path| ReportFile::begin(session, path)).transpose()?;
        let figures =
            self.figures.as_deref().map(|path| ReportFile::begin(session, path)).transpose()?;
        let jobs: Vec<Job> =
            experiments.iter().map(|e| self.job(session, e, &target, &ends)).collect();
        let mut outcomes = Vec::new();
        let ran = lab::runs::run(&target, &jobs, &mut |outcome| {
            clear_line(session);
            if !self.json {
                if !outcomes.is_empty() {
                    ui::out(session, "\n");
                }
                ui::out(session, &report::text(&outcome, 90));
            }
            outcomes.push(outcome);
        });
        // Those before one that failed are shown all the same.
        if self.json && (ran.is_ok() || !outcomes.is_empty()) {
            ui::json(session, &report::json(&outcomes));
        }
        ran?;
        if !self.json && outcomes.len() > 1 {
            ui::out(session, &format!("\n{}\n", report::headline(&outcomes)));
        }
        if let Some(page) = page {
            page.write(&report::page(&outcomes, &self.how(&jobs)))?;
        }
        if let Some(figures) = figures {
            figures.write(&lab::figures::markdown(&outcomes, &self.how(&jobs)))?;
        }
        let good = outcomes.iter().all(Outcome::within_bounds);
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }
}

impl Run {
    fn seeds(&self, target: &Target) -> u64 {
        self.seeds.unwrap_or(match target {
            Target::Sim(_) if self.seed.is_none() => SEEDS,
            Target::Sim(_) | Target::Device { .. } | Target::Pool(_) => 1,
        })
    }

    fn target(&self, session: &Session) -> Result<Target, Failure> {
        if let Some(path) = &self.device {
            return Ok(Target::Device { path: path.clone(), destroy: self.destroy_data });
        }
        if let Some(pool) = &self.pool {
            return Ok(Target::Pool(pool_target(session, pool, &self.search)));
        }
        Ok(Target::sim(self.sim.as_deref().unwrap_or(""))?)
    }

    fn job(
        &self,
        session: &Session,
        experiment: &'static Experiment,
        target: &Target,
        ends: &IsCalledOff,
    ) -> Job {
        let (show, session, name) = (!self.json, session.clone(), experiment.name);
        let progress = move |what: &str| {
            if show {
                ui::progress(&session, &format!("{name}: {what}"));
            }
        };
        let setting = Setting {
            machine: self.machine.iter().cloned().collect(),
            is_called_off: Arc::clone(ends),
            ..Setting::new(self.seed.unwrap_or(1), self.scale, self.seconds, Arc::new(progress))
        };
        Job { experiment, setting, seeds: self.seeds(target) }
    }

    /// The command, for the report.
    fn how(&self, jobs: &[Job]) -> String {
        let on = match (&self.device, &self.pool) {
            (Some(device), _) => format!("--device {}", device.display()),
            (_, Some(pool)) => format!("--pool {pool}"),
            _ => format!("--sim {}", self.sim.as_deref().unwrap_or("")),
        };
        jobs.first().map(|job| options::command(&self.names, &on, job)).unwrap_or_default()
    }
}

/// The failure of a verb as one of an experiment.
fn in_lab(failure: &Failure) -> LabError {
    let (what, causes, hint) = failure.parts();
    LabError { hint: hint.map(str::to_owned), ..LabError::new(what, causes.join("; ")) }
}

/// Opens the pool as every verb does that changes one.
fn pool_target(session: &Session, dataset: &str, search: &[PathBuf]) -> PoolTarget {
    let mut args = LiveArgs { search: search.to_vec(), ..LiveArgs::default() };
    args.options.cache_mib = CACHE_BYTES >> 20;
    let (name, session) = (dataset.to_owned(), session.clone());
    let open = move |act: &mut dyn FnMut(&LivePool) -> Result<(), LabError>| {
        // Also of a command that was called off: what it made is destroyed in a last visit.
        let visit = args.change(&session, &name, |pool| Ok(act(pool)?));
        visit.map_err(|failure| in_lab(&failure))
    };
    PoolTarget { dataset: dataset.to_owned(), open: Arc::new(open) }
}

fn clear_line(session: &Session) {
    ui::progress(session, "");
}

/// How a run is called off that has something to clean up: by its client, or by a first signal.
fn ending(session: &Session, target: &Target) -> Result<IsCalledOff, Failure> {
    if let Some(client) = session.client().cloned() {
        return Ok(Arc::new(move || !client.presence.is_here()));
    }
    match target {
        Target::Sim(_) => Ok(Arc::new(|| false)),
        Target::Device { .. } | Target::Pool(_) => Ok(options::first_signal()?),
    }
}

/// Asks for the device's name to be typed, if it holds nothing else than what may be lost.
fn may_destroy(session: &Session, path: &Path, force: bool, yes: bool) -> Result<(), Failure> {
    let name = path.display().to_string();
    // What a run that was killed left there is its own.
    let may = |content: &Content| {
        force || matches!(content, Content::PerhapsActive(pool) if pool == POOL_ON_DEVICE)
    };
    let holds = claim::content_at(session, &format!("{name} was not touched"), path, &may)?;
    if yes {
        return Ok(());
    }
    let refused = |why: &str| {
        Failure::new(format!("{name} was not touched")).because(why).hint("--yes does not ask")
    };
    if !std::io::stdin().is_terminal() {
        return Err(refused(
            "its data would be destroyed, and without a terminal that cannot be confirmed",
        ));
    }
    let holds = holds.map(|why| format!(": it {why}")).unwrap_or_default();
    let question = format!("Everything on {name} will be lost{holds}. Type its path to go on: ");
    ui::error(session, &question);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if answer.trim() == name { Ok(()) } else { Err(refused("that is not its path")) }
}
