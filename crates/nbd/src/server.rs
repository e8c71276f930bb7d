//! Listening: one thread for each socket accepts, each connection begins with one of its own.
//!
//! When as many are connected as may be, the one that has been negotiating longest makes room
//! ([`connections`]); one that has agreed on an export keeps its place.
//!
//! # Stopping
//!
//! No connection is accepted any more, and no request read but those that came in before. Requests
//! in progress are answered; those that are not done after [`GRACE`] are hung up.

use crate::export::Source;
use crate::limits::{CONNECTIONS, EXTRA_THREADS, GRACE, NEGOTIATION, PATIENCE, SPARED};
use crate::negotiation::negotiate;
use crate::transmission::{ThreadLimit, Transmission};
use connections::{Connections, Disconnect, Slot};
use nbdwire::{Connection, Input, ServerTls, prepare_tcp, prepare_unix};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the accepting thread rests when the system has no more files for it.
const REST: Duration = Duration::from_millis(100);

/// A socket that connections come in by.
pub enum Listener {
    /// Of this machine.
    Unix(UnixListener),
    /// Of the network.
    Tcp(TcpListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Arc<dyn Connection>> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                prepare_unix(&stream, PATIENCE)?;
                Ok(Arc::new(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                prepare_tcp(&stream, PATIENCE)?;
                Ok(Arc::new(stream))
            }
        }
    }

    /// Wakes a thread that waits in [`Self::accept`]: there will be no more.
    fn end(&self) {
        use rustix::net::{Shutdown, shutdown};
        let _ = match self {
            Self::Unix(listener) => shutdown(listener, Shutdown::Both),
            Self::Tcp(listener) => shutdown(listener, Shutdown::Both),
        };
    }
}

/// The state shared by all connections.
struct Shared {
    sources: Vec<Arc<dyn Source>>,
    /// Clients are served inside TLS alone.
    tls: Option<ServerTls>,
    extras: Arc<ThreadLimit>,
    clients: Arc<Connections<Client>>,
}

struct Client(Arc<dyn Connection>);

impl Disconnect for Client {
    fn hang_up(&self) {
        self.0.hang_up();
    }
}

impl Shared {
    fn new(sources: Vec<Arc<dyn Source>>, tls: Option<ServerTls>) -> Arc<Self> {
        let clients = Connections::new(CONNECTIONS, SPARED);
        Arc::new(Self { sources, tls, extras: ThreadLimit::new(EXTRA_THREADS), clients })
    }

    /// Converses with a client to the end.
    fn converse(&self, line: &Arc<dyn Connection>, slot: Slot<Client>) {
        let mut input = Input::new(Some(Instant::now() + NEGOTIATION));
        let agreed = negotiate(line, &mut input, &self.sources, self.tls.as_ref());
        let Ok(Some(agreed)) = agreed else { return line.hang_up() };
        // From now on it is never one that waits, and so makes room for none.
        if !slot.begin() {
            return;
        }
        if input.wait_for_ever(&*agreed.line).is_ok() {
            Transmission::new(input, agreed, Arc::clone(&self.extras), slot).work();
        }
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        loop {
            let line = listener.accept();
            if self.clients.is_closed() {
                return;
            }
            let Ok(line) = line else {
                std::thread::sleep(REST);
                continue;
            };
            let Some(slot) = self.clients.admit(Client(Arc::clone(&line))) else {
                line.hang_up();
                continue;
            };
            let shared = Arc::clone(self);
            let converse = move || shared.converse(&line, slot);
            // Without a thread the connection is closed, which the client reports.
            let _ = std::thread::Builder::new().name("nbd".to_owned()).spawn(converse);
        }
    }
}

/// Exports that are being served.
pub struct Server {
    shared: Arc<Shared>,
    accepting: Vec<(Arc<Listener>, JoinHandle<()>)>,
}

impl Server {
    /// Begins to serve, with `tls` inside that alone.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(
        listeners: Vec<Listener>,
        sources: Vec<Arc<dyn Source>>,
        tls: Option<ServerTls>,
    ) -> io::Result<Self> {
        let mut server = Self { shared: Shared::new(sources, tls), accepting: Vec::new() };
        for listener in listeners {
            let listener = Arc::new(listener);
            let (shared, one) = (Arc::clone(&server.shared), Arc::clone(&listener));
            let accept = move || shared.accept(&one);
            let thread = std::thread::Builder::new().name("nbd_accept".to_owned()).spawn(accept)?;
            server.accepting.push((listener, thread));
        }
        Ok(server)
    }

    /// How many are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.clients.count()
    }

    /// Stops: see the head of the file. Whether all ended that were connected.
    #[must_use]
    pub fn stop(&mut self) -> bool {
        let clients = &self.shared.clients;
        clients.close(|client| client.0.end_input());
        for (listener, thread) in self.accepting.drain(..) {
            listener.end();
            // One that panicked has ended too.
            let _ = thread.join();
        }
        clients.wait(GRACE) || {
            clients.close(Disconnect::hang_up);
            clients.wait(GRACE)
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.accepting.is_empty() {
            let _ = self.stop();
        }
    }
}

/// The answer to a client that sends these bytes, with an export in memory.
pub(crate) fn conversation(bytes: &[u8]) -> Vec<u8> {
    let source: Arc<dyn Source> = Arc::new(crate::memory::MemorySource::new("disk", 64 << 10));
    let line = Arc::new(crate::memory::MemoryConnection::new(bytes));
    let mut input = Input::new(None);
    let own: Arc<dyn Connection> = Arc::<crate::memory::MemoryConnection>::clone(&line);
    if let Ok(Some(agreed)) = negotiate(&own, &mut input, &[source], None) {
        // No extra threads: all is done when this one ends.
        Transmission::new(input, agreed, ThreadLimit::new(0), ()).work();
    }
    line.written()
}
