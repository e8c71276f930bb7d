//! Methods in formatted Rust source, found without a parser: where they are defined, and where they
//! are called.

use crate::source::{code, without_tests};
use std::collections::BTreeSet;

/// What a file says of methods. Its unit tests are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Methods {
    /// Methods of inherent `impl` blocks: type and name.
    pub inherent: BTreeSet<(String, String)>,
    /// Functions of traits, and of their implementations.
    pub of_traits: BTreeSet<String>,
    /// Names of methods that are called.
    pub calls: BTreeSet<String>,
    /// Those that are called of `self` or `Self` in an `impl` block, with its type.
    pub own_calls: BTreeSet<(String, String)>,
}

/// The head of a block that has functions.
enum Head {
    Trait,
    /// The type, and whether a trait is implemented for it.
    Impl(String, bool),
}

/// The name at the beginning of `text`.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// What is behind the parameters between `<` and `>` that `text` begins with.
fn behind_generics(text: &str) -> &str {
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '<') - i32::from(c == '>' && before != '-');
        if depth == 0 {
            return &text[at + usize::from(c == '>')..];
        }
        before = c;
    }
    ""
}

/// The block that begins in `text`, a line that is not indented and those after it.
fn head(text: &str) -> Option<Head> {
    let before = text.split('{').next()?;
    let first = before.split("fn ").next()?;
    if first.split_whitespace().any(|word| word == "trait") {
        return Some(Head::Trait);
    }
    let rest = before.trim_start_matches("unsafe ").strip_prefix("impl")?;
    let rest = behind_generics(rest).trim_start();
    let (rest, of_trait) = match rest.split_once(" for ") {
        Some((_, of)) => (of, true),
        None => (rest, false),
    };
    let path = rest.trim_start_matches(['&', '(']).split(['<', ' ', '\n']).next()?;
    Some(Head::Impl(path.rsplit("::").next()?.to_owned(), of_trait))
}

/// The function that begins in `line`, and whether it is a method; `next` is the line after it.
fn function<'t>(line: &'t str, next: &str) -> Option<(&'t str, bool)> {
    const BEFORE: [&str; 6] = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe"];
    let (words, rest) = line.strip_prefix("    ")?.split_once("fn ")?;
    let is_head = words.split_whitespace().all(|word| BEFORE.contains(&word));
    if words.starts_with(' ') || !(is_head || words.starts_with("pub(in ")) {
        return None;
    }
    let found = name(rest);
    let parameters = behind_generics(&rest[found.len()..]).strip_prefix('(')?;
    let first = if parameters.is_empty() { next } else { parameters };
    let first = first.trim_start().trim_start_matches('&');
    let first = first.strip_prefix('\'').map_or(first, |rest| &rest[name(rest).len()..]);
    let first = first.trim_start().trim_start_matches("mut ");
    Some((found, name(first) == "self"))
}

/// Names of the methods called in `text`, each with whether it is called of `self` or `Self`.
fn calls(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let called = |rest: &str| rest.starts_with('(') || rest.starts_with("::<");
    let of_self = |before: &str| {
        let rest = before.trim_end().strip_suffix("self");
        rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || "_.".contains(c)))
    };
    let found = move |at: usize| {
        let found = name(&text[at..]);
        called(&text[at + found.len()..]).then_some(found)
    };
    let dots = text.match_indices('.').filter_map(move |(at, _)| {
        Some((found(at + 1).filter(|name| !name.is_empty())?, of_self(&text[..at])))
    });
    dots.chain(text.match_indices("Self::").filter_map(move |(at, word)| {
        let found = found(at + word.len())?;
        found.starts_with(|c: char| c.is_lowercase()).then_some((found, true))
    }))
}

/// Methods that the file of this text defines and calls.
pub fn methods(text: &str) -> Methods {
    let mut out = Methods::default();
    let lines: Vec<&str> = without_tests(text).map(|(_, line)| code(line)).collect();
    let mut block: Option<Head> = None;
    let mut body = String::new();
    for (at, line) in lines.iter().enumerate() {
        let begins =
            !line.is_empty() && !line.starts_with([' ', '}', ')', '#', '{']) && *line != "where";
        if begins {
            block = head(&lines[at..lines.len().min(at + 8)].join("\n"));
        }
        let defined = function(line, lines.get(at + 1).unwrap_or(&""));
        match (&block, defined) {
            (Some(Head::Impl(of, false)), Some((name, true))) => {
                out.inherent.insert((of.clone(), name.to_owned()));
            }
            (Some(Head::Trait | Head::Impl(_, true)), Some((name, _))) => {
                out.of_traits.insert(name.to_owned());
            }
            _ => {}
        }
        body.push_str(line);
        body.push('\n');
        if line.starts_with('}') || at + 1 == lines.len() {
            for (name, is_own) in calls(&body) {
                out.calls.insert(name.to_owned());
                if let (true, Some(Head::Impl(of, _))) = (is_own, &block) {
                    out.own_calls.insert((of.clone(), name.to_owned()));
                }
            }
            body.clear();
            block = None;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Methods, methods};

    const TEXT: &str = "
use a::b;

impl<'t, F: Fn(&u8) -> u8> Walk<'t, F> {
    pub fn new() -> Self {
        Self::made(1)
    }

    pub(crate) fn step<T>(
        &'t mut self,
        of: T,
    ) -> bool {
        of.size() && self
            .next_one()
    }

    fn made(n: u8) -> Self {}
}

impl Iterator for crate::Walk<'_, F> {
    fn next(&mut self) -> Option<u8> {
        self.step::<u8>(1); // and not .this()
        self.inner.step2()
    }
}

pub(crate) trait Seen {
    fn seen(&self);
}

fn free(x: &X) {
    x.last()
}

#[cfg(test)]
mod tests {
    fn f() { x.tested() }
}
";

    #[test]
    fn methods_are_found_where_they_are_defined_and_called() {
        let Methods { inherent, of_traits, calls, own_calls } = methods(TEXT);
        let pair = |(of, name): &(String, String)| format!("{of}.{name}");
        assert_eq!(inherent.iter().map(pair).collect::<Vec<_>>(), ["Walk.step"]);
        assert_eq!(Vec::from_iter(&of_traits), ["next", "seen"]);
        let own: Vec<_> = own_calls.iter().map(pair).collect();
        assert_eq!(own, ["Walk.made", "Walk.next_one", "Walk.step"]);
        let called = ["last", "made", "next_one", "size", "step", "step2"];
        assert_eq!(Vec::from_iter(&calls), called);
    }
}
