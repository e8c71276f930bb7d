//! `zinc zfs diff`: what changed between a snapshot and something later of the same line.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::objsets::Sets;
use crate::opening::Pools;
use crate::progress::while_wanted;
use crate::session::Session;
use crate::{hints, ui};
use engine::diff::{self, Change, Diff, What};
use engine::files::FileKind;
use engine::{Dataset, Error, ErrorKind, Rule};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments of `zinc zfs diff`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Show the type of each file, as `ls -F` does
    #[arg(short = 'F')]
    classify: bool,
    /// Show the time of the change
    #[arg(short = 't')]
    time: bool,
    /// Tabs between columns, no arrows
    #[arg(short = 'H')]
    script: bool,
    /// Print names as they are, without octal escapes
    #[arg(short = 'h')]
    raw: bool,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pool: PoolArgs,
    /// The earlier state
    #[arg(value_name = "SNAPSHOT")]
    from: String,
    /// The later state: a snapshot, a file system, or a clone of the first; the snapshot's file
    /// system when left out
    #[arg(value_name = "SNAPSHOT|FILESYSTEM")]
    to: Option<String>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Some((path, _)) = self.from.split_once('@') else {
            return Err(Failure::usage(format!("{:?} is not a snapshot", self.from)));
        };
        let to = diff::later_name(path, self.to.as_deref());
        let mut pools = Pools::new(self.pool.clone().of_files());
        let pool = pools.of(session, &self.from)?;
        while_wanted(session, |progress| {
            let sets = Sets::new(session, pool, &self.pool.open);
            let open = |dataset: &Dataset| sets.open(dataset);
            let diff = Diff::new(pool, &self.from, Some(&to), &open, progress);
            self.print(session, diff.map_err(|e| self.refused(&to, e))?, &to)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn refused(&self, to: &str, e: Error) -> Failure {
        match (e.kind(), e.hint()) {
            (ErrorKind::Against(rule @ Rule::NotEarlier), Some(hint)) => {
                Failure::new(format!("cannot compare {:?} with {to:?}", self.from))
                    .because(rule.to_string())
                    .hint(hints::words(hint))
            }
            _ => e.into(),
        }
    }

    fn print(&self, session: &Session, diff: Diff<'_>, to: &str) -> Result<(), Failure> {
        let later = diff.later().to_owned();
        let mut all = Vec::new();
        for change in diff {
            let change = change?;
            if self.json {
                all.push(json(&change));
            } else {
                ui::out(session, &self.line(&change));
            }
        }
        if self.json {
            let of = json!({ "from": self.from, "to": to, "changes": all });
            let content = serde_json::Map::from_iter([(later, of)]);
            ui::json(session, &crate::json::document("zfs diff", "datasets", content));
        }
        Ok(())
    }

    fn line(&self, change: &Change) -> String {
        let (seen, links) = (&change.file, links(change));
        let mut t = String::new();
        // Writing to a String cannot fail.
        if self.time {
            let _ = write!(t, "{:10}.{:09}\t", seen.ctime.seconds, seen.ctime.nanos);
        }
        let _ = write!(t, "{}\t", sign(change));
        if self.classify {
            let _ = write!(t, "{}\t", type_sign(seen.kind));
        }
        if let Some(was) = was(change) {
            t.push_str(&self.name(was));
            t.push_str(if self.script { "\t" } else { " -> " });
        }
        t.push_str(&self.name(&seen.path));
        if links != 0 {
            let _ = write!(t, "\t({links:+})");
        }
        t.push('\n');
        t
    }

    /// A path for the terminal: blanks, backslashes and what is not ASCII as `\0ooo`.
    fn name(&self, path: &[u8]) -> String {
        if self.raw {
            return String::from_utf8_lossy(path).into_owned();
        }
        let mut out = String::new();
        for b in path {
            match b {
                b'!'..=b'~' if *b != b'\\' => out.push(char::from(*b)),
                _ => {
                    let _ = write!(out, "\\{b:04o}");
                }
            }
        }
        out
    }
}

/// `+`, `-`, `R` or `M`.
fn sign(change: &Change) -> char {
    match change.what {
        What::Added => '+',
        What::Removed => '-',
        What::Renamed { .. } => 'R',
        What::Modified { .. } => 'M',
    }
}

/// The former path, of a renamed file.
fn was(change: &Change) -> Option<&[u8]> {
    match &change.what {
        What::Renamed { from } => Some(from),
        _ => None,
    }
}

/// The change of the number of links, of a file that was modified.
fn links(change: &Change) -> i128 {
    match change.what {
        What::Modified { links } => links,
        _ => 0,
    }
}

fn json(change: &Change) -> Value {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let Change { object, file, .. } = change;
    json!({
        "change": sign(change).to_string(),
        "type": type_sign(file.kind).to_string(),
        "object": object,
        "path": text(&file.path),
        "old_path": was(change).map(text),
        "links": i64::try_from(links(change)).unwrap_or(i64::MAX),
        "ctime": [file.ctime.seconds, file.ctime.nanos.cast_signed()],
    })
}

fn type_sign(kind: FileKind) -> char {
    match kind {
        FileKind::File => 'F',
        FileKind::Dir => '/',
        FileKind::Symlink => '@',
        FileKind::Fifo => '|',
        FileKind::Socket => '=',
        FileKind::Block => 'B',
        FileKind::Char => 'C',
        FileKind::Unknown => '?',
    }
}
