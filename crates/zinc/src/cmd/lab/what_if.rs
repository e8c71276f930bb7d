//! `zinc lab what-if`: what a pool would do, before its disks are bought.

use super::{clear_line, seconds};
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::report_file::ReportFile;
use crate::session::Session;
use crate::ui;
use lab::disk::Preset;
use lab::error::LabError;
use lab::pios::{PiosError, parse_bytes};
use lab::target::Target;
use lab::what_if::{Answer, Latency, Layout, Point, Question, State, Work, picture, what_if};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `zinc lab what-if`.
#[derive(clap::Args)]
#[command(after_help = "\
  zinc lab what-if --disk hdd-16t --disks 12 --layout raidz2:6 --work random-read
  zinc lab what-if --disks 6 --sweep layout=stripe,mirror:2,raidz2:6 --sweep threads=1,16
  zinc lab what-if --disks 6 --layout raidz2:6 --work sync-write --sweep logs=0,2
  zinc lab what-if --layout mirror:2 --work mixed:70 --sweep state=new,full,degraded

The engine runs on models of disks in simulated time. Processors cost nothing there, so what fast
flash disks do is an upper bound. On new disks seeks of rotating disks are as short as in a new
pool; on full ones they go over all of the disk.")]
pub struct WhatIf {
    /// The disks: a name from `zinc lab presets`, or a file that `zinc lab fit` wrote
    #[arg(long, value_name = "PRESET", default_value = "hdd-16t")]
    disk: String,
    /// How many disks
    #[arg(long, value_name = "N", default_value = "6")]
    disks: String,
    /// How they lie: stripe, mirror:2, raidz1:5, raidz2:6, raidz3:11; the number is a group's
    #[arg(long, value_name = "LAYOUT", default_value = "stripe")]
    layout: String,
    /// Disks for the intent log, as one mirror
    #[arg(long, value_name = "N", default_value = "0")]
    logs: String,
    /// Disks for metadata, as one mirror
    #[arg(long, value_name = "N", default_value = "0")]
    specials: String,
    /// What those for log and metadata are
    #[arg(long, value_name = "PRESET", default_value = "nvme")]
    fast: String,
    /// new, full (80 % are allocated, and all of it was overwritten at random), degraded (a disk is
    /// missing) or resilvering (one that missed everything is filled)
    #[arg(long, value_name = "STATE", default_value = "new")]
    state: String,
    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    record: String,
    /// Data that LZ4 stores in this many times fewer bytes; 1 is without compression
    #[arg(long, value_name = "RATIO", default_value = "1")]
    compression: String,
    /// Bytes of all files together
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    files: String,
    /// Threads, each with a file of its own
    #[arg(long, value_name = "N", default_value = "4")]
    threads: String,
    /// Bytes of a read or write
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    chunk: String,
    /// write (in order), sync-write (and wait each time until it is safe), overwrite (at random
    /// places), read (in order), random-read, or mixed:70 (at random, 70 reads of a hundred)
    #[arg(long, value_name = "WORK", default_value = "write")]
    work: String,
    /// Try each of these values of one of the options above, and all pairs with a second --sweep
    #[arg(long, value_name = "OPTION=VALUE,...")]
    sweep: Vec<String>,
    /// Seconds of the load, of simulated time
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    seconds: f64,
    /// Decides what chance decides
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Write a page with the table and its charts into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Options and their values, as they were given.
type Options = BTreeMap<&'static str, String>;

/// The most combinations.
const MOST: usize = 1000;

impl Verb for WhatIf {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let base = self.options();
        let sweeps = self.sweeps(&base)?;
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
            return Err(Failure::usage(format!("{} combinations, {MOST} at most", all.len())));
        }
        // All of them are understood before the first one runs.
        let questions: Vec<Question> =
            all.iter().map(|options| self.question(options)).collect::<Result<_, _>>()?;
        let page = self.html.as_deref().map(|path| ReportFile::begin(session, path)).transpose()?;
        let mut answers = Vec::new();
        for (number, question) in questions.iter().enumerate() {
            if !self.json {
                ui::progress(session, &format!("what-if: {} of {}", number + 1, questions.len()));
            }
            answers.push(what_if(question)?);
        }
        clear_line(session);
        let swept: Vec<&'static str> = sweeps.iter().map(|sweep| sweep.0).collect();
        if self.json {
            ui::json(session, &as_json(&all, &answers));
        } else {
            ui::table(session, &table(&swept, &all, &answers));
        }
        if let Some(page) = page {
            page.write(&picture(&points(&swept, &all, &answers), &how(&swept, &all)))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl WhatIf {
    fn options(&self) -> Options {
        let all = [
            ("disk", &self.disk),
            ("disks", &self.disks),
            ("layout", &self.layout),
            ("logs", &self.logs),
            ("specials", &self.specials),
            ("fast", &self.fast),
            ("state", &self.state),
            ("compression", &self.compression),
            ("record", &self.record),
            ("files", &self.files),
            ("threads", &self.threads),
            ("chunk", &self.chunk),
            ("work", &self.work),
        ];
        all.into_iter().map(|(name, value)| (name, value.clone())).collect()
    }

    fn sweeps(&self, base: &Options) -> Result<Vec<(&'static str, Vec<String>)>, Failure> {
        if self.sweep.len() > 2 {
            return Err(Failure::usage("a table has two --sweep at most"));
        }
        let one = |text: &String| {
            let (name, values) = text.split_once('=').unwrap_or((text, ""));
            let known = base.keys().find(|key| **key == name);
            let values: Vec<String> = values.split(',').map(str::to_owned).collect();
            match known {
                Some(name) if values.iter().all(|value| !value.is_empty()) => Ok((*name, values)),
                _ => Err(Failure::usage(format!("--sweep {text:?} is not OPTION=VALUE,...")).hint(
                    format!("options are {}", base.keys().copied().collect::<Vec<_>>().join(", ")),
                )),
            }
        };
        self.sweep.iter().map(one).collect()
    }

    fn question(&self, options: &Options) -> Result<Question, Failure> {
        let of = |name: &str| options.get(name).map_or("", String::as_str);
        let layout: Layout = of("layout").parse().map_err(|e: LabError| Failure::from(e))?;
        let state: State = of("state").parse().map_err(|e: LabError| Failure::from(e))?;
        let record = u32::try_from(bytes("record", of("record"))?).unwrap_or(u32::MAX);
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
            work: work(of("work"))?,
            seconds: self.seconds,
            seed: self.seed,
        })
    }
}

