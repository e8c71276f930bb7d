//! `zinc completions`: what a shell needs to complete zinc's verbs and options. For packagers of
//! zinc; hidden from the help.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use clap_complete::Shell;
use std::process::ExitCode;

/// Arguments of `zinc completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        let mut verbs = (session.process().grammar.verbs)();
        clap_complete::generate(self.shell, &mut verbs, "zinc", &mut script);
        ui::out_bytes(session, &script)?;
        Ok(ExitCode::SUCCESS)
    }
}
