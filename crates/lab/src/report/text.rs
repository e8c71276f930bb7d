//! An outcome on a terminal.

use super::story::differences;
use super::{
    DIFFERS, bounds, freedom, headline, log_ticks, outside, published, reasons, sameness, spread,
    ticks_of, values, verdict,
};
use crate::digits::figure;
use crate::outcome::{Chart, Outcome};
use std::fmt::Write as _;

/// Marks of a chart's lines.
const MARKS: [char; 6] = ['o', '+', 'x', '*', '#', '@'];
/// Lines of a chart.
const HEIGHT: usize = 14;

/// Tables, charts and sentence, for a terminal of this width.
#[must_use]
pub fn text(outcome: &Outcome, width: usize) -> String {
    let mut text = format!("{} on {}\n", outcome.experiment, outcome.place);
    if outcome.seeds.len() > 1 {
        let seeds: Vec<String> = outcome.seeds.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "seeds {}; measured is the median", seeds.join(" "));
    }
    text.push('\n');
    if !outcome.rows.is_empty() {
        rows(outcome, &mut text);
        kinds(outcome, width.clamp(40, 100), &mut text);
        differs(outcome, width.clamp(40, 100), &mut text);
    }
    if !outcome.parameters.is_empty() {
        parameters(outcome, &mut text);
    }
    for (title, body) in &outcome.texts {
        let _ = write!(text, "\n{title}\n{body}");
        if !body.ends_with('\n') {
            text.push('\n');
        }
    }
    for chart in &outcome.charts {
        text.push('\n');
        if chart.bars { bars(chart, width, &mut text) } else { lines(chart, width, &mut text) }
    }
    text.push('\n');
    wrap(&outcome.says(), width.clamp(40, 100), &mut text);
    text
}

fn rows(outcome: &Outcome, text: &mut String) {
    let several = outcome.seeds.len() > 1;
    let mut table =
        vec![["", "unit", "kind", "published", "bounds", "measured", "verdict"].map(str::to_owned)];
    table.extend(outcome.rows.iter().map(|row| {
        [
            row.row.clone(),
            row.unit.to_owned(),
            row.kind().name().to_owned(),
            published(row),
            bounds(row),
            figure(row.measured()),
            verdict(row).to_owned(),
        ]
    }));
    let mut table: Vec<Vec<String>> = table.into_iter().map(Vec::from).collect();
    if several {
        for (n, line) in table.iter_mut().enumerate() {
            let row = n.checked_sub(1).and_then(|n| outcome.rows.get(n));
            line.insert(6, row.map_or_else(|| "range".to_owned(), spread));
            line.push(row.map_or_else(|| "of each seed".to_owned(), values));
        }
    }
    let left = |column: usize| column < 3 || column > 5 + usize::from(several);
    columns(&table, left, text);
}

/// How many of each kind, and why some are not judged.
fn kinds(outcome: &Outcome, width: usize, text: &mut String) {
    let mut table = vec![["kind", "rows", "judged", "within", ""].map(str::to_owned).to_vec()];
    for tally in outcome.tallies().into_iter().filter(|tally| tally.rows > 0) {
        let counts = [tally.rows, tally.judged, tally.within].map(|n| n.to_string());
        let mut line = vec![tally.kind.name().to_owned()];
        line.extend(counts);
        line.push(tally.kind.about().to_owned());
        table.push(line);
    }
    let _ = writeln!(text, "\n{}", headline(std::slice::from_ref(outcome)));
    columns(&table, |column| column == 0 || column == 4, text);
    if let Some(reasons) = reasons(outcome) {
        let _ = writeln!(text, "{reasons}");
    }
    if let Some(sameness) = sameness(outcome) {
        wrap(&sameness, width, text);
    }
}

/// The rows that are outside, with what is known of the reason.
fn differs(outcome: &Outcome, width: usize, text: &mut String) {
    let differences = differences(outcome);
    if !differences.is_empty() {
        let _ = writeln!(text, "\n{DIFFERS}");
    }
    for (why, rows) in differences {
        wrap(&format!("- {}. {why}", outside(&rows)), width, text);
    }
}

