//! Finds the process that serves a pool, and has it carry out this command.
//!
//! A server's socket is named after its pool's guid, in a folder of the user ([`folders`]). A verb
//! that is about to open a pool asks here first: if the pool is served, the whole command line goes
//! to the server, with this process's standard streams, and this process ends with the exit code of
//! the verb that ran there. So a command does the same whether its pool is served or not.
//!
//! Pools that root serves are seen by other users too, as with OpenZFS; what they may do there, the
//! server decides. A user's own pools go before them.

use crate::args::{PAUSE, Wait};
use crate::failure::Failure;
use crate::session::{ENVIRONMENT, Session};
use crate::{known, places, ui};
use ::mount::reading;
use ::mount::system::{self, Listed};
use control::{CallError, Client, CommandLine, RunOutcome, sockets};
use engine::config::LabelConfig;
use engine::datasets::pool_of;
use engine::devices::is_far;
use engine::live::{self, TxgRecord};
use engine::pools::FoundLeaf;
use engine::stats::{Snapshot, VdevStats};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Read as _;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use term::escape::word;

/// How long a server may take to identify itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// Times that one is asked which is not stopped: on a busy machine it waits for its turn.
const TRIES: u32 = 3;
/// What to do about one that does not answer.
const OF_SILENT: &str =
    "a stopped process continues with `kill -CONT`; one that hangs can be ended";
/// Verbs that reach a pool that is served, for people.
pub const REACHABLE: &str = "zfs, ls, cat, stat, cp, mkdir, rm, mv, ln, mount, unmount, \
                             inventory, top, txgs, throttle, tunables, advise, pios, lab run, \
                             nbd, and of zpool: add, attach, checkpoint, \
                             clear, destroy, detach, events, export, get, history, initialize, \
                             iostat, list, offline, online, prefetch, reguid, remove, reopen, \
                             replace, resilver, scrub, set, split, status, sync, trim, upgrade, \
                             wait";

/// The message for the server of the pool with this guid, if there is one and it does not answer.
pub fn not_answering(session: &Session, guid: u64) -> Option<String> {
    let silent = session.process().silent.named(&file_name(guid))?;
    let pid = silent.pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    Some(format!("process {pid} serves it (`zinc serve`), and is not answering"))
}

/// Refuses where the pool of that name is served by a process that does not answer: servers were
/// looked for before.
pub fn check_answering(session: &Session, name: &str) -> Result<(), Failure> {
    let known = known::pools(session).find(pool_of(name)).map(|known| known.guid());
    let silent = known.and_then(|guid| not_answering(session, guid));
    let Some(why) = silent else { return Ok(()) };
    Err(Failure::new(format!("cannot reach pool '{}'", pool_of(name))).because(why).hint(OF_SILENT))
}

/// The pools of those, by their guids.
pub fn all_not_answering(session: &Session) -> Vec<u64> {
    let guid = |path: PathBuf| path.file_stem()?.to_str()?.parse().ok();
    session.process().silent.sockets().into_iter().filter_map(guid).collect()
}

/// A process that serves a pool.
pub struct Server {
    /// Name of the pool.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The process.
    pub pid: u64,
    /// Its socket.
    pub path: PathBuf,
    /// It is another user's, which is root.
    pub is_other: bool,
    /// It only reads the pool, as any command may, and answers for what it has mounted alone.
    pub is_reader: bool,
    client: Client,
}

/// Folders in which sockets are looked for; a server makes its own in the first. `ZINC_SOCKETS`
/// names one in place of the usual ones.
pub fn folders(session: &Session) -> Vec<PathBuf> {
    if let Some(only) = std::env::var_os("ZINC_SOCKETS").filter(|dir| !dir.is_empty()) {
        return vec![PathBuf::from(only)];
    }
    let system = PathBuf::from("/run/zinc");
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let runtime = runtime.map(|dir| PathBuf::from(dir).join("zinc"));
    match (session.user(), runtime) {
        (0, runtime) => [system].into_iter().chain(runtime).collect(),
        (_, Some(runtime)) => vec![runtime, system],
        (user, None) => vec![std::env::temp_dir().join(format!("zinc-{user}")), system],
    }
}

/// Name of the socket of a pool.
pub fn file_name(guid: u64) -> String {
    format!("{guid}.sock")
}

