//! Outcomes for people and programs: text for a terminal, one HTML page with charts, JSON.

mod html;
mod svg;
mod text;

pub use html::page;
pub use text::text;

use crate::experiment::{Outcome, Row};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `{"experiments": [{"experiment", "within_bounds", "rows": [{"row", "published", "measured",
/// "ratio"}]}]}`; what the study does not have is null. Rows that only their units tell apart have
/// them in their names.
#[must_use]
pub fn json(outcomes: &[Outcome]) -> Value {
    let experiments = outcomes.iter().map(|outcome| {
        let mut named = BTreeMap::<&str, usize>::new();
        outcome.rows.iter().for_each(|row| *named.entry(&row.row).or_default() += 1);
        let name = |row: &Row| match named.get(row.row.as_str()) {
            Some(2..) => format!("{}, {}", row.row, row.unit),
            _ => row.row.clone(),
        };
        let rows = outcome.rows.iter().map(|row| {
            json!({
                "row": name(row),
                "published": row.published,
                "measured": row.measured,
                "ratio": row.ratio(),
            })
        });
        json!({
            "experiment": outcome.experiment,
            "within_bounds": outcome.within_bounds(),
            "rows": rows.collect::<Vec<_>>(),
        })
    });
    json!({ "experiments": experiments.collect::<Vec<_>>() })
}

/// A figure with about four digits.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e15 || size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// What is said of a row: within its bound, outside, or not judged.
pub(crate) fn verdict(row: &Row) -> &'static str {
    use crate::experiment::Bound;
    if row.published.is_none() || row.bound == Bound::Shown {
        "-"
    } else if row.holds() {
        "yes"
    } else {
        "NO"
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
    use crate::experiment::{Bound, Chart, Series};

    pub(super) fn outcome() -> Outcome {
        let row = |name: &str, published, measured, bound| Row {
            row: name.to_owned(),
            unit: "MB/s",
            published,
            measured,
            bound,
        };
        let part = Bound::Within { part: 0.1 };
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
            experiment: "raw-sweep",
            place: "simulated: <disk>".to_owned(),
            rows: vec![
                row("16 KiB", Some(2.0), 2.1, part),
                row("64 KiB", Some(8.0), 12.0, part),
                row("extra", None, 0.25, Bound::Shown),
            ],
            charts: vec![
                chart("Rates", true, false, points),
                chart("Distribution", false, true, bars),
            ],
            texts: vec![("More".to_owned(), "a < b\n".to_owned())],
            meaning: "Use 64 KiB & more.".to_owned(),
        }
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let expected = json!({"experiments": [{
            "experiment": "raw-sweep",
            "within_bounds": false,
            "rows": [
                {"row": "16 KiB", "published": 2.0, "measured": 2.1, "ratio": 1.05},
                {"row": "64 KiB", "published": 8.0, "measured": 12.0, "ratio": 1.5},
                {"row": "extra", "published": null, "measured": 0.25, "ratio": null},
            ],
        }]});
        assert_eq!(json(&[outcome()]), expected);
        // Two rows of one name cannot be told apart without their units.
        let mut two = outcome();
        two.rows = [("I/Os", 6176.0), ("KiB", 49408.0)]
            .map(|(unit, figure)| Row {
                row: "L0".to_owned(),
                unit,
                published: Some(figure),
                measured: figure,
                bound: Bound::Shown,
            })
            .into();
        let rows = &json(&[two])["experiments"][0]["rows"];
        assert_eq!((&rows[0]["row"], &rows[1]["row"]), (&json!("L0, I/Os"), &json!("L0, KiB")));
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.0, 60.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(log_ticks(16.0, 128.0), [16.0, 32.0, 64.0, 128.0]);
        let many = log_ticks(1.0, 1e9);
        assert!((5..=11).contains(&many.len()), "{many:?}");
        assert!(ticks(5.0, 5.0).len() < 10);
    }

    #[test]
    fn figures_have_four_digits_or_so() {
        let shown: Vec<String> =
            [16.0, 2.456, 47.123, 189.04, 12195.3, 0.0861].map(figure).into_iter().collect();
        assert_eq!(shown, ["16", "2.46", "47.12", "189.0", "12195", "0.086"]);
    }

    #[test]
    fn a_page_is_whole_and_escapes_what_it_shows() {
        let page = page(&[outcome()], "made & shown");
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        for piece in ["simulated: &lt;disk&gt;", "study &amp; more", "size &lt;KiB&gt;", "<svg"] {
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
        for piece in ["16 KiB", "1.05", "yes", "NO", "Use 64 KiB & more.", "o measured"] {
            assert!(text.contains(piece), "{piece} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
