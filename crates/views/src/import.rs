//! Pools that could be imported, in the words and the layout of `zpool import`. Text from labels
//! cannot forge a line of it.

use crate::json::{number, one_line};
use engine::live::{GivenUpLog, SpaceClass};
use engine::pools::{CandidateState, DeviceNote, ImportIssue, Reason, VdevState as State};
use engine::pools::{ImportReason, ImportTree, ImportVdev, ImportVerdict};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use term::escape::line;
use term::human::ctime;

/// Narrowest column of names.
const NAME_WIDTH: usize = 10;
const BY_NAME: &str = "The pool can be imported using its name or numeric identifier";

/// Whether a pool goes back, or could go back, to an earlier state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindKind {
    /// It could go back.
    Possible,
    /// It went back, for good.
    Done,
    /// It is read so, and nothing is written.
    Read,
}

/// The effect of going back to an earlier state: to that of `time`, without the checkpoint of the
/// newest one, if that is lost. Both times are local.
#[must_use]
pub fn rewound(
    name: &str,
    time: u64,
    seconds_lost: u64,
    checkpoint: Option<u64>,
    how: RewindKind,
) -> String {
    let (name, time, lost) = (line(name), ctime(time), span(seconds_lost));
    let (went, gave_up) = match how {
        RewindKind::Possible => (format!("Would be able to return {name}"), "Would discard"),
        RewindKind::Done => (format!("Pool {name} returned"), "Discarded"),
        RewindKind::Read => (format!("Pool {name} is read, and not returned,"), "It hides"),
    };
    let checkpoint = checkpoint.map(ctime);
    let checkpoint = checkpoint.map_or_else(String::new, |made| {
        format!("{gave_up} the checkpoint of {made}, which that state does not have.\n")
    });
    format!(
        "{went} to its state as of {time}.\n{gave_up} approximately {lost} of transactions.\n\
         {checkpoint}"
    )
}

/// How much time that is, in the words of `zpool import -F`.
fn span(seconds: u64) -> String {
    match seconds {
        0 => "less than a second".to_owned(),
        s if s > 120 => format!("{} minutes", s.div_ceil(60)),
        s => format!("{s} seconds"),
    }
}

/// The advice for a pool whose newest state cannot be read. `flags` are those that reach the state
/// of `time`, which is local.
#[must_use]
pub fn recovery(name: &str, flags: &str, time: u64, seconds_lost: u64) -> String {
    let (name, time, lost) = (line(name), ctime(time), span(seconds_lost));
    format!(
        "recovery is possible, but will result in some data loss: `zinc zpool import {flags} \
         {name}` returns the pool to its state as of {time}, and approximately {lost} of data are \
         discarded, irreversibly"
    )
}

/// The loss of a log device that an import gave up. `time`: that of the log, local.
#[must_use]
pub fn given_up(log: &GivenUpLog, time: u64) -> String {
    let kept = match log.replayed {
        0 => String::new(),
        1 => "; 1 change from another log device was replayed".to_owned(),
        n => format!("; {n} changes from other log devices were replayed"),
    };
    format!(
        "warning: {}: its intent log was on a log device that is missing: changes that were \
         acknowledged after {} (txg {}) may be lost{kept}",
        log.dataset,
        ctime(time),
        log.txg
    )
}

/// Everything about one pool.
#[must_use]
pub fn text(v: &ImportVerdict<'_>) -> String {
    let mut t = String::new();
    let c = v.candidate;
    // Writing to a String cannot fail.
    let _ = write!(
        t,
        "   pool: {}\n     id: {}\n  state: {}",
        line(c.name()),
        c.config.pool_guid,
        v.state
    );
    let destroyed = c.state() == CandidateState::Destroyed;
    t.push_str(if destroyed { " (DESTROYED)\n" } else { "\n" });
    if let Some(status) = status(v) {
        let _ = writeln!(t, "status: {status}");
    }
    let _ = writeln!(t, " action: {}", action(v));
    if let Some(comment) = &c.config.comment {
        let _ = writeln!(t, "comment: {}", line(comment));
    }
    if let Some(page) = message(v).map(page) {
        let _ = writeln!(t, "   see: {page}");
    }
    t.push_str(" config:\n\n");
    tree(&mut t, &v.tree);
    if v.tree.unknown_tops > 0 {
        t.push_str(
            "\n\tAdditional devices are known to be part of this pool, though their\n\
             \texact configuration cannot be determined.\n",
        );
    }
    let sections =
        [("devices", devices(v)), ("cannot be written to", obstacles(v)), ("salvage", salvage(v))];
    for (title, lines) in sections {
        if !lines.is_empty() {
            let _ = writeln!(t, "\n{title}:\n");
        }
        for each in lines {
            let _ = writeln!(t, "\t{}", line(&each));
        }
    }
    if let Some(cause) = &v.cause {
        let _ = writeln!(t, "\nbecause: {}", line(&cause.to_string()));
    }
    t
}