/// Identifies a file or disk of this machine, whatever its name.
fn identity(path: &Path) -> Option<(u64, u64)> {
    live::identity(path).ok().filter(|_| !is_far(path))
}

/// All that a process has open; `None`: this user may not know.
fn open_in(pid: u64) -> Option<Vec<(u64, u64)>> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(open.flatten().filter_map(|entry| identity(&entry.path())).collect())
}

/// Whether a process was stopped by a signal or a debugger, or is no more: it does not answer soon.
fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may have parentheses in it.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'X', 'Z']))
}

fn is_device(vdev: &VdevStats) -> bool {
    matches!(&*vdev.kind, "disk" | "file")
}

impl Server {
    /// The server at this socket.
    pub fn at(session: &Session, path: &Path) -> Result<Self, Failure> {
        let fail =
            |why: String| Failure::new(format!("no server at {}", path.display())).because(why);
        let is_ours = path.parent().is_some_and(|dir| folders(session).iter().any(|f| f == dir));
        let connect = || match is_ours {
            true => Client::connect_or_clear(path, PATIENCE),
            false => Client::connect(path, Some(PATIENCE)),
        };
        let mut left = TRIES;
        let (client, about) = loop {
            left -= 1;
            let mut client = connect().map_err(|e| fail(e.to_string()))?;
            match client.call("ping", Value::Null) {
                Ok(about) => break (client, about),
                Err(e) if e.is_timeout() => {
                    let pid = client.server_process();
                    if left == 0 || pid.is_none_or(is_stopped) {
                        session.process().silent.add(path, pid);
                        return Err(fail(e.to_string()));
                    }
                }
                Err(e) => return Err(fail(e.to_string())),
            }
        };
        let _ = client.set_patience(None);
        let text = |key: &str| about[key].as_str().map(str::to_owned);
        Ok(Self {
            name: text("pool").unwrap_or_default(),
            guid: text("guid").and_then(|g| g.parse().ok()).unwrap_or_default(),
            pid: about["pid"].as_u64().unwrap_or_default(),
            path: path.to_owned(),
            is_reader: reading::is_reader(&about),
            is_other: std::fs::symlink_metadata(path)
                .is_ok_and(|meta| u64::from(meta.uid()) != session.user()),
            client,
        })
    }

    /// All that can be reached and take commands, in the order of the names of their pools.
    pub fn all(session: &Session) -> Vec<Self> {
        Self::reachable(session).into_iter().filter(|server| !server.is_reader).collect()
    }

    /// The same with those that only read.
    pub fn reachable(session: &Session) -> Vec<Self> {
        let mut sockets = sockets(&folders(session));
        sockets.retain(|path| !session.process().silent.has(path));
        let mut all: Vec<_> =
            sockets.iter().filter_map(|path| Self::at(session, path).ok()).collect();
        all.sort_by(|a, b| (&a.name, a.guid).cmp(&(&b.name, b.guid)));
        all
    }

    /// Those of this user that may have mounted something.
    pub fn mounting(session: &Session) -> Vec<Self> {
        Self::reachable(session).into_iter().filter(|server| !server.is_other).collect()
    }

    /// Those of this user.
    pub fn own(session: &Session) -> Vec<Self> {
        Self::all(session).into_iter().filter(|server| !server.is_other).collect()
    }

    /// Those of this user whose pools are found in these places, as [`Self::all_in`].
    pub fn own_in(session: &Session, search: &[PathBuf]) -> Result<Vec<Self>, Failure> {
        let all = Self::all_in(session, search)?;
        Ok(all.into_iter().filter(|server| !server.is_other).collect())
    }

    /// Whether one that can be reached serves the pool with this guid, answering or not.
    pub fn holds(session: &Session, guid: u64) -> bool {
        session.client().is_none()
            && (Self::reachable(session).iter().any(|server| server.guid == guid)
                || not_answering(session, guid).is_some())
    }

    /// All whose pools are found in these places; without places all. A verb that a server runs
    /// sees none.
    pub fn all_in(session: &Session, search: &[PathBuf]) -> Result<Vec<Self>, Failure> {
        if session.client().is_some() {
            return Ok(Vec::new());
        }
        let mut servers = Self::all(session);
        Self::retain_in(session, &mut servers, search)?;
        Ok(servers)
    }

