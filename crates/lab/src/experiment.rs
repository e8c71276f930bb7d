//! Experiments as the registry has them.

use crate::disk::{self, Preset};
use crate::error::LabError;
use crate::images::Images;
use crate::outcome::Outcome;
use crate::parameter::{Number, Origin, Parameter};
use crate::stream::StreamError;
use crate::target::Target;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seeds that each runs with on simulated disks when no others are asked for: one figure of one run
/// may be luck.
pub const SEEDS: u64 = 5;

/// An experiment, as the registry has it.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The preset it runs on when none is named; its figures are judged there only.
    pub preset: &'static str,
    /// MiB of memory that a simulated seed takes, about.
    pub memory_mib: u64,
    /// Seconds of a processor that a simulated seed takes, about.
    pub seconds: u64,
    /// What it does with a device. In a pool it does no harm.
    pub on_device: OnDevice,
    /// The numbers of its machine, beside its disks, that a run can have otherwise.
    pub numbers: &'static [Number],
    /// Runs it.
    pub run: fn(&Target, &Setting) -> Result<Outcome, LabError>,
}

/// What an experiment does with a device that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDevice {
    /// It reads it.
    Reads,
    /// It writes to it.
    Writes,
    /// It makes a pool on it, runs in that, and destroys it.
    MakesPool,
    /// Nothing: its machine is a simulated one of its own, and it runs in no pool either.
    Nothing,
}

impl Experiment {
    /// Refuses changes of what its machine does not have.
    ///
    /// # Errors
    /// Names the numbers that it has.
    pub fn check_machine(&self, setting: &Setting) -> Result<(), LabError> {
        let refused = |what: String, hint: String| {
            let of = format!("the machine of {} cannot be changed like that", self.name);
            Err(LabError::new(of, what).hint(hint))
        };
        for (name, value) in &setting.machine {
            let Some(number) = self.numbers.iter().find(|number| number.name == name) else {
                let names: Vec<&str> = self.numbers.iter().map(|number| number.name).collect();
                let hint = match names.len() {
                    0 => "only numbers of its disk can be changed: --sim FILE".to_owned(),
                    _ => format!("it has: {}", names.join("; ")),
                };
                return refused(format!("there is no {name}"), hint);
            };
            if let Some(why) = number.refusal(*value) {
                let unit = if number.unit.is_empty() { "" } else { " " };
                let hint = format!("in the study's it is {}{unit}{}", number.value, number.unit);
                return refused(why, hint);
            }
        }
        Ok(())
    }

    /// Whether what is on a device that it is given is lost.
    #[must_use]
    pub fn destroys(&self) -> bool {
        matches!(self.on_device, OnDevice::Writes | OnDevice::MakesPool)
    }
}

/// The machine of a study that has one of its own instead of a preset.
fn machine_of_study(experiment: &str) -> Option<&'static str> {
    Some(match experiment {
        "h2-layouts" | "h4-mirror-reads" | "h5-one-mirror" | "h8-scan-order" => {
            "disks of 7200 rpm, after the description of the study"
        }
        "h3-latency-lanes" => "lanes of 10, 16 and 32 ms, behind which nothing takes time",
        "h6-throttle-curve" => "disks of one rate, after the description of the study",
        _ => return None,
    })
}

/// What is the same for every target.
#[derive(Clone)]
pub struct Setting {
    /// Decides what chance decides.
    pub seed: u64,
    /// Part of the study's amount of work: 1 for all of it. What it means exactly is each
    /// experiment's to say.
    pub scale: f64,
    /// Seconds for each figure that is measured on a real device.
    pub seconds: f64,
    /// Told what is being done, in a few words.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// Whether it is to end now: asked between the steps of what a device or a pool has to be
    /// cleaned of in the end.
    pub is_called_off: Arc<dyn Fn() -> bool + Send + Sync>,
    /// What its repetitions begin with, where that is the same.
    pub images: Arc<Images>,
    /// Numbers of the study's machine, beside its disks, that are not what they are for the study:
    /// by their names among the parameters.
    pub machine: BTreeMap<String, f64>,
}

impl Default for Setting {
    fn default() -> Self {
        Self::new(1, 1.0, 2.0, Arc::new(|_| {}))
    }
}

