//! A figure: what was published, what was measured, what kind of evidence it is, and within which
//! bounds it has to be.
//!
//! The kind says what agreement would show. A figure that a parameter was chosen by shows nothing
//! when it is met; one of which nothing was used does. So a row cannot be made without its kind:
//! there is a constructor for each, and only the four that are of the study take a published value.
//! A goal of ours has none. Of a histogram, the one constructor is told the kind.
//!
//! What is compared is not always what was published: that a second disk "gives 30 more" than the
//! 210 of one is a claim of 240, and 240 stands nowhere. Such a value is not shown as published
//! ([`Row::follows`]).

use crate::digits::figure;
use serde::Serialize;

/// What kind of evidence a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing of it was used to make the model.
    Predicted,
    /// A parameter was chosen by it; or it was predicted, and gives another value since.
    Fitted,
    /// Arithmetic from other rows.
    Derived,
    /// Given to the machine because the study says it.
    Input,
    /// A goal or a figure of ours; nothing was published.
    Own,
}

impl Kind {
    /// All of them, in the order of what they show.
    pub const ALL: [Self; 5] =
        [Self::Predicted, Self::Fitted, Self::Derived, Self::Input, Self::Own];

    /// Its name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Fitted => "fitted",
            Self::Derived => "derived",
            Self::Input => "input",
            Self::Own => "own",
        }
    }

    /// What it means, in words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Predicted => "nothing of it was used to make the model",
            Self::Fitted => "a parameter was chosen by it, or a prediction has changed since",
            Self::Derived => "arithmetic from other rows",
            Self::Input => "given to the machine because the study says it",
            Self::Own => "a goal or a figure of ours; nothing was published",
        }
    }
}

/// What a study printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Figure(f64),
    /// A range: "20 to 50".
    Range(f64, f64),
    /// How many values fell into each bucket, by its lower bound. What is measured is how far the
    /// shapes are apart.
    Histogram(Vec<(f64, u32)>),
}

impl Published {
    /// A number; of a range if `bound` says so.
    fn of(figure: f64, bound: Bound) -> Self {
        match bound {
            Bound::RangeTo(end) => Self::Range(figure, end),
            _ => Self::Figure(figure),
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn figure(&self) -> Option<f64> {
        match self {
            Self::Figure(figure) => Some(*figure),
            Self::Range(..) | Self::Histogram(_) => None,
        }
    }
}

/// Where a figure has to be, ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The lower end; none where it may be as low as it likes.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Range {
    /// From here on.
    #[must_use]
    pub fn at_least(low: f64) -> Self {
        Self { low: Some(low), high: None }
    }

    /// Up to here.
    #[must_use]
    pub fn at_most(high: f64) -> Self {
        Self { low: None, high: Some(high) }
    }

    /// Whether a value is in it. No number is in no range.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        !value.is_nan()
            && self.low.is_none_or(|low| value >= low)
            && self.high.is_none_or(|high| value <= high)
    }
}

/// How far a measured figure may be from the published one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No farther than this part of the published figure: 0.1 for a tenth.
    Within(f64),
    /// Within this part, or within the rounding of a figure that was printed cut off to an integer
    /// (a printed 2 means 2 to 3), where that is wider.
    WithinOrRounding(f64),
    /// Of a percentage of a whole: no farther than this many points, and never beyond 0 or 100.
    Points(f64),
    /// At least the published figure.
    AtLeast,
    /// At most the published figure.
    AtMost,
    /// Between these.
    Between(f64, f64),
    /// The study says a range, from the published figure to this: in it.
    RangeTo(f64),
}

