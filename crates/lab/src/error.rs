//! Why an experiment could not be done.

use std::fmt;

/// Why an experiment could not be done.
#[derive(Debug)]
pub struct LabError {
    /// What failed.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do, where that is known.
    pub hint: Option<String>,
}

impl LabError {
    /// What failed, and why.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string(), hint: None }
    }

    /// The same, of this experiment.
    #[must_use]
    pub(crate) fn of(self, experiment: &str) -> Self {
        Self { what: format!("{experiment}: {}", self.what), ..self }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for LabError {}
