//! The running or last activities of a pool: scan, removal, expansion, checkpoint.

use engine::pools::{
    CheckpointNote, ErrorScrubNote, ExpansionNote, ExpansionWait, Function, RebuildState, Removal,
    ScanPass, ScanProgress as State, ScanState, Status,
};
use term::human::{ctime, nicebytes, nicenum};

/// The lines about what the pool is doing or did last: scan, removal, expansion, checkpoint.
#[must_use]
pub(super) fn lines(status: &Status, utc_offset: i64) -> Vec<String> {
    let date = |t: u64| ctime(t.saturating_add_signed(utc_offset));
    let mut out = Vec::new();
    let rebuilds = newest_rebuilds(status);
    let is_resilver = status.scan.is_some_and(|s| s.function() == Function::Resilver);
    let errors = error_scrub(status).and_then(|note| error_scrub_line(status, note, &date));
    // As in OpenZFS the newest of the scrubs of both kinds is shown.
    let is_older_scrub =
        errors.is_some() && status.scan.is_some_and(|s| s.function() == Function::Scrub);
    out.extend(errors);
    if !is_older_scrub && (rebuilds.is_empty() || !is_resilver) {
        out.extend(scan_or_lack(status, &date));
    }
    out.extend(rebuilds.into_iter().map(|(state, name)| {
        let is_left = status.is_rebuild_left && state.state() == State::Active;
        let line = rebuild_line(state, name, is_left, &date);
        if is_left { line + LEFT_TO_THE_NEXT } else { line }
    }));
    if let Some(r) = &status.removal {
        out.extend(removal_lines(r, &status.removing, &date));
    }
    if let Some(e) = &status.expansion {
        out.extend(expansion_lines(e, &date));
    }
    if let Some(CheckpointNote { made, bytes }) = status.checkpoint {
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
fn scan_or_lack(status: &Status, date: &dyn Fn(u64) -> String) -> Option<String> {
    let is_silent = |s: &ScanState| {
        let is_clean_end = s.state() == State::Finished && s.errors == 0;
        s.function() == Function::Resilver && (is_clean_end || status.is_scan_left)
    };
    match &status.scan {
        scan if status.lacking > 0 && scan.as_ref().is_none_or(is_silent) => {
            let devices = match status.lacking {
                1 => "1 device lacks".to_owned(),
                n => format!("{n} devices lack"),
            };
            Some(format!("  scan: resilver not complete: {devices} a part of what was written"))
        }
        scan => {
            let line = scan.as_ref().and_then(|s| scan_line(s, status.scan_pass, date))?;
            let left = if status.suspended.is_some() { WAITS } else { LEFT };
            Some(if status.is_scan_left { line + left } else { line })
        }
    }
}

/// Behind a scan that was under way when the pool was suspended, or closed.
const WAITS: &str =
    "\n\tit waits for the devices of the pool: `zinc zpool clear` when they are back";
const LEFT: &str = "\n\tnothing goes on with it: `zinc zpool scrub` does, and `zinc serve`";

/// Behind a rebuild or a scrub of errors that was.
const LEFT_TO_THE_NEXT: &str =
    "\n\tnothing goes on with it: the next command that changes the pool does, and `zinc serve`";

/// The last scrub of errors, unless another scan began after it.
pub(super) fn error_scrub(status: &Status) -> Option<&ErrorScrubNote> {
    let scanned = status.scan.map_or(0, |scan| scan.start_time);
    status.error_scrub.as_ref().filter(|note| note.state.start_time >= scanned)
}

/// The line about it, in the words of OpenZFS.
fn error_scrub_line(
    status: &Status,
    note: &ErrorScrubNote,
    date: &dyn Fn(u64) -> String,
) -> Option<String> {
    let s = &note.state;
    let done = s.examined;
    Some(match s.state() {
        State::Finished => {
            let took = s.end_time.saturating_sub(s.start_time);
            let (days, took, end) = (took / 86_400, duration(took % 86_400), date(s.end_time));
            format!(" scrub: scrubbed {done} error blocks in {days} days {took} on {end}")
        }
        State::Canceled => format!(" scrub: error scrub canceled on {}", date(s.end_time)),
        State::ErrorScrubbing => {
            let begin = date(s.start_time);
            let start = match (s.paused, note.paused_at) {
                (0, _) => format!("in progress since {begin}"),
                // When it was paused is known only to the process that paused it.
                (_, 0) => format!("paused\n\terror scrub started on {begin}"),
                (_, at) => format!("paused since {}\n\terror scrub started on {begin}", date(at)),
            };
            let percent = match done.saturating_add(s.to_examine) {
                0 => 0.0,
                all => 100.0 * done as f64 / all as f64,
            };
            let left = match (note.is_left, &status.suspended) {
                (false, _) => "",
                (true, Some(_)) => WAITS,
                (true, None) => LEFT_TO_THE_NEXT,
            };
            format!(
                " scrub: error scrub {start}\n\t{percent:.2}% done, issued I/O for {done} error \
                 blocks{left}"
            )
        }
        _ => return None,
    })
}

fn scan_line(
    s: &ScanState,
    pass: Option<ScanPass>,
    date: &dyn Fn(u64) -> String,
) -> Option<String> {
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
        State::Active if paused => {
            // When it was paused is known only to the process that paused it.
            let since = pass.map(|pass| pass.paused).filter(|paused| *paused != 0);
            let since = since.map(|paused| format!(" since {}", date(paused))).unwrap_or_default();
            let far = progress(s, pass, Pace::Paused);
            format!("  scan: scrub paused{since}\n\tscrub started on {begin}{far}")
        }
        State::Active => {
            let far = progress(s, pass, Pace::of(pass));
            format!("  scan: {noun} in progress since {begin}{far}")
        }
        _ => return None,
    })
}

