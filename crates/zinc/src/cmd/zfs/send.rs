//! `zinc zfs send`: snapshots as a stream on standard output.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::progress::while_showing;
use crate::refusals::cannot;
use crate::session::Session;
use crate::ui;
use engine::send::{Forms, Package, Scope, SendStream, snapshot_of};
use engine::{Error, ErrorKind, LivePool, Progress, ResumeToken, Rule, Unsendable};
use std::io;
use std::process::ExitCode;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use views::errors::raw_only;
use views::exit_codes::Stage;
use views::streams;

/// Arguments of `zinc zfs send`.
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct Args {
    /// The snapshot or bookmark that the receiver has: an earlier one, or the origin of a clone
    #[arg(short = 'i', value_name = "SNAPSHOT|BOOKMARK")]
    from: Option<String>,
    /// The same, and send all snapshots between them
    #[arg(short = 'I', value_name = "SNAPSHOT", conflicts_with = "from")]
    all_from: Option<String>,
    /// Also all datasets below, with all earlier snapshots and all properties
    #[arg(short = 'R', long)]
    replicate: bool,
    /// With -R: skip datasets that lack the snapshot
    #[arg(short = 's', long, requires = "replicate")]
    skip_missing: bool,
    /// With -R: leave out these datasets and all below them
    #[arg(short = 'X', long, value_name = "DATASETS", value_delimiter = ',')]
    #[arg(requires = "replicate")]
    exclude: Vec<String>,
    /// Send properties
    #[arg(short = 'p', long)]
    props: bool,
    /// Send received properties with their received values
    #[arg(short = 'b', long)]
    backup: bool,
    /// Send the tags of holds
    #[arg(short = 'h', long)]
    holds: bool,
    /// Do not split blocks of more than 128 KiB
    #[arg(short = 'L', long)]
    large_block: bool,
    /// Send blocks compressed as they are on disk
    #[arg(short = 'c', long)]
    compressed: bool,
    /// Send embedded blocks as they are
    #[arg(short = 'e', long)]
    embed: bool,
    /// -L -c -e, and encrypted datasets as they are encrypted, without their keys
    #[arg(short = 'w', long)]
    raw: bool,
    /// Does nothing, as in OpenZFS
    #[arg(short = 'D', long = "dedup")]
    deduplicated: bool,
    /// Send nothing; with -v, print how long the stream would be
    #[arg(short = 'n', long)]
    dryrun: bool,
    /// Print how long the stream will be, and show progress
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The same for programs: exact numbers, tabs between columns
    #[arg(short = 'P', long)]
    parsable: bool,
    /// Accepted: the title of the process stays as it is
    #[arg(short = 'V', long)]
    proctitle: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Send the rest of a stream that was cut off; the token is the target's receive_resume_token
    #[arg(short = 't', value_name = "TOKEN")]
    #[arg(conflicts_with_all = ["snapshot", "from", "all_from", "replicate", "props", "backup"])]
    #[arg(conflicts_with = "holds")]
    token: Option<String>,
    #[command(flatten)]
    pool: PoolArgs,
    /// The snapshot to send
    #[arg(default_value = "", hide_default_value = true)]
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
    fn served(&self, session: &Session) -> Served {
        let of_token = |text: &String| ResumeToken::decode(text).map(|token| snapshot_of(&token));
        let name = self.token.as_ref().map_or(Ok(self.snapshot.clone()), of_token);
        let is_open = |name| self.pool.is_for_everyone(session, from_ref(&name));
        Served::everyone_if(name.is_ok_and(is_open))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        self.check(session)?;
        if let Some(token) = &self.token {
            return self.rest(session, token);
        }
        let pool = self.pool.clone().open(session, &self.snapshot)?;
        let forms = Forms {
            large_blocks: self.large_block,
            compressed: self.compressed,
            embedded: self.embed,
            raw: self.raw,
        };
        let scope = Scope {
            intermediates: self.all_from.is_some(),
            replicate: self.replicate,
            skip_missing: self.skip_missing,
            without: self.exclude.clone(),
            properties: self.props,
            received_properties: self.backup,
            holds: self.holds,
            raw: self.raw,
        };
        let from = self.all_from.as_deref().or(self.from.as_deref());
        if self.is_line() && from.is_some_and(|f| f.contains('#')) {
            return Err(Failure::new("multiple snapshots cannot be sent from a bookmark"));
        }
        if self.deduplicated {
            ui::error(session, streams::NOT_DEDUPLICATED);
        }
        let package = Package::plan(&pool, &self.snapshot, from, forms, &scope);
        let mut package = package.map_err(|e| self.refused(e))?;
        if let Some(pool) = self.held(session, &self.snapshot) {
            package = package.held_in(&pool).map_err(|e| self.refused(e))?;
        }
        let mut code = ExitCode::SUCCESS;
        for gap in package.gaps() {
            ui::error(session, &streams::gap(gap));
            if gap.is_error() {
                code = ExitCode::from(FAILED);
            }
        }
        let progress = Progress::new();
        while_showing(session, &progress, || {
            if self.verbose || self.parsable {
                let text = streams::estimates(&package, &progress, self.parsable);
                let text = text.map_err(|e| self.refused(e))?;
                if self.dryrun { ui::out(session, &text) } else { ui::error(session, &text) }
            }
            if self.dryrun {
                return Ok(code);
            }
            // Without its end a stream is not a stream: when its reader is gone, that is a failure.
            ui::runs_on(session);
            let lost = AtomicBool::new(false);
            match package.run(Output(session, &lost), &progress) {
                Err(_) if lost.load(Ordering::Relaxed) => Ok(ExitCode::from(FAILED)),
                Err(e) => Err(cannot("send", &self.snapshot, e)),
                Ok(()) => Ok(code),
            }
        })
    }
}

