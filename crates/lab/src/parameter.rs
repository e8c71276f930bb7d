//! What a model was given, and where each number of it comes from.

use crate::digits::figure;
use serde_json::{Value, json};

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A data sheet.
    DataSheet,
    /// The study's text.
    Study,
    /// Chosen so that these rows come out.
    Fitted(&'static str),
    /// Neither: what such machines commonly have, or what this engine's run needs. No row chose it.
    Assumed,
    /// A setting of the engine that the study does not name: that of the versions of its time, or
    /// what keeps something switched off that those had not.
    Engine,
    /// How much of the study's work this repetition does unless it is told otherwise. It is no
    /// number of the machine.
    Repetition,
    /// The user: the preset or file that `--sim` names, the part that `--scale` says, what
    /// `--machine` changes.
    Given,
}

impl Origin {
    /// In words.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::DataSheet => "data sheet".to_owned(),
            Self::Study => "the study's text".to_owned(),
            Self::Fitted(rows) => format!("fitted by: {rows}"),
            Self::Assumed => "assumed".to_owned(),
            Self::Engine => "a setting of the engine, not in the study".to_owned(),
            Self::Repetition => "this repetition".to_owned(),
            Self::Given => "the command line".to_owned(),
        }
    }

    /// Whether neither the study nor a data sheet says it, so that it could be another.
    #[must_use]
    pub fn is_free(self) -> bool {
        matches!(self, Self::Fitted(_) | Self::Assumed | Self::Engine)
    }
}

/// A number of a study's machine, beside its disks, that a run can have otherwise
/// ([`crate::experiment::Setting::machine`]).
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub value: f64,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether there are only whole ones of it.
    pub whole: bool,
    /// From where to where it can be.
    pub range: [f64; 2],
}

/// More than any of them is, of whatever unit.
const MOST: f64 = 1e6;

impl Number {
    /// A number that can have parts.
    #[must_use]
    pub const fn new(name: &'static str, value: f64, unit: &'static str, origin: Origin) -> Self {
        Self { name, value, unit, origin, whole: false, range: [0.0, MOST] }
    }

    /// One that is whole.
    #[must_use]
    pub const fn whole(name: &'static str, value: f64, unit: &'static str, origin: Origin) -> Self {
        Self { whole: true, ..Self::new(name, value, unit, origin) }
    }

    /// The same, which is never less and never more than this.
    #[must_use]
    pub const fn between(self, least: f64, most: f64) -> Self {
        Self { range: [least, most], ..self }
    }

    /// Why it cannot have this value, if it cannot.
    #[must_use]
    pub fn refusal(&self, value: f64) -> Option<String> {
        let [least, most] = self.range;
        let is_one = (least..=most).contains(&value) && !(self.whole && value.fract() != 0.0);
        let kind = if self.whole { "a whole number" } else { "a number" };
        (!is_one).then(|| format!("{} = {value}: it is {kind} from {least} to {most}", self.name))
    }
}

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// Where it comes from.
    pub origin: Origin,
}

impl Parameter {
    /// A number.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str, origin: Origin) -> Self {
        Self { name: name.into(), value: figure(value), unit, origin }
    }

    /// A choice in words.
    #[must_use]
    pub fn choice(name: impl Into<String>, value: impl Into<String>, origin: Origin) -> Self {
        Self { name: name.into(), value: value.into(), unit: "", origin }
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "origin": self.origin.text(),
            "fitted": matches!(self.origin, Origin::Fitted(_)),
        })
    }
}

/// Lists parameters of one origin.
#[must_use]
pub fn all_of(
    origin: Origin,
    values: impl IntoIterator<Item = (&'static str, f64, &'static str)>,
) -> Vec<Parameter> {
    let one = |(name, value, unit)| Parameter::new(name, value, unit, origin);
    values.into_iter().map(one).collect()
}
