//! How far predictions are from what was published, in a few numbers that do not depend on bounds.

use crate::experiment::Outcome;
use crate::parameter::Origin;
use crate::row::{Kind, Row, Verdict};
use serde::Serialize;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Predicted rows that a number was published of, and that are to be near it.
    pub rows: usize,
    /// Parameters that neither the study nor a data sheet says.
    pub free_parameters: usize,
    /// The median of |ln(predicted / measured)|: 0.1 for a tenth.
    pub median_ln: f64,
    /// The row that is farthest away.
    pub worst: String,
    /// Its |ln(predicted / measured)|; none where zero was predicted.
    pub worst_ln: Option<f64>,
    /// Of all pairs of rows with the same unit, the part whose order is right less the part whose
    /// order is wrong (Kendall's).
    pub rank_correlation: f64,
}

impl Score {
    /// That of an outcome, if it has rows that count.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Option<Self> {
        let counted: Vec<(&Row, f64)> = outcome.rows.iter().filter_map(counted).collect();
        let mut apart: Vec<(f64, &Row)> = counted
            .iter()
            .map(|(row, published)| ((row.measured() / published).ln().abs(), *row))
            .collect();
        apart.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (worst_ln, worst) = *apart.last()?;
        let middle = apart.len() / 2;
        let median_ln = match apart.len() % 2 {
            0 => f64::midpoint(apart[middle - 1].0, apart[middle].0),
            _ => apart[middle].0,
        };
        let free = |origin: Origin| matches!(origin, Origin::Fitted(_) | Origin::Assumed);
        Some(Self {
            rows: counted.len(),
            free_parameters: outcome.parameters.iter().filter(|p| free(p.origin)).count(),
            median_ln,
            worst: worst.row.clone(),
            worst_ln: worst_ln.is_finite().then_some(worst_ln),
            rank_correlation: rank_correlation(&counted),
        })
    }
}

/// A row that counts, with what was published.
fn counted(row: &Row) -> Option<(&Row, f64)> {
    let published = row.published()?.figure().filter(|figure| *figure > 0.0)?;
    let range = row.range();
    // What has to be beyond a number is not near it.
    let near = range.low.is_some() && range.high.is_some();
    let judged = !matches!(row.verdict(), Verdict::NotJudged(_));
    (row.kind() == Kind::Predicted && near && judged).then_some((row, published))
}

fn rank_correlation(rows: &[(&Row, f64)]) -> f64 {
    let (mut right, mut wrong) = (0, 0);
    for (n, (a, of_a)) in rows.iter().enumerate() {
        for (b, of_b) in rows[n + 1..].iter().filter(|(b, _)| b.unit == a.unit) {
            let product = (a.measured() - b.measured()) * (of_a - of_b);
            right += u32::from(product > 0.0);
            wrong += u32::from(product < 0.0);
        }
    }
    let all = f64::from(right + wrong).max(1.0);
    (f64::from(right) - f64::from(wrong)) / all
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
        // Two pairs of three are in order.
        assert!((score.rank_correlation - 1.0 / 3.0).abs() < 1e-9);
        outcome.rows = vec![row("none", "ms", 3.0, 0.0)];
        assert_eq!(outcome.score().expect("a score").worst_ln, None);
        assert_eq!(outcome.elsewhere().score(), None);
    }
}
