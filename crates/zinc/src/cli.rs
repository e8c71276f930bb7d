//! The command line as a whole.

use crate::cmd::verb::{Served, Verb};
use crate::cmd::{unsupported, version};
use crate::failure::{Failure, USAGE};
use crate::served::{REACHABLE, denied};
use crate::session::Session;
use crate::{cmd, ui};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use hostfs::options::operands_at;
use std::ffi::OsString;
use std::process::ExitCode;
use views::called;

/// ZFS pools without a kernel module: create, fill and change them, check them, get the data out
#[derive(Parser)]
#[command(name = "zinc", version, max_term_width = 100, propagate_version = true)]
#[command(args_override_self = true)]
#[command(after_help = "\
Verbs open the pools that are known (created or imported) or served, by name; -d PATH opens one
among directories, files and disks for this command.

Environment:
  ZINC_STATE                   Folder in which known pools are remembered
  ZINC_SOCKETS                 Folder for the sockets of servers, in place of the usual ones
  ZINC_WAIT                    Seconds to wait for commands that have the pool [default: 30]
  ZINC_LOG                     What a server logs, as its --log-filter
  ZINC_CACHE, ZINC_CACHE_SIZE  Folder that keeps what was read from stores of objects, and the
                               most that each disk takes there [default: 4G]
  ZINC_PRICES                  File of prices for `zinc far cost`
  ZINC_GC_BUDGET               Dollars that garbage collection of a bucket may cost in a month
  ZPOOL_IMPORT_PATH            Folders in which `zpool import` looks, with : between them")]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Subcommand)]
pub enum Command {
    /// Pools: create, import, list, status, devices, scrub, resilver, properties, history
    #[command(subcommand, after_help = unsupported::lacking(&unsupported::ZPOOL))]
    Zpool(cmd::zpool::Command),
    /// Datasets: create, snapshot, clone, list, properties, holds, differences
    #[command(subcommand, after_help = unsupported::lacking(&unsupported::ZFS))]
    Zfs(cmd::zfs::Command),
    /// Send streams: show, verify and convert them
    #[command(subcommand)]
    Zstream(cmd::zstream::Command),
    /// Examine a pool, structure by structure
    Zdb(cmd::zdb::Args),
    /// List a directory of a dataset
    Ls(cmd::ls::Args),
    /// Show all attributes of files
    Stat(cmd::stat::Args),
    /// Write the content of files to standard output
    Cat(cmd::cat::Args),
    /// Copy files and trees out of a pool, or into one
    Cp(cmd::cp::Args),
    /// Create directories
    Mkdir(cmd::files::Mkdir),
    /// Remove files and directories
    Rm(cmd::files::Rm),
    /// Rename files and directories
    Mv(cmd::files::Mv),
    /// Create hard or symbolic links
    Ln(cmd::files::Ln),
    /// Copy everything that can still be read, and list exactly what cannot
    Rescue(cmd::rescue::Args),
    /// Repair damage that check finds: prints a plan first, and can be undone
    Repair(cmd::repair::Args),
    /// Describe all contents of a pool as JSON
    Inventory(cmd::inventory::Args),
    /// Verify every block and cross-check all accounting
    Check(cmd::check::Args),
    /// Show or set the tunables of a pool: meaning, default, range
    Tunables(cmd::tunables::Args),
    /// Show what each transaction group did: dirty, written, times, limit, delays
    Txgs(cmd::txgs::Args),
    /// Show how writers were throttled: sync rate, MB/s, delays, and distributions
    Throttle(cmd::throttle::Args),
    /// Repeat the studies zinc began with, on simulated disks, a device, or a pool
    #[command(subcommand)]
    Lab(cmd::lab::Command),
    /// Serve a pool: keep it open, so that several commands can use it at the same time
    Serve(Box<cmd::serve::Args>),
    /// Export volumes, snapshots and files as disks, over NBD
    Nbd(cmd::nbd::Args),
    /// Disks in object stores: create, show, verify, copy, clean up
    #[command(subcommand)]
    Far(cmd::far::Command),
    /// Mount a file system or snapshot, for all programs
    Mount(cmd::mount::Mount),
    /// Unmount file systems
    Unmount(cmd::mount::Unmount),
    /// Watch a served pool
    Top(cmd::top::Args),
    /// Suggest settings for a pool, with reasons
    Advise(cmd::advise::Args),
    /// Load files, devices or a pool with many threads (pios), and measure
    Pios(Box<cmd::pios::Args>),
    /// Write the manual pages to a directory
    #[command(hide = true)]
    Man(cmd::man::Args),
    /// Print the completion script of a shell
    #[command(hide = true)]
    Completions(cmd::completions::Args),
    /// Print the version of zinc
    #[command(hide = true, disable_version_flag = true)]
    Version(version::Args),
}

