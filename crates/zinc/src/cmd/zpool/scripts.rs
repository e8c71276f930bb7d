//! `-c` of `zinc zpool status` and `iostat`: columns that scripts fill, with the rights of this
//! process.

use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use hostfs::scripts::Scripts;
use std::ffi::OsString;
use views::scripts::{devices, fill};

/// Columns that scripts fill.
#[derive(clap::Args)]
pub struct ScriptColumns {
    /// Run these scripts for each device, and show their output; without names: list the available
    /// scripts
    #[arg(short = 'c', value_name = "SCRIPT,..", num_args = 0..=1, default_missing_value = "",
          conflicts_with = "json")]
    pub scripts: Option<String>,
}

/// Scripts that were found, if any were requested.
pub struct Found(Option<Scripts>);

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl ScriptColumns {
    /// Lists the scripts there are, if requested.
    pub fn are_listed(&self, session: &Session) -> bool {
        let wants_list = self.scripts.as_deref() == Some("");
        let are_listed = wants_list && session.client().is_none();
        if are_listed {
            ui::out(session, &Scripts::list(&env));
        }
        are_listed
    }

    /// Finds them; a server that sees a part runs none.
    pub fn find(&self, session: &Session) -> Result<Found, Failure> {
        let wanted = self.scripts.as_deref().filter(|_| session.client().is_none());
        let found = wanted.map(|names| Scripts::find(names, &env, hostfs::is_root())).transpose();
        Ok(Found(found.map_err(|why| Failure::new("cannot run scripts").because(why))?))
    }
}

impl Found {
    /// Puts their columns into a table.
    pub fn fill(&self, table: &str, scripted: bool) -> String {
        match &self.0 {
            Some(scripts) => fill(table, &scripts.run(&devices(table)), scripted),
            None => table.to_owned(),
        }
    }
}
