//! `zinc zpool status`: the health of pools, and what zinc met while it looked.
//!
//! The report is that of `zpool status`. Two sections follow where there is something to say:
//! `salvage:` lists what could not be read and was not needed, `faults:` the blocks that were read
//! in spite of damage.

use super::each::each_or_closed;
use super::list::{repeated, repetition};
use super::naming::Naming;
use crate::cmd::verb::{Served, Verb};
use crate::common::{JsonArgs, PoolArgs};
use crate::failure::Failure;
use crate::session::Session;
use crate::{json, local_time, missing, ui};
use engine::pools::{Section, Status, VdevView};
use engine::{Candidate, Pool};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Faults shown without `-v`.
const FAULTS_SHOWN: usize = 10;

/// Arguments of `zinc zpool status`.
#[derive(clap::Args)]
pub struct Args {
    /// Names of damaged files, and every fault
    #[arg(short = 'v')]
    verbose: bool,
    /// Only pools that are not healthy
    #[arg(short = 'x')]
    sick: bool,
    /// Accepted as OpenZFS does; counts are exact in JSON, and below 1024
    #[arg(short = 'p')]
    parsable: bool,
    /// Only vdevs that are not healthy
    #[arg(short = 'e')]
    errors: bool,
    /// Accepted; zinc counts no slow operations of a pool that it opens for the report
    #[arg(short = 's')]
    slow: bool,
    #[command(flatten)]
    naming: Naming,
    #[command(flatten)]
    output: JsonArgs,
    /// All vdevs of a pool beside each other in JSON, each with the name of the one above it
    #[arg(long = "json-flat-vdevs")]
    flat: bool,
    #[command(flatten)]
    keys: json::ByGuid,
    #[command(flatten)]
    pool: PoolArgs,
    /// Before each report a time stamp: d as `date` writes it, u as seconds since 1970
    #[arg(short = 'T', value_name = "d|u", value_parser = ["d", "u"])]
    stamp: Option<String>,
    /// Pools, all found ones when none is named; then INTERVAL in seconds to repeat the report, and
    /// COUNT of repetitions
    #[arg(value_name = "POOL|INTERVAL [COUNT]")]
    pools: Vec<String>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        match !self.verbose && self.pool.is_for_everyone(session, &self.pools) {
            true => Served::ToEveryone,
            false => Served::ToOwner,
        }
    }

    /// Runs it, as often as is asked for.
    fn run(mut self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let repeat = repetition(&mut self.pools)?;
        repeated(session, repeat, self.stamp.as_deref(), || self.once(session))
    }
}

impl Args {
    fn once(&self, session: &Session) -> Result<ExitCode, Failure> {
        let look = |pool: &Pool| {
            let mut status = pool.status(&pool.space());
            self.naming.apply(pool, &mut status.vdevs);
            if self.errors {
                status.vdevs.sections.iter_mut().for_each(|s| s.retain_mut(keep_sick));
            }
            let trouble = status.condition.filter(|c| !c.is_advice());
            let healthy = trouble.is_none() && status.damaged.is_empty();
            let report = match (self.sick && healthy, self.output.json) {
                (true, _) => None,
                (false, true) => Some(self.value(session, pool, &status)),
                (false, false) => Some(Value::String(self.text(session, pool, &status))),
            };
            Ok((pool.name().to_owned(), report))
        };
        let closed = |candidate: &Candidate| {
            let mut status = Status::of_closed(candidate);
            self.naming.apply_to_closed(candidate, &mut status.vdevs);
            let report = match self.output.json {
                true => Value::Object(self.shape(session, &status, Map::new())),
                false => Value::String(status.to_text(self.verbose, 0) + &lacking(&status)),
            };
            Some((status.pool, Some(report)))
        };
        let show = |all: Vec<(String, Option<Value>)>, is_whole: bool| {
            let reports = all.into_iter().filter_map(|(name, report)| Some((name, report?)));
            let reports: Vec<(String, Value)> = reports.collect();
            if self.output.json {
                let content = reports.into_iter().collect();
                ui::json(
                    session,
                    &json::document("zpool status", "pools", self.keys.keys(content)),
                );
            } else if self.sick && reports.is_empty() && is_whole {
                ui::out(
                    session,
                    &match self.pools.as_slice() {
                        [one] => format!("pool '{one}' is healthy\n"),
                        _ => "all pools are healthy\n".to_owned(),
                    },
                );
            } else {
                let texts: Vec<&str> =
                    reports.iter().filter_map(|(_, text)| text.as_str()).collect();
                ui::out(session, &texts.join("\n"));
            }
        };
        each_or_closed(session, &self.pool, &self.pools, look, closed, show)
    }

