//! What can be done about a failure is data: a flag of a command line has no place in the texts of
//! the engine, nor below it. A front end words it.

use tidy::source::without_tests;
use tidy::{FLOORS, report, rust_files};

/// `ulimit -v`, which is not a command of ours.
const OTHERS: (&str, &str) = ("crates/device/src/buf/allocator.rs", "-v");

/// The floors that the rule holds for: the engine, and all below.
fn is_held(path: &str) -> bool {
    let is_on = |floor: &&str| path.starts_with(&format!("crates/{floor}/src/"));
    let floors = FLOORS.split_inclusive(|floor| *floor == "engine").next().unwrap_or_default();
    let is_tests = path.ends_with("/tests.rs") || path.contains("/tests/");
    floors.iter().any(is_on) && !is_tests
}

/// The text of a line that stands in string literals; `is_inside` says whether one began before.
fn literals(line: &str, is_inside: &mut bool) -> String {
    let mut out = String::new();
    let mut chars = line.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        match c {
            '\\' if *is_inside => drop(chars.next()),
            // A quote as a character.
            '"' if !*is_inside && before == '\'' && chars.peek() == Some(&'\'') => {}
            '"' => {
                *is_inside = !*is_inside;
                out.push('"');
            }
            '/' if !*is_inside && chars.peek() == Some(&'/') => return out,
            c if *is_inside => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

/// The first flag in a text: a word in it that begins with one or two dashes and a letter. What
/// begins a whole literal is a suffix.
fn flag(text: &str) -> Option<&str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    text.match_indices('-').find_map(|(at, _)| {
        let begins = text[..at].ends_with([' ', '\'', '`', '(']);
        let word = &text[at..];
        let is_flag = word.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
        let word = &word[..word.find(ends).unwrap_or(word.len())];
        (begins && is_flag && word.len() - word.trim_start_matches('-').len() <= 2).then_some(word)
    })
}

fn offences(files: &[(String, String)]) -> Vec<String> {
    let mut out = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| is_held(path)) {
        let mut is_inside = false;
        for (number, line) in without_tests(text) {
            let literals = literals(line, &mut is_inside);
            if let Some(flag) = flag(&literals).filter(|flag| (path.as_str(), *flag) != OTHERS) {
                out.push(format!("{path}:{number}: {flag} is a flag of a command"));
            }
        }
    }
    out
}

#[test]
fn libraries_know_no_flags() {
    report("a hint is data, and a front end names its flags", &offences(&rust_files()));
}

#[test]
fn the_rule_sees_flags_in_literals_and_nowhere_else() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let found = offences(&[
        file("crates/engine/src/a.rs", "let why = \"sent with -w only\";\n"),
        file("crates/pool/src/b.rs", "let why = \"give up \\\n    (--force)\";\n// -x\n"),
        file(
            "crates/pool/src/c.rs",
            "let c = '\"'; // \"-x\"\nlet n = a -b; \"a - b, x-y, -1\";\n",
        ),
        file("crates/views/src/d.rs", "let why = \"use -f\";\n"),
        file("crates/engine/src/error/tests.rs", "let why = \"use -f\";\n"),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("a.rs:1: -w is a flag of a command"), "{found:?}");
    assert!(found[1].ends_with("b.rs:2: --force is a flag of a command"), "{found:?}");
}
