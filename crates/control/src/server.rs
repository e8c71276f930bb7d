//! Answering: one thread accepts, one more for each connection reads its lines and answers them in
//! order.
//!
//! A connection that sends nonsense is told so; one that sends a line without an end is told so and
//! hung up, and so is one that does not read its answers. A request whose handler panics costs that
//! request. At most [`CONNECTIONS_MAX`] are open; then one that waits makes room ([`connections`]),
//! or the next one is told to come back.
//!
//! A server of root answers other users too. They have [`OTHERS_MAX`] connections of their own, so
//! that they keep out only each other, and what they may ask is the handler's business.

use crate::place::{Endpoint, is_trusted, user};
use crate::protocol::{REQUEST_MAX, Refusal, Request, answer};
use crate::wire::{LineError, Lines, send};
use connections::{Connections, Slot};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use serde_json::Value;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Connections open at once.
const CONNECTIONS_MAX: usize = 64;
/// Connections of other users open at once.
const OTHERS_MAX: usize = 16;
/// A client that has waited no longer than this is not hung up for another one.
const SPARED: Duration = Duration::from_millis(20);
/// How long a client may take to read an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that make room when the system has no more files: a command brings some.
const ROOM: usize = 8;
/// How long the accepting thread rests when the system has no more files for it.
const REST: Duration = Duration::from_millis(100);

/// The process that asks, as the system says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// It is neither the server's user nor root.
    pub is_other: bool,
}

impl Peer {
    /// The groups it is in: its own, and those that the system says its process has besides. Where
    /// the process is gone or has become another user's, its own alone.
    #[must_use]
    pub fn groups(&self) -> Vec<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let mut groups = more_groups(&status.unwrap_or_default(), self.user);
        groups.insert(0, self.group);
        groups
    }
}

/// The supplementary groups of a process by its `/proc/PID/status`, if it is this user's in every
/// respect.
fn more_groups(status: &str, user: u32) -> Vec<u32> {
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let numbers = line.unwrap_or_default().split_whitespace().map(str::parse);
        numbers.collect::<Result<Vec<u32>, _>>().unwrap_or_default()
    };
    let users = line("Uid:");
    let is_theirs = !users.is_empty() && users.iter().all(|one| *one == user);
    if is_theirs { line("Groups:") } else { Vec::new() }
}

/// The handler of requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one. `files` are those that came with it.
    ///
    /// # Errors
    /// The error for the client.
    fn handle(&self, request: &Request, peer: Peer, files: Vec<OwnedFd>) -> Result<Value, Refusal>;

    /// The answer to this request was sent.
    fn answered(&self, request: &Request);
}

/// A socket that is being answered. Dropping it takes its name away; connections that are open go
/// on until the process ends.
pub struct Server {
    endpoint: Endpoint,
}

impl Server {
    /// Begins to answer.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(endpoint: Endpoint, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = endpoint.listener()?;
        let connections = Connections::new(CONNECTIONS_MAX, SPARED);
        // Not spared: the accepting thread would wait for them.
        let others = Connections::new(OTHERS_MAX, Duration::ZERO);
        let accept = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => begin(stream, &handler, &connections, &others),
                    Err(e) => {
                        if matches!(Errno::from_io_error(&e), Some(Errno::MFILE | Errno::NFILE)) {
                            connections.make_room(ROOM);
                            others.make_room(ROOM);
                        }
                        std::thread::sleep(REST);
                    }
                }
            }
        };
        std::thread::Builder::new().name("control".to_owned()).spawn(accept)?;
        Ok(Self { endpoint })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::to_owned(self.endpoint.path())
    }
}

