//! `zinc zfs upgrade`: versions of file systems, shown and made newer.

use super::select::select;
use super::snapshot::one_pool;
use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::opening::Pools;
use crate::refusals::cannot;
use crate::session::Session;
use crate::{found, served, ui};
use engine::datasets::{Upgraded, upgrade};
use engine::select::{DatasetTypes, SelectFilter};
use std::process::ExitCode;
use views::datasets::sort_by_name;
use views::datasets::versions::{NEWEST, done, list, parse, report};

/// Arguments of `zinc zfs upgrade`.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// All file systems of all pools
    #[arg(short = 'a', conflicts_with = "list")]
    all: bool,
    /// List the known versions
    #[arg(short = 'v', conflicts_with = "names")]
    list: bool,
    /// Also everything below the named file systems
    #[arg(short = 'r', requires = "names")]
    recursive: bool,
    /// The version to upgrade to, 1 to 5 [default: the newest]
    #[arg(short = 'V', value_name = "VERSION", conflicts_with = "list")]
    version: Option<String>,
    #[command(flatten)]
    live: LiveArgs,
    /// File systems of one pool; without one: which have an older version
    names: Vec<String>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let is_list = !self.all && self.names.is_empty();
        Served::everyone_if(is_list && self.live.is_for_everyone(session, &self.names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.list {
            ui::out(session, &list());
            return Ok(ExitCode::SUCCESS);
        }
        let Some(version) = self.version.as_deref().map_or(Some(NEWEST), parse) else {
            return Err(Failure::usage("there are the versions 1 to 5 of file systems"));
        };
        if !self.all && self.names.is_empty() {
            return self.show(session);
        }
        let mut code = ExitCode::SUCCESS;
        // With -a, a server gets the name of its own pool.
        let names = match self.all && session.client().is_none() {
            true if !self.names.is_empty() => {
                return Err(Failure::usage("-a is for all file systems: name none"));
            }
            true => {
                let (served, worst) = served::forward_each(session, &self.live.search)?;
                code = ExitCode::from(worst);
                let mut names = Vec::new();
                for found in found::all(session, &self.live.search, &served)? {
                    match found {
                        Ok(found) => names.push(vec![found.candidate.name().to_owned()]),
                        Err(failure) => code = failure.report(session),
                    }
                }
                names
            }
            false => {
                one_pool(&self.names)?;
                vec![self.names.clone()]
            }
        };
        let mut all = Upgraded::default();
        for names in names.iter().filter(|names| !names.is_empty()) {
            match self.upgrade(session, names, version) {
                Ok(done) => all.add(done),
                Err(failure) => code = failure.report(session),
            }
        }
        let (text, newer) = done(&all);
        ui::out(session, &text);
        ui::error(session, &newer);
        Ok(if newer.is_empty() { code } else { ExitCode::FAILURE })
    }
}

impl Args {
    fn upgrade(
        &self,
        session: &Session,
        names: &[String],
        version: u64,
    ) -> Result<Upgraded, Failure> {
        let first = names.first().map_or("", String::as_str);
        self.live.change(session, first, |pool| {
            let done = match self.all {
                true => upgrade(pool, &[pool.name()], true, version),
                false => upgrade(pool, names, self.recursive, version),
            };
            done.map_err(|e| cannot("upgrade", first, e))
        })
    }

    fn show(&self, session: &Session) -> Result<ExitCode, Failure> {
        let wanted =
            SelectFilter::new(Some(DatasetTypes::FILESYSTEM), true, None, DatasetTypes::HEADS);
        let search = self.live.search.clone();
        let mut pools = Pools::new(PoolArgs { search, ..PoolArgs::default() });
        let Some(mut selection) = select(session, &mut pools, &[], wanted, &[])? else {
            return Ok(ExitCode::SUCCESS);
        };
        sort_by_name(&mut selection.found);
        ui::out(session, &report(&selection.found));
        Ok(selection.finish(session))
    }
}
