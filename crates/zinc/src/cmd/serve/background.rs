//! `zinc serve -b` and `zinc mount`: the same command once more, as a process of its own; this one
//! waits until that one is ready, reports it, and ends.

use crate::failure::{FAILED, Failure};
use crate::session::Session;
use crate::{target, ui};
use control::again;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use term::escape;
use views::called;

/// The option that marks the second process.
pub const INNER: &str = "serve-now";

/// The first character of the ready line when a requested mount is missing.
const INCOMPLETE: char = '!';

/// The line by which the second process reports that it is ready.
pub fn ready_line(line: &str, is_complete: bool) -> String {
    if is_complete { line.to_owned() } else { format!("{INCOMPLETE}{line}") }
}

/// Starts the process. Its output before it is ready is printed here, and with `says` also that it
/// is ready.
pub fn start(session: &Session, log: Option<&Path>, says: bool) -> Result<ExitCode, Failure> {
    start_with(session, None, log, says)
}

/// The same, with another word behind the command line.
pub fn start_with(
    session: &Session,
    more: Option<OsString>,
    log: Option<&Path>,
    says: bool,
) -> Result<ExitCode, Failure> {
    let fail = |e: std::io::Error| {
        Failure::new("cannot start the process that serves").because(e.to_string())
    };
    let mut args: Vec<OsString> = session.arguments().iter().skip(1).cloned().chain(more).collect();
    // Behind the verb, which is the first word, or the second behind the command it is of.
    let behind = if args.first().is_some_and(|word| word == "zfs") { 2 } else { 1 };
    args.insert(args.len().min(behind), format!("--{INNER}").into());
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    if let Some(name) = called::name(session.arguments()) {
        // Its messages are this one's.
        command.arg0(name);
        args.remove(0);
    }
    // A group of its own: what the terminal sends to this one is not meant for it.
    command.args(args).process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
    match log {
        Some(path) => command.stderr(target::stream_to(session, path)?),
        None => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().map_err(fail)?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(fail)?;
    }
    if !line.is_empty() {
        ui::runs_on(session);
        if let Some(mut errors) = child.stderr.take() {
            // Its later messages have no reader.
            rustix::io::ioctl_fionbio(&errors, true).map_err(|e| fail(e.into()))?;
            let mut message = Vec::new();
            // It ends with an error where there is nothing more yet.
            let _ = errors.read_to_end(&mut message);
            ui::error(session, &String::from_utf8_lossy(&message));
        }
        let (line, code) = match line.strip_prefix(INCOMPLETE) {
            Some(line) => (line, ExitCode::from(FAILED)),
            None => (line.as_str(), ExitCode::SUCCESS),
        };
        if says && ui::out_bytes(session, escape::text(line).as_bytes()).is_err() {
            // The exit code means that output is lost, and not that nothing was started.
            let line = line.trim_end();
            ui::note(session, &format!("the server has started in spite of this: {line}"));
        }
        return Ok(code);
    }
    let mut message = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut message).map_err(fail)?;
    }
    if let Some(path) = log {
        message = again::logged(&session.path(path)).unwrap_or_default();
        if message.is_empty() {
            ui::note(session, &format!("it could not be started: {} says why", path.display()));
        }
    }
    ui::error(session, &message);
    let code = child.wait().map_err(fail)?.code().and_then(|c| u8::try_from(c).ok());
    Ok(ExitCode::from(code.unwrap_or(FAILED)))
}

/// Has a pool served from now on, so that its keys are held, as `zinc serve -b`, `zfs load-key` and
/// with `mounts` `zfs mount -a` would. The exit code says whether all was done.
pub fn with_keys(
    session: &Session,
    search: &[PathBuf],
    pool: &str,
    mounts: bool,
) -> Result<ExitCode, Failure> {
    let places: Vec<PathBuf> = search.iter().map(|place| session.path(place)).collect();
    let done = again::served_with_keys(&places, pool, mounts).map_err(|e| {
        Failure::new(format!("cannot start the process that serves '{pool}'"))
            .because(e.to_string())
    })?;
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
