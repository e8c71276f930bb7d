//! The report of `zpool status`.

use super::reason::Condition;
use super::view::{AWAITING, Section, VdevTreeView, VdevView};
use crate::assemble::Candidate;
use crate::errlog::ErrorLog;
use crate::open::Pool;
use crate::removal::{CheckpointState, Removal, VdevExpansion};
use crate::space::PoolSpace;
use dsl::nicenum::{ctime, nicebytes, nicenum};
use ondisk::config::VdevConfig;
use ondisk::scan::{ErrorScrubState, Function, ScanState, State};
use std::fmt::Write as _;
use vdev::{Reason, VdevState, VdevTree};

/// What is said of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointNote {
    /// When it was made, in seconds since 1970; `None`: it is being discarded.
    pub made: Option<u64>,
    /// Bytes kept for it.
    pub bytes: u64,
}

/// The state of a pool.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name.
    pub pool: String,
    /// Guid of its root vdev.
    pub guid: u64,
    /// The state of its vdevs.
    pub state: VdevState,
    /// Why its vdevs are in that state; empty for nothing to say.
    pub remark: String,
    /// The word for the state of the pool.
    pub health: String,
    /// Why it takes no more changes.
    pub suspended: Option<String>,
    /// The worst that can be said about it; `None` when all is well.
    pub condition: Option<Condition>,
    /// The last scrub or resilver.
    pub scan: Option<ScanState>,
    /// That one was under way when the pool was closed, and no process goes on with it.
    pub is_scan_left: bool,
    /// Devices in use that have not all that was written, while no resilver runs.
    pub lacking: usize,
    /// The last scrub of the error log.
    pub error_scrub: Option<ErrorScrubState>,
    /// The last removal of a vdev.
    pub removal: Option<Removal>,
    /// The vdev that it is about, as it is called.
    pub removing: String,
    /// The last RAID-Z expansion, and its vdev's name.
    pub expansion: Option<(VdevExpansion, String)>,
    /// The checkpoint.
    pub checkpoint: Option<CheckpointNote>,
    /// The vdevs.
    pub vdevs: VdevTreeView,
    /// Blocks nothing could restore, by the error logs.
    pub errors: ErrorLog,
    /// What could not be read when the pool was opened, and names of the objects with such blocks.
    pub damaged: Vec<String>,
    /// Slow requests are shown.
    pub shows_slow: bool,
}

impl Pool {
    /// The state of the pool. What cannot be read for damage is left out.
    #[must_use]
    pub fn status(&self, space: &PoolSpace) -> Status {
        let vdevs = self.vdev_view(space);
        let errors = self.error_log().unwrap_or_default();
        let objects = errors.objects();
        let unread = self.salvage().iter().map(|s| format!("<metadata>: {}", s.what));
        let names = objects.iter().map(|o| self.damaged_name(o));
        let damaged: Vec<String> = unread.chain(names).collect();
        let condition = Condition::of(self, &vdevs, damaged.len() as u64);
        let expansion = self.expansion().ok().flatten().map(|e| {
            let tops = self.config().vdev_tree.children.iter();
            let guid = tops.clone().find(|t| t.id == e.vdev).map_or(0, |t| t.guid);
            let name = vdevs.walk().find(|v| v.guid == guid).map(|v| v.name.clone());
            (e, name.unwrap_or_default())
        });
        let removal = self.removal().ok().flatten();
        let removing = removal.as_ref().and_then(|r| {
            let top = self.config().vdev_tree.children.iter().find(|t| t.id == r.state.vdev)?;
            vdevs.walk().find(|v| v.guid == top.guid).map(|v| v.name.clone())
        });
        let made = self.checkpoint().ok().flatten().map(|u| u.timestamp);
        let checkpoint = (self.checkpoint_state() != CheckpointState::None)
            .then(|| CheckpointNote { made, bytes: space.checkpoint() });
        let lacking = vdevs.walk().filter(|v| v.remark == AWAITING).count();
        Status {
            lacking,
            pool: self.name().to_owned(),
            guid: self.config().vdev_tree.guid,
            state: self.vdevs().root().state(),
            remark: self.vdevs().root().reason().to_string(),
            health: self.health(),
            suspended: self.suspended().map(str::to_owned),
            condition,
            scan: self.scan_state().ok().flatten(),
            is_scan_left: self.is_scan_left(),
            error_scrub: self.error_scrub_state().ok().flatten(),
            removing: removing.unwrap_or_default(),
            removal,
            expansion,
            checkpoint,
            damaged,
            vdevs,
            errors,
            shows_slow: false,
        }
    }
}

