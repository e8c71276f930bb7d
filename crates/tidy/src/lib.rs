//! The house rules, executed: what a reviewer would otherwise have to remember.
//!
//! The rules themselves are the tests in `tests/`; here is what they share: the tracked files of
//! the checkout, the workspace as cargo sees it, and the evaluation of licence expressions. A rule
//! collects everything that breaks it and fails once, with one line per offence: `path:line: why`.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::workspace_root;

pub mod licence;
pub mod methods;
pub mod source;

/// The floors of the house, from the ground up. A crate may use those before it only.
pub const FLOORS: [&str; 35] = [
    "probes",
    "legible",
    "ondisk",
    "codec",
    "rt",
    "nbdwire",
    "device",
    "far",
    "vdev",
    "zio",
    "dmu",
    "dsl",
    "zil",
    "zpl",
    "stream",
    "pool",
    "check",
    "repair",
    "engine",
    "imported",
    "term",
    "lab",
    "zdb",
    "programs",
    "connections",
    "control",
    "nbd",
    "archive",
    "exports",
    "views",
    "page",
    "agents",
    "hostfs",
    "mount",
    "zinc",
];

/// Crates for tests alone: nothing but a dev-dependency may name them.
pub const TEST_CRATES: [&str; 5] = ["needs", "testkit", "poolkit", "tidy", "fuzzing"];

/// A file under version control.
#[derive(Debug, Clone)]
pub struct Tracked {
    /// Path from the root of the checkout, with `/`.
    pub path: String,
    /// Its text; `None` when it is not UTF-8.
    pub text: Option<String>,
}

/// All files under version control, in order. Files deleted in the work tree are left out.
pub fn tracked_files() -> Vec<Tracked> {
    let root = workspace_root();
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(&root)
        .output()
        .expect("the rules are checked in a git checkout");
    assert!(output.status.success(), "git ls-files failed");
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let mut files: Vec<Tracked> = names
        .split_terminator('\0')
        .filter_map(|path| {
            let bytes = std::fs::read(root.join(path)).ok()?;
            Some(Tracked { path: path.to_owned(), text: String::from_utf8(bytes).ok() })
        })
        .collect();
    files.sort_by(|one, two| one.path.cmp(&two.path));
    files
}

/// The tracked Rust files with their text.
pub fn rust_files() -> Vec<(String, String)> {
    tracked_files()
        .into_iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter_map(|file| Some((file.path, file.text?)))
        .collect()
}

/// What `cargo metadata` says of the workspace; `with_dependencies` adds everything it builds on.
pub fn cargo_metadata(with_dependencies: bool) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1"]).current_dir(workspace_root());
    if !with_dependencies {
        command.arg("--no-deps");
    }
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// Fails with all `offences`, one per line, unless there is none.
#[track_caller]
pub fn report(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}\n  {}\n", offences.join("\n  "));
}

/// The text of a file of the checkout. Panics where there is none.
pub fn read(path: &str) -> String {
    let full = workspace_root().join(Path::new(path));
    std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("{path}: {error}"))
}
