//! What the records of txgs say about the throttle, over an interval: the report of the study's
//! observation script.

use crate::distribution::{Buckets, Distribution};
use engine::live::TxgRecord;
use serde::Serialize;
use std::time::Duration;

/// 2^20 bytes, which the study calls MB.
const MIB: u64 = 1 << 20;

/// Columns of the text.
const COLUMNS: usize = 68;

/// An interval of a pool's life.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The pool.
    pub pool: String,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Txgs that became durable in it.
    pub syncs: u64,
    /// In a second.
    pub syncs_per_s: f64,
    /// Data that became dirty in them, in MiB, in a second.
    pub mb_per_s: f64,
    /// Delays of writers, in a second.
    pub delays_per_s: f64,
    /// Time of a sync, in milliseconds.
    pub sync_ms: Distribution,
    /// Data of a txg, in MiB.
    pub written_mb: Distribution,
    /// The limit, in MiB.
    pub write_limit_mb: Distribution,
}

impl Report {
    /// The report of these records, which ended within `span`. Txgs without data, which only ended
    /// because a thread waited, are not syncs of anything.
    #[must_use]
    pub fn new(pool: &str, records: &[TxgRecord], span: Duration) -> Self {
        let records: Vec<&TxgRecord> = records.iter().filter(|r| r.dirty > 0).collect();
        let seconds = span.as_secs_f64().max(1e-9);
        let sum = |of: fn(&TxgRecord) -> u64| records.iter().map(|r| of(r)).sum::<u64>() as f64;
        let all = |step, low, high, of: fn(&TxgRecord) -> u64| {
            Distribution::of(Buckets { low, high, step }, records.iter().map(|r| of(r)))
        };
        Self {
            pool: pool.to_owned(),
            seconds,
            syncs: records.len() as u64,
            syncs_per_s: records.len() as f64 / seconds,
            mb_per_s: sum(|r| r.dirty) / MIB as f64 / seconds,
            delays_per_s: sum(|r| r.delays) / seconds,
            sync_ms: all(20, 0, 100_000, |r| millis(r.sync)),
            written_mb: all(200, 200, 4000, |r| r.dirty / MIB),
            write_limit_mb: all(250, 250, 8000, |r| r.limit / MIB),
        }
    }

    /// As the script of 2008 printed it; rates are cut off to integers.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let rates = [
            ("Sync rate (/s)", self.syncs_per_s),
            ("MB/s", self.mb_per_s),
            ("Delays/s", self.delays_per_s),
        ];
        let width = COLUMNS - 2 - self.pool.len().min(COLUMNS - 12);
        for (title, value) in rates {
            text += &format!("{title:>COLUMNS$}\n  {}{:>width$}\n\n", self.pool, value as u64);
        }
        let distributions = [
            ("Sync time (ms)", &self.sync_ms),
            ("Written (MB)", &self.written_mb),
            ("Write limit (MB)", &self.write_limit_mb),
        ];
        for (title, distribution) in distributions {
            text += &format!("\n  {}{title:>width$}\n{}", self.pool, distribution.to_text());
        }
        text
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_what_was_synced() {
        let record = |mib: u64, ms, delays| TxgRecord {
            dirty: mib * MIB,
            sync: Duration::from_millis(ms),
            limit: 1600 * MIB,
            delays,
            ..TxgRecord::default()
        };
        let records = [record(100, 140, 3), record(400, 160, 2), record(0, 1, 0)];
        let report = Report::new("h", &records, Duration::from_secs(2));
        assert_eq!((report.syncs, report.syncs_per_s, report.mb_per_s), (2, 1.0, 250.0));
        assert_eq!(report.delays_per_s, 2.5);
        assert_eq!(report.sync_ms.rows(), [(140, 1), (160, 1)]);
        assert_eq!(report.written_mb.rows(), [(0, 1), (400, 1)]);
        assert_eq!(report.write_limit_mb.rows(), [(1500, 2)]);
        let text = report.to_text();
        let rate = "                                                      Sync rate (/s)
  h                                                                1\n";
        assert!(text.starts_with(rate), "{text}");
        let line = |l: &&str| l.contains("MB/s");
        assert_eq!(text.lines().find(line).map(str::len), Some(COLUMNS));
        assert!(text.contains(&format!("  h{:>65}", "Write limit (MB)")), "{text}");
    }
}