fn parameters(outcome: &Outcome, text: &mut String) {
    let _ = writeln!(text, "\nParameters: {}", freedom(outcome));
    let line = |p: &crate::parameter::Parameter| {
        vec![p.name.clone(), p.value.clone(), p.unit.to_owned(), p.origin.text()]
    };
    let table: Vec<Vec<String>> = outcome.parameters.iter().map(line).collect();
    columns(&table, |column| column != 1, text);
}

/// Lines of cells that stand below each other, to the left or to the right of their columns.
fn columns(table: &[Vec<String>], left: impl Fn(usize) -> bool, text: &mut String) {
    let width = |column: usize| {
        let cells = table.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.first().map_or(0, Vec::len)).map(width).collect();
    for line in table {
        let mut out = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            out.push_str("  ");
            if left(column) {
                out.extend([cell.as_str(), &pad]);
            } else {
                out.extend([pad.as_str(), cell]);
            }
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
}

fn lines(chart: &Chart, width: usize, text: &mut String) {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::NEG_INFINITY, f64::max);
    let (left, right) = (least(|p| p.0), most(|p| p.0));
    let top = most(|p| p.1).max(f64::MIN_POSITIVE);
    if !left.is_finite() || !right.is_finite() {
        return;
    }
    let columns = width.saturating_sub(14).clamp(30, 72);
    let across = |x: f64| {
        let scale = |x: f64| if chart.x_log { x.max(1e-9).log2() } else { x };
        let span = (scale(right) - scale(left)).max(f64::MIN_POSITIVE);
        ((scale(x) - scale(left)) / span * (columns - 1) as f64).round() as usize
    };
    let mut canvas = vec![vec![' '; columns]; HEIGHT];
    for (index, series) in chart.series.iter().enumerate().rev() {
        let mark = MARKS[index % MARKS.len()];
        for (x, y) in &series.points {
            let up = (y / top * (HEIGHT - 1) as f64).round() as usize;
            canvas[HEIGHT - 1 - up.min(HEIGHT - 1)][across(*x).min(columns - 1)] = mark;
        }
    }
    let _ = writeln!(text, "{}: {}", chart.title, chart.y);
    for (index, row) in canvas.iter().enumerate() {
        let value = top * (HEIGHT - 1 - index) as f64 / (HEIGHT - 1) as f64;
        let label =
            if index % 3 == 0 || index == HEIGHT - 1 { figure(value) } else { String::new() };
        let row: String = row.iter().collect();
        let _ = writeln!(text, "{label:>10} |{}", row.trim_end());
    }
    let _ = writeln!(text, "{:>10} +{}", "", "-".repeat(columns));
    let mut axis = vec![' '; columns + 12];
    let marks = match chart.x_log {
        true => log_ticks(left, right),
        false => ticks_of(points().map(|p| p.0), left, right),
    };
    let mut free = 0;
    for tick in marks {
        let label = figure(tick);
        let from = across(tick).saturating_sub(label.len() / 2);
        if from >= free && from + label.len() <= axis.len() {
            axis[from..from + label.len()].iter_mut().zip(label.chars()).for_each(|(a, c)| *a = c);
            free = from + label.len() + 1;
        }
    }
    let axis: String = axis.iter().collect();
    let _ = writeln!(text, "{:>11} {}", "", axis.trim_end());
    let legend = chart.series.iter().zip(MARKS.iter().cycle());
    let legend: Vec<String> = legend.map(|(s, mark)| format!("{mark} {}", s.name)).collect();
    let _ = writeln!(text, "{:>11} {}    {}", "", chart.x, legend.join("  "));
}

fn bars(chart: &Chart, width: usize, text: &mut String) {
    let room = width.saturating_sub(32).clamp(20, 60) as f64;
    let _ = writeln!(text, "{}: {} by {}", chart.title, chart.y, chart.x);
    for series in &chart.series {
        let _ = writeln!(text, "  {}", series.name);
        let most = series.points.iter().map(|p| p.1).fold(f64::MIN_POSITIVE, f64::max);
        for (x, y) in &series.points {
            let bar = "#".repeat((y / most * room).round() as usize);
            let _ = writeln!(text, "{:>10} | {bar} {}", figure(*x), figure(*y));
        }
    }
}

fn wrap(sentence: &str, width: usize, text: &mut String) {
    let mut used = 0;
    for word in sentence.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            text.push('\n');
            used = 0;
        }
        if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += length;
    }
    text.push('\n');
}
