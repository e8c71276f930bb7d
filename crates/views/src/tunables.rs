//! The tunables: names, values, ranges, and descriptions.

use engine::live::tunables::{Row, Unit};
use serde_json::{Value, json};
use term::Table;

/// Width of the meaning in the details of one.
const TEXT_COLUMNS: usize = 78;

/// One line for each tunable; `heading` is that of the values.
#[must_use]
pub fn table<'a>(rows: impl Iterator<Item = (&'a Row, u64)>, heading: &str, script: bool) -> Table {
    let headings = ["NAME", heading, "RANGE", "UNIT", "MEANING"];
    let mut table = Table::new(&headings, &[false, true, false, false, false], script);
    for (row, value) in rows {
        // The first sentence; the others are details.
        let first = row.meaning.split(". ").next().unwrap_or_default().trim_end_matches('.');
        table.row(vec![
            row.name.to_owned(),
            row.unit.show(value),
            row.range(),
            row.unit.name().to_owned(),
            first.to_owned(),
        ]);
    }
    table
}

/// A tunable as JSON, with its value in a pool when there is one.
#[must_use]
pub fn to_json(row: &Row, value: Option<u64>) -> Value {
    let number = |n: u64| match row.unit {
        Unit::Word(_) => json!(row.unit.show(n)),
        _ => json!(n),
    };
    let mut out = json!({
        "name": row.name,
        "default": number(row.default()),
        "unit": row.unit.name(),
        "meaning": row.meaning,
    });
    match row.unit {
        Unit::Word(words) => out["words"] = json!(words),
        _ => {
            out["min"] = json!(row.min);
            out["max"] = json!(row.max);
        }
    }
    if let Some(value) = value {
        out["value"] = number(value);
    }
    out
}

/// A tunable in full.
#[must_use]
pub fn details(row: &Row) -> String {
    let unit = match row.unit {
        Unit::Word(_) | Unit::Switch => String::new(),
        unit => format!(" ({})", unit.name()),
    };
    let mut text = format!("{}\n", row.name);
    text += &format!("  default  {}{unit}\n", row.unit.show(row.default()));
    text += &format!("  range    {}\n", row.range());
    let mut line = String::new();
    for word in row.meaning.split(' ') {
        if !line.is_empty() && line.len() + word.len() > TEXT_COLUMNS {
            text += &format!("  {line}\n");
            line.clear();
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    text + &format!("  {line}\n")
}
