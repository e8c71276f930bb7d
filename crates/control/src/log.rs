//! The log of a server: events of `tracing`, written to standard error.
//!
//! | where standard error leads | a line |
//! | --- | --- |
//! | systemd's journal | `<6>text`: the journal knows priority, time and process |
//! | anywhere else | `zinc: text`; below information `zinc: debug: text` |
//!
//! A filter selects what is written, as `RUST_LOG` does in other programs: `info`, or
//! `warn,zinc::request=debug`, where the longest target that fits counts. Targets are `zinc`, and
//! below it `request` (requests of clients), `pool`, `mount`.

use std::fmt::{self, Write as _};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The variable that has the filter where no option does.
pub const VARIABLE: &str = "ZINC_LOG";
/// The filter where nothing says another one.
pub const USUAL: &str = "info";

/// Levels by target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    others: LevelFilter,
    targets: Vec<(String, LevelFilter)>,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// The part that is malformed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut out = Self { others: LevelFilter::OFF, targets: Vec::new() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (target, level) = match part.split_once('=') {
                Some((target, level)) => (Some(target), level),
                None => (None, part),
            };
            let wrong =
                || format!("'{level}' is not a level: off, error, warn, info, debug or trace");
            let level = level.parse().map_err(|_| wrong())?;
            match target {
                Some(target) => out.targets.push((target.to_owned(), level)),
                None => out.others = level,
            }
        }
        out.targets.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(out)
    }

    fn level(&self, target: &str) -> LevelFilter {
        let is_below = |of: &str| {
            target.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.targets.iter().find(|(of, _)| is_below(of)).map_or(self.others, |(_, level)| *level)
    }
}

/// Begins to write the events of this process: `write` gets each line. `errors` are device and
/// inode of standard error.
pub fn begin(
    filter: Filter,
    errors: Option<(u64, u64)>,
    write: impl Fn(&str) + Send + Sync + 'static,
) {
    let writer = Writer { write, filter, is_journal: is_journal(errors) };
    // A second server in one process, as in tests, writes where the first one does.
    let _ = tracing::subscriber::set_global_default(writer);
}

/// Whether standard error is the journal's: systemd sets a variable with its file.
fn is_journal(errors: Option<(u64, u64)>) -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    errors.is_some_and(|(device, inode)| named == format!("{device}:{inode}"))
}

struct Writer<W> {
    write: W,
    filter: Filter,
    is_journal: bool,
}

/// A line of the journal begins with syslog's priority.
fn line(level: Level, text: &str, is_journal: bool) -> String {
    let priority = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    match (is_journal, priority) {
        // Each line of a text would be an entry of its own.
        (true, _) => format!("<{priority}>{}\n", text.trim_end().replace('\n', ": ")),
        (false, 7) => format!("zinc: debug: {text}\n"),
        (false, _) => format!("zinc: {text}\n"),
    }
}

/// The message of an event, and its fields behind it.
#[derive(Default)]
struct Text(String, String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.0.push_str(value),
            name => drop(write!(self.1, " {name}={value:?}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => drop(write!(self.0, "{value:?}")),
            name => drop(write!(self.1, " {name}={value:?}")),
        }
    }
}

impl<W: Fn(&str) + Send + Sync + 'static> Subscriber for Writer<W> {
    fn enabled(&self, of: &Metadata<'_>) -> bool {
        *of.level() <= self.filter.level(of.target())
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let line = line(*event.metadata().level(), &(text.0 + &text.1), self.is_journal);
        (self.write)(&line);
    }

    // Nothing here has spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_target_that_fits_counts() {
        let filter = Filter::parse("warn, zinc=info,zinc::request=debug").unwrap();
        assert_eq!(filter.level("zinc"), LevelFilter::INFO);
        assert_eq!(filter.level("zinc::pool"), LevelFilter::INFO);
        assert_eq!(filter.level("zinc::request"), LevelFilter::DEBUG);
        assert_eq!(filter.level("zinc::requests"), LevelFilter::INFO);
        assert_eq!(filter.level("other"), LevelFilter::WARN);
        assert_eq!(Filter::parse("").unwrap().level("zinc"), LevelFilter::OFF);
        assert!(Filter::parse("zinc=loud").unwrap_err().contains("'loud' is not a level"));
    }

    #[test]
    fn a_line_of_the_journal_is_one_line() {
        assert_eq!(line(Level::INFO, "a\n  hint: b\n", true), "<6>a:   hint: b\n");
        assert_eq!(line(Level::WARN, "a", true), "<4>a\n");
        assert_eq!(line(Level::WARN, "a", false), "zinc: a\n");
        assert_eq!(line(Level::DEBUG, "a", false), "zinc: debug: a\n");
    }
}
