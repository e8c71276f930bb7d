//! Text for terminals: what may reach one, and how it stands in rows and columns.
//!
//! **Invariant:** knows nothing of storage; nothing is printed here.
#![forbid(unsafe_code)]

pub mod escape;
mod table;
mod words;

pub use table::{Table, script_row};
pub use words::without_number;
