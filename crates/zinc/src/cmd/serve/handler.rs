//! The server's requests.
//!
//! | `do` | parameters | answer |
//! | --- | --- | --- |
//! | `ping` | | pool, guid, process |
//! | `status` | | the same, with the durable txg, why the pool was stopped or is let go, and what
//! runs for clients |
//! | `txgs` | `count`, `alive` | records of the last txgs, oldest first; if `alive`, of all |
//! | `stats` | | a snapshot of all counters |
//! | `report` | | what the page in a browser has beside them: space, scan, advice |
//! | `tunables` | `set`, an object of values by name | the values, all or those that were set |
//! | `sync` | | the txg that is durable now |
//! | `export` | `command`, `force`, `destroy` | nothing, or why it is only let go; then the end |
//! | `unmount` | `dirs`, `force` | nothing; the mounts are gone, or all are still there |
//! | `run` | `args`, `folder`, `environment`, three files | the exit code of that command |
//!
//! A fourth file of `run`, the end of a stream whose other end the client keeps, says when the
//! client is gone. Another user's client gets with the answer what its command prints; or it sends
//! two sockets: what is printed goes into the first, and the second is such an end.

use crate::failure::{FAILED, Failure};
use crate::known;
use crate::mounting::report_failures;
use crate::served::{denied, file_name};
use crate::session::{self, Client, Session};
use crate::txgs::keep_last;
use crate::ui;
use ::mount::datasets::{DatasetError, Follower, Unmounted};
use ::mount::{Mounts, UnmountMode};
use agents::Held;
use control::feed::StreamEnd;
use control::held::{CloseMode, NotReleased};
use control::sink::{OutputState, two_sockets};
use control::stream::Stream;
use control::{Captured, ClientWatch, CommandLine, Handler, Peer, Presence};
use control::{Refusal, Request, SocketFile};
use engine::LivePool;
use engine::live::{Invocation, Setting, Tunable, TunableError};
use engine::permissions::Caller;
use engine::pools::{EndPool, Ended};
use hostfs::host;
use imported::Listed;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use views::tunables::to_json;

/// How long each request of another user waits.
const OTHERS_WAIT: Duration = Duration::from_millis(20);

/// How a client's export ended; the server ends with it.
pub enum Exported {
    /// It was done.
    Done,
    /// It failed, and the pool is no longer held: it is as after a crash.
    Failed(String),
    /// The pool had been stopped for this reason, and was let go of by force.
    LetGo(String),
}

/// The service.
pub struct Service {
    session: Session,
    held: Arc<Held>,
    mounts: Arc<Mounts>,
    mounts_all: bool,
    listed: Arc<Listed>,
    socket: Arc<SocketFile>,
    outcome: Mutex<Option<Exported>>,
    answered: Box<dyn Fn(Option<Exported>) + Send + Sync>,
}

impl Service {
    /// `answered` is called after a client had the pool exported, when it got the result, and
    /// whenever a client was answered and nothing is mounted.
    pub fn new(
        session: Session,
        (held, mounts, listed): (Arc<Held>, Arc<Mounts>, Arc<Listed>),
        mounts_all: bool,
        socket: Arc<SocketFile>,
        answered: impl Fn(Option<Exported>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            session,
            held,
            mounts,
            mounts_all,
            listed,
            socket,
            outcome: Mutex::default(),
            answered: Box::new(answered),
        }
    }

    /// The pool may have another guid now (`zpool reguid`): the socket's name follows it, or a copy
    /// of the pool with the old one could not be served.
    fn follow(&self, guid: u64) {
        let old = self.held.set_guid(guid);
        if old != guid {
            self.socket.rename(&file_name(old), &file_name(guid));
        }
    }

    fn ping(&self) -> Value {
        json!({
            "pool": self.held.name(),
            // A guid does not fit into the numbers that most JSON readers have.
            "guid": self.held.guid().to_string(),
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "socket": self.socket.path().to_string_lossy(),
        })
    }

