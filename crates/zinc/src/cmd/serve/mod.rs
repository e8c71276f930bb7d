//! `zinc serve`: a process that holds a pool open.
//!
//! ```text
//! take the pool over -> listen -> say so -> wait -> stop listening -> export -> end
//!                        |                    |
//!                        requests, mounts     SIGTERM, SIGINT, SIGHUP, an export, --for
//! ```
//!
//! `zinc mount` starts the same for a pool that is not served; that server ends when the last mount
//! is gone. Before the pool is let go, what is mounted is unmounted.
//!
//! The socket appears after the pool is held and goes before it is let go, so a client that finds
//! it finds the pool. How it is let go while commands run for clients is described in
//! `control::held`. A process that is killed leaves the pool as any crash does, and its socket to
//! be taken over.

mod all;
pub mod background;
mod config;
mod handler;
mod reading;
mod web;

use crate::args::require_pool_name;
use crate::cmd::verb::Verb;
use crate::exports::Exports;
use crate::failure::{FAILED, Failure};
use crate::found;
use crate::known;
use crate::live::{self, LiveArgs, LiveOptions};
use crate::mounting;
use crate::served::{self, Server as Other};
use crate::session::Session;
use crate::target::Output;
use crate::ui;
use ::mount::datasets::{self, MountRequest};
use ::mount::reading::MountRecord;
use ::mount::{Mounts, UnmountMode};
use agents::{Held, events, panic, spares};
use control::held::{CloseMode, END_WITHIN, NotReleased};
use control::hook;
use control::log::{self, Filter};
use control::{Endpoint, Server, SocketFile};
use engine::pools::{ListedAs, let_go};
use engine::{LivePool, OpenPool};
use handler::{Exported, Service};
use hostfs::notify;
use imported::{Listed, SearchScope};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use term::escape::word;

/// The option that tells a process which pool of all is its.
const PART: &str = "part";
/// The advice to a user whose pool was not exported.
const LIKE_A_CRASH: &str = "synced data is safe; the next command opens the pool as after a crash";
/// How long a client's export is waited for at a time.
const TURN: Duration = Duration::from_millis(50);

/// Arguments of `zinc serve`.
#[derive(clap::Args)]
#[command(after_help = "\
While it runs, other zinc commands on the pool are carried out by it, and it can be watched.
SIGTERM and SIGINT cancel the commands that it runs for others, make everything durable, close the
pool and end it, within a minute whatever happens; `zinc zpool export POOL` exports it too, and so
does the end when the pool was found with -d. An export is refused while commands are running that
do not end within 5 seconds; with -f it cancels them. A second signal ends the server at once, which
is as safe as any crash.")]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Also when another system used the pool last
    #[arg(short = 'f')]
    force: bool,
    /// Listen on this socket instead of one in the user's directory of sockets
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// End after this time
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<f64>,
    /// Write the number of the process into this file while it serves
    #[arg(long, value_name = "FILE")]
    pidfile: Option<PathBuf>,
    /// Run in the background: return as soon as the pool is open and reachable
    #[arg(short = 'b', long)]
    background: bool,
    /// With -b: write messages to this file instead of standard error
    #[arg(long = "log", value_name = "FILE")]
    errors: Option<PathBuf>,
    /// What -b starts
    #[arg(long = background::INNER, hide = true)]
    inner: bool,
    /// Serve a web page that shows what the pool does, and /metrics [default address:
    /// 127.0.0.1:9134; port 0 is any free port]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true,
        default_missing_value = web::ADDRESS)]
    http: Option<SocketAddr>,
    /// Serve only /metrics, for Prometheus, at this address, such as 127.0.0.1:9134; port 0 is any
    /// free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Open the pool read-only, and write nothing to its devices; one that was imported with
    /// readonly=on is opened so without this
    #[arg(long)]
    read_only: bool,
    /// What is exported beside
    #[arg(skip)]
    nbd: Option<Exports>,
    /// Mount file systems by their properties mountpoint and canmount, also those created later
    #[arg(long)]
    mount: bool,
    /// Serve all known pools, each in its own process, which is restarted when it fails
    #[arg(short = 'a', long, conflicts_with_all = ["pool", "search", "socket", "metrics"])]
    all: bool,
    /// With -a: except this pool (repeatable)
    #[arg(long, value_name = "POOL", requires = "all")]
    skip: Vec<String>,
    /// Read options from this file: each line is a long option without its dashes; those below
    /// [POOL] are for that pool alone; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run this program for each event of the pool, with zed's variables ZEVENT_… and no shell
    #[arg(long, value_name = "PROGRAM")]
    hook: Option<PathBuf>,
    /// Level of the log on standard error: error, warn, info or debug, also by target, as in
    /// warn,zinc::request=debug [default: ZINC_LOG, or info]
    #[arg(long, value_name = "FILTER", value_parser = Filter::parse)]
    log_filter: Option<Filter>,
    /// What -a starts: the process of the pool with this guid.
    #[arg(long = PART, value_name = "GUID", hide = true)]
    part: Option<String>,
    /// Mounts that it is started for.
    #[arg(skip)]
    mounts: Vec<MountRequest>,
    /// It ends when the last mount is gone.
    #[arg(skip)]
    ends_with_mounts: bool,
    /// The pool
    #[arg(required_unless_present_any = ["all", PART])]
    pool: Option<String>,
}

