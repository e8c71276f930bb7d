//! What the server's requests mean.
//!
//! | `do` | parameters | answer |
//! | --- | --- | --- |
//! | `ping` | | pool, guid, process |
//! | `status` | | the same, with open and durable txg |
//! | `txgs` | `count`, `alive` | records of the last txgs, oldest first; if `alive`, of all |
//! | `stats` | | a snapshot of all counters |
//! | `tunables` | `set`, an object of values by name | the values, all or those that were set |
//! | `sync` | | the txg that is durable now |
//! | `export` | `command` | nothing; the server ends |
//! | `run` | `args`, `folder`, `environment`, three files | the exit code of that command |
//!
//! A fourth file of `run`, the end of a stream whose other end the client keeps, says when the
//! client is gone.

use crate::asked::{self, Asked, Lifeline};
use crate::cli::{self, Cli};
use crate::cmd::tunables::to_json;
use crate::failure::{FAILED, Failure};
use crate::host;
use crate::served::file_name;
use crate::txgs::keep_last;
use crate::ui::{self, sink::Fate};
use clap::Parser as _;
use control::{Handler, Peer, Refusal, Request};
use engine::LivePool;
use engine::live::{Invocation, Setting, Tunable, TunableError};
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// The pool that is held, until it is taken out.
pub struct Held {
    name: String,
    guid: AtomicU64,
    /// Whoever works with the pool holds this for reading, so that it can be taken whole.
    pool: RwLock<Option<Arc<LivePool>>>,
}

