//! Text for terminals: which bytes may reach one, rows and columns, and how numbers and times are
//! written for people.
//!
//! **Invariant:** knows nothing of storage; nothing is printed here.
#![forbid(unsafe_code)]

pub mod escape;
pub mod human;
mod table;
mod words;

pub use table::{Table, script_row};
pub use words::without_number;
