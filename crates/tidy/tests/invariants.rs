//! Invariants of ARCHITECTURE.md that are about one crate: what its source may not name, and which
//! crates it may know. What the order of floors forbids anyway is in `layers.rs`.

use tidy::source::{code, has_word, without_tests};
use tidy::{FLOORS, cargo_metadata, report, rust_files};

type Files = [(String, String)];

/// Words that the source of a crate (unit tests apart) must not hold, and why.
const ABSENT: [(&str, &[&str], &str); 27] = [
    ("ondisk", &["std::fs", "std::net", "std::process", "std::thread", "std::time"], "no I/O"),
    ("codec", &["std::fs", "std::net", "std::process", "std::time"], "pure functions"),
    ("vdev", SYSTEM, "device and rt do that"),
    ("zio", SYSTEM, "device and rt do that"),
    ("dmu", SYSTEM, "device and rt do that"),
    ("dsl", SYSTEM, "device and rt do that"),
    ("zil", SYSTEM, "device and rt do that"),
    ("zpl", SYSTEM, "device and rt do that"),
    ("check", SYSTEM, "device and rt do that"),
    ("check", &["write_at"], "the checker only reads"),
    ("pool", CLOCK, "rt does that"),
    ("repair", CLOCK, "rt does that"),
    ("stream", CLOCK, "rt does that"),
    ("engine", &["clap", "std::env"], "a library takes its settings as arguments"),
    ("views", IMPURE, "pure functions from figures to text"),
    ("term", IMPURE, "pure functions from text to text"),
    ("page", &["std::net", "std::process", "std::env"], "nothing is listened to"),
    ("archive", &["std::fs", "std::net", "std::process", "std::thread"], "bytes in, members out"),
    ("nbdwire", &["std::fs", "std::process", "std::thread"], "it carries bytes"),
    ("connections", &["std::fs", "std::process", "std::io"], "not what connections carry"),
    ("nbd", &["std::fs", "std::process"], "what is exported is a trait"),
    ("exports", &["nbdwire"], "nothing of the protocol but the traits of `nbd`"),
    ("zpl", &["libc", "nix", "rustix"], "no type of the system's file API"),
    ("zil", &["std::sync::atomic::AtomicPtr", "libc", "nix", "rustix"], "no call of the system"),
    ("dsl", &["Znode", "FileKind", "zpl"], "it does not know what a file is"),
    ("vdev", &["Dnode", "Objset", "Znode"], "where bytes are, never what they mean"),
    ("device", ZFS, "it knows nothing of pools"),
];
/// Files, connections, and what `rt` does in a simulation.
const SYSTEM: &[&str] = &[
    "std::fs",
    "std::net",
    "SystemTime::now",
    "Instant::now",
    "thread::sleep",
    "thread::spawn",
    "thread::scope",
    "thread::Builder",
];
const CLOCK: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "thread::sleep",
    "thread::spawn",
    "thread::scope",
    "thread::Builder",
];
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "Instant::now",
    "SystemTime::now",
    "UdpSocket",
    "stdout",
    "stderr",
];
const ZFS: &[&str] =
    &["txg", "Txg", "Uberblock", "uberblock", "Dnode", "dnode", "ashift", "Dva", "zpool", "vdev"];

/// Whether a file has unit tests alone.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn named(files: &Files, absent: &[(&str, &[&str], &str)]) -> Vec<String> {
    let mut offences = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_test(path)) {
        let of = |name: &str| path.starts_with(&format!("crates/{name}/src/"));
        for (_, words, why) in absent.iter().filter(|(name, ..)| of(name)) {
            for (number, line) in without_tests(text) {
                let line = code(line);
                let word = |word: &&&str| has_word(line, word) || is_imported(line, word);
                if let Some(word) = words.iter().find(word) {
                    offences.push(format!("{path}:{number}: {word} ({why})"));
                }
            }
        }
    }
    offences
}

/// Whether a line imports a module of `std` together with others: `use std::{fs, io};`.
fn is_imported(line: &str, word: &str) -> bool {
    let others = line.trim().strip_prefix("use std::{");
    let module = word.strip_prefix("std::");
    others.zip(module).is_some_and(|(others, module)| has_word(others, module))
}

#[test]
fn a_module_that_is_imported_with_others_is_found() {
    let of = |line: &str| {
        let file = ("crates/term/src/x.rs".to_owned(), line.to_owned());
        named(&[file], &ABSENT).len()
    };
    assert_eq!(of("use std::{fmt, fs};\n"), 1);
    assert_eq!(of("use std::fs::File;\n"), 1);
    assert_eq!(of("use std::{fmt, iter};\n"), 0);
}

#[test]
fn a_crate_names_nothing_that_it_must_not_know() {
    report("what a crate must not name", &named(&rust_files(), &ABSENT));
}