    fn text(&self, session: &Session, pool: &Pool, status: &Status) -> String {
        let mut t = status.to_text(self.verbose, local_time::utc_offset(session, now_of(status)));
        if super::is_exported(session, pool) {
            let state = format!(" state: {}\n", status.health);
            t = t.replacen(&state, &format!(" state: {} (EXPORTED)\n", status.health), 1);
        }
        t.push_str(&lacking(status));
        if let Some(why) = &status.suspended {
            let _ = writeln!(t, "\nsuspended: {why}");
        }
        for (name, has, min) in short_devices(pool) {
            let _ = writeln!(t, "\nshort: {name} has {has} bytes, and its label needs {min}");
        }
        for (name, why) in self.refused(session, pool) {
            let _ = writeln!(t, "\nread-only: {name} cannot be written to: {why}");
        }
        if !pool.salvage().is_empty() {
            t.push_str("\nsalvage: Parts could not be read and are left out:\n\n");
            for s in pool.salvage() {
                // Writing to a String cannot fail.
                let _ = writeln!(t, "\t{}: {}", s.what, s.cause);
            }
        }
        let count = pool.faults().count();
        if count > 0 {
            let _ = writeln!(t, "\nfaults: {count} blocks were read in spite of damage:\n");
            let all = pool.faults().repaired();
            let shown = if self.verbose { all.len() } else { FAULTS_SHOWN };
            for r in all.iter().take(shown) {
                let faults: Vec<String> = r.faults.iter().map(ToString::to_string).collect();
                let _ = writeln!(t, "\t{}: {}", r.place, faults.join("; "));
            }
            if all.len() > shown {
                let _ = writeln!(t, "\tand {} more; -v shows all", all.len() - shown);
            }
        }
        t
    }

    /// Devices that cannot be written to and are used all the same, because nothing makes up for
    /// them: the pool can be read, and every change of it fails.
    fn refused(&self, session: &Session, pool: &Pool) -> Vec<(String, String)> {
        let known = crate::known::pools(session).by_guid(pool.guid());
        if known.is_none_or(|known| known.is_readonly()) || session.held(pool.name()).is_some() {
            return Vec::new();
        }
        let tree = pool.vdevs();
        let refused = pool.candidate().refused(&pool.config().vdev_tree);
        let used = tree.leaves().filter(|l| l.device().is_some());
        used.filter_map(|l| Some((l.name().to_owned(), refused.get(&l.guid())?.to_string())))
            .collect()
    }

    fn value(&self, session: &Session, pool: &Pool, status: &Status) -> Value {
        let int = self.output.json_int;
        let mut map = super::pool_json(pool, int);
        map.insert("label_state".to_owned(), json!(super::label_state(pool)));
        map = self.shape(session, status, map);
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        let salvage = pool.salvage().iter().map(|s| json!({ "what": s.what, "cause": s.cause }));
        put("salvage", salvage.collect());
        if let Some(why) = &status.suspended {
            put("suspended", json!(why));
        }
        let short = short_devices(pool)
            .into_iter()
            .map(|(name, has, min)| json!({ "device": name, "size": has, "size_min": min }));
        let short: Vec<Value> = short.collect();
        if !short.is_empty() {
            put("short", Value::Array(short));
        }
        put("faults", json::number(pool.faults().count(), int));
        Value::Object(map)
    }

    /// What the report says, added to `map`.
    fn shape(
        &self,
        session: &Session,
        status: &Status,
        mut map: Map<String, Value>,
    ) -> Map<String, Value> {
        let int = self.output.json_int;
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        put("name", json!(status.pool));
        put("state", json!(status.health));
        if let Some(c) = status.condition {
            put("status", json!(one_line(c.text())));
            put("action", json!(one_line(c.action())));
            if let Some(page) = c.see() {
                put("msgid", json!(page.rsplit('/').next()));
                put("moreinfo", json!(page));
            }
        }
        let offset = local_time::utc_offset(session, now_of(status));
        put(
            "activity",
            json!(status.activity(offset).iter().map(|l| one_line(l)).collect::<Vec<_>>()),
        );
        if let Some(s) = &status.scan {
            put("scan_stats", scan(s, int));
        }
        let normal = children(status.vdevs.section(Section::Normal), "normal", int);
        let root = json!({
            "name": status.pool,
            "vdev_type": "root",
            "guid": json::number(status.guid, int),
            "class": "normal",
            "state": status.health,
            "vdevs": normal,
        });
        let mut all = Map::from_iter([(status.pool.clone(), root)]);
        if self.flat {
            all = flat(all, None);
        }
        put("vdevs", Value::Object(all));
        let others = [
            (Section::Dedup, "dedup"),
            (Section::Special, "special"),
            (Section::Logs, "logs"),
            (Section::Cache, "l2cache"),
            (Section::Spares, "spares"),
        ];
        for (section, name) in others {
            let vdevs = status.vdevs.section(section);
            if !vdevs.is_empty() {
                let vdevs = children(vdevs, name, int);
                put(name, Value::Object(if self.flat { flat(vdevs, None) } else { vdevs }));
            }
        }
        put("error_count", json::number(status.damaged.len() as u64, int));
        if self.verbose && !status.damaged.is_empty() {
            put("errlist", json!(status.damaged));
        }
        map
    }
}

