//! The invariants of ARCHITECTURE.md: each crate has one, and what a machine can check is checked.

use tidy::source::{code, has_word};
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