impl Args {
    /// The pool where it is held, and changes; an older state does not.
    fn held(&self, session: &Session, name: &str) -> Option<Arc<LivePool>> {
        session.held(name).filter(|_| self.pool.open.is_of_now())
    }

    /// Several snapshots of a dataset are sent.
    fn is_line(&self) -> bool {
        self.replicate || self.all_from.is_some()
    }

    /// Refuses to send nothing, and to write to a terminal.
    fn check(&self, session: &Session) -> Result<(), Failure> {
        if self.snapshot.is_empty() && self.token.is_none() {
            return Err(Failure::usage("missing snapshot argument"));
        }
        let takes_streams = session.client().is_none_or(|client| client.takes_streams());
        if !self.dryrun && (ui::is_output_terminal(session) || !takes_streams) {
            return Err(Failure::new("Stream can not be written to a terminal")
                .hint("You must redirect standard output"));
        }
        Ok(())
    }

    /// Sends the rest of a stream.
    fn rest(&self, session: &Session, token: &str) -> Result<ExitCode, Failure> {
        let refused = |e: Error| Failure::from(e).about("cannot resume send").at(Stage::Resuming);
        let token = ResumeToken::decode(token).map_err(|e| refused(e.into()))?;
        let name = snapshot_of(&token);
        let pool = self.pool.clone().open(session, &name)?;
        let mut send = SendStream::resume(&pool, &token).map_err(refused)?;
        if let Some(pool) = self.held(session, &name) {
            send = send.held_in(&pool).map_err(|e| match e.kind() {
                ErrorKind::Refused(_) => cannot("send", &name, e),
                _ => refused(e),
            })?;
        }
        let progress = Progress::new();
        while_showing(session, &progress, || {
            if self.verbose || self.parsable {
                let size = send.estimate(&progress)?;
                let say = if self.dryrun { ui::out } else { ui::error };
                say(session, &streams::rest(&token, &send, size, self.parsable));
            }
            if self.dryrun {
                return Ok(ExitCode::SUCCESS);
            }
            ui::runs_on(session);
            let lost = AtomicBool::new(false);
            match send.run(Output(session, &lost), &progress) {
                Err(_) if lost.load(Ordering::Relaxed) => Ok(ExitCode::from(FAILED)),
                Err(e) => Err(cannot("send", &name, e)),
                Ok(()) => Ok(ExitCode::SUCCESS),
            }
        })
    }

    fn refused(&self, e: Error) -> Failure {
        let hint = e.hint().map(views::hints::text);
        match (e.kind(), hint) {
            (ErrorKind::Against(Rule::NotEarlier), _) if self.is_line() => {
                Failure::usage("incremental source must be in same filesystem")
            }
            (ErrorKind::Against(Rule::NotEarlier), Some(hint)) => {
                Failure::new(format!("cannot send '{}'", self.snapshot))
                    .because("not an earlier snapshot from the same fs")
                    .hint(hint)
            }
            (ErrorKind::Refused(_), _) => cannot("send", &self.snapshot, e),
            (ErrorKind::NotSent(Unsendable::EncryptedProperties), _) => {
                let short = self.snapshot.split_once('@').map_or("", |(_, short)| short);
                Failure::new(raw_only(e.dataset().unwrap_or_default(), short))
            }
            _ => e.into(),
        }
    }
}