impl Bound {
    /// The range that it means for a published figure.
    #[must_use]
    pub fn range(self, published: f64) -> Range {
        let near = |part: f64| (published - part * published.abs(), part * published.abs());
        let (low, high) = match self {
            Self::Within(part) => {
                let (low, reach) = near(part);
                (low, published + reach)
            }
            Self::WithinOrRounding(part) => {
                let (low, reach) = near(part);
                (low, published + reach.max(1.0))
            }
            Self::Points(points) => {
                ((published - points).max(0.0), (published + points).min(100.0))
            }
            Self::AtLeast => return Range::at_least(published),
            Self::AtMost => return Range::at_most(published),
            Self::Between(low, high) => (low, high),
            Self::RangeTo(high) => (published, high),
        };
        Range { low: Some(low), high: high.is_finite().then_some(high) }
    }
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every measured value is within the bounds.
    Within,
    /// One is not.
    Outside,
    /// It is shown only, and why.
    NotJudged(&'static str),
}

/// Why the rows of another machine are not judged.
pub(crate) const ELSEWHERE: &str = "not the study's machine";
/// Why a row is not that has no value: what it is of did not happen.
const NOTHING: &str = "nothing was measured";
/// Why predictions of a part of the work are not.
pub(crate) const OF_A_PART: &str = "a part of the study's work";
/// Why rows of ours without a goal are not.
const NO_GOAL: &str = "no goal";

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was measured: "1024 KiB", "16 KiB indirect, case 1: L1 I/Os".
    pub row: String,
    /// Its unit: "MB/s", "ms", "I/Os"; empty for a plain number.
    pub unit: &'static str,
    kind: Kind,
    /// What it is compared with: published, or following from what is.
    compared: Option<Published>,
    follows: Option<&'static str>,
    /// What the study says once, and several rows are compared with.
    sentence: Option<&'static str>,
    /// Whether it was a prediction when it was committed, and is none any more.
    once_predicted: bool,
    range: Range,
    values: Vec<f64>,
    not_judged: Option<&'static str>,
}

impl Row {
    fn of_study(
        kind: Kind,
        (row, unit): (impl Into<String>, &'static str),
        (published, range): (Published, Range),
        measured: f64,
    ) -> Self {
        let (row, compared, values) = (row.into(), Some(published), vec![measured]);
        let (follows, sentence, once_predicted, not_judged) = (None, None, false, None);
        Self {
            row,
            unit,
            kind,
            compared,
            follows,
            sentence,
            once_predicted,
            range,
            values,
            not_judged,
        }
    }

    /// What the machine was given because the study says it.
    #[must_use]
    pub fn input(
        row: impl Into<String>,
        unit: &'static str,
        published: f64,
        bound: Bound,
        measured: f64,
    ) -> Self {
        let study = (Published::of(published, bound), bound.range(published));
        Self::of_study(Kind::Input, (row, unit), study, measured)
    }

    /// What a parameter was chosen by.
    #[must_use]
    pub fn fitted(
        row: impl Into<String>,
        unit: &'static str,
        published: f64,
        bound: Bound,
        measured: f64,
    ) -> Self {
        let study = (Published::of(published, bound), bound.range(published));
        Self::of_study(Kind::Fitted, (row, unit), study, measured)
    }

    /// What the model says although nothing of it was used.
    #[must_use]
    pub fn predicted(
        row: impl Into<String>,
        unit: &'static str,
        published: f64,
        bound: Bound,
        measured: f64,
    ) -> Self {
        let study = (Published::of(published, bound), bound.range(published));
        Self::of_study(Kind::Predicted, (row, unit), study, measured)
    }

    /// What follows from other rows by arithmetic.
    #[must_use]
    pub fn derived(
        row: impl Into<String>,
        unit: &'static str,
        published: f64,
        bound: Bound,
        measured: f64,
    ) -> Self {
        let study = (Published::of(published, bound), bound.range(published));
        Self::of_study(Kind::Derived, (row, unit), study, measured)
    }

    /// How far a distribution is from a published one, at most `most`; of any kind but ours.
    #[must_use]
    pub fn shape(
        kind: Kind,
        row: impl Into<String>,
        published: &[(f64, u32)],
        most: f64,
        distance: f64,
    ) -> Self {
        let study = (Published::Histogram(published.to_vec()), Range::at_most(most));
        Self::of_study(kind, (row, "distance"), study, distance)
    }

    /// A goal of ours: where it has to be.
    #[must_use]
    pub fn goal(row: impl Into<String>, unit: &'static str, range: Range, measured: f64) -> Self {
        Self { range, not_judged: None, ..Self::own(row, unit, measured) }
    }

    /// A figure of ours that is only shown.
    #[must_use]
    pub fn own(row: impl Into<String>, unit: &'static str, measured: f64) -> Self {
        Self {
            row: row.into(),
            unit,
            kind: Kind::Own,
            compared: None,
            follows: None,
            sentence: None,
            once_predicted: false,
            range: Range::default(),
            values: vec![measured],
            not_judged: Some(NO_GOAL),
        }
    }

    /// The same row, whose value is not a published one: it follows from those like this.
    #[must_use]
    pub fn follows(self, from: &'static str) -> Self {
        Self { follows: Some(from), ..self }
    }

    /// The same row, whose value the study says once, of all rows with this sentence.
    #[must_use]
    pub fn of_sentence(self, sentence: &'static str) -> Self {
        Self { sentence: Some(sentence), ..self }
    }

    /// The same row, which was committed as a prediction, and is none any more.
    #[must_use]
    pub fn once_predicted(self) -> Self {
        Self { once_predicted: true, ..self }
    }

    /// The same row, shown and not judged.
    #[must_use]
    pub fn not_judged(mut self, why: &'static str) -> Self {
        self.not_judged.get_or_insert(why);
        self
    }

    /// The same row, judged where this holds.
    #[must_use]
    pub fn judged_if(self, judged: bool, why_not: &'static str) -> Self {
        if judged { self } else { self.not_judged(why_not) }
    }

    /// What kind of evidence it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether it was committed as a prediction, and is none any more.
    #[must_use]
    pub fn was_predicted(&self) -> bool {
        self.once_predicted
    }

    /// What the study printed; a row of ours has nothing.
    #[must_use]
    pub fn published(&self) -> Option<&Published> {
        self.compared.as_ref().filter(|_| self.follows.is_none())
    }

    /// What it is compared with: what the study printed, or what follows from that.
    #[must_use]
    pub fn compared(&self) -> Option<&Published> {
        self.compared.as_ref()
    }

    /// What the value that it is compared with follows from, if that was not published.
    #[must_use]
    pub fn follows_from(&self) -> Option<&'static str> {
        self.follows
    }

