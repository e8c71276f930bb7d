//! `zinc zfs allow` and `zfs unallow`: what other users may do.

use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::live::{self, LiveArgs, LiveOptions};
use crate::refusals::cannot;
use crate::session::Session;
use crate::ui;
use engine::datasets::{self, Permissions};
use std::path::PathBuf;
use std::process::ExitCode;
use views::datasets::permissions::{Holders, meant, text};

/// Arguments of `zinc zfs allow`.
#[derive(clap::Args)]
#[command(after_help = "\
DATASET alone: list its permissions.
WHO is a user or group (or several: A,B), or 'everyone'; -e, -c and '-s @SET' take its place.
PERMISSION is the name of an operation, of a property or of a set, or several: snapshot,@mine.")]
pub struct Allow {
    /// Only for the dataset itself
    #[arg(short = 'l')]
    local: bool,
    /// Only for all datasets below
    #[arg(short = 'd')]
    descendents: bool,
    /// WHO are users
    #[arg(short = 'u', conflicts_with_all = ["group", "everyone"])]
    user: bool,
    /// WHO are groups
    #[arg(short = 'g', conflicts_with = "everyone")]
    group: bool,
    /// Everyone
    #[arg(short = 'e')]
    everyone: bool,
    /// The user who creates a dataset below, for that dataset
    #[arg(short = 'c', conflicts_with_all = ["local", "descendents", "user", "group", "everyone"])]
    creator: bool,
    /// The set @SET
    #[arg(short = 's', conflicts_with_all = ["creator", "user", "group", "everyone"])]
    set: bool,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    how: LiveOptions,
    #[arg(required = true, num_args = 1..=3, value_name = "WHO PERMISSION,… DATASET")]
    words: Vec<String>,
}

/// Arguments of `zinc zfs unallow`.
#[derive(clap::Args)]
#[command(after_help = "Without PERMISSION: all that WHO has.")]
pub struct Unallow {
    /// Also for all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    #[command(flatten)]
    what: Allow,
}

impl Verb for Allow {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.live().is_for_everyone(session, self.dataset()))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let has_no_grantee =
            !(self.everyone || self.creator || self.set || self.user || self.group);
        let ([dataset], true) = (&self.words[..], has_no_grantee) else {
            let permissions = self.permissions(session, false)?;
            return self.change(session, |pool, name| permissions.allow(pool, name));
        };
        let pool = self.live().look(session, dataset)?;
        let all = datasets::permissions(&pool, dataset).map_err(|e| cannot("open", dataset, e))?;
        ui::out(session, &text(&all, session));
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Unallow {
    fn served(&self, session: &Session) -> Served {
        self.what.served(session)
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let permissions = self.what.permissions(session, true)?;
        self.what.change(session, |pool, name| permissions.unallow(pool, name, self.recursive))
    }
}

impl Allow {
    fn live(&self) -> LiveArgs {
        LiveArgs { search: self.search.clone(), options: self.how.clone() }
    }

    fn dataset(&self) -> &[String] {
        &self.words[self.words.len().saturating_sub(1)..]
    }

    fn change(
        &self,
        session: &Session,
        act: impl FnOnce(&engine::LivePool, &str) -> engine::Result<()>,
    ) -> Result<ExitCode, Failure> {
        let name = self.dataset().first().map_or("", String::as_str);
        live::change(session, &self.search, &self.how, name, |pool| {
            act(pool, name).map_err(|e| cannot("set permissions on", name, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// The permissions to grant or revoke; their names may be left out only if all `may_be_meant`.
    fn permissions(&self, session: &Session, may_be_meant: bool) -> Result<Permissions, Failure> {
        let holders = match () {
            () if self.everyone => Holders::Everyone,
            () if self.creator => Holders::Creator,
            () if self.set => Holders::Set,
            () if self.user => Holders::Users,
            () if self.group => Holders::Groups,
            () => Holders::Any,
        };
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let meant = meant(holders, &words[..words.len().saturating_sub(1)], may_be_meant, session);
        let meant = meant.map_err(Failure::usage)?;
        Ok(match (self.local, self.descendents) {
            (true, false) => meant.on_itself(),
            (false, true) => meant.on_descendents(),
            _ => meant,
        })
    }
}
