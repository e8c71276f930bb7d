//! Reads and writes of pools, as `zpool iostat` prints them.

mod internals;
mod layout;
mod named;
mod series;
#[cfg(test)]
mod tests;

pub use internals::{InternalTables, Style};
pub use layout::{Histograms, Layout};
pub use named::{VdevNames, named};
pub use series::{Series, json};
