//! A connection inside TLS, for both ends.
//!
//! # Theory
//!
//! The session of [`rustls`] turns plain bytes into records and back and knows no socket. Two
//! locks carry it:
//!
//! ```text
//! sending   its holder puts records onto the line, in the order in which they were made
//! session   held for as long as bytes are turned, never while the line is waited for
//! ```
//!
//! Lock order: `sending` before `session`. A writer takes `sending`, makes records under `session`,
//! and sends them with `sending` alone; so a reader never waits for a writer that waits for the
//! other end. A message of the session that results from reading (the answer to a change of keys)
//! is sent by the reader if no thread is sending, and otherwise with the next record.
//!
//! One thread at a time reads, as with every [`Connection`]; the lock `reading` is its buffer.
//!
//! # Files
//!
//! Certificates and keys are in a directory, under the names that other programs of NBD use for
//! them: `ca-cert.pem` (what is trusted), `server-cert.pem` and `server-key.pem`,
//! `client-cert.pem` and `client-key.pem`.

use crate::wire::{Connection, Input};
use parking_lot::{Mutex, MutexGuard};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::fmt;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of records read at once: four of the largest.
const RECORDS: usize = 68 << 10;
/// Plain bytes turned into records at once.
const PLAIN: usize = 256 << 10;

/// Why TLS cannot be set up.
#[derive(Debug)]
pub struct TlsError {
    /// The file or directory that it is about.
    pub path: PathBuf,
    /// The problem.
    pub why: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for TlsError {}

fn wrong(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError { path: path.to_owned(), why: why.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).map_err(|e| wrong(path, e))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|e| wrong(path, e))?;
    if all.is_empty() { Err(wrong(path, "it has no certificate")) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| wrong(path, e))
}

fn roots(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for one in certificates(path)? {
        roots.add(one).map_err(|e| wrong(path, e))?;
    }
    Ok(Arc::new(roots))
}

/// The certificate of a server, and the clients that it accepts.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Reads `server-cert.pem` and `server-key.pem` of a directory. With `asks_who` a client must
    /// show a certificate that one of `ca-cert.pem` has signed.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn read(folder: &Path, asks_who: bool) -> Result<Self, TlsError> {
        let (cert, key_file) = (folder.join("server-cert.pem"), folder.join("server-key.pem"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder =
            builder.with_safe_default_protocol_versions().map_err(|e| wrong(folder, e))?;
        let verifier: Arc<dyn ClientCertVerifier> = match asks_who {
            true => {
                let ca = folder.join("ca-cert.pem");
                let made = WebPkiClientVerifier::builder_with_provider(roots(&ca)?, provider);
                made.build().map_err(|e| wrong(&ca, e))?
            }
            false => WebPkiClientVerifier::no_client_auth(),
        };
        let config = builder
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&cert)?, key(&key_file)?)
            .map_err(|e| wrong(&cert, e))?;
        Ok(Self(Arc::new(config)))
    }

    /// Takes a connection into TLS, whose client is to begin with it now, in the time that is left
    /// to its input.
    ///
    /// # Errors
    /// The client speaks no TLS, is not let in, or does not come to an end in time.
    pub fn accept(&self, line: Arc<dyn Connection>, input: &Input) -> io::Result<TlsLine> {
        let session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        TlsLine::new(line, session.into(), input)
    }
}

/// Which servers a client trusts, and what it shows to them.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Reads a directory: a server must show a certificate that one of `ca-cert.pem` has signed;
    /// `client-cert.pem` and `client-key.pem` are shown to it where they are there.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub fn read(folder: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let ca = folder.join("ca-cert.pem");
        let verifier: Arc<dyn ServerCertVerifier> =
            rustls::client::WebPkiServerVerifier::builder_with_provider(
                roots(&ca)?,
                Arc::clone(&provider),
            )
            .build()
            .map_err(|e| wrong(&ca, e))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(folder, e))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let own = folder.join("client-cert.pem");
        let config = match own.exists() {
            true => builder
                .with_client_auth_cert(certificates(&own)?, key(&folder.join("client-key.pem"))?)
                .map_err(|e| wrong(&own, e))?,
            false => builder.with_no_client_auth(),
        };
        Ok(Self(Arc::new(config)))
    }

    /// Takes a connection into TLS with the server that has this name or address, in the time that
    /// is left to its input.
    ///
    /// # Errors
    /// The server speaks no TLS, is not the one it should be, or does not come to an end in time.
    pub fn connect(
        &self,
        line: Arc<dyn Connection>,
        host: &str,
        input: &Input,
    ) -> io::Result<TlsLine> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        TlsLine::new(line, session.into(), input)
    }
}

