//! Disks in stores of objects, as `zinc far ls` shows them.

use crate::Here;
use crate::files::time_text;
use engine::devices::FarName;
use engine::devices::disk::{self, Overview};
use engine::files::Time;
use std::fmt::Write as _;
use term::human::nicenum;

/// What there is of a disk, in lines.
#[must_use]
pub fn overview(here: &dyn Here, found: &Overview, name: &FarName) -> String {
    let date = |seconds: u64| {
        let seconds = i64::try_from(seconds).unwrap_or_default();
        time_text(here, Time { seconds, nanos: 0 })
    };
    let mut text = String::new();
    let state = if found.is_closed { "closed" } else { "open, or its writer was killed" };
    let used = found.live.saturating_mul(100).checked_div(found.kept).unwrap_or(100);
    let mut line = |what: &str, value: String| {
        // Into a string, which cannot fail.
        let _ = writeln!(text, "{what:>12}: {value}");
    };
    line("disk", name.as_str().to_owned());
    line("id", disk::hex(&found.volume));
    line("size", nicenum(found.is.size));
    line("fence", if found.is.is_fenced { "tried" } else { "none: a single writer" }.to_owned());
    line("state", format!("{state}; writer {}, {} in the log", found.epoch, found.next - 1));
    line(
        "used",
        format!(
            "{} in {} segments of {}, {used}% of them",
            nicenum(found.live),
            found.segments,
            nicenum(found.kept)
        ),
    );
    line("map", format!("{} extents, {} of memory", found.extents, nicenum(found.map_memory)));
    let newest = found.checkpoints.last();
    line(
        "checkpoints",
        newest.map_or("none".to_owned(), |newest| {
            format!("{}, the newest at {newest}", found.checkpoints.len())
        }),
    );
    for writer in &found.writers {
        let who = format!("{} (process {})", writer.who.host, writer.who.pid);
        line("writer", format!("{} on {who} at {}", writer.epoch, date(writer.time)));
    }
    for pin in &found.pins {
        let who = format!("{} (process {})", pin.who.host, pin.who.pid);
        line("pin", format!("{} at {} by {who} at {}", pin.name, pin.at, date(pin.time)));
    }
    text
}
