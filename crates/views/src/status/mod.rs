//! The health of pools as `zpool status` words it.
//!
//! Sections of zinc's own follow if they are not empty: `salvage:` lists structures that could not
//! be read and were not needed, `faults:` the blocks that were read in spite of damage, and
//! `read repair:` how many of such blocks were made whole for that. No line is longer than a reader
//! can take in.

mod activity;
pub mod condition;
mod table;
mod vdevs;

pub use table::{refused, remark};

use crate::json::{self, Numbers, one_line};
use crate::stores;
use engine::devices::price::Prices;
use engine::live::SpaceClass;
use engine::pools::{
    CandidateState, CheckpointNote, ErrorScrubNote, ExpansionNote, PoolFacts, ReadRepairs,
    RebuildState, Removal, ScanPass, ScanProgress, ScanState, Section, ShortDevice, Status,
};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use term::escape::line;
use term::human::nicenum;

/// Faults shown in a report that is not verbose.
const FAULTS_SHOWN: usize = 10;

/// Faults of one block that a line shows.
const OF_LINE: usize = 4;

/// Characters of one text that a line shows.
const TEXT_MAX: usize = 400;

/// The work on the free space of devices whose progress is shown; of other work only that it is
/// running.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkColumns {
    /// Initializing.
    pub initialize: bool,
    /// Trimming.
    pub trim: bool,
}

/// How a report is written. The default is that of `zpool status -P` with times of UTC.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// With the names of damaged files, and every fault.
    pub is_verbose: bool,
    /// How numbers are written in JSON.
    pub numbers: Numbers,
    /// Vdevs of all levels are side by side in JSON.
    pub is_flat: bool,
    /// Seconds that local time is ahead of UTC.
    pub utc_offset: i64,
    /// Slow requests are shown.
    pub shows_slow: bool,
    /// How far devices are initialized and trimmed.
    pub works: WorkColumns,
    /// The lines of devices are marked for [`crate::scripts`].
    pub scripts: bool,
    /// Verbs that advice may name and that the program does not have.
    pub lacking: &'static [&'static str],
}

/// The inputs of a report beside the pool's status.
#[derive(Debug)]
pub struct StatusContext {
    /// It is exported.
    pub is_exported: bool,
    /// Devices in use that cannot be written to, and why.
    pub refused: Vec<(String, String)>,
    /// The prices of requests to buckets.
    pub prices: Prices,
}

impl View {
    /// The report of `zpool status`, and what zinc met while it looked.
    #[must_use]
    pub fn text(&self, pool: &PoolFacts, status: &Status, seen: &StatusContext) -> String {
        let mut t = self.report(status);
        if seen.is_exported {
            let state = format!(" state: {}\n", status.health);
            t = t.replacen(&state, &format!(" state: {} (EXPORTED)\n", status.health), 1);
        }
        t.push_str(&self.lacking(status));
        if let Some(why) = &status.suspended {
            let _ = writeln!(t, "\nsuspended: {}", bounded(&line(why)));
        }
        if self.shows_slow {
            let leaves = status.vdevs.walk().filter_map(|v| Some((v.name.as_str(), v.store?)));
            let rows: Vec<_> = leaves.collect();
            let table = stores::table(&rows, &seen.prices, false);
            if !table.is_empty() {
                let _ = writeln!(t, "\nasked of stores since the pool was opened:\n");
            }
            for row in table.lines() {
                let _ = writeln!(t, "\t{row}");
            }
        }
        for refusal in status.vdevs.walk().filter_map(|v| v.refused.as_ref()) {
            let _ = writeln!(t, "\nnot used: {}", refused(refusal));
        }
        for short in &pool.short {
            let ShortDevice { name, size, size_min } = short;
            let name = line(name);
            let _ = writeln!(t, "\nshort: {name} has {size} bytes, and its label needs {size_min}");
        }
        for (name, why) in &seen.refused {
            let _ = writeln!(t, "\nread-only: {} cannot be written to: {why}", line(name));
        }
        if !pool.salvage.is_empty() {
            t.push_str("\nsalvage: Parts could not be read and are left out:\n\n");
            for s in &pool.salvage {
                // Writing to a String cannot fail.
                let _ = writeln!(t, "\t{}: {}", s.what, line(&s.cause));
            }
        }
        t.push_str(&self.fault_lines(pool));
        t.push_str(&read_repair_line(pool.read_repairs));
        t
    }