/// Where the service manager listens, if one started this process.
fn manager() -> Option<std::ffi::OsString> {
    std::env::var_os(notify::SOCKET)
}

impl Args {
    /// Serving a pool for the sake of what is exported of it.
    pub fn beside(live: LiveArgs, pool: String, exports: Exports) -> Self {
        Self { nbd: Some(exports), ..Self::of(live, pool) }
    }

    /// The server that `zinc mount` starts: for these mounts, or without any for all that the
    /// properties say.
    pub fn for_mounts(
        live: &LiveArgs,
        pool: &str,
        mounts: Vec<MountRequest>,
        read_only: bool,
    ) -> Self {
        let args = Self::of(live.clone(), pool.to_owned());
        let mount = mounts.is_empty();
        Self { inner: true, mount, mounts, ends_with_mounts: true, read_only, ..args }
    }

    /// Serving a pool for the sake of something else.
    fn of(live: LiveArgs, pool: String) -> Self {
        Self {
            live,
            force: false,
            socket: None,
            seconds: None,
            pidfile: None,
            background: false,
            errors: None,
            inner: false,
            http: None,
            metrics: None,
            read_only: false,
            nbd: None,
            mount: false,
            mounts: Vec::new(),
            ends_with_mounts: false,
            all: false,
            skip: Vec::new(),
            config: None,
            hook: None,
            log_filter: None,
            part: None,
            pool: Some(pool),
        }
    }
}

/// Why serving ends.
enum End {
    /// A signal.
    Signal(i32),
    /// A client had the pool exported.
    Exported(Exported),
    /// The time is over.
    Time,
    /// A mount is gone.
    Unmounted,
    /// Its devices failed, and its property `failmode` is `panic`: why.
    Panicked(String),
}

/// Writes the process's number; the file is there as long as what is returned.
fn write_pid(session: &Session, path: &Path) -> Result<hostfs::output::Remover, Failure> {
    let mut file = Output::own(session, path)?;
    let written = writeln!(file, "{}", std::process::id());
    let remover = file.remover()?;
    file.finish(written)?;
    Ok(remover)
}

/// Takes the socket away at the end, also when it has another name than its listener knows.
struct AtEnd(Arc<SocketFile>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if self.background && !self.inner && self.part.is_none() {
            return background::start(session, self.errors.as_deref(), true);
        }
        let args = self.complete(session)?;
        let errors = session.clone();
        log::begin(args.filter()?, ui::identity_of_errors(), move |line| ui::error(&errors, line));
        if args.all {
            return all::run(session, &args);
        }
        args.hold(session)
    }
}

impl Args {
    /// With what a file says; and of a process that is one of several, without what is the first
    /// one's.
    fn complete(self, session: &Session) -> Result<Self, Failure> {
        let of_part = |guid: &String| {
            let known = known::pools(session).find(guid);
            known.map_or_else(|| guid.clone(), |known| known.name().to_owned())
        };
        let pool = self.part.as_ref().map(of_part).or_else(|| self.pool.clone());
        let mut args = match &self.config {
            Some(path) => config::read(session, path, pool.as_deref())?,
            None => self,
        };
        if let Some(guid) = args.part.take() {
            all::end_with_parent();
            (args.pool, args.all) = (Some(guid), false);
            (args.http, args.pidfile) = (None, None);
        }
        Ok(args)
    }

