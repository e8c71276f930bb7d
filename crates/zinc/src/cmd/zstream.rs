//! `zinc zstream`: send streams, looked into.

use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::{ui, unsupported};
use engine::streams::Reader;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use views::streams::{Detail, Dump};

/// Text that is printed at once.
const TEXT_MAX: usize = 1 << 16;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what is in a send stream, and verify its checksums
    Dump(DumpArgs),
    /// Any other word.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// The verb.
    pub fn verb(self) -> Box<dyn Verb> {
        match self {
            Self::Dump(a) => Box::new(a),
            Self::Other(words) => {
                Box::new(unsupported::Word("zstream", words, &unsupported::ZSTREAM))
            }
        }
    }
}

/// Arguments of `zinc zstream dump`.
#[derive(clap::Args)]
pub struct DumpArgs {
    /// Show each record; twice: and its checksum
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Do not verify checksums
    #[arg(short = 'C')]
    trusting: bool,
    /// The stream; standard input when left out
    file: Option<PathBuf>,
}

impl Verb for DumpArgs {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let input: Box<dyn Read> = match &self.file {
            Some(path) => {
                let opened = File::open(session.path(path));
                Box::new(opened.map_err(|e| Failure::from(e).about(&path.to_string_lossy()))?)
            }
            None if io::stdin().is_terminal() => {
                return Err(Failure::usage("a send stream is not read from a terminal"));
            }
            None => Box::new(io::stdin()),
        };
        let mut input = Reader::new(BufReader::with_capacity(TEXT_MAX, input));
        if self.trusting {
            input = input.trusting();
        }
        let detail = [Detail::Ends, Detail::Records, Detail::Checksums];
        let dump = Dump::new(detail[usize::from(self.verbose.min(2))]);
        let mut text = String::new();
        let read = dump.run(&mut input, |more| {
            text.push_str(more);
            if text.len() > TEXT_MAX {
                ui::out(session, &std::mem::take(&mut text));
            }
        });
        ui::out(session, &text);
        read.map_err(|e| Failure::new(e.to_string()))?;
        Ok(ExitCode::SUCCESS)
    }
}