/// How fast a scan goes.
#[derive(Clone, Copy)]
enum Pace {
    Paused,
    /// It is not known, or it does not go on.
    Unknown,
    /// Bytes a second that it comes to, and that it reads.
    Rates(u64, u64),
}

impl Pace {
    fn of(pass: Option<ScanPass>) -> Self {
        match pass {
            Some(pass) => {
                let seconds = pass.elapsed.max(1);
                Self::Rates(pass.examined / seconds, pass.issued / seconds)
            }
            None => Self::Unknown,
        }
    }
}

/// The two lines that say how far a scrub or resilver is: what it has come to and what of that it
/// has read, then what it wrote, and when it will end if it goes on like this.
fn progress(s: &ScanState, pass: Option<ScanPass>, pace: Pace) -> String {
    let scanned = s.examined.saturating_add(pass.map_or(0, |pass| pass.collected));
    let issued = s.examined.saturating_sub(s.skipped);
    let to_issue = s.to_examine.saturating_sub(s.skipped);
    let at = |rate: u64| match rate {
        0 => String::new(),
        rate => format!(" at {}/s", nicebytes(rate)),
    };
    let (scanning, issuing, end) = match pace {
        Pace::Paused => (String::new(), String::new(), String::new()),
        Pace::Unknown => (String::new(), String::new(), format!(", {NO_END}")),
        Pace::Rates(scanning, issuing) => {
            let left = to_issue.checked_sub(issued);
            // A resilver is known to have come to something when it has written.
            let is_begun = match s.function() {
                Function::Resilver => s.processed > 0,
                _ => issued > 0,
            };
            let end = match left.filter(|_| is_begun && issuing >= FORETOLD_FROM) {
                Some(left) => format!(", {} to go", duration(left / issuing)),
                None => format!(", {NO_END}"),
            };
            (at(scanning), at(issuing), end)
        }
    };
    let did = if s.function() == Function::Resilver { "resilvered" } else { "repaired" };
    let percent = match to_issue {
        0 => 0.0,
        all => (100.0 * issued as f64 / all as f64).min(100.0),
    };
    let [scanned, issued, fixed] = [scanned, issued, s.processed].map(nicebytes);
    let [all, to_issue] = [s.to_examine, to_issue].map(nicebytes);
    format!(
        "\n\t{scanned} / {all} scanned{scanning}, {issued} / {to_issue} issued{issuing}\
         \n\t{fixed} {did}, {percent:.2}% done{end}"
    )
}

