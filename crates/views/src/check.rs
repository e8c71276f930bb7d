//! The result of `zinc check`, for people and for programs.

mod consequence;
mod txgs;

pub use txgs::{txgs, txgs_value};

use consequence::consequence;
use engine::check::{BlockKind, Issue, Report, Severity, Sum, Totals};
use serde_json::{Value, json};
use std::fmt::Write as _;
use term::escape::line;

/// Issues of one kind that are printed in full without -v.
const SHOWN_OF_A_KIND: usize = 20;
/// Ranges of a damaged device that are printed without -v.
const SHOWN_RANGES: usize = 8;

/// How a report is written.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Issues only, no summary.
    pub is_quiet: bool,
    /// Every issue, and the table of block types by level.
    pub is_verbose: bool,
    /// Files' and volumes' data were not read.
    pub is_metadata_only: bool,
}

impl View {
    /// The findings and the summary. `name` has the path of a file by its object set and object,
    /// where there is one.
    #[must_use]
    pub fn text(&self, r: &Report, name: &dyn Fn(u64, u64) -> Option<String>) -> String {
        let mut text = String::new();
        let mut shown = std::collections::BTreeMap::<&str, usize>::new();
        for issue in r.issues.iter().filter(|i| !self.is_quiet || i.severity() != Severity::Note) {
            let n = shown.entry(issue.name()).or_default();
            *n += 1;
            if !self.is_verbose && *n > SHOWN_OF_A_KIND {
                continue;
            }
            // Text quoted from a pool cannot forge another line.
            let message = issue.to_string();
            let (severity, kind) = (issue.severity().name(), issue.name());
            let _ = writeln!(text, "{severity}: {kind}: {}", line(&message));
            let _ = writeln!(text, "    {}", consequence(issue));
            if let Some(path) = lost_object(issue).and_then(|(set, object)| name(set, object)) {
                let _ = writeln!(text, "    {}", line(&path));
            }
            self.ranges(issue, &mut text);
        }
        for (name, n) in shown.iter().filter(|(_, n)| !self.is_verbose && **n > SHOWN_OF_A_KIND) {
            let _ = writeln!(text, "{} more issues {name} (-v shows them)", n - SHOWN_OF_A_KIND);
        }
        for (name, n) in &r.dropped {
            let _ = writeln!(text, "{n} more issues {name} were not kept");
        }
        if !self.is_quiet {
            summary(r, self.is_metadata_only, &mut text);
        }
        if self.is_verbose {
            table(&r.totals, &mut text);
        }
        text
    }

    fn ranges(&self, issue: &Issue, text: &mut String) {
        let Issue::DeviceDamaged(d) = issue else { return };
        let max = if self.is_verbose { usize::MAX } else { SHOWN_RANGES };
        for (a, b) in d.ranges.iter().take(max) {
            let _ = writeln!(text, "    {} bytes at {a:#x}", b - a);
        }
        let more = d.ranges.len().saturating_sub(max);
        if more > 0 {
            let _ = writeln!(text, "    and {more} more ranges (-v shows them)");
        }
    }
}

/// The object of which a block is lost, with its object set.
fn lost_object(issue: &Issue) -> Option<(u64, u64)> {
    match issue {
        Issue::BlockLost { at, .. } => Some((at.place.objset, at.place.object)),
        _ => None,
    }
}

