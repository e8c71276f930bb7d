//! The table of vdevs in `zpool status`.

use super::View;
use crate::scripts;
use engine::config::VdevKind;
use engine::live::{Refused, SpaceClass};
use engine::pools::{LeafWork, Remark, Section, Status, VdevView, WorkProgress, WorkState};
use std::fmt::Write as _;
use term::escape::line;
use term::human::{ctime, nicenum};

/// A store that answers nothing for this many seconds is remarkable.
const SILENCE_TOLD: u64 = 5;

impl View {
    /// The table of vdevs, each line with its tab and newline.
    pub(super) fn table(&self, status: &Status) -> String {
        let slow = self.shows_slow;
        let width = status.vdevs.name_width(&status.pool);
        let mut out = format!(
            "\t{:<width$}  {:<8} {:>5} {:>5} {:>5}",
            "NAME", "STATE", "READ", "WRITE", "CKSUM"
        );
        out.push_str(if slow { "  SLOW" } else { "" });
        out.push_str(if self.scripts { scripts::TITLES } else { "" });
        out.push('\n');
        let root = status.state.to_string();
        let _ = write!(out, "\t{:<width$}  {root:<8} {:>5} {:>5} {:>5}", status.pool, 0, 0, 0);
        out.push_str(if slow { "     -" } else { "" });
        match status.reason.to_string() {
            reason if reason.is_empty() => out.push('\n'),
            reason => drop(writeln!(out, "  {reason}")),
        }
        for section in Section::ALL {
            let vdevs = status.vdevs.section(section);
            // A removed vdev has no line, so it needs no heading.
            if vdevs.iter().all(|v| v.kind == VdevKind::Indirect) {
                continue;
            }
            out.push_str(match section {
                Section::Tops(SpaceClass::Normal) => "",
                Section::Tops(SpaceClass::Dedup) => "\tdedup\t\n",
                Section::Tops(SpaceClass::Special) => "\tspecial\t\n",
                Section::Tops(SpaceClass::Log) => "\tlogs\t\n",
                Section::Cache => "\tcache\n",
                Section::Spares => "\tspares\n",
            });
            for v in vdevs {
                self.rows(&mut out, v, 2, Columns { width, counts: section != Section::Spares });
            }
        }
        out
    }

    /// One vdev and those below. Depth is bounded: the configuration's decoder limits it.
    fn rows(&self, out: &mut String, v: &VdevView, indent: usize, columns: Columns) {
        let (width, slow) = (columns.width, self.shows_slow);
        if v.kind == VdevKind::Indirect {
            return;
        }
        let name = format!("{:indent$}{}", "", v.name);
        let _ = write!(out, "\t{name:<width$}  {:<8}", v.state.name());
        if columns.counts {
            let counts = [v.read_errors, v.write_errors, v.checksum_errors].map(nicenum);
            for count in counts {
                let _ = write!(out, " {count:>5}");
            }
            let requests = match v.children.is_empty() {
                true => nicenum(v.slow_requests),
                false => "-".to_owned(),
            };
            if slow {
                let _ = write!(out, " {requests:>5}");
            }
        }
        if slow && v.sits_out {
            out.push_str("  (slow: reads go to others)");
        }
        match self.remark(v) {
            remark if remark.is_empty() => {}
            remark => drop(write!(out, "  {remark}")),
        }
        if self.scripts && v.children.is_empty() {
            out.push_str(&scripts::device(v.guid));
        }
        out.push('\n');
        for child in &v.children {
            self.rows(out, child, indent + 2, columns);
        }
    }