/// A connection inside TLS.
pub struct TlsLine {
    line: Arc<dyn Connection>,
    session: Mutex<rustls::Connection>,
    sending: Mutex<()>,
    reading: Mutex<Records>,
}

/// Records that were read and not turned yet: `bytes[start..end]`.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

/// The records that are ready to be sent.
fn records(session: &mut rustls::Connection) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut out)?;
    }
    Ok(out)
}

impl TlsLine {
    fn new(
        line: Arc<dyn Connection>,
        mut session: rustls::Connection,
        input: &Input,
    ) -> io::Result<Self> {
        // Encrypted records are sent at once, so that none gather.
        session.set_buffer_limit(None);
        let made = Self {
            line,
            session: Mutex::new(session),
            sending: Mutex::new(()),
            reading: Mutex::default(),
        };
        made.shake_hands(input)?;
        Ok(made)
    }

    fn shake_hands(&self, input: &Input) -> io::Result<()> {
        loop {
            self.send_what_is_ready(self.sending.lock())?;
            if !self.session.lock().is_handshaking() {
                return Ok(());
            }
            input.set_patience(&*self.line)?;
            let received = self.receive();
            if !matches!(received, Ok(n) if n > 0) {
                // The other end gets an alert about what it sent.
                let _ = self.send_what_is_ready(self.sending.lock());
                return Err(received.err().unwrap_or(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Sends the pending messages of the session.
    fn send_what_is_ready(&self, _sending: MutexGuard<'_, ()>) -> io::Result<()> {
        let ready = records(&mut self.session.lock())?;
        crate::wire::send(&*self.line, &ready, &[])
    }

    /// Turns some records, of which more are read when there are none: as many bytes, 0 at the
    /// end. The session takes no more while plain bytes are left in it.
    fn receive(&self) -> io::Result<usize> {
        let mut read = self.reading.lock();
        if read.start >= read.end {
            read.bytes.resize(RECORDS, 0);
            read.start = 0;
            read.end = self.line.read(&mut read.bytes)?;
        }
        let mut rest = read.bytes.get(read.start..read.end).unwrap_or_default();
        let mut session = self.session.lock();
        let n = if rest.is_empty() { 0 } else { session.read_tls(&mut rest)? };
        session.process_new_packets().map_err(io::Error::other)?;
        read.start += n;
        Ok(n)
    }

    /// Plain bytes that are there; `None`: records must be read first.
    fn take(&self, out: &mut [u8]) -> io::Result<Option<usize>> {
        match self.session.lock().reader().read(out) {
            Ok(n) => Ok(Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The line ended without the end of the session: what is cut off is not a request.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(0)),
            Err(e) => Err(e),
        }
    }
}

impl Connection for TlsLine {
    fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(n) = self.take(out)? {
                return Ok(n);
            }
            if self.receive()? == 0 {
                return Ok(0);
            }
            if self.session.lock().wants_write()
                && let Some(sending) = self.sending.try_lock()
            {
                self.send_what_is_ready(sending)?;
            }
        }
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let sending = self.sending.lock();
        let (mut done, mut session) = (0, self.session.lock());
        for part in parts {
            let some = part.get(..part.len().min(PLAIN - done)).unwrap_or_default();
            session.writer().write_all(some)?;
            done += some.len();
            if done >= PLAIN {
                break;
            }
        }
        drop(session);
        self.send_what_is_ready(sending)?;
        Ok(done)
    }

    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.line.set_patience(patience)
    }

    fn end_input(&self) {
        self.line.end_input();
    }

    fn hang_up(&self) {
        self.line.hang_up();
    }
}