    fn status(&self) -> Result<Value, Refusal> {
        let mut about = self.ping();
        let (closing, commands) = self.held.activity();
        about["closing"] = json!(closing);
        about["commands"] =
            commands.iter().map(|(pid, shown)| json!({ "pid": pid, "command": shown })).collect();
        self.held.look(|pool| {
            about["synced_txg"] = json!(pool.last_synced());
            about["suspended"] = json!(pool.suspended().as_deref());
            about["records"] = json!(pool.txgs().len());
            Ok(about)
        })
    }

    fn txgs(&self, request: &Request) -> Result<Value, Refusal> {
        let count = request.number("count")?.and_then(|n| usize::try_from(n).ok());
        let alive = request.params.get("alive").and_then(Value::as_bool) == Some(true);
        self.held.look(|pool| {
            // In this order: what becomes durable between the two looks is seen twice, not never.
            let alive = if alive { pool.txgs_alive() } else { Vec::new() };
            let mut records = pool.txgs();
            keep_last(&mut records, count);
            let durable = records.last().map_or(0, |r| r.txg);
            records.extend(alive.into_iter().filter(|r| r.txg > durable));
            serde_json::to_value(records).map_err(|e| {
                Refusal::new("cannot list the transaction groups").because(e.to_string())
            })
        })
    }

    fn stats(&self) -> Result<Value, Refusal> {
        self.held.look(|pool| {
            serde_json::to_value(pool.stats())
                .map_err(|e| Refusal::new("cannot read the statistics").because(e.to_string()))
        })
    }

    fn report(&self) -> Result<Value, Refusal> {
        self.held.look(|pool| {
            let report = page::Report::of(pool).map_err(|e| refusal(&Failure::from(e)))?;
            serde_json::to_value(report)
                .map_err(|e| Refusal::new("cannot make a report").because(e.to_string()))
        })
    }

    fn tunables(&self, request: &Request, peer: Peer) -> Result<Value, Refusal> {
        let wrong = |e: TunableError| refusal(&Failure::from(e));
        let set = match request.params.get("set") {
            None => Map::new(),
            Some(Value::Object(map)) => map.clone(),
            Some(_) => {
                return Err(Refusal::new("bad request \"tunables\": `set` is not an object"));
            }
        };
        let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let setting = |(name, value)| Setting::parse(&format!("{name}={}", word(value)));
        let set: Vec<Setting> = set.iter().map(setting).collect::<Result<_, _>>().map_err(wrong)?;
        let work = |pool: &LivePool| {
            set.iter().for_each(|s| pool.set_tunable(*s));
            let shown = match set.is_empty() {
                true => Tunable::ALL.to_vec(),
                false => set.iter().map(|s| s.tunable).collect(),
            };
            let value = |t: &Tunable| to_json(t.row(), Some(pool.tunables().get(*t)));
            Ok(shown.iter().map(value).collect())
        };
        match set.is_empty() {
            true => self.held.look(work),
            false => self.held.work("zinc tunables", peer.pid, &Arc::default(), |pool| work(pool)),
        }
    }

    fn sync(&self, peer: Peer) -> Result<Value, Refusal> {
        self.held.work("zinc zpool sync", peer.pid, &Arc::default(), |pool| {
            pool.sync().map_err(|e| refusal(&Failure::from(e)))?;
            Ok(json!({ "txg": pool.last_synced() }))
        })
    }