impl Setting {
    /// One whose repetitions have nothing in common with those of others.
    #[must_use]
    pub fn new(
        seed: u64,
        scale: f64,
        seconds: f64,
        progress: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            seed,
            scale,
            seconds,
            progress,
            is_called_off: Arc::new(|| false),
            images: Arc::default(),
            machine: BTreeMap::new(),
        }
    }

    /// Begins a step.
    ///
    /// # Errors
    /// The experiment is to end.
    pub(crate) fn step(&self, what: &str) -> Result<(), LabError> {
        self.check()?;
        (self.progress)(what);
        Ok(())
    }

    /// Ends an experiment that is to end.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        match (self.is_called_off)() {
            true => Err(StreamError::CalledOff.into()),
            false => Ok(()),
        }
    }

    /// What a number of the study's machine is in this run.
    pub(crate) fn number(&self, number: &Number) -> f64 {
        self.machine.get(number.name).copied().unwrap_or(number.value)
    }

    /// The same as a parameter.
    pub(crate) fn parameter(&self, number: &Number) -> Parameter {
        let is_given = self.machine.contains_key(number.name);
        let origin = if is_given { Origin::Given } else { number.origin };
        Parameter::new(number.name, self.number(number), number.unit, origin)
    }

    /// How much of the study's work is done, as a parameter: its value follows from the scale.
    pub(crate) fn part(&self, name: &str, value: f64, unit: &'static str) -> Parameter {
        let origin = if self.is_part() { Origin::Given } else { Origin::Repetition };
        Parameter::new(name, value, unit, origin)
    }

    /// Whether it is a part of the study's work.
    pub(crate) fn is_part(&self) -> bool {
        self.scale < 1.0
    }

    /// [`Self::seconds`] in the form that fio takes parts of a second in.
    pub(crate) fn milliseconds(&self) -> u64 {
        (self.seconds * 1e3).round() as u64
    }
}

impl Target {
    /// The preset that an experiment runs on here; `None` where it does not run on simulated disks.
    #[must_use]
    pub fn preset(&self, own: &Experiment) -> Option<Preset> {
        match self {
            Self::Sim(Some(preset)) => Some((**preset).clone()),
            Self::Sim(None) => disk::preset(own.preset),
            Self::Device { .. } | Self::Pool(_) => None,
        }
    }

    /// Whether the study's figures are to be expected here: on the disks that were fitted to it.
    #[must_use]
    pub fn is_the_study_s(&self, own: &Experiment) -> bool {
        match self {
            // A file may have the name of ours, and other numbers.
            Self::Sim(preset) => preset
                .as_ref()
                .is_none_or(|preset| disk::preset(own.preset).as_ref() == Some(preset)),
            Self::Device { .. } | Self::Pool(_) => false,
        }
    }

    /// Whether it can run here at all.
    #[must_use]
    pub fn suits(&self, own: &Experiment) -> bool {
        own.on_device != OnDevice::Nothing || matches!(self, Self::Sim(None))
    }

    /// Refuses what an experiment cannot run on, and a device whose data would be lost without that
    /// having been said.
    ///
    /// # Errors
    /// The error names the option that allows it.
    pub fn check(&self, own: &Experiment) -> Result<(), LabError> {
        match self {
            _ if !self.suits(own) => {
                let what = format!("{} does not run there", own.name);
                Err(LabError::new(what, "that study has a simulated machine of its own")
                    .hint("leave out --sim PRESET, --device and --pool"))
            }
            Self::Device { destroy: false, .. } if own.destroys() => {
                let what = format!("{} does not run there", own.name);
                Err(LabError::new(what, "it writes to the device, and what is on it is lost")
                    .hint("pass --destroy-data to allow that"))
            }
            _ => Ok(()),
        }
    }

    /// What it is, in words.
    #[must_use]
    pub fn describe(&self, own: &Experiment) -> String {
        match self {
            Self::Sim(_) => match (machine_of_study(own.name), self.preset(own)) {
                (Some(machine), _) => format!("simulated: {machine}"),
                // A file may have the description of ours, and other numbers.
                (None, Some(preset)) => match disk::preset(&preset.name) {
                    Some(known) if known != preset => {
                        format!("simulated: changed: {}", preset.description)
                    }
                    _ => format!("simulated: {}", preset.description),
                },
                (None, None) => format!("simulated: {}", own.preset),
            },
            Self::Device { path, .. } => path.display().to_string(),
            Self::Pool(pool) => format!("pool {}", pool.dataset),
        }
    }
}
