//! Front ends use the façade: what is below it (`engine::inside`) is for the tools that look into
//! the structures of a pool, for tests, and for programs that measure, as far as they are listed.

use tidy::source::{code, has_word, without_tests};
use tidy::{read, report, rust_files};

/// Places that may name it.
const TOOLS: [&str; 3] = ["crates/engine/", "crates/lab/", "crates/zdb/"];

/// Programs that measure, and the floors that each names, because what it measures is not to be had
/// from above. `writebench` compares the engine with what it stands on: the checksum of the same
/// bytes (`codec`), and files with and without the page cache (`device`).
const PROGRAMS: [(&str, &[&str]); 1] = [("bench/write/writebench.rs", &["codec", "device"])];

fn is_inside(path: &str, text: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let is_tool = TOOLS.iter().any(|tool| path.starts_with(tool))
        || PROGRAMS.iter().any(|(program, _)| *program == path);
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

/// The floors that a program names, each in a line of its own.
fn floors(text: &str) -> Vec<&str> {
    let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
    let mut all = Vec::new();
    for line in text.lines() {
        let named = code(line).split("inside::").skip(1);
        all.extend(named.filter_map(|rest| rest.split(is_end).next()));
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn programs_that_measure_name_the_floors_that_they_need() {
    let wrong = PROGRAMS.iter().filter(|(path, needed)| floors(&read(path)) != *needed);
    let offences: Vec<String> =
        wrong.map(|(path, needed)| format!("{path}: names not just {needed:?}")).collect();
    report("a program of bench names the floors that are listed for it, and no others", &offences);
}

#[test]
fn front_ends_use_the_facade() {
    let tidy = "crates/tidy/";
    let rule = "only zdb, lab, programs that measure, and tests look inside the engine";
    let files: Vec<_> = rust_files().into_iter().filter(|(p, _)| !p.starts_with(tidy)).collect();
    report(rule, &offences(&files));
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
    let programs = [file(PROGRAMS[0].0, uses), file("bench/write/another.rs", uses)];
    assert_eq!(offences(&programs), ["bench/write/another.rs: names `engine::inside`"]);
    let text = "use engine::inside::dmu::Tx;\nuse engine::inside::{codec, dsl};\nlet inside = 1;\n";
    assert_eq!(floors(text), ["", "dmu"]);
}