    fn export(&self, request: &Request, peer: Peer) -> Result<Value, Refusal> {
        let command = request.text("command")?.unwrap_or("zpool export").to_owned();
        let is_set = |name| request.params.get(name) == Some(&Value::Bool(true));
        let (forced, destroys) = (is_set("force"), is_set("destroy"));
        let verb = if destroys { "destroy" } else { "export" };
        let invocation = Invocation { command, who: u64::from(peer.user), host: host::name() };
        let end = if destroys { EndPool::destroy() } else { EndPool::export() };
        let end = end.by(invocation).by_force(forced);
        let begin =
            |pool: &LivePool| end.begin(pool).map_err(|e| stopped_or(pool, &Failure::from(e)));
        let end = self.held.look(begin)?;
        let log = |pool: &LivePool| {
            if forced {
                // Mounts of a command that was about to end.
                self.unmount_all(verb, true)?;
            }
            end.log(pool).map_err(|e| stopped_or(pool, &Failure::from(e)))
        };
        let taken = self.unmount_all(verb, forced)?;
        let mode = if forced { CloseMode::Forced } else { CloseMode::Polite };
        let pool = self.held.release(mode, log).map_err(|kept| {
            if let Some(pool) = self.held.pool() {
                report_failures(&self.session, self.follower(&pool).put_back(&taken));
            }
            self.kept(verb, kept)
        })?;
        let ended = end.finish(pool, |guid| {
            self.listed.forget(&known::pools(&self.session), guid);
        });
        // Before the answer, so that this client's next command does not meet a server that is
        // ending.
        self.socket.remove();
        let (outcome, mut answer) = match ended.map_err(|e| refusal(&Failure::from(e))) {
            Ok(Ended::Complete) => (Exported::Done, Ok(Value::Null)),
            Ok(Ended::Suspended(why)) => {
                (Exported::LetGo(why.to_string()), Ok(json!({ "suspended": *why })))
            }
            Ok(Ended::Lost(why)) => {
                let why = refusal(&Failure::from(why)).what;
                let answer = json!({ "lost": why });
                (Exported::LetGo(why), Ok(answer))
            }
            Err(refusal) => (Exported::Failed(refusal.to_string()), Err(refusal)),
        };
        if self.session.process().warned.is_still_listed()
            && let Ok(answer) = &mut answer
        {
            answer["listed"] = Value::Bool(true);
        }
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        answer
    }

    fn follower<'a>(&'a self, pool: &'a Arc<LivePool>) -> Follower<'a> {
        Follower { pool, mounts: &self.mounts, mounts_all: self.mounts_all }
    }

    /// Unmounts everything, because the pool is about to be exported or destroyed. Returns what is
    /// needed to mount it again if the pool stays after all; by force nothing.
    fn unmount_all(&self, verb: &str, forced: bool) -> Result<Vec<Unmounted>, Refusal> {
        let busy = |why: String| {
            Refusal::new(format!("cannot {verb} '{}': pool is busy", self.held.name()))
                .because(why)
                .hint(format!("end them, or use `zinc zpool {verb} -f`"))
        };
        if !forced {
            let pool = self.held.pool().ok_or_else(|| Refusal::new("the pool is gone"))?;
            return self.follower(&pool).take_all().map_err(|(e, left)| {
                report_failures(&self.session, left);
                match e {
                    DatasetError::Unmount { error, .. } => busy(error.to_string()),
                    e => refusal(&Failure::from(e)),
                }
            });
        }
        for one in self.mounts.all().into_iter().rev() {
            let done = self.mounts.unmount(&one.dir, UnmountMode::Forcibly);
            done.map_err(|e| busy(e.to_string()))?;
        }
        let done = self.mounts.end_lingering(|_| true, UnmountMode::Forcibly);
        done.map(|()| Vec::new()).map_err(|(_, e)| busy(e.to_string()))
    }

    /// Takes mounts away, when all that was written is durable.
    fn unmount(&self, request: &Request, peer: Peer) -> Result<Value, Refusal> {
        let dirs = request.words("dirs")?.into_iter().map(PathBuf::from).collect::<Vec<_>>();
        let force = request.params.get("force") == Some(&Value::Bool(true));
        self.held.work("zinc unmount", peer.pid, &Arc::default(), |pool| {
            if !force {
                pool.sync().map_err(|e| refusal(&Failure::from(e)))?;
            }
            let how = if force { UnmountMode::Forcibly } else { UnmountMode::Politely };
            self.follower(pool).unmount(&dirs, how).map_err(|(e, left)| {
                report_failures(&self.session, left);
                refusal(&Failure::from(e))
            })?;
            Ok(Value::Null)
        })
    }

