//! `zinc zfs hold`, `release` and `bookmark`: what is kept of snapshots.

use super::snapshot::one_pool;
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::refusals::cannot;
use crate::session::Session;
use engine::datasets::pool_of;
use engine::{Error, ErrorKind, LivePool, Refusal, Rule, datasets};
use std::process::ExitCode;
use views::cannot::NO_HASH;

/// Arguments of `zinc zfs hold` and `zinc zfs release`.
#[derive(clap::Args)]
pub struct Hold {
    #[command(flatten)]
    live: LiveArgs,
    /// Also the snapshots of that name of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    /// The tag
    tag: String,
    /// Snapshots of one pool
    #[arg(required = true, value_name = "SNAPSHOT")]
    names: Vec<String>,
}

/// Arguments of `zinc zfs bookmark`.
#[derive(clap::Args)]
pub struct Bookmark {
    #[command(flatten)]
    live: LiveArgs,
    /// The snapshot, or the bookmark to copy
    #[arg(value_name = "SNAPSHOT|BOOKMARK")]
    source: String,
    /// The new bookmark, as DATASET#NAME or #NAME
    name: String,
}

impl Verb for Hold {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live.is_for_everyone(session, &self.names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if datasets::check_tag(&self.tag).is_err() {
            return Err(match self.tag.starts_with('.') {
                true => Failure::usage(format!("tag may not start with '.': '{}'", self.tag)),
                false => Failure::usage("a tag has 1 to 255 characters"),
            });
        }
        self.each(session, |pool| {
            let done = datasets::hold(pool, &self.names, &self.tag, self.recursive);
            done.map_err(|e| match (e.kind(), e.dataset()) {
                (ErrorKind::Refused(Refusal::Exists | Refusal::Held(_)), Some(name)) => {
                    let what = format!("cannot hold snapshot '{name}'");
                    Failure::new(format!("{what}: tag already exists on this dataset"))
                }
                (ErrorKind::Against(Rule::NoSnapshots), _) => absent("hold", &e),
                _ => cannot("hold snapshot", "", e),
            })
        })
    }
}

/// `zinc zfs release`, which takes the same arguments.
pub struct Release(pub Hold);

impl Verb for Release {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.0.live.is_for_everyone(session, &self.0.names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.0.each(session, |pool| {
            let done = datasets::release(pool, &self.0.names, &self.0.tag, self.0.recursive);
            done.map_err(|e| match e.kind() {
                ErrorKind::Against(Rule::NoSnapshots) => absent("release hold from", &e),
                _ => cannot("release hold from snapshot", "", e),
            })
        })
    }
}

impl Hold {
    fn each(
        &self,
        session: &Session,
        act: impl FnOnce(&LivePool) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        one_pool(&self.names)?;
        let first = self.names.first().map_or("", String::as_str);
        self.live.change(session, first, act)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The message when neither a dataset nor one below has the snapshot.
fn absent(doing: &str, e: &Error) -> Failure {
    let name = e.operand().unwrap_or_default();
    Failure::new(format!("cannot {doing} snapshot '{name}': dataset does not exist"))
}

impl Verb for Bookmark {
    fn served(&self, session: &Session) -> Served {
        let both = [&self.source, &self.name].into_iter();
        let whole: Vec<_> = both.filter(|n| !n.starts_with(['@', '#'])).cloned().collect();
        Served::everyone_if(self.live.is_for_everyone(session, &whole))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let source = match self.name.split_once('#') {
            Some((base, _)) if self.source.starts_with(['@', '#']) => {
                format!("{base}{}", self.source)
            }
            _ => self.source.clone(),
        };
        let Some((head, _)) = source.split_once(['@', '#']).filter(|(head, _)| !head.is_empty())
        else {
            let what = format!("invalid source name '{source}': must contain a '@' or '#'");
            let hint = "snapshots are named DATASET@SNAPSHOT, bookmarks DATASET#BOOKMARK";
            return Err(Failure::usage(what).hint(hint));
        };
        let name = match self.name.strip_prefix('#') {
            Some(short) => format!("{head}#{short}"),
            None => self.name.clone(),
        };
        if !name.contains('#') {
            return Err(Failure::usage(format!("invalid bookmark name '{name}': {NO_HASH}")));
        }
        if pool_of(&source) != pool_of(&name) {
            let why = "bookmark is in a different pool";
            return Err(Failure::refused(&format!("cannot create bookmark '{name}'"), why));
        }
        self.live.change(session, head, |pool| {
            let done = datasets::bookmark(pool, &name, &source);
            done.map_err(|e| match (e.kind(), e.dataset()) {
                (ErrorKind::NotFound, Some(missing)) if missing == source => {
                    cannot("open", &source, e)
                }
                _ => cannot("create bookmark", &name, e),
            })
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
