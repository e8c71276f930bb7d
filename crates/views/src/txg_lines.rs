//! Records of txgs as lines of JSON, one for each, which files of them consist of.

use engine::LivePool;
use engine::live::TxgRecord;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A line: the record, whose it is, and when it was opened in the world's time. (The record's own
/// clock begins somewhere else in every process.)
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The pool.
    pub pool: String,
    /// When the txg was opened, in nanoseconds since 1970.
    pub birth_wall_ns: u64,
    /// What it did.
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

/// Lines for what the last txgs of a pool did.
#[must_use]
pub fn lines(pool: &LivePool) -> Vec<Line> {
    let (now, wall) = (pool.rt().now(), pool.rt().wall());
    let line = |record: TxgRecord| {
        let born = wall.saturating_sub(now.saturating_sub(record.opened));
        Line {
            pool: pool.name().to_owned(),
            birth_wall_ns: u64::try_from(born.as_nanos()).unwrap_or(u64::MAX),
            record,
        }
    };
    pool.txgs().into_iter().map(line).collect()
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
/// The number of a line that is no record, and what is wrong with it.
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
