//! The command line as a whole.

use crate::failure::{Failure, USAGE};
use crate::{asked, cmd, missing, ui};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

/// ZFS pools without a kernel module: make, fill and change them, check them, get the data out
#[derive(Parser)]
#[command(name = "zinc", version, max_term_width = 100, propagate_version = true)]
#[command(args_override_self = true)]
#[command(after_help = "Every verb that opens a pool searches the places given with -d PATH \
                        (directories, files, disks), and the usual device directories otherwise.")]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Subcommand)]
pub enum Command {
    /// Pools: make, find, list, status, properties, history
    #[command(subcommand)]
    Zpool(cmd::zpool::Command),
    /// Datasets: make, snapshot, clone, list, properties, holds, differences
    #[command(subcommand)]
    Zfs(cmd::zfs::Command),
    /// Everything inside a pool, structure by structure
    Zdb(cmd::zdb::Args),
    /// List a directory of a dataset
    Ls(cmd::ls::Args),
    /// Show all attributes of files
    Stat(cmd::stat::Args),
    /// Write the content of files to standard output
    Cat(cmd::cat::Args),
    /// Copy files and trees out of a pool, or into one
    Cp(cmd::cp::Args),
    /// Make directories
    Mkdir(cmd::files::Mkdir),
    /// Remove files and directories
    Rm(cmd::files::Rm),
    /// Rename files and directories
    Mv(cmd::files::Mv),
    /// Give files a second name, or make symbolic links
    Ln(cmd::files::Ln),
    /// Copy everything that can still be read, and list exactly what cannot
    Rescue(cmd::rescue::Args),
    /// Describe the whole content of a pool as JSON
    Inventory(cmd::inventory::Args),
    /// Verify every block and cross-check all accounting
    Check(cmd::check::Args),
    /// The knobs of a pool that is open for writing: meaning, default, range
    Tunables(cmd::tunables::Args),
    /// What each transaction group did: dirty, written, times, limit, delays
    Txgs(cmd::txgs::Args),
    /// How writers were held back: sync rate, MB/s, delays, and distributions
    Throttle(cmd::throttle::Args),
    /// The studies zinc began with, repeated on simulated disks, on a device, or in a pool
    #[command(subcommand)]
    Lab(cmd::lab::Command),
    /// Hold a pool open, so that other commands can work on it at once and watch it
    Serve(cmd::serve::Args),
    /// Watch a pool that is served
    Top(cmd::top::Args),
    /// What to set for a pool, and why
    Advise(cmd::advise::Args),
    /// Load files, devices or a pool with many threads (pios), and measure
    Pios(Box<cmd::pios::Args>),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(cmd::man::Args),
    /// Print the completion script of a shell
    #[command(hide = true)]
    Completions(cmd::completions::Args),
}

/// Prints what the command line asked for in place of a verb (help, the version), or what is wrong
/// with it; the exit code. Under OpenZFS's own names -h is a wrong option, as there.
pub fn explain(words: &[OsString], e: &clap::Error, is_link: bool) -> ExitCode {
    if let Some(failure) = missing::option(words, e) {
        return failure.report();
    }
    let text = e.render();
    let asks_for_help = |w: &OsString| w == "help" || w == "--help";
    if is_link && e.kind() == ErrorKind::DisplayHelp && !words.iter().any(asks_for_help) {
        ui::error(&text.to_string());
        return ExitCode::from(USAGE);
    }
    if e.use_stderr() {
        ui::error(&text.to_string());
    } else if ui::is_output_terminal() && asked::variable("NO_COLOR").is_none() {
        // This text is all zinc's own.
        let _ = ui::out_bytes(text.ansi().to_string().as_bytes());
    } else {
        ui::out(&text.to_string());
    }
    u8::try_from(e.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

impl Command {
    /// Runs the verb; a failure is said.
    pub fn run_or_report(self) -> ExitCode {
        self.run().unwrap_or_else(|failure| failure.report())
    }

    /// Whether a server runs it for its clients.
    pub fn is_for_servers(&self) -> bool {
        match self {
            Self::Zpool(c) => c.is_for_servers(),
            Self::Zfs(_) | Self::Ls(_) | Self::Stat(_) | Self::Cat(_) | Self::Cp(_) => true,
            Self::Tunables(_) | Self::Advise(_) | Self::Pios(_) => true,
            Self::Lab(c) => c.is_for_servers(),
            Self::Mkdir(_) | Self::Rm(_) | Self::Mv(_) | Self::Ln(_) | Self::Inventory(_) => true,
            _ => false,
        }
    }

    /// Whether a server of root runs it for other users: it only looks, at the pool that is held,
    /// and names no file.
    pub fn is_for_everyone(&self) -> bool {
        match self {
            Self::Zpool(c) => c.is_for_everyone(),
            Self::Zfs(c) => c.is_for_everyone(),
            _ => false,
        }
    }

    /// Runs the verb.
    pub fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Zpool(c) => c.run(),
            Self::Zfs(c) => c.run(),
            Self::Zdb(a) => a.run(),
            Self::Ls(a) => a.run(),
            Self::Stat(a) => a.run(),
            Self::Cat(a) => a.run(),
            Self::Cp(a) => a.run(),
            Self::Mkdir(a) => a.run(),
            Self::Rm(a) => a.run(),
            Self::Mv(a) => a.run(),
            Self::Ln(a) => a.run(),
            Self::Rescue(a) => a.run(),
            Self::Inventory(a) => a.run(),
            Self::Check(a) => a.run(),
            Self::Tunables(a) => a.run(),
            Self::Txgs(a) => a.run(),
            Self::Throttle(a) => a.run(),
            Self::Lab(c) => c.run(),
            Self::Serve(a) => a.run(),
            Self::Top(a) => a.run(),
            Self::Advise(a) => a.run(),
            Self::Pios(a) => a.run(),
            Self::Man(a) => a.run(),
            Self::Completions(a) => a.run(),
        }
    }
}