/// The problem, in lines as `zpool import` breaks them.
#[must_use]
pub fn status(v: &ImportVerdict<'_>) -> Option<String> {
    let text = match &v.trouble {
        ImportIssue::None => return None,
        ImportIssue::OtherHost => "The pool was last accessed by another system.",
        ImportIssue::NewerVersion => "The pool is formatted using an incompatible version.",
        ImportIssue::UnknownFeatures(features) => {
            let mut text =
                "The pool uses the following feature(s) not supported on this system:".to_owned();
            for f in features {
                text.push_str("\n\t");
                text.push_str(&line(&f.guid));
                if let Some(d) = f.description.as_deref().filter(|d| !d.is_empty()) {
                    text.push_str(&format!(" ({})", line(d)));
                }
            }
            return Some(text);
        }
        ImportIssue::MissingTop | ImportIssue::Missing => {
            "One or more devices are missing from the system."
        }
        ImportIssue::MissingLog => "One or more log devices are missing from the system.",
        ImportIssue::Diverged => {
            "Sides of a mirror were each written without the other, and each\n\tholds changes that \
             the other lacks."
        }
        ImportIssue::Faulted => "One or more devices are faulted.",
        ImportIssue::CorruptLabel => "One or more devices contains corrupted data.",
        ImportIssue::Behind => {
            "One or more devices were absent while the pool was written.\n\tAn import \
             resilvers those that were only absent."
        }
        ImportIssue::CorruptPool => "The pool metadata is corrupted.",
        ImportIssue::Offline => "One or more devices are offlined.",
        ImportIssue::Removed => "One or more devices were removed.",
        ImportIssue::OlderVersion => "The pool is formatted using a legacy on-disk version.",
        ImportIssue::FeaturesDisabled => {
            "Some supported features are not enabled on the pool.\n\t(Note that they may be \
             intentionally disabled if the\n\t'compatibility' property is set.)"
        }
    };
    Some(text.to_owned())
}

