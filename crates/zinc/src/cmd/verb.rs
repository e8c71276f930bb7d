//! The interface of every verb.

use crate::failure::Failure;
use crate::session::Session;
use std::process::ExitCode;

/// Which users a server runs a verb for, on the pool that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// None: the verb runs in the process that was started for it.
    Never,
    /// For its own user.
    ToOwner,
    /// Also for other users, where root serves the pool: the verb looks at that pool or changes it
    /// by its operations, which ask for permissions, and names no file.
    ToEveryone,
}

impl Served {
    /// To everyone, if that holds.
    pub fn everyone_if(is_for_everyone: bool) -> Self {
        if is_for_everyone { Self::ToEveryone } else { Self::ToOwner }
    }
}

/// A verb with its arguments.
pub trait Verb {
    /// Which users a server runs it for.
    fn served(&self, _: &Session) -> Served {
        Served::Never
    }

    /// Runs it.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure>;
}
