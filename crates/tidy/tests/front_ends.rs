//! What front ends may name of a pool: views word figures that others have read, no front end sees
//! what a pool is made of on its devices, and datasets are read through their guard.

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

/// Crates that reach pools through the operations of `engine`.
const FRONT_ENDS: [&str; 9] =
    ["agents", "control", "exports", "hostfs", "imported", "mount", "page", "views", "zinc"];

/// What leads below these operations: records as they are on devices, the objects that files and
/// volumes are kept in, and the tree of vdevs.
const BELOW: [&str; 12] = [
    ".dsl()",
    ".phys",
    ".dnode()",
    ".object()",
    ".next_block(",
    ".vdevs()",
    ".uberblock()",
    ".mos()",
    ".used_breakdown",
    "BlkPtr",
    "Dnode",
    "DmuType",
];

fn below_operations(files: &Files) -> Vec<String> {
    let is_front_end = |path: &str| {
        let product = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        product.is_some_and(|(name, _)| FRONT_ENDS.contains(&name))
    };
    let mut offences = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| is_front_end(path)) {
        for (number, line) in without_tests(text) {
            let found = BELOW.iter().find(|word| names(code(line), word));
            offences.extend(found.map(|word| format!("{path}:{number}: {word}")));
        }
    }
    offences
}

/// Whether a line has this call, field or type, and not one whose name is longer.
fn names(line: &str, word: &str) -> bool {
    let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
    let ends =
        |at: usize| word.ends_with([')', '(']) || line[at..].chars().next().is_none_or(is_end);
    line.match_indices(word).any(|(at, _)| ends(at + word.len()))
}

#[test]
fn front_ends_see_no_structure_of_a_pool() {
    report("what is below the operations of the engine", &below_operations(&rust_files()));
}

/// Crates that read pools which nothing changes meanwhile, beside `pool` itself.
const UNGUARDED: [&str; 5] = ["check", "lab", "poolkit", "repair", "zdb"];

/// Other crates that name what reads several objects of a pool without keeping it from changing
/// between them: without the name of the trait that is not compiled.
fn unguarded_reads(files: &Files) -> Vec<String> {
    let is_bound = |path: &str| {
        let product = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        product.is_some_and(|(name, _)| name != "pool" && !UNGUARDED.contains(&name))
    };
    let mut offences = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| is_bound(path)) {
        let mut lines = without_tests(text);
        let found = lines.find(|(_, line)| has_word(code(line), "UnguardedDatasets"));
        offences.extend(found.map(|(number, _)| format!("{path}:{number}: UnguardedDatasets")));
    }
    offences
}

#[test]
fn datasets_are_read_through_their_guard() {
    let rule = "datasets are read through `Pool::datasets`, which keeps them as they are";
    report(rule, &unguarded_reads(&rust_files()));
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

    let read = "use engine::inside::pool::UnguardedDatasets as _;\n";
    let read = |path: &str| unguarded_reads(&[(path.to_owned(), read.to_owned())]).len();
    assert_eq!((read("crates/engine/src/new.rs"), read("crates/zdb/src/new.rs")), (1, 0));

    let found =
        |path: &str, text: &str| below_operations(&[(path.to_owned(), text.to_owned())]).len();
    let dnode = "let size = node.object().dnode().block_size();\n";
    assert_eq!(found("crates/mount/src/new.rs", dnode), 1);
    assert_eq!(found("crates/zdb/src/new.rs", dnode), 0);
    assert_eq!(found("crates/page/src/new.rs", "let used = dir.phys.used;\n"), 1);
    assert_eq!(found("crates/page/src/new.rs", "let space = of.physical;\n"), 0);
}
