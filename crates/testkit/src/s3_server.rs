//! A server that speaks S3: versitygw, as `scripts/versitygw` builds it under `target/versitygw`.

use crate::workspace_root;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take until it answers.
const START: Duration = Duration::from_secs(60);
/// What requests are signed with.
const KEY: &str = "zinc-tests";
/// What must be nowhere but in the environment.
const SECRET: &str = "vYq3s0Kx-of-the-tests-8fR2";

/// A server on this machine, killed when it is dropped. Its objects are files of a folder.
pub struct S3Server {
    child: Child,
    port: u16,
}

impl S3Server {
    /// Whether the program is there, for tests that [`needs`](crate::needs) cannot mark.
    #[must_use]
    pub fn is_there() -> bool {
        program().is_file()
    }

    /// Starts one with a bucket.
    ///
    /// # Panics
    /// It is not there, or does not start.
    #[must_use]
    pub fn start(folder: &Path, bucket: &str) -> Self {
        std::fs::create_dir_all(folder.join(bucket)).expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        Self { child: run(folder, port), port }
    }

    /// Ends it as a power failure does, and starts it again after this time.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self, folder: &Path, after: Duration) {
        self.end();
        std::thread::sleep(after);
        self.child = run(folder, self.port);
    }

    /// Where it answers.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a program that uses it has in its environment.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &'static str); 3] {
        [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_REGION", "us-east-1")]
    }

    /// What must be nowhere but there.
    #[must_use]
    pub fn secret(&self) -> &'static str {
        SECRET
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn program() -> PathBuf {
    workspace_root().join("target/versitygw/versitygw")
}

fn run(folder: &Path, port: u16) -> Child {
    let address = format!("127.0.0.1:{port}");
    let mut child = Command::new(program())
        .args(["--port", &address, "--quiet", "posix"])
        .arg(folder)
        .env("ROOT_ACCESS_KEY", KEY)
        .env("ROOT_SECRET_KEY", SECRET)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("versitygw starts");
    let until = Instant::now() + START;
    while TcpStream::connect(&address).is_err() {
        assert!(child.try_wait().expect("a child").is_none(), "versitygw ended at once");
        assert!(Instant::now() < until, "versitygw does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}