impl Status {
    /// The state of a pool that has too few devices to be opened: what is known of its vdevs, and
    /// which of them are there.
    #[must_use]
    pub fn of_closed(candidate: &Candidate) -> Self {
        let behind = candidate.behind(&candidate.tree, u64::MAX);
        let mut leaf = |c: &VdevConfig| candidate.leaf_for(c, &behind);
        let tree = VdevTree::build(&rt::Rt::real(), &candidate.tree, &mut leaf).ok();
        Self {
            pool: candidate.name().to_owned(),
            guid: candidate.tree.guid,
            state: VdevState::Unavail,
            remark: Reason::NoReplicas.to_string(),
            health: VdevState::Unavail.to_string(),
            suspended: None,
            condition: Some(Condition::MissingFatal),
            scan: None,
            is_scan_left: false,
            lacking: 0,
            error_scrub: None,
            removal: None,
            removing: String::new(),
            expansion: None,
            checkpoint: None,
            vdevs: VdevTreeView::of_closed(&candidate.tree, tree.as_ref()),
            errors: ErrorLog::default(),
            damaged: Vec::new(),
            shows_slow: false,
        }
    }

    /// The text of `zpool status -P`; with `verbose` the names of damaged objects, as `-v`. Times
    /// are of UTC plus `utc_offset` seconds.
    #[must_use]
    pub fn to_text(&self, verbose: bool, utc_offset: i64) -> String {
        let mut out = format!("  pool: {}\n state: {}\n", self.pool, self.health);
        if let Some(c) = self.condition {
            let _ = writeln!(out, "status: {}\naction: {}", c.text(), c.action());
            if let Some(page) = c.see() {
                let _ = writeln!(out, "   see: {page}");
            }
        }
        for line in self.activity(utc_offset) {
            let _ = writeln!(out, "{line}");
        }
        let _ = write!(out, "config:\n\n{}", self.vdev_table());
        out.push_str(&self.error_lines(verbose));
        out
    }

    fn error_lines(&self, verbose: bool) -> String {
        match self.damaged.len() {
            // Nobody looked: what the vdevs no longer hold or never took is in no log.
            0 if !self.state.is_readable() || self.suspended.is_some() => String::new(),
            0 => "\nerrors: No known data errors\n".to_owned(),
            n if !verbose => format!("\nerrors: {n} data errors, use '-v' for a list\n"),
            _ => {
                let mut out = "\nerrors: Permanent errors have been detected in the following \
                               files:\n\n"
                    .to_owned();
                for name in &self.damaged {
                    let _ = writeln!(out, "{:8}{name}", "");
                }
                out
            }
        }
    }

    /// The lines about what the pool is doing or did last: scan, removal, expansion, checkpoint.
    #[must_use]
    pub fn activity(&self, utc_offset: i64) -> Vec<String> {
        let date = |t: u64| ctime(t.saturating_add_signed(utc_offset));
        let mut out = Vec::new();
        out.extend(self.scan_line(&date));
        if let Some(r) = &self.removal {
            out.extend(removal_lines(r, &self.removing, &date));
        }
        if let Some((e, name)) = &self.expansion {
            let s = &e.state;
            let bytes = nicenum(s.bytes_copied);
            out.extend(match s.state {
                State::Finished => {
                    let took = duration(s.end_time.saturating_sub(s.start_time));
                    let end = date(s.end_time);
                    Some(format!("expand: expanded {name} copied {bytes} in {took}, on {end}"))
                }
                State::Active => {
                    let begin = date(s.start_time);
                    Some(format!("expand: expansion of {name} in progress since {begin}"))
                }
                _ => None,
            });
        }
        if let Some(CheckpointNote { made, bytes }) = self.checkpoint {
            let size = nicenum(bytes);
            out.push(match made {
                Some(made) => format!("checkpoint: created {}, consumes {size}", date(made)),
                None => format!("checkpoint: discarding, {size} remaining."),
            });
        }
        out
    }

    /// The line about the last scrub or resilver. A resilver that ended well says nothing of what
    /// came after: while devices lack something, one was broken off since, or is still to be gone
    /// on with.
    fn scan_line(&self, date: &dyn Fn(u64) -> String) -> Option<String> {
        let is_silent = |s: &ScanState| {
            let is_clean_end = s.state() == State::Finished && s.errors == 0;
            s.function() == Function::Resilver && (is_clean_end || self.is_scan_left)
        };
        match &self.scan {
            scan if self.lacking > 0 && scan.as_ref().is_none_or(is_silent) => {
                let devices = match self.lacking {
                    1 => "1 device lacks".to_owned(),
                    n => format!("{n} devices lack"),
                };
                Some(format!("  scan: resilver not complete: {devices} a part of what was written"))
            }
            scan => {
                let line = scan.as_ref().and_then(|s| scan_line(s, date))?;
                Some(if self.is_scan_left { line + LEFT } else { line })
            }
        }
    }

