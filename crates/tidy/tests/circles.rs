//! The command is built in layers: a module uses those below it, and none of them uses it in turn.
//!
//! A module is a file of the command's crate with the folder of its name; each verb below `cmd` is
//! one of its own. What uses what is read from `use` and from paths that begin in `crate`, `super`
//! or `cmd`.

#![allow(clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use tidy::source::{code, without_tests};
use tidy::{report, rust_files};

/// Where the files of the command are.
const ROOT: &str = "crates/zinc/src/";
/// The module whose parts are modules of their own.
const SPLIT: &str = "cmd";

/// What a module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// The path of a file's module, below the root.
fn path_of(file: &str) -> Vec<&str> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if matches!(path.last(), Some(&("mod" | "main"))) {
        path.pop();
    }
    path
}

/// The module that a path leads into; `None` for the root.
fn module_of(path: &[&str]) -> Option<String> {
    match path {
        [] | ["" | "*" | "self", ..] => None,
        [first, second, ..] if *first == SPLIT => Some(format!("{first}::{second}")),
        [first, ..] => Some((*first).to_owned()),
    }
}

/// The paths of a `use`, one for each name: `a::{b, c::{d, e}}` are `a::b`, `a::c::d` and
/// `a::c::e`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((before, inner)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().to_owned()];
    };
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let mut depth = 0;
    let parts = inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(&format!("{}{}", before.trim(), part.trim()))).collect()
}

/// All paths of a text that may lead to a module of the same crate.
fn paths(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for statement in text.split(';') {
        let start = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].trim_end();
            before.is_empty() || before.ends_with(['}', '{', ')', ']', ' ', '\n', 'b'])
        });
        if let Some(at) = start {
            out.extend(expanded(&statement[at + 4..]));
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let words = statement.split(|c| !is_name(c)).filter(|word| word.contains("::"));
        out.extend(words.map(str::to_owned));
    }
    out
}

fn uses(files: &[(String, String)]) -> Uses {
    let mut uses = Uses::new();
    for (file, text) in files {
        let Some(file) = file.strip_prefix(ROOT) else { continue };
        let own = path_of(file);
        let Some(user) = module_of(&own) else { continue };
        let text: Vec<&str> = without_tests(text).map(|(_, line)| code(line)).collect();
        for path in paths(&text.join("\n")) {
            let mut words: Vec<&str> = path.split("::").collect();
            let mut full = match words.first() {
                Some(&"crate") => Vec::new(),
                Some(&("super" | "self")) => own.clone(),
                Some(&first) if first == SPLIT => vec![""],
                _ => continue,
            };
            if full == [""] {
                full = Vec::new();
                words.insert(0, "crate");
            }
            let up = words.iter().take_while(|word| **word == "super").count();
            full.truncate(full.len().saturating_sub(up));
            full.extend(words.iter().filter(|word| !["crate", "super", "self"].contains(word)));
            let used = module_of(&full);
            uses.entry(user.clone()).or_default().extend(used.filter(|used| *used != user));
        }
    }
    uses
}

/// The modules that are in a circle, or between two, with what they use of these.
fn circles(mut uses: Uses) -> Vec<String> {
    loop {
        let users: BTreeSet<String> = uses.keys().cloned().collect();
        uses.values_mut().for_each(|used| used.retain(|one| users.contains(one)));
        let used: BTreeSet<String> = uses.values().flatten().cloned().collect();
        let before = uses.len();
        uses.retain(|user, used_here| used.contains(user) && !used_here.is_empty());
        if uses.len() == before {
            break;
        }
    }
    let shown = |(user, used): (&String, &BTreeSet<String>)| {
        format!("{user} -> {}", used.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    uses.iter().map(shown).collect()
}

#[test]
fn the_modules_of_the_command_are_layers() {
    report("modules of the command that use each other", &circles(uses(&rust_files())));
}

/// The words in backquotes in the first column of a table in the comment that a file begins with.
fn first_column(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let cells = lines.filter_map(|line| line.trim().strip_prefix('|')?.split('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The modules that a file declares.
fn declared(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect()
}

#[test]
fn the_table_of_the_command_has_its_modules() {
    let files = rust_files();
    let root = files.iter().find(|(file, _)| *file == format!("{ROOT}main.rs"));
    let (_, text) = root.expect("the command has a root");
    assert_eq!(first_column(text), declared(text));
    let text = "//! | what | is |\n//! | --- | --- |\n//! | `a`, `b` | `x` |\nmod a;\nmod c;\n";
    assert_eq!(first_column(text), BTreeSet::from(["a", "b"]));
    assert_eq!(declared(text), BTreeSet::from(["a", "c"]));
}

#[test]
fn the_rule_of_layers_can_fail() {
    let file = |path: &str, text: &str| (format!("{ROOT}{path}"), text.to_owned());
    let fine = [
        file("main.rs", "mod a;\nuse a::A;\n"),
        file("a.rs", "use crate::{b::{self, B}, c};\n#[cfg(test)]\nuse crate::cmd;\n"),
        file("a/inner.rs", "use super::A;\n// crate::cmd::x\n"),
        file("b.rs", "pub use crate::c::C as D;\n"),
        file("c.rs", "use std::fs;\n"),
        file("cmd/x/mod.rs", "mod y;\nuse crate::a::A;\n"),
        file("cmd/x/y.rs", "use super::X;\nuse crate::c;\n"),
        file("cmd/z.rs", "fn z() { super::x::run(); }\n"),
    ];
    assert_eq!(circles(uses(&fine)), Vec::<String>::new());
    let found = uses(&fine);
    let of = |user: &str| found[user].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((of("a"), of("cmd::z")), (vec!["b", "c"], vec!["cmd::x"]));
    for (path, text) in [
        ("c.rs", "use crate::{ui, a::A};\n"),
        ("c.rs", "fn c() -> u8 {\n    crate::a::a()\n}\n"),
        ("cmd/x/y.rs", "use crate::cmd::z;\n"),
        ("b.rs", "use crate::cmd;\nfn b() { cmd::x::run() }\nuse crate::c;\n"),
    ] {
        let mut files = fine.to_vec();
        files.push(file("cmd/x/more.rs", "use crate::b;\n"));
        files.push(file(path, text));
        assert!(!circles(uses(&files)).is_empty(), "{path}: {text}");
    }
}