    fn filter(&self) -> Result<Filter, Failure> {
        if let Some(filter) = &self.log_filter {
            return Ok(filter.clone());
        }
        let text = std::env::var(log::VARIABLE).unwrap_or_else(|_| log::USUAL.to_owned());
        Filter::parse(&text).map_err(|why| Failure::usage(format!("{}: {why}", log::VARIABLE)))
    }

    fn refuse_a_second(&self, session: &Session, name: &str) -> Result<(), Failure> {
        let Some(other) = Other::holding(session, &self.live.search, name)? else { return Ok(()) };
        let what = format!("cannot serve '{}': process {} does", other.name, other.pid);
        Err(Failure::new(what)
            .because(format!("it listens at {}", other.path.display()))
            .hint(format!("`zinc zpool export {}` ends that", word(&other.name))))
    }

    /// Holds the pool until something ends that.
    fn hold(&self, session: &Session) -> Result<ExitCode, Failure> {
        let name = self.pool.as_deref().unwrap_or_default();
        require_pool_name(name)?;
        let time = self.seconds.map(Duration::try_from_secs_f64).transpose();
        let time = time.map_err(|_| Failure::usage("--for takes a number of seconds"))?;
        self.refuse_a_second(session, name)?;
        let how = &self.live.options;
        let tunables = how.tuning.all(session)?;
        let hook = self.hook.as_deref().map(|path| program(session, path)).transpose()?;
        // Before the pool is held, so that a signal never ends it half.
        let (ends, ended) = channel();
        listen_to_signals(session, ends.clone())?;
        if self.read_only || known::is_readonly(session, &self.live.search, name) {
            return self.hold_to_read(session, name, ends, &ended, time);
        }
        let find = || found::find(session, &self.live.search, name, SearchScope::Known);
        let (found, pool) = live::take(session, find, how, &tunables, |options| {
            options.force = self.force;
        })?;
        let listed = Arc::new(found.listed);
        drop(found.candidate);
        // What was imported, or was found by its name, stays imported when it is not served any
        // more; another that was found with -d is exported.
        let is_known = self.live.search.is_empty() || listed.known().is_some();
        let listed_as = if is_known { ListedAs::ReadWrite } else { ListedAs::NotListed };
        let mut invocation = live::invocation(session);
        // The command line as typed, without the option that -b adds.
        invocation.command = invocation.command.replace(&format!(" --{}", background::INNER), "");
        // The history has what was changed, and a mount changes nothing.
        if !self.ends_with_mounts {
            pool.log(&invocation)?;
        }
        let (name, guid) = (pool.name().to_owned(), pool.view().guid());
        ui::be_brief(session);
        pool.outlast_failures()?;
        let held = Held::new(&name, guid, pool);
        let teller = events::watch(&held, hook)?;
        let gone = ends.clone();
        let mounts = Arc::new(Mounts::new(move || drop(gone.send(End::Unmounted))));
        let served = self.serve(session, (&held, &mounts), &listed, ends, &ended, time);
        let is_complete = served.as_ref().is_ok_and(|(_, is_complete)| *is_complete);
        let served = served.map(|(end, _)| end);
        if let Ok(End::Panicked(why)) = &served {
            // As after a crash, also for programs on a mount: it stays until it is unmounted, and
            // all they do there fails. Were it taken away, they would go on in the directory below.
            std::mem::forget(mounts);
            let failure = Failure::new(format!("{name} is not held any more: its devices fail"));
            let failure = failure.because(why.clone()).because("its property failmode is panic");
            return Err(failure.hint(LIKE_A_CRASH));
        }
        // However serving ended otherwise, the pool is let go properly.
        unmount_all(session, &mounts);
        let left = leave(session, &held, how, &served, &ended, (&*listed, listed_as));
        drop(held);
        teller.into_iter().for_each(events::EventThreads::finish);
        let end = served?;
        let code = left.map_err(|f| f.about(&format!("letting go of {name} ({guid})")))?;
        let is_kept = is_known && !matches!(end, End::Exported(_));
        let how = if is_kept { "no longer served" } else { "exported" };
        let why = match end {
            End::Signal(signal) => format!("signal {signal}"),
            End::Exported(_) => "a client exported it".to_owned(),
            End::Time => "its time is over".to_owned(),
            End::Panicked(why) => why,
            // A process that was started for a mount ends with it, without a message.
            End::Unmounted => return Ok(code),
        };
        tracing::info!(target: "zinc::pool", "{name} is {how}: {why}");
        Ok(if self.is_reported(is_complete) { code } else { ExitCode::from(FAILED) })
    }
}

