//! `zinc lab sensitivity`: what hangs on each number of a simulated disk.

use super::{clear_line, experiment};
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use lab::experiment::Setting;
use lab::sensitivity::{json, markdown, sensitivity};
use lab::target::Target;
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments of `zinc lab sensitivity`.
#[derive(clap::Args)]
pub struct Sensitivity {
    /// Names of experiments (`zinc lab list`); each is run twice for every number of its disk, and
    /// some times for every row that numbers were fitted by
    #[arg(required = true, value_name = "EXPERIMENT")]
    names: Vec<String>,
    /// On these simulated disks instead of the study's (`zinc lab presets`, or a file with one)
    #[arg(long, value_name = "PRESET")]
    sim: Option<String>,
    /// Change each number by this percentage
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    percent: f64,
    /// Fraction of the study's amount of work, at most 1
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = lab::options::part)]
    scale: f64,
    /// Seed of all that is random, the same in all runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    lab::options::number_up_to(text, 50.0)
}

impl Verb for Sensitivity {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let experiments =
            self.names.iter().map(|name| experiment(name)).collect::<Result<Vec<_>, _>>()?;
        let target = Target::sim(self.sim.as_deref().unwrap_or(""))?;
        let mut all = Vec::new();
        for experiment in experiments {
            let name = experiment.name;
            let show = !self.json;
            let session_of_line = session.clone();
            let progress = move |what: &str| {
                if show {
                    ui::progress(&session_of_line, &format!("{name}: {what}"));
                }
            };
            let setting = Setting {
                seed: self.seed,
                scale: self.scale,
                progress: Arc::new(progress),
                ..Setting::default()
            };
            all.push(sensitivity(experiment, &target, &setting, self.percent / 100.0)?);
            clear_line(session);
        }
        if self.json {
            ui::json(session, &json(&all));
        } else {
            ui::out(session, &markdown(&all));
        }
        Ok(ExitCode::SUCCESS)
    }
}
