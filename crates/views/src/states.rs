//! The states of a pool that its uberblocks remember, each with a verdict.

use crate::json;
use engine::pools::{TxgCandidate, Verdict};
use serde_json::{Value, json};
use term::Table;
use term::human::ctime;

fn text(verdict: Option<&Verdict>) -> String {
    match verdict {
        None => "not looked at".to_owned(),
        Some(Verdict::Intact) => "intact".to_owned(),
        Some(Verdict::Partial { lost, first }) => format!("{lost} lost, first {first}"),
        Some(Verdict::Lost(cause)) => format!("lost: {cause}"),
    }
}

/// A table of them; `local` makes local time of seconds since 1970.
#[must_use]
pub fn table(txgs: &[TxgCandidate], local: impl Fn(u64) -> u64) -> Table {
    let right = [true, false, true, false];
    let mut table = Table::new(&["TXG", "TIME", "COPIES", "VERDICT"], &right, false);
    for t in txgs {
        let time = ctime(local(t.uberblock.timestamp));
        let (txg, copies) = (t.uberblock.txg.to_string(), t.copies.to_string());
        // Why in full, with every device that was tried, is in the JSON.
        let verdict = text(t.verdict.as_ref());
        let verdict = verdict.split(';').next().unwrap_or_default().to_owned();
        table.row(vec![txg, time, copies, verdict]);
    }
    table
}

/// The same as JSON.
#[must_use]
pub fn to_json(txgs: &[TxgCandidate], as_int: bool) -> Value {
    let row = |t: &TxgCandidate| {
        json!({
            "txg": json::number(t.uberblock.txg, as_int),
            "timestamp": json::number(t.uberblock.timestamp, as_int),
            "copies": json::number(t.copies as u64, as_int),
            "intact": matches!(t.verdict, Some(Verdict::Intact)),
            "verdict": text(t.verdict.as_ref()),
        })
    };
    txgs.iter().map(row).collect()
}