    /// Why a client's export was refused.
    fn kept(&self, verb: &str, kept: NotReleased) -> Refusal {
        let name = self.held.name();
        match kept {
            NotReleased::Closing => Refusal::new(format!("{name} is being exported already")),
            NotReleased::Failed(refusal) => refusal,
            NotReleased::Busy(commands) => {
                let busy = Refusal::new(format!("cannot {verb} '{name}': pool is busy"));
                let busy = commands.into_iter().fold(busy, Refusal::because);
                busy.hint(format!("wait for its end, or cancel it with `zinc zpool {verb} -f`"))
            }
        }
    }

    /// Runs a verb for another user, which may look at the pool, make changes for which it has
    /// permissions, and name no file: this process opens files with its own rights. The output of
    /// the verb goes into memory and back with the answer, and nothing of the client is waited for;
    /// but a stream goes through a socket, whose reader or writer is set free when the client is
    /// gone.
    fn show(
        &self,
        request: &Request,
        peer: Peer,
        sockets: Option<[UnixStream; 2]>,
    ) -> Result<Value, Refusal> {
        let cannot = |e: std::io::Error| Refusal::new("cannot run").because(e.to_string());
        let captured = Captured::new().map_err(cannot)?;
        let line = CommandLine::of(request, &[])?;
        let presence: Arc<Presence> = Arc::default();
        presence.set_preemptible();
        let end = StreamEnd::of(&line.args);
        let sockets = sockets.filter(|_| end.is_some());
        let (stream, watch) = sockets.map(<(_, _)>::from).unzip();
        let watch = watch.map(|watch| ClientWatch::watch(watch, &presence)).transpose();
        let watch = watch.map_err(cannot)?;
        let streams = captured.streams(stream.as_ref().zip(end)).map_err(cannot)?;
        let begun = || watch.iter().for_each(ClientWatch::begun);
        let code = self.run_line(line, peer, streams, &presence, begun);
        if let Some(stream) = stream {
            // A thread that still writes to it, or reads from it, ends.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let code = code?;
        let [output, errors] = captured.texts().map_err(cannot)?;
        Ok(json!({ "code": code, "output": output, "errors": errors }))
    }

    fn run(
        &self,
        request: &Request,
        peer: Peer,
        mut files: Vec<OwnedFd>,
    ) -> Result<Value, Refusal> {
        if peer.is_other {
            // Other files are not touched: a write to one may never end.
            return self.show(request, peer, two_sockets(files, peer.user));
        }
        let presence: Arc<Presence> = Arc::default();
        let client_watch = if files.len() > 3 { files.pop() } else { None };
        let client_watch =
            client_watch.map(|end| ClientWatch::watch(UnixStream::from(end), &presence));
        let client_watch = client_watch
            .transpose()
            .map_err(|e| Refusal::new("cannot run: no thread for it").because(e.to_string()))?;
        let line = CommandLine::of(request, &session::ENVIRONMENT)?;
        let files: Result<[OwnedFd; 3], _> = files.try_into();
        let files = files
            .map_err(|_| Refusal::new("cannot run: it takes three files to read and write"))?
            .map(File::from);
        let begun = || client_watch.iter().for_each(ClientWatch::begun);
        let code = self.run_line(line, peer, files, &presence, begun)?;
        Ok(json!({ "code": code }))
    }

    /// Runs a command line for a client with these standard streams; the exit code. `begun` is
    /// called when nothing can be refused any more.
    fn run_line(
        &self,
        line: CommandLine,
        peer: Peer,
        [input, output, errors]: [File; 3],
        presence: &Arc<Presence>,
        begun: impl FnOnce(),
    ) -> Result<u8, Refusal> {
        let words = line.args.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>();
        let shown = words.join(" ");
        self.held.work(&shown, peer.pid, presence, |pool| {
            let theirs = peer.is_other.then(|| pool.on_behalf_of(caller(peer))).transpose();
            let theirs = theirs.map_err(|e| refusal(&Failure::from(e)))?;
            begun();
            let held = session::Held {
                pool: theirs.map_or_else(|| Arc::clone(pool), Arc::new),
                mounts: Arc::clone(&self.mounts),
                mounts_all: self.mounts_all,
                listed: Arc::clone(&self.listed),
            };
            let client = Arc::new(Client {
                held,
                args: line.args,
                // This process opens no file for another user, wherever that user is.
                folder: if peer.is_other { PathBuf::from("/") } else { line.folder.clone() },
                stands_in: line.folder,
                environment: line.environment,
                user: u64::from(peer.user),
                group: u64::from(peer.group),
                input,
                output: Stream::new(output),
                errors: Stream::new(errors),
                presence: Arc::clone(presence),
                output_state: OutputState::default(),
                turn: Mutex::default(),
                is_part: line.is_part,
                is_other_user: peer.is_other,
            });
            let session = self.session.for_client(client);
            let began = Instant::now();
            let code = ui::finish(&session, (session.process().grammar.run)(&session));
            self.follow(pool.guid());
            let (code, time) = (number(code), began.elapsed());
            let Peer { pid, user, .. } = peer;
            tracing::debug!(target: "zinc::request", pid, user, code, ?time, "{shown}");
            Ok(code)
        })
    }
}

/// Another user, as identified by the system: nothing of it comes from the request.
fn caller(peer: Peer) -> Caller {
    let groups = peer.groups().into_iter().map(u64::from).collect();
    Caller { user: u64::from(peer.user), groups }
}

/// The number of an exit code.
fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|n| ExitCode::from(*n) == code).unwrap_or(FAILED)
}