impl Held {
    /// It was not taken out yet.
    fn is_held(&self) -> bool {
        self.pool.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Holds it.
    pub fn new(pool: LivePool) -> Arc<Self> {
        let (name, guid) = (pool.name().to_owned(), pool.view().guid());
        Arc::new(Self { name, guid: AtomicU64::new(guid), pool: RwLock::new(Some(Arc::new(pool))) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its guid, after which the socket is named.
    pub fn guid(&self) -> u64 {
        self.guid.load(Ordering::Relaxed)
    }

    /// Takes it out when nobody works with it any more; `None` when it was taken before.
    pub fn take(&self) -> Option<LivePool> {
        let mut slot = self.pool.write().unwrap_or_else(PoisonError::into_inner);
        let mut pool = slot.take()?;
        // All who had it ended with the lock; the last may be about to let go.
        loop {
            match Arc::try_unwrap(pool) {
                Ok(pool) => return Some(pool),
                Err(shared) => pool = shared,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The page for monitoring systems; empty when the pool is let go.
    pub fn metrics(&self) -> String {
        let snapshot = self.with(|pool| Ok(pool.stats()));
        snapshot.map(|s| engine::pool::stats::prometheus(&[s])).unwrap_or_default()
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&Arc<LivePool>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let slot = self.pool.read().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(pool) => work(pool),
            None => Err(Refusal::new(format!("{} is being exported", self.name))
                .hint("when this process has ended, any command opens the pool by itself")),
        }
    }
}

/// Where the socket is.
pub struct Socket(Mutex<PathBuf>);

impl Socket {
    /// At first it is here.
    pub fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self(Mutex::new(path)))
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it another name, if it has this one and nothing has the other.
    fn rename(&self, old: &str, new: &str) {
        let mut path = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let to = path.with_file_name(new);
        if path.file_name() == Some(OsStr::new(old))
            && !to.exists()
            && std::fs::rename(&*path, &to).is_ok()
        {
            *path = to;
        }
    }
}

/// The service.
pub struct Service {
    held: Arc<Held>,
    socket: Arc<Socket>,
    exported: Box<dyn Fn() + Send + Sync>,
}

impl Service {
    /// `exported` is called after a client exported the pool.
    pub fn new(
        held: Arc<Held>,
        socket: Arc<Socket>,
        exported: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { held, socket, exported: Box::new(exported) }
    }

    /// The pool may have another guid now (`zpool reguid`): the socket's name follows it, or a copy
    /// of the pool with the old one could not be served.
    fn follow(&self, guid: u64) {
        let old = self.held.guid.swap(guid, Ordering::Relaxed);
        if old != guid {
            self.socket.rename(&file_name(old), &file_name(guid));
        }
    }

    fn ping(&self) -> Value {
        json!({
            "pool": self.held.name,
            // A guid does not fit into the numbers that most JSON readers have.
            "guid": self.held.guid().to_string(),
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "socket": self.socket.path().to_string_lossy(),
        })
    }

    fn status(&self) -> Result<Value, Refusal> {
        let mut about = self.ping();
        self.held.with(|pool| {
            about["synced_txg"] = json!(pool.last_synced());
            about["records"] = json!(pool.txgs().len());
            Ok(about)
        })
    }

    fn txgs(&self, request: &Request) -> Result<Value, Refusal> {
        let count = request.number("count")?.and_then(|n| usize::try_from(n).ok());
        let alive = request.params.get("alive").and_then(Value::as_bool) == Some(true);
        self.held.with(|pool| {
            // In this order: what becomes durable between the two looks is seen twice, not never.
            let alive = if alive { pool.txgs_alive() } else { Vec::new() };
            let mut records = pool.txgs();
            keep_last(&mut records, count);
            let durable = records.last().map_or(0, |r| r.txg);
            records.extend(alive.into_iter().filter(|r| r.txg > durable));
            serde_json::to_value(records)
                .map_err(|e| Refusal::new("cannot txgs").because(e.to_string()))
        })
    }

    fn stats(&self) -> Result<Value, Refusal> {
        self.held.with(|pool| {
            serde_json::to_value(pool.stats())
                .map_err(|e| Refusal::new("cannot stats").because(e.to_string()))
        })
    }

    fn tunables(&self, request: &Request) -> Result<Value, Refusal> {
        let wrong = |e: TunableError| Refusal::new(e.to_string()).hint(e.hint());
        let set = match request.params.get("set") {
            None => Map::new(),
            Some(Value::Object(map)) => map.clone(),
            Some(_) => return Err(Refusal::new("cannot tunables: `set` is no object")),
        };
        let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let setting = |(name, value)| Setting::parse(&format!("{name}={}", word(value)));
        let set: Vec<Setting> = set.iter().map(setting).collect::<Result<_, _>>().map_err(wrong)?;
        self.held.with(|pool| {
            set.iter().for_each(|s| pool.set_tunable(*s));
            let shown = match set.is_empty() {
                true => Tunable::ALL.to_vec(),
                false => set.iter().map(|s| s.tunable).collect(),
            };
            let value = |t: &Tunable| to_json(t.row(), Some(pool.tunables().get(*t)));
            Ok(shown.iter().map(value).collect())
        })
    }

    fn sync(&self) -> Result<Value, Refusal> {
        self.held.with(|pool| {
            pool.sync().map_err(|e| refusal(&Failure::from(e)))?;
            Ok(json!({ "txg": pool.last_synced() }))
        })
    }

    fn export(&self, request: &Request, peer: Peer) -> Result<Value, Refusal> {
        let command = request.text("command")?.unwrap_or("zpool export").to_owned();
        let who = u64::from(peer.user);
        // A pool that nobody will find again is kept, so that its data can be copied out.
        self.held.with(|pool| pool.can_be_found().map_err(|e| refusal(&Failure::from(e))))?;
        let Some(pool) = self.held.take() else {
            return Err(Refusal::new(format!("{} is being exported already", self.held.name)));
        };
        let guid = pool.guid();
        let logged = pool.log(&Invocation { command, who, host: host::name() });
        let exported = logged.and_then(|()| pool.export());
        if exported.is_ok() {
            crate::known::forget(guid);
        }
        exported.map(|()| Value::Null).map_err(|e| refusal(&Failure::from(e)))
    }

    fn run(
        &self,
        request: &Request,
        peer: Peer,
        mut files: Vec<OwnedFd>,
    ) -> Result<Value, Refusal> {
        let presence = Arc::default();
        let lifeline = if files.len() > 3 { files.pop() } else { None };
        let lifeline = lifeline.map(|end| Lifeline::watch(UnixStream::from(end), &presence));
        let _lifeline = lifeline
            .transpose()
            .map_err(|e| Refusal::new("cannot run: no thread for it").because(e.to_string()))?;
        let args = request.words("args")?;
        let folder = PathBuf::from(request.word("folder")?);
        let is_part = request.params.get("part") == Some(&Value::Bool(true));
        let files: Result<[OwnedFd; 3], _> = files.try_into();
        let [input, output, errors] = files
            .map_err(|_| Refusal::new("cannot run: it takes three files to read and write"))?
            .map(File::from);
        let known = request.params.get("environment").and_then(Value::as_object);
        let known =
            known.into_iter().flatten().filter(|(k, _)| asked::ENVIRONMENT.contains(&k.as_str()));
        let environment =
            known.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect();
        self.held.with(|pool| {
            let asked = Arc::new(Asked {
                pool: Arc::clone(pool),
                args,
                folder,
                environment,
                user: u64::from(peer.user),
                group: u64::from(peer.group),
                input,
                output,
                errors,
                presence,
                fate: Fate::new(),
                turn: Mutex::default(),
                is_part,
            });
            let code = asked::inherit(Some(&asked), || ui::finish(run_verb(&asked)));
            let code = number(code);
            self.follow(pool.guid());
            Ok(json!({ "code": code }))
        })
    }
}

/// Runs the command line of a client; the exit code.
fn run_verb(asked: &Asked) -> ExitCode {
    let cli = match Cli::try_parse_from(&asked.args) {
        Ok(cli) => cli,
        Err(e) => return cli::explain(&e),
    };
    if !cli.command.is_for_servers() {
        let failure = Failure::new("a server does not run this verb for its clients")
            .hint(format!("it runs {}", crate::served::REACHABLE));
        return failure.report();
    }
    cli.command.run_or_report()
}

/// The number of an exit code.
fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|n| ExitCode::from(*n) == code).unwrap_or(FAILED)
}

fn refusal(failure: &Failure) -> Refusal {
    let (what, because, hint) = failure.parts();
    Refusal { what: what.to_owned(), because: because.to_vec(), hint: hint.map(str::to_owned) }
}

impl Handler for Service {
    fn handle(&self, request: &Request, peer: Peer, files: Vec<OwnedFd>) -> Result<Value, Refusal> {
        match request.verb.as_str() {
            "ping" => Ok(self.ping()),
            "status" => self.status(),
            "txgs" => self.txgs(request),
            "stats" => self.stats(),
            "tunables" => self.tunables(request),
            "sync" => self.sync(),
            "export" => self.export(request, peer),
            "run" => self.run(request, peer, files),
            other => Err(Refusal::new(format!("no request is named {other:?}"))
                .hint("there are ping, status, stats, txgs, tunables, sync, export and run")),
        }
    }

    fn answered(&self, request: &Request) {
        // An export that was refused leaves the pool as it was.
        if request.verb == "export" && !self.held.is_held() {
            (self.exported)();
        }
    }
}
