//! Outcomes for people and programs: text for a terminal, one HTML page with charts, JSON;
//! and what there is to choose from.

mod escape;
mod html;
mod lists;
mod story;
mod svg;
mod text;

pub use html::page;
pub use lists::{experiments, presets, validations};
pub use text::text;

use crate::digits::figure;
use crate::outcome::{AsCommitted, Outcome, Tally, tallies};
use crate::row::{Kind, Published, Row, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `{"summary": …, "experiments": [{"experiment", "place", "seeds", "rows": [{"row", "unit",
/// "kind", "published", "sentence", "follows", "low", "high", "measured", "min", "max", "values",
/// "ratio", "within", "verdict", "why"}], "parameters": […], …}]}`; what there is not is null. Rows
/// that only their units tell apart have them in their names.
#[must_use]
pub fn json(outcomes: &[Outcome]) -> Value {
    let experiments = outcomes.iter().map(|outcome| {
        let mut named = BTreeMap::<&str, usize>::new();
        outcome.rows.iter().for_each(|row| *named.entry(&row.row).or_default() += 1);
        let name = |row: &Row| match named.get(row.row.as_str()) {
            Some(2..) => format!("{}, {}", row.row, row.unit),
            _ => row.row.clone(),
        };
        let why = |row: &Row| story::why(outcome, row);
        let rows = outcome.rows.iter().map(|row| json_row(row, &name(row), why(row)));
        let parameters: Vec<Value> = outcome.parameters.iter().map(|p| p.json()).collect();
        json!({
            "experiment": outcome.experiment,
            "place": outcome.place,
            "seeds": outcome.seeds,
            "within_bounds": outcome.within_bounds(),
            "kinds": json_kinds(&outcome.tallies()),
            "rows": rows.collect::<Vec<_>>(),
            "parameters": parameters,
            "fitted_parameters": outcome.fitted_parameters(),
            "independent_published_values": outcome.independent_values(),
            "score": outcome.score(),
            "as_committed": outcome.as_committed,
            "same_for_all_seeds": outcome.rows.iter().filter(|row| row.is_the_same()).count(),
            "says": outcome.says(),
        })
    });
    let experiments: Vec<Value> = experiments.collect();
    let all = tallies(outcomes.iter().flat_map(|outcome| &outcome.rows));
    json!({
        "summary": {
            "headline": headline(outcomes),
            "kinds": json_kinds(&all),
            "as_committed": as_committed(outcomes).map(|all| json!({
                "rows": all.rows,
                "within": all.within,
                "today_within": all.today_within,
                "fitted_since": all.fitted_since,
            })),
        },
        "experiments": experiments,
    })
}

fn json_row(row: &Row, name: &str, why: Option<&str>) -> Value {
    let verdict = row.verdict();
    json!({
        "row": name,
        "unit": row.unit,
        "kind": row.kind(),
        "published": row.published(),
        "sentence": row.sentence(),
        "follows": row.follows_from().map(|from| json!({ "value": row.compared(), "from": from })),
        "low": row.range().low,
        "high": row.range().high,
        "measured": row.measured(),
        "min": row.min(),
        "max": row.max(),
        "values": row.values(),
        "ratio": row.ratio(),
        "within": match verdict {
            Verdict::Within => Some(true),
            Verdict::Outside => Some(false),
            Verdict::NotJudged(_) => None,
        },
        "verdict": match verdict {
            Verdict::Within => "within".to_owned(),
            Verdict::Outside => "outside".to_owned(),
            Verdict::NotJudged(why) => format!("not judged: {why}"),
        },
        "why": why,
    })
}

fn json_kinds(tallies: &[Tally]) -> Value {
    let one = |t: &Tally| {
        let counts = json!({ "rows": t.rows, "judged": t.judged, "within": t.within });
        (t.kind.name().to_owned(), counts)
    };
    Value::Object(tallies.iter().map(one).collect())
}

/// The one sentence that sums up: how many predictions came out. Where studies were held out it
/// says beside it how what was committed of them came out, which no later change of the engine
/// makes better or worse, and how the same rows come out today.
#[must_use]
pub fn headline(outcomes: &[Outcome]) -> String {
    let all = tallies(outcomes.iter().flat_map(|outcome| &outcome.rows));
    let text = match all.iter().find(|tally| tally.kind == Kind::Predicted) {
        Some(Tally { judged: 0, .. }) | None => "No predicted row is judged here".to_owned(),
        Some(t) => format!("{} of {} predicted rows are within their bounds", t.within, t.judged),
    };
    let of_held_out = match outcomes {
        [_] => "",
        _ => "of the studies that were held out, ",
    };
    match as_committed(outcomes) {
        Some(all) => format!(
            "{text}; {of_held_out}as they were committed, {} of {rows} are within, and {} of the \
             same {rows} with the engine of today{}.",
            all.within,
            all.today_within,
            match all.fitted_since {
                0 => String::new(),
                since => format!(" ({since} of them are called fitted since)"),
            },
            rows = all.rows,
        ),
        None => format!("{text}."),
    }
}

/// How the predictions of all studies that were held out came out; the scores are each study's.
fn as_committed(outcomes: &[Outcome]) -> Option<AsCommitted> {
    let all = outcomes.iter().filter_map(|outcome| outcome.as_committed.as_ref());
    all.cloned().reduce(|a, b| AsCommitted {
        rows: a.rows + b.rows,
        within: a.within + b.within,
        score: None,
        today_within: a.today_within + b.today_within,
        today: None,
        fitted_since: a.fitted_since + b.fitted_since,
    })
}

/// Where seeds decide nothing: how many rows have the same value with each of them. Nothing is said
/// of one seed.
pub(crate) fn sameness(outcome: &Outcome) -> Option<String> {
    let several: Vec<&Row> = outcome.rows.iter().filter(|row| row.values().len() > 1).collect();
    let same = several.iter().filter(|row| row.is_the_same()).count();
    let predicted = || several.iter().filter(|row| row.kind() == Kind::Predicted);
    let of_predicted = predicted().filter(|row| row.is_the_same()).count();
    let kinds = match predicted().count() {
        0 => String::new(),
        all => format!(", of the predicted ones {of_predicted} of {all}"),
    };
    let text = "no start condition decides them, and their range shows nothing.";
    match (same, several.len()) {
        (0, _) => None,
        (same, all) if same == all => {
            Some(format!("The same for all seeds: all {all} rows: {text}"))
        }
        (same, all) => Some(format!("The same for all seeds: {same} of {all} rows{kinds}: {text}")),
    }
}

/// What is published, in a cell of a table.
pub(crate) fn published(row: &Row) -> String {
    match row.published() {
        None => "-".to_owned(),
        Some(Published::Figure(published)) => figure(*published),
        Some(Published::Range(low, high)) => format!("{}..{}", figure(*low), figure(*high)),
        Some(Published::Histogram(buckets)) => {
            let counts: u32 = buckets.iter().map(|bucket| bucket.1).sum();
            format!("{counts} in {} buckets", buckets.len())
        }
    }
}

/// Where it has to be, in a cell of a table.
pub(crate) fn bounds(row: &Row) -> String {
    let range = row.range();
    let ends = match (range.low, range.high) {
        (Some(low), Some(high)) if low == high => figure(low),
        (Some(low), Some(high)) => format!("{}..{}", figure(low), figure(high)),
        (Some(low), None) => format!(">= {}", figure(low)),
        (None, Some(high)) => format!("<= {}", figure(high)),
        (None, None) => "-".to_owned(),
    };
    // Where there is no published value for them to be of.
    match row.follows_from() {
        Some(from) => format!("{ends}, by {from}"),
        None => ends,
    }
}

/// The least and the most that a seed gave, in a cell of a table.
pub(crate) fn spread(row: &Row) -> String {
    match row.values() {
        [] | [_] => "-".to_owned(),
        values if values.iter().all(|v| v.is_nan()) => "-".to_owned(),
        _ => format!("{}..{}", figure(row.min()), figure(row.max())),
    }
}

/// What every seed gave, in a cell of a table.
pub(crate) fn values(row: &Row) -> String {
    row.values().iter().map(|value| figure(*value)).collect::<Vec<_>>().join(" ")
}

/// Why rows are not judged, and for how many that is the reason.
pub(crate) fn reasons(outcome: &Outcome) -> Option<String> {
    let mut reasons = BTreeMap::<&str, usize>::new();
    for row in &outcome.rows {
        if let Verdict::NotJudged(why) = row.verdict() {
            *reasons.entry(why).or_default() += 1;
        }
    }
    let one = |(why, count): (&str, usize)| format!("{why} ({count})");
    let all: Vec<String> = reasons.into_iter().map(one).collect();
    (!all.is_empty()).then(|| format!("Not judged: {}.", all.join("; ")))
}

/// The heading of what is known of rows that are outside.
pub(crate) const DIFFERS: &str = "Where it differs from the study";
/// Rows that are named, at most, of those that are outside for the same reason.
const NAMED: usize = 8;

/// Rows that are outside, each with how far: by its ratio, or where there is none by its value.
pub(crate) fn outside(rows: &[&Row]) -> String {
    let named = |row: &&Row| match row.ratio() {
        Some(ratio) if row.follows_from().is_some() => {
            format!("{} ({ratio:.2} of what follows from the study)", row.row)
        }
        Some(ratio) => format!("{} ({ratio:.2} of the published)", row.row),
        None => format!("{} ({})", row.row, figure(row.measured())),
    };
    let mut text = rows.iter().take(NAMED).map(named).collect::<Vec<_>>().join("; ");
    if let Some(more) = rows.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text += &format!("; {more} more rows");
    }
    text
}

