//! Why an object is not changed.

use dmu::{InvalidChange, Unsupported};
use std::fmt;

/// Why an object, or the set that it is of, is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectRefusal {
    /// The change cannot be made, whatever the state of the pool.
    Invalid(InvalidChange),
    /// It can be read, and is of a form that is not written.
    Unsupported(Unsupported),
}

impl fmt::Display for ObjectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(rule) => write!(f, "cannot be changed so: {rule}"),
            Self::Unsupported(what) => write!(f, "cannot be written: {what}"),
        }
    }
}
