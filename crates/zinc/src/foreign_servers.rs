//! Processes that serve pools and that this one cannot reach: those of other users but root, and
//! those whose sockets are elsewhere.

use crate::failure::Failure;
use crate::served::Server;
use crate::session::Session;
use crate::ui::escape;
use control::{ForeignServer, foreign_servers};
use engine::datasets::pool_of;
use std::ffi::OsString;

/// Its number, whose it is, and how it was started.
pub fn shown(process: &ForeignServer) -> String {
    let user = match process.user {
        0 => "root".to_owned(),
        number => format!("user {number}"),
    };
    let words: Vec<String> = process.words.iter().map(|word| escape::name(word)).collect();
    format!("process {} of {user} (`{}`)", process.pid, words.join(" "))
}

/// All that this process cannot reach.
fn out_of_reach(session: &Session) -> Vec<ForeignServer> {
    let reached: Vec<u64> = Server::reachable(session).iter().map(|server| server.pid).collect();
    let pool = |typed: Vec<OsString>| {
        let matches = (session.process().grammar.verbs)().try_get_matches_from(typed).ok()?;
        matches.subcommand_matches("serve")?.get_one::<String>("pool").cloned()
    };
    foreign_servers(&reached, &pool)
}

/// Those of other users.
pub fn of_other_users(session: &Session) -> Vec<ForeignServer> {
    let user = session.user();
    out_of_reach(session).into_iter().filter(|process| u64::from(process.user) != user).collect()
}

/// Adds to a failure to find a pool which process has it, if that can be seen.
pub fn explain(session: &Session, failure: Failure, name: &str) -> Failure {
    let wanted = pool_of(name);
    let found = out_of_reach(session).into_iter().find(|process| process.serves == wanted);
    match found {
        Some(process) => failure.because(format!("{} may have it", shown(&process))),
        None => failure,
    }
}
