//! `zinc zfs diff`: what changed between a snapshot and something later of the same line.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::objsets::Sets;
use crate::opening::Pools;
use crate::progress::while_wanted;
use crate::refusals::cannot;
use crate::session::Session;
use crate::ui;
use engine::diff::{Comparison, Diff};
use engine::{Dataset, Error, ErrorKind, Rule};
use serde_json::json;
use std::process::ExitCode;
use std::slice::from_ref;
use views::diff::{self as view, Style};

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
    /// The later state: a snapshot, a file system, or a clone of the first [default: the snapshot's
    /// file system]
    #[arg(value_name = "SNAPSHOT|FILESYSTEM")]
    to: Option<String>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.pool.is_for_everyone(session, from_ref(&self.from)))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let states = Comparison::new(&self.from, self.to.as_deref());
        let mut states =
            states.map_err(|_| Failure::usage(format!("'{}' is not a snapshot", self.from)))?;
        let to = states.later().to_owned();
        // Older states are only read.
        if let Some(pool) = session.held(&self.from).filter(|_| self.pool.open.is_of_now()) {
            states = states.held_in(&pool).map_err(|e| self.refused(&to, e))?;
        }
        let mut pools = Pools::new(self.pool.clone().of_files());
        let pool = pools.of(session, &self.from)?;
        while_wanted(session, |progress| {
            let sets = Sets::new(session, pool, &self.pool.open);
            let open = |dataset: &Dataset| sets.open(dataset);
            let diff = states.run(pool, &open, progress);
            self.print(session, diff.map_err(|e| self.refused(&to, e))?, &to)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn refused(&self, to: &str, e: Error) -> Failure {
        match (e.kind(), e.hint()) {
            (ErrorKind::Against(rule @ Rule::NotEarlier), Some(hint)) => {
                Failure::new(format!("cannot compare '{}' with '{to}'", self.from))
                    .because(rule.to_string())
                    .hint(views::hints::text(hint))
            }
            (ErrorKind::Refused(_), _) => cannot("compare", &self.from, e),
            _ => e.into(),
        }
    }

    fn print(&self, session: &Session, diff: Diff<'_>, to: &str) -> Result<(), Failure> {
        let later = diff.later().to_owned();
        let (classify, time, script, raw) = (self.classify, self.time, self.script, self.raw);
        let style = Style { classify, time, script, raw };
        let mut all = Vec::new();
        for change in diff {
            let change = change?;
            if self.json {
                all.push(view::json(&change));
            } else {
                ui::out(session, &style.line(&change));
            }
        }
        if self.json {
            let of = json!({ "from": self.from, "to": to, "changes": all });
            let content = serde_json::Map::from_iter([(later, of)]);
            ui::json(session, &crate::json::document("zfs diff", "datasets", content));
        }
        Ok(())
    }
}