    /// The blocks that were read in spite of damage.
    fn fault_lines(&self, pool: &PoolFacts) -> String {
        let mut t = String::new();
        if pool.faults == 0 {
            return t;
        }
        let count = pool.faults;
        // Writing to a String cannot fail.
        let _ = writeln!(t, "\nfaults: {count} blocks were read in spite of damage:\n");
        let all = &pool.repaired;
        let shown = if self.is_verbose { all.len() } else { FAULTS_SHOWN };
        for r in all.iter().take(shown) {
            let faults: Vec<String> = r.faults.iter().map(ToString::to_string).collect();
            let _ = writeln!(t, "\t{}: {}", r.place, line(&some_of(&faults)));
        }
        if all.len() > shown {
            let _ = writeln!(t, "\tand {} more; -v shows all", all.len() - shown);
        }
        t
    }

    /// The report of a pool that has too few devices to be opened.
    #[must_use]
    pub fn closed_text(&self, status: &Status) -> String {
        self.report(status) + &self.lacking(status)
    }

    /// The report of OpenZFS, to the letter: scripts parse it.
    #[must_use]
    pub fn report(&self, status: &Status) -> String {
        let mut out = format!("  pool: {}\n state: {}\n", status.pool, status.health);
        if let Some(c) = status.condition {
            let _ =
                writeln!(out, "status: {}\naction: {}", condition::text(c), condition::action(c));
            if let Some(page) = condition::see_also(c) {
                let _ = writeln!(out, "   see: {page}");
            }
        }
        for line in activity::lines(status, self.utc_offset) {
            let _ = writeln!(out, "{line}");
        }
        let _ = write!(out, "config:\n\n{}", self.table(status));
        out.push_str(&self.error_lines(status));
        out
    }

    fn error_lines(&self, status: &Status) -> String {
        match status.damaged.len() {
            // What it could not write is in no log.
            0 if status.suspended.is_some() => {
                "\nerrors: List of errors unavailable: pool I/O is currently suspended\n".to_owned()
            }
            // Nothing was read: what the vdevs no longer hold is in no log.
            0 if !status.state.is_readable() => String::new(),
            0 => "\nerrors: No known data errors\n".to_owned(),
            n if !self.is_verbose => format!("\nerrors: {n} data errors, use '-v' for a list\n"),
            _ => {
                let mut out = "\nerrors: Permanent errors have been detected in the following \
                               files:\n\n"
                    .to_owned();
                for name in &status.damaged {
                    // A name may have a line end in it, and forges no other name by that.
                    let _ = writeln!(out, "{:8}{}", "", line(name));
                }
                out
            }
        }
    }

    /// The same as JSON.
    #[must_use]
    pub fn value(&self, pool: &PoolFacts, status: &Status) -> Value {
        let numbers = self.numbers;
        let mut map = json::pool(pool, numbers == Numbers::Plain);
        map.insert("label_state".to_owned(), json!(label_state(pool)));
        map = self.shape(status, map);
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        let salvage = pool.salvage.iter().map(|s| json!({ "what": s.what, "cause": s.cause }));
        put("salvage", salvage.collect());
        if let Some(why) = &status.suspended {
            put("suspended", json!(why));
        }
        let short =
            |s: &ShortDevice| json!({ "device": s.name, "size": s.size, "size_min": s.size_min });
        let short: Vec<Value> = pool.short.iter().map(short).collect();
        if !short.is_empty() {
            put("short", Value::Array(short));
        }
        put("faults", numbers.plain(pool.faults));
        let repairs = pool.read_repairs;
        let repairs = json!({
            "blocks": numbers.plain(repairs.blocks),
            "bytes": numbers.bytes(repairs.bytes),
            "refused": numbers.plain(repairs.refused),
        });
        put("read_repairs", repairs);
        Value::Object(map)
    }

