//! `zinc advise`: what to set for a pool, and why.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use engine::pools::has_rotating_disks;
use lab::advise;
use lab::target::Target;
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
        match self.json {
            true => ui::json(session, &advise::json(pool.name(), &preset, &advice)),
            false => {
                let text = advise::text(pool.name(), &preset, self.disk.is_some(), &advice);
                ui::out(session, &text);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
