//! The terminal: the only place that writes to standard output and standard error.
//!
//! # Failures
//!
//! A reader that goes away (`| head`, EPIPE) wanted no more: the verb ends quietly, with exit code
//! 0. Every other error (a full disk, an input/output error, also one that shows only when the file
//! is closed) is a failure: the verb ends, that is said, and the exit code is 1. A verb that
//! changes a pool or a device ([`runs_on`]) is done to its end first; what could not be printed is
//! said then. One that was called off when it had done all did not fail: what it did is durable.
//! For a client of a server the same holds of the client's descriptors: the first loss is kept,
//! calls the verb off, and becomes its exit code ([`finish`]). A message that standard error did
//! not take makes the exit code 1 where it would be 0.

pub use term::{Table, escape, script_row};

use crate::failure::{FAILED, Failure};
use crate::session::Session;
use control::sink::{self, Lost};
use control::stream::Stream;
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use term::without_number;
use views::called;

/// Prints text for people to standard output.
pub fn out(session: &Session, text: &str) {
    // A failure is kept, and becomes the exit code.
    let _ = out_bytes(session, escape::text(text).as_bytes());
}

/// Prints lines for programs (`-H`) to standard output; see [`script_row`].
pub fn exact(session: &Session, text: &str) {
    match is_output_terminal(session) {
        true => out(session, text),
        false => drop(out_bytes(session, text.as_bytes())),
    }
}

/// Prints the rows of a table.
pub fn table(session: &Session, table: &Table) {
    match table.is_script() {
        true => exact(session, &table.text()),
        false => out(session, &table.text()),
    }
}

/// Prints bytes to standard output as they are.
///
/// # Errors
/// Output is lost, now or before: there is no use in going on.
pub fn out_bytes(session: &Session, bytes: &[u8]) -> io::Result<()> {
    if let Some(client) = session.client() {
        return client.print(bytes);
    }
    let own = &session.process().output;
    own.check()?;
    sink::write(io::stdout(), bytes).inspect_err(|e| {
        own.lose(e);
        if !own.runs_on() {
            // There is no reader for what would come: whatever the verb was doing ends here.
            session.end(finish(session, ExitCode::SUCCESS));
        }
    })
}

/// Standard output for what is written piece by piece: a client's, if a verb of it made this, also
/// when another thread writes.
pub struct Output(Session);