    /// Keeps those whose pools are found in these places; without places all.
    fn retain_in(
        session: &Session,
        servers: &mut Vec<Self>,
        search: &[PathBuf],
    ) -> Result<(), Failure> {
        if !servers.is_empty() && !search.is_empty() {
            let there = places::labelled(session, search)?;
            servers.retain_mut(|server| server.has_one(&there));
        }
        Ok(())
    }

    /// Whether one of these devices is its pool's. A copy of one is not: the place of a copy is not
    /// that of the pool that is served.
    fn has_one(&mut self, there: &[FoundLeaf]) -> bool {
        let is_member = |leaf: &&FoundLeaf| match &leaf.config {
            LabelConfig::Member(config) => config.pool_guid == self.guid,
            _ => false,
        };
        let there: Vec<_> = there.iter().filter(is_member).collect();
        if there.is_empty() {
            return false;
        }
        // Devices that cannot be distinguished are taken for the same. The names that the server
        // has do not help, because they are in the labels, and copied too.
        let (Some(mut own), Ok(stats)) = (open_in(self.pid), self.stats()) else { return true };
        // It may have closed one that failed.
        let closed = stats.vdevs.iter().filter(|v| is_device(v) && v.state != "ONLINE");
        own.extend(closed.filter_map(|v| identity(Path::new(&v.name))));
        there.iter().any(|leaf| identity(&leaf.path).is_none_or(|one| own.contains(&one)))
    }

    /// Whether `name` (a pool, its guid, or anything in a pool) belongs to its pool.
    pub fn is_called(&self, name: &str) -> bool {
        let wanted = pool_of(name);
        self.name == wanted || wanted.parse() == Ok(self.guid)
    }

    /// The records of its last txgs, oldest first; with `alive` also those that are not durable
    /// yet.
    pub fn txgs(&mut self, alive: bool) -> Result<Vec<TxgRecord>, Failure> {
        let value = self.call("txgs", json!({ "alive": alive }))?;
        serde_json::from_value(value).map_err(|e| {
            Failure::new("cannot read the server's records of txgs").because(e.to_string())
        })
    }

    /// The statistics of the pool since it was opened.
    pub fn stats(&mut self) -> Result<Snapshot, Failure> {
        let value = self.call("stats", Value::Null)?;
        serde_json::from_value(value)
            .map_err(|e| Failure::new("cannot read the server's counters").because(e.to_string()))
    }

    /// Where it has mounted something.
    pub fn mounts(&mut self) -> Result<Vec<PathBuf>, Failure> {
        let value = self.call("mounts", Value::Null)?;
        Ok(serde_json::from_value(value).unwrap_or_default())
    }

    /// Where the devices of its pool are.
    pub fn devices(&mut self) -> Result<Vec<PathBuf>, Failure> {
        let vdevs = self.stats()?.vdevs;
        Ok(vdevs.iter().filter(|v| is_device(v)).map(|v| PathBuf::from(&v.name)).collect())
    }

    /// The one that serves the pool `name` (a pool, its guid, or anything in it) belongs to. With
    /// places to search, only if the pool is found there.
    pub fn find(
        session: &Session,
        search: &[PathBuf],
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        Self::find_among(session, Self::all, search, name)
    }

    /// The same for one that only reads the pool.
    pub fn reader(
        session: &Session,
        search: &[PathBuf],
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        let readers = |session: &Session| {
            Self::mounting(session).into_iter().filter(|server| server.is_reader).collect()
        };
        Self::find_among(session, readers, search, name)
    }

    /// Either of them.
    pub fn holding(
        session: &Session,
        search: &[PathBuf],
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        Self::find_among(session, Self::reachable, search, name)
    }

    fn find_among(
        session: &Session,
        all: impl Fn(&Session) -> Vec<Self>,
        search: &[PathBuf],
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        // A verb that a server runs must not come back to a server.
        if session.client().is_some() {
            return Ok(None);
        }
        let mut found: Vec<Self> = all(session);
        found.retain(|s| s.is_called(name));
        let has_own = found.iter().any(|s| !s.is_other);
        let known = known::pools(session).find(pool_of(name)).map(|known| known.guid());
        // What this user knows may be the very pool, by a list that is root's as well.
        let gives_way = |s: &Self| s.is_other && (has_own || known.is_some_and(|g| g != s.guid));
        found.retain(|s| !gives_way(s));
        Self::retain_in(session, &mut found, search)?;
        Self::single(&mut found, name)?;
        Ok(found.pop())
    }

