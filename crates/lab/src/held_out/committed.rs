//! Predictions as they were committed, before they were compared.
//!
//! A row counts as predicted as long as it is what was committed. The engine goes on changing after
//! a comparison, and a part of the study's work is another experiment: a row that differs by more
//! than [`DRIFT`] is no prediction, and counts as fitted. Compared are the seeds that were
//! committed: of some studies those are fewer than run today.
//!
//! What leaves the predictions in this way would make those that remain look better than what was
//! predicted. So all that was committed is judged by the same bounds ([`AsCommitted`]), and is said
//! beside every count of predicted rows.

use crate::outcome::{AsCommitted, Outcome, Score};
use crate::row::{Kind, Row, Verdict};
use crate::score::compared;
use serde_json::Value;

/// How far a row may be from the range that was committed: a part of its ends.
const DRIFT: f64 = 0.02;

/// The file of predictions of an experiment.
fn file(experiment: &str) -> Option<&'static str> {
    Some(match experiment {
        "h1-synchronous-writes" => include_str!("../../../../docs/lab/holdout/h1.json"),
        "h2-layouts" => include_str!("../../../../docs/lab/holdout/h2.json"),
        "h3-latency-lanes" => include_str!("../../../../docs/lab/holdout/h3.json"),
        "h4-mirror-reads" => include_str!("../../../../docs/lab/holdout/h4.json"),
        "h5-one-mirror" => include_str!("../../../../docs/lab/holdout/h5.json"),
        "h6-throttle-curve" => include_str!("../../../../docs/lab/holdout/h6.json"),
        "h7-unequal-vdevs" => include_str!("../../../../docs/lab/holdout/h7.json"),
        "h8-scan-order" => include_str!("../../../../docs/lab/holdout/h8.json"),
        _ => return None,
    })
}

/// What was committed of an experiment.
struct Committed(Value);

impl Committed {
    fn of(experiment: &str) -> Option<Self> {
        serde_json::from_str(file(experiment)?).ok().map(Self)
    }

    /// What was committed of a row: the median, the least and the most that a seed gave.
    fn of_row(&self, row: &Row) -> Option<[f64; 3]> {
        let mut rows = self.0["rows"].as_array()?.iter();
        let found = rows.find(|r| r["row"] == row.row.as_str() && r["unit"] == row.unit)?;
        Some([found["predicted"].as_f64()?, found["min"].as_f64()?, found["max"].as_f64()?])
    }

    /// What the seeds that were committed give today; what all give, if none of those ran.
    fn values(&self, row: &Row, seeds: &[u64]) -> Vec<f64> {
        let committed = |seed: &u64| {
            self.0["seeds"].as_array().is_some_and(|all| all.iter().any(|s| s == seed))
        };
        let of_seeds = row.values().iter().zip(seeds);
        let same: Vec<f64> = of_seeds.filter(|(_, s)| committed(s)).map(|(v, _)| *v).collect();
        if same.is_empty() { row.values().to_vec() } else { same }
    }

    fn still_says(&self, row: &Row, seeds: &[u64]) -> bool {
        self.of_row(row).is_some_and(|[_, min, max]| {
            let near = min - DRIFT * min.abs()..=max + DRIFT * max.abs();
            self.values(row, seeds).iter().all(|value| near.contains(value))
        })
    }
}

impl Committed {
    /// Whether a row that was committed is a prediction still.
    fn is_prediction(&self, row: &Row, outcome: &Outcome) -> bool {
        row.kind() == Kind::Predicted && self.still_says(row, &outcome.seeds)
    }

    /// How what was committed comes out, by the bounds of today's rows. Of another machine's rows
    /// none is judged, and nothing is said.
    fn judged(&self, outcome: &Outcome) -> Option<AsCommitted> {
        let is_judged = |row: &&Row| !matches!(row.verdict(), Verdict::NotJudged(_));
        let was = |row: &&Row| row.kind() == Kind::Predicted || row.was_predicted();
        let predicted = outcome.rows.iter().filter(was).filter(is_judged);
        let all: Vec<(&Row, [f64; 3])> =
            predicted.filter_map(|row| Some((row, self.of_row(row)?))).collect();
        let within = |(row, [_, min, max]): &&(&Row, [f64; 3])| {
            row.range().holds(*min) && row.range().holds(*max)
        };
        let then = all.iter().filter_map(|(row, [median, ..])| compared(row, *median));
        let today = all.iter().filter_map(|(row, _)| compared(row, row.measured()));
        (!all.is_empty()).then(|| AsCommitted {
            rows: all.len(),
            within: all.iter().filter(within).count(),
            score: Score::over(&then.collect::<Vec<_>>(), outcome),
            today_within: all.iter().filter(|(row, _)| !row.misses()).count(),
            today: Score::over(&today.collect::<Vec<_>>(), outcome),
            fitted_since: all.iter().filter(|(row, _)| !self.is_prediction(row, outcome)).count(),
        })
    }
}

