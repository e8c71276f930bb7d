//! The command `zinc`.
//!
//! One file per verb under `cmd/`; what they share is in `common.rs` (opening a pool, keys),
//! `ui.rs` (tables, JSON, progress) and `failure.rs` (what is said when something fails, and exit
//! codes). Called under the name `zpool`, `zfs` or `zdb` the binary is that command.
#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a binary exports nothing; pub says what a module offers")]

mod cannot;
mod cli;
mod cmd;
mod common;
mod failure;
mod found;
mod hints;
mod host;
mod json;
mod kept;
mod keys;
mod known;
mod live;
mod local_time;
mod missing;
mod names;
mod objsets;
mod others;
mod place;
mod progress;
mod queue;
mod report_file;
mod served;
mod session;
mod target;
mod txgs;
mod ui;
mod version;

use clap::Parser as _;
use failure::Failure;
use session::Session;
use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};

/// Stack of the thread that runs the verb: what systems give to the first one.
const STACK: usize = 8 << 20;
/// Exit code of a Rust program that panicked.
const PANICKED: u8 = 101;

/// Puts the verb in front when the binary is called under the name of one.
fn arguments() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(std::path::PathBuf::from);
    let name = name.and_then(|p| p.file_name().map(OsString::from)).unwrap_or_default();
    if ["zpool", "zfs", "zdb"].iter().any(|n| name == *n) {
        args.insert(1, name);
    }
    args
}

/// A file that reaches the limit of its size (`ulimit -f`) is an error of its write, and not the
/// end of the process: a signal that has a handler does not end it.
fn survive_file_limit() {
    let noted = Arc::new(AtomicBool::new(false));
    // Where there can be no handler the system's way stays.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted);
}

/// Output to a stream that was closed (`>&-`) is an error as with any other program, and does not
/// vanish.
fn lose_what_is_closed() {
    if engine::process::was_stdout_closed()
        && let Ok(none) = std::fs::File::open("/dev/null")
    {
        // Open to be read, so that each write fails. Where that cannot be, output vanishes.
        let _ = rustix::stdio::dup2_stdout(none);
    }
}

/// Runs the command line; the exit code.
fn run(session: &Session) -> ExitCode {
    let mut words = arguments();
    let is_link = words.len() > std::env::args_os().len();
    // Usage names the command as this manual does, whatever the link to it is called.
    if let Some(program) = words.first_mut() {
        *program = OsString::from("zinc");
    }
    let code = match cli::Cli::try_parse_from(&words) {
        Ok(cli) => cli::run_or_report(session, cli.command.verb()),
        Err(e) => cli::explain(session, &words, &e, is_link),
    };
    let code = match code == ExitCode::SUCCESS && known::still_lists(session) {
        true => ExitCode::FAILURE,
        false => code,
    };
    ui::finish(session, code)
}

/// The verb runs in a thread of its own, and the process ends with the first exit code that arrives
/// here: that of the verb, or of who ends it at once ([`Session::end`]).
fn main() -> ExitCode {
    survive_file_limit();
    lose_what_is_closed();
    let (ends, ended) = mpsc::channel();
    let session = Session::of_process(ends);
    let own = session.clone();
    let verb = move || {
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| run(&own)));
        // One that panicked has said so.
        own.ended(ran.unwrap_or(ExitCode::from(PANICKED)));
    };
    let verb = std::thread::Builder::new().name("verb".to_owned()).stack_size(STACK).spawn(verb);
    if let Err(e) = verb {
        return Failure::from(e).about("cannot start a thread").report(&session);
    }
    // The session is alive, and with it the way to here.
    ended.recv().unwrap_or(ExitCode::FAILURE)
}
