//! A write and a read are followed in ARCHITECTURE.md, a function a line: the functions are there,
//! and each calls the next.
//!
//! Calls are found by their names, as text: that a name is called does not prove that this one
//! function is, but a way that is not there any more is found.

#![allow(clippy::expect_used, reason = "a test")]

use std::collections::HashSet;
use tidy::source::{code, without_tests};
use tidy::{FLOORS, read, report, rust_files};

/// What stands before each list: functions that call the next one.
const DOWN: [&str; 4] = [
    "A write followed from",
    "The intent log notes each write",
    "And its way to the device",
    "A thread of the pool makes the txg durable",
];
/// What stands before a list of functions that are called by the next one.
const UP: &str = "And a read back up";

/// A function as it stands in a file.
struct Function {
    krate: String,
    path: String,
    name: String,
    /// The line with which what it is part of begins.
    owner: String,
    /// The names that are called in it.
    calls: HashSet<String>,
}

/// A line of a list.
struct Hop {
    line: String,
    krate: String,
    /// Type or module, and name.
    function: (String, String),
}

impl Hop {
    fn of(line: &str) -> Self {
        let mut words = line.split_whitespace();
        let (krate, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (owner, name) = path.rsplit_once("::").unwrap_or(("", path));
        Self {
            line: line.to_owned(),
            krate: krate.to_owned(),
            function: (owner.to_owned(), name.to_owned()),
        }
    }

    fn is(&self, function: &Function) -> bool {
        let (owner, name) = &self.function;
        let is_owner = owner.is_empty()
            || tidy::source::has_word(&function.owner, owner)
            || function.path.contains(&format!("/{owner}/"))
            || function.path.ends_with(&format!("/{owner}.rs"));
        function.krate == self.krate && function.name == *name && is_owner
    }
}

fn hops(text: &str, list: &str) -> Vec<Hop> {
    let (_, behind) = text.split_once(list).expect(list);
    let block = behind.split("```").nth(1).expect("a block of hops");
    let hops: Vec<Hop> = block.lines().filter(|l| !l.trim().is_empty()).map(Hop::of).collect();
    assert!(hops.len() > 2, "{list}: {} hops", hops.len());
    hops
}

/// The name of the function that begins with this line.
fn defined(line: &str) -> Option<&str> {
    let line = code(line).trim_start();
    let (before, behind) = line.split_once("fn ")?;
    let is_plain = before
        .split_whitespace()
        .all(|w| w.chars().all(|c| "abcdefghijklmnopqrstuvwxyz(:)".contains(c)));
    let end = behind.find(['(', '<'])?;
    Some(&behind[..end]).filter(|_| is_plain)
}

/// The names that stand before an opening parenthesis.
fn calls(line: &str) -> impl Iterator<Item = String> {
    let line = code(line);
    line.match_indices('(').filter_map(move |(at, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let name = line[..at].rsplit(|c| !is_word(c)).next().unwrap_or_default();
        (!name.is_empty()).then(|| name.to_owned())
    })
}

/// All functions of the floors, as the code is formatted: a function ends where a line of its own
/// depth closes it.
fn functions() -> Vec<Function> {
    let mut out = Vec::new();
    for (path, text) in rust_files() {
        let Some((krate, _)) = path.strip_prefix("crates/").and_then(|p| p.split_once("/src/"))
        else {
            continue;
        };
        if path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let mut owner = "";
        let mut open: Option<(usize, Function)> = None;
        for (_, line) in without_tests(&text) {
            let depth = line.len() - line.trim_start().len();
            if depth == 0 && (line.starts_with("impl") || line.contains("trait ")) {
                owner = line;
            }
            if let Some((at, function)) = &mut open {
                function.calls.extend(calls(line));
                let ends = line.trim_end().ends_with(['}', ';']) && depth == *at;
                if ends {
                    out.extend(open.take().map(|(_, f)| f));
                }
            } else if let Some(name) = defined(line) {
                let function = Function {
                    krate: krate.to_owned(),
                    path: path.clone(),
                    name: name.to_owned(),
                    owner: if depth == 0 { String::new() } else { owner.to_owned() },
                    calls: HashSet::new(),
                };
                match line.trim_end().ends_with(['}', ';']) {
                    true => out.push(function),
                    false => open = Some((depth, function)),
                }
            }
        }
    }
    out
}

/// The lists, from the caller to the called.
fn lists() -> Vec<Vec<Hop>> {
    let text = read("ARCHITECTURE.md");
    let mut up = hops(&text, UP);
    up.reverse();
    DOWN.iter().map(|list| hops(&text, list)).chain([up]).collect()
}

fn calls_next(functions: &[Function], from: &Hop, to: &Hop) -> bool {
    let (_, name) = &to.function;
    functions.iter().any(|f| from.is(f) && f.calls.contains(name))
}

#[test]
fn each_hop_names_a_function_of_its_crate() {
    let functions = functions();
    let is_there = |hop: &Hop| functions.iter().any(|f| hop.is(f));
    let all = lists().into_iter().flatten();
    let wrong = all.filter(|hop| !FLOORS.contains(&hop.krate.as_str()) || !is_there(hop));
    let offences: Vec<String> = wrong.map(|hop| hop.line).collect();
    report("a hop of ARCHITECTURE.md names a function that its crate has", &offences);
}

#[test]
fn each_hop_calls_the_next() {
    let functions = functions();
    let mut offences = Vec::new();
    for list in lists() {
        for pair in list.windows(2) {
            let [from, to] = pair else { continue };
            if !calls_next(&functions, from, to) {
                offences.push(format!("{} does not call {}", from.line, to.line));
            }
        }
    }
    report("a hop of ARCHITECTURE.md calls the next one", &offences);
    let (writer, tree) = (Hop::of("zio Writer::write"), Hop::of("vdev VdevTree::write_batch"));
    assert!(!calls_next(&functions, &writer, &tree), "there is a hop between them");
}
