//! Events of pools: a line each, or with all members, as `zpool events` has them; and as a line of
//! a log, and as the variables of a program that is run for it.

use engine::live::{Event, EventValue};
use std::fmt::Write as _;
use term::escape;
use term::human::{Civil, stamp};

/// Width of a time.
const TIME: usize = 30;

/// The line above the others.
#[must_use]
pub fn heading() -> String {
    format!("{:<TIME$} CLASS\n", "TIME")
}

/// An event on one line; the time is shown `utc_offset` seconds ahead.
#[must_use]
pub fn line(event: &Event, utc_offset: i64, script: bool) -> String {
    let local = event.time.as_secs().saturating_add_signed(utc_offset);
    let at = Civil::of(i64::try_from(local).unwrap_or(i64::MAX));
    let Civil { day, year, hour, minute, second, .. } = at;
    let month = at.month_name();
    let nanos = event.time.subsec_nanos();
    let time = format!("{month} {day:>2} {year:04} {hour:02}:{minute:02}:{second:02}.{nanos:09}");
    let between = if script { '\t' } else { ' ' };
    format!("{time}{between}{}\n", escape::line(&event.class))
}

/// Its members, one a line, and an empty line.
#[must_use]
pub fn members(event: &Event) -> String {
    let mut out = String::new();
    let mut add = |name: &str, value: &str| {
        let _ = writeln!(out, "        {name} = {value}");
    };
    add("version", "0x0");
    add("class", &format!("\"{}\"", escape::line(&event.class)));
    for (name, value) in &event.members {
        match value {
            EventValue::Text(text) => add(name, &format!("\"{}\"", escape::line(text))),
            EventValue::Number(n) => match word(name, *n) {
                Some(word) => add(name, &format!("\"{word}\" ({n:#x})")),
                None => add(name, &format!("{n:#x}")),
            },
        }
    }
    let (seconds, nanos) = (event.time.as_secs(), event.time.subsec_nanos());
    add("time", &format!("{seconds:#x} {nanos:#x} "));
    add("eid", &format!("{:#x}", event.eid));
    out.push('\n');
    out
}

/// OpenZFS's word for the number of a state.
#[must_use]
pub fn word(member: &str, number: u64) -> Option<&'static str> {
    match (member, number) {
        ("pool_state", 0) => Some("ACTIVE"),
        ("vdev_state" | "vdev_laststate", n) => {
            let words = [
                "UNKNOWN", "CLOSED", "OFFLINE", "REMOVED", "UNAVAIL", "FAULTED", "DEGRADED",
                "ONLINE",
            ];
            usize::try_from(n).ok().and_then(|n| words.get(n)).copied()
        }
        _ => None,
    }
}

fn number(event: &Event, name: &str) -> Option<u64> {
    event.members.iter().find_map(|(member, value)| match value {
        EventValue::Number(n) if *member == name => Some(*n),
        _ => None,
    })
}

fn text<'e>(event: &'e Event, name: &str) -> &'e str {
    let found = event.members.iter().find_map(|(member, value)| match value {
        EventValue::Text(text) if *member == name => Some(text.as_str()),
        _ => None,
    });
    found.unwrap_or("-")
}

/// How much a line of a log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Nothing works until the user does something.
    Error,
    /// The user should look.
    Warning,
    /// It is good to know.
    Note,
    /// Only of use when something is looked for.
    Detail,
}

/// The replay of an intent log as a line of a log, unless nothing was in it: how many changes
/// were applied, and why not all. The process or machine that had the pool before did not close it,
/// and what programs had synced is in its files again.
#[must_use]
pub fn replay_line(
    dataset: &str,
    applied: u64,
    problem: Option<String>,
) -> Option<(Weight, String)> {
    let name = escape::line(dataset);
    let changes = if applied == 1 { "1 change".to_owned() } else { format!("{applied} changes") };
    match problem {
        None if applied == 0 => None,
        None => Some((Weight::Note, format!("the intent log of {name} was replayed: {changes}"))),
        Some(why) => {
            let what = format!("the intent log of {name} was replayed in part, {changes}: ");
            Some((Weight::Warning, what + &escape::line(&why)))
        }
    }
}

