//! Taking a pool over: it is opened for writing, and its labels say from now on that it is active
//! and whose it is. Nothing stays behind in memory.

use super::Args;
use crate::cmd::zpool::create::check_pool_name;
use crate::cmd::zpool::settings::{self, Setting};
use crate::failure::Failure;
use crate::live::{LiveHow, Tuning, import, import_options, invocation, pick, tell_txgs};
use crate::ui;
use engine::pool::CandidateState;
use engine::{Candidate, Pool};
use std::process::ExitCode;

/// What only matters when a pool is taken over.
#[derive(clap::Args)]
pub struct TakeArgs {
    /// Import all pools found
    #[arg(short = 'a')]
    pub all: bool,
    /// Also when another system used it last and did not export it
    #[arg(short = 'f')]
    force: bool,
    /// Accepted; zinc mounts nothing here
    #[arg(short = 'N')]
    no_mount: bool,
    /// readonly=on: see whether the pool opens, and change nothing; others are set (repeatable)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    properties: Vec<String>,
    /// Accepted; zinc mounts nothing here
    #[arg(short = 'R', value_name = "ROOT")]
    root: Option<String>,
    /// The new name is for this import only: it is forgotten, for nothing stays imported
    #[arg(short = 't')]
    temporary: bool,
    /// Print what each transaction group did
    #[arg(long = "show-txgs")]
    show_txgs: bool,
    #[command(flatten)]
    tuning: Tuning,
}

impl Args {
    /// Imports the pool that was named, or all.
    pub fn import(&self) -> Result<ExitCode, Failure> {
        let found = crate::live::candidates(&self.pool.search)?;
        let fits = |c: &Candidate| (c.state() == CandidateState::Destroyed) == self.destroyed;
        let Some(name) = &self.name else {
            let chosen: Vec<_> = found.into_iter().filter(fits).collect();
            if chosen.is_empty() {
                ui::error("no pools available to import\n");
                return Ok(ExitCode::FAILURE);
            }
            let mut code = ExitCode::SUCCESS;
            for candidate in chosen {
                if let Err(failure) = self.take(&candidate) {
                    code = failure.report();
                }
            }
            return Ok(code);
        };
        let is_it = |c: &Candidate| {
            c.name() == name || name.parse::<u64>().ok() == Some(c.config.pool_guid)
        };
        if !found.iter().any(|c| is_it(c) && fits(c)) {
            let destroyed = found.iter().any(|c| is_it(c) && !self.destroyed);
            let hint = match destroyed {
                true => "it was destroyed: -D gets it back",
                false => "name directories, files or disks to search with -d PATH",
            };
            let what = format!("cannot import '{name}': no such pool available");
            return Err(Failure::new(what).hint(hint));
        }
        self.take(&pick(found, &self.pool.search, name, fits)?)?;
        Ok(ExitCode::SUCCESS)
    }

    fn take(&self, candidate: &Candidate) -> Result<(), Failure> {
        let name = candidate.name().to_owned();
        let doing = format!("cannot import '{name}'");
        let parse = |text: &String| settings::parse(&doing, text);
        let settings: Vec<_> =
            self.take.properties.iter().map(parse).collect::<Result<_, Failure>>()?;
        if settings.contains(&Setting::ReadOnly(true)) {
            Pool::open_candidate(candidate, &self.pool.options())?;
            return Ok(());
        }
        let mut options =
            import_options(&self.pool.search, self.pool.open.cache_mib, &self.take.tuning)?;
        options.force = self.take.force;
        options.destroyed = self.destroyed;
        if let (Some(new), false) = (&self.new_name, self.take.temporary) {
            check_pool_name(new, "import")?;
            options.rename = Some(new.clone());
        }
        let pool = import(candidate, &options)?;
        for setting in settings {
            if let Setting::Stored(name, word) = setting {
                pool.set_pool_property(name, word)?;
            }
        }
        pool.log(&invocation())?;
        let how = LiveHow {
            txgs: self.take.show_txgs,
            cache_mib: self.pool.open.cache_mib,
            tuning: self.take.tuning.clone(),
        };
        tell_txgs(&pool, &how)?;
        Ok(pool.close()?)
    }
}
