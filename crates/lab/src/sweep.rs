//! Questions of what-if, from words: every option that is swept with every one of its values, and
//! the answers as a table, as JSON and as a page.

use crate::disk::Preset;
use crate::error::LabError;
use crate::pios::{PiosError, parse_bytes};
use crate::target::Target;
use crate::what_if::{Answer, Latency, Layout, Point, Question, Recorded, State, Work, picture};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Options and their values, as they were given.
pub type Options = BTreeMap<&'static str, String>;

/// The most combinations.
const MOST: usize = 1000;

/// Why there is no such question.
#[derive(Debug)]
pub enum Wrong {
    /// An option cannot be so: what is wrong, and what it can be.
    Option(String, Option<String>),
    /// What an option names cannot be had.
    Lab(LabError),
}

impl Wrong {
    fn option(what: impl Into<String>) -> Self {
        Self::Option(what.into(), None)
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Option(what, _) => Self::Option(what, Some(hint.into())),
            lab => lab,
        }
    }
}

impl From<LabError> for Wrong {
    fn from(e: LabError) -> Self {
        Self::Lab(e)
    }
}

/// Combinations of options.
#[derive(Debug)]
pub struct Sweep {
    swept: Vec<&'static str>,
    all: Vec<Options>,
}

impl Sweep {
    /// All combinations of these sweeps (`OPTION=VALUE,...`), two at most, with the other options
    /// as in `base`.
    ///
    /// # Errors
    /// A sweep is malformed, or there are too many.
    pub fn new(base: Options, sweeps: &[String]) -> Result<Self, Wrong> {
        if sweeps.len() > 2 {
            return Err(Wrong::option("a table has two --sweep at most"));
        }
        let one = |text: &String| {
            let (name, values) = text.split_once('=').unwrap_or((text, ""));
            let known = base.keys().find(|key| **key == name);
            let values: Vec<String> = values.split(',').map(str::to_owned).collect();
            match known {
                Some(name) if values.iter().all(|value| !value.is_empty()) => Ok((*name, values)),
                _ => Err(Wrong::option(format!("--sweep {text:?} is not OPTION=VALUE,...")).hint(
                    format!("options are {}", base.keys().copied().collect::<Vec<_>>().join(", ")),
                )),
            }
        };
        let sweeps: Vec<_> = sweeps.iter().map(one).collect::<Result<_, _>>()?;
        if let [first, second] = &sweeps[..]
            && first.0 == second.0
        {
            return Err(Wrong::option(format!("--sweep has {} twice", first.0)).hint(format!(
                "--sweep {}={},{}",
                first.0,
                first.1.join(","),
                second.1.join(",")
            )));
        }
        let mut all = vec![base];
        for (name, values) in &sweeps {
            let with = |options: &Options, value: &String| {
                let mut options = options.clone();
                options.insert(name, value.clone());
                options
            };
            all = all.iter().flat_map(|o| values.iter().map(move |v| with(o, v))).collect();
        }
        if all.len() > MOST {
            return Err(Wrong::option(format!("{} combinations, {MOST} at most", all.len())));
        }
        Ok(Self { swept: sweeps.into_iter().map(|(name, _)| name).collect(), all })
    }

    /// A question for each combination; `seconds` and `seed` are those of all.
    ///
    /// # Errors
    /// One of them cannot be understood.
    pub fn questions(&self, seconds: f64, seed: u64) -> Result<Vec<Question>, Wrong> {
        self.all.iter().map(|options| question(options, seconds, seed)).collect()
    }

    /// A table of the answers: headings, whether columns are numbers, rows.
    #[must_use]
    pub fn table(&self, answers: &[Answer]) -> (Vec<String>, Vec<bool>, Vec<Vec<String>>) {
        let columns =
            ["MB/S", "PER SECOND", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "BUSY %", "LIMIT"];
        let swept = self.swept.iter().map(|name| name.to_ascii_uppercase());
        let headings: Vec<String> = swept.chain(columns.map(str::to_owned)).collect();
        let (first, last) = (self.swept.len(), headings.len() - 1);
        let right = (0..headings.len()).map(|n| n >= first && n < last).collect();
        let row = |(options, a): (&Options, &Answer)| {
            let swept = self.swept.iter().filter_map(|name| options.get(name).cloned());
            swept
                .chain([
                    format!("{:.1}", a.mib_per_second),
                    format!("{:.0}", a.per_second),
                    format!("{:.2}", a.latency.p50),
                    format!("{:.2}", a.latency.p90),
                    format!("{:.2}", a.latency.p99),
                    format!("{:.2}", a.latency.max),
                    format!("{:.0}", a.busy_percent),
                    a.limit.text().to_owned(),
                ])
                .collect()
        };
        (headings, right, self.all.iter().zip(answers).map(row).collect())
    }

    /// The answers as JSON.
    #[must_use]
    pub fn json(&self, answers: &[Answer]) -> Value {
        as_json(&self.all, answers)
    }

