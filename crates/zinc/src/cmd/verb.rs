//! What every verb says of itself.

use crate::failure::Failure;
use crate::session::Session;
use std::process::ExitCode;

/// For whom a server runs a verb, on the pool that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// For nobody: the verb is of the process that was started for it.
    Never,
    /// For its own user.
    ToOwner,
    /// Also for other users, where root serves the pool: the verb only looks, at that pool, and
    /// names no file.
    ToEveryone,
}

/// A verb with its arguments.
pub trait Verb {
    /// For whom a server runs it.
    fn served(&self, _: &Session) -> Served {
        Served::Never
    }

    /// Runs it.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure>;
}
