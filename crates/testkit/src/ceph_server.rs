//! Ceph, as `scripts/ceph` unpacks it under `target/ceph`: a cluster of one monitor and one OSD,
//! with a gateway that speaks S3, and images behind qemu's NBD server.

use crate::running::free_port;
use crate::s3_access::{KEY, S3Access, SECRET};
use crate::workspace_root;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cluster on this machine, killed when it is dropped.
pub struct CephServer {
    folder: PathBuf,
    access: S3Access,
}

impl Deref for CephServer {
    type Target = S3Access;

    fn deref(&self) -> &S3Access {
        &self.access
    }
}

impl CephServer {
    /// What is missing when the programs are not there, for tests that [`needs`](crate::needs)
    /// cannot mark.
    #[must_use]
    pub fn missing() -> Option<&'static str> {
        let is_there = workspace_root().join("target/ceph/unpacked").is_file();
        (!is_there).then_some("Ceph (scripts/ceph)")
    }

    /// Starts one with a bucket; half a minute.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(folder: &Path, bucket: &str) -> Self {
        let (folder, port) = (folder.to_owned(), free_port());
        let server = Self { folder, access: S3Access { port } };
        server.script(&["start"], &[&port.to_string(), KEY, SECRET, bucket]);
        server
    }

    /// Kills the OSD, and starts it again after this time: nothing is read or written meanwhile.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart_osd(&self, after: Duration) {
        self.script(&["kill-osd"], &[]);
        std::thread::sleep(after);
        self.script(&["start-osd"], &[]);
    }

    fn script(&self, verb: &[&str], rest: &[&str]) {
        let mut script = Command::new(workspace_root().join("scripts/ceph"));
        script.args(verb).arg(&self.folder).args(rest);
        let output = script.stdin(Stdio::null()).output().expect("a script");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb:?}: {text}");
    }

    /// Makes an RBD image, and serves it on a socket by qemu's NBD server until that is dropped.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn image(&self, name: &str, size: &str, socket: &Path) -> RbdImage {
        self.script(&["image"], &[name, size]);
        let mut script = Command::new(workspace_root().join("scripts/ceph"));
        script.arg("nbd").arg(&self.folder).arg(name).arg(socket);
        script.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = script.spawn().expect("a server");
        let until = Instant::now() + Duration::from_secs(60);
        while !socket.exists() {
            assert!(Instant::now() < until, "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        RbdImage(child)
    }
}

impl Drop for CephServer {
    fn drop(&mut self) {
        let mut script = Command::new(workspace_root().join("scripts/ceph"));
        let _ = script.arg("stop").arg(&self.folder).status();
    }
}

/// An image that is served, until it is dropped.
pub struct RbdImage(Child);

impl Drop for RbdImage {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