    /// A page with the answers as a table and as charts.
    #[must_use]
    pub fn page(&self, answers: &[Answer], seconds: f64, seed: u64) -> String {
        let how = format!("{} --seconds {seconds} --seed {seed}", how(&self.swept, &self.all));
        picture(&points(&self.swept, &self.all, answers), &how)
    }
}

fn question(options: &Options, seconds: f64, seed: u64) -> Result<Question, Wrong> {
    let of = |name: &str| options.get(name).map_or("", String::as_str);
    let layout: Layout = of("layout").parse()?;
    let state: State = of("state").parse()?;
    let record = u32::try_from(bytes("record", of("record"))?).unwrap_or(u32::MAX);
    let (work, recorded) = match of("work").strip_prefix("recorded:") {
        Some(path) => (Work::Recorded, Recorded::open(Path::new(path))?),
        None => (work(of("work"))?, Recorded::default()),
    };
    Ok(Question {
        disk: disk(of("disk"))?,
        disks: count("disks", of("disks"), 1)?,
        layout,
        fast: disk(of("fast"))?,
        logs: count("logs", of("logs"), 0)?,
        specials: count("specials", of("specials"), 0)?,
        state,
        record,
        compression: ratio(of("compression"))?,
        bytes: bytes("files", of("files"))?,
        threads: count("threads", of("threads"), 1)?,
        chunk: bytes("chunk", of("chunk"))?,
        work,
        recorded,
        seconds,
        seed,
    })
}

fn disk(name: &str) -> Result<Preset, Wrong> {
    match Target::sim(name)? {
        Target::Sim(Some(preset)) => Ok(*preset),
        _ => Err(Wrong::option("which simulated disk?").hint("`zinc lab presets` lists them")),
    }
}

fn work(text: &str) -> Result<Work, Wrong> {
    let mixed = |rest: &str| rest.parse().ok().filter(|reads| *reads <= 100).map(Work::Mixed);
    let found = match text {
        "write" => Some(Work::Write),
        "sync-write" => Some(Work::SyncWrite),
        "overwrite" => Some(Work::Overwrite),
        "read" => Some(Work::Read),
        "random-read" => Some(Work::RandomRead),
        other => other.strip_prefix("mixed:").and_then(mixed),
    };
    found.ok_or_else(|| {
        Wrong::option(format!("no work {text:?}")).hint(
            "it is write, sync-write, overwrite, read, random-read, mixed:70 or recorded:FILE",
        )
    })
}

fn ratio(text: &str) -> Result<f64, Wrong> {
    let number = text.parse().ok().filter(|number| (1.0..=100.0).contains(number));
    let wrong = || Wrong::option(format!("--compression {text:?} is not a number from 1 to 100"));
    number.ok_or_else(wrong)
}

fn count(name: &str, text: &str, least: usize) -> Result<usize, Wrong> {
    let number = text.parse().ok().filter(|number| (least..=1024).contains(number));
    let range = format!("a number from {least} to 1024");
    number.ok_or_else(|| Wrong::option(format!("--{name} {text:?} is not {range}")))
}

fn bytes(name: &str, text: &str) -> Result<u64, Wrong> {
    let wrong = |e: PiosError| Wrong::option(format!("--{name}: {e}"));
    parse_bytes(text).map_err(wrong)
}

/// What was swept, and what came out.
fn points(swept: &[&'static str], all: &[Options], answers: &[Answer]) -> Vec<Point> {
    let one = |(options, answer): (&Options, &Answer)| {
        let value = |name: &&'static str| {
            ((*name).to_owned(), options.get(name).cloned().unwrap_or_default())
        };
        Point { options: swept.iter().map(value).collect(), answer: *answer }
    };
    all.iter().zip(answers).map(one).collect()
}

/// The command without what all its questions have in common, for the head of the page.
fn how(swept: &[&'static str], all: &[Options]) -> String {
    let mut how = format!("zinc {}: zinc lab what-if", env!("CARGO_PKG_VERSION"));
    for (name, value) in all.first().into_iter().flatten() {
        if !swept.contains(name) {
            how += &format!(" --{name} {value}");
        }
    }
    for name in swept {
        let mut values: Vec<&str> = Vec::new();
        for value in all.iter().filter_map(|options| options.get(name)) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        how += &format!(" --sweep {name}={}", values.join(","));
    }
    how
}

fn as_json(all: &[Options], answers: &[Answer]) -> Value {
    let latency = |l: Latency| json!({ "p50": l.p50, "p90": l.p90, "p99": l.p99, "max": l.max });
    let one = |(options, a): (&Options, &Answer)| {
        let given = options.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        json!({
            "options": Value::Object(given.collect::<Map<_, _>>()),
            "mib_per_second": a.mib_per_second,
            "per_second": a.per_second,
            "latency_ms": latency(a.latency),
            "read_latency_ms": a.reads.map(latency),
            "write_latency_ms": a.writes.map(latency),
            "busy_percent": a.busy_percent,
            "limit": a.limit.text(),
        })
    };
    Value::Array(all.iter().zip(answers).map(one).collect())
}
