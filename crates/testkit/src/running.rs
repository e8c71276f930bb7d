//! Programs that listen on a port of this machine while a test runs.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until one answers.
const START: Duration = Duration::from_secs(60);

/// A program that listens, killed when this is dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts it, and waits until it listens on the port of this machine.
    pub(crate) fn start(program: &mut Command, port: u16) -> Self {
        let program = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = program.spawn().expect("it starts");
        let until = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().expect("a child").is_none(), "{program:?} ended at once");
            assert!(Instant::now() < until, "{program:?} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child)
    }

    /// Ends it as a power failure does.
    pub(crate) fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ports of tests: below those that the system takes for a program that names none.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// A port that nothing listens on, for this process until it ends: no connection is made from it,
/// and no other test takes it, so that what is started later, or again, can listen there.
///
/// # Panics
/// There is none.
#[must_use]
pub fn free_port() -> u16 {
    let len = PORTS.len();
    let first = std::process::id() as usize * 16 % len;
    let mut ports = PORTS.cycle().skip(first).take(len);
    ports.find(|port| take(*port).is_ok()).expect("a port")
}

/// Takes a port when it is free. Its lock is held as long as this process runs.
fn take(port: u16) -> std::io::Result<()> {
    let file = std::env::temp_dir().join(format!("zinc-port-{port}"));
    let lock = File::options().create(true).append(true).open(file)?;
    lock.try_lock()?;
    TcpListener::bind(("127.0.0.1", port))?;
    std::mem::forget(lock);
    Ok(())
}
