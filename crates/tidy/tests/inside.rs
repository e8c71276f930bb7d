//! Front ends use the façade: what is below it (`engine::inside`) is for the tools that look into
//! the structures of a pool, for programs that measure, and for tests.

use tidy::source::{code, has_word, without_tests};
use tidy::{report, rust_files};

/// Places that may name it.
const TOOLS: [&str; 4] = ["bench/", "crates/engine/", "crates/lab/", "crates/zdb/"];

fn is_inside(path: &str, text: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let is_tool = TOOLS.iter().any(|tool| path.starts_with(tool));
    let has_own = text.lines().any(|line| line == "mod inside;");
    let names = |(_, line): (usize, &str)| {
        // As a path, and renamed; a module or variable of one's own is nothing.
        let line = code(line);
        let is_path = line.contains("inside::") && !has_own;
        is_path || (line.contains("engine") && has_word(line, "inside"))
    };
    !is_test && !is_tool && without_tests(text).any(names)
}

/// Files that name it.
fn offences(files: &[(String, String)]) -> Vec<String> {
    let named = files.iter().filter(|(path, text)| is_inside(path, text));
    named.map(|(path, _)| format!("{path}: names `engine::inside`")).collect()
}

#[test]
fn front_ends_use_the_facade() {
    let tidy = "crates/tidy/";
    let files: Vec<_> = rust_files().into_iter().filter(|(p, _)| !p.starts_with(tidy)).collect();
    report("only zdb, lab, bench and tests look inside the engine", &offences(&files));
}

#[test]
fn the_rule_can_fail() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let uses = "use engine::inside::dmu;\n";
    let files = [
        file("crates/zinc/src/new.rs", uses),
        file("crates/zinc/src/renamed.rs", "use engine::{Pool, inside as floors};\n"),
        file("crates/zinc/src/other.rs", "use engine::Pool;\n"),
        file("crates/zinc/tests/any.rs", uses),
        file("crates/zdb/src/any.rs", uses),
    ];
    let found = offences(&files);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("crates/zinc/src/new.rs"));
    assert!(offences(&files[2..]).is_empty());
}
