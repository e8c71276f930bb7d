//! `zinc zpool import`: what could be opened, in which state, and why something cannot; and, with
//! the name of a pool or `-a`, taking pools over.
//!
//! Without a name nothing is imported, and pools that are known or served already are left out. The
//! text is that of `zpool import`, computed by really opening the pool as far as its datasets.
//! Zinc's additional findings (devices missing or outdated, by guid) follow in a section
//! `devices:`.

mod take;

use crate::args::PoolArgs;
use crate::cmd::verb::Verb;
use crate::failure::{FAILED, Failure};
use crate::session::Session;
use crate::{json, local_time, ui};
use engine::Candidate;
use engine::pools::ImportVerdict;
use hostfs::host;
use serde_json::{Map, json};
use std::process::ExitCode;
use views::{import, states};

/// Arguments of `zinc zpool import`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Destroyed pools only
    #[arg(short = 'D')]
    destroyed: bool,
    #[command(flatten)]
    take: take::TakeArgs,
    /// List every txg that could be opened (see --txg), and whether its tree is intact
    #[arg(long)]
    txgs: bool,
    /// Print JSON
    #[arg(short = 'j', long)]
    json: bool,
    /// Write numbers as numbers in JSON
    #[arg(long)]
    json_int: bool,
    /// Import the pool of this name or guid; with --txgs or -j only show it
    name: Option<String>,
    /// The new name of the pool
    #[arg(value_name = "NEWNAME")]
    new_name: Option<String>,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if let (true, Some(name)) = (self.take.all, &self.name) {
            return Err(Failure::usage(format!("-a is for all pools: '{name}' is one")));
        }
        if !self.txgs && !self.json && (self.take.all || self.name.is_some()) {
            return self.import(session);
        }
        let options = self.pool.options(session);
        let mut candidates = self.shown(session)?;
        candidates.retain(|c| self.is_wanted(c));
        if candidates.is_empty() && !self.json {
            return self.none(session);
        }
        let mut content = Map::new();
        for (i, candidate) in candidates.iter().enumerate() {
            let verdict = ImportVerdict::of(candidate, &options, host::id());
            let denied = self.denied(session, candidate);
            let txgs = self.txgs.then(|| engine::pools::judge_txgs(candidate, &options));
            if self.json {
                let mut value = import::value(&verdict, self.json_int);
                if let (false, Some(map)) = (denied.is_empty(), value.as_object_mut()) {
                    map.insert("denied".to_owned(), json!(denied));
                }
                if let (Some(txgs), Some(map)) = (&txgs, value.as_object_mut()) {
                    map.insert("txgs".to_owned(), states::to_json(txgs, self.json_int));
                }
                let guid = candidate.config.pool_guid.to_string();
                let taken = content.contains_key(candidate.name());
                let key = if taken { guid } else { candidate.name().to_owned() };
                content.insert(key, value);
                continue;
            }
            let mut text = if i > 0 { "\n".to_owned() } else { String::new() };
            text.push_str(&import::text(&verdict));
            denied.iter().for_each(|what| text.push_str(&format!("\n\t{what}\n")));
            ui::out(session, &text);
            if let Some(txgs) = &txgs {
                ui::out(session, "\n txgs:\n\n");
                let local = |time| local_time::local(session, time);
                ui::table(session, &states::table(txgs, local));
            }
        }
        if self.json {
            ui::json(session, &json::document("zpool import", "pools", content));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn is_wanted(&self, c: &Candidate) -> bool {
        let name = self.name.as_ref();
        name.map_or(c.is_destroyed() == self.destroyed, |name| self.choice(name).fits(c))
    }

    fn none(&self, session: &Session) -> Result<ExitCode, Failure> {
        match &self.name {
            Some(name) => {
                let failure = Failure::new(format!("cannot find '{name}': no such pool available"));
                let unread = imported::unread(&self.pool.options(session).search.paths);
                Err(unread.into_iter().fold(failure, Failure::because).hint(
                    "name directories, files or disks to search with -d PATH; \
                       destroyed pools are shown with -D",
                ))
            }
            None => {
                ui::error(session, "no pools available to import\n");
                for line in imported::unread(&self.pool.options(session).search.paths) {
                    ui::error(session, &format!("  because: {}\n", ui::escape::line(&line)));
                }
                Ok(ExitCode::from(FAILED))
            }
        }
    }
}
