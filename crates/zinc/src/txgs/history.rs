//! Files of txg records: a line of JSON for each, appended by every verb that was given the file.

use crate::failure::Failure;
use crate::session::Session;
use engine::LivePool;
use engine::live::TxgRecord;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::Path;
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
    pub fn ended(&self) -> Duration {
        let r = &self.record;
        Duration::from_nanos(self.birth_wall_ns) + (r.ended() - r.opened)
    }
}

/// Lines for what the last txgs of a pool did.
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

/// That such a file can be written is found out before the work that it will be about.
pub fn check(session: &Session, path: &Path) -> Result<(), Failure> {
    crate::target::append(session, path).map(drop)
}

/// Appends what the last txgs of a pool did.
pub fn append(session: &Session, path: &Path, pool: &LivePool) -> Result<(), Failure> {
    let mut text = String::new();
    for line in lines(pool) {
        // A record cannot fail to become text: it has no maps with odd keys.
        text += &serde_json::to_string(&line).unwrap_or_default();
        text.push('\n');
    }
    crate::target::append(session, path)?.write_all(text.as_bytes()).map_err(|e| {
        Failure::new(format!("cannot write to {}", path.display())).because(e.to_string())
    })
}

/// Reads such a file, of one pool or of all.
pub fn read(path: &Path, pool: Option<&str>) -> Result<Vec<Line>, Failure> {
    let shown = path.display();
    let text = engine::devices::open_input(path)
        .and_then(std::io::read_to_string)
        .map_err(|e| Failure::new(format!("cannot read {shown}")).because(e.to_string()))?;
    let mut out = Vec::new();
    for (n, line) in (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).map_err(|e| {
            Failure::new(format!("{shown}, line {n}: no record of a txg"))
                .because(e.to_string())
                .hint("such files are written by --txgs-log FILE")
        })?;
        if pool.is_none_or(|p| p == line.pool) {
            out.push(line);
        }
    }
    Ok(out)
}
