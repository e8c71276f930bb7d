//! The file of `zinc serve --config`: options that a unit should not carry on its command line.
//!
//! ```text
//! # for all pools
//! http = 127.0.0.1:9134
//! mount
//! tunable = zfs_txg_timeout=10
//!
//! [backup]
//! cache-mib = 1024
//! ```
//!
//! A line is a long option of `zinc serve`, without its dashes. Those below the name of a pool in
//! brackets are for that pool alone, and take precedence; the command line takes precedence over
//! all.

use super::Args;
use crate::failure::Failure;
use crate::session::Session;
use clap::{Args as _, FromArgMatches as _};
use engine::devices::read_text;
use hostfs::options::{Line, parse};
use std::ffi::OsString;
use std::path::Path;

/// Longest file, in bytes.
const TEXT_MAX: u64 = 1 << 20;
/// Options for the process, and not for how pools are served.
const FOREIGN: [&str; 8] =
    ["config", "all", "skip", "background", "log", "part", "serve-now", "help"];

/// The arguments of this command line with those of the file in front; `pool` is the pool that is
/// served, when it is one.
pub fn read(session: &Session, path: &Path, pool: Option<&str>) -> Result<Args, Failure> {
    let shown = path.display();
    let text = read_text(&session.path(path), TEXT_MAX)
        .map_err(|e| Failure::new(format!("cannot read {shown}")).because(e.to_string()))?;
    let at =
        |(number, why): (usize, String)| Failure::usage(format!("{shown}, line {number}: {why}"));
    let lines = parse(&text, &FOREIGN).map_err(at)?;
    for line in &lines {
        check(line).map_err(at)?;
    }
    let general = lines.iter().filter(|line| line.section.is_none());
    let own = lines.iter().filter(|line| line.section.is_some() && line.section.as_deref() == pool);
    let words = general.chain(own).map(|line| OsString::from(&line.argument));
    let typed = session.arguments().iter().skip_while(|word| *word != "serve").skip(1).cloned();
    parsed(words.chain(typed)).map_err(|e| Failure::usage(first_line(&e)))
}

fn parsed(words: impl Iterator<Item = OsString>) -> Result<Args, clap::Error> {
    let command = clap::Command::new("serve").args_override_self(true);
    let command = Args::augment_args(command);
    let words = std::iter::once(OsString::from("serve")).chain(words);
    Args::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Clap's message, without its word for errors and its advice.
fn first_line(e: &clap::Error) -> String {
    let text = e.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Whether it is an option alone, whatever the others are.
fn check(line: &Line) -> Result<(), (usize, String)> {
    let words = [line.argument.as_str(), "pool"].map(OsString::from);
    let done = parsed(words.into_iter());
    done.map(drop).map_err(|e| (line.number, first_line(&e)))
}
