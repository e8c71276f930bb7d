//! Records of txgs as lines of JSON, one for each, which files of them consist of.

use engine::live::TxgRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A line: the record, whose it is, and when it was opened in the world's time. (The record's own
/// clock begins somewhere else in every process.)
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The pool.
    pub pool: String,
    /// When the txg was opened, in nanoseconds since 1970.
    pub birth_wall_ns: u64,
    /// The record of the txg.
    #[serde(flatten)]
    pub record: TxgRecord,
}

impl Line {
    /// When it was durable, since 1970.
    #[must_use]
    pub fn ended(&self) -> Duration {
        let r = &self.record;
        Duration::from_nanos(self.birth_wall_ns) + (r.ended() - r.opened)
    }
}

/// Lines for what txgs of a pool did. It is `now` by the clock of the records, and `wall` in the
/// world.
#[must_use]
pub fn lines(pool: &str, txgs: Vec<TxgRecord>, now: Duration, wall: Duration) -> Vec<Line> {
    let line = |record: TxgRecord| {
        let born = wall.saturating_sub(now.saturating_sub(record.opened));
        Line {
            pool: pool.to_owned(),
            birth_wall_ns: u64::try_from(born.as_nanos()).unwrap_or(u64::MAX),
            record,
        }
    };
    txgs.into_iter().map(line).collect()
}

/// The text of lines.
#[must_use]
pub fn text(lines: &[Line]) -> String {
    // A record cannot fail to become text: it has no maps with odd keys.
    let text = |line: &Line| serde_json::to_string(line).unwrap_or_default() + "\n";
    lines.iter().map(text).collect()
}

/// Reads such a text, of one pool or of all.
///
/// # Errors
/// The number of a line that is not a record, and what is wrong with it.
pub fn parse(text: &str, pool: Option<&str>) -> Result<Vec<Line>, (usize, serde_json::Error)> {
    let mut out = Vec::new();
    for (n, line) in (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|e| (n, e))?;
        if pool.is_none_or(|p| p == line.pool) {
            out.push(line);
        }
    }
    Ok(out)
}

/// The activity of a pool in an interval.
#[derive(Clone, Debug)]
pub struct IntervalRecords {
    /// When it began, since 1970.
    pub begin: Duration,
    /// How long it is.
    pub span: Duration,
    /// The pool.
    pub pool: String,
    /// The txgs that ended in it.
    pub records: Vec<TxgRecord>,
}

/// Lines by interval and pool; an interval of 0 is all of the time.
#[must_use]
pub fn intervals(lines: &[Line], interval: Duration) -> Vec<IntervalRecords> {
    let born = |l: &Line| Duration::from_nanos(l.birth_wall_ns);
    let Some(first) = lines.iter().map(born).min() else { return Vec::new() };
    let last = lines.iter().map(Line::ended).max().unwrap_or(first);
    let mut groups: BTreeMap<(u128, &str), Vec<_>> = BTreeMap::new();
    for line in lines {
        let since = line.ended().saturating_sub(first).as_nanos();
        let number = since.checked_div(interval.as_nanos()).unwrap_or(0);
        groups.entry((number, &line.pool)).or_default().push(line.record.clone());
    }
    let span = if interval.is_zero() { last - first } else { interval };
    let group = |((number, pool), records): ((u128, &str), Vec<_>)| {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        IntervalRecords { begin: first + interval * number, span, pool: pool.to_owned(), records }
    };
    groups.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A txg of this many milliseconds that began this many after 1970.
    fn line(pool: &str, txg: u64, began: u64, took: u64) -> Line {
        let sync = Duration::from_millis(took);
        let record = TxgRecord { txg, sync, dirty: 1 << 20, ..TxgRecord::default() };
        Line { pool: pool.to_owned(), birth_wall_ns: began * 1_000_000, record }
    }

    #[test]
    fn a_history_is_cut_into_intervals_by_pool() {
        let lines = [
            line("tank", 1, 5_000, 300),
            line("tank", 2, 5_300, 600),
            // It ended in the interval after the one in which it began.
            line("tank", 3, 5_900, 200),
            line("dozer", 7, 7_500, 100),
        ];
        let show = |seconds| -> Vec<(u64, String, usize)> {
            let all = intervals(&lines, Duration::from_secs(seconds)).into_iter();
            all.map(|g| (g.begin.as_millis() as u64, g.pool, g.records.len())).collect()
        };
        let row = |at, pool: &str, txgs| (at, pool.to_owned(), txgs);
        assert_eq!(show(0), [row(5_000, "dozer", 1), row(5_000, "tank", 3)]);
        assert_eq!(show(1), [row(5_000, "tank", 2), row(6_000, "tank", 1), row(7_000, "dozer", 1)]);
        assert!(intervals(&[], Duration::ZERO).is_empty());
    }
}
