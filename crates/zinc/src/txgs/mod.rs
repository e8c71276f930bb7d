//! Records of transaction groups: of pools that are open, of servers, and in files.

pub mod history;
mod source;

pub use source::{Records, keep_last};
pub use views::txgs::{Style, table};
