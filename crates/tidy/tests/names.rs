//! Names of types and values. A type does not take the name of one that every file has from the
//! prelude, where a reader takes it for that. A value is not called after the fact that it
//! was told, said or asked: its name says what it is.

use std::collections::BTreeMap;
use tidy::source::{code, has_word};
use tidy::{report, rust_files};

/// What the prelude puts into every file. `Result` is left out: an alias with the error of a crate
/// is the custom.
const PRELUDE: [&str; 33] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Into",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToString",
    "Vec",
];
/// Words that say that something was spoken of, and not what it is.
const SPOKEN: [&str; 3] = ["told", "said", "asked"];
/// Crates whose types are named together with their module, as in `checksum::Algorithm`.
const QUALIFIED: [&str; 5] = ["codec", "lab", "ondisk", "views", "zinc"];
/// Words of a name that may stand for a sentence: those of tests do.
const WORDS_MAX: usize = 3;

/// The name of a type that a line declares, in the first column or in a module of tests.
fn declared(line: &str) -> Option<&str> {
    let words = code(line).split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let mut words =
        words.filter(|word| !word.is_empty() && !["pub", "crate", "super"].contains(word));
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&words.next()?);
    // The associated type of a trait belongs to that trait.
    let is_inner = line.starts_with(' ') && has_word(line, "type");
    words.next().filter(|_| is_type && !is_inner)
}

/// A line without what is in strings, which `is_inside` says of its beginning, and comments.
fn without_strings(line: &str, is_inside: &mut bool) -> String {
    let (mut out, mut chars, mut before) = (String::new(), line.chars().peekable(), ' ');
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            // A quote as a character.
            '"' if !*is_inside && before == '\'' && chars.peek() == Some(&'\'') => {}
            '"' => *is_inside = !*is_inside,
            '/' if !*is_inside && chars.peek() == Some(&'/') => return out,
            c if !*is_inside => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

/// The names of values and functions in a line of code.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'))
}

fn is_spoken(name: &str) -> bool {
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    words.len() <= WORDS_MAX && words.iter().any(|word| SPOKEN.contains(word))
}

fn offences(files: &[(String, String)]) -> Vec<String> {
    let mut out = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with("crates/")) {
        let mut is_inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(name) = declared(line).filter(|name| PRELUDE.contains(name)) {
                out.push(format!("{path}:{number}: {name} is a name of the prelude"));
            }
            let line = without_strings(line, &mut is_inside);
            if let Some(name) = names(&line).find(|name| is_spoken(name)) {
                out.push(format!("{path}:{number}: {name}: say what it is"));
            }
        }
    }
    out
}

#[test]
fn types_and_values_are_called_what_they_are() {
    report("names", &offences(&rust_files()));
}

#[test]
fn the_rule_sees_names_in_code_and_nowhere_else() {
    let file = |text: &str| ("crates/rt/src/lib.rs".to_owned(), text.to_owned());
    let bad = ["struct From {\n", "pub(super) enum Copy<'a> {\n", "    trait Into {}\n"]
        .map(file)
        .into_iter()
        .chain(["let told = 1;\n", "fn is_said() {}\n", "    has_asked: bool,\n"].map(file));
    assert_eq!(offences(&bad.collect::<Vec<_>>()).len(), 6);
    let good = [
        "struct Base;\n",
        "impl From<u64> for Base {}\n",
        "    type Err = u8;\n",
        "pub type Result<T> = core::result::Result<T, Error>;\n",
        "// it was told\nlet text = \"as was said \\\n  and told\";\n",
        "fn what_is_lost_is_told() {}\n",
        "struct Asked;\nenum Amount { Asked }\n",
    ];
    assert_eq!(offences(&good.map(file)), [""; 0]);
}

#[test]
fn public_types_of_a_crate_have_different_names() {
    let mut first = BTreeMap::new();
    let mut offences = Vec::new();
    for (path, text) in rust_files() {
        let mut parts = path.split('/');
        let (Some("crates"), Some(name), Some("src")) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if QUALIFIED.contains(&name) {
            continue;
        }
        for line in text.lines().filter(|line| line.starts_with("pub ")) {
            let Some(declared) = declared(line) else { continue };
            let other = first.entry((name.to_owned(), declared.to_owned())).or_insert(path.clone());
            if *other != path {
                offences.push(format!("{path}: {declared} is in {other} too"));
            }
        }
    }
    report("two public types of a crate have one name", &offences);
}
