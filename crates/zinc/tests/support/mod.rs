//! Running zinc on pools, for the tests of the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "each test uses a part")]

pub(crate) mod place;

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a command printed.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs zinc with these arguments.
pub(crate) fn zinc(args: &[&str]) -> Run {
    zinc_in(Path::new("."), args)
}

/// Runs zinc in a folder, in the zone of the machine that wrote the manifests.
pub(crate) fn zinc_in(dir: &Path, args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_zinc"))
        .args(args)
        .current_dir(dir)
        .env("TZ", "UTC")
        .env("ZINC_STATE", state(dir))
        .output()
        .expect("zinc starts");
    let Output { status, stdout, stderr } = output;
    Run {
        code: status.code().expect("zinc ends by itself"),
        out: String::from_utf8_lossy(&stdout).into_owned(),
        err: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Where pools are known that are made or imported in this folder: never this machine's own list.
pub(crate) fn state(dir: &Path) -> PathBuf {
    let is_own = dir != Path::new(".");
    let dir = if is_own { dir } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    dir.join("run/state")
}

impl Run {
    /// The output of a command that must succeed without a word on standard error.
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The output as JSON.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }
}

/// The whole answer over HTTP. A server ends a connection after a short time, on a busy machine
/// also before it has answered: it is asked again then.
pub(crate) fn answer(address: &str, request: &str) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    };
    let is_whole = |text: &String| {
        text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            length.is_none_or(|length| length.parse() == Ok(body.len()))
        })
    };
    let mut whole = None;
    place::until("a whole answer", || {
        whole = ask().ok().filter(is_whole);
        whole.is_some()
    });
    whole.unwrap()
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// The text has all of these.
#[track_caller]
pub(crate) fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}
