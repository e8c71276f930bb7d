//! The lines `zpool history` makes of a pool's records.

use engine::pools::HistoryRecord;
use std::fmt::Write as _;
use term::human::stamp;

/// Names of internal events by their numbers, as software before feature flags wrote them.
#[rustfmt::skip]
const OLD_EVENTS: [&str; 41] = [
    "invalid event", "pool create", "vdev add", "pool remove", "pool destroy", "pool export",
    "pool import", "vdev attach", "vdev replace", "vdev detach", "vdev online", "vdev offline",
    "vdev upgrade", "pool clear", "pool scrub", "pool property set", "create", "clone", "destroy",
    "destroy_begin_sync", "inherit", "property set", "quota set", "permission update",
    "permission remove", "permission who remove", "promote", "receive", "rename",
    "reservation set", "replay_inc_sync", "replay_full_sync", "rollback", "snapshot",
    "filesystem version upgrade", "refquota set", "refreservation set", "pool scrub done",
    "user hold", "user release", "pool split",
];

/// The format of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryFormat {
    /// Internal events and ioctls too (`-i`).
    pub internal: bool,
    /// User and host behind each (`-l`).
    pub long: bool,
    /// Seconds added to UTC.
    pub utc_offset: i64,
}

/// A value on one line: it cannot look like another record.
fn in_line(text: impl AsRef<str>) -> String {
    engine::spelling::in_line(text.as_ref())
}

/// The text `zpool history` prints of a record, without the newline at the end; `None` for what
/// it does not show in this format. `user` gives the name of a user id.
#[must_use]
pub fn history_text(
    record: &HistoryRecord,
    format: HistoryFormat,
    user: &dyn Fn(u64) -> Option<String>,
) -> Option<String> {
    let time = record.time().unwrap_or(0).saturating_add_signed(format.utc_offset);
    let mut out = stamp(time, '.');
    if let Some(command) = record.command() {
        let _ = write!(out, " {}", in_line(command));
    } else if !format.internal {
        return None;
    } else if let Some(event) = record.internal_event() {
        let index = usize::try_from(event).unwrap_or(usize::MAX);
        let name = OLD_EVENTS.get(index).copied().unwrap_or("unknown");
        let (txg, text) = (record.txg().unwrap_or(0), record.internal_str().unwrap_or_default());
        let _ = write!(out, " [internal {name} txg:{txg}] {}", in_line(text));
    } else if let Some(name) = record.internal_name() {
        let _ = write!(out, " [txg:{}] {}", record.txg().unwrap_or(0), in_line(name));
        if let Some(dataset) = record.dsname() {
            let _ = write!(out, " {} ({})", in_line(dataset), record.dsid().unwrap_or(0));
        }
        let _ = write!(out, " {}", in_line(record.internal_str().unwrap_or_default()));
    } else if let Some(ioctl) = record.ioctl() {
        let _ = writeln!(out, " ioctl {}", in_line(ioctl));
        if let Some(list) = record.input() {
            let _ = write!(out, "    input:\n{list:8}");
        }
        if let Some(list) = record.output() {
            let _ = write!(out, "    output:\n{list:8}");
        }
        if let Some(errno) = record.errno() {
            let _ = writeln!(out, "    errno: {errno}");
        }
    } else {
        let _ = write!(out, " unrecognized record:\n{:4}", record.list);
    }
    if format.long {
        out.push_str(" [");
        if let Some(who) = record.who() {
            let _ = write!(out, "user {who} ");
            if let Some(name) = user(who) {
                let _ = write!(out, "({}) ", in_line(&name));
            }
        }
        if let Some(host) = record.host() {
            let _ = write!(out, "on {}", in_line(host));
        }
        if let Some(zone) = record.zone() {
            let _ = write!(out, ":{}", in_line(zone));
        }
        out.push(']');
    }
    Some(out)
}