impl Args {
    /// Whether missing mounts were reported: a process that was started in the background, or for
    /// one of many pools, has reported them to its starter.
    fn is_reported(&self, is_complete: bool) -> bool {
        is_complete || self.inner || self.part.is_some()
    }

    /// Listens for requests about the pool with this guid.
    fn listen(&self, session: &Session, guid: u64) -> Result<Endpoint, Failure> {
        let fail = |e: &dyn std::fmt::Display| {
            Failure::new("cannot listen for requests").because(e.to_string())
        };
        let path = match &self.socket {
            Some(path) => path.clone(),
            None => {
                let folder = served::folders(session).into_iter().next().unwrap_or_default();
                Endpoint::make_folder(&folder).map_err(|e| fail(&e))?;
                folder.join(served::file_name(guid))
            }
        };
        Endpoint::listen(&path).map_err(|e| {
            fail(&e).hint("--socket PATH listens elsewhere; only this user may use the folder")
        })
    }

    /// Answers until something ends it; that, and whether all is mounted that was to be.
    fn serve(
        &self,
        session: &Session,
        (held, mounts): (&Arc<Held>, &Arc<Mounts>),
        listed: &Arc<Listed>,
        ends: Sender<End>,
        ended: &Receiver<End>,
        time: Option<Duration>,
    ) -> Result<(End, bool), Failure> {
        let _pidfile = self.pidfile.as_deref().map(|path| write_pid(session, path)).transpose()?;
        let endpoint = self.listen(session, held.guid())?;
        let path = endpoint.path().to_owned();
        let socket = SocketFile::new(path.clone());
        let _at_end = AtEnd(Arc::clone(&socket));
        let of = (Arc::clone(held), Arc::clone(mounts), Arc::clone(listed));
        let failed = ends.clone();
        panic::watch(held, move |why| drop(failed.send(End::Panicked(why))))?;
        let service = Service::new(session.clone(), of, self.mount, socket, move |what| {
            let _ = ends.send(what.map_or(End::Unmounted, End::Exported));
        });
        let _server = Server::start(endpoint, Arc::new(service))?;
        let (pid, name, guid) = (std::process::id(), held.name(), held.guid());
        if let Some(address) = self.metrics {
            web::serve_metrics(address, held)?;
        }
        if let Some(address) = self.http {
            web::serve_page(address, held)?;
        }
        spares::watch(held, &session.devices())?;
        let pool = held.pool().ok_or_else(|| Failure::new("the pool is gone"))?;
        let (made, is_complete) = self.make_mounts(session, &(&pool).into(), mounts)?;
        drop(pool);
        let ready = |line: &str| background::ready_line(line, is_complete || !self.inner);
        match &self.nbd {
            Some(exports) => export(session, held, exports)?,
            None if self.ends_with_mounts => ui::out(session, &ready(&made)),
            None => {
                let path = path.display();
                let line = format!("serving {name} ({guid}) as process {pid} at {path}\n");
                ui::out(session, &ready(&line));
            }
        }
        notify::ready(manager(), &format!("serving {name}"));
        // What a process in the background says once it is ready is read by none, or by chance.
        if !self.inner {
            events::log_replays(held);
        }
        let until = time.map(|time| Instant::now() + time);
        let end = self.wait_for_end(&|| held.is_unused(), mounts, ended, until);
        if let End::Signal(signal) = end {
            notify::stopping(manager());
            tracing::info!(target: "zinc::pool", "signal {signal}: {name} is being closed");
        }
        Ok((end, is_complete))
    }
}

