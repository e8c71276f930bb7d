//! A server that speaks S3: versitygw, as `scripts/versitygw` builds it under `target/versitygw`.

use crate::running::{Running, free_port};
use crate::s3_access::{KEY, S3Access, SECRET};
use crate::workspace_root;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A server on this machine, killed when it is dropped. Its objects are files of a folder.
pub struct S3Server {
    running: Running,
    access: S3Access,
}

impl Deref for S3Server {
    type Target = S3Access;

    fn deref(&self) -> &S3Access {
        &self.access
    }
}

impl S3Server {
    /// What is missing when the program is not there, for tests that [`needs`](crate::needs)
    /// cannot mark.
    #[must_use]
    pub fn missing() -> Option<&'static str> {
        (!program().is_file()).then_some("versitygw (scripts/versitygw)")
    }

    /// Starts one with a bucket.
    ///
    /// # Panics
    /// It is not there, or does not start.
    #[must_use]
    pub fn start(folder: &Path, bucket: &str) -> Self {
        std::fs::create_dir_all(folder.join(bucket)).expect("a folder");
        let port = free_port();
        Self { running: run(folder, port), access: S3Access { port } }
    }

    /// Ends it as a power failure does, and starts it again after this time.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self, folder: &Path, after: Duration) {
        self.running.end();
        std::thread::sleep(after);
        self.running = run(folder, self.access.port);
    }
}

fn program() -> PathBuf {
    workspace_root().join("target/versitygw/versitygw")
}

fn run(folder: &Path, port: u16) -> Running {
    let mut program = Command::new(program());
    program.args(["--port", &format!("127.0.0.1:{port}"), "--quiet", "posix"]).arg(folder);
    program.env("ROOT_ACCESS_KEY", KEY).env("ROOT_SECRET_KEY", SECRET);
    Running::start(&mut program, port)
}