fn summary(r: &Report, no_verify: bool, text: &mut String) {
    let t = r.totals.total();
    let secs = r.elapsed.as_secs_f64();
    let rate = r.bytes_read as f64 / secs.max(1e-9) / 1e6;
    let _ = writeln!(text, "pool {} at txg {}", line(&r.pool), r.txg);
    let rows = [
        ("bp count", t.count),
        ("ganged count", t.gangs),
        ("bp logical", t.logical),
        ("bp physical", t.physical),
        ("bp allocated", t.allocated),
        ("bp deduped", r.totals.dedup_bytes),
        ("  references beyond the first", r.totals.dedup_blocks),
        ("bp cloned", r.totals.clone_bytes),
        ("  clones", r.totals.clone_blocks),
        ("embedded, non-pointer bps", r.totals.embedded.iter().sum()),
        ("dittoed blocks on same vdev", t.ditto_same_vdev),
        ("allocated by space maps", r.allocated),
        ("  only by the checkpoint", r.checkpointed),
        ("blocks lost", r.blocks_lost),
    ];
    for (name, n) in rows {
        let _ = writeln!(text, "  {name:30} {n:>16}");
    }
    let _ = writeln!(
        text,
        "  read {} bytes of {} blocks in {secs:.2} s ({rate:.0} MB/s)",
        r.bytes_read, r.blocks_read
    );
    let counts: Vec<String> =
        [Severity::Lost, Severity::Inconsistent, Severity::Repairable, Severity::Note]
            .into_iter()
            .map(|s| format!("{} {}", r.count(s), s.name()))
            .collect();
    let word = match () {
        () if r.cancelled => "cancelled",
        () if r.is_clean() => "clean",
        () => "has issues",
    };
    let _ = write!(text, "{word}: {}", counts.join(", "));
    // "clean" applies to what was read, so unread parts are listed too.
    let locked = r.issues.iter().filter(|i| matches!(i, Issue::Locked { .. })).count();
    if locked > 0 {
        let _ = write!(text, "; without a key, so not decrypted: {locked} datasets");
    }
    let absent = r.issues.iter().filter(|i| matches!(i, Issue::DeviceAbsent { .. })).count();
    text.push_str(&unavailable(absent));
    text.push_str(if no_verify { "; files' and volumes' data not read\n" } else { "\n" });
}

/// The limit of a verdict: data on devices that are unavailable is not covered, and may be all that
/// would make up for damage elsewhere.
pub(crate) fn unavailable(devices: usize) -> String {
    match devices {
        0 => String::new(),
        1 => "; 1 device is unavailable: copies and parity on it were not checked".to_owned(),
        n => format!("; {n} devices are unavailable: copies and parity on them were not checked"),
    }
}

fn table(t: &Totals, text: &mut String) {
    let kinds: std::collections::BTreeSet<BlockKind> = t.table.keys().map(|(k, _)| *k).collect();
    let _ = writeln!(
        text,
        "{:>10} {:>14} {:>14} {:>14}  type",
        "blocks", "logical", "physical", "allocated"
    );
    for kind in kinds {
        for level in 0..32 {
            let Some(s) = t.table.get(&(kind, level)) else { continue };
            let _ = writeln!(
                text,
                "{:>10} {:>14} {:>14} {:>14}  L{level} {}",
                s.count,
                s.logical,
                s.physical,
                s.allocated,
                kind.name()
            );
        }
    }
}

/// A report as JSON.
#[must_use]
pub fn value(r: &Report) -> Value {
    let t = r.totals.total();
    let issue = |i: &Issue| {
        let mut v = json!({
            "issue": i.name(),
            "severity": i.severity().name(),
            "text": i.to_string(),
            "consequence": consequence(i),
        });
        if let Issue::DeviceDamaged(d) = i {
            v["device"] = json!({
                "path": &*d.path, "guid": d.guid, "vdev": d.vdev, "checksum": d.checksum,
                "parity": d.parity, "io": d.io, "missing": d.missing, "stale": d.stale,
                "bytes": d.bytes, "repairable": d.repairable, "lost": d.lost,
                "ranges": d.ranges,
            });
        }
        v
    };
    let row = |((kind, level), s): (&(BlockKind, u8), &Sum)| {
        json!({"type": kind.name(), "level": level, "count": s.count, "logical": s.logical,
               "physical": s.physical, "allocated": s.allocated})
    };
    json!({
        "pool": r.pool,
        "txg": r.txg,
        "clean": r.is_clean(),
        "issues": r.issues.iter().map(issue).collect::<Vec<_>>(),
        "issues_not_kept": r.dropped,
        "totals": {
            "count": t.count, "ganged": t.gangs, "logical": t.logical, "physical": t.physical,
            "allocated": t.allocated, "dedup_bytes": r.totals.dedup_bytes,
            "dedup_blocks": r.totals.dedup_blocks, "clone_bytes": r.totals.clone_bytes,
            "clone_blocks": r.totals.clone_blocks, "embedded": r.totals.embedded,
            "ditto_same_vdev": t.ditto_same_vdev,
            "types": r.totals.table.iter().map(row).collect::<Vec<_>>(),
        },
        "allocated": r.allocated,
        "checkpointed": r.checkpointed,
        "blocks_read": r.blocks_read,
        "bytes_read": r.bytes_read,
        "blocks_lost": r.blocks_lost,
        "seconds": r.elapsed.as_secs_f64(),
        "cancelled": r.cancelled,
    })
}
