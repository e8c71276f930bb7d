//! What an experiment gives: rows with the published figure beside the measured one, charts, the
//! parameters of its model, and what the rows say.
//!
//! An experiment runs once for each seed, and the rows of all runs are joined: what chance decides
//! (where platters and heads stand, where reads go, which request comes first) is in every row's
//! range.

use crate::parameter::{Origin, Parameter};
use crate::row::{ELSEWHERE, Kind, OF_A_PART, Row, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;

/// A line of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points, by rising x.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// What a study says of a whole line: one value, from the first to the last of these points.
    pub(crate) fn level(name: String, value: f64, along: &[(f64, f64)]) -> Self {
        let ends = along.first().into_iter().chain(along.last());
        Self { name, points: ends.map(|(x, _)| (*x, value)).collect() }
    }
}

/// A chart.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What the axes are, with units.
    pub x: String,
    /// The other axis.
    pub y: String,
    /// Whether x is logarithmic (sizes, thread counts).
    pub x_log: bool,
    /// Whether the points are bars of a histogram rather than a line.
    pub bars: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// How far predictions are from what was published, in a few numbers that do not depend on bounds.
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
    /// What was predicted of it over what was measured.
    pub worst_ratio: f64,
    /// Its |ln(predicted / measured)|; none where zero was predicted.
    pub worst_ln: Option<f64>,
    /// Whether the order is right: Spearman's, of the ranks among rows with the same unit, all
    /// units together. Equal values share the mean of their ranks. None where nothing has an order.
    pub rank_correlation: Option<f64>,
}

/// How the predictions of a study that was held out came out, as they were committed before they
/// were compared. No row leaves this count because the engine gives another value since, because
/// the repetition was mended, or because its study is found to have chosen a part of the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AsCommitted {
    /// Rows that were predictions, and are judged.
    pub rows: usize,
    /// Those of which all that was committed is within the bounds.
    pub within: usize,
    /// How far what was committed is from what was published.
    pub score: Option<Score>,
    /// How many of the same rows are within with the engine of today.
    pub today_within: usize,
    /// How far they are with the engine of today.
    pub today: Option<Score>,
    /// How many of the same rows are called fitted since.
    pub fitted_since: usize,
}

/// What an experiment found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name on the command line.
    pub experiment: &'static str,
    /// Where it ran, in words: "simulated: Hitachi DK32EJ36N", "disk0.img".
    pub place: String,
    /// The seeds it ran with.
    pub seeds: Vec<u64>,
    /// The figures.
    pub rows: Vec<Row>,
    /// What the model was given.
    pub parameters: Vec<Parameter>,
    /// Charts, of the first seed.
    pub charts: Vec<Chart>,
    /// Further tables or text as it would be printed on a terminal, by title; of the first seed.
    pub texts: Vec<(String, String)>,
    /// Of a study that was held out, how its predictions came out as they were committed.
    pub as_committed: Option<AsCommitted>,
    /// Whether it ran with a part of the study's work.
    pub is_part: bool,
    /// Says what the rows mean, from the rows alone.
    pub meaning: fn(&Self) -> String,
}

impl Outcome {
    /// Of no rows yet.
    #[must_use]
    pub fn new(experiment: &'static str, place: String) -> Self {
        Self {
            experiment,
            place,
            seeds: Vec::new(),
            rows: Vec::new(),
            parameters: Vec::new(),
            charts: Vec::new(),
            texts: Vec::new(),
            as_committed: None,
            is_part: false,
            meaning: |_| String::new(),
        }
    }

    /// Whether no judged row is outside its bounds.
    #[must_use]
    pub fn within_bounds(&self) -> bool {
        !self.rows.iter().any(Row::misses)
    }

    /// What the rows mean, in words.
    #[must_use]
    pub fn says(&self) -> String {
        (self.meaning)(self)
    }

