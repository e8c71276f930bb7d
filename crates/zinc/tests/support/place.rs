//! A folder with devices and a list of known pools of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "each test uses a part")]

use super::{Run, state, zinc_in};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that serves a pool; killed when it is dropped.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// It was there until now.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with files that can become devices, and a list of known pools of its own.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new(files: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|name| place.extra(name));
        place
    }

    /// OpenZFS's zdb, where it is here, finds every block of a pool of this folder, and no leak.
    #[track_caller]
    pub(crate) fn zdb_is_content(&self, pool: &str) {
        testkit::oracle::judge(self.path(), pool);
    }

    /// Makes one more file.
    pub(crate) fn extra(&self, name: &str) {
        std::fs::File::create(self.path().join(name)).unwrap().set_len(128 << 20).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn run(&self, command: &str) -> Run {
        zinc_in(self.path(), &command.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn ok(&self, command: &str) -> String {
        let run = self.run(command);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command}: {}", run.out);
        run.out
    }

    /// What a command that must fail says.
    pub(crate) fn fails(&self, command: &str) -> String {
        let run = self.run(command);
        assert!(run.code != 0, "{command}: {}", run.out);
        run.err
    }

    pub(crate) fn start(&self, command: &str) -> Child {
        self.command(command).spawn().unwrap()
    }

    /// Starts a command, which finds servers of this place only.
    pub(crate) fn start_here(&self, command: &str) -> Child {
        self.command_here(command).spawn().unwrap()
    }

    pub(crate) fn command_here(&self, command: &str) -> Command {
        let mut started = self.command(command);
        started.env("ZINC_SOCKETS", self.path().join("run/zinc"));
        started
    }

    fn command(&self, command: &str) -> Command {
        let mut started = Command::new(env!("CARGO_BIN_EXE_zinc"));
        started
            .args(command.split_whitespace())
            .current_dir(self.path())
            .env("ZINC_STATE", state(self.path()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        started
    }

    /// The output of a command that finds servers of this place, and must succeed.
    pub(crate) fn ok_here(&self, command: &str) -> String {
        let output = self.command_here(command).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {message}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn cache(&self) -> PathBuf {
        state(self.path()).join("zpool.cache")
    }

    /// A server of the pool, which is ready.
    pub(crate) fn serve(&self, pool: &str) -> Child {
        let server = self.start_here(&format!("serve {pool}"));
        let command = format!("tunables --pool {pool}");
        until("the pool is served", || {
            self.command_here(&command).output().unwrap().status.success()
        });
        server
    }

    /// The same for as long as the test has it.
    pub(crate) fn server(&self, pool: &str) -> Server {
        Server(self.serve(pool))
    }

    /// A device is not where it was.
    pub(crate) fn put_away(&self, device: &str) {
        let away = self.path().join("away");
        std::fs::create_dir_all(&away).unwrap();
        std::fs::rename(self.path().join(device), away.join(device)).unwrap();
    }

    /// It is there again.
    pub(crate) fn put_back(&self, device: &str) {
        let away = self.path().join("away").join(device);
        std::fs::rename(away, self.path().join(device)).unwrap();
    }

    /// Starts a command while its way to a lock of the list of known pools is barred, and kills it
    /// when it stands there. False: it never came there, and ended.
    pub(crate) fn kill_at_lock(&self, lock: &Path, command: &str) -> bool {
        let bar = std::fs::File::options().create(true).append(true).open(lock).unwrap();
        bar.lock().unwrap();
        let mut child = self.command_here(command).spawn().unwrap();
        let mut is_there = false;
        until("the command ends or waits for the lock", || {
            is_there = waits_for_lock(child.id());
            is_there || child.try_wait().unwrap().is_some()
        });
        let _ = child.kill();
        child.wait().unwrap();
        is_there
    }
}

/// Whether a process stands before a lock, as the kernel's list of locks has it.
fn waits_for_lock(pid: u32) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let mut waiting = locks.lines().filter(|line| line.contains("->"));
    waiting.any(|line| line.split_whitespace().any(|word| word == pid.to_string()))
}

/// Whether a process has this file open.
pub(crate) fn has_open(pid: u32, path: &Path) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| entry.path().read_link().ok()).any(|file| file == path)
}

/// Waits for something that comes by itself, however slow the machine is.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
