//! Who may name what reads a pool: views word figures that others have read.

use tidy::source::{code, has_word, without_tests};
use tidy::{report, rust_files};

type Files = [(String, String)];

/// Types through which a pool is read.
const READERS: [&str; 9] =
    ["Pool", "LivePool", "OpenPool", "Dsl", "Dataset", "Filesystem", "Node", "Volume", "Objset"];

/// The line without its literals, and without the variants of these enums, some of which are called
/// as a type is.
fn types(line: &str) -> String {
    let mut out = String::new();
    for (at, part) in code(line).split('"').enumerate() {
        out.push_str(if at % 2 == 0 { part } else { "\"\"" });
    }
    ["DatasetKind::", "Place::", "LostPart::", "BlockKind::", "ErrorKind::"]
        .iter()
        .fold(out, |line, kind| line.replace(kind, "Variant_"))
}

fn readers_in_views(files: &Files) -> Vec<String> {
    let mut offences = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("crates/views/src/")) {
        for (number, line) in without_tests(text) {
            let line = types(line);
            let named = READERS.iter().find(|word| has_word(&line, word));
            offences.extend(named.map(|word| format!("{path}:{number}: {word}")));
        }
    }
    offences
}

#[test]
fn views_read_no_pool() {
    report(
        "views are given figures, and nothing that reads a pool",
        &readers_in_views(&rust_files()),
    );
}

#[test]
fn the_rules_can_fail() {
    let found = |text: &str| {
        readers_in_views(&[("crates/views/src/new.rs".to_owned(), text.to_owned())]).len()
    };
    assert_eq!(found("use engine::Pool;\nfn f(pool: &Pool, node: &engine::Node) {}\n"), 2);
    assert_eq!(found("fn f(kind: DatasetKind) { kind == DatasetKind::Filesystem; }\n"), 0);
    assert_eq!(found("fn f(of: &PoolFacts) -> String { \"Pool of a Node\" }\n"), 0);
    let elsewhere = [("crates/zinc/src/new.rs".to_owned(), "use engine::Pool;\n".to_owned())];
    assert!(readers_in_views(&elsewhere).is_empty());
}
