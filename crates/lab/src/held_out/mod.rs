//! Studies that were held out: published measurements of the same engine that nothing here was
//! fitted to.
//!
//! A machine is built from the description of its study alone. What it says is written down and
//! committed (`docs/lab/holdout/`), and compared only afterwards. A model that is changed after
//! that makes its rows fitted ones, and so does an engine that has changed ([`committed`]).
//!
//! What came out is summed up by a [`crate::outcome::Score`]: how far predictions are from what was
//! measured, as the median of |ln(predicted / measured)|, which row is worst, and whether the order
//! is right.

mod committed;
mod latency_lanes;
mod layouts;
mod machine;
mod mirror_reads;
mod one_mirror;
mod scan_order;
mod synchronous;
mod throttle_curve;
mod unequal_vdevs;

pub(crate) use committed::only_what_was_committed;
pub(crate) use latency_lanes::EXPERIMENT as H3;
pub(crate) use layouts::EXPERIMENT as H2;
pub(crate) use mirror_reads::EXPERIMENT as H4;
pub(crate) use one_mirror::EXPERIMENT as H5;
pub(crate) use scan_order::EXPERIMENT as H8;
pub(crate) use synchronous::EXPERIMENT as H1;
pub(crate) use throttle_curve::EXPERIMENT as H6;
pub(crate) use unequal_vdevs::EXPERIMENT as H7;

use crate::digits::figure;
use crate::outcome::Outcome;
use crate::row::{Bound, Kind, Row};

/// What a study measured in a row.
struct Published {
    row: &'static str,
    unit: &'static str,
    value: f64,
    bound: Bound,
    kind: Kind,
    /// What it follows from, where the study has not printed it.
    from: Option<&'static str>,
    /// Whether it was committed as a prediction, and is none any more.
    once_predicted: bool,
}

impl Published {
    /// A value that was predicted.
    const fn predicted(row: &'static str, unit: &'static str, value: f64, bound: Bound) -> Self {
        Self { row, unit, value, bound, kind: Kind::Predicted, from: None, once_predicted: false }
    }

    /// The same value, as evidence of another kind.
    const fn of_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same value, whose prediction is called fitted since it was committed: it stays in the
    /// count of what was committed.
    const fn fitted_since(self) -> Self {
        Self { kind: Kind::Fitted, once_predicted: true, ..self }
    }

    /// The same value, which follows from printed ones.
    const fn following(self, from: &'static str) -> Self {
        Self { from: Some(from), ..self }
    }
}

/// A row of a study, with the study's value of it if there is one.
fn row(published: &[Published], name: &str, unit: &'static str, predicted: f64) -> Row {
    let Some(p) = published.iter().find(|p| p.row == name && p.unit == unit) else {
        return Row::own(name, unit, predicted);
    };
    let make = match p.kind {
        Kind::Predicted => Row::predicted,
        Kind::Derived => Row::derived,
        Kind::Input => Row::input,
        Kind::Fitted => Row::fitted,
        Kind::Own => return Row::own(name, unit, predicted),
    };
    let row = make(name, unit, p.value, p.bound, predicted);
    let row = if p.once_predicted { row.once_predicted() } else { row };
    match p.from {
        Some(from) => row.follows(from),
        None => row,
    }
}

/// What a study says of a row, for its charts. No number where it says nothing.
fn value(published: &[Published], name: &str) -> f64 {
    published.iter().find(|p| p.row == name).map_or(f64::NAN, |p| p.value)
}

/// What came of the predictions: as they were committed, and with the engine of today.
fn meaning(outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some(all) = &outcome.as_committed {
        text += &format!(
            "As they were committed before the comparison, {} of {} predictions are within their \
             bounds; with the engine of today {} of the same rows are. ",
            all.within, all.rows, all.today_within,
        );
    }
    text += &match committed::moved(outcome) {
        (0, _) => String::new(),
        (moved, of) => format!(
            "{moved} of {of} rows are not what was committed, and are no predictions any more. "
        ),
    };
    let Some(score) = outcome.score() else { return text.trim_end().to_owned() };
    text += &format!(
        "Predicted from the description of the study. Of {} rows as they were committed, with {} \
         free parameters: the median of |ln(predicted/measured)| is {}, rank correlation {}.",
        score.rows,
        score.free_parameters,
        figure(score.median_ln),
        score.rank_correlation.map_or("none".to_owned(), figure),
    );
    text +=
        &format!(" Worst is {}: {} of what was measured.", score.worst, figure(score.worst_ratio),);
    if let Some(today) = outcome.as_committed.as_ref().and_then(|all| all.today.as_ref()) {
        text += &format!(
            " With the engine of today: {}, {}.",
            figure(today.median_ln),
            today.rank_correlation.map_or("none".to_owned(), figure),
        );
    }
    text
}
