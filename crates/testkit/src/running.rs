//! Programs that listen on a port of this machine while a test runs.

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

/// A port that nothing listens on.
pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("an address").port()
}