    /// The report as JSON, added to `map`.
    fn shape(&self, status: &Status, mut map: Map<String, Value>) -> Map<String, Value> {
        let figures = (self.numbers, self.utc_offset);
        let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
        put("name", json!(status.pool));
        put("state", json!(status.health));
        if let Some(c) = status.condition {
            put("status", json!(one_line(condition::text(c))));
            put("action", json!(one_line(condition::action(c))));
            if let Some(page) = condition::see_also(c) {
                put("msgid", json!(page.rsplit('/').next()));
                put("moreinfo", json!(page));
            }
        }
        put(
            "activity",
            activity::lines(status, self.utc_offset).iter().map(|l| json!(one_line(l))).collect(),
        );
        let mut scans =
            status.scan.as_ref().map_or_else(Map::new, |s| scan(s, status.scan_pass, figures));
        if let Some(note) = activity::error_scrub(status) {
            if scans.is_empty() {
                scans.extend(["function", "state"].map(|name| (name.to_owned(), json!("NONE"))));
            }
            scans.extend(error_scrub(note, figures));
        }
        let rebuilds = rebuilds(status, figures);
        if !rebuilds.is_empty() {
            scans.insert("rebuild_stats".to_owned(), Value::Object(rebuilds));
        }
        if !scans.is_empty() {
            put("scan_stats", Value::Object(scans));
        }
        if let Some(r) = &status.removal {
            put("removal_stats", removal(r, status, figures));
        }
        if let Some(c) = &status.checkpoint {
            put("checkpoint_stats", checkpoint(c, figures));
        }
        if let Some(e) = &status.expansion {
            put("raidz_expand_stats", expansion(e, figures));
        }
        let root = Value::Object(self.root(status));
        let mut all = Map::from_iter([(status.pool.clone(), root)]);
        if self.is_flat {
            all = flat(all, None);
        }
        put("vdevs", Value::Object(all));
        let others = [
            (Section::Tops(SpaceClass::Dedup), "dedup"),
            (Section::Tops(SpaceClass::Special), "special"),
            (Section::Tops(SpaceClass::Log), "logs"),
            (Section::Cache, "l2cache"),
            (Section::Spares, "spares"),
        ];
        for (section, name) in others {
            let vdevs = status.vdevs.section(section);
            if !vdevs.is_empty() {
                let vdevs = self.children(vdevs, name, None);
                put(name, Value::Object(if self.is_flat { flat(vdevs, None) } else { vdevs }));
            }
        }
        put("error_count", self.numbers.plain(status.damaged.len() as u64));
        if self.is_verbose && !status.damaged.is_empty() {
            put("errlist", json!(status.damaged));
        }
        map
    }

    /// The JSON of a pool that has too few devices to be opened.
    #[must_use]
    pub fn closed_value(&self, status: &Status) -> Value {
        Value::Object(self.shape(status, Map::new()))
    }

    /// The advice is that of OpenZFS, which has verbs that zinc lacks: a line about these, unless
    /// the advice is marked as one for OpenZFS.
    fn lacking(&self, status: &Status) -> String {
        let action = status.condition.map_or("", condition::action);
        let is_named = |verb: &&&str| action.contains(&format!("zpool {verb}'"));
        let verbs: Vec<String> =
            self.lacking.iter().filter(is_named).map(|verb| format!("'zpool {verb}'")).collect();
        match verbs.is_empty() || action.contains("OpenZFS") {
            true => String::new(),
            false => {
                format!("\nnote: zinc does not do {} yet; OpenZFS does\n", verbs.join(" and "))
            }
        }
    }
}

/// The first ones, and how many there are besides.
fn some_of(all: &[String]) -> String {
    let shown: Vec<String> = all.iter().take(OF_LINE).map(|one| bounded(one)).collect();
    let shown = shown.join("; ");
    match all.len().saturating_sub(OF_LINE) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// The beginning of a text that is long, and how many characters follow.
fn bounded(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (shown, rest) = text.split_at(end);
            format!("{shown} (and {} more characters)", rest.chars().count())
        }
    }
}

/// What became of the bad copies that readers met, if there were any.
fn read_repair_line(repairs: ReadRepairs) -> String {
    let ReadRepairs { blocks, bytes, refused, .. } = repairs;
    let mut t = String::new();
    if bytes > 0 || refused > 0 {
        let plural = if blocks == 1 { "" } else { "s" };
        let bytes = nicenum(bytes);
        let _ = write!(
            t,
            "\nread repair: {blocks} block{plural} repaired after reads, {bytes} written"
        );
        if refused > 0 {
            let _ = write!(t, "; {refused} could not be repaired");
        }
        t.push('\n');
    }
    t
}

