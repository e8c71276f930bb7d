//! `zinc nbd`: volumes, snapshots of them and files as disks for other programs.
//!
//! Who holds the pool exports what is in it:
//!
//! ```text
//! the pool is served        the server runs this verb for its client, until the client is gone
//! it is not                 this process serves the pool (`cmd/serve`), and exports beside that
//! --read-only, not served   this process opens the pool for reading
//! files alone               there is no pool
//! ```

mod export;
mod file;
mod volume;

use crate::cmd::serve::held::Held;
use crate::cmd::serve::{self, background};
use crate::cmd::verb::{Served, Verb};
use crate::common::{OpenArgs, PoolArgs, pool_of};
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::served;
use crate::session::{Presence, Session};
use crate::ui;
use control::Endpoint;
use engine::LivePool;
use file::FileSource;
use nbd::{Listener, Server, Source};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use volume::{Place, VolumeSource};

/// The port that the protocol has of its own.
const PORT: u16 = 10809;

/// Arguments of `zinc nbd`.
#[derive(clap::Args)]
#[command(after_help = "\
An export has the name of the volume, POOL/VOL or POOL/VOL@SNAP; where there is one alone, a client
need not name it. Without --socket and --listen the socket is in the user's folder of sockets. The
pool is held as by `zinc serve`, unless it is served already: then its server exports, for as long
as this command runs. SIGTERM and SIGINT end it: what clients wait for is answered.")]
pub struct Args {
    #[command(flatten)]
    live: LiveArgs,
    /// Listen at this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen at this address: 127.0.0.1:10809, or a port alone for this machine's own
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Listen where other machines can connect, though they are not asked who they are and all is
    /// sent as it is
    #[arg(long)]
    insecure_plain_tcp: bool,
    /// Let clients change nothing; only so a file is exported, and a pool of which nothing is known
    #[arg(long)]
    read_only: bool,
    /// Give the terminal back as soon as clients can connect
    #[arg(short = 'b', long)]
    background: bool,
    /// With -b: write what goes to standard error into this file
    #[arg(long = "log", value_name = "FILE")]
    errors: Option<PathBuf>,
    /// What -b starts
    #[arg(long = background::INNER, hide = true)]
    inner: bool,
    /// Volumes POOL/VOL and snapshots POOL/VOL@SNAP of one pool; a file is named by a path with /
    /// or . before it
    #[arg(required = true, value_name = "POOL/VOL|FILE")]
    names: Vec<String>,
}

/// What was named, and where it is listened for.
#[derive(Clone, Debug)]
pub struct Exports {
    volumes: Vec<String>,
    files: Vec<PathBuf>,
    socket: Option<PathBuf>,
    listen: Option<SocketAddr>,
    is_read_only: bool,
    shown: String,
}

/// Exports that are being served; the name of their socket goes when this does.
struct Running {
    server: Server,
    _endpoint: Option<Endpoint>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    if let Ok(ip) = text.parse() {
        return Ok(SocketAddr::new(ip, PORT));
    }
    text.parse().map_err(|_| "an address and a port, like 127.0.0.1:10809".to_owned())
}

fn is_file(name: &str) -> bool {
    name.starts_with(['/', '.'])
}

impl Args {
    /// What was named, when it can be exported together.
    fn exports(&self, session: &Session) -> Result<Exports, Failure> {
        let (files, volumes): (Vec<_>, Vec<_>) =
            self.names.iter().cloned().partition(|name| is_file(name));
        if !files.is_empty() && !self.read_only {
            return Err(Failure::usage("a file is exported with --read-only alone"));
        }
        let mut pools: Vec<&str> = volumes.iter().map(|name| pool_of(name)).collect();
        pools.dedup();
        if pools.len() > 1 {
            return Err(Failure::usage("volumes of several pools are exported one pool at a time")
                .hint("one `zinc nbd` for each pool"));
        }
        let is_plain_tcp = self.listen.is_some_and(|at| !at.ip().is_loopback());
        if is_plain_tcp && !self.insecure_plain_tcp {
            return Err(Failure::usage(
                "other machines could connect without being asked who they \
                                       are",
            )
            .hint("--insecure-plain-tcp allows that; a tunnel to a Unix socket is better"));
        }
        let absolute = |path: &PathBuf| std::path::absolute(session.path(path));
        let socket = self.socket.as_ref().map(absolute);
        let words = session.arguments().into_iter().map(|w| w.to_string_lossy().into_owned());
        Ok(Exports {
            volumes,
            files: files.iter().map(|file| session.path(Path::new(file))).collect(),
            // Shown to clients, which are elsewhere.
            socket: socket.transpose()?,
            listen: self.listen,
            is_read_only: self.read_only,
            shown: words.collect::<Vec<_>>().join(" "),
        })
    }