/// The number of parameters against what there is to choose them by.
pub(crate) fn freedom(outcome: &Outcome) -> String {
    format!(
        "{} in all, {} of them fitted, against {} independent published values.",
        outcome.parameters.len(),
        outcome.fitted_parameters(),
        outcome.independent_values(),
    )
}

/// What is said of a row, in a cell of a table.
pub(crate) fn verdict(row: &Row) -> &'static str {
    match row.verdict() {
        Verdict::Within => "within",
        Verdict::Outside => "OUTSIDE",
        Verdict::NotJudged(_) => "-",
    }
}

/// Round numbers from `low` to `high`, some four to eight of them.
pub(crate) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let span = (high - low).max(f64::MIN_POSITIVE);
    let rough = span / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|part| part * power)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// [`ticks`] of an axis on which these stand; whole ones, where there is nothing between them.
pub(crate) fn ticks_of(xs: impl IntoIterator<Item = f64>, low: f64, high: f64) -> Vec<f64> {
    let is_whole = |x: f64| (x - x.round()).abs() < 1e-9;
    let all = ticks(low, high);
    match xs.into_iter().all(is_whole) {
        true => all.into_iter().filter(|tick| is_whole(*tick)).collect(),
        false => all,
    }
}

/// Powers of two (or of ten, where the span is large) from `low` to `high`, at most about ten.
pub(crate) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (low, high) = (low.max(1e-9), high.max(1e-9));
    let doublings = (high / low).log2().max(1.0);
    let every = (doublings / 10.0).ceil().max(1.0) as i32;
    let first = low.log2().ceil() as i32;
    let last = (high.log2() + 1e-9).floor() as i32;
    (first..=last).filter(|n| (n - first) % every == 0).map(|n| 2f64.powi(n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Chart, Series};
    use crate::parameter::{Origin, Parameter};
    use crate::row::{Bound, Range};

    pub(super) fn outcome() -> Outcome {
        let part = Bound::Within(0.1);
        let points = vec![(16.0, 2.5), (64.0, 8.9), (1024.0, 46.0)];
        let bars = vec![(100.0, 3.0), (120.0, 1.0)];
        let chart = |title: &str, x_log, bars, points: Vec<(f64, f64)>| Chart {
            title: title.to_owned(),
            x: "size <KiB>".to_owned(),
            y: "MB/s".to_owned(),
            x_log,
            bars,
            series: vec![
                Series { name: "measured".to_owned(), points: points.clone() },
                Series { name: "study & more".to_owned(), points },
            ],
        };
        Outcome {
            seeds: vec![1],
            rows: vec![
                Row::predicted("16 KiB", "MB/s", 2.0, part, 2.1),
                Row::predicted("64 KiB", "MB/s", 8.0, part, 12.0),
                Row::fitted("8 MiB", "MB/s", 59.0, part, 61.0),
                Row::shape(Kind::Predicted, "shape", &[(100.0, 3), (120.0, 1)], 0.5, 0.25),
                Row::goal("goal", "", Range::at_least(1.0), 2.0),
                Row::own("extra", "MB/s", 0.25),
            ],
            parameters: vec![Parameter::new("rate", 64.0, "MB/s", Origin::Fitted("8 MiB"))],
            charts: vec![
                chart("Rates", true, false, points),
                chart("Distribution", false, true, bars),
            ],
            texts: vec![("More".to_owned(), "a < b\n".to_owned())],
            meaning: |_| "Use 64 KiB & more.".to_owned(),
            ..Outcome::new("raw-sweep", "simulated: <disk>".to_owned())
        }
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let all = json(&[outcome()]);
        let rows = &all["experiments"][0]["rows"];
        let expected = json!({
            "row": "16 KiB", "unit": "MB/s", "kind": "predicted", "published": 2.0,
            "sentence": null, "follows": null, "low": 1.8, "high": 2.2, "measured": 2.1,
            "min": 2.1, "max": 2.1, "values": [2.1], "ratio": 1.05, "within": true,
            "verdict": "within", "why": null,
        });
        assert_eq!(rows[0], expected);
        assert_eq!((&rows[1]["within"], &rows[1]["verdict"]), (&json!(false), &json!("outside")));
        assert!(rows[1]["why"].is_string());
        assert_eq!(rows[3]["published"], json!([[100.0, 3], [120.0, 1]]));
        let expected = json!({
            "row": "extra", "unit": "MB/s", "kind": "own", "published": null, "sentence": null,
            "follows": null, "low": null, "high": null, "measured": 0.25, "min": 0.25, "max": 0.25,
            "values": [0.25], "ratio": null, "within": null,
            "verdict": "not judged: no goal", "why": null,
        });
        assert_eq!(rows[5], expected);
        let experiment = &all["experiments"][0];
        assert_eq!(experiment["within_bounds"], json!(false));
        assert_eq!(experiment["fitted_parameters"], json!(1));
        assert_eq!(experiment["independent_published_values"], json!(4));
        assert_eq!(experiment["parameters"][0]["origin"], json!("fitted by: 8 MiB"));
        let score = &experiment["score"];
        assert_eq!((&score["rows"], &score["free_parameters"]), (&json!(2), &json!(1)));
        assert_eq!(score["worst"], json!("64 KiB"));
        let headline = "2 of 3 predicted rows are within their bounds.";
        assert_eq!(all["summary"]["headline"], json!(headline));
        let own = json!({ "rows": 2, "judged": 1, "within": 1 });
        assert_eq!(all["summary"]["kinds"]["own"], own);
    }

    #[test]
    fn rows_that_only_their_units_tell_apart_have_them_in_their_names() {
        let rows = vec![Row::own("L0", "I/Os", 6176.0), Row::own("L0", "KiB", 49408.0)];
        let rows = &json(&[Outcome { rows, ..outcome() }])["experiments"][0]["rows"];
        assert_eq!((&rows[0]["row"], &rows[1]["row"]), (&json!("L0, I/Os"), &json!("L0, KiB")));
    }

    #[test]
    fn what_follows_is_not_shown_as_published() {
        let row = Row::predicted("2 units", "MB/s", 240.0, Bound::Within(0.1), 240.0);
        let range = Row::predicted("gain", "MB/s", 20.0, Bound::RangeTo(50.0), 100.0);
        let rows = vec![row.follows("210 + 30"), range];
        let cells = |of: fn(&Row) -> String| rows.iter().map(of).collect::<Vec<_>>();
        assert_eq!(cells(published), ["-", "20..50"]);
        assert_eq!(cells(bounds), ["216..264, by 210 + 30", "20..50"]);
        let rows = &json(&[Outcome { rows, ..outcome() }])["experiments"][0]["rows"];
        let follows = json!({ "value": 240.0, "from": "210 + 30" });
        assert_eq!((&rows[0]["published"], &rows[0]["follows"]), (&Value::Null, &follows));
        assert_eq!((&rows[0]["ratio"], &rows[0]["low"]), (&json!(1.0), &json!(216.0)));
        assert_eq!((&rows[1]["published"], &rows[1]["ratio"]), (&json!([20.0, 50.0]), &json!(2.0)));
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.0, 60.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks_of([1.0, 2.0], 1.0, 2.0), [1.0, 2.0]);
        assert_eq!(ticks_of([1.0, 1.5, 2.0], 1.0, 2.0).len(), 6);
        assert_eq!(log_ticks(16.0, 128.0), [16.0, 32.0, 64.0, 128.0]);
        let many = log_ticks(1.0, 1e9);
        assert!((5..=11).contains(&many.len()), "{many:?}");
        assert!(ticks(5.0, 5.0).len() < 10);
    }

    #[test]
    fn a_page_is_whole_and_escapes_what_it_shows() {
        let page = page(&[outcome()], "made & shown");
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        for piece in [
            "simulated: &lt;disk&gt;",
            "study &amp; more",
            "size &lt;KiB&gt;",
            "<svg",
            "predicted",
            "1.80..2.20",
            "2 of 3 predicted rows",
            "fitted by: 8 MiB",
            "1 in all, 1 of them fitted, against 4",
            "64 KiB (1.50 of the published).</span>",
        ] {
            assert!(page.contains(piece), "{piece}");
        }
        for foreign in ["<script", "http://", "https://", "url(", "@import"] {
            let page = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("NaN"));
    }

    #[test]
    fn text_has_the_table_the_chart_and_the_sentence() {
        let text = text(&outcome(), 80);
        for piece in [
            "16 KiB",
            "1.80..2.20",
            "within",
            "OUTSIDE",
            "Use 64 KiB & more.",
            "o measured",
            "4 in 2 buckets",
            "2 of 3 predicted rows are within their bounds.",
            "Not judged: no goal (1).",
            "\nWhere it differs from the study\n- 64 KiB (1.50 of the published). ",
            "fitted by: 8 MiB",
        ] {
            assert!(text.contains(piece), "{piece} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let mut three = outcome();
        three.seeds = vec![1, 2, 3];
        three.rows.truncate(1);
        for value in [2.0, 2.3] {
            three.rows[0].join(&Row::predicted("16 KiB", "MB/s", 2.0, Bound::AtLeast, value));
        }
        let text = super::text(&three, 80);
        for piece in ["seeds 1 2 3", "2.10 2 2.30", "2..2.30", "OUTSIDE"] {
            assert!(text.contains(piece), "{piece} in\n{text}");
        }
    }
}