fn begin(
    stream: UnixStream,
    handler: &Arc<dyn Handler>,
    connections: &Arc<Connections<Arc<UnixStream>>>,
    others: &Arc<Connections<Arc<UnixStream>>>,
) {
    let stream = Arc::new(stream);
    if stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let refuse = |what: &str| {
        let _ = send(&stream, &answer(&Value::Null, &Err(Refusal::new(what))), &[]);
    };
    let Ok(peer) = socket_peercred(&stream) else { return };
    let peer = Peer {
        pid: peer.pid.as_raw_nonzero().get(),
        user: peer.uid.as_raw(),
        group: peer.gid.as_raw(),
        is_other: !is_trusted(peer.uid.as_raw()),
    };
    // The mode of the socket says the same; a folder that was moved or a file that was handed on
    // does not get around this.
    if peer.is_other && user() != 0 {
        return refuse("only the user that serves the pool may ask");
    }
    let Some(slot) = (if peer.is_other { others } else { connections }).admit(Arc::clone(&stream))
    else {
        return refuse("too many connections: try again later");
    };
    let handler = Arc::clone(handler);
    let converse = move || converse(&stream, &slot, peer, &*handler);
    // Without a thread the connection is closed, which the client reports.
    let _ = std::thread::Builder::new().name("control_client".to_owned()).spawn(converse);
}

