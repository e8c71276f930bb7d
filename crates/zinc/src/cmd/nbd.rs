//! `zinc nbd`: volumes, snapshots of them and files as disks for other programs.
//!
//! The process that holds the pool exports what is in it:
//!
//! ```text
//! the pool is served        the server runs this verb for its client, until the client is gone
//! it is not                 this process serves the pool (`cmd/serve`), and exports beside that
//! it is only to be read     this process opens the pool for reading (--read-only, readonly=on)
//! files alone               there is no pool
//! ```

use crate::cmd::serve::{self, background};
use crate::cmd::verb::{Served, Verb};
use crate::exports::Exports;
use crate::failure::Failure;
use crate::live::LiveArgs;
use crate::session::Session;
use crate::{known, served};
use engine::OpenPool;
use engine::datasets::pool_of;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

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
    /// Listen on this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen on this address, such as 127.0.0.1:10809; a port alone is one of this machine only
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Listen where other machines can connect, without authentication or encryption
    #[arg(long)]
    insecure_plain_tcp: bool,
    /// Require TLS, with server-cert.pem and server-key.pem of this directory
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Accept only clients whose certificate is signed by one in ca-cert.pem
    #[arg(long, requires = "tls_certificates")]
    tls_verify_peer: bool,
    /// Export read-only (required for files, and for pools that are not imported)
    #[arg(long)]
    read_only: bool,
    /// Run in the background: return as soon as clients can connect
    #[arg(short = 'b', long)]
    background: bool,
    /// With -b: write messages to this file instead of standard error
    #[arg(long = "log", value_name = "FILE")]
    errors: Option<PathBuf>,
    /// What -b starts
    #[arg(long = background::INNER, hide = true)]
    inner: bool,
    /// Volumes POOL/VOL and snapshots POOL/VOL@SNAP of one pool; or a file, as a path that begins
    /// with . or /
    #[arg(required = true, value_name = "POOL/VOL|FILE")]
    names: Vec<String>,
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
    /// The exports that were named, if they can be exported together.
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
        if is_plain_tcp && !self.insecure_plain_tcp && !self.tls_verify_peer {
            return Err(Failure::usage("other machines could connect without authentication")
                .hint(
                    "--tls-verify-peer asks for their certificates; --insecure-plain-tcp allows it",
                ));
        }
        let absolute = |path: &PathBuf| std::path::absolute(session.path(path));
        let socket = self.socket.as_ref().map(absolute);
        let words = session.arguments().iter().map(|w| w.to_string_lossy().into_owned());
        Ok(Exports {
            volumes,
            files: files.iter().map(|file| session.path(Path::new(file))).collect(),
            // Shown to clients, which are elsewhere.
            socket: socket.transpose()?,
            listen: self.listen,
            tls: self.tls_certificates.as_ref().map(|folder| session.path(folder)),
            asks_who: self.tls_verify_peer,
            is_read_only: self.read_only,
            shown: words.collect::<Vec<_>>().join(" "),
        })
    }

    /// Opens the pool for reading, as it is on its devices, and exports from there.
    fn read_only(&self, session: &Session, exports: &Exports) -> Result<ExitCode, Failure> {
        let mut sources = exports.file_sources()?;
        if let Some(name) = exports.volumes.first() {
            let pool = Arc::new(self.live.to_read().open(session, name)?);
            sources.extend(exports.volume_sources(&OpenPool::from(&pool))?);
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
                return Err(Failure::new("this process has the pool open and serves no client"));
            };
            exports.run(session, &pool, &client.presence, || ())?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.read_only || known::is_readonly(session, &self.live.search, &name) {
            return self.read_only(session, &exports);
        }
        let pool = pool_of(&name).to_owned();
        Box::new(serve::Args::beside(self.live, pool, exports)).run(session)
    }
}
