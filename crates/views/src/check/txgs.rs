//! The states that a pool could be opened in, with what of each is intact.

use engine::check::TxgVerdict;
use engine::pools::Verdict;
use serde_json::{Value, json};
use term::Table;

/// In a word, with what is lost.
fn words(state: &TxgVerdict) -> (&'static str, String) {
    match &state.verdict {
        Ok(Verdict::Intact) => ("intact", String::new()),
        Ok(Verdict::Partial { lost, first }) => ("partial", format!("{lost} lost, first {first}")),
        Ok(Verdict::Lost(why)) => ("lost", why.clone()),
        Err(e) => ("lost", e.to_string()),
    }
}

/// As a table.
#[must_use]
pub fn txgs(states: &[TxgVerdict]) -> String {
    let right = [true, true, true, false, false];
    let mut table = Table::new(&["TXG", "TIMESTAMP", "COPIES", "STATE", ""], &right, false);
    for one in states {
        let (state, detail) = words(one);
        let cells = [one.txg.to_string(), one.timestamp.to_string(), one.copies.to_string()];
        table.row(cells.into_iter().chain([state.to_owned(), detail]).collect());
    }
    table.text()
}

/// As JSON.
#[must_use]
pub fn txgs_value(states: &[TxgVerdict]) -> Value {
    let one = |one: &TxgVerdict| {
        let ((state, detail), TxgVerdict { txg, timestamp, copies, .. }) = (words(one), one);
        json!({ "txg": txg, "timestamp": timestamp, "copies": copies, "state": state,
                "detail": detail })
    };
    json!({ "txgs": states.iter().map(one).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_is_in_a_line_with_what_is_lost() {
        let state = |txg, verdict| TxgVerdict { txg, timestamp: 5, copies: 2, verdict };
        let lost = Verdict::Partial { lost: 3, first: "tank/a".to_owned() };
        let states = [state(9, Ok(Verdict::Lost("gone".to_owned()))), state(8, Ok(lost))];
        let text = txgs(&states);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(lines[0].starts_with("TXG") && lines[1].ends_with("lost     gone"), "{text}");
        assert!(lines[2].ends_with("partial  3 lost, first tank/a"), "{text}");
        assert_eq!(txgs_value(&states)["txgs"][1]["state"], "partial");
    }
}
