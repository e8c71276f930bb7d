//! NBD servers of others, as peers of ours.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until clients can connect.
const START: Duration = Duration::from_secs(60);

/// A server; killed when it is dropped.
pub struct NbdServer {
    child: Child,
}

impl NbdServer {
    /// Starts a program in the foreground and waits until clients can connect (`is_ready`).
    ///
    /// # Panics
    /// When it is not there, ends at once, or refuses connections for too long.
    #[must_use]
    pub fn start(program: &str, arguments: &[&str], is_ready: impl Fn() -> bool) -> Self {
        // By its path and with the environment as it is: that is the quickest start. As long as it
        // lasts, the child has the locks of its parent, also those that the parent lets go.
        let mut command = Command::new(path_of(program));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|e| panic!("{program}: {e}"));
        let mut server = Self { child };
        let until = Instant::now() + START;
        while !is_ready() {
            let ended = server.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{program} {arguments:?} ended at once");
            assert!(Instant::now() < until, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// The same of one that listens on a Unix socket. What another left there is removed.
    #[must_use]
    pub fn on_socket(socket: &Path, program: &str, arguments: &[&str]) -> Self {
        let _ = std::fs::remove_file(socket);
        Self::start(program, arguments, || UnixStream::connect(socket).is_ok())
    }

    /// nbdkit in the foreground, on this socket.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn nbdkit(socket: &Path, arguments: &[&str]) -> Self {
        let listen = ["-f", "-U", socket.to_str().expect("UTF-8")];
        Self::on_socket(socket, "nbdkit", &[&listen, arguments].concat())
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power failure does: nothing of it is written any more.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where a program is, also one that only administrators have in their `PATH`.
fn path_of(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path);
    let all = own.chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).map(|dir| dir.join(program));
    all.into_iter().find(|file| file.is_file()).unwrap_or_else(|| PathBuf::from(program))
}
