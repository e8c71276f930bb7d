//! A command of the administrator's that is run for each event, as OpenZFS's daemon zed has.
//!
//! # Theory
//!
//! It is a program, run without a shell, with no argument and no input, in the root directory, with
//! nothing in its environment but what it is given. Its output is discarded.
//!
//! [`AT_ONCE`] run at a time; the caller of [`Hook::run`] waits for one to end if there are more,
//! and events wait where they are kept. One that takes longer than [`TIME`] is killed.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Commands that run at the same time.
const AT_ONCE: usize = 4;
/// How long one may take.
const TIME: Duration = Duration::from_mins(5);
/// How often it is looked whether one has ended, when as many run as may.
const BETWEEN: Duration = Duration::from_millis(20);

/// The program at `path`, as an absolute path: hooks run in the root directory.
///
/// # Errors
/// It is not there, or is not a program.
pub fn program(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match path.metadata()? {
        meta if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(path),
        _ => Err(io::Error::other("it is not a program")),
    }
}

/// Waits for a program that leads a group of its own, which is ended as a whole when it is not
/// wanted any more.
///
/// # Errors
/// The system's error.
fn wait_while(mut child: Child, is_wanted: impl Fn() -> bool) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !is_wanted()
            && let Some(group) = Pid::from_raw(child.id().cast_signed())
        {
            // That it has just ended is not a failure.
            let _ = kill_process_group(group, Signal::KILL);
        }
        std::thread::sleep(BETWEEN);
    }
}

/// Runs a command of the user's with the shell, in this folder, with these files for its output
/// and its errors, and nothing to read. With `is_wanted` it is ended as a whole when it is not
/// wanted any more.
///
/// # Errors
/// The system's error.
pub fn run_shell(
    command: &str,
    folder: &Path,
    [output, errors]: [OwnedFd; 2],
    is_wanted: Option<&dyn Fn() -> bool>,
) -> io::Result<ExitStatus> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder);
    shell.stdin(Stdio::null()).stdout(output).stderr(errors);
    match is_wanted {
        Some(is_wanted) => wait_while(shell.process_group(0).spawn()?, is_wanted),
        None => shell.spawn()?.wait(),
    }
}

/// The command, and those of it that run.
#[derive(Debug)]
pub struct Hook {
    program: PathBuf,
    running: Vec<(Child, Instant)>,
}

impl Hook {
    /// None runs yet.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self { program, running: Vec::new() }
    }

    /// Starts it with these variables, when fewer run than may.
    pub fn run(&mut self, environment: Vec<(String, String)>) {
        self.reap();
        while self.running.len() >= AT_ONCE {
            std::thread::sleep(BETWEEN);
            self.reap();
        }
        let mut command = Command::new(&self.program);
        command.env_clear().envs(environment).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => self.running.push((child, Instant::now())),
            Err(e) => {
                let program = self.program.display();
                tracing::warn!(target: "zinc::pool", "cannot run {program}: {e}");
            }
        }
    }

    /// Forgets those that have ended, and ends those that take too long.
    pub fn reap(&mut self) {
        let program = self.program.display();
        self.running.retain_mut(|(child, began)| match child.try_wait() {
            Ok(None) if began.elapsed() < TIME => true,
            Ok(None) => {
                tracing::warn!(target: "zinc::pool", "{program} took too long and was ended");
                let _ = child.kill();
                let _ = child.wait();
                false
            }
            Ok(Some(status)) if !status.success() => {
                tracing::warn!(target: "zinc::pool", "{program} failed: {status}");
                false
            }
            _ => false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, pipe};

    #[test]
    fn a_shell_says_how_it_ended_and_is_ended_with_what_it_started() {
        let run = |command: &str, is_wanted: Option<&dyn Fn() -> bool>| {
            let (mut from, to) = pipe().unwrap();
            let files = [to.try_clone().unwrap().into(), to.into()];
            let status = run_shell(command, Path::new("/"), files, is_wanted).unwrap();
            let mut text = String::new();
            // The end comes when the last process that could write is gone.
            from.read_to_string(&mut text).unwrap();
            (status, text)
        };
        let (status, text) = run("pwd; exit 3", None);
        assert_eq!((status.code(), text.as_str()), (Some(3), "/\n"));
        let began = Instant::now();
        let (status, _) = run("sleep 600 & sleep 600", Some(&|| false));
        assert!(!status.success() && began.elapsed() < Duration::from_secs(60));
        assert!(run("true", Some(&|| true)).0.success());
    }
}
