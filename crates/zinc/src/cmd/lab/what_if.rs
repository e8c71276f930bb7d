//! `zinc lab what-if`: what a pool would do, before its disks are bought.

use super::{clear_line, seconds};
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use lab::experiment::LabError;
use lab::pios::{PiosError, parse_bytes};
use lab::target::Target;
use lab::what_if::{Answer, Layout, Question, Work, what_if};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Arguments of `zinc lab what-if`.
#[derive(clap::Args)]
#[command(after_help = "\
  zinc lab what-if --disk hdd-16t --disks 12 --layout raidz2:6 --work random-read
  zinc lab what-if --disks 6 --sweep layout=stripe,mirror:2,raidz2:6 --sweep threads=1,16

The engine runs on models of disks in simulated time. Processors cost nothing there, so what fast
flash disks do is an upper bound; data are stored without compression. All files together are a
gigabyte on empty disks, so seeks of rotating disks are as short as in a new pool.")]
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
    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    record: String,
    /// Threads, each with a file of its own
    #[arg(long, value_name = "N", default_value = "4")]
    threads: String,
    /// Bytes of a read or write
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    chunk: String,
    /// write (in order), overwrite (at random places), read (in order) or random-read
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
        Ok(ExitCode::SUCCESS)
    }
}

impl WhatIf {
    fn options(&self) -> Options {
        let all = [
            ("disk", &self.disk),
            ("disks", &self.disks),
            ("layout", &self.layout),
            ("record", &self.record),
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
        let Target::Sim(Some(disk)) = Target::sim(of("disk"))? else {
            return Err(
                Failure::usage("which simulated disk?").hint("`zinc lab presets` lists them")
            );
        };
        let layout: Layout = of("layout").parse().map_err(|e: LabError| Failure::from(e))?;
        let record = u32::try_from(bytes("record", of("record"))?).unwrap_or(u32::MAX);
        let work = match of("work") {
            "write" => Work::Write,
            "overwrite" => Work::Overwrite,
            "read" => Work::Read,
            "random-read" => Work::RandomRead,
            other => {
                return Err(Failure::usage(format!("no work {other:?}"))
                    .hint("it is write, overwrite, read or random-read"));
            }
        };
        Ok(Question {
            disk: *disk,
            disks: count("disks", of("disks"))?,
            layout,
            record,
            threads: count("threads", of("threads"))?,
            chunk: bytes("chunk", of("chunk"))?,
            work,
            seconds: self.seconds,
            seed: self.seed,
        })
    }
}

fn count(name: &str, text: &str) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number
        .ok_or_else(|| Failure::usage(format!("--{name} {text:?} is not a number from 1 to 1024")))
}

fn bytes(name: &str, text: &str) -> Result<u64, Failure> {
    let wrong = |e: PiosError| Failure::usage(format!("--{name}: {e}"));
    parse_bytes(text).map_err(wrong)
}

fn table(swept: &[&'static str], all: &[Options], answers: &[Answer]) -> ui::Table {
    let swept_headings: Vec<String> = swept.iter().map(|name| name.to_ascii_uppercase()).collect();
    let columns = ["MB/S", "PER SECOND", "P50 MS", "P99 MS", "MAX MS", "BUSY %", "LIMIT"];
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
            format!("{:.2}", a.latency_ms[0]),
            format!("{:.2}", a.latency_ms[1]),
            format!("{:.2}", a.latency_ms[2]),
            format!("{:.0}", a.busy_percent),
            a.limit.text().to_owned(),
        ]);
        table.row(row);
    }
    table
}

fn as_json(all: &[Options], answers: &[Answer]) -> Value {
    let one = |(options, a): (&Options, &Answer)| {
        let given = options.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let [p50, p99, max] = a.latency_ms;
        json!({
            "options": Value::Object(given.collect::<Map<_, _>>()),
            "mib_per_second": a.mib_per_second,
            "per_second": a.per_second,
            "latency_ms": { "p50": p50, "p99": p99, "max": max },
            "busy_percent": a.busy_percent,
            "limit": a.limit.text(),
        })
    };
    Value::Array(all.iter().zip(answers).map(one).collect())
}
