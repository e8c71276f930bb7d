//! Front ends use the façade: what is below it (`engine::inside`) is for the tools that look into
//! the structures of a pool, and for tests.

use tidy::source::{code, without_tests};
use tidy::{report, rust_files};

/// Places that may name it.
const TOOLS: [&str; 4] = ["bench/", "crates/engine/", "crates/lab/", "crates/zdb/"];

/// Files of the command that still name it. None may be added; one that no longer does is taken
/// off.
const STILL: [&str; 10] = [
    "crates/zinc/src/cmd/rescue/mod.rs",
    "crates/zinc/src/cmd/zpool/claim.rs",
    "crates/zinc/src/cmd/zpool/get/vdev.rs",
    "crates/zinc/src/cmd/zpool/import/judge.rs",
    "crates/zinc/src/cmd/zpool/import/shape.rs",
    "crates/zinc/src/cmd/zpool/labelclear.rs",
    "crates/zinc/src/cmd/zpool/layout.rs",
    "crates/zinc/src/cmd/zpool/signatures.rs",
    "crates/zinc/src/live.rs",
    "crates/zinc/src/queue.rs",
];

fn is_inside(path: &str, text: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    let is_tool = TOOLS.iter().any(|tool| path.starts_with(tool));
    let names = |(_, line): (usize, &str)| code(line).contains("inside::");
    !is_test && !is_tool && without_tests(text).any(names)
}

/// Files that name it and are not listed, and listed ones that do not.
fn offences(files: &[(String, String)], still: &[&str]) -> Vec<String> {
    let named: Vec<&str> = files
        .iter()
        .filter(|(path, text)| is_inside(path, text))
        .map(|(path, _)| path.as_str())
        .collect();
    let new = named.iter().filter(|path| !still.contains(path));
    let new = new.map(|path| format!("{path}: names `engine::inside`"));
    let gone = still.iter().filter(|path| !named.contains(path));
    let gone = gone.map(|path| format!("{path}: need not be listed any more"));
    new.chain(gone).collect()
}

#[test]
fn front_ends_use_the_facade() {
    let tidy = "crates/tidy/";
    let files: Vec<_> = rust_files().into_iter().filter(|(p, _)| !p.starts_with(tidy)).collect();
    report("only zdb, lab and tests look inside the engine", &offences(&files, &STILL));
}

#[test]
fn the_rule_can_fail() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let uses = "use engine::inside::dmu;\n";
    let files = [
        file("crates/zinc/src/new.rs", uses),
        file("crates/zinc/src/old.rs", "use engine::Pool;\n"),
        file("crates/zinc/tests/any.rs", uses),
        file("crates/zdb/src/any.rs", uses),
    ];
    let found = offences(&files, &["crates/zinc/src/old.rs"]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("crates/zinc/src/new.rs") && found[1].contains("old.rs"));
    assert!(offences(&files[2..], &[]).is_empty());
}
