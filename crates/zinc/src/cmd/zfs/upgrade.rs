//! `zinc zfs upgrade`: versions of file systems. Each is told; none is changed yet.

use super::select::{Selection, Wanted, select};
use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui;
use std::fmt::Write as _;
use std::process::ExitCode;
use views::datasets::{Selected, Types, sort_by_name};

/// The version of new file systems, and the newest there is.
const NEWEST: u64 = 5;

/// What each version brought, from 1 on.
const VERSIONS: [&str; NEWEST as usize] = [
    "Initial ZFS filesystem version",
    "Enhanced directory entries",
    "Case insensitive and filesystem user identifier (FUID)",
    "userquota, groupquota properties",
    "System attributes",
];

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
            ui::out(session, &versions());
            return Ok(ExitCode::SUCCESS);
        }
        if self.version.is_some_and(|version| version != NEWEST) {
            return Err(Failure::usage(format!("zinc writes version {NEWEST} alone")));
        }
        let depth = (!self.names.is_empty() && !self.recursive).then_some(0);
        let wanted = Wanted::new(Some(Types::FILESYSTEM), depth.is_none(), None, Types::HEADS);
        let mut pools = Pools::new(self.pool.clone());
        let Some(mut selection) = select(session, &mut pools, &self.names, &wanted, &[])? else {
            return Ok(ExitCode::SUCCESS);
        };
        sort_by_name(&mut selection.found);
        if self.all || !self.names.is_empty() {
            return upgrade(session, &selection);
        }
        ui::out(session, &report(&selection));
        Ok(selection.finish(session))
    }
}

fn version(of: &Selected) -> Option<u64> {
    of.property("version")?.number()
}

fn versions() -> String {
    let mut text = "The following filesystem versions are supported:\n\n\
                    VER  DESCRIPTION\n---  -----------\n"
        .to_owned();
    for (version, what) in (1..).zip(VERSIONS) {
        let _ = writeln!(text, "{version:>2}   {what}");
    }
    text
}

fn report(selection: &Selection) -> String {
    let mut text = format!("This system is currently running ZFS filesystem version {NEWEST}.\n\n");
    let older: Vec<_> = selection.found.iter().filter(|s| version(s) < Some(NEWEST)).collect();
    if older.is_empty() {
        text.push_str("All filesystems are formatted with the current version.\n");
        return text;
    }
    text.push_str("These have an older version:\n\nVER  FILESYSTEM\n---  ----------\n");
    for s in older {
        let shown = version(s).map_or_else(|| "?".to_owned(), |version| version.to_string());
        let _ = writeln!(text, "{shown:>2}   {}", s.name);
    }
    text
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