    /// The text behind the counts of a vdev; empty if there is none.
    pub(super) fn remark(&self, v: &VdevView) -> String {
        let works = v.works.iter().filter_map(|seen| self.work(seen));
        let refused = v.refused.iter().map(refused_note);
        let has_no_cache = v.store.is_some_and(|store| store.cache_failures > 0);
        let cache = has_no_cache
            .then(|| "(its cache cannot be used: ZINC_CACHE, ZINC_CACHE_SIZE)".to_owned());
        let silent = v.store.map_or(0, |store| store.silent_secs);
        let silent = (silent >= SILENCE_TOLD)
            .then(|| format!("(its store has not answered for {silent} seconds)"));
        let unpaid = v.store.map_or(0, |store| store.unpaid_bytes);
        let unpaid = (unpaid > 0)
            .then(|| format!("({} of garbage waits: ZINC_GC_BUDGET is used up)", nicenum(unpaid)));
        let remarks = v.remark.iter().map(remark).chain(refused);
        let all = remarks.chain(works).chain(cache).chain(silent).chain(unpaid);
        let all: Vec<String> = all.collect();
        all.join("  ")
    }

    fn work(&self, seen: &WorkProgress) -> Option<String> {
        let (is_wanted, did, doing) = match seen.work {
            LeafWork::Initialize => (self.works.initialize, "initialized", "(initializing)"),
            LeafWork::Trim => (self.works.trim, "trimmed", "(trimming)"),
        };
        let now = &seen.progress;
        if !is_wanted {
            return (now.state == WorkState::Active).then(|| doing.to_owned());
        }
        let when = match now.state {
            WorkState::None | WorkState::Canceled => return Some(format!("(un{did})")),
            WorkState::Suspended => "suspended, started at",
            WorkState::Active => "started at",
            WorkState::Complete => "completed at",
        };
        let date = ctime(now.time.saturating_add_signed(self.utc_offset));
        Some(format!("({}% {did}, {when} {date})", now.percent(seen.size)))
    }
}

/// The columns of the lines of vdevs.
#[derive(Clone, Copy)]
struct Columns {
    /// Characters of a name.
    width: usize,
    counts: bool,
}

/// The remark on a vdev, as printed after its counts.
#[must_use]
pub fn remark(remark: &Remark) -> String {
    match remark {
        Remark::Reason(reason) => reason.to_string(),
        Remark::Displaced(what) => what.to_string(),
        Remark::Was(path) => format!("was {path}"),
        Remark::Removing => "(removing)".to_owned(),
        Remark::NonAllocating => "(non-allocating)".to_owned(),
        Remark::Resilvering => "(resilvering)".to_owned(),
        Remark::AwaitingResilver => "(awaiting resilver)".to_owned(),
        Remark::InUse => "currently in use".to_owned(),
        Remark::InUseBy(pool) => format!("in use by pool '{pool}'"),
    }
}

/// The note on a device found in the place of another and not used, behind the counts: in a few
/// words, for the rest is below the table.
fn refused_note(refused: &Refused) -> String {
    format!("{} is not used: {}", line(&refused.path.to_string_lossy()), refused.why.note())
}

/// The same with all that is known of it.
#[must_use]
pub fn refused(refused: &Refused) -> String {
    let path = refused.path.to_string_lossy();
    format!("{} is not used: {}", line(&path), line(&refused.why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::WorkColumns;
    use super::*;
    use engine::pools::LeafProgress;

    #[test]
    fn works_are_noted_as_openzfs_does() {
        let works = WorkColumns { initialize: true, ..WorkColumns::default() };
        let view = View { works, ..View::default() };
        let text = |state, offset| {
            let progress = LeafProgress { state, offset, ..LeafProgress::default() };
            let seen = WorkProgress { work: LeafWork::Initialize, progress, size: 1 << 30 };
            view.work(&seen).unwrap_or_default()
        };
        assert_eq!(text(WorkState::None, 0), "(uninitialized)");
        let half = (4 << 20) + (1 << 29);
        assert!(text(WorkState::Active, half).starts_with("(50% initialized, started at Thu Jan"));
        assert!(text(WorkState::Suspended, half).contains(", suspended, started at"));
        assert!(text(WorkState::Complete, 0).starts_with("(100% initialized, completed at"));
        let progress = LeafProgress { state: WorkState::Active, ..LeafProgress::default() };
        let seen = WorkProgress { work: LeafWork::Trim, progress, size: 1 };
        assert_eq!(view.work(&seen).as_deref(), Some("(trimming)"));
    }
}
