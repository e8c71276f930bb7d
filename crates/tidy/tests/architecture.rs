//! The invariants of ARCHITECTURE.md: each crate has one, and what a machine can check is checked.

use tidy::source::{code, has_word, without_tests};
use tidy::{FLOORS, TEST_CRATES, read, report, rust_files};

/// The only files that may hold unsafe code, by crate: kernels of vector instructions and calls of
/// the operating system. A folder ends in `/`. Every other crate forbids it at the crate's root.
const UNSAFE: [(&str, &[&str]); 2] = [
    ("codec", &["checksum/fletcher4_x86.rs", "checksum/mod.rs", "raidz/x86.rs", "raidz/mod.rs"]),
    ("device", &["buf.rs", "buf/", "file/"]),
];

#[test]
fn every_crate_has_an_invariant() {
    let text = read("ARCHITECTURE.md");
    let mut offences = Vec::new();
    for name in FLOORS.iter().chain(&TEST_CRATES) {
        let heading = format!("### `{name}`");
        let section = text.split("\n### ").find(|part| part.starts_with(&heading[4..]));
        match section {
            None => offences.push(format!("{name}: no section `{heading}`")),
            Some(part) => match part.matches("**Invariant:**").count() {
                1 => {}
                count => offences.push(format!("{name}: {count} invariants, not one")),
            },
        }
    }
    report("ARCHITECTURE.md has a section with one invariant for each crate", &offences);
}

#[test]
fn unsafe_code_is_forbidden_but_in_few_files() {
    let files = rust_files();
    let mut offences = Vec::new();
    for name in FLOORS.iter().chain(&TEST_CRATES) {
        let source = format!("crates/{name}/src/");
        let allowed = UNSAFE.iter().find(|(crate_name, _)| crate_name == name);
        for (path, text) in files.iter().filter(|(path, _)| path.starts_with(&source)) {
            let inner = &path[source.len()..];
            let is_root = inner == "lib.rs" || inner == "main.rs";
            match allowed {
                None if is_root && !text.contains("#![forbid(unsafe_code)]") => {
                    offences.push(format!("{path}: does not forbid unsafe code"));
                }
                Some((_, places)) if !places.iter().any(|place| holds(place, inner)) => {
                    for (index, line) in text.lines().enumerate() {
                        if has_word(code(line), "unsafe") {
                            offences.push(format!("{path}:{}: {}", index + 1, line.trim()));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    report("unsafe code where none may be", &offences);
}

fn holds(place: &str, inner: &str) -> bool {
    if place.ends_with('/') { inner.starts_with(place) } else { inner == place }
}

/// Words that the source of a crate (unit tests apart) must not hold, and why.
const ABSENT: [(&str, &[&str], &str); 10] = [
    ("ondisk", &["std::fs", "std::net", "std::process", "std::thread", "std::time"], "no I/O"),
    ("codec", &["std::fs", "std::net", "std::process", "std::time"], "pure functions"),
    ("vdev", &["std::fs", "std::net", "SystemTime::now", "thread::sleep"], "device and rt do that"),
    ("zio", &["std::fs", "std::net", "SystemTime::now", "thread::sleep"], "device and rt do that"),
    ("dmu", &["std::fs", "std::net", "SystemTime::now", "thread::sleep"], "device and rt do that"),
    ("dsl", &["std::fs", "std::net", "SystemTime::now", "thread::sleep"], "device and rt do that"),
    ("zil", &["std::fs", "std::net", "SystemTime::now", "thread::sleep"], "device and rt do that"),
    ("zpl", &["std::fs", "std::net", "SystemTime::now", "thread::sleep"], "device and rt do that"),
    ("check", &["std::fs", "std::net", "SystemTime::now", "write_at"], "the checker only reads"),
    ("engine", &["clap", "std::env"], "a library takes its settings as arguments"),
];

#[test]
fn what_is_deliberately_absent_is_absent() {
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        for (name, words, why) in ABSENT {
            if !path.starts_with(&format!("crates/{name}/src/")) {
                continue;
            }
            for (number, line) in without_tests(&text) {
                if let Some(word) = words.iter().find(|word| has_word(code(line), word)) {
                    offences.push(format!("{path}:{number}: {word} ({why})"));
                }
            }
        }
    }
    report("deliberately absent, and yet there", &offences);
}

#[test]
fn the_order_of_bytes_is_always_said() {
    let native = [concat!("from_ne", "_bytes"), concat!("to_ne", "_bytes")];
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        for (index, line) in text.lines().enumerate() {
            if native.iter().any(|word| line.contains(word)) {
                offences.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    report("the machine's own byte order is never the one on disk", &offences);
}