    /// The sentence of the study that it shares its value with other rows by.
    #[must_use]
    pub fn sentence(&self) -> Option<&'static str> {
        self.sentence
    }

    /// The number that it is compared with; of a range that was published, and where only a least
    /// or a most was, the nearest that agrees.
    #[must_use]
    pub fn reference(&self) -> Option<f64> {
        self.reference_for(self.measured())
    }

    /// The same for another value than the one that was measured.
    pub(crate) fn reference_for(&self, measured: f64) -> Option<f64> {
        let Range { low, high } = self.range;
        match *self.compared.as_ref()? {
            Published::Range(low, high) => Some(measured.max(low).min(high)),
            Published::Figure(figure) => match low.is_none() || high.is_none() {
                true if self.range.holds(measured) => Some(measured),
                _ => Some(figure),
            },
            Published::Histogram(_) => None,
        }
    }

    /// Where it has to be.
    #[must_use]
    pub fn range(&self) -> Range {
        self.range
    }

    /// What each seed gave.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The median of what the seeds gave.
    #[must_use]
    pub fn measured(&self) -> f64 {
        let mut values = self.values.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        }
    }

    /// The least that a seed gave.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The most that a seed gave.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Measured over [`Self::reference`]: 1 in a range that was published, and outside it over its
    /// nearest end. `None` where there is no number, or where zero was published.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let reference = self.reference().filter(|reference| *reference != 0.0)?;
        Some(self.measured() / reference).filter(|ratio| !ratio.is_nan())
    }

    /// What is said of it: it is within its bounds when the value of every seed is.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.not_judged {
            Some(why) => Verdict::NotJudged(why),
            None if self.values.iter().all(|v| v.is_nan()) => Verdict::NotJudged(NOTHING),
            None if self.values.iter().all(|v| self.range.holds(*v)) => Verdict::Within,
            None => Verdict::Outside,
        }
    }

    /// Whether several seeds gave the same value, by the digits that are printed of it.
    #[must_use]
    pub fn is_the_same(&self) -> bool {
        self.values.len() > 1 && figure(self.min()) == figure(self.max())
    }

    /// On which sides of its bounds values are: whether one is below, and whether one is above.
    #[must_use]
    pub fn sides(&self) -> (bool, bool) {
        let (below, above) =
            (Range { low: self.range.low, high: None }, Range { low: None, high: self.range.high });
        let outside = |side: Range| self.values.iter().any(|v| !v.is_nan() && !side.holds(*v));
        (outside(below), outside(above))
    }

    /// Whether it is judged and outside.
    #[must_use]
    pub fn misses(&self) -> bool {
        self.verdict() == Verdict::Outside
    }

    /// Makes a prediction that was not committed in time a row that its study chose.
    pub(crate) fn is_no_prediction(&mut self) {
        self.kind = Kind::Fitted;
        self.once_predicted = true;
    }

    /// Adds what another seed gave for the same row.
    pub(crate) fn join(&mut self, other: &Self) {
        self.values.extend(&other.values);
        self.not_judged = self.not_judged.or(other.not_judged);
    }

    /// Whether the other is the same row.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.row == other.row && self.unit == other.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_judged_as_they_say() {
        let within = |bound: Bound, published, value| bound.range(published).holds(value);
        let part = Bound::Within(0.1);
        assert!(within(part, 100.0, 90.0) && within(part, 100.0, 110.0));
        assert!(!within(part, 100.0, 89.9) && !within(part, 100.0, 110.1));
        let rounded = Bound::WithinOrRounding(0.1);
        assert!(within(rounded, 2.0, 2.99) && !within(rounded, 2.0, 3.01));
        assert!(!within(rounded, 2.0, 1.7) && within(rounded, 100.0, 110.0));
        assert!(within(Bound::AtLeast, 56.0, 57.0) && !within(Bound::AtLeast, 56.0, 55.0));
        let between = Bound::Between(100.0, 1540.0);
        assert!(within(between, 700.0, 1540.0) && !within(between, 700.0, 99.0));
        assert!(!within(Bound::AtMost, 1.0, f64::NAN));
        assert_eq!(Bound::Between(1.0, f64::INFINITY).range(1.0), Range::at_least(1.0));
    }

    #[test]
    fn a_row_is_within_when_every_seed_is() {
        let one = |measured| Row::predicted("x", "ms", 100.0, Bound::Within(0.1), measured);
        let mut row = one(95.0);
        row.join(&one(109.0));
        row.join(&one(99.0));
        assert_eq!((row.measured(), row.min(), row.max()), (99.0, 95.0, 109.0));
        assert_eq!((row.verdict(), row.ratio()), (Verdict::Within, Some(0.99)));
        row.join(&one(120.0));
        assert_eq!((row.measured(), row.verdict()), (104.0, Verdict::Outside));
        assert_eq!(row.not_judged(ELSEWHERE).verdict(), Verdict::NotJudged(ELSEWHERE));
        let mut none = one(f64::NAN);
        assert_eq!(none.verdict(), Verdict::NotJudged(NOTHING));
        none.join(&one(95.0));
        assert_eq!(none.verdict(), Verdict::Outside);
    }

    #[test]
    fn a_range_is_agreed_with_anywhere() {
        let of = |measured| Row::predicted("x", "MB/s", 20.0, Bound::RangeTo(50.0), measured);
        assert_eq!(of(30.0).published(), Some(&Published::Range(20.0, 50.0)));
        let judged = |row: Row| (row.verdict(), row.ratio());
        assert_eq!(judged(of(30.0)), (Verdict::Within, Some(1.0)));
        assert_eq!(judged(of(100.0)), (Verdict::Outside, Some(2.0)));
        assert_eq!(judged(of(10.0)), (Verdict::Outside, Some(0.5)));
        let least = |measured| Row::predicted("x", "", 8.0, Bound::AtLeast, measured);
        assert_eq!((least(16.0).ratio(), least(4.0).ratio()), (Some(1.0), Some(0.5)));
    }

    #[test]
    fn what_follows_is_compared_and_not_published() {
        let row = Row::predicted("x", "MB/s", 240.0, Bound::Within(0.1), 120.0).follows("210 + 30");
        assert_eq!((row.published(), row.compared()), (None, Some(&Published::Figure(240.0))));
        assert_eq!((row.ratio(), row.follows_from()), (Some(0.5), Some("210 + 30")));
        assert_eq!(row.verdict(), Verdict::Outside);
    }

    #[test]
    fn what_is_ours_has_nothing_published() {
        let shown = Row::own("x", "ms", 3.0);
        assert_eq!((shown.published(), shown.verdict()), (None, Verdict::NotJudged(NO_GOAL)));
        let goal = |measured| Row::goal("x", "", Range::at_least(1.0), measured);
        assert_eq!((goal(1.0).verdict(), goal(0.9).verdict()), (Verdict::Within, Verdict::Outside));
        assert_eq!((goal(1.0).kind(), goal(1.0).published()), (Kind::Own, None));
    }
}