/// The files below the command that read the environment, and what of it. The command itself may.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("crates/control/src/log.rs", "JOURNAL_STREAM: whether its log goes to the journal"),
    ("crates/engine/src/devices/signatures.rs", "PATH, in a unit test"),
    ("crates/far/src/disk.rs", "where this machine keeps what was read of stores"),
    ("crates/far/src/store/az.rs", "credentials of a store"),
    ("crates/far/src/store/credentials.rs", "credentials of a store"),
];

fn readers_of_the_environment(files: &Files, listed: &[(&str, &str)]) -> Vec<String> {
    let calls = ["env::var", "env::var_os", "env::vars", "env::vars_os"];
    let product = |path: &str| {
        let below = FLOORS.iter().filter(|name| **name != "zinc");
        below.map(|name| format!("crates/{name}/src/")).any(|folder| path.starts_with(&folder))
    };
    let reads =
        |text: &str| text.lines().any(|line| calls.iter().any(|call| has_word(code(line), call)));
    let found: Vec<&str> = files
        .iter()
        .filter(|(path, text)| product(path) && !is_test(path) && reads(text))
        .map(|(path, _)| path.as_str())
        .collect();
    let unlisted = found.iter().filter(|path| !listed.iter().any(|(l, _)| l == *path));
    let gone = listed.iter().map(|(path, _)| path).filter(|path| !found.contains(path));
    let unlisted = unlisted.map(|path| format!("{path}: reads the environment"));
    unlisted.chain(gone.map(|path| format!("{path}: reads it no more"))).collect()
}

#[test]
fn the_environment_is_read_by_the_command() {
    let offences = readers_of_the_environment(&rust_files(), &ENVIRONMENT);
    report("environment variables below the command", &offences);
}

/// Crates that may depend on these of the workspace and no other, though others are below them.
const KNOWN: [(&str, &[&str]); 21] = [
    ("legible", &[]),
    ("ondisk", &["legible"]),
    ("rt", &[]),
    ("codec", &[]),
    ("nbdwire", &[]),
    ("device", &["rt"]),
    ("connections", &[]),
    ("control", &["connections"]),
    ("imported", &["engine"]),
    ("hostfs", &["engine", "archive", "term"]),
    ("exports", &["engine", "nbd", "term"]),
    ("mount", &["engine", "control"]),
    ("zdb", &["engine", "term"]),
    ("programs", &["engine"]),
    ("lab", &["engine", "term"]),
    ("nbd", &["connections", "nbdwire"]),
    ("archive", &[]),
    ("term", &["legible"]),
    ("views", &["engine", "term"]),
    ("page", &["engine", "term", "views"]),
    ("agents", &["engine", "control", "views"]),
];

fn knows_too_much(user: &str, used: &str) -> bool {
    KNOWN.iter().any(|(name, allowed)| *name == user && !allowed.contains(&used))
}

#[test]
fn a_crate_depends_on_what_it_must_know() {
    let metadata = cargo_metadata(false);
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut offences = Vec::new();
    for package in packages {
        let user = package["name"].as_str().unwrap_or("");
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or("");
            let is_normal = dependency["kind"].is_null();
            if is_normal && FLOORS.contains(&used) && used != "probes" && knows_too_much(user, used)
            {
                offences.push(format!("{user} -> {used}"));
            }
        }
    }
    report("crates that know more than ARCHITECTURE.md says", &offences);
}

#[test]
fn the_rules_can_fail() {
    let file = |path: &str, text: &str| [(path.to_owned(), text.to_owned())];
    let clock = "fn f() {\n    let now = Instant::now();\n}\n";
    assert_eq!(named(&file("crates/views/src/a.rs", clock), &ABSENT).len(), 1);
    assert_eq!(named(&file("crates/page/src/a.rs", clock), &ABSENT).len(), 0);
    let unit = "#[cfg(test)]\nmod tests { use std::time::Instant; fn f() { Instant::now(); } }\n";
    assert_eq!(named(&file("crates/views/src/a.rs", unit), &ABSENT).len(), 0);

    let reads = "fn f() { std::env::var(\"HOME\"); }\n";
    let of = |path: &str| readers_of_the_environment(&file(path, reads), &[]).len();
    assert_eq!((of("crates/pool/src/a.rs"), of("crates/zinc/src/a.rs")), (1, 0));
    let gone = readers_of_the_environment(&[], &ENVIRONMENT);
    assert_eq!(gone.len(), ENVIRONMENT.len());

    assert!(knows_too_much("nbd", "engine"));
    assert!(knows_too_much("mount", "pool") && knows_too_much("zdb", "dmu"));
    assert!(!knows_too_much("nbd", "nbdwire") && !knows_too_much("zinc", "engine"));
}
