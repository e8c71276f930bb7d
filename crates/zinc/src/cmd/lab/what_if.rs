//! `zinc lab what-if`: what a pool would do, before its disks are bought.

use super::clear_line;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::report_file::ReportFile;
use crate::session::Session;
use crate::ui;
use lab::options::seconds;
use lab::sweep::{Options, Sweep, Wrong};
use lab::what_if::what_if;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `zinc lab what-if`.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
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
    /// Layout: stripe, mirror:2, raidz1:5, raidz2:6, draid2:4d:11c:1s; numbers are those of a group
    #[arg(long, value_name = "LAYOUT", default_value = "stripe")]
    layout: String,
    /// Disks for the intent log, as one mirror
    #[arg(long, value_name = "N", default_value = "0")]
    logs: String,
    /// Disks for metadata, as one mirror
    #[arg(long, value_name = "N", default_value = "0")]
    specials: String,
    /// The disks for log and metadata, as --disk
    #[arg(long, value_name = "PRESET", default_value = "nvme")]
    fast: String,
    /// new, full (80 % allocated, all of it overwritten at random), degraded (a disk is missing) or
    /// resilvering (an empty disk is filled)
    #[arg(long, value_name = "STATE", default_value = "new")]
    state: String,
    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "128K")]
    record: String,
    /// Compression ratio of the data under LZ4; 1 is without compression
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
    /// write (in order), sync-write (and wait each time until it is safe), overwrite (at random),
    /// read (in order), random-read, mixed:70 (70 reads of 100), or recorded:FILE (`zinc top`)
    #[arg(long, value_name = "WORK", default_value = "write")]
    work: String,
    /// Try each of these values of one of the options above, and all pairs with a second --sweep
    #[arg(long, value_name = "OPTION=VALUE,...")]
    sweep: Vec<String>,
    /// Seconds of the load, of simulated time
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0, value_parser = seconds)]
    seconds: f64,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Write a page with the table and its charts into this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Verb for WhatIf {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let sweep = Sweep::new(self.options(), &self.sweep)?;
        // All of them are understood before the first one runs.
        let questions = sweep.questions(self.seconds, self.seed)?;
        let page = self.html.as_deref().map(|path| ReportFile::begin(session, path)).transpose()?;
        let mut answers = Vec::new();
        for (number, question) in questions.iter().enumerate() {
            if !self.json {
                ui::progress(session, &format!("what-if: {} of {}", number + 1, questions.len()));
            }
            answers.push(what_if(question)?);
        }
        clear_line(session);
        if self.json {
            ui::json(session, &sweep.json(&answers));
        } else {
            let (headings, right, rows) = sweep.table(&answers);
            let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
            let mut table = ui::Table::new(&headings, &right, false);
            rows.into_iter().for_each(|row| table.row(row));
            ui::table(session, &table);
        }
        if let Some(page) = page {
            page.write(&sweep.page(&answers, self.seconds, self.seed))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl From<Wrong> for Failure {
    fn from(e: Wrong) -> Self {
        match e {
            Wrong::Option(what, hint) => {
                hint.into_iter().fold(Self::usage(what), |failure, hint| failure.hint(hint))
            }
            Wrong::Lab(e) => e.into(),
        }
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
}
