//! `zinc zfs send`: a snapshot as a stream on standard output.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::progress::while_showing;
use crate::refusals::cannot;
use crate::session::Session;
use crate::ui;
use engine::send::{Forms, Send};
use engine::{Error, ErrorKind, Progress, Rule};
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use views::streams;

/// Arguments of `zinc zfs send`.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Args {
    /// What the receiver has: an earlier snapshot or bookmark, or the origin of a clone
    #[arg(short = 'i', value_name = "SNAPSHOT|BOOKMARK")]
    from: Option<String>,
    /// Leave blocks of more than 128 KiB whole
    #[arg(short = 'L', long)]
    large_block: bool,
    /// Leave blocks compressed as they are on disk
    #[arg(short = 'c', long)]
    compressed: bool,
    /// Leave small blocks as they stand in their pointers
    #[arg(short = 'e', long)]
    embed: bool,
    /// Send nothing; with -v, say how long the stream would be
    #[arg(short = 'n', long)]
    dryrun: bool,
    /// Say how long the stream will be, and show how far it is
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The same for programs: exact numbers, tabs between columns
    #[arg(short = 'P', long)]
    parsable: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    pool: PoolArgs,
    /// What is sent
    snapshot: String,
}

/// Standard output, and whether it was lost: the reader is gone, or it failed.
struct Output<'a>(&'a Session, &'a AtomicBool);

impl io::Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = ui::out_bytes(self.0, bytes).map(|()| bytes.len());
        written.inspect_err(|_| self.1.store(true, Ordering::Relaxed))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if !self.dryrun && ui::is_output_terminal(session) {
            return Err(Failure::new("Stream can not be written to a terminal")
                .hint("You must redirect standard output"));
        }
        let pool = self.pool.clone().open(session, &self.snapshot)?;
        let forms = Forms {
            large_blocks: self.large_block,
            compressed: self.compressed,
            embedded: self.embed,
        };
        // What is sent stays until it is sent.
        let held = session.held(&self.snapshot).map(|pool| pool.hold_open(&self.snapshot));
        let _in_use = held.transpose().map_err(|e| self.refused(e.into()))?;
        let send = Send::new(&pool, &self.snapshot, self.from.as_deref(), forms);
        let send = send.map_err(|e| self.refused(e))?;
        let progress = Progress::new();
        while_showing(session, &progress, || {
            if self.verbose || self.parsable {
                let size = send.estimate(&progress)?;
                let text = streams::estimate(send.name(), send.from(), size, self.parsable);
                let say = if self.dryrun { ui::out } else { ui::error };
                say(session, &text);
            }
            if self.dryrun {
                return Ok(ExitCode::SUCCESS);
            }
            // Without its end a stream is no stream: when its reader is gone, that is a failure.
            ui::runs_on(session);
            let lost = AtomicBool::new(false);
            match send.run(Output(session, &lost), &progress) {
                Err(_) if lost.load(Ordering::Relaxed) => Ok(ExitCode::from(FAILED)),
                Err(e) => Err(cannot("send", &self.snapshot, e)),
                Ok(()) => Ok(ExitCode::SUCCESS),
            }
        })
    }
}

impl Args {
    fn refused(&self, e: Error) -> Failure {
        let hint = e.hint().map(views::hints::words);
        match (e.kind(), hint) {
            (ErrorKind::Against(Rule::NotEarlier), Some(hint)) => {
                Failure::new(format!("cannot send '{}'", self.snapshot))
                    .because("not an earlier snapshot from the same fs")
                    .hint(hint)
            }
            _ => e.into(),
        }
    }
}
