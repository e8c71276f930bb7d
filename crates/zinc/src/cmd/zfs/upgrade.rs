//! `zinc zfs upgrade`: versions of file systems. Each is told; none is changed yet.

use super::select::{SelectFilter, Selection, select};
use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui;
use std::process::ExitCode;
use views::datasets::versions::{NEWEST, list, report, version};
use views::datasets::{Types, sort_by_name};

/// Arguments of `zinc zfs upgrade`.
#[derive(clap::Args)]
#[command(disable_version_flag = true)]
pub struct Args {
    /// All file systems of all pools
    #[arg(short = 'a', conflicts_with_all = ["list", "names"])]
    all: bool,
    /// List the versions there are
    #[arg(short = 'v', conflicts_with = "names")]
    list: bool,
    /// Also everything below the named file systems
    #[arg(short = 'r', requires = "names")]
    recursive: bool,
    /// The version to have; 5 alone is possible
    #[arg(short = 'V', value_name = "VERSION", conflicts_with = "list")]
    version: Option<u64>,
    #[command(flatten)]
    pool: PoolArgs,
    /// File systems; without one: which have an older version
    names: Vec<String>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.list {
            ui::out(session, &list());
            return Ok(ExitCode::SUCCESS);
        }
        if self.version.is_some_and(|version| version != NEWEST) {
            return Err(Failure::usage(format!("zinc writes version {NEWEST} alone")));
        }
        let depth = (!self.names.is_empty() && !self.recursive).then_some(0);
        let wanted =
            SelectFilter::new(Some(Types::FILESYSTEM), depth.is_none(), None, Types::HEADS);
        let mut pools = Pools::new(self.pool.clone());
        let Some(mut selection) = select(session, &mut pools, &self.names, &wanted, &[])? else {
            return Ok(ExitCode::SUCCESS);
        };
        sort_by_name(&mut selection.found);
        if self.all || !self.names.is_empty() {
            return upgrade(session, &selection);
        }
        ui::out(session, &report(&selection.found));
        Ok(selection.finish(session))
    }
}

/// Says of each what would have to be done; the exit code.
fn upgrade(session: &Session, selection: &Selection) -> Result<ExitCode, Failure> {
    if let Some(older) = selection.found.iter().find(|s| version(s) < Some(NEWEST)) {
        let what = format!("cannot upgrade '{}'", older.name);
        return Err(
            Failure::new(what).because("zinc does not change the version of a file system yet")
        );
    }
    let count = selection.found.len();
    ui::out(
        session,
        &format!("0 filesystems upgraded\n{count} filesystems already at this version\n"),
    );
    Ok(selection.finish(session))
}