/// Prints what the command line asked for in place of a verb (help, the version), or what is wrong
/// with it; the exit code. Under OpenZFS's own names -h is a wrong option, as there.
fn explain(session: &Session, words: &[OsString], e: &clap::Error) -> ExitCode {
    let is_link = called::name(session.arguments()).is_some();
    if let Some(failure) = unsupported::option(words, e) {
        return failure.report(session);
    }
    let is_bare = e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if let (true, true, [_, name]) = (is_link, is_bare, words) {
        let name = name.to_string_lossy();
        let verbs = (session.process().grammar.verbs)();
        let verbs =
            verbs.find_subcommand(&*name).into_iter().flat_map(clap::Command::get_subcommands);
        let verbs: Vec<&str> = verbs.filter(|v| !v.is_hide_set()).map(|v| v.get_name()).collect();
        ui::error(session, &views::unsupported::usage(&name, &verbs));
        return ExitCode::from(USAGE);
    }
    let text = e.render();
    let asks_for_help = |w: &OsString| w == "help" || w == "--help";
    if is_link && e.kind() == ErrorKind::DisplayHelp && !words.iter().any(asks_for_help) {
        ui::error(session, &text.to_string());
        return ExitCode::from(USAGE);
    }
    if e.use_stderr() {
        let text = text.to_string();
        ui::error(session, &if is_link { unsupported::invalid_option(&text) } else { text });
    } else if ui::is_output_terminal(session) && session.variable("NO_COLOR").is_none() {
        // This text is all zinc's own.
        let _ = ui::out_bytes(session, text.ansi().to_string().as_bytes());
    } else {
        ui::out(session, &text.to_string());
    }
    u8::try_from(e.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

impl Command {
    /// The verb.
    pub fn verb(self) -> Box<dyn Verb> {
        match self {
            Self::Zpool(c) => c.verb(),
            Self::Zfs(c) => c.verb(),
            Self::Zstream(c) => c.verb(),
            Self::Zdb(a) => Box::new(a),
            Self::Ls(a) => Box::new(a),
            Self::Stat(a) => Box::new(a),
            Self::Cat(a) => Box::new(a),
            Self::Cp(a) => Box::new(a),
            Self::Mkdir(a) => Box::new(a),
            Self::Rm(a) => Box::new(a),
            Self::Mv(a) => Box::new(a),
            Self::Ln(a) => Box::new(a),
            Self::Rescue(a) => Box::new(a),
            Self::Repair(a) => Box::new(a),
            Self::Inventory(a) => Box::new(a),
            Self::Check(a) => Box::new(a),
            Self::Tunables(a) => Box::new(a),
            Self::Txgs(a) => Box::new(a),
            Self::Throttle(a) => Box::new(a),
            Self::Lab(c) => c.verb(),
            Self::Serve(a) => a,
            Self::Nbd(a) => Box::new(a),
            Self::Far(c) => c.verb(),
            Self::Mount(a) => Box::new(a),
            Self::Unmount(a) => Box::new(a),
            Self::Top(a) => Box::new(a),
            Self::Advise(a) => Box::new(a),
            Self::Pios(a) => a,
            Self::Man(a) => Box::new(a),
            Self::Completions(a) => Box::new(a),
            Self::Version(a) => Box::new(version::VersionVerb("zinc", a)),
        }
    }
}

/// Ends the options of a verb of `zpool` or `zfs` where POSIX does, if `POSIXLY_CORRECT` is set.
fn end_options(session: &Session, words: &mut Vec<OsString>) {
    if session.variable("POSIXLY_CORRECT").is_none() || words.len() < 3 {
        return;
    }
    let all = Cli::command();
    let verb = all.find_subcommand(&words[1]).and_then(|group| group.find_subcommand(&words[2]));
    let Some(verb) = verb else { return };
    let takes = |letter| verb.get_opts().any(|option| option.get_short() == Some(letter));
    if let Some(at) = operands_at(&words[3..], takes) {
        words.insert(3 + at, OsString::from("--"));
    }
}

/// Runs the command line of this process; the exit code.
pub fn run(session: &Session) -> ExitCode {
    let mut words = session.arguments().to_vec();
    // Usage names the command as this manual does, whatever the link to it is called.
    if let Some(program) = words.first_mut() {
        *program = OsString::from("zinc");
    }
    // As OpenZFS's commands ask for help.
    for word in words.iter_mut().skip(1).take(2).filter(|word| *word == "-?") {
        *word = OsString::from("--help");
    }
    end_options(session, &mut words);
    match Cli::try_parse_from(&words) {
        Ok(cli) => run_or_report(session, cli.command.verb()),
        Err(e) => explain(session, &words, &e),
    }
}

/// Runs the command line of a client, if a server runs such a verb for it; the exit code.
pub fn run_for_client(session: &Session) -> ExitCode {
    let mut words = session.arguments().to_vec();
    end_options(session, &mut words);
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(e) => return explain(session, &words, &e),
    };
    let verb = cli.command.verb();
    let served = verb.served(session);
    if served == Served::Never {
        let failure = Failure::new("a server does not run this verb for its clients")
            .hint(format!("it runs {REACHABLE}"));
        return failure.report(session);
    }
    if session.is_for_another_user() && served != Served::ToEveryone {
        return denied().report(session);
    }
    run_or_report(session, verb)
}

/// Runs a verb, and reports its failure.
fn run_or_report(session: &Session, verb: Box<dyn Verb>) -> ExitCode {
    verb.run(session).unwrap_or_else(|failure| failure.report(session))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Arguments of which some are those of any verb.
    const ARGUMENTS: [&[&str]; 9] = [
        &[],
        &["p"],
        &["p", "d"],
        &["p", "d", "n"],
        &["a=b", "p"],
        &["p:/a", "p:/b"],
        &["-p", "p", "-t", "1", "-n", "1", "-s", "1M"],
        &["-t", "ddt", "p"],
        &["bash"],
    ];

    /// The verbs below these words that a server runs.
    fn served(below: &[&str], skipped: &[&str]) -> BTreeSet<String> {
        let session = Session::of_test();
        let mut command = Cli::command();
        for word in below {
            command = command.find_subcommand(word).unwrap().clone();
        }
        let is_served = |name: &&str| {
            let parsed = ARGUMENTS.iter().find_map(|arguments| {
                let words = ["zinc"].iter().chain(below).chain([name]).chain(*arguments);
                Cli::try_parse_from(words).ok()
            });
            let parsed = parsed.unwrap_or_else(|| panic!("no arguments for {name}"));
            parsed.command.verb().served(&session) != Served::Never
        };
        let names = command.get_subcommands().map(clap::Command::get_name);
        let names = names.filter(|name| !skipped.contains(name)).filter(is_served);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn what_reaches_a_pool_that_is_served_is_told() {
        let (verbs, of_zpool) = REACHABLE.split_once(", and of zpool: ").unwrap();
        let named = |text: &str, but: &[&str]| -> BTreeSet<String> {
            text.split(", ").filter(|verb| !but.contains(verb)).map(str::to_owned).collect()
        };
        let groups = ["zpool", "zfs", "zstream", "lab", "far", "help"];
        // These reach it by themselves, or are more than one verb.
        let others = ["zfs", "lab run", "top", "txgs", "throttle"];
        assert_eq!(named(verbs, &others), served(&[], &groups));
        assert_eq!(
            named(of_zpool, &["destroy", "export", "iostat"]),
            served(&["zpool"], &["help"])
        );
        let of_zfs = Cli::command().find_subcommand("zfs").unwrap().get_subcommands().count();
        assert_eq!(served(&["zfs"], &["version", "help"]).len() + 1, of_zfs);
    }
}
