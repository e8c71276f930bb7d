//! What pools read and write, as `zpool iostat` prints it.

mod internals;
mod layout;
#[cfg(test)]
mod tests;

pub use internals::{InternalTables, Style};
pub use layout::{Histograms, Layout};
