//! What was taken for something that is lost.

use std::fmt;

/// Something that is lost, and what was taken instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// What is lost.
    pub lost: &'static str,
    /// What was taken instead.
    pub instead: String,
    /// Why it is lost.
    pub cause: String,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, instead, cause } = self;
        write!(f, "{lost} cannot be read: {instead} ({cause})")
    }
}