    /// The row of this name, of any unit.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.row == name)
    }

    /// What is measured in the row of this name.
    #[must_use]
    pub fn measured(&self, name: &str) -> Option<f64> {
        self.row(name).map(Row::measured)
    }

    /// The same, on a machine that is not the study's: nothing is judged.
    #[must_use]
    pub fn elsewhere(mut self) -> Self {
        let shown = self.rows.into_iter().map(|row| row.not_judged(ELSEWHERE));
        self.rows = shown.collect();
        self
    }

    /// The same, with a part of the study's work: its predictions are of other values than those
    /// that the study printed, and are shown only.
    #[must_use]
    pub(crate) fn of_a_part(mut self) -> Self {
        let show = |row: Row| match row.kind() {
            Kind::Predicted => row.not_judged(OF_A_PART),
            _ => row,
        };
        self.rows = self.rows.into_iter().map(show).collect();
        self
    }

    /// How many rows of each kind there are, and how they came out.
    #[must_use]
    pub fn tallies(&self) -> Vec<Tally> {
        tallies(&self.rows)
    }

    /// Parameters that rows chose.
    #[must_use]
    pub fn fitted_parameters(&self) -> usize {
        let fitted = |p: &&Parameter| matches!(p.origin, Origin::Fitted(_));
        self.parameters.iter().filter(fitted).count()
    }

    /// Values that the study printed, of which none follows from the others or was given to the
    /// machine. One that it says once counts once, however many rows are compared with it.
    #[must_use]
    pub fn independent_values(&self) -> usize {
        let free = |row: &&Row| matches!(row.kind(), Kind::Predicted | Kind::Fitted);
        let printed = self.rows.iter().filter(free).filter(|row| row.published().is_some());
        let alone = printed.clone().filter(|row| row.sentence().is_none()).count();
        let shared: BTreeSet<&str> = printed.filter_map(Row::sentence).collect();
        alone + shared.len()
    }

    /// Adds what another seed gave.
    pub(crate) fn join(&mut self, other: Self) {
        self.seeds.extend(other.seeds);
        for row in other.rows {
            match self.rows.iter_mut().find(|mine| mine.is(&row)) {
                Some(mine) => mine.join(&row),
                None => self.rows.push(row),
            }
        }
    }
}

/// The rows of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The kind.
    pub kind: Kind,
    /// All of them.
    pub rows: usize,
    /// Those that are judged.
    pub judged: usize,
    /// Those that are within their bounds.
    pub within: usize,
}

/// Counts rows by kind.
#[must_use]
pub fn tallies<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Tally> {
    let none = |kind| Tally { kind, rows: 0, judged: 0, within: 0 };
    let mut out: Vec<Tally> = Kind::ALL.into_iter().map(none).collect();
    for row in rows {
        let Some(tally) = out.iter_mut().find(|tally| tally.kind == row.kind()) else { continue };
        tally.rows += 1;
        tally.judged += usize::from(!matches!(row.verdict(), Verdict::NotJudged(_)));
        tally.within += usize::from(row.verdict() == Verdict::Within);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Bound;

    fn of(seed: u64, rows: Vec<Row>) -> Outcome {
        Outcome { seeds: vec![seed], rows, ..Outcome::new("x", String::new()) }
    }

    #[test]
    fn the_rows_of_all_seeds_are_joined_by_name_and_unit() {
        let row = |name: &str, value| Row::predicted(name, "ms", 10.0, Bound::Within(0.1), value);
        let mut all = of(1, vec![row("a", 9.5), row("b", 10.0)]);
        all.join(of(2, vec![row("b", 20.0), row("a", 10.5), Row::own("a", "s", 1.0)]));
        assert_eq!(all.seeds, [1, 2]);
        assert_eq!(all.rows.len(), 3);
        assert_eq!(all.rows[0].values(), [9.5, 10.5]);
        assert!(!all.within_bounds() && all.rows[1].misses());
        let predicted = Tally { kind: Kind::Predicted, rows: 2, judged: 2, within: 1 };
        assert_eq!(all.tallies()[0], predicted);
        assert_eq!(all.independent_values(), 2);
        assert!(all.elsewhere().within_bounds());
    }

    #[test]
    fn a_value_that_is_printed_once_counts_once() {
        let row = |name: &str| Row::fitted(name, "MB/s", 66.0, Bound::Within(0.1), 66.0);
        let cached = |name: &str| row(name).of_sentence("66 MB/s with the cache");
        let rows = vec![cached("a"), cached("b"), row("c"), row("d").follows("a sum")];
        assert_eq!(of(1, rows).independent_values(), 2);
    }

    #[test]
    fn a_part_of_the_work_predicts_nothing_that_was_printed() {
        let near = Bound::Within(0.1);
        let rows = vec![
            Row::predicted("a", "ms", 10.0, near, 10.0),
            Row::derived("b", "ms", 10.0, near, 10.0),
        ];
        let part = of(1, rows).of_a_part();
        let judged: Vec<usize> = part.tallies().iter().map(|tally| tally.judged).collect();
        assert_eq!(judged, [0, 0, 1, 0, 0]);
        assert_eq!(part.rows[0].verdict(), Verdict::NotJudged(OF_A_PART));
    }
}
