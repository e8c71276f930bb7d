//! Verbs and options of OpenZFS that zinc does not have, and words that are not verbs at all.
//!
//! A script that calls `zpool ddtprune` has to see that zinc lacks it. Neither clap's guess of a
//! similar verb nor its list of ours shows that, and the guess may be dangerous.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;
pub use views::unsupported::{ZFS, ZPOOL, invalid_option, lacking};

/// A word that is not a verb of zinc's, and all behind it, under a command whose verbs of OpenZFS
/// that zinc does not do are these.
pub struct Word(pub &'static str, pub Vec<OsString>, pub &'static [&'static str]);

impl Verb for Word {
    fn run(self: Box<Self>, _: &Session) -> Result<ExitCode, Failure> {
        Err(failure(self.0, &self.1, self.2))
    }
}

/// Why such a word does nothing.
fn failure(command: &str, words: &[OsString], known: &[&str]) -> Failure {
    let verb = words.first().map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    if known.contains(&verb.as_str()) {
        return Failure::new(format!("{command} {verb}: not supported by zinc yet"))
            .hint(format!("`zinc {command} --help` lists the supported ones"));
    }
    Failure::usage(format!("unrecognized command '{verb}'"))
        .hint(format!("`zinc {command} --help` lists the commands"))
}

/// Why a command line that has an option of OpenZFS does nothing, when it is one that zinc lacks.
pub fn option(words: &[OsString], e: &clap::Error) -> Option<Failure> {
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = e.get(ContextKind::InvalidArg) else { return None };
    let option = option.split('=').next()?;
    let mut words = words.iter().skip(1).filter_map(|w| w.to_str());
    let command = words.next()?;
    let verb = match command {
        "zdb" => command.to_owned(),
        _ => format!("{command} {}", words.next()?),
    };
    let why = views::unsupported::option(&verb, option)?;
    let failure = Failure::new(format!("{verb} {option}: not supported by zinc yet"));
    Some(if why.is_empty() { failure } else { failure.because(why) })
}