/// Number of the message in OpenZFS's documentation.
#[must_use]
pub fn message(v: &ImportVerdict<'_>) -> Option<&'static str> {
    let either = |usable, not| Some(if v.is_unusable() { not } else { usable });
    match v.trouble {
        ImportIssue::OtherHost => Some("ZFS-8000-EY"),
        ImportIssue::NewerVersion | ImportIssue::UnknownFeatures(_) => Some("ZFS-8000-A5"),
        ImportIssue::MissingTop | ImportIssue::MissingLog => Some("ZFS-8000-6X"),
        ImportIssue::Missing => either("ZFS-8000-2Q", "ZFS-8000-3C"),
        ImportIssue::CorruptLabel => either("ZFS-8000-4J", "ZFS-8000-5E"),
        ImportIssue::CorruptPool => Some("ZFS-8000-72"),
        _ => None,
    }
}

/// The page of a message.
#[must_use]
pub fn page(message: &str) -> String {
    format!("https://openzfs.github.io/openzfs-docs/msg/{message}")
}

/// The advice.
#[must_use]
pub fn action(v: &ImportVerdict<'_>) -> String {
    match (v.state, &v.trouble) {
        (State::Online | State::Degraded, ImportIssue::Diverged) => {
            "The pool can be imported with '-o \
             readonly=on' only.  To write to it, take one\n\tside away: the pool goes on with the \
             other, and without the changes of that one."
                .to_owned()
        }
        (State::Online | State::Degraded, ImportIssue::CorruptPool) => {
            "The pool can be imported with '-o \
             readonly=on', or may go back to an earlier\n\tstate with '-F' or '-FX'.  'zinc check' \
             says what is lost, 'zinc rescue' copies\n\tout what is not."
                .to_owned()
        }
        (State::Online | State::Degraded, ImportIssue::MissingLog) => {
            "The pool cannot be imported.  Attach the \
             missing devices and try again, or\n\timport it with '-m': what is only in their logs \
             is lost then."
                .to_owned()
        }
        (State::Online, ImportIssue::OlderVersion | ImportIssue::FeaturesDisabled) => format!(
            "{BY_NAME}, though\n\tsome features will not be available without an explicit 'zpool \
             upgrade'."
        ),
        (State::Online, ImportIssue::OtherHost) => format!("{BY_NAME} and\n\tthe '-f' flag."),
        (State::Online, _) => format!("{BY_NAME}."),
        (State::Degraded, _) => {
            "The pool can be imported despite missing or damaged devices.  The\n\t\
                            fault tolerance of the pool may be compromised if imported."
                .to_owned()
        }
        (_, ImportIssue::NewerVersion) => {
            "The pool cannot be imported.  Access the pool on a system \
                                       running newer\n\tsoftware, or recreate the pool from \
                                       backup."
                .to_owned()
        }
        (_, ImportIssue::UnknownFeatures(_)) => {
            "The pool cannot be imported. Access the pool on a system that supports\n\tthe \
             required feature(s), or recreate the pool from backup."
                .to_owned()
        }
        (_, ImportIssue::Missing | ImportIssue::MissingTop) => {
            "The pool cannot be imported. Attach the missing\n\tdevices and try again.".to_owned()
        }
        _ => "The pool cannot be imported due to damaged devices or data.".to_owned(),
    }
}

/// The problem of a vdev or a pool; empty if there is none.
#[must_use]
pub fn reason(of: ImportReason) -> String {
    match of {
        ImportReason::Vdev(reason) => reason.to_string(),
        ImportReason::NewerVersion => "newer version".to_owned(),
        ImportReason::UnknownFeatures => "unsupported feature(s)".to_owned(),
        ImportReason::MissingTop => "missing device".to_owned(),
        ImportReason::CorruptPool => Reason::BadLabel.to_string(),
    }
}

/// Devices that are missing or behind, each in a line.
#[must_use]
pub fn devices(v: &ImportVerdict<'_>) -> Vec<String> {
    let line = |note: &DeviceNote| match note {
        DeviceNote::Absent { guid, top, path, absence } => {
            let of = match top {
                Ok(name) => name.clone(),
                Err(id) => format!("top-level vdev {id}"),
            };
            match (path, guid) {
                (Some(path), guid) => format!("{guid} of {of} is {absence}, was {path}"),
                (None, 0) => format!("all devices of {of} are {absence}"),
                (None, guid) => format!("{guid} of {of} is {absence}"),
            }
        }
        DeviceNote::Behind { path, txg, newest } => {
            format!("{} is behind: its labels are of txg {txg}, not {newest}", path.display())
        }
    };
    v.devices.iter().map(line).collect()
}

/// The obstacles to writing to it, each in a line.
#[must_use]
pub fn obstacles(v: &ImportVerdict<'_>) -> Vec<String> {
    v.obstacles.iter().map(ToString::to_string).collect()
}

/// Structures that could not be read of a pool that opens all the same, each in a line.
#[must_use]
pub fn salvage(v: &ImportVerdict<'_>) -> Vec<String> {
    v.salvage.iter().map(|s| format!("{}: {}", s.what, s.cause)).collect()
}

fn tree(t: &mut String, tree: &ImportTree) {
    let width = tree.tops.iter().map(|top| width(&top.vdev, 2)).max().unwrap_or(0);
    let width = width.max(tree.root.name.len()).max(NAME_WIDTH);
    put(t, &tree.root, 0, width);
    tree.in_class(SpaceClass::Normal).for_each(|top| put(t, top, 2, width));
    for (title, names) in [("cache", &tree.cache), ("spares", &tree.spares)] {
        if !names.is_empty() {
            let _ = writeln!(t, "\t{title}");
        }
        for name in names {
            let _ = writeln!(t, "\t  {}", line(name));
        }
    }
    let titles =
        [("dedup", SpaceClass::Dedup), ("special", SpaceClass::Special), ("logs", SpaceClass::Log)];
    for (title, class) in titles {
        if tree.in_class(class).next().is_some() {
            let _ = writeln!(t, "\t{title}");
        }
        tree.in_class(class).for_each(|top| put(t, top, 2, width));
    }
}

fn width(vdev: &ImportVdev, indent: usize) -> usize {
    let below = vdev.children.iter().map(|c| width(c, indent + 2)).max().unwrap_or(0);
    below.max(indent + line(&vdev.name).chars().count())
}

fn put(t: &mut String, vdev: &ImportVdev, indent: usize, width: usize) {
    let names = width - indent.min(width);
    let _ = write!(t, "\t{:indent$}{:names$}  {}", "", line(&vdev.name), vdev.state);
    let reason = reason(vdev.reason);
    if !reason.is_empty() {
        let _ = write!(t, "  {reason}");
    }
    t.push('\n');
    for child in &vdev.children {
        put(t, child, indent + 2, width);
    }
}

/// The same in JSON; `as_int`: numbers are numbers.
#[must_use]
pub fn value(v: &ImportVerdict<'_>, as_int: bool) -> Value {
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
    put("pool_guid", number(c.config.pool_guid, as_int));
    put("txg", number(c.config.txg, as_int));
    put("spa_version", number(c.config.version, as_int));
    if let Some(status) = status(v) {
        put("status", json!(one_line(&status)));
    }
    put("action", json!(one_line(&action(v))));
    if let Some(id) = message(v) {
        put("msgid", json!(id));
        put("moreinfo", json!(page(id)));
    }
    put("vdev_tree", tree_json(&v.tree, as_int));
    put("devices", json!(devices(v)));
    let obstacles = obstacles(v);
    if !obstacles.is_empty() {
        put("obstacles", json!(obstacles));
    }
    put("salvage", json!(salvage(v)));
    if let Some(cause) = &v.cause {
        put("cause", json!(cause.to_string()));
    }
    Value::Object(map)
}

fn tree_json(tree: &ImportTree, as_int: bool) -> Value {
    let mut root = vdev_json(&tree.root, as_int);
    let tops = tree.tops.iter().map(|top| {
        let mut v = vdev_json(&top.vdev, as_int);
        let known = Some(top.class.name()).filter(|_| top.class != SpaceClass::Normal);
        if let Some(class) = top.unknown_class.as_deref().or(known)
            && let Some(map) = v.as_object_mut()
        {
            map.insert("class".to_owned(), json!(class));
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
    map.insert("guid".to_owned(), number(vdev.guid, as_int));
    map.insert("state".to_owned(), json!(vdev.state.to_string()));
    let reason = reason(vdev.reason);
    if !reason.is_empty() {
        map.insert("reason".to_owned(), json!(reason));
    }
    if !vdev.children.is_empty() {
        let children = vdev.children.iter().map(|c| (c.name.clone(), vdev_json(c, as_int)));
        map.insert("vdevs".to_owned(), Value::Object(children.collect()));
    }
    Value::Object(map)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use engine::{Candidate, OpenOptions, pools};

    /// The class of a vdev is shown by the word that the pool has for it, also where that is one of
    /// a later version.
    #[test]
    fn a_class_that_is_not_known_is_shown() {
        let case = testkit::corpus("stripe");
        let options = OpenOptions::in_places([&case.dir]);
        let found = Candidate::group(&pools::scan(&options.search).unwrap());
        let mut verdict = ImportVerdict::of(&found[0], &options, 0);
        let classes = |v: &ImportVerdict<'_>| -> Vec<String> {
            let json = value(v, false);
            let tops = json["vdev_tree"]["vdevs"].as_object().unwrap().values();
            let mut all: Vec<_> = tops.filter_map(|top| top["class"].as_str()).collect();
            all.sort_unstable();
            all.into_iter().map(str::to_owned).collect()
        };
        assert_eq!(classes(&verdict), ["log", "special"]);
        let top = verdict.tree.tops.iter_mut().find(|top| top.class == SpaceClass::Normal);
        top.unwrap().unknown_class = Some("archive".to_owned());
        assert_eq!(classes(&verdict), ["archive", "log", "special"]);
    }
}