    /// Opens the pool for reading, as it is on its devices, and exports from there.
    fn read_only(&self, session: &Session, exports: &Exports) -> Result<ExitCode, Failure> {
        let mut sources = exports.file_sources()?;
        if let Some(name) = exports.volumes.first() {
            let open = OpenArgs {
                cache_mib: self.live.how.cache_mib,
                wait: self.live.how.wait,
                ..OpenArgs::default()
            };
            let search = self.live.search.clone();
            let args = PoolArgs { search, open, ..PoolArgs::default() }.anywhere();
            let pool = Arc::new(args.open(session, name)?);
            let place = Place::Devices(pool);
            sources.extend(exports.volume_sources(&place)?);
        }
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let running = exports.start(session, sources)?;
        let _ = signals.forever().next();
        running.stop(session);
        Ok(ExitCode::SUCCESS)
    }
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let exports = self.exports(session)?;
        if self.background && !self.inner {
            return background::start(session, self.errors.as_deref(), true);
        }
        let Some(name) = exports.volumes.first().cloned() else {
            return self.read_only(session, &exports);
        };
        served::forward(session, &self.live.search, &name)?;
        if let Some(pool) = session.held(&name) {
            let Some(client) = session.client() else {
                return Err(Failure::new("the pool is held, and for no client"));
            };
            exports.run(session, &pool, &client.presence, || ())?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.read_only {
            return self.read_only(session, &exports);
        }
        let pool = pool_of(&name).to_owned();
        Box::new(serve::Args::beside(self.live, pool, exports)).run(session)
    }
}

impl Exports {
    fn file_sources(&self) -> Result<Vec<Arc<dyn Source>>, Failure> {
        let source = |path: &PathBuf| -> Result<Arc<dyn Source>, Failure> {
            Ok(Arc::new(FileSource::open(path)?))
        };
        self.files.iter().map(source).collect()
    }

    fn volume_sources(&self, place: &Place) -> Result<Vec<Arc<dyn Source>>, Failure> {
        let source = |name: &String| -> Result<Arc<dyn Source>, Failure> {
            Ok(Arc::new(VolumeSource::new(place.clone(), name, self.is_read_only)?))
        };
        self.volumes.iter().map(source).collect()
    }

    /// Listens, says so, and begins to serve.
    fn start(&self, session: &Session, sources: Vec<Arc<dyn Source>>) -> Result<Running, Failure> {
        let fail = |e: &dyn std::fmt::Display| {
            Failure::new("cannot listen for NBD clients").because(e.to_string())
        };
        let names: Vec<String> = sources.iter().map(|source| source.name().to_owned()).collect();
        // One alone need not be named, but may be.
        let name = if let [only] = &names[..] { only.as_str() } else { "" };
        let (mut listeners, mut places, mut endpoint) = (Vec::new(), Vec::new(), None);
        if self.socket.is_some() || self.listen.is_none() {
            let path = match &self.socket {
                Some(path) => path.clone(),
                None => self.own_socket(session)?,
            };
            let one = Endpoint::listen_alone(&path)
                .map_err(|e| fail(&e).hint("--socket PATH listens elsewhere"))?;
            listeners.push(Listener::Unix(one.listener().map_err(|e| fail(&e))?));
            endpoint = Some(one);
            places.push(uri("nbd+unix://", name, path.to_str()));
        }
        if let Some(address) = self.listen {
            let listener = TcpListener::bind(address).map_err(|e| fail(&e))?;
            let bound = listener.local_addr().map_err(|e| fail(&e))?;
            if !bound.ip().is_loopback() {
                ui::error(session, &format!("zinc: {bound} can be reached by other machines\n"));
            }
            listeners.push(Listener::Tcp(listener));
            places.push(uri(&format!("nbd://{bound}"), name, None));
        }
        let server = Server::start(listeners, sources).map_err(|e| fail(&e))?;
        let (names, places) = (names.join(", "), places.join(" and "));
        let names = ui::escape::line(&names);
        ui::out(session, &format!("exporting {names} at {places}\n"));
        Ok(Running { server, _endpoint: endpoint })
    }

    /// Where it is listened when nothing else is said.
    fn own_socket(&self, session: &Session) -> Result<PathBuf, Failure> {
        let folder = served::folders(session).into_iter().next().unwrap_or_default();
        Endpoint::make_folder(&folder)
            .map_err(|e| Failure::new("cannot listen for NBD clients").because(e.to_string()))?;
        let pool = self.volumes.first().map_or("files", |name| pool_of(name));
        Ok(folder.join(format!("{pool}.nbd")))
    }

    /// Exports from a pool that is held until `presence` says that it is enough; `ready` is called
    /// when clients can connect.
    fn run(
        &self,
        session: &Session,
        pool: &Arc<LivePool>,
        presence: &Presence,
        ready: impl FnOnce(),
    ) -> Result<(), Failure> {
        let mut sources = self.file_sources()?;
        sources.extend(self.volume_sources(&Place::Held(Arc::clone(pool)))?);
        let running = self.start(session, sources)?;
        ready();
        presence.wait_for_end();
        running.stop(session);
        Ok(())
    }

    /// The same for a server that has nothing else to do: this counts as a command that runs, and
    /// ends when the pool is let go.
    pub fn run_beside(
        &self,
        session: &Session,
        held: &Held,
        ready: impl FnOnce(),
    ) -> Result<(), Failure> {
        let presence = Arc::new(Presence::default());
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        let run = |pool: &Arc<LivePool>| Ok(self.run(session, pool, &presence, ready));
        held.work(&self.shown, pid, &presence, run)
            .unwrap_or_else(|refusal| Err(Failure::new(refusal.to_string())))
    }
}

impl Running {
    fn stop(mut self, session: &Session) {
        if !self.server.stop() {
            ui::error(session, "zinc: warning: NBD clients were hung up while they waited\n");
        }
    }
}

/// How clients write where an export is.
fn uri(place: &str, name: &str, socket: Option<&str>) -> String {
    let quote = |text: &str| -> String {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/:".contains(&b);
        text.bytes()
            .map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
            .collect()
    };
    let socket = socket.map(|path| format!("?socket={}", quote(path))).unwrap_or_default();
    format!("{place}/{}{socket}", quote(name))
}
