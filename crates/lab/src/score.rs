//! How far predictions are from what was published, in a few numbers that do not depend on bounds.

use crate::outcome::{Outcome, Score};
use crate::row::{Kind, Row, Verdict};
use std::collections::BTreeMap;

impl Outcome {
    /// How far its predictions are from what was published: of a study that was held out as they
    /// were committed.
    #[must_use]
    pub fn score(&self) -> Option<Score> {
        match &self.as_committed {
            Some(all) => all.score.clone(),
            None => Score::of(self),
        }
    }
}

/// What is predicted of a row, and what was published.
pub(crate) struct Compared<'a> {
    row: &'a Row,
    predicted: f64,
    published: f64,
}

impl Compared<'_> {
    fn ratio(&self) -> f64 {
        self.predicted / self.published
    }
}

/// This prediction of a row, where it counts.
pub(crate) fn compared(row: &Row, predicted: f64) -> Option<Compared<'_>> {
    let published = row.reference_for(predicted).filter(|published| *published > 0.0)?;
    let range = row.range();
    // What has to be beyond a number is not near it.
    let near = range.low.is_some() && range.high.is_some();
    let judged = !matches!(row.verdict(), Verdict::NotJudged(_));
    (near && judged).then_some(Compared { row, predicted, published })
}

impl Score {
    /// That of an outcome's predicted rows, if it has some that count.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let predicted = outcome.rows.iter().filter(|row| row.kind() == Kind::Predicted);
        let all: Vec<_> = predicted.filter_map(|row| compared(row, row.measured())).collect();
        Self::over(&all, outcome)
    }

    /// That of these rows of an outcome.
    pub(crate) fn over(all: &[Compared<'_>], outcome: &Outcome) -> Option<Self> {
        let mut apart: Vec<(f64, &Compared<'_>)> =
            all.iter().map(|one| (one.ratio().ln().abs(), one)).collect();
        apart.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (worst_ln, worst) = *apart.last()?;
        let middle = apart.len() / 2;
        let median_ln = match apart.len() % 2 {
            0 => f64::midpoint(apart[middle - 1].0, apart[middle].0),
            _ => apart[middle].0,
        };
        let free = outcome.parameters.iter().filter(|p| p.origin.is_free());
        Some(Self {
            rows: all.len(),
            free_parameters: free.count(),
            median_ln,
            worst: worst.row.row.clone(),
            worst_ratio: worst.ratio(),
            worst_ln: worst_ln.is_finite().then_some(worst_ln),
            rank_correlation: rank_correlation(all),
        })
    }
}

fn rank_correlation(rows: &[Compared<'_>]) -> Option<f64> {
    let mut units: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for one in rows {
        let (predicted, published) = units.entry(one.row.unit).or_default();
        predicted.push(one.predicted);
        published.push(one.published);
    }
    let (mut both, mut of_predicted, mut of_published) = (0.0, 0.0, 0.0);
    for (predicted, published) in units.values() {
        for (a, b) in ranks(predicted).into_iter().zip(ranks(published)) {
            both += a * b;
            of_predicted += a * a;
            of_published += b * b;
        }
    }
    let product: f64 = of_predicted * of_published;
    (product > 0.0).then(|| both / product.sqrt())
}

/// The rank of each value, less the mean of all ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let of = |value: &f64| {
        let below = values.iter().filter(|v| v.total_cmp(value).is_lt()).count();
        let above = values.iter().filter(|v| v.total_cmp(value).is_gt()).count();
        (below as f64 - above as f64) / 2.0
    };
    values.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Bound;

    #[test]
    fn a_score_counts_what_is_near_and_orders_within_units() {
        let row = |name: &str, unit, published, predicted| {
            Row::predicted(name, unit, published, Bound::Within(0.1), predicted)
        };
        let rows = vec![
            row("a", "ms", 10.0, 11.0),
            row("b", "ms", 20.0, 20.0),
            row("c", "ms", 30.0, 15.0),
            row("d", "/s", 1.0, 1.0),
            Row::predicted("end", "ms", 1.0, Bound::AtLeast, 90.0),
            Row::fitted("fitted", "ms", 1.0, Bound::Within(0.1), 90.0),
        ];
        let mut outcome = Outcome { rows, ..Outcome::new("x", String::new()) };
        let score = outcome.score().expect("a score");
        assert_eq!((score.rows, score.worst.as_str()), (4, "c"));
        assert!((score.median_ln - 1.1_f64.ln() / 2.0).abs() < 1e-9);
        assert_eq!(score.worst_ln, Some(2_f64.ln()));
        // Ranks 1, 2 and 3 of what was published came out as 1, 3 and 2.
        assert!((score.rank_correlation.expect("an order") - 0.5).abs() < 1e-9);
        // Of two that were predicted equal, each has the mean of their ranks.
        outcome.rows.truncate(2);
        outcome.rows.push(row("e", "ms", 30.0, 20.0));
        let ties = outcome.score().and_then(|s| s.rank_correlation).expect("an order");
        assert!((ties - 1.5 / 3_f64.sqrt()).abs() < 1e-9, "{ties}");
        outcome.rows = vec![row("a", "ms", 10.0, 11.0), row("b", "ms", 10.0, 9.0)];
        assert_eq!(outcome.score().expect("a score").rank_correlation, None);
        outcome.rows = vec![row("none", "ms", 3.0, 0.0)];
        assert_eq!(outcome.score().expect("a score").worst_ln, None);
        assert_eq!(outcome.elsewhere().score(), None);
    }
}
