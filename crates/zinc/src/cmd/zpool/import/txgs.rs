//! The states of a pool that its uberblocks remember, each tried.
//!
//! An old uberblock is a promise the pool no longer keeps: the blocks below it may have been used
//! again. So each is opened, and the object sets of all its datasets and snapshots with it.

use crate::ui::Table;
use crate::{json, local_time};
use engine::dsl::nicenum::ctime;
use engine::pool::{TxgCandidate, Verdict, by_txg};
use engine::{Candidate, Dsl, OpenOptions, Pool};
use serde_json::{Value, json};

/// Every txg of the candidate, newest first, with a verdict.
pub fn judge(candidate: &Candidate, options: &OpenOptions) -> Vec<TxgCandidate> {
    let mut all = by_txg(&candidate.uberblocks);
    for t in &mut all {
        let options = OpenOptions { txg: Some(t.uberblock.txg), ..options.clone() };
        t.verdict = Some(match Pool::open_candidate(candidate, &options) {
            Ok(pool) => verdict(pool.dsl()),
            Err(e) => Verdict::Lost(e.to_string()),
        });
    }
    all
}

/// Whether every dataset can be entered.
fn verdict(dsl: &Dsl) -> Verdict {
    let mut lost = 0;
    let mut first = None;
    let mut note = |name: &str, e: engine::dsl::Error| {
        lost += 1;
        first.get_or_insert_with(|| format!("{name}: {e}"));
    };
    for (name, dir) in dsl.walk() {
        let head = dir.and_then(|dir| dsl.head(&dir));
        let head = match head {
            Ok(Some(head)) => head,
            Ok(None) => continue,
            Err(e) => {
                note(&name, e);
                continue;
            }
        };
        let snapshots = dsl.snapshots(&head).unwrap_or_else(|e| {
            note(&name, e);
            Vec::new()
        });
        for dataset in snapshots.iter().chain([&head]) {
            if let Err(e) = dsl.objset(dataset) {
                note(&dataset.name, e);
            }
        }
    }
    match first {
        None => Verdict::Intact,
        Some(first) => Verdict::Partial { lost, first },
    }
}

fn text(verdict: Option<&Verdict>) -> String {
    match verdict {
        None => "not looked at".to_owned(),
        Some(Verdict::Intact) => "intact".to_owned(),
        Some(Verdict::Partial { lost, first }) => format!("{lost} lost, first {first}"),
        Some(Verdict::Lost(cause)) => format!("lost: {cause}"),
    }
}

/// Prints them as a table.
pub fn print(txgs: &[TxgCandidate]) {
    let right = [true, false, true, false];
    let mut table = Table::new(&["TXG", "TIME", "COPIES", "VERDICT"], &right, false);
    for t in txgs {
        let time = ctime(local_time::local(t.uberblock.timestamp));
        let (txg, copies) = (t.uberblock.txg.to_string(), t.copies.to_string());
        // Why in full, with every device that was tried, is in the JSON.
        let verdict = text(t.verdict.as_ref());
        let verdict = verdict.split(';').next().unwrap_or_default().to_owned();
        table.row(vec![txg, time, copies, verdict]);
    }
    table.print();
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
