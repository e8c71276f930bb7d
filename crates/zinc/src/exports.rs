//! Volumes, snapshots of them and files, as disks for other programs (NBD).

use crate::failure::Failure;
use crate::session::Session;
use crate::{served, ui};
use ::exports::{FileSource, VolumeSource};
use agents::Held;
use control::{Endpoint, Presence};
use engine::datasets::pool_of;
use engine::{LivePool, OpenPool};
use nbd::{Listener, Server, ServerTls, Source, uri};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

/// The exports, and where clients find them.
#[derive(Clone, Debug)]
pub struct Exports {
    /// Volumes and snapshots of one pool.
    pub volumes: Vec<String>,
    /// Files of this machine.
    pub files: Vec<PathBuf>,
    /// The Unix socket to listen at.
    pub socket: Option<PathBuf>,
    /// The address to listen at.
    pub listen: Option<SocketAddr>,
    /// The directory of the certificates: clients are served inside TLS alone.
    pub tls: Option<PathBuf>,
    /// Clients show certificates of their own.
    pub asks_who: bool,
    /// Clients change nothing.
    pub is_read_only: bool,
    /// The command line, for a caller that asks what runs.
    pub shown: String,
}

/// Exports that are being served; the name of their socket goes when this does.
pub struct Running {
    server: Server,
    _endpoint: Option<Endpoint>,
}

impl Exports {
    /// The files, open.
    pub fn file_sources(&self) -> Result<Vec<Arc<dyn Source>>, Failure> {
        let source = |path: &PathBuf| -> Result<Arc<dyn Source>, Failure> {
            let fail = |e: std::io::Error| {
                Failure::new(format!("cannot export {}", path.display())).because(e.to_string())
            };
            Ok(Arc::new(FileSource::open(path).map_err(fail)?))
        };
        self.files.iter().map(source).collect()
    }

    /// The volumes.
    pub fn volume_sources(&self, pool: &OpenPool) -> Result<Vec<Arc<dyn Source>>, Failure> {
        let source = |name: &String| -> Result<Arc<dyn Source>, Failure> {
            let fail = |e| Failure::from(e).about(&format!("cannot export '{name}'"));
            let volume = VolumeSource::new(pool.clone(), name, self.is_read_only);
            Ok(Arc::new(volume.map_err(fail)?))
        };
        self.volumes.iter().map(source).collect()
    }

    /// Listens, reports it, and begins to serve.
    pub fn start(
        &self,
        session: &Session,
        sources: Vec<Arc<dyn Source>>,
    ) -> Result<Running, Failure> {
        let fail = |e: &dyn std::fmt::Display| {
            Failure::new("cannot listen for NBD clients").because(e.to_string())
        };
        let names: Vec<String> = sources.iter().map(|source| source.name().to_owned()).collect();
        // One alone need not be named, but may be.
        let name = if let [only] = &names[..] { only.as_str() } else { "" };
        let tls = self.tls.as_ref().map(|folder| ServerTls::read(folder, self.asks_who));
        let tls = tls.transpose().map_err(|e| fail(&e))?;
        let s = if tls.is_some() { "s" } else { "" };
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
            places.push(uri(&format!("nbd{s}+unix://"), name, path.to_str()));
        }
        if let Some(address) = self.listen {
            let listener = TcpListener::bind(address).map_err(|e| fail(&e))?;
            let bound = listener.local_addr().map_err(|e| fail(&e))?;
            if !bound.ip().is_loopback() {
                ui::note(session, &format!("{bound} can be reached by other machines"));
            }
            listeners.push(Listener::Tcp(listener));
            places.push(uri(&format!("nbd{s}://{bound}"), name, None));
        }
        let server = Server::start(listeners, sources, tls).map_err(|e| fail(&e))?;
        let (names, places) = (names.join(", "), places.join(" and "));
        let names = ui::escape::line(&names);
        // Of a server, whose process has more to do, a signal is not the way to end this.
        let process = match session.client() {
            Some(_) => String::new(),
            None => format!(" as process {}", std::process::id()),
        };
        ui::out(session, &format!("exporting {names}{process} at {places}\n"));
        Ok(Running { server, _endpoint: endpoint })
    }

    /// The default socket to listen at.
    fn own_socket(&self, session: &Session) -> Result<PathBuf, Failure> {
        let folder = served::folders(session).into_iter().next().unwrap_or_default();
        Endpoint::make_folder(&folder)
            .map_err(|e| Failure::new("cannot listen for NBD clients").because(e.to_string()))?;
        let pool = self.volumes.first().map_or("files", |name| pool_of(name));
        Ok(folder.join(format!("{pool}.nbd")))
    }

    /// Exports from a pool that is held until `presence` ends; `ready` is called when clients can
    /// connect.
    pub fn run(
        &self,
        session: &Session,
        pool: &Arc<LivePool>,
        presence: &Presence,
        ready: impl FnOnce(),
    ) -> Result<(), Failure> {
        let mut sources = self.file_sources()?;
        sources.extend(self.volume_sources(&pool.into())?);
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
    /// Ends them: what clients wait for is answered.
    pub fn stop(mut self, session: &Session) {
        if !self.server.stop() {
            ui::note(session, "warning: NBD clients were disconnected with requests outstanding");
        }
    }
}