/// The state of a pool in its labels.
fn label_state(pool: &PoolFacts) -> &'static str {
    match pool.label_state {
        CandidateState::Exported => "EXPORTED",
        CandidateState::Destroyed => "DESTROYED",
        CandidateState::Active => "ACTIVE",
        CandidateState::Other => "UNKNOWN",
    }
}

/// The time to use for the local offset: the latest one the report shows.
#[must_use]
pub fn latest(status: &Status) -> u64 {
    let scan = status.scan.as_ref().map_or(0, |s| s.end_time.max(s.start_time));
    let errors =
        status.error_scrub.map_or(0, |e| e.state.end_time.max(e.state.start_time).max(e.paused_at));
    let removal = status.removal.as_ref().map_or(0, |r| r.state.end_time.max(r.state.start_time));
    let checkpoint = status.checkpoint.and_then(|c| c.made).unwrap_or(0);
    scan.max(errors).max(removal).max(checkpoint)
}

/// OpenZFS's word for how far a scan, a removal or an expansion is.
fn word(state: ScanProgress) -> String {
    match state {
        ScanProgress::Active => "SCANNING".to_owned(),
        state => state.name().to_uppercase(),
    }
}

/// How numbers are written, and by how many seconds local time is ahead of UTC.
type Figures = (Numbers, i64);

