//! `zinc completions`: what a shell needs to complete zinc's command line, also under the names
//! of OpenZFS's commands. For packagers of zinc; hidden from the help. The scripts ask for names of
//! pools, datasets and vdevs by the same verb, and that asks the verbs that list them, as a process
//! of its own: whatever they complain of is not seen in the middle of a line.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui;
use clap::ValueEnum;
use clap_complete::Shell;
use hostfs::options::operands;
use std::process::{Command, ExitCode, Stdio};
use views::called;
use views::completion::{asking, wanted};

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
    /// Print the names that the last of these words may be the beginning of
    #[arg(long)]
    names: bool,
    /// The words of a command line behind the name, up to the one that is completed
    #[arg(last = true, requires = "names")]
    words: Vec<String>,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let verbs = (session.process().grammar.verbs)();
        let name = match self.name {
            Name::Zinc => "zinc",
            Name::Zpool => "zpool",
            Name::Zfs => "zfs",
            Name::Zdb => "zdb",
            Name::Zstream => "zstream",
        };
        if self.names {
            names(&verbs, name, &self.words).iter().for_each(|name| ui::exact(session, name));
            return Ok(ExitCode::SUCCESS);
        }
        let mut verbs = verbs.find_subcommand(name).cloned().unwrap_or(verbs);
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut verbs, name, &mut script);
        let script = String::from_utf8_lossy(&script);
        ui::out_bytes(session, asking(&self.shell.to_string(), name, &script).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The names that the last word may be the beginning of, a line for each.
fn names(verbs: &clap::Command, name: &str, words: &[String]) -> Vec<String> {
    let mut words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let Some(word) = words.pop() else { return Vec::new() };
    let (mut command, mut grammar) = (name, verbs);
    if name == "zinc"
        && let Some(own) = called::NAMES.into_iter().find(|own| words.first() == Some(own))
    {
        command = own;
        words.remove(0);
    }
    if command != "zinc" {
        grammar = grammar.find_subcommand(command).unwrap_or(grammar);
    }
    let verb = match command {
        "zdb" => "",
        _ if words.is_empty() => return Vec::new(),
        _ => words.remove(0),
    };
    if !verb.is_empty() {
        let Some(of_verb) = grammar.find_subcommand(verb) else { return Vec::new() };
        grammar = of_verb;
    }
    let takes = |word: &str| {
        let is_it = |option: &clap::Arg| match word.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => option.get_short().is_some_and(|letter| word.ends_with(letter)),
        };
        grammar.get_opts().any(|option| is_it(option) && option.get_action().takes_values())
    };
    let Some(before) = operands(&words, takes) else { return Vec::new() };
    let all = wanted(command, verb, &before, word).into_iter().flat_map(|what| {
        let text = output(&what.lists());
        what.names(&text)
    });
    all.filter(|name| name.starts_with(word)).map(|name| name + "\n").collect()
}

/// What zinc prints, at once: a pool that another command has is not waited for.
fn output(words: &[&str]) -> String {
    let run = |program| {
        let mut command = Command::new(program);
        command.args(words).env("ZINC_WAIT", "0").stdin(Stdio::null()).stderr(Stdio::null());
        command.output()
    };
    if words.is_empty() {
        return String::new();
    }
    let output = std::env::current_exe().and_then(run);
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