impl Args {
    /// Waits until serving is to end. A process that was started for mounts ends with the last of
    /// them; a command that runs then, such as one that exports volumes, can be reached until it
    /// ends.
    fn wait_for_end(
        &self,
        is_unused: &dyn Fn() -> bool,
        mounts: &Mounts,
        ended: &Receiver<End>,
        until: Option<Instant>,
    ) -> End {
        loop {
            let is_over = self.ends_with_mounts && mounts.is_idle();
            if is_over && is_unused() {
                return End::Unmounted;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let wait = left.into_iter().chain(is_over.then_some(TURN)).min();
            let end = match wait {
                Some(wait) => match ended.recv_timeout(wait) {
                    Err(_) if left.is_none_or(|left| left > wait) => continue,
                    end => end.unwrap_or(End::Time),
                },
                // The other end is kept by the thread that waits for signals.
                None => ended.recv().unwrap_or(End::Time),
            };
            if !matches!(end, End::Unmounted) {
                return end;
            }
        }
    }
}

/// The command of `--hook`.
fn program(session: &Session, path: &Path) -> Result<PathBuf, Failure> {
    let path = session.path(path);
    hook::program(&path).map_err(|e| {
        Failure::new(format!("cannot run '{}'", path.display())).because(e.to_string())
    })
}

/// Exports what is in the pool, in a thread that ends when the pool is let go; it counts as a
/// command that runs.
fn export(session: &Session, held: &Arc<Held>, exports: &Exports) -> Result<(), Failure> {
    let (sender, receiver) = channel();
    let (session, held, exports) = (session.clone(), Arc::clone(held), exports.clone());
    let work = move || {
        // It is waited for below, until the exports are there.
        let ready = || drop(sender.send(Ok(())));
        if let Err(failure) = exports.run_beside(&session, &held, ready) {
            let _ = sender.send(Err(failure));
        }
    };
    std::thread::Builder::new().name("nbd_exports".to_owned()).spawn(work)?;
    receiver.recv().unwrap_or_else(|_| Err(Failure::new("cannot export: its thread ended")))
}

impl Args {
    /// Mounts the datasets it was started for, or those that the properties name; returns the
    /// messages. Datasets that cannot be mounted by their properties are reported and left out;
    /// also returns whether there were none.
    fn make_mounts(
        &self,
        session: &Session,
        pool: &OpenPool,
        mounts: &Mounts,
    ) -> Result<(String, bool), Failure> {
        let (mut text, mut is_complete) = (String::new(), true);
        for wanted in &self.mounts {
            let dir = datasets::mount(pool, mounts, wanted)?;
            text.push_str(&made(session, pool, &wanted.name, dir));
        }
        if self.mount {
            for wanted in datasets::all_wanted(pool.view())? {
                match datasets::mount(pool, mounts, &wanted) {
                    Ok(dir) => text.push_str(&made(session, pool, &wanted.name, dir)),
                    Err(e) => {
                        Failure::from(e).report(session);
                        is_complete = false;
                    }
                }
            }
        }
        if self.ends_with_mounts && mounts.is_idle() {
            return Err(Failure::new("nothing is mounted"));
        }
        // Clients read one line.
        let line = text.lines().next().map(|line| format!("{line}\n")).unwrap_or_default();
        Ok((line, is_complete))
    }
}

/// The message about a mount.
fn made(session: &Session, pool: &OpenPool, name: &str, dir: PathBuf) -> String {
    if !pool.is_read_only() {
        return mounting::made(name, &dir);
    }
    let made = MountRecord::of(pool, name, dir);
    mounting::made_to_read(session, &made, u64::from(std::process::id()))
}

/// Unmounts everything; what programs use is taken from them.
fn unmount_all(session: &Session, mounts: &Mounts) {
    for one in mounts.all().into_iter().rev() {
        if mounts.unmount(&one.dir, UnmountMode::Politely).is_ok() {
            continue;
        }
        let dir = one.dir.display();
        tracing::warn!(target: "zinc::mount", "{dir} is unmounted while programs use it");
        if let Err(e) = mounts.unmount(&one.dir, UnmountMode::Forcibly) {
            mounting::not_unmounted(&one.dir, &e).report(session);
        }
    }
    if let Err((dir, e)) = mounts.end_lingering(|_| true, UnmountMode::Forcibly) {
        mounting::not_unmounted(&dir, &e).report(session);
    }
}

/// Lets the pool go, unless a client had that done.
fn leave(
    session: &Session,
    held: &Held,
    how: &LiveOptions,
    served: &Result<End, Failure>,
    ended: &Receiver<End>,
    listed: (&Listed, ListedAs),
) -> Result<ExitCode, Failure> {
    if let Ok(End::Exported(exported)) = served {
        return outcome(exported);
    }
    if !matches!(served, Ok(End::Unmounted)) {
        end_in_time(session)?;
        if let Some(pool) = held.pool() {
            pool.stop_waiting();
        }
    }
    let reason = match served {
        Ok(End::Signal(signal)) => signal_name(*signal),
        Ok(End::Time) => "its time is over",
        Ok(End::Unmounted) => "the last mount is gone",
        Ok(End::Panicked(_)) => "its devices fail",
        Ok(End::Exported(_)) | Err(_) => "it cannot listen for requests",
    };
    // No end was requested: commands of clients are waited for.
    let waits = matches!(served, Ok(End::Unmounted));
    let mode = if waits { CloseMode::Polite } else { CloseMode::Ending(reason) };
    loop {
        match held.release(mode, |_| Ok(())) {
            Ok(pool) => return close(session, pool, how, listed),
            Err(NotReleased::Busy(_)) if waits => {}
            Err(NotReleased::Busy(commands)) => {
                let failure = Failure::new("commands are still running");
                let failure = commands.into_iter().fold(failure, Failure::because);
                return Err(failure.hint(LIKE_A_CRASH));
            }
            Err(NotReleased::Failed(refusal)) => return Err(Failure::new(refusal.to_string())),
            // A client is about to export it: that is waited for, or takes its turn.
            Err(NotReleased::Closing) => {
                if let Ok(End::Exported(exported)) = ended.recv_timeout(TURN) {
                    return outcome(&exported);
                }
            }
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        SIGTERM => "it got SIGTERM",
        SIGINT => "it got SIGINT",
        SIGHUP => "it got SIGHUP",
        _ => "it got a signal",
    }
}

/// The outcome of a client's export.
fn outcome(exported: &Exported) -> Result<ExitCode, Failure> {
    match exported {
        Exported::Done => Ok(ExitCode::SUCCESS),
        Exported::Failed(why) => Err(Failure::new(why).hint(LIKE_A_CRASH)),
        Exported::LetGo(why) => {
            let what = "the pool was closed without being exported, as a client requested";
            Err(Failure::new(what).because(why).hint(LIKE_A_CRASH))
        }
    }
}

/// Makes everything durable and lets the pool go. A failure to report the result does not keep the
/// pool open.
fn close(
    session: &Session,
    pool: LivePool,
    how: &LiveOptions,
    (listed, listed_as): (&Listed, ListedAs),
) -> Result<ExitCode, Failure> {
    let shown = live::print_txgs(session, &pool, how);
    let code = shown.map_or_else(|failure| failure.report(session), |()| ExitCode::SUCCESS);
    let_go(pool, listed_as, |guid| listed.forget(&known::pools(session), guid))?;
    Ok(code)
}

/// Sees to it that the process ends soon, whatever hangs.
fn end_in_time(session: &Session) -> Result<(), Failure> {
    let session = session.clone();
    let wait = move || {
        std::thread::sleep(END_WITHIN);
        let time = END_WITHIN.as_secs();
        let what = format!("the pool was not closed within {time} s, and this process ends");
        ui::failure(&session, &Failure::new(what).hint(LIKE_A_CRASH));
        session.end(ExitCode::from(FAILED));
    };
    std::thread::Builder::new().name("end".to_owned()).spawn(wait)?;
    Ok(())
}

/// The first signal ends serving, the second the process.
fn listen_to_signals(session: &Session, ends: Sender<End>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let session = session.clone();
    let wait = move || {
        let session = &session;
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                ui::note(session, "a second signal: ends at once, the pool is not exported");
                session.end(ExitCode::from(FAILED));
            }
            let _ = ends.send(End::Signal(signal));
            if let Err(failure) = end_in_time(session) {
                failure.report(session);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}
