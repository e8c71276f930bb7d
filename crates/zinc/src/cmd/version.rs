//! `zinc zpool version` and `zinc zfs version`.

use crate::args::JsonArgs;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use std::process::ExitCode;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    output: JsonArgs,
}

/// The version of a command, `zpool` or `zfs`.
pub struct VersionVerb(pub &'static str, pub Args);

impl Verb for VersionVerb {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Self(command, args) = *self;
        let version = concat!("zinc-", env!("CARGO_PKG_VERSION"));
        match args.output.json {
            true => ui::json(session, &views::json::version(command, version)),
            false => ui::out(session, &format!("{version}\n")),
        }
        Ok(ExitCode::SUCCESS)
    }
}
