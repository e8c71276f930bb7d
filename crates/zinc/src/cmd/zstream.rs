//! `zinc zstream`: send streams, looked into.

use crate::cmd::unsupported;
use crate::cmd::verb::Verb;
use crate::failure::Failure;
use crate::session::Session;
use crate::ui::{self, Output};
use engine::streams::{Algorithm, Decompressed, Reader, RewriteError};
use engine::streams::{decompress, recompress, redup};
use engine::{Error, ResumeToken};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use views::streams::{self, Detail, Dump};

/// Text that is printed at once.
const TEXT_MAX: usize = 1 << 16;
/// Bytes that are read or written at once.
const PIECE: usize = 1 << 16;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the records of a send stream, and verify its checksums
    Dump(DumpArgs),
    /// Decompress blocks of a stream, whatever compression it records for them
    Decompress(DecompressArgs),
    /// Compress the blocks of a stream with another algorithm
    Recompress(RecompressArgs),
    /// Write a deduplicated stream of an old program as a plain one
    Redup(RedupArgs),
    /// Show the contents of a resume token
    Token(TokenArgs),
    /// Any other word.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// The verb.
    pub fn verb(self) -> Box<dyn Verb> {
        match self {
            Self::Dump(a) => Box::new(a),
            Self::Decompress(a) => Box::new(a),
            Self::Recompress(a) => Box::new(a),
            Self::Redup(a) => Box::new(a),
            Self::Token(a) => Box::new(a),
            Self::Other(words) => Box::new(unsupported::Word("zstream", words, &[])),
        }
    }
}

/// Arguments of `zinc zstream dump`.
#[derive(clap::Args)]
pub struct DumpArgs {
    /// Show each record; twice: with its checksum
    #[arg(short = 'v', action = clap::ArgAction::Count)]
    verbose: u8,
    /// Show each record, its checksum and its payload
    #[arg(short = 'd')]
    data: bool,
    /// Do not verify checksums
    #[arg(short = 'C')]
    trusting: bool,
    /// The stream; standard input when left out
    file: Option<PathBuf>,
}

/// Arguments of `zinc zstream decompress`.
#[derive(clap::Args)]
pub struct DecompressArgs {
    /// Print which blocks were decompressed
    #[arg(short = 'v')]
    verbose: bool,
    /// Blocks, as OBJECT,OFFSET or OBJECT,OFFSET,TYPE: off, lz4 (default), lzjb, gzip, zle, zstd
    #[arg(value_name = "BLOCK", value_parser = streams::block)]
    blocks: Vec<((u64, u64), Algorithm)>,
}

/// Arguments of `zinc zstream recompress`.
#[derive(clap::Args)]
pub struct RecompressArgs {
    /// Level of zstd or gzip, where it is not part of the name
    #[arg(short = 'l', value_name = "LEVEL")]
    level: Option<i32>,
    /// A value of the property compression
    algorithm: String,
}

/// Arguments of `zinc zstream redup`.
#[derive(clap::Args)]
pub struct RedupArgs {
    /// Print the number of records
    #[arg(short = 'v')]
    verbose: bool,
    /// The stream: a file, which is read twice
    file: PathBuf,
}

/// Arguments of `zinc zstream token`.
#[derive(clap::Args)]
pub struct TokenArgs {
    /// The property receive_resume_token of the receiver
    token: String,
}

/// A stream on standard input.
fn input() -> Result<BufReader<Box<dyn Read>>, Failure> {
    match io::stdin().is_terminal() {
        true => Err(Failure::usage("a send stream cannot be read from a terminal")),
        false => Ok(BufReader::with_capacity(PIECE, Box::new(io::stdin()))),
    }
}

/// Refuses to write a stream to a terminal.
fn output(session: &Session) -> Result<BufWriter<Output>, Failure> {
    match ui::is_output_terminal(session) {
        true => Err(Failure::new("Stream can not be written to a terminal")
            .hint("You must redirect standard output")),
        false => Ok(BufWriter::with_capacity(PIECE, Output::new(session))),
    }
}

fn open(session: &Session, path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(session.path(path));
    let file = file.map_err(|e| Failure::from(e).about(&path.to_string_lossy()))?;
    Ok(BufReader::with_capacity(PIECE, file))
}

fn failed(e: &RewriteError) -> Failure {
    Failure::new(e.to_string())
}

impl Verb for DecompressArgs {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let blocks: BTreeMap<(u64, u64), Algorithm> = self.blocks.into_iter().collect();
        let mut reader = Reader::new(input()?);
        let report = |at, what| {
            if self.verbose || what == Decompressed::Failed {
                ui::error(session, &streams::decompressed(at, what));
            }
        };
        decompress(&mut reader, output(session)?, &blocks, report).map_err(|e| failed(&e))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for RecompressArgs {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let name = &self.algorithm;
        let to = streams::compression(name, self.level);
        let to = to.ok_or_else(|| Failure::usage(format!("Invalid compression type {name}.")))?;
        let mut reader = Reader::new(input()?);
        recompress(&mut reader, output(session)?, to).map_err(|e| failed(&e))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for RedupArgs {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let (first, mut again) = (open(session, &self.file)?, open(session, &self.file)?);
        let count = redup(first, &mut again, output(session)?).map_err(|e| failed(&e))?;
        if self.verbose {
            ui::error(session, &streams::converted(count));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for TokenArgs {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let cannot = |e| Failure::from(Error::from(e)).about("Unable to parse resume token");
        let token = ResumeToken::decode(&self.token).map_err(cannot)?;
        ui::out(session, &streams::token(&token));
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for DumpArgs {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let input: Box<dyn Read> = match &self.file {
            Some(path) => Box::new(open(session, path)?),
            None => Box::new(input()?),
        };
        let mut input = Reader::new(input);
        if self.trusting {
            input = input.trusting();
        }
        let detail = match (self.data, self.verbose) {
            (true, _) => Detail::Data,
            (_, 0) => Detail::Ends,
            (_, 1) => Detail::Records,
            _ => Detail::Checksums,
        };
        let dump = Dump::new(detail);
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