/// Says how what was committed comes out, and makes what differs from it a fitted row.
pub(crate) fn only_what_was_committed(outcome: &mut Outcome) {
    let Some(committed) = Committed::of(outcome.experiment) else { return };
    outcome.as_committed = committed.judged(outcome).filter(|_| !outcome.is_part);
    for row in outcome.rows.iter_mut().filter(|row| row.kind() == Kind::Predicted) {
        if !committed.still_says(row, &outcome.seeds) {
            row.is_no_prediction();
        }
    }
}

/// How many rows with a published value differ from what was committed, and of how many.
pub(super) fn moved(outcome: &Outcome) -> (usize, usize) {
    let Some(committed) = Committed::of(outcome.experiment) else { return (0, 0) };
    let rows = || outcome.rows.iter().filter(|row| row.compared().is_some());
    let moved = rows().filter(|row| !committed.still_says(row, &outcome.seeds));
    (moved.count(), rows().count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Bound;

    fn outcome(seeds: &[u64], values: [f64; 2]) -> Outcome {
        let one = |value| {
            Row::predicted("small vdev: allocated", "MiB", 56.7, Bound::Within(0.05), value)
        };
        let of = |value| Outcome {
            rows: vec![one(value)],
            ..Outcome::new("h7-unequal-vdevs", String::new())
        };
        let mut all = Outcome { seeds: seeds.to_vec(), ..of(values[0]) };
        all.join(of(values[1]));
        only_what_was_committed(&mut all);
        all
    }

    #[test]
    fn a_row_is_predicted_while_it_is_what_was_committed() {
        // Seeds 1 to 5 gave 44.18 MiB each.
        let kind = |seeds: &[u64], values| outcome(seeds, values).rows[0].kind();
        assert_eq!(kind(&[1, 2], [44.2, 44.9]), Kind::Predicted);
        assert_eq!(kind(&[1, 2], [44.2, 45.2]), Kind::Fitted);
        assert_eq!(kind(&[1, 2], [43.2, 44.2]), Kind::Fitted);
        // Another seed was not committed, and is not compared beside one that was.
        assert_eq!(kind(&[1, 9], [44.2, 56.0]), Kind::Predicted);
        assert_eq!(kind(&[8, 9], [44.2, 56.0]), Kind::Fitted);
        assert_eq!(moved(&outcome(&[1, 2], [44.2, 45.2])), (1, 1));
    }

    /// A prediction that failed does not leave the count when another value comes out since.
    #[test]
    fn what_was_committed_is_judged_whatever_comes_out_today() {
        let all = outcome(&[1, 2], [56.7, 56.7]);
        assert_eq!(all.rows[0].kind(), Kind::Fitted);
        assert!(!all.rows[0].misses());
        let then = all.as_committed.as_ref().expect("something was committed");
        assert_eq!((then.rows, then.within, then.today_within), (1, 0, 1));
        assert_eq!(then.fitted_since, 1);
        let score = all.score().expect("a score");
        assert!((score.worst_ratio - 44.18 / 56.7).abs() < 1e-3, "{score:?}");
        assert_eq!(then.today.as_ref().map(|score| score.median_ln), Some(0.0));
        let headline = crate::report::headline(&[all]);
        let end = "as they were committed, 0 of 1 are within, and 1 of the same 1 with the engine \
                   of today (1 of them are called fitted since).";
        assert!(headline.ends_with(end), "{headline}");
    }

    /// Nor does one that is called fitted because the repetition was mended.
    #[test]
    fn what_was_mended_stays_in_the_count_and_what_is_derived_was_never_in_it() {
        let near = Bound::Within(0.05);
        let row =
            |make: fn(&'static str, _, _, _, _) -> Row, name| make(name, "MiB", 56.7, near, 44.18);
        let rows = vec![
            row(Row::fitted, "small vdev: allocated").once_predicted(),
            row(Row::derived, "large vdev: allocated"),
        ];
        let mut all =
            Outcome { rows, seeds: vec![1], ..Outcome::new("h7-unequal-vdevs", String::new()) };
        only_what_was_committed(&mut all);
        let then = all.as_committed.as_ref().expect("something was committed");
        assert_eq!((then.rows, then.within, then.fitted_since), (1, 0, 1));
        let headline = crate::report::headline(&[all]);
        assert!(headline.starts_with("No predicted row is judged here; as they"), "{headline}");
    }

    #[test]
    fn what_was_not_committed_is_no_prediction() {
        let row = Row::predicted("another", "MiB", 1.0, Bound::Within(0.05), 1.0);
        let mut all = Outcome {
            rows: vec![row.clone()],
            seeds: vec![1],
            ..Outcome::new("h7-unequal-vdevs", String::new())
        };
        only_what_was_committed(&mut all);
        assert_eq!(all.rows[0].kind(), Kind::Fitted);
        let mut study = Outcome { rows: vec![row], ..Outcome::new("seek", String::new()) };
        only_what_was_committed(&mut study);
        assert_eq!(study.rows[0].kind(), Kind::Predicted);
    }
}