/// An event as a line of a log: what happened, in words.
#[must_use]
pub fn log_line(event: &Event) -> (Weight, String) {
    let (pool, path) = (text(event, "pool"), text(event, "vdev_path"));
    let state = |name| number(event, name).and_then(|n| word(name, n)).unwrap_or("UNKNOWN");
    let (weight, what) = match event.class.as_str() {
        "resource.fs.zfs.statechange" => {
            let (now, before) = (state("vdev_state"), state("vdev_laststate"));
            let weight = if now == "ONLINE" { Weight::Note } else { Weight::Warning };
            (weight, format!("{path} is {now}, and was {before}"))
        }
        "ereport.fs.zfs.io_failure" => {
            (Weight::Error, "too few devices answer: it is suspended".to_owned())
        }
        "ereport.fs.zfs.data" => {
            let place = |name| number(event, name).unwrap_or(0);
            let [set, object, block] = ["zio_objset", "zio_object", "zio_blkid"].map(place);
            let what = format!("block {block} of object {object} in dataset {set} is lost");
            (Weight::Error, format!("{what}; `zpool status -v` names files"))
        }
        class if class.starts_with("ereport.") => {
            let count = |name| number(event, name).unwrap_or(0);
            let counts = ["vdev_read_errors", "vdev_write_errors", "vdev_cksum_errors"].map(count);
            let kind = class.rsplit('.').next().unwrap_or(class);
            let [reads, writes, wrong] = counts;
            let counts = format!("{reads} reads and {writes} writes failed, {wrong} were wrong");
            (Weight::Warning, format!("{kind} errors of {path}: {counts}"))
        }
        class => {
            let name = class.strip_prefix("sysevent.fs.zfs.").unwrap_or(class);
            let is_detail =
                matches!(name, "history_event" | "config_sync" | "pool_import" | "pool_export");
            let of = if path == "-" { String::new() } else { format!(": {path}") };
            (if is_detail { Weight::Detail } else { Weight::Note }, format!("{name}{of}"))
        }
    };
    (weight, escape::line(&format!("{pool}: {what}")).into_owned())
}

/// The search path of a program that is started for an event, as zed sets it.
const PATHS: &str = "/bin:/sbin:/usr/bin:/usr/sbin";

