//! This program once more, as a process of its own.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes that are shown of the log of one that did not start, at most.
const LOG_SHOWN: u64 = 64 << 10;

/// The log of a process that did not start, which it had for itself; `None`: it is not a file.
#[must_use]
pub fn logged(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut message = Vec::new();
    File::open(path).ok()?.take(LOG_SHOWN).read_to_end(&mut message).ok()?;
    Some(String::from_utf8_lossy(&message).into_owned())
}

/// Starts a server for the pool of this name, which is in these places, loads its keys, and mounts
/// it if `mounts`. Keys are prompted for, and errors reported, on this process's streams, as under
/// OpenZFS's names: the messages have no prefix. Returns whether all of it was done: one wrong key
/// does not keep the rest from being done.
///
/// # Errors
/// The program cannot be run.
pub fn served_with_keys(places: &[PathBuf], pool: &str, mounts: bool) -> io::Result<bool> {
    let program = std::env::current_exe()?;
    let run = |name: &str, words: &[&str]| {
        let mut command = Command::new(&program);
        command.arg0(name).args(words);
        for place in places {
            command.arg("-d").arg(place);
        }
        Ok::<bool, io::Error>(command.arg(pool).stdout(Stdio::null()).status()?.success())
    };
    let serving = ["serve", "-b", "--mount"];
    let mut done = run("zinc", if mounts { &serving } else { &serving[..2] })?;
    done &= run("zfs", &["load-key", "-r"])?;
    if mounts {
        done &= run("zfs", &["mount", "-a"])?;
    }
    Ok(done)
}
