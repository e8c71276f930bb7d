//! What pools read and write, as `zpool iostat` prints it.

mod inside;
mod layout;
#[cfg(test)]
mod tests;

pub use inside::{Inside, Style};
pub use layout::{Histograms, Layout};