/// The environment variables of a program for an event, as zed sets them: `ZEVENT_CLASS`,
/// `ZEVENT_SUBCLASS`, `ZEVENT_EID`, `ZEVENT_TIME…`, and each member as `ZEVENT_` and its name in
/// capitals. `process` is that of the server. Names come from pools: control characters for a
/// terminal and ends of lines are escaped in them.
#[must_use]
pub fn environment(event: &Event, process: u32) -> Vec<(String, String)> {
    let (seconds, nanos) = (event.time.as_secs(), event.time.subsec_nanos());
    let subclass = event.class.rsplit('.').next().unwrap_or_default();
    let mut out = vec![
        ("PATH".to_owned(), PATHS.to_owned()),
        ("ZED_PID".to_owned(), process.to_string()),
        ("ZEVENT_CLASS".to_owned(), event.class.clone()),
        ("ZEVENT_SUBCLASS".to_owned(), subclass.to_owned()),
        ("ZEVENT_EID".to_owned(), event.eid.to_string()),
        ("ZEVENT_TIME".to_owned(), format!("{seconds} {nanos}")),
        ("ZEVENT_TIME_SECS".to_owned(), seconds.to_string()),
        ("ZEVENT_TIME_NSECS".to_owned(), nanos.to_string()),
        ("ZEVENT_TIME_STRING".to_owned(), format!("{}+0000", stamp(seconds, ' '))),
    ];
    for (name, value) in &event.members {
        let variable = format!("ZEVENT_{}", name.to_ascii_uppercase());
        let shown = match value {
            EventValue::Text(text) => escape::line(text).into_owned(),
            EventValue::Number(n) if name.ends_with("_guid") => format!("0x{n:016X}"),
            EventValue::Number(n) => {
                let words = word(name, *n).map(|word| (format!("{variable}_STR"), word.to_owned()));
                out.extend(words);
                n.to_string()
            }
        };
        out.push((variable, shown));
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn event(class: &str, members: Vec<(&'static str, EventValue)>) -> Event {
        let mut all = vec![("pool", EventValue::Text("tank".into()))];
        all.extend(members);
        let time = Duration::new(1_795_562_712, 5);
        Event { eid: 7, time, class: class.into(), members: all }
    }

    #[test]
    fn a_replay_is_a_line_of_the_log() {
        assert_eq!(replay_line("tank", 0, None), None);
        let (weight, line) = replay_line("tank/a", 3, None).unwrap();
        assert_eq!(weight, Weight::Note);
        assert_eq!(line, "the intent log of tank/a was replayed: 3 changes");
        let (weight, line) = replay_line("tank", 1, Some("a block is lost".into())).unwrap();
        assert_eq!(weight, Weight::Warning);
        assert_eq!(line, "the intent log of tank was replayed in part, 1 change: a block is lost");
    }

    #[test]
    fn an_event_is_shown_as_openzfs_does() {
        let event = event(
            "resource.fs.zfs.statechange",
            vec![
                ("vdev_guid", EventValue::Number(0x1234)),
                ("vdev_state", EventValue::Number(5)),
                ("vdev_path", EventValue::Text("/dev/\u{1b}[2Jx".into())),
                ("vdev_laststate", EventValue::Number(7)),
            ],
        );
        let heading = "TIME                           CLASS\n";
        assert_eq!(super::heading(), heading);
        let shown = line(&event, 0, false);
        assert_eq!(shown, "Nov 24 2026 23:25:12.000000005 resource.fs.zfs.statechange\n");
        assert_eq!(shown.find("resource"), heading.find("CLASS"));
        assert!(line(&event, 0, true).contains("05\tresource"));
        let want = "        version = 0x0\n        \
                    class = \"resource.fs.zfs.statechange\"\n        \
                    pool = \"tank\"\n        vdev_guid = 0x1234\n        vdev_state = \"FAULTED\" \
                    (0x5)\n        vdev_path = \"/dev/\\x1b[2Jx\"\n        vdev_laststate = \
                    \"ONLINE\" (0x7)\n        time = 0x6b061cd8 0x5 \n        eid = 0x7\n\n";
        assert_eq!(members(&event).replace("\\033", "\\x1b"), want);
        let (weight, text) = log_line(&event);
        assert_eq!(weight, Weight::Warning);
        assert!(text.ends_with("x is FAULTED, and was ONLINE") && !text.contains('\u{1b}'));
    }

    #[test]
    fn a_suspended_pool_is_an_error_and_a_scrub_is_not() {
        let weight = |class| log_line(&event(class, Vec::new()));
        assert_eq!(weight("ereport.fs.zfs.io_failure").0, Weight::Error);
        let place = [("zio_objset", 54), ("zio_object", 2), ("zio_level", 0), ("zio_blkid", 7)];
        let place = place.map(|(name, n)| (name, EventValue::Number(n))).to_vec();
        let lost = "tank: block 7 of object 2 in dataset 54 is lost; `zpool status -v` names files";
        let line = log_line(&event("ereport.fs.zfs.data", place));
        assert_eq!(line, (Weight::Error, lost.to_owned()));
        let scrub = weight("sysevent.fs.zfs.scrub_start");
        assert_eq!(scrub, (Weight::Note, "tank: scrub_start".to_owned()));
        assert_eq!(weight("sysevent.fs.zfs.history_event").0, Weight::Detail);
    }

    #[test]
    fn a_hook_is_told_what_zed_tells_and_names_give_no_orders() {
        let members = vec![
            ("pool", EventValue::Text("ta\nnk\u{1b}".into())),
            ("pool_guid", EventValue::Number(0xab)),
            ("vdev_state", EventValue::Number(5)),
        ];
        let time = Duration::new(60, 7);
        let class = "resource.fs.zfs.statechange".to_owned();
        let all = environment(&Event { eid: 3, time, class, members }, 1);
        let get = |name: &str| all.iter().find(|(n, _)| n == name).unwrap().1.clone();
        assert_eq!(get("ZEVENT_SUBCLASS"), "statechange");
        assert_eq!((get("ZEVENT_EID"), get("ZEVENT_TIME")), ("3".into(), "60 7".into()));
        assert_eq!(get("ZEVENT_TIME_STRING"), "1970-01-01 00:01:00+0000");
        assert_eq!(get("ZEVENT_POOL_GUID"), "0x00000000000000AB");
        assert_eq!(get("ZEVENT_VDEV_STATE"), "5");
        assert_eq!(get("ZEVENT_VDEV_STATE_STR"), "FAULTED");
        assert!(get("ZEVENT_POOL").chars().all(|c| !c.is_control()));
    }
}