fn disk(name: &str) -> Result<Preset, Failure> {
    match Target::sim(name)? {
        Target::Sim(Some(preset)) => Ok(*preset),
        _ => Err(Failure::usage("which simulated disk?").hint("`zinc lab presets` lists them")),
    }
}

fn work(text: &str) -> Result<Work, Failure> {
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
        Failure::usage(format!("no work {text:?}"))
            .hint("it is write, sync-write, overwrite, read, random-read or mixed:70")
    })
}

fn ratio(text: &str) -> Result<f64, Failure> {
    let number = text.parse().ok().filter(|number| (1.0..=100.0).contains(number));
    let wrong = || Failure::usage(format!("--compression {text:?} is not a number from 1 to 100"));
    number.ok_or_else(wrong)
}

fn count(name: &str, text: &str, least: usize) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|number| (least..=1024).contains(number));
    let range = format!("a number from {least} to 1024");
    number.ok_or_else(|| Failure::usage(format!("--{name} {text:?} is not {range}")))
}

fn bytes(name: &str, text: &str) -> Result<u64, Failure> {
    let wrong = |e: PiosError| Failure::usage(format!("--{name}: {e}"));
    parse_bytes(text).map_err(wrong)
}

fn table(swept: &[&'static str], all: &[Options], answers: &[Answer]) -> ui::Table {
    let swept_headings: Vec<String> = swept.iter().map(|name| name.to_ascii_uppercase()).collect();
    let columns = ["MB/S", "PER SECOND", "P50 MS", "P90 MS", "P99 MS", "MAX MS", "BUSY %", "LIMIT"];
    let headings: Vec<&str> = swept_headings.iter().map(String::as_str).chain(columns).collect();
    let right: Vec<bool> =
        (0..headings.len()).map(|n| n >= swept.len() && n + 1 < headings.len()).collect();
    let mut table = ui::Table::new(&headings, &right, false);
    for (options, a) in all.iter().zip(answers) {
        let mut row: Vec<String> =
            swept.iter().filter_map(|name| options.get(name).cloned()).collect();
        row.extend([
            format!("{:.1}", a.mib_per_second),
            format!("{:.0}", a.per_second),
            format!("{:.2}", a.latency.p50),
            format!("{:.2}", a.latency.p90),
            format!("{:.2}", a.latency.p99),
            format!("{:.2}", a.latency.max),
            format!("{:.0}", a.busy_percent),
            a.limit.text().to_owned(),
        ]);
        table.row(row);
    }
    table
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

/// What was not swept, for the head of the page.
fn how(swept: &[&'static str], all: &[Options]) -> String {
    let mut how = format!("zinc {}: zinc lab what-if", env!("CARGO_PKG_VERSION"));
    for (name, value) in all.first().into_iter().flatten() {
        if !swept.contains(name) {
            how += &format!(" --{name} {value}");
        }
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