    /// The table of vdevs, each line with its tab and newline.
    #[must_use]
    pub fn vdev_table(&self) -> String {
        let slow = self.shows_slow;
        let width = self.vdevs.name_width(&self.pool);
        let mut out = format!(
            "\t{:<width$}  {:<8} {:>5} {:>5} {:>5}",
            "NAME", "STATE", "READ", "WRITE", "CKSUM"
        );
        out.push_str(if slow { "  SLOW\n" } else { "\n" });
        let root = format!("{}", self.state);
        let _ = write!(out, "\t{:<width$}  {root:<8} {:>5} {:>5} {:>5}", self.pool, 0, 0, 0);
        out.push_str(if slow { "     -" } else { "" });
        match self.remark.is_empty() {
            true => out.push('\n'),
            false => drop(writeln!(out, "  {}", self.remark)),
        }
        for section in Section::ALL {
            let vdevs = self.vdevs.section(section);
            if vdevs.is_empty() {
                continue;
            }
            out.push_str(match section {
                Section::Normal => "",
                Section::Dedup => "\tdedup\t\n",
                Section::Special => "\tspecial\t\n",
                Section::Logs => "\tlogs\t\n",
                Section::Cache => "\tcache\n",
                Section::Spares => "\tspares\n",
            });
            for v in vdevs {
                let how = Columns { width, slow, counts: section != Section::Spares };
                rows(&mut out, v, 2, how);
            }
        }
        out
    }
}

/// What the lines of vdevs have.
#[derive(Clone, Copy)]
struct Columns {
    /// Characters of a name.
    width: usize,
    counts: bool,
    slow: bool,
}

/// One vdev and those below. Depth is bounded: the configuration's decoder limits it.
fn rows(out: &mut String, v: &VdevView, indent: usize, how: Columns) {
    let width = how.width;
    if v.kind == ondisk::config::VdevKind::Indirect {
        return;
    }
    let name = format!("{:indent$}{}", "", v.name);
    let _ = write!(out, "\t{name:<width$}  {:<8}", v.state);
    if how.counts {
        let counts = [v.read_errors, v.write_errors, v.checksum_errors].map(nicenum);
        for count in counts {
            let _ = write!(out, " {count:>5}");
        }
        let slow = if v.children.is_empty() { nicenum(v.slow_requests) } else { "-".to_owned() };
        if how.slow {
            let _ = write!(out, " {slow:>5}");
        }
    }
    if how.slow && v.sits_out {
        out.push_str("  (slow: reads go to others)");
    }
    if !v.remark.is_empty() {
        let _ = write!(out, "  {}", v.remark);
    }
    out.push('\n');
    for child in &v.children {
        rows(out, child, indent + 2, how);
    }
}

/// Behind a scan that was under way when the pool was closed.
const LEFT: &str = "\n\tnothing goes on with it: `zinc zpool scrub` does, and `zinc serve`";

fn scan_line(s: &ScanState, date: &dyn Fn(u64) -> String) -> Option<String> {
    let (noun, did) = match s.function() {
        Function::Scrub => ("scrub", "scrub repaired"),
        Function::Resilver => ("resilver", "resilvered"),
        _ => return None,
    };
    let paused = s.flags & ScanState::FLAG_PAUSED != 0;
    let begin = date(s.start_time);
    Some(match s.state() {
        State::Finished => {
            let took = duration(s.end_time.saturating_sub(s.start_time));
            let (size, end) = (nicebytes(s.processed), date(s.end_time));
            format!("  scan: {did} {size} in {took} with {} errors on {end}", s.errors)
        }
        State::Canceled => format!("  scan: {noun} canceled on {}", date(s.end_time)),
        // When it was paused is known only to the system that paused it.
        State::Active if paused => format!("  scan: scrub paused\n\tscrub started on {begin}"),
        State::Active => {
            let (done, all) = (nicebytes(s.examined), nicebytes(s.to_examine));
            let fixed = nicebytes(s.processed);
            let fix = if noun == "scrub" { "repaired" } else { "resilvered" };
            let scan = format!("  scan: {noun} in progress since {begin}");
            format!("{scan}\n\t{done} / {all} scanned\n\t{fixed} {fix}")
        }
        _ => return None,
    })
}

fn removal_lines(r: &Removal, name: &str, date: &dyn Fn(u64) -> String) -> Vec<String> {
    let s = &r.state;
    let (vdev, copied) = (s.vdev, nicenum(s.copied));
    let mut out = Vec::new();
    match s.state() {
        State::Finished => {
            let minutes = s.end_time.saturating_sub(s.start_time) / 60;
            let (h, m, end) = (minutes / 60, minutes % 60, date(s.end_time));
            out.push(format!(
                "remove: Removal of vdev {vdev} copied {copied} in {h}h{m}m, completed on {end}"
            ));
        }
        State::Canceled => {
            out.push(format!("remove: Removal of {name} canceled on {}", date(s.end_time)));
        }
        State::Active => {
            let (all, begin) = (nicenum(s.to_copy), date(s.start_time));
            let percent = 100.0 * s.copied as f64 / s.to_copy.max(1) as f64;
            out.push(format!("remove: Evacuation of {name} in progress since {begin}"));
            out.push(format!("\t{copied} copied out of {all}, {percent:.2}% done"));
        }
        _ => {}
    }
    if r.mapping_memory > 0 {
        let memory = nicenum(r.mapping_memory);
        out.push(format!("\t{memory} memory used for removed device mappings"));
    }
    out
}

/// Seconds as `00:00:01`, or `2 days 00:00:01`.
fn duration(seconds: u64) -> String {
    let days = seconds / 86_400;
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let clock = format!("{h:02}:{m:02}:{s:02}");
    if days == 0 { clock } else { format!("{days} days {clock}") }
}