    /// The one among these whose pool `name` belongs to.
    pub fn single<'s>(
        servers: &'s mut [Self],
        name: &str,
    ) -> Result<Option<&'s mut Self>, Failure> {
        let mut called: Vec<_> = servers.iter_mut().filter(|s| s.is_called(name)).collect();
        if called.len() > 1 {
            let guids: Vec<_> = called.iter().map(|s| s.guid.to_string()).collect();
            let what = format!("more than one pool '{}' is served", pool_of(name));
            let hint = format!("name one by its guid: {}", guids.join(", "));
            return Err(Failure::new(what).hint(hint));
        }
        Ok(called.pop())
    }

    /// The same for verbs that need one: at `socket` if that is given.
    pub fn must(
        session: &Session,
        socket: Option<&Path>,
        search: &[PathBuf],
        name: &str,
    ) -> Result<Self, Failure> {
        if let Some(path) = socket {
            return Self::at(session, path);
        }
        let found = Self::find(session, search, name)?;
        found.ok_or_else(|| match check_answering(session, name) {
            Err(failure) => failure,
            Ok(()) => not_served(name),
        })
    }

    /// Asks it.
    pub fn call(&mut self, verb: &str, params: Value) -> Result<Value, Failure> {
        self.client.call(verb, params).map_err(|e| failed(&e, self.pid, &self.name))
    }

    /// Has this process's command line run there, with `more` behind it.
    fn run(&mut self, session: &Session, words: &[OsString]) -> Result<RunOutcome, Failure> {
        let [output, _] = ui::streams(session)?;
        self.run_to(session, words, output.as_fd(), false)
    }

    /// Turns to a server again that is about to end, or not; whether it is still there.
    fn is_back(&mut self, session: &Session) -> bool {
        let again = Self::at(session, &self.path).ok().filter(|again| again.pid == self.pid);
        again.map(|again| *self = again).is_some()
    }

    /// Has it run there for a part of what this process will show (`cmd/zpool/each`).
    pub fn part<T: DeserializeOwned>(&mut self, session: &Session) -> Result<T, Failure> {
        insist(session, || match self.part_at_once(session)? {
            Err(failure) if self.is_back(session) => Ok(Continue(Err(failure))),
            part => Ok(Break(part)),
        })?
    }

    /// The same, or why it did not begin to do it.
    fn part_at_once<T: DeserializeOwned>(
        &mut self,
        session: &Session,
    ) -> Result<Result<T, Failure>, Failure> {
        let cannot = Failure::new(format!("cannot see pool '{}', which is served", self.name));
        let (mut from, to) = std::io::pipe()?;
        let (code, text) = std::thread::scope(|scope| {
            // Whatever is in the way of the answer, so as to make room for what comes before it.
            let reading = scope.spawn(move || {
                let mut text = String::new();
                from.read_to_string(&mut text).map(|_| text)
            });
            let code = self.run_to(session, session.arguments(), to.as_fd(), true);
            drop(to);
            (code, reading.join())
        });
        match (code?, text) {
            (RunOutcome::Code(0), Ok(text)) => {
                let part = serde_json::from_str(&text?);
                part.map(Ok).map_err(|e| cannot.because(e.to_string()))
            }
            (RunOutcome::NotBegun(e), _) => Ok(Err(self.not_begun(&e))),
            _ => Err(cannot),
        }
    }

    /// Has this process's command line run there, with `more` behind it and this file to print to.
    fn run_to(
        &mut self,
        session: &Session,
        words: &[OsString],
        output: BorrowedFd<'_>,
        is_part: bool,
    ) -> Result<RunOutcome, Failure> {
        // Of one that was removed, the name that it had: nothing can be found in it.
        let folder = std::env::current_dir().or_else(|_| std::fs::read_link("/proc/self/cwd"));
        let folder = folder.map_err(|e| {
            Failure::new("cannot find the current directory").because(e.to_string())
        })?;
        let known = ENVIRONMENT.iter();
        let known = known.filter_map(|n| Some(((*n).to_owned(), std::env::var(n).ok()?)));
        let (args, environment) = (words.to_vec(), known.collect());
        let line = CommandLine { args, folder, environment, is_part };
        let (input, [_, errors]) = (std::io::stdin(), ui::streams(session)?);
        if self.is_other {
            let complain = |text: &str| ui::error(session, text);
            let files = [input.as_fd(), output];
            let ran = self.client.run_elsewhere(&line, files, complain);
            return Ok(ran.map_err(|e| failed(&e, self.pid, &self.name))??);
        }
        let ran = self.client.run(&line, [input.as_fd(), output, errors.as_fd()]);
        ran.map_err(|e| failed(&e, self.pid, &self.name))
    }

    /// Why it did not begin to run a command line. Any command may open the pool then.
    fn not_begun(&self, e: &CallError) -> Failure {
        failed(e, self.pid, &self.name)
    }
}

