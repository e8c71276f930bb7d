//! `zinc serve -a`: every known pool, by a process of its own, and one that looks after these.
//!
//! ```text
//! found -> serves -> ended well (exported): until it is found again
//!   ^        |
//!   '- pause-'  failed, or was killed
//! ```
//!
//! A process of a pool is `zinc serve` with the same options, and a hidden one that names its pool.
//! It is started again when it fails, after pauses that double (`control::keeper`): a device may
//! come late at boot, and a server that was killed has left nothing but a socket. One that ended
//! well has let its pool go, which mostly was exported. Once a second it is looked for pools that
//! are known and not served: they were imported or made since.
//!
//! A signal to end is handed on, each process closes its pool within a minute (`held`), and this
//! one ends after the last of them. They are in groups of their own, so that a terminal's Ctrl-C
//! reaches them once. When this process is killed they get a SIGTERM from the system, so that a
//! manager that starts it again finds the pools free.

use super::web::{self, Remote};
use super::{Args, PART, manager, write_pid};
use crate::failure::Failure;
use crate::known;
use crate::served::{self, Server as Other};
use crate::session::Session;
use crate::ui;
use control::keeper::{ProcessSpec, Supervisor};
use hostfs::notify;
use page::Recorder;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How often it is looked for pools that have become known.
const LOOK: Duration = Duration::from_secs(1);
/// The state shared by all threads.
#[derive(Clone, Default)]
struct Served {
    recorder: Arc<Recorder>,
    keeper: Arc<Supervisor>,
}

/// Ends this process when the one that started it does.
pub fn end_with_parent() {
    // Where the system has no such signal the process stays, as any server does.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

/// Serves all known pools until a signal, also those that become known meanwhile.
pub fn run(session: &Session, args: &Args) -> Result<ExitCode, Failure> {
    let _pidfile = args.pidfile.as_deref().map(|path| write_pid(session, path)).transpose()?;
    ui::be_brief(session);
    let began = Instant::now();
    let all = Served::default();
    let keeper = &all.keeper;
    listen_to_signals(keeper)?;
    if let Some(address) = args.http {
        web::serve_recorded(address, &all.recorder)?;
    }
    let (begun, begins) = channel();
    let count = all.keep_new(session, &args.skip, Some(&begun))?;
    if count == 0 {
        let why = match known::pools(session).all().is_empty() {
            true => "no pools are known yet: import or create some",
            false => "all known pools are served already, or left out",
        };
        tracing::info!(target: "zinc", "{why}");
    }
    let served = begins.iter().take(count).filter(|is_served| *is_served).count();
    ui::out(session, &format!("serving {served} of {count} pools\n"));
    notify::ready(manager(), &format!("serving {served} of {count} pools"));
    // The process of each pool ends by itself after the requested time.
    let is_time_up = || args.seconds.is_some_and(|most| began.elapsed().as_secs_f64() >= most);
    while !keeper.pause(LOOK) && !is_time_up() {
        if let Err(failure) = all.keep_new(session, &args.skip, None) {
            let (why, ..) = failure.parts();
            tracing::error!(target: "zinc::pool", "a new pool is not served: {why}");
        }
    }
    Ok(if keeper.wait_for_all() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The first signal is handed on; a second one too, so that the servers end at once.
fn listen_to_signals(keeper: &Arc<Supervisor>) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let keeper = Arc::clone(keeper);
    let wait = move || {
        for signal in signals.forever() {
            notify::stopping(manager());
            tracing::info!(target: "zinc", "signal {signal}: all pools are being closed");
            keeper.end();
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    Ok(())
}

impl Served {
    /// Begins to serve the pools that are known here, are not left out, and are not served yet;
    /// returns their number. `begun` receives once for each whether its process serves it.
    fn keep_new(
        &self,
        session: &Session,
        skip: &[String],
        begun: Option<&Sender<bool>>,
    ) -> Result<usize, Failure> {
        let all = known::pools(session).all();
        let mut count = 0;
        for known in all.iter().filter(|known| !skip.iter().any(|skip| known.is_called(skip))) {
            let (name, guid) = (known.name().to_owned(), known.guid());
            if self.keeper.has(guid) {
                continue;
            }
            if let Ok(Some(other)) = Other::holding(session, &[], &guid.to_string()) {
                if begun.is_some() {
                    let pid = other.pid;
                    tracing::info!(target: "zinc", "{name} is served by process {pid} already");
                }
                continue;
            }
            self.begin(session, name, guid, begun.cloned())?;
            count += 1;
        }
        Ok(count)
    }

    /// Keeps the process of a pool running from now on.
    fn begin(
        &self,
        session: &Session,
        name: String,
        guid: u64,
        begun: Option<Sender<bool>>,
    ) -> Result<(), Failure> {
        let folder = served::folders(session).into_iter().next().unwrap_or_default();
        let path = folder.join(served::file_name(guid));
        let is_gone = Arc::<AtomicBool>::default();
        self.recorder.watch(Arc::new(Remote::new(session, path, &is_gone)))?;
        let (own, known) = (session.clone(), session.clone());
        Ok(self.keeper.keep(ProcessSpec {
            key: guid,
            name,
            start: Box::new(move || start(&own, guid)),
            // One that was exported or destroyed meanwhile is not.
            is_wanted: Box::new(move || known::pools(&known).by_guid(guid).is_some()),
            let_go: Box::new(move || is_gone.store(true, Ordering::Relaxed)),
            begun,
        })?)
    }
}

fn start(session: &Session, guid: u64) -> std::io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(session.arguments().iter().skip(1));
    command.arg(format!("--{PART}={guid}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    command.env_remove(notify::SOCKET).spawn()
}
