//! A repair, for people and for programs.

use crate::check::unavailable;
use engine::check::Issue;
use engine::live::AbandonedHead;
use engine::pools::Verdict;
use engine::repair::undo::UndoHead;
use engine::repair::{Failure, Plan, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use term::escape::line;

/// Issues of one kind that are printed.
const SHOWN_OF_A_KIND: usize = 20;

/// The addition to a good result: a repair reads the metadata of files only.
const NOT_READ: &str = "; the content of files was not read (`zinc check` does)";

/// Issues, at most some of a kind.
fn list(issues: &[Issue], more: u64, text: &mut String) {
    let mut shown = BTreeMap::<&str, usize>::new();
    for issue in issues {
        let n = shown.entry(issue.name()).or_default();
        *n += 1;
        if *n <= SHOWN_OF_A_KIND {
            // Text quoted from a pool cannot forge another line.
            let message = issue.to_string();
            let _ = writeln!(text, "  {}: {}", issue.name(), line(&message));
        }
    }
    for (name, n) in shown.iter().filter(|(_, n)| **n > SHOWN_OF_A_KIND) {
        let _ = writeln!(text, "  {} more {name}", n - SHOWN_OF_A_KIND);
    }
    if more > 0 {
        let _ = writeln!(text, "  {more} more that were not recorded");
    }
}

fn count(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// The sentence for a step.
fn words(step: &Step) -> String {
    match step {
        Step::Rewind { txg } => format!("go back to txg {txg}; later changes are lost"),
        Step::SpaceMaps { maps, of, freed, taken } => {
            let mut text = format!("rewrite {maps} of {of} space maps");
            if *freed > 0 {
                let _ = write!(text, "; {freed} bytes that nothing points to become free");
            }
            if *taken > 0 {
                let _ = write!(text, "; {taken} bytes in use that were marked free are kept");
            }
            text
        }
        Step::LogSpaceMaps => "drop the unreadable log space maps".to_owned(),
        Step::Sum { of, from, to } => format!("set {of} from {from} to {to}"),
        Step::List { of, used } => format!("set {of} to its contents, {used} bytes"),
        Step::SnapshotLost { snapshot } => format!("destroy {snapshot}, which is lost"),
        Step::DatasetLost { dataset, became } => describe_lost(dataset, became),
        Step::LogLost { dataset, replayed } => {
            let n = count(*replayed, "record", "records");
            format!("replay {n} of the intent log of {dataset}, and drop the rest: it is damaged")
        }
        Step::NameRemoved { dir, name, object } => {
            format!("remove '{name}' from {dir}: object {object} is lost")
        }
        Step::Dropped { what } => format!("remove what is left of {what}: it is lost"),
        Step::DeadList { dataset, blocks } => {
            format!("rebuild the dead list of {dataset} from {}", count(*blocks, "block", "blocks"))
        }
        Step::History => "start a new history of the pool: the old one is lost".to_owned(),
        Step::Table { table, kept } => {
            let n = count(*kept, "entry", "entries");
            format!("rebuild the table {table} from {n} still known")
        }
        Step::CloneTable { vdev, entries } => {
            let n = count(*entries, "entry", "entries");
            format!("rebuild the table of clones of vdev {vdev}, with {n}")
        }
        Step::DedupTable { checksum, corrected } => {
            let n = count(*corrected, "entry", "entries");
            format!("correct {n} of the dedup table of {checksum}")
        }
        Step::Obsolete { vdev, bytes } => {
            format!("record anew what is obsolete of the removed vdev {vdev}, {bytes} bytes")
        }
        Step::Adopted { file, path } => format!("name {file}, which has no name, {path}"),
        Step::Kind { file } => format!("correct the kind of file {file} in its directories"),
        Step::Labels { wrong } => {
            let n = count(wrong.len() as u64, "was", "were");
            match wrong.is_empty() {
                true => "rewrite all labels, of which some are older".to_owned(),
                false => format!("rewrite all labels, of which {n} wrong"),
            }
        }
        _ => String::new(),
    }
}

/// The sentence for a dataset that is given up.
fn describe_lost(dataset: &str, became: &AbandonedHead) -> String {
    match became {
        AbandonedHead::RolledBack(to) => format!("roll {dataset}, which is lost, back to {to}"),
        AbandonedHead::AsCloned(from) => {
            format!("clone {dataset}, which is lost, from {from} again")
        }
        AbandonedHead::Emptied => {
            format!("turn {dataset}, which is lost, into an empty file system")
        }
        _ => format!("destroy {dataset}, which is lost"),
    }
}

/// The word for what becomes of it, and the snapshot to which it goes back.
fn became_of(became: &AbandonedHead) -> (&'static str, Option<&str>) {
    match became {
        AbandonedHead::RolledBack(to) => ("rolled-back", Some(to)),
        AbandonedHead::AsCloned(from) => ("as-cloned", Some(from)),
        AbandonedHead::Emptied => ("emptied", None),
        _ => ("destroyed", None),
    }
}

/// The verdict on a state of an earlier txg.
fn words_of(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Intact => "its metadata is whole".to_owned(),
        Verdict::Partial { lost, first } => format!("{lost} of its metadata lost, first {first}"),
        Verdict::Lost(why) => format!("lost: {why}"),
    }
}

/// The files of which something stays lost.
fn damaged(plan: &Plan, text: &mut String) {
    if plan.damaged.is_empty() {
        return;
    }
    text.push_str("files of which something is lost; a backup has them\n");
    for name in plan.damaged.iter().take(SHOWN_OF_A_KIND) {
        let _ = writeln!(text, "  {}", line(name));
    }
    let more = plan.damaged.len().saturating_sub(SHOWN_OF_A_KIND);
    if more > 0 {
        let _ = writeln!(text, "  {more} more (-j lists all)");
    }
}

/// The steps that failed.
fn failures(plan: &Plan, text: &mut String) {
    for Failure { what, why } in plan.failed.iter().take(SHOWN_OF_A_KIND) {
        let _ = writeln!(text, "  cannot mend {}: {}", line(what), line(why));
    }
    let more = plan.failed.len().saturating_sub(SHOWN_OF_A_KIND);
    if more > 0 {
        let _ = writeln!(text, "  {more} more (-j lists all)");
    }
}

/// The issues, the steps, and the issues left; with an undo file it was done.
#[must_use]
pub fn text(plan: &Plan, undo: Option<&std::path::Path>) -> String {
    let mut text = String::new();
    let found = plan.found.len() as u64 + plan.found_more;
    let (pool, txg) = (line(&plan.pool), plan.before);
    let issues = count(found, "issue", "issues");
    let not_read = unavailable(plan.absent.len()) + if plan.reads_all { "" } else { NOT_READ };
    if found == 0 && !plan.is_of_use() {
        let _ = writeln!(text, "pool '{pool}' at txg {txg}: nothing is wrong{not_read}");
        return text;
    }
    let _ = writeln!(text, "pool '{pool}' at txg {txg}: {issues}");
    list(&plan.found, plan.found_more, &mut text);
    for device in &plan.absent {
        let _ = writeln!(text, "  {}: what it has is not known", line(device));
    }
    for (txg, verdict) in plan.earlier.iter().map(|(txg, _, verdict)| (txg, words_of(verdict))) {
        let _ =
            writeln!(text, "  an earlier state, of txg {txg} (--txg {txg}): {}", line(&verdict));
    }
    if !plan.is_of_use() {
        let heals = |issue: &Issue| match issue {
            Issue::DeviceDamaged(damage) => damage.lost == 0,
            _ => false,
        };
        let by_scrub = plan.found_more == 0 && plan.found.iter().all(heals);
        let _ = match by_scrub {
            true => writeln!(text, "`zinc zpool scrub` repairs it from intact copies{not_read}"),
            false => writeln!(text, "none of it can be repaired"),
        };
        failures(plan, &mut text);
        damaged(plan, &mut text);
        return text;
    }
    let _ = writeln!(text, "the repair");
    for step in &plan.steps {
        let _ = writeln!(text, "  {}", line(&words(step)));
    }
    failures(plan, &mut text);
    if plan.makes_clean() {
        let _ = writeln!(text, "after it nothing is wrong{not_read}");
    } else {
        let left = count(plan.left.len() as u64 + plan.left_more, "issue", "issues");
        let _ = writeln!(text, "after it {left} remain that it cannot repair");
        list(&plan.left, plan.left_more, &mut text);
    }
    damaged(plan, &mut text);
    let _ = writeln!(
        text,
        "it writes {} bytes, up to txg {}; an undo file of {} bytes keeps what is there now",
        plan.written, plan.after, plan.undo
    );
    match undo {
        Some(path) => {
            let path = path.display().to_string();
            let _ = writeln!(
                text,
                "done; `zinc repair --undo FILE` puts back what is in {}",
                line(&path)
            );
        }
        None if !plan.absent.is_empty() && plan.gives_up() => text.push_str(
            "nothing was written: an absent device may have what it gives up; bring the \
             device back, or give it up with --yes --force\n",
        ),
        None => text.push_str("nothing was written: --yes does it\n"),
    }
    text
}

fn step_value(s: &Step) -> Value {
    let mut v = match s {
        Step::Rewind { txg } => json!({"step": "rewind", "txg": txg}),
        Step::SpaceMaps { maps, of, freed, taken } => json!({
            "step": "space-maps", "maps": maps, "of": of, "freed": freed, "taken": taken,
        }),
        Step::LogSpaceMaps => json!({"step": "log-space-maps"}),
        Step::Sum { of, from, to } => json!({"step": "sum", "of": of, "from": from, "to": to}),
        Step::List { of, used } => json!({"step": "list", "of": of, "used": used}),
        Step::SnapshotLost { snapshot } => {
            json!({"step": "snapshot-lost", "snapshot": snapshot})
        }
        Step::DatasetLost { dataset, became } => {
            let (became, to) = became_of(became);
            json!({"step": "dataset-lost", "dataset": dataset, "became": became, "to": to})
        }
        Step::LogLost { dataset, replayed } => {
            json!({"step": "log-lost", "dataset": dataset, "replayed": replayed})
        }
        Step::NameRemoved { dir, name, object } => {
            json!({"step": "name-removed", "dir": dir, "name": name, "object": object})
        }
        Step::Dropped { what } => json!({"step": "dropped", "what": what}),
        Step::DeadList { dataset, blocks } => {
            json!({"step": "dead-list", "dataset": dataset, "blocks": blocks})
        }
        Step::History => json!({"step": "history"}),
        Step::Table { table, kept } => {
            json!({"step": "table", "table": table, "kept": kept})
        }
        Step::CloneTable { vdev, entries } => {
            json!({"step": "clone-table", "vdev": vdev, "entries": entries})
        }
        Step::DedupTable { checksum, corrected } => {
            json!({"step": "dedup-table", "checksum": checksum, "corrected": corrected})
        }
        Step::Obsolete { vdev, bytes } => {
            json!({"step": "obsolete", "vdev": vdev, "bytes": bytes})
        }
        Step::Adopted { file, path } => json!({"step": "adopted", "file": file, "path": path}),
        Step::Kind { file } => json!({"step": "kind", "file": file}),
        Step::Labels { wrong } => json!({"step": "labels", "wrong": wrong}),
        _ => json!({}),
    };
    v["text"] = json!(words(s));
    v
}

/// A plan as JSON, and whether it was carried out.
#[must_use]
pub fn value(plan: &Plan, undo: Option<&std::path::Path>) -> Value {
    let issue = |i: &Issue| {
        let (severity, text) = (i.severity().name(), i.to_string());
        json!({"issue": i.name(), "severity": severity, "text": text})
    };
    json!({
        "pool": plan.pool,
        "txg": plan.before,
        "newest_txg": plan.newest,
        "read": if plan.reads_all { "everything" } else { "metadata" },
        "absent": plan.absent,
        "earlier": plan.earlier.iter().map(|(txg, time, verdict)| {
            json!({"txg": txg, "timestamp": time, "verdict": words_of(verdict)})
        }).collect::<Vec<_>>(),
        "found": plan.found.iter().map(issue).collect::<Vec<_>>(),
        "found_not_kept": plan.found_more,
        "steps": plan.steps.iter().map(step_value).collect::<Vec<_>>(),
        "failed": plan.failed.iter().map(|failure| {
            json!({"what": failure.what, "why": failure.why})
        }).collect::<Vec<_>>(),
        "left": plan.left.iter().map(issue).collect::<Vec<_>>(),
        "left_not_kept": plan.left_more,
        "damaged_files": plan.damaged,
        "clean": plan.makes_clean(),
        "txg_after": plan.after,
        "bytes_written": plan.written,
        "undo_bytes": plan.undo,
        "done": undo.is_some(),
        "undo": undo.map(|path| path.display().to_string()),
    })
}

/// A repair that failed as JSON: what failed, why, and what to do.
#[must_use]
pub fn failed((what, because, hint): (&str, &[String], Option<&str>)) -> Value {
    json!({"error": {"what": what, "because": because, "hint": hint}})
}

/// That a repair was undone.
#[must_use]
pub fn put_back(head: &UndoHead, bytes: u64) -> String {
    format!("pool '{}' is at txg {} again: {bytes} bytes put back\n", line(&head.name), head.before)
}