/// Why another user is refused.
pub fn denied() -> Failure {
    Failure::new("permission denied: the pool is root's").hint(
        "other users may only look (zpool list, get, status, iostat and wait, zfs list, get, \
         holds and allow, what zpool upgrade and zfs upgrade list, zinc top) and make the changes \
         that `zfs allow` permits, without options that name files",
    )
}

/// Why a verb that needs a server does nothing.
pub fn not_served(name: &str) -> Failure {
    Failure::new(format!("pool '{}' is not served", pool_of(name)))
        .hint("`zinc serve POOL` serves it, so that it can be watched and tuned")
}

fn failed(e: &CallError, pid: u64, pool: &str) -> Failure {
    match e {
        CallError::Refused(refusal) => {
            let mut failure = Failure::new(&refusal.what);
            for why in &refusal.because {
                failure = failure.because(why);
            }
            match &refusal.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        other => Failure::new(format!("no answer from process {pid}, which serves {pool}"))
            .because(other.to_string())
            .hint("synced changes are safe; look at the pool to see whether this one was made"),
    }
}

/// Does what `attempt` does, again and again as long as it says `Continue`, but for no longer than
/// this process waits for a pool: a server may be about to end, or another may take its place.
pub fn insist<T>(
    session: &Session,
    mut attempt: impl FnMut() -> Result<ControlFlow<T, T>, Failure>,
) -> Result<T, Failure> {
    let (began, patience) = (Instant::now(), Wait::default().patience(session)?);
    loop {
        match attempt()? {
            Continue(_) if began.elapsed() < patience => session.sleep(PAUSE)?,
            Break(done) | Continue(done) => return Ok(done),
        }
    }
}

/// Ends this process with what a server did instead, if the pool is served. Otherwise nothing
/// happened. A server that is about to end is waited for.
pub fn forward(session: &Session, search: &[PathBuf], name: &str) -> Result<(), Failure> {
    match run_there(session, search, name)? {
        Some(code) => session.end(ExitCode::from(code)),
        None => Ok(()),
    }
}

/// The exit code of a server that did it instead, if the pool is served.
pub fn run_there(session: &Session, search: &[PathBuf], name: &str) -> Result<Option<u8>, Failure> {
    run_words(session, search, name, session.arguments())
}

/// The same of a command line that names several pools, for one of them: its server gets it without
/// the others.
pub fn run_for_one(
    session: &Session,
    search: &[PathBuf],
    name: &str,
    names: &[String],
) -> Result<Option<u8>, Failure> {
    let mut words = session.arguments().to_vec();
    // Names come last, so a word like one of them that is an option's value comes before.
    for other in names.iter().rev() {
        if let Some(at) = words.iter().rposition(|word| word == other.as_str()) {
            words.remove(at);
        }
    }
    words.push(name.into());
    run_words(session, search, name, &words)
}

fn run_words(
    session: &Session,
    search: &[PathBuf],
    name: &str,
    words: &[OsString],
) -> Result<Option<u8>, Failure> {
    insist(session, || match Server::find(session, search, name)? {
        None => Ok(Break(Ok(None))),
        Some(mut server) => match server.run(session, words)? {
            RunOutcome::Code(code) => Ok(Break(Ok(Some(code)))),
            RunOutcome::NotBegun(e) => Ok(Continue(Err(server.not_begun(&e)))),
        },
    })?
}

/// The same, or what `here` does when the pool is not served. A server that takes the pool while
/// `here` waits for it is turned to after all.
pub fn or_forward<T>(
    session: &Session,
    search: &[PathBuf],
    name: &str,
    mut here: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    insist(session, || {
        forward(session, search, name)?;
        match here() {
            Err(failure) if Server::find(session, search, name)?.is_some() => {
                Ok(Continue(Err(failure)))
            }
            done => Ok(Break(done)),
        }
    })?
}

/// The same for a verb that does something to all pools, and takes their names behind everything
/// else: every server does it to its own. Their guids, and the worst of the exit codes.
pub fn forward_each(session: &Session, search: &[PathBuf]) -> Result<(Vec<u64>, u8), Failure> {
    forward_to(session, Server::own_in(session, search)?)
}

/// The same for a verb that takes mounts away: a server goes before those in whose mounts its own
/// lie, unless they lie in its own as well.
pub fn forward_each_inner_first(session: &Session) -> Result<u8, Failure> {
    let (mut left, mut ordered) = (Server::own_in(session, &[])?, Vec::new());
    let mounts = system::listed();
    let lies_in = |inner: &Server, outer: &Server| {
        let mut outers = mounts.iter().enumerate().filter(|(_, one)| outer.is_called(&one.name));
        outers.any(|(n, one)| {
            // What lies in a mount, or over it, was mounted later.
            let is_in = |other: &Listed| other.dir.starts_with(&one.dir);
            mounts[n + 1..].iter().any(|other| inner.is_called(&other.name) && is_in(other))
        })
    };
    while !left.is_empty() {
        let has_none = |outer: &Server| {
            !left.iter().any(|inner| inner.guid != outer.guid && lies_in(inner, outer))
        };
        let next = left.iter().position(has_none).unwrap_or(0);
        ordered.push(left.remove(next));
    }
    Ok(forward_to(session, ordered)?.1)
}

fn forward_to(session: &Session, servers: Vec<Server>) -> Result<(Vec<u64>, u8), Failure> {
    let (mut guids, mut worst) = (Vec::new(), 0);
    for mut server in servers {
        let mut words = session.arguments().to_vec();
        words.push(server.guid.to_string().into());
        let ran = insist(session, || match server.run(session, &words)? {
            RunOutcome::NotBegun(e) if server.is_back(session) => {
                Ok(Continue(RunOutcome::NotBegun(e)))
            }
            ran => Ok(Break(ran)),
        })?;
        // One that has ended leaves its pool to this process.
        if let RunOutcome::Code(code) = ran {
            worst = worst.max(code);
            guids.push(server.guid);
        }
    }
    Ok((guids, worst))
}

/// Adds the process that holds a pool, which cannot be opened because its devices are in use, to a
/// failure.
pub fn held_by(session: &Session, guid: u64, failure: Failure) -> Failure {
    match Server::reachable(session).into_iter().find(|s| s.guid == guid) {
        Some(server) if server.is_reader => failure
            .because(format!("process {} has the pool open read-only", server.pid))
            .hint("that process ends with its last mount, or by a signal"),
        Some(server) => failure
            .because(format!("process {} serves it (`zinc serve`)", server.pid))
            .hint(format!(
                "`zinc zpool export {}` ends that; these verbs reach it as it is: {REACHABLE}",
                word(&server.name)
            )),
        None => match not_answering(session, guid) {
            Some(what) => failure.because(what).hint(OF_SILENT),
            None => {
                failure.hint("another process has the pool open: wait until it ends, or end it")
            }
        },
    }
}

/// `[INTERVAL [COUNT]]` of verbs that watch a server: calls `look` once without them, otherwise
/// COUNT times with a pause of INTERVAL.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Repeat {
    /// Seconds between two looks at a pool that is served
    interval: Option<f64>,
    /// End after this many
    count: Option<u64>,
}

impl Repeat {
    /// Seconds from one look to the next, when there is one.
    pub fn interval(self) -> Result<Option<Duration>, Failure> {
        let Some(seconds) = self.interval else { return Ok(None) };
        let interval = Duration::try_from_secs_f64(seconds).ok().filter(|i| !i.is_zero());
        interval.map(Some).ok_or_else(|| Failure::usage("an interval is a number of seconds"))
    }

    /// Does so.
    pub fn run(
        self,
        session: &Session,
        mut look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(interval) = self.interval()? else { return look() };
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            look()?;
            left -= 1;
            if left > 0 {
                session.sleep(interval)?;
            }
        }
        Ok(())
    }
}
