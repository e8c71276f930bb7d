//! Programs of OpenZFS that judge ours, as `scripts/oracle` lays them under `target/oracle`.
//!
//! A test that is about what they say is marked with [`needs`](crate::needs)`("zdb")`. One that
//! writes a pool, and tests by itself what became of it, lets zdb [`judge`] it as well: that is
//! done where zdb is, and where it is not, a test of this crate is reported as ignored for all.

use crate::workspace_root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `zdb`.
///
/// # Panics
/// As [`ztest`].
pub fn zdb() -> Command {
    program("zdb")
}

/// `zstream`, which shows send streams.
///
/// # Panics
/// As [`ztest`].
pub fn zstream() -> Command {
    program("zstream")
}

/// `ztest`, which makes lively pools of plain objects.
///
/// # Panics
/// It is not here, and the test is not marked with [`needs`](crate::needs).
pub fn ztest() -> Command {
    program("ztest")
}

/// What a run of an oracle said.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Whether it ended with exit code 0.
    pub success: bool,
    /// Its stdout, then its stderr.
    pub text: String,
}

impl Verdict {
    /// Whether `zdb -bcc` has read every block, and found that what is allocated is what is used.
    pub fn is_clean(&self) -> bool {
        let leaks = self.text.contains("leaked space") || !self.text.contains("No leaks");
        self.success && !leaks
    }
}

/// Runs `zdb -e -p DIR` with further `arguments` on the pool whose images are in `dir`.
///
/// # Panics
/// As [`ztest`].
pub fn zdb_on(dir: &Path, arguments: &[&str]) -> Verdict {
    let mut command = zdb();
    command.args(["-e", "-p"]).arg(dir).args(arguments);
    let output = command.output().expect("zdb runs");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Verdict { success: output.status.success(), text }
}

/// Bytes that zdb reads at a time to verify checksums. It has 256 MiB in flight unless told
/// otherwise, all in memory that is new to it: that was half of the processor time it took.
const INFLIGHT_BYTES: &str = "4194304";

/// What `zdb -bcc` says of the pool whose images are in `dir`; `None` where zdb is not here.
pub fn verdict(dir: &Path, pool: &str) -> Option<Verdict> {
    path("zdb").is_file().then(|| zdb_on(dir, &["-bcc", "-I", INFLIGHT_BYTES, pool]))
}

/// zdb, where it is here, reads every block of the pool whose images are in `dir`, and finds no
/// leak.
///
/// # Panics
/// It finds something else.
#[track_caller]
pub fn judge(dir: &Path, pool: &str) {
    if let Some(verdict) = verdict(dir, pool) {
        assert!(verdict.is_clean(), "zdb of {pool}:\n{}", verdict.text);
    }
}

fn path(name: &str) -> PathBuf {
    workspace_root().join("target/oracle/bin").join(name)
}

fn program(name: &str) -> Command {
    let path = path(name);
    assert!(path.is_file(), "{name} is not here (scripts/oracle): the test `needs` it");
    Command::new(path)
}
