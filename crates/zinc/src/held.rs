//! The pool that a server holds.

pub use control::held::{CloseMode, END_WITHIN, NotReleased};

/// The pool, until it is let go.
pub type Held = control::held::Held<engine::LivePool>;
