//! of OpenZFS's commands. For packagers of zinc; hidden from the help.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use clap::ValueEnum;
use clap_complete::Shell;
use std::process::ExitCode;

/// The names under which the binary is called.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    Zinc,
    Zpool,
    Zfs,
    Zdb,
    Zstream,
}

/// Arguments of `zinc completions`.
#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
    /// The name under which the command is called
    #[arg(default_value = "zinc")]
    name: Name,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let mut verbs = (session.process().grammar.verbs)();
        let name = match self.name {
            Name::Zinc => "zinc",
            Name::Zpool => "zpool",
            Name::Zfs => "zfs",
            Name::Zdb => "zdb",
            Name::Zstream => "zstream",
        };
        if let Some(verb) = verbs.find_subcommand(name) {
            verbs = verb.clone();
        }
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut verbs, name, &mut script);
        ui::out_bytes(session, &script)?;
        Ok(ExitCode::SUCCESS)
    }
}