impl Output {
    /// That of this session.
    pub fn new(session: &Session) -> Self {
        Self(session.clone())
    }
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        out_bytes(&self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output and standard error for another program.
pub fn streams(session: &Session) -> io::Result<[OwnedFd; 2]> {
    match session.client() {
        Some(client) => {
            let [output, errors] = [&client.output, &client.errors];
            Ok([output.file().try_clone()?.into(), errors.file().try_clone()?.into()])
        }
        None => Ok([
            io::stdout().as_fd().try_clone_to_owned()?,
            io::stderr().as_fd().try_clone_to_owned()?,
        ]),
    }
}

/// Prints text for people to standard error. Numbers of the system's errors are left out here, so
/// that no message has them, whatever it was made of.
pub fn error(session: &Session, text: &str) {
    complain(session, &escape::text(&without_number(text.to_owned())));
}

/// Prints a message in one line to standard error: what it quotes forges no other.
pub fn note(session: &Session, text: &str) {
    error(session, &(called::begun(prefix(session), &escape::line(text)) + "\n"));
}

/// Prints a failure that does not end the command.
pub fn failure(session: &Session, failure: &Failure) {
    error(session, &failure.text(prefix(session)));
}

/// How messages begin.
fn prefix(session: &Session) -> &'static str {
    called::prefix(session.arguments())
}

fn complain(session: &Session, text: &str) {
    if let Some(client) = session.client() {
        return client.complain(text);
    }
    let process = session.process();
    let errors = || process.errors.get_or_init(errors_of_process);
    let written = match process.output.patience().map(|patience| (patience, errors())) {
        Some((patience, Ok(errors))) => errors.write(text.as_bytes(), patience),
        _ => sink::write(io::stderr(), text.as_bytes()),
    };
    written.unwrap_or_else(|e| process.output.lose_errors(&e));
}

/// Device and inode of the file that standard error is.
pub fn identity_of_errors() -> Option<(u64, u64)> {
    let stat = rustix::fs::fstat(io::stderr()).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Standard error of a process that waits for no reader.
fn errors_of_process() -> io::Result<Stream> {
    let errors = io::stderr().as_fd().try_clone_to_owned()?;
    Ok(Stream::new(File::from(errors)))
}

impl Failure {
    /// Prints it and gives the exit code.
    pub fn report(&self, session: &Session) -> ExitCode {
        error(session, &self.text(prefix(session)));
        self.code(session.arguments())
    }
}

/// Draws a line over the one that was drawn before, where standard error is a terminal; an empty
/// one at the end.
pub fn progress(session: &Session, line: &str) {
    if is_terminal(session) {
        complain(session, &format!("\r{}\x1b[K", escape::line(line)));
    }
}

/// The verb changes something from now on, and is done to its end even when its output is not
/// read any more.
pub fn runs_on(session: &Session) {
    match session.client() {
        Some(client) => client.output_state.run_on(),
        None => session.process().output.run_on(),
    }
}

/// This process is a server from now on: a message that is not read does not hold it up.
pub fn be_brief(session: &Session) {
    session.process().output.be_brief();
}

/// Ends what a verb printed: the exit code it has after all, when it would have `code`.
pub fn finish(session: &Session, code: ExitCode) -> ExitCode {
    let client = session.client();
    let output = client.map_or(&session.process().output, |client| &client.output_state);
    if output.lost().is_none() {
        let error = match &client {
            Some(client) => client.close_error(),
            None => sink::close_error(io::stdout()),
        };
        error.inspect(|e| output.lose(e));
    }
    let report = |failure: &Failure| match (&client, failure.text(prefix(session))) {
        (Some(client), text) => client.final_message(&text),
        (None, text) => complain(session, &text),
    };
    let code = match (output.lost(), client.and_then(|c| c.presence.reason())) {
        (Some(Lost::Failed(why)), _) => {
            report(&Failure::new("cannot write to standard output").because(why));
            ExitCode::from(FAILED)
        }
        (Some(Lost::ReaderGone), _) if !output.runs_on() => ExitCode::SUCCESS,
        // It was done to its end before it noticed, and what it did is durable.
        (_, Some(_)) if output.runs_on() && code == ExitCode::SUCCESS => code,
        (_, Some(why)) => {
            let what = match output.runs_on() {
                true => "the command was cancelled before it was complete",
                false => "the command was cancelled",
            };
            report(&Failure::new(what).because(why));
            ExitCode::from(FAILED)
        }
        _ => code,
    };
    let is_hidden = output.has_lost_errors() && code == ExitCode::SUCCESS;
    if is_hidden { ExitCode::from(FAILED) } else { code }
}

/// Standard error is a terminal: progress may be shown. A server shows none to its clients.
pub fn is_terminal(session: &Session) -> bool {
    session.client().is_none() && io::stderr().is_terminal()
}

/// Standard output is a terminal.
pub fn is_output_terminal(session: &Session) -> bool {
    session.client().map_or_else(|| io::stdout().is_terminal(), |c| c.is_terminal())
}

/// Prints a JSON value.
pub fn json(session: &Session, value: &serde_json::Value) {
    // A value cannot fail to become text: its keys are strings.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let _ = out_bytes(session, format!("{}\n", escape::json(&text)).as_bytes());
}

/// Prints JSON that is text already, as one line.
pub fn json_line(session: &Session, text: &str) {
    let _ = out_bytes(session, format!("{}\n", escape::json(text)).as_bytes());
}
