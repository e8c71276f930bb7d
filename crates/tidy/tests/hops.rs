//! A write and a read are followed in ARCHITECTURE.md, one hop a line: their functions are there,
//! and each leads to the next.
//!
//! Calls are found by their names, as text: from the function of a hop through functions of its own
//! crate, a few calls deep, up to one that calls a function of the next hop's name. So a way that
//! is not there any more is found; that a name is called is no proof that this one function is.

#![allow(clippy::expect_used, reason = "a test")]

use std::collections::HashSet;
use tidy::source::{code, without_tests};
use tidy::{FLOORS, read, report, rust_files};

/// What begins the list of a write, which goes down, and of a read, which comes up.
const WRITE: &str = "A write followed from";
const READ: &str = "And a read back up";

/// Ends the line of a hop that is not called by the one before it, but by a thread of its own.
const THREAD: &str = "its one thread syncs what is frozen";

/// Calls from a hop's function to one that calls the next hop, at most.
const DEPTH: usize = 5;

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
    assert!(hops.len() > 5, "{list}: {} hops", hops.len());
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

/// Whether the function of `from` leads to a call of `to`.
fn leads(functions: &[Function], from: &Hop, to: &str) -> bool {
    let mut now: Vec<&Function> = functions.iter().filter(|f| from.is(f)).collect();
    let mut seen: HashSet<&str> = HashSet::new();
    for _ in 0..DEPTH {
        if now.iter().any(|f| f.calls.contains(to)) {
            return true;
        }
        let names: HashSet<&str> = now
            .iter()
            .flat_map(|f| &f.calls)
            .map(String::as_str)
            .filter(|c| seen.insert(c))
            .collect();
        let called = |f: &&Function| f.krate == from.krate && names.contains(f.name.as_str());
        now = functions.iter().filter(called).collect();
    }
    false
}

#[test]
fn each_hop_names_a_function_of_its_crate() {
    let (text, functions) = (read("ARCHITECTURE.md"), functions());
    let is_there = |hop: &Hop| functions.iter().any(|f| hop.is(f));
    let all = [WRITE, READ].into_iter().flat_map(|list| hops(&text, list));
    let wrong = all.filter(|hop| !FLOORS.contains(&hop.krate.as_str()) || !is_there(hop));
    let offences: Vec<String> = wrong.map(|hop| hop.line).collect();
    report("a hop of ARCHITECTURE.md names a function that its crate has", &offences);
}

#[test]
fn each_hop_leads_to_the_next() {
    let (text, functions) = (read("ARCHITECTURE.md"), functions());
    let (down, mut up) = (hops(&text, WRITE), hops(&text, READ));
    // It is called from its end, and comes back.
    up.reverse();
    let mut offences = Vec::new();
    let mut threads = 0;
    for pair in down.windows(2).chain(up.windows(2)) {
        let [from, to] = pair else { continue };
        let by_thread = to.line.ends_with(THREAD);
        threads += usize::from(by_thread);
        if !by_thread && !leads(&functions, from, &to.function.1) {
            offences.push(format!("{} does not lead to {}", from.line, to.line));
        }
    }
    assert_eq!(threads, 1, "the txg's thread begins one hop");
    report("a hop of ARCHITECTURE.md calls the next one", &offences);
    let hop = |line| Hop::of(line);
    assert!(!leads(&functions, &hop("zio Writer::write"), "read_batch"), "not everything leads on");
}
