//! What an experiment gives: rows with the published figure beside the measured one, charts, the
//! parameters of its model, and what the rows say.
//!
//! An experiment runs once for each seed, and the rows of all runs are joined: what chance decides
//! (where platters and heads stand, where reads go, which request comes first) is in every row's
//! range.

use crate::parameter::{Origin, Parameter};
use crate::row::{ELSEWHERE, Kind, Row, Verdict};
use serde::Serialize;

/// A line of a chart.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Points, by rising x.
    pub points: Vec<(f64, f64)>,
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

    /// Published values of which none follows from the others or was given to the machine.
    #[must_use]
    pub fn independent_values(&self) -> usize {
        let free = |row: &&Row| matches!(row.kind(), Kind::Predicted | Kind::Fitted);
        self.rows.iter().filter(free).count()
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
}
