//! Transaction groups, as a table: the columns of OpenZFS's `txgs` statistics, and zinc's own
//! behind them.
//!
//! | column | meaning |
//! | --- | --- |
//! | txg, birth | its number, and when it was opened |
//! | state | O open, Q quiescing, W waiting for its turn, S being synced, C durable |
//! | ndirty | bytes that became dirty in it |
//! | nread, nwritten, reads, writes | what the devices did during its sync |
//! | otime, qtime, wtime, stime | how long it was open, quiescing, waiting, being synced |
//! | limit | the throttle's limit when it quiesced |
//! | delays, delayed | how often writers were delayed, and for how long in all |
//! | stops, stopped | how often they stood still at a limit, and for how long in all |
//! | pushed | why it was pushed; - as long as it is open |

use engine::live::{TxgRecord, TxgState};
use std::time::Duration;
use term::Table;
use term::human::nicenum;

/// How numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// With units.
    Human,
    /// Bytes and nanoseconds.
    Exact,
    /// The same, without headings, with tabs between columns.
    Script,
}

const HEADINGS: [&str; 18] = [
    "txg", "birth", "state", "ndirty", "nread", "nwritten", "reads", "writes", "otime", "qtime",
    "wtime", "stime", "limit", "delays", "delayed", "stops", "stopped", "pushed",
];

/// The table of these records.
pub fn table(records: &[TxgRecord], style: Style) -> Table {
    let mut right = [true; HEADINGS.len()];
    right[2] = false;
    right[HEADINGS.len() - 1] = false;
    let mut table = Table::new(&HEADINGS, &right, style == Style::Script);
    let bytes = |n: u64| if style == Style::Human { nicenum(n) } else { n.to_string() };
    let time = |d: Duration| match style {
        Style::Human => nice_time(d),
        _ => d.as_nanos().to_string(),
    };
    for r in records {
        let birth = match style {
            Style::Human => format!("{:.3}", r.opened.as_secs_f64()),
            _ => r.opened.as_nanos().to_string(),
        };
        table.row(vec![
            r.txg.to_string(),
            birth,
            r.state.letter().to_string(),
            bytes(r.dirty),
            bytes(r.read_bytes),
            bytes(r.write_bytes),
            r.reads.to_string(),
            r.writes.to_string(),
            time(r.open),
            time(r.quiesce),
            time(r.wait),
            time(r.sync),
            bytes(r.limit),
            r.delays.to_string(),
            time(r.delayed),
            r.waits.to_string(),
            time(r.waited),
            match r.state {
                TxgState::Open | TxgState::Quiescing => "-".to_owned(),
                _ => r.pushed.name().to_owned(),
            },
        ]);
    }
    table
}

/// A time in the unit that leaves at most four digits before the point.
fn nice_time(time: Duration) -> String {
    match time.as_nanos() {
        0 => "0".to_owned(),
        ns @ 1..=9_999 => format!("{ns}ns"),
        ns @ 10_000..=9_999_999 => format!("{}us", ns / 1000),
        ns @ 10_000_000..=9_999_999_999 => format!("{}ms", ns / 1_000_000),
        ns => format!("{}s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let nice = |ns| nice_time(Duration::from_nanos(ns));
        assert_eq!(nice(0), "0");
        assert_eq!(nice(9999), "9999ns");
        assert_eq!(nice(10_000), "10us");
        assert_eq!(nice(23_723_000_000), "23s");
        assert_eq!(nice(1_431_000_000), "1431ms");
    }
}