/// Why the last change of a pool that is exported failed.
fn stopped_or(pool: &LivePool, failure: &Failure) -> Refusal {
    let refusal = refusal(failure);
    match pool.suspended() {
        Some(_) if pool.is_waiting() => refusal.hint(
            "`zinc zpool clear` resumes it when the devices are back; `zinc zpool export -f` \
             closes the pool without the changes that are not durable",
        ),
        Some(_) => refusal.hint(
            "synced data is safe; `zinc zpool export -f` closes the pool as it is, and ends the \
             server",
        ),
        None => refusal,
    }
}

/// A failure as a refusal for the client.
pub fn refusal(failure: &Failure) -> Refusal {
    let (what, because, hint) = failure.parts();
    Refusal { what: what.to_owned(), because: because.to_vec(), hint: hint.map(str::to_owned) }
}

impl Handler for Service {
    fn handle(&self, request: &Request, peer: Peer, files: Vec<OwnedFd>) -> Result<Value, Refusal> {
        if peer.is_other {
            // However many ask, and however fast, they take little of this process's time.
            std::thread::sleep(OTHERS_WAIT);
            if !["ping", "stats", "run"].contains(&request.verb.as_str()) {
                return Err(refusal(&denied()));
            }
        }
        match request.verb.as_str() {
            "ping" => Ok(self.ping()),
            "status" => self.status(),
            "txgs" => self.txgs(request),
            "stats" => self.stats(),
            "report" => self.report(),
            "tunables" => self.tunables(request, peer),
            "sync" => self.sync(peer),
            "mounts" => Ok(self.mounts.all().iter().map(|one| one.dir.to_string_lossy()).collect()),
            "unmount" => self.unmount(request, peer),
            "export" => self.export(request, peer),
            "run" => self.run(request, peer, files),
            other => Err(Refusal::new(format!("no request is named '{other}'")).hint(
                "there are ping, status, stats, report, txgs, tunables, sync, mounts, unmount, \
                 export and run",
            )),
        }
    }

    fn answered(&self, _: &Request) {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        if outcome.is_some() || self.mounts.is_idle() {
            (self.answered)(outcome);
        }
    }
}
