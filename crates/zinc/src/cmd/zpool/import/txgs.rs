//! The states of a pool that its uberblocks remember, each with a verdict.

use crate::session::Session;
use crate::ui::{self, Table};
use crate::{json, local_time};
use engine::pools::{TxgCandidate, Verdict};
use serde_json::{Value, json};
use term::human::ctime;

fn text(verdict: Option<&Verdict>) -> String {
    match verdict {
        None => "not looked at".to_owned(),
        Some(Verdict::Intact) => "intact".to_owned(),
        Some(Verdict::Partial { lost, first }) => format!("{lost} lost, first {first}"),
        Some(Verdict::Lost(cause)) => format!("lost: {cause}"),
    }
}

/// Prints them as a table.
pub fn print(session: &Session, txgs: &[TxgCandidate]) {
    let right = [true, false, true, false];
    let mut table = Table::new(&["TXG", "TIME", "COPIES", "VERDICT"], &right, false);
    for t in txgs {
        let time = ctime(local_time::local(session, t.uberblock.timestamp));
        let (txg, copies) = (t.uberblock.txg.to_string(), t.copies.to_string());
        // Why in full, with every device that was tried, is in the JSON.
        let verdict = text(t.verdict.as_ref());
        let verdict = verdict.split(';').next().unwrap_or_default().to_owned();
        table.row(vec![txg, time, copies, verdict]);
    }
    ui::table(session, &table);
}

/// The same as JSON.
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
