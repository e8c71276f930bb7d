//! Processes that serve pools and that this one cannot reach: those of other users but root, and
//! those whose sockets are elsewhere. Any user may see that they are there, and the command line
//! that started them.

use crate::failure::Failure;
use crate::served::Server;
use crate::session::Session;
use crate::ui::escape;
use engine::datasets::pool_of;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;

/// A process that serves a pool.
pub struct Process {
    pid: u32,
    user: u32,
    command: String,
    /// The pool, as its command line names it.
    pub pool: String,
}

impl Process {
    /// Its number, whose it is, and how it was started.
    pub fn shown(&self) -> String {
        let user = match self.user {
            0 => "root".to_owned(),
            number => format!("user {number}"),
        };
        format!("process {} of {user} (`{}`)", self.pid, self.command)
    }
}

/// The process with this number, if it serves a pool.
fn serving(session: &Session, pid: u32) -> Option<Process> {
    let place = format!("/proc/{pid}");
    let command = std::fs::read(format!("{place}/cmdline")).ok()?;
    let words: Vec<&[u8]> = command.split(|b| *b == 0).filter(|word| !word.is_empty()).collect();
    if !words.contains(&&b"serve"[..]) {
        return None;
    }
    let typed = words.iter().map(|word| OsString::from_vec(word.to_vec()));
    let matches = (session.process().grammar.verbs)().try_get_matches_from(typed).ok()?;
    let pool = matches.subcommand_matches("serve")?.get_one::<String>("pool")?.clone();
    let words: Vec<String> = words.iter().map(|word| escape::name(word)).collect();
    let user = std::fs::metadata(place).ok()?.uid();
    Some(Process { pid, user, command: words.join(" "), pool })
}

/// All that this process cannot reach. It is not one of them itself when it is about to serve a
/// pool, nor is the one that started it for that (`zinc serve -b`).
fn out_of_reach(session: &Session) -> Vec<Process> {
    let own = [std::process::id(), std::os::unix::process::parent_id()];
    let reached: Vec<u64> = Server::reachable(session).iter().map(|server| server.pid).collect();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let others = numbers.filter(|pid| !reached.contains(&u64::from(*pid)) && !own.contains(pid));
    others.filter_map(|pid| serving(session, pid)).collect()
}

/// Those of other users.
pub fn of_other_users(session: &Session) -> Vec<Process> {
    let user = session.user();
    out_of_reach(session).into_iter().filter(|process| u64::from(process.user) != user).collect()
}

/// Adds to a failure to find a pool which process has it, if that can be seen.
pub fn explain(session: &Session, failure: Failure, name: &str) -> Failure {
    let wanted = pool_of(name);
    let found = out_of_reach(session).into_iter().find(|process| process.pool == wanted);
    match found {
        Some(process) => failure.because(format!("{} may have it", process.shown())),
        None => failure,
    }
}