/// The rebuilds to report: all if one is running, or has ended after the last resilver.
fn newest_rebuilds(status: &Status) -> Vec<(&RebuildState, &str)> {
    let scan = status.scan.filter(|s| s.function() == Function::Resilver);
    let is_active = scan.is_some_and(|s| s.state() == State::Active && !status.is_scan_left);
    let ended = scan.map_or(0, |s| s.end_time);
    let all: Vec<_> = status.rebuilds.iter().filter(|(s, _)| s.state() != State::None).collect();
    let is_new = all.iter().any(|(s, _)| s.state() == State::Active || s.end_time > ended);
    let shown = all.iter().filter(|_| is_new && !is_active);
    shown.map(|(state, name)| (state, name.as_str())).collect()
}

fn rebuild_line(
    s: &RebuildState,
    name: &str,
    is_left: bool,
    date: &dyn Fn(u64) -> String,
) -> String {
    let rebuilt = nicebytes(s.bytes_rebuilt);
    match s.state() {
        State::Finished => {
            let (took, end) = (duration(s.scan_time_ms / 1000), date(s.end_time));
            format!(
                "  scan: resilvered ({name}) {rebuilt} in {took} with {} errors on {end}",
                s.errors
            )
        }
        State::Canceled => format!("  scan: resilver ({name}) canceled on {}", date(s.end_time)),
        _ => {
            let (begin, all) = (date(s.start_time), nicebytes(s.bytes_estimated));
            let (scanned, issued) = (nicebytes(s.bytes_scanned), nicebytes(s.bytes_issued));
            let done = s.bytes_scanned as f64 * 100.0 / (s.bytes_estimated + 1) as f64;
            let percent = done.min(100.0);
            // Over all the time that it ran: what a pass of OpenZFS did alone is not on disk.
            let rate = |bytes: u64| bytes / (s.scan_time_ms / 1000).max(1);
            let at = |rate: u64| match rate {
                0 => String::new(),
                rate => format!(" at {}/s", nicebytes(rate)),
            };
            let (scanning, issuing) = (rate(s.bytes_scanned), rate(s.bytes_issued));
            let left = s.bytes_estimated.checked_sub(s.bytes_scanned);
            let end = match left.filter(|_| !is_left && scanning >= FORETOLD_FROM) {
                Some(left) => format!("{} to go", duration(left / scanning)),
                None => NO_END.to_owned(),
            };
            format!(
                "  scan: resilver ({name}) in progress since {begin}\n\t\
                 {scanned} / {all} scanned{}, {issued} / {all} issued{}\n\t\
                 {rebuilt} resilvered, {percent:.2}% done, {end}",
                at(scanning),
                at(issuing)
            )
        }
    }
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

fn expansion_lines(e: &ExpansionNote, date: &dyn Fn(u64) -> String) -> Vec<String> {
    let (s, name) = (&e.state, &e.name);
    match s.state {
        State::Finished => {
            let took = duration(s.end_time.saturating_sub(s.start_time));
            let (bytes, end) = (nicenum(s.bytes_copied), date(s.end_time));
            vec![format!("expand: expanded {name} copied {bytes} in {took}, on {end}")]
        }
        State::Active => {
            let (copied, all) = (s.bytes_copied.max(1), e.allocated);
            let rate = (copied / e.elapsed.max(1)).max(1);
            let percent = 100.0 * copied as f64 / all.max(1) as f64;
            let left = all.saturating_sub(copied) / rate;
            let end = match (&e.waits, left < SLOW) {
                (Some(ExpansionWait::Devices), _) => "paused for resilver or clear".to_owned(),
                (Some(ExpansionWait::Spare(_)), _) => "paused while a spare is in use".to_owned(),
                (_, true) => format!("{} to go", duration(left)),
                _ => "(copy is slow, no estimated time)".to_owned(),
            };
            let [copied, all, rate] = [copied, all, rate].map(nicenum);
            let mut out = vec![
                format!("expand: expansion of {name} in progress since {}", date(s.start_time)),
                format!("\t{copied} / {all} copied at {rate}/s, {percent:.2}% done, {end}"),
            ];
            if let Some(ExpansionWait::Spare(vdev)) = &e.waits {
                out.push(format!(
                    "\tit waits until {vdev} is one device: `zinc zpool detach` the spare, or the \
                     other to keep the spare"
                ));
            }
            out
        }
        _ => Vec::new(),
    }
}

/// Seconds after which no end is foretold.
const SLOW: u64 = 30 * 86_400;

/// Bytes a second below which no end of a scan or rebuild is foretold.
const FORETOLD_FROM: u64 = 10 << 20;
/// What is said instead.
const NO_END: &str = "no estimated completion time";

/// Seconds as `00:00:01`, or `2 days 00:00:01`.
fn duration(seconds: u64) -> String {
    let days = seconds / 86_400;
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let clock = format!("{h:02}:{m:02}:{s:02}");
    if days == 0 { clock } else { format!("{days} days {clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_says_how_far_and_how_fast_it_is_and_when_it_ends() {
        let (mib, date) = (1 << 20, |time: u64| format!("time {time}"));
        let mut state = ScanState::default();
        (state.start_time, state.to_examine, state.examined) = (5, 1100 * mib, 600 * mib);
        (state.skipped, state.processed) = (100 * mib, 3 * mib);
        let state = state.with(Function::Scrub, State::Active);
        let pass = ScanPass {
            start_time: 5,
            elapsed: 10,
            examined: 800 * mib,
            issued: 500 * mib,
            collected: 200 * mib,
            paused: 0,
        };
        let line = |state: &ScanState, pass| scan_line(state, pass, &date).unwrap();
        assert_eq!(
            line(&state, Some(pass)),
            "  scan: scrub in progress since time 5\n\
             \t800M / 1.07G scanned at 80M/s, 500M / 1000M issued at 50M/s\n\
             \t3M repaired, 50.00% done, 00:00:10 to go"
        );
        // Nothing is made up of a pace that is slow, or not known.
        let slow = ScanPass { elapsed: 1000, ..pass };
        assert!(line(&state, Some(slow)).ends_with("50.00% done, no estimated completion time"));
        let unknown = line(&state, None);
        assert!(!unknown.contains("/s") && unknown.ends_with(NO_END), "{unknown}");
        let mut paused = state;
        paused.flags = ScanState::FLAG_PAUSED;
        let here = ScanPass { paused: 9, collected: 0, ..ScanPass::default() };
        assert_eq!(
            line(&paused, Some(here)),
            "  scan: scrub paused since time 9\n\tscrub started on time 5\n\
             \t600M / 1.07G scanned, 500M / 1000M issued\n\
             \t3M repaired, 50.00% done"
        );
        assert!(
            line(&paused, None).starts_with("  scan: scrub paused\n\tscrub started on time 5\n")
        );
    }

    #[test]
    fn a_rebuild_says_how_fast_it_is_and_when_it_ends() {
        let (mib, date) = (1 << 20, |_| "then".to_owned());
        let state = RebuildState {
            bytes_scanned: 900 * mib,
            bytes_issued: 600 * mib,
            bytes_rebuilt: 300 * mib,
            bytes_estimated: 1800 * mib,
            scan_time_ms: 30_000,
            ..RebuildState::default()
        };
        let state = state.with_state(State::Active);
        assert_eq!(
            rebuild_line(&state, "mirror-0", false, &date),
            "  scan: resilver (mirror-0) in progress since then\n\
             \t900M / 1.76G scanned at 30M/s, 600M / 1.76G issued at 20M/s\n\
             \t300M resilvered, 50.00% done, 00:00:30 to go"
        );
        let slow = RebuildState { scan_time_ms: 300_000, ..state };
        let line = rebuild_line(&slow, "mirror-0", false, &date);
        assert!(line.contains("scanned at 3M/s") && line.ends_with("no estimated completion time"));
        let none = RebuildState { bytes_scanned: 0, bytes_issued: 0, ..state };
        assert!(!rebuild_line(&none, "mirror-0", false, &date).contains("/s"));
    }
}
