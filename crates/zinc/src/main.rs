//! The command `zinc`.
//!
//! One file per verb under `cmd/`, and below them what they share, in layers: no two of these
//! modules use each other, and all of them are in this table (`crates/tidy/tests/circles.rs`).
//!
//! | modules | what they are |
//! | --- | --- |
//! | `failure`, `refusals`, `json` | how a failure is reported, exit codes, JSON's shape |
//! | `session` | what a verb works with besides its arguments |
//! | `ui`, `local_time`, `progress` | the terminal |
//! | `target`, `report_file`, `txgs` | streams, directories and files that verbs write |
//! | `args`, `keys`, `objsets`, `stored_only` | options of many verbs, keys, sets of objects |
//! | `prices` | what requests and bytes of stores cost |
//! | `places`, `known`, `found` | where pools are |
//! | `served`, `queue`, `foreign_servers` | which process holds a pool, and waiting for it |
//! | `opening`, `live` | opening a pool to read it, or to change it |
//! | `mounting`, `exports` | what a process does with a pool that it holds |
//! | `cmd`, `cli` | the verbs, and the command line as a whole |
//!
//! Called under the name `zpool`, `zfs`, `zdb` or `zstream` the binary is that command, and as
//! `mount.fuse.zinc` it mounts for `mount`.
#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "a binary exports nothing; pub says what a module offers")]

mod args;
mod cli;
mod cmd;
mod exports;
mod failure;
mod foreign_servers;
mod found;
mod json;
mod keys;
mod known;
mod live;
mod local_time;
mod mounting;
mod objsets;
mod opening;
mod places;
mod prices;
mod progress;
mod queue;
mod refusals;
mod report_file;
mod served;
mod session;
mod stored_only;
mod target;
mod txgs;
mod ui;

use clap::CommandFactory as _;
use failure::Failure;
use session::{CommandTable, Process, Session};
use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use views::called;

/// If there is no more memory, the program prints a message and ends.
#[global_allocator]
static ALLOCATOR: engine::process::Allocator = engine::process::Allocator::of("zinc");

/// Stack of the thread that runs the verb: what systems give to the first one.
const STACK: usize = 8 << 20;
/// The name under which `mount -t fuse.zinc` runs the binary.
const MOUNT_HELPER: &str = "mount.fuse.zinc";
/// How often is looked whether devices answer, and how long one may be silent before that is said.
const LOOK: Duration = Duration::from_secs(5);
const SILENT: Duration = Duration::from_secs(10);
/// Exit code of a Rust program that panicked.
const PANICKED: u8 = 101;

/// Puts the verb in front when the binary is called under the name of one.
fn arguments() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().map(std::path::PathBuf::from);
    let name = name.and_then(|p| p.file_name().map(OsString::from)).unwrap_or_default();
    if called::NAMES.iter().any(|n| name == *n) {
        args.insert(1, name);
    } else if name == MOUNT_HELPER {
        return ::mount::called::helper_arguments(args);
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

/// The allocator keeps no more memory apart than processors can use at a time, and under a limit of
/// addresses takes few of them.
fn limit_memory() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    engine::process::limit_arenas(if limit.current.is_some() { 1 } else { processors });
}

/// As many files may be open as the administrator permits: the usual limit is low for programs that
/// use `select`, and a pool of many devices needs more.
fn raise_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
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
    let code = cli::run(session);
    let code = match code == ExitCode::SUCCESS && session.process().warned.is_still_listed() {
        true => ExitCode::FAILURE,
        false => code,
    };
    ui::finish(session, code)
}

/// Says which devices do not answer: what waits for them cannot.
fn say_silent(session: &Session) {
    let began = Instant::now();
    loop {
        for (name, time) in session.process().silence.look(began.elapsed(), SILENT) {
            let seconds = time.as_secs();
            ui::note(session, &format!("warning: {name} has not answered for {seconds} seconds"));
        }
        std::thread::sleep(LOOK);
    }
}

/// The verb runs in a thread of its own, and the process ends with the first exit code that arrives
/// here: that of the verb, or of what ends it at once ([`Session::end`]).
fn main() -> ExitCode {
    limit_memory();
    raise_limit_of_files();
    survive_file_limit();
    lose_what_is_closed();
    let (ends, ended) = mpsc::channel();
    let grammar = CommandTable { verbs: cli::Cli::command, run: cli::run_for_client };
    let session = Session::of_process(Process::new(arguments(), grammar, ends));
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
    if let Ok(code) = ended.recv_timeout(LOOK) {
        return code;
    }
    // A thread of its own, for it may have to wait as well. Without one nothing is said.
    let watcher = std::thread::Builder::new().name("silence".to_owned());
    let _ = watcher.spawn(move || say_silent(&session));
    ended.recv().unwrap_or(ExitCode::FAILURE)
}