/// The last scan with OpenZFS's names. What a process has done of it since it was opened is there
/// as long as one runs it.
fn scan(s: &ScanState, pass: Option<ScanPass>, figures: Figures) -> Map<String, Value> {
    let (numbers, offset) = figures;
    let (bytes, time) = (|n| numbers.bytes(n), |n| numbers.time(n, offset));
    let collected = pass.map_or(0, |pass| pass.collected);
    let mut members = vec![
        ("function", json!(s.function().name().to_uppercase())),
        ("state", json!(word(s.state()))),
        ("start_time", time(s.start_time)),
        ("end_time", time(s.end_time)),
        ("to_examine", bytes(s.to_examine)),
        ("examined", bytes(s.examined.saturating_add(collected))),
        ("skipped", bytes(s.skipped)),
        ("processed", bytes(s.processed)),
        ("errors", numbers.count(s.errors)),
        ("issued", bytes(s.examined.saturating_sub(s.skipped))),
    ];
    if let Some(pass) = pass {
        members.extend([
            ("pass_start", numbers.plain(pass.start_time)),
            ("bytes_per_scan", bytes(pass.examined)),
            ("issued_bytes_per_scan", bytes(pass.issued)),
            ("scrub_pause", time(pass.paused)),
            // One that goes on after a pause begins to count anew.
            ("scrub_spent_paused", numbers.plain(0)),
        ]);
    }
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A scrub of errors, with OpenZFS's names.
fn error_scrub(note: &ErrorScrubNote, (numbers, offset): Figures) -> Map<String, Value> {
    let s = &note.state;
    let paused_at = if s.paused == 0 { 0 } else { note.paused_at };
    let members = [
        ("err_scrub_func", json!(s.function().name().to_uppercase())),
        ("err_scrub_state", json!(word(s.state()))),
        ("err_scrub_start_time", numbers.time(s.start_time, offset)),
        ("err_scrub_end_time", numbers.time(s.end_time, offset)),
        ("err_scrub_examined", numbers.count(s.examined)),
        ("err_scrub_to_examine", numbers.count(s.to_examine)),
        ("err_scrub_pause", numbers.time(paused_at, offset)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The last rebuild of each top-level vdev, with OpenZFS's names. The counts since the pool was
/// opened (`pass_…`) are not on disk, and left out.
fn rebuilds(status: &Status, figures: Figures) -> Map<String, Value> {
    let (numbers, offset) = figures;
    let one = |(s, name): &(RebuildState, String)| {
        let state = match s.state() {
            ScanProgress::None => return None,
            ScanProgress::Active => "ACTIVE",
            ScanProgress::Finished => "COMPLETE",
            _ => "CANCELED",
        };
        let sections = [
            (Section::Tops(SpaceClass::Normal), "normal"),
            (Section::Tops(SpaceClass::Special), "special"),
            (Section::Tops(SpaceClass::Dedup), "dedup"),
            (Section::Tops(SpaceClass::Log), "logs"),
        ];
        let (vdev, class) = sections.into_iter().find_map(|(section, class)| {
            let vdev = status.vdevs.section(section).iter().find(|v| v.name == *name)?;
            Some((vdev, class))
        })?;
        let stats = json!({
            "name": name,
            "vdev_type": vdev.kind.name(),
            "guid": numbers.plain(vdev.guid),
            "class": class,
            "state": state,
            "start_time": numbers.time(s.start_time, offset),
            "end_time": numbers.time(s.end_time, offset),
            // In nanoseconds.
            "scan_time": numbers.plain(s.scan_time_ms.saturating_mul(1_000_000)),
            "scanned": numbers.bytes(s.bytes_scanned),
            "issued": numbers.bytes(s.bytes_issued),
            "rebuilt": numbers.bytes(s.bytes_rebuilt),
            "to_scan": numbers.bytes(s.bytes_estimated),
            "errors": numbers.count(s.errors),
        });
        Some((name.clone(), stats))
    };
    status.rebuilds.iter().filter_map(one).collect()
}

fn removal(r: &Removal, status: &Status, figures: Figures) -> Value {
    let (numbers, offset) = figures;
    // The vdev that was is called so.
    let name = if status.removing.is_empty() { "indirect" } else { &status.removing };
    json!({
        "name": name,
        "state": word(r.state.state()),
        "removing_vdev": numbers.plain(r.state.vdev),
        "start_time": numbers.time(r.state.start_time, offset),
        "end_time": numbers.time(r.state.end_time, offset),
        "to_copy": numbers.bytes(r.state.to_copy),
        "copied": numbers.bytes(r.state.copied),
        "mapping_memory": numbers.bytes(r.mapping_memory),
    })
}

fn checkpoint(c: &CheckpointNote, (numbers, offset): Figures) -> Value {
    json!({
        "state": if c.made.is_some() { "EXISTS" } else { "DISCARDING" },
        "start_time": numbers.time(c.made.unwrap_or(0), offset),
        "space": numbers.bytes(c.bytes),
    })
}

fn expansion(e: &ExpansionNote, (numbers, offset): Figures) -> Value {
    // As OpenZFS has it, without the number.
    let name = e.name.split_once('-').map_or(&*e.name, |(kind, _)| kind);
    json!({
        "name": name,
        "state": word(e.state.state),
        "expanding_vdev": numbers.plain(e.vdev),
        "start_time": numbers.time(e.state.start_time, offset),
        "end_time": numbers.time(e.state.end_time, offset),
        "to_reflow": numbers.bytes(e.allocated),
        "reflowed": numbers.bytes(e.state.bytes_copied),
        "waiting_for_resilver": numbers.plain(u64::from(e.waits.is_some())),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_a_few_faults_and_counts_the_rest() {
        let all: Vec<String> = (0..1000).map(|n| format!("/dev/sd{n}: wrong checksum")).collect();
        assert_eq!(some_of(&all[..1]), "/dev/sd0: wrong checksum");
        assert!(some_of(&all[..4]).ends_with("/dev/sd3: wrong checksum"));
        assert!(some_of(&all).ends_with("/dev/sd3: wrong checksum; and 996 more"));
        let long = bounded(&"é".repeat(5000));
        assert!(long.ends_with("é (and 4600 more characters)"), "{long}");
        assert!(some_of(&vec!["x".repeat(100_000); 100]).len() < 2000);
    }

    #[test]
    fn what_reads_have_repaired_is_said_if_there_is_any() {
        let one = ReadRepairs { blocks: 1, bytes: 4096, ..Default::default() };
        assert_eq!(read_repair_line(ReadRepairs { blocks: 3, ..Default::default() }), "");
        let line = "\nread repair: 1 block repaired after reads, 4K written\n";
        assert_eq!(read_repair_line(one), line);
        let more = ReadRepairs { blocks: 12, refused: 2, ..one };
        assert!(
            read_repair_line(more).contains("12 blocks") && read_repair_line(more).contains("; 2 ")
        );
    }
}
