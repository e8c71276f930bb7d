//! `zinc zpool import`: what could be opened, in which state, and why something cannot; and, with
//! the name of a pool or `-a`, taking pools over.
//!
//! Without a name nothing is imported, and pools that are known or served already are left out. The
//! text is that of `zpool import`, judged by really opening the pool as far as its datasets. What
//! zinc knows beyond that (devices missing or behind, by guid) follows in a section `devices:`.

mod take;
mod txgs;

use crate::args::PoolArgs;
use crate::cmd::verb::Verb;
use crate::failure::{FAILED, Failure};
use crate::session::Session;
use crate::{host, json, ui};
use engine::Candidate;
use engine::pools::{CandidateState, ImportTree, ImportVdev, ImportVerdict};
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use views::import;

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
            let verdict = ImportVerdict::of(candidate, &options, host::id());
            let denied = self.denied(session, candidate);
            let txgs = self.txgs.then(|| engine::pools::judge_txgs(candidate, &options));
            if self.json {
                let mut value = to_json(&verdict, self.json_int);
                if let (false, Some(map)) = (denied.is_empty(), value.as_object_mut()) {
                    map.insert("denied".to_owned(), json!(denied));
                }
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
            text.push_str(&import::text(&verdict));
            denied.iter().for_each(|what| text.push_str(&format!("\n\t{what}\n")));
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
                let failure = Failure::new(format!("cannot find {name:?}: no such pool available"));
                let unread = crate::failure::unread(&self.pool.options(session).search.paths);
                Err(unread.into_iter().fold(failure, Failure::because).hint(
                    "name directories, files or disks to search with -d PATH; \
                       destroyed pools are shown with -D",
                ))
            }
            None => {
                ui::error(session, "no pools available to import\n");
                for line in crate::failure::unread(&self.pool.options(session).search.paths) {
                    ui::error(session, &format!("  because: {}\n", ui::escape::line(&line)));
                }
                Ok(ExitCode::from(FAILED))
            }
        }
    }
}

fn to_json(v: &ImportVerdict<'_>, as_int: bool) -> Value {
    let c = v.candidate;
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
    put("state", json!(v.state.to_string()));
    put("label_state", json!(label));
    put("pool_guid", json::number(c.config.pool_guid, as_int));
    put("txg", json::number(c.config.txg, as_int));
    put("spa_version", json::number(c.config.version, as_int));
    if let Some(status) = import::status(v) {
        put("status", json!(json::one_line(&status)));
    }
    put("action", json!(json::one_line(&import::action(v))));
    if let Some(id) = import::message(v) {
        put("msgid", json!(id));
        put("moreinfo", json!(import::page(id)));
    }
    put("vdev_tree", tree_json(&v.tree, as_int));
    put("devices", json!(import::devices(v)));
    let obstacles = import::obstacles(v);
    if !obstacles.is_empty() {
        put("obstacles", json!(obstacles));
    }
    put("salvage", json!(import::salvage(v)));
    if let Some(cause) = &v.cause {
        put("cause", json!(cause.to_string()));
    }
    Value::Object(map)
}

fn tree_json(tree: &ImportTree, as_int: bool) -> Value {
    let mut root = vdev_json(&tree.root, as_int);
    let tops = tree.tops.iter().map(|top| {
        let mut v = vdev_json(&top.vdev, as_int);
        if let (Some(class), Some(map)) = (&top.class, v.as_object_mut()) {
            map.insert("class".to_owned(), json!(class.name()));
        }
        (top.vdev.name.clone(), v)
    });
    if let Some(map) = root.as_object_mut() {
        map.insert("vdevs".to_owned(), Value::Object(tops.collect()));
        map.insert("spares".to_owned(), json!(tree.spares));
        map.insert("l2cache".to_owned(), json!(tree.cache));
    }
    root
}

fn vdev_json(vdev: &ImportVdev, as_int: bool) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(vdev.name));
    map.insert("vdev_type".to_owned(), json!(vdev.kind));
    map.insert("guid".to_owned(), json::number(vdev.guid, as_int));
    map.insert("state".to_owned(), json!(vdev.state.to_string()));
    let reason = import::reason(vdev.reason);
    if !reason.is_empty() {
        map.insert("reason".to_owned(), json!(reason));
    }
    if !vdev.children.is_empty() {
        let children = vdev.children.iter().map(|c| (c.name.clone(), vdev_json(c, as_int)));
        map.insert("vdevs".to_owned(), Value::Object(children.collect()));
    }
    Value::Object(map)
}
