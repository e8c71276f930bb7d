//! Reads and writes of pools, as `zpool iostat` prints them.

mod internals;
mod layout;
#[cfg(test)]
mod tests;

pub use internals::{InternalTables, Style};
pub use layout::{Histograms, Layout};