/// The advice is that of OpenZFS, which has verbs that zinc lacks: a line about these, unless the
/// advice says that it is for OpenZFS.
fn lacking(status: &Status) -> String {
    let action = status.condition.map_or("", |condition| condition.action());
    let is_named = |verb: &&&str| action.contains(&format!("zpool {verb}'"));
    let verbs: Vec<String> =
        missing::ZPOOL.iter().filter(is_named).map(|verb| format!("'zpool {verb}'")).collect();
    match verbs.is_empty() || action.contains("OpenZFS") {
        true => String::new(),
        false => format!("\nnote: zinc does not do {} yet; OpenZFS does\n", verbs.join(" and ")),
    }
}

/// Leaves of a vdev what is not healthy; whether it is that itself, or has something left.
// Depth is bounded: the configuration's decoder limits it.
fn keep_sick(v: &mut VdevView) -> bool {
    v.children.retain_mut(keep_sick);
    let fine = ["ONLINE", "AVAIL", "INUSE"].contains(&v.state.as_str());
    !fine
        || !v.remark.is_empty()
        || v.read_errors + v.write_errors + v.checksum_errors > 0
        || !v.children.is_empty()
}

/// Devices that have lost their end: name, bytes that are there, bytes that must be.
fn short_devices(pool: &Pool) -> Vec<(String, u64, u64)> {
    let tree = pool.vdevs();
    let short = tree.leaves().filter_map(|l| Some((l, l.device()?.size(), l.size_missed()?)));
    short.map(|(l, has, min)| (l.name().to_owned(), has, min)).collect()
}

/// A time for which the local offset is asked: the latest one the report shows.
fn now_of(status: &Status) -> u64 {
    let scan = status.scan.as_ref().map_or(0, |s| s.end_time.max(s.start_time));
    let removal = status.removal.as_ref().map_or(0, |r| r.state.end_time.max(r.state.start_time));
    let checkpoint = status.checkpoint.map_or(0, |(t, _)| t);
    scan.max(removal).max(checkpoint)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn scan(s: &engine::pools::ScanState, int: bool) -> Value {
    json!({
        "function": format!("{:?}", s.function()).to_uppercase(),
        "state": format!("{:?}", s.state()).to_uppercase(),
        "start_time": json::number(s.start_time, int),
        "end_time": json::number(s.end_time, int),
        "to_examine": json::number(s.to_examine, int),
        "examined": json::number(s.examined, int),
        "skipped": json::number(s.skipped, int),
        "processed": json::number(s.processed, int),
        "errors": json::number(s.errors, int),
    })
}

// Depth is bounded: the configuration's decoder limits it.
fn children(vdevs: &[VdevView], class: &str, int: bool) -> Map<String, Value> {
    let one = |v: &VdevView| {
        let mut map = Map::new();
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        put("name", json!(v.name));
        put("vdev_type", json!(v.kind.name()));
        put("guid", json::number(v.guid, int));
        put("class", json!(class));
        put("state", json!(v.state));
        if v.is_top {
            put("alloc_space", json::number(v.space[1], int));
            put("total_space", json::number(v.space[0], int));
        }
        put("phys_space", json::number(v.size, int));
        put("read_errors", json::number(v.read_errors, int));
        put("write_errors", json::number(v.write_errors, int));
        put("checksum_errors", json::number(v.checksum_errors, int));
        if !v.remark.is_empty() {
            put("remark", json!(v.remark));
        }
        if !v.children.is_empty() {
            put("vdevs", Value::Object(children(&v.children, class, int)));
        }
        (v.name.clone(), Value::Object(map))
    };
    vdevs.iter().map(one).collect()
}

/// Vdevs of all levels beside each other.
// Depth is bounded: the configuration's decoder limits it.
fn flat(vdevs: Map<String, Value>, parent: Option<&str>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, mut vdev) in vdevs {
        let below = vdev.as_object_mut().and_then(|map| {
            if let Some(parent) = parent {
                map.insert("parent".to_owned(), json!(parent));
            }
            map.remove("vdevs")
        });
        out.insert(name.clone(), vdev);
        if let Some(Value::Object(below)) = below {
            out.extend(flat(below, Some(&name)));
        }
    }
    out
}