fn converse(stream: &UnixStream, slot: &Slot<Arc<UnixStream>>, peer: Peer, handler: &dyn Handler) {
    let mut lines = Lines::new(stream, REQUEST_MAX);
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Err(LineError::TooLong) => {
                let what = format!("a request has at most {REQUEST_MAX} bytes");
                let _ = send(stream, &answer(&Value::Null, &Err(Refusal::new(what))), &[]);
                return;
            }
            Ok(None) | Err(LineError::Io(_)) => return,
        };
        if !slot.begin() {
            return;
        }
        let request = match Request::decode(&line.bytes) {
            Ok(request) => request,
            Err((id, refusal)) => match send(stream, &answer(&id, &Err(refusal)), &[]) {
                Ok(()) => {
                    slot.end();
                    continue;
                }
                Err(_) => return,
            },
        };
        if line.lacks_files {
            slot.make_room(ROOM);
        }
        let handle = AssertUnwindSafe(|| match line.lacks_files {
            true => Err(Refusal::new("the server cannot take the files of the command")
                .because("it has as many files open as it may (`ulimit -n`)")
                .hint("fewer commands at a time; or a higher limit, as by LimitNOFILE= in a unit")),
            false => handler.handle(&request, peer, line.files),
        });
        let result = catch_unwind(handle).unwrap_or_else(|_| {
            let what = format!("the server failed at the request \"{}\"", request.verb);
            Err(Refusal::new(what).hint("its standard error says more"))
        });
        let sent = send(stream, &answer(&request.id, &result), &[]);
        handler.answered(&request);
        if sent.is_err() {
            return;
        }
        slot.end();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::client::{CallError, Client};
    use serde_json::json;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn groups_count_only_for_processes_of_that_user() {
        let status = |uid: &str| format!("Name:\tx\nUid:\t{uid}\nGid:\t9\nGroups:\t4 24 1000 \n");
        assert_eq!(more_groups(&status("7\t7\t7\t7"), 7), [4, 24, 1000]);
        // Another user's, one that is both (set-user-id), and a number that begins the same.
        for other in ["8\t8\t8\t8", "7\t0\t7\t7", "7\t7\t7\t0", "77\t77\t77\t77", "", "x"] {
            assert_eq!(more_groups(&status(other), 7), [0; 0], "{other}");
        }
        assert_eq!(more_groups("", 7), [0; 0]);
        assert_eq!(more_groups("Uid:\t7\t7\t7\t7\nGroups:\t\n", 7), [0; 0]);
    }

    /// Requests that are being answered until they may end.
    static HERE: AtomicUsize = AtomicUsize::new(0);
    static STAY: AtomicBool = AtomicBool::new(true);

    struct Echo;

    impl Handler for Echo {
        fn handle(
            &self,
            request: &Request,
            peer: Peer,
            files: Vec<OwnedFd>,
        ) -> Result<Value, Refusal> {
            match request.verb.as_str() {
                "echo" => Ok(json!({ "got": request.params, "files": files.len() })),
                "who" => Ok(json!(peer.pid)),
                "stay" => {
                    HERE.fetch_add(1, Ordering::Relaxed);
                    while STAY.load(Ordering::Relaxed) {
                        std::thread::sleep(REST / 100);
                    }
                    Ok(Value::Null)
                }
                "panic" => panic!("as it was asked to"),
                other => Err(Refusal::new(format!("cannot {other}"))),
            }
        }

        fn answered(&self, _: &Request) {}
    }

    fn server(dir: &Path) -> Server {
        let endpoint = Endpoint::listen(&dir.join("s")).unwrap();
        Server::start(endpoint, Arc::new(Echo)).unwrap()
    }

    #[test]
    fn requests_are_answered_in_order_and_mistakes_cost_one_request() {
        let dir = tempfile::tempdir().unwrap();
        let server = server(dir.path());
        let mut client = Client::connect(&server.path(), None).unwrap();
        let answer = client.call("echo", json!({ "a": 1 })).unwrap();
        assert_eq!(answer, json!({ "got": { "a": 1 }, "files": 0 }));
        assert_eq!(client.call("who", Value::Null).unwrap(), json!(std::process::id()));
        let refused = client.call("panic", Value::Null);
        assert!(matches!(refused, Err(CallError::Refused(r)) if r.what.contains("failed at")));
        let refused = client.call("fly", Value::Null);
        assert!(matches!(refused, Err(CallError::Refused(r)) if r.what == "cannot fly"));
        assert!(client.call("echo", Value::Null).is_ok());
    }

    #[test]
    fn nonsense_is_answered_and_the_connection_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let server = server(dir.path());
        let mut stream = UnixStream::connect(server.path()).unwrap();
        stream.write_all(b"\xff\n{}\n{\"id\":5,\"do\":\"who\"}\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(next()["error"]["what"], "not a request");
        assert_eq!(next()["error"]["because"][0], "it has no `do`");
        assert_eq!(next(), json!({ "id": 5, "ok": std::process::id() }));
    }

    #[test]
    fn there_is_a_last_connection() {
        let dir = tempfile::tempdir().unwrap();
        let server = server(dir.path());
        let connect = |_| Client::connect(&server.path(), None).unwrap();
        let stay = |mut client: Client| move || client.call("stay", Value::Null).unwrap();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..CONNECTIONS_MAX)
                .map(|i| {
                    let thread = scope.spawn(stay(connect(i)));
                    // One after the other: none comes in while another has not sent its request.
                    while HERE.load(Ordering::Relaxed) <= i {
                        std::thread::yield_now();
                    }
                    thread
                })
                .collect();
            let refused = connect(0).call("who", Value::Null);
            STAY.store(false, Ordering::Relaxed);
            assert!(matches!(refused, Err(CallError::Refused(r)) if r.what.contains("too many")));
            all.into_iter().for_each(|thread| drop(thread.join().unwrap()));
        });
    }

    /// Silent ones come and come; one of them sends a byte now and then, which is not a request.
    #[test]
    fn clients_that_say_nothing_keep_out_none_that_asks() {
        let dir = tempfile::tempdir().unwrap();
        let server = server(dir.path());
        let connect = || UnixStream::connect(server.path()).unwrap();
        let mut first = Client::connect(&server.path(), None).unwrap();
        first.call("who", Value::Null).unwrap();
        let mut slow = connect();
        let mut idle = Vec::new();
        for round in 0..4 {
            idle.extend((0..CONNECTIONS_MAX).map(|_| connect()));
            let _ = slow.write_all(b"{");
            let answer = Client::connect(&server.path(), None).unwrap().call("who", Value::Null);
            assert!(answer.is_ok(), "{round}: {answer:?}");
        }
        assert!(first.call("who", Value::Null).is_ok(), "one that asks keeps its place");
    }
}
