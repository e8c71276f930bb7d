//! A sensitivity as tables that can be read on a terminal and in a document, and as JSON.

use super::{Effect, OmittedRow, Published, Sensitivity};
use crate::digits::figure;
use serde_json::{Value, json as object};
use std::fmt::Write as _;

/// Changes below this are not shown, in percent.
const SHOWN: f64 = 0.05;

/// The tables of several experiments.
#[must_use]
pub fn markdown(all: &[Sensitivity]) -> String {
    let mut out = String::new();
    for one in all {
        if !out.is_empty() {
            out.push('\n');
        }
        let percent = one.part * 100.0;
        let more = if one.others > 0 { " and the rest of its machine" } else { "" };
        let _ = writeln!(out, "## {}: the numbers of {}{more}\n", one.experiment, one.disk);
        if one.scale != 1.0 {
            let _ = writeln!(
                out,
                "Each run did {} of the study's amount of work: the rows are not quite those of a \
                 whole run.\n",
                figure(one.scale),
            );
        }
        effects(one, &mut out);
        let _ = write!(
            out,
            "\nChange of each row in percent, with the number {percent:.0} % smaller / larger:\n\n",
        );
        matrix(one, &mut out);
        left_out(one, &mut out);
    }
    out
}

fn moving(one: &Sensitivity) -> Vec<&Effect> {
    one.effects.iter().filter(|effect| effect.most() >= SHOWN).collect()
}

fn effects(one: &Sensitivity, out: &mut String) {
    out.push_str("| number | value | from | rows it moves by 1 % | most, in percent |\n");
    out.push_str("| --- | --- | --- | --- | --- |\n");
    for effect in &one.effects {
        let large = |p: &Option<f64>| p.is_some_and(|p| p.abs() >= 1.0);
        let moved = effect.percent.iter().filter(|(low, high)| large(low) || large(high)).count();
        let _ = writeln!(
            out,
            "| {} | {} {} | {} | {moved} of {} | {} |",
            effect.name,
            figure(effect.value),
            effect.unit,
            effect.origin.text(),
            one.rows.len(),
            figure(effect.most()),
        );
    }
}

fn matrix(one: &Sensitivity, out: &mut String) {
    let moving = moving(one);
    let names: Vec<&str> = moving.iter().map(|effect| effect.name).collect();
    let _ = writeln!(out, "| row | kind | {} |", names.join(" | "));
    let _ = writeln!(out, "| --- | --- |{}", " --- |".repeat(names.len()));
    for (n, row) in one.rows.iter().enumerate() {
        let cells: Vec<String> = moving.iter().map(|effect| cell(effect.percent[n])).collect();
        let _ = writeln!(out, "| {} | {} | {} |", named(row), row.kind.name(), cells.join(" | "));
    }
}

fn named(row: &Published) -> String {
    format!("{}, {}", row.row, row.unit).trim_end_matches(", ").to_owned()
}

fn cell((low, high): (Option<f64>, Option<f64>)) -> String {
    let one = |percent: Option<f64>| match percent {
        None => "-".to_owned(),
        Some(percent) if percent.abs() < SHOWN => "0".to_owned(),
        Some(percent) => format!("{percent:+.1}"),
    };
    match (one(low), one(high)) {
        (low, high) if low == "0" && high == "0" => String::new(),
        (low, high) => format!("{low} / {high}"),
    }
}

fn left_out(one: &Sensitivity, out: &mut String) {
    if one.left_out.is_empty() {
        out.push_str("\nNo row that a number of this machine was chosen by is moved by it here.\n");
        return;
    }
    let within = |l: &&OmittedRow| one.rows[l.row].range.holds(l.predicted);
    let good = one.left_out.iter().filter(within).count();
    let _ = write!(
        out,
        "\nEach fitted row, predicted by the machine that is fitted to the others: {good} of {} \
         are within their bounds.\n\n",
        one.left_out.len(),
    );
    out.push_str(
        "| row | published | fitted | left out | of the published | within | moved most |\n",
    );
    out.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for left in &one.left_out {
        let row = &one.rows[left.row];
        let moved = left.moved.map_or("nothing".to_owned(), |(n, by)| format!("{n} by {by:.3}"));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.3} | {} | {moved} |",
            named(row),
            figure(row.published),
            figure(row.measured),
            figure(left.predicted),
            left.predicted / row.published,
            if row.range.holds(left.predicted) { "yes" } else { "**no**" },
        );
    }
}

/// The same as JSON.
#[must_use]
pub fn json(all: &[Sensitivity]) -> Value {
    let one = |s: &Sensitivity| {
        let rows = s.rows.iter().enumerate().map(|(n, row)| {
            let effects = s.effects.iter().map(|e| (e.name.to_owned(), object!(e.percent[n])));
            object!({
                "row": row.row, "unit": row.unit, "kind": row.kind, "published": row.published,
                "measured": row.measured, "change_percent": Value::Object(effects.collect()),
            })
        });
        let left_out = s.left_out.iter().map(|left| {
            let row = &s.rows[left.row];
            object!({
                "row": row.row, "unit": row.unit, "published": row.published,
                "fitted": row.measured, "left_out": left.predicted,
                "within": row.range.holds(left.predicted),
            })
        });
        let numbers = s.effects.iter().map(|e| {
            object!({ "name": e.name, "value": e.value, "unit": e.unit, "origin": e.origin.text() })
        });
        object!({
            "experiment": s.experiment, "disk": s.disk, "part": s.part, "scale": s.scale,
            "numbers": numbers.collect::<Vec<_>>(), "rows": rows.collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    };
    object!({ "experiments": all.iter().map(one).collect::<Vec<_>>() })
}
