//! `zinc man`: the manual pages, one for each verb, made from the command line's own definition.
//! For packagers of zinc; hidden from the help.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `zinc man`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder
    dir: PathBuf,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        std::fs::create_dir_all(&self.dir)?;
        let mut verbs = (session.process().grammar.verbs)().disable_help_subcommand(true);
        verbs.build();
        write(&verbs, &self.dir)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The pages of a verb and of all below it. Depth is that of the command line.
fn write(verb: &Command, dir: &Path) -> std::io::Result<()> {
    verb.get_subcommands().filter(|v| !v.is_hide_set()).try_for_each(|v| write(v, dir))?;
    let page = Man::new(verb.clone().override_usage(synopsis(verb)));
    // As a page it is of the program, whatever the verb.
    let page = page.source(concat!("zinc ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text).replace(".SH EXTRA\n", ".SH NOTES\n");
    std::fs::write(dir.join(page.get_filename()), text)
}

/// How it is called: every option, with its value.
fn synopsis(verb: &Command) -> String {
    let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name()).to_owned();
    let seen = verb.get_arguments().filter(|arg| !arg.is_hide_set());
    let (operands, options): (Vec<_>, Vec<_>) = seen.partition(|arg| arg.is_positional());
    let parts = options.into_iter().chain(operands).map(|arg| {
        let part = if arg.is_positional() { value(arg) } else { option(arg) };
        if arg.is_required_set() { part } else { format!("[{part}]") }
    });
    let verbs = verb.has_subcommands().then(|| "VERB".to_owned());
    [name].into_iter().chain(parts).chain(verbs).collect::<Vec<_>>().join(" ")
}

/// `-x|--long VALUE`.
fn option(arg: &Arg) -> String {
    let names = arg.get_short().map(|c| format!("-{c}"));
    let names = names.into_iter().chain(arg.get_long().map(|long| format!("--{long}")));
    let mut text = names.collect::<Vec<_>>().join("|");
    match arg.get_num_args() {
        Some(values) if values.min_values() > 0 => text += &format!(" {}", value(arg)),
        Some(values) if values.takes_values() => text += &format!(" [{}]", value(arg)),
        _ if matches!(arg.get_action(), ArgAction::Count) => text += "...",
        _ => {}
    }
    text
}

/// The name of a value; of several, with dots behind it.
fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().map(|names| names.join(" "));
    let name = names.unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
    let is_list =
        arg.get_num_args().is_some_and(|n| n.max_values() > 1 && n.max_values() > n.min_values());
    if is_list && !name.contains(' ') { name + "..." } else { name }
}
