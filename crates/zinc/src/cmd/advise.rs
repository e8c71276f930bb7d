//! `zinc advise`: what to set for a pool, and why.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use engine::pools::has_rotating_disks;
use lab::advise;
use lab::target::Target;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments of `zinc advise`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// What its disks are like: a preset (`zinc lab presets`), or a file that `zinc lab fit` wrote
    #[arg(long, value_name = "PRESET")]
    disk: Option<String>,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Name or guid of the pool
    name: String,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let pool = self.pool.open(session, &self.name)?;
        let guess = if has_rotating_disks(&pool) { "hdd-16t" } else { "nvme" };
        let Target::Sim(Some(preset)) = Target::sim(self.disk.as_deref().unwrap_or(guess))? else {
            return Err(Failure::usage("which disk?").hint("`zinc lab presets` lists them"));
        };
        let costs = advise::costs(&preset)?;
        let facts = advise::look(&pool);
        let memory = (self.pool.open.cache_mib as u64) << 20;
        let advice = advise::advise(&facts, &costs, &preset, memory);
        if self.json {
            let list: Vec<_> = advice
                .iter()
                .map(|advice| json!({ "set": advice.set, "because": advice.because }))
                .collect();
            ui::json(session, &json!({ "pool": pool.name(), "disk": preset.name, "advice": list }));
            return Ok(ExitCode::SUCCESS);
        }
        let how = if self.disk.is_some() { "as you say" } else { "assumed; see --disk" };
        let mut text = format!("{}: disks like {} ({how})\n", pool.name(), preset.description);
        for advice in &advice {
            let _ = write!(text, "\n{}\n    because {}\n", advice.set, advice.because);
        }
        ui::out(session, &text);
        Ok(ExitCode::SUCCESS)
    }
}
