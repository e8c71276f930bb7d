//! `zinc zpool import`: what could be opened, in which state, and why something cannot; and, with
//! the name of a pool or `-a`, taking pools over.
//!
//! Without a name nothing is imported, and pools that are known or served already are left out. The
//! text is that of `zpool import`, judged by really opening the pool as far as its datasets. What
//! zinc knows beyond that (devices missing or behind, by guid) follows in a section `devices:`.

mod judge;
mod shape;
mod take;
mod txgs;

use crate::cmd::verb::Verb;
use crate::common::PoolArgs;
use crate::failure::{FAILED, Failure};
use crate::session::Session;
use crate::{json, ui};
use engine::Candidate;
use engine::pools::CandidateState;
use judge::Judgement;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

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
    /// Name it has from now on
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
            let judgement = Judgement::of(candidate, &options);
            let txgs = self.txgs.then(|| engine::pools::judge_txgs(candidate, &options));
            if self.json {
                let mut value = judgement.to_json(self.json_int);
                if let (Some(txgs), Some(map)) = (&txgs, value.as_object_mut()) {
                    map.insert("txgs".to_owned(), txgs::to_json(txgs, self.json_int));
                }
                let guid = candidate.config.pool_guid.to_string();
                let taken = content.contains_key(candidate.name());
                let key = if taken { guid } else { candidate.name().to_owned() };
                content.insert(key, value);
                continue;
            }
            let mut text = if i > 0 { "\n".to_owned() } else { String::new() };
            text.push_str(&judgement.to_text());
            ui::out(session, &text);
            if let Some(txgs) = &txgs {
                ui::out(session, "\n txgs:\n\n");
                txgs::print(session, txgs);
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
        let destroyed = c.state() == CandidateState::Destroyed;
        let named = |n: &String| n == c.name() || n.parse() == Ok(c.config.pool_guid);
        destroyed == self.destroyed && self.name.as_ref().is_none_or(named)
    }

    fn none(&self, session: &Session) -> Result<ExitCode, Failure> {
        match &self.name {
            Some(name) => {
                Err(Failure::new(format!("cannot find {name:?}: no such pool available")).hint(
                    "name directories, files or disks to search with -d PATH; \
                       destroyed pools are shown with -D",
                ))
            }
            None => {
                ui::error(session, "no pools available to import\n");
                for line in crate::failure::unread(&self.pool.options(session).search.paths) {
                    ui::error(session, &format!("  because: {line}\n"));
                }
                Ok(ExitCode::from(FAILED))
            }
        }
    }
}

impl Judgement<'_> {
    fn to_text(&self) -> String {
        let mut t = String::new();
        let c = self.candidate;
        let name = c.name();
        // Writing to a String cannot fail.
        let _ =
            write!(t, "   pool: {name}\n     id: {}\n  state: {}", c.config.pool_guid, self.state);
        let destroyed = c.state() == CandidateState::Destroyed;
        t.push_str(if destroyed { " (DESTROYED)\n" } else { "\n" });
        if let Some(status) = &self.status {
            let _ = writeln!(t, "status: {status}");
        }
        let _ = writeln!(t, " action: {}", self.action);
        if let Some(comment) = &c.config.comment {
            let _ = writeln!(t, "comment: {comment}");
        }
        if let Some(id) = self.message_id {
            let _ = writeln!(t, "   see: https://openzfs.github.io/openzfs-docs/msg/{id}");
        }
        t.push_str(" config:\n\n");
        t.push_str(&self.shape.to_text());
        if self.unknown_tops > 0 {
            t.push_str(
                "\n\tAdditional devices are known to be part of this pool, though their\n\
                 \texact configuration cannot be determined.\n",
            );
        }
        for (title, lines) in [("devices", &self.notes), ("salvage", &self.salvage)] {
            if !lines.is_empty() {
                let _ = writeln!(t, "\n{title}:\n");
            }
            for line in lines {
                let _ = writeln!(t, "\t{line}");
            }
        }
        if let Some(cause) = &self.cause {
            let _ = writeln!(t, "\nbecause: {cause}");
        }
        t
    }

    fn to_json(&self, as_int: bool) -> Value {
        let c = self.candidate;
        let label = match c.state() {
            CandidateState::Exported => "EXPORTED",
            CandidateState::Active => "ACTIVE",
            CandidateState::Destroyed => "DESTROYED",
            CandidateState::Other => "UNKNOWN",
        };
        let mut map = Map::new();
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        put("name", json!(c.name()));
        put("type", json!("POOL"));
        put("state", json!(self.state));
        put("label_state", json!(label));
        put("pool_guid", json::number(c.config.pool_guid, as_int));
        put("txg", json::number(c.config.txg, as_int));
        put("spa_version", json::number(c.config.version, as_int));
        if let Some(status) = &self.status {
            put("status", json!(one_line(status)));
        }
        put("action", json!(one_line(&self.action)));
        if let Some(id) = self.message_id {
            put("msgid", json!(id));
            put("moreinfo", json!(format!("https://openzfs.github.io/openzfs-docs/msg/{id}")));
        }
        put("vdev_tree", self.shape.to_json(as_int));
        put("devices", json!(self.notes));
        put("salvage", json!(self.salvage));
        if let Some(cause) = &self.cause {
            put("cause", json!(cause));
        }
        Value::Object(map)
    }
}

/// Text that was broken into lines for the terminal.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
