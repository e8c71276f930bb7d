//! What an experiment gives: rows with the published figure beside the measured one, charts, and a
//! sentence of what it means.

use crate::target::Target;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// An experiment, as the registry has it.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The preset it runs on when none is named; its figures are judged there only.
    pub preset: &'static str,
    /// What it does with a device. In a pool it does no harm.
    pub on_device: OnDevice,
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
}

impl Experiment {
    /// Whether what is on a device that it is given is lost.
    #[must_use]
    pub fn destroys(&self) -> bool {
        self.on_device != OnDevice::Reads
    }
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
}

impl Default for Setting {
    fn default() -> Self {
        Self { seed: 1, scale: 1.0, seconds: 2.0, progress: Arc::new(|_| {}) }
    }
}

impl Setting {
    /// [`Self::seconds`] in the form that fio takes parts of a second in.
    pub(crate) fn milliseconds(&self) -> u64 {
        (self.seconds * 1e3).round() as u64
    }
}

/// Why an experiment could not be done.
#[derive(Debug)]
pub struct LabError {
    /// What failed.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do, if anybody knows.
    pub hint: Option<String>,
}

impl LabError {
    /// What failed, and why.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string(), hint: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for LabError {}

/// How far a measured figure may be from the published one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Bound {
    /// No farther than this part of the published figure: 0.1 for a tenth.
    Within {
        /// The part.
        part: f64,
    },
    /// Within this part, or within the rounding of a figure that was printed cut off to an integer
    /// (a printed 2 means 2.0 to 2.99), where that is wider.
    WithinOrRounding {
        /// The part.
        part: f64,
    },
    /// At least the published figure.
    AtLeast,
    /// At most the published figure.
    AtMost,
    /// Between the published figure and this one, ends included.
    UpTo {
        /// The upper end.
        high: f64,
    },
    /// Shown, not judged.
    Shown,
}

impl Bound {
    /// Whether `measured` is near enough to `published`.
    #[must_use]
    pub fn holds(self, published: f64, measured: f64) -> bool {
        let near = |part: f64| (measured - published).abs() <= part * published.abs();
        match self {
            Self::Within { part } => near(part),
            Self::WithinOrRounding { part } => {
                near(part) || (published..published + 1.0).contains(&measured)
            }
            Self::AtLeast => measured >= published,
            Self::AtMost => measured <= published,
            Self::UpTo { high } => (published..=high).contains(&measured),
            Self::Shown => true,
        }
    }
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured: "1024 KiB", "16 KiB indirect, case 1: L1 I/Os".
    pub row: String,
    /// Its unit: "MB/s", "ms", "I/Os"; empty for a plain number.
    pub unit: &'static str,
    /// The study's figure; `None` where it has none.
    pub published: Option<f64>,
    /// Ours.
    pub measured: f64,
    /// How near it has to be.
    pub bound: Bound,
}

impl Row {
    /// Measured over published; `None` where nothing was published, or zero.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.published.filter(|p| *p != 0.0).map(|p| self.measured / p)
    }

    /// Whether it is within its bound; what was not published is.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.published.is_none_or(|p| self.bound.holds(p, self.measured))
    }
}

/// A line of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What the axes are, with units.
    pub x: String,
    /// The other axis.
    pub y: String,
    /// Whether x is logarithmic (sizes, thread counts).
    pub x_log: bool,
    /// Whether the points are bars of a histogram rather than a line.
    pub bars: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// What an experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name on the command line.
    pub experiment: &'static str,
    /// Where it ran, in words: "simulated: Hitachi DK32EJ36N", "disk0.img".
    pub place: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Further tables or text as it would be printed on a terminal, by title.
    pub texts: Vec<(String, String)>,
    /// What it means for the user, in a sentence or two.
    pub meaning: String,
}

impl Outcome {
    /// Whether every row is within its bound.
    #[must_use]
    pub fn within_bounds(&self) -> bool {
        self.rows.iter().all(Row::holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_judged_as_they_say() {
        let part = Bound::Within { part: 0.1 };
        assert!(part.holds(100.0, 90.0) && part.holds(100.0, 110.0));
        assert!(!part.holds(100.0, 89.9) && !part.holds(100.0, 110.1));
        let rounded = Bound::WithinOrRounding { part: 0.1 };
        assert!(rounded.holds(2.0, 2.99) && !rounded.holds(2.0, 3.0) && !rounded.holds(2.0, 1.7));
        assert!(Bound::AtLeast.holds(56.0, 57.0) && !Bound::AtLeast.holds(56.0, 55.0));
        assert!(Bound::UpTo { high: 1540.0 }.holds(100.0, 1540.0));
        assert!(!Bound::UpTo { high: 1540.0 }.holds(100.0, 99.0));
    }

    #[test]
    fn a_row_without_a_published_figure_has_no_ratio_and_holds() {
        let row = |published| Row {
            row: "x".to_owned(),
            unit: "MB/s",
            published,
            measured: 3.0,
            bound: Bound::Within { part: 0.1 },
        };
        assert_eq!((row(None).ratio(), row(None).holds()), (None, true));
        assert_eq!((row(Some(2.0)).ratio(), row(Some(2.0)).holds()), (Some(1.5), false));
    }
}
