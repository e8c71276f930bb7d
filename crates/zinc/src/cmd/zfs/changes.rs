//! Properties as they are given to verbs that make datasets: `-o compression=zstd`.

use crate::args::divide;
use crate::failure::Failure;
use crate::refusals::cannot;
use engine::{DatasetKind, PropertyChange, properties};

/// The dataset whose properties are changed.
pub struct Target<'a> {
    /// The verb of the operation, for messages.
    pub doing: &'a str,
    /// The dataset.
    pub name: &'a str,
    pub kind: DatasetKind,
    /// It is being made.
    pub is_new: bool,
}

impl Target<'_> {
    /// Reads the `-o` of a command line; a property is given once.
    pub fn all(&self, texts: &[String]) -> Result<Vec<PropertyChange>, Failure> {
        let pairs = texts.iter().map(|text| divide(text)).collect::<Result<Vec<_>, _>>()?;
        let read = properties::parse_all(pairs, self.kind, self.is_new);
        read.map_err(|e| cannot(self.doing, self.name, e))
    }
}
