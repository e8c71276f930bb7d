//! Looking at Rust source without a parser: good enough for rules about words and lines.

/// The part of a line before a comment that starts in it. A `//` within a string literal ends the
/// code here too early, which the rules can live with.
pub fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// The lines of a file but for what is compiled for tests alone (`#[cfg(test)]`), numbered from 1.
pub fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut lines = (1..).zip(text.lines());
    std::iter::from_fn(move || {
        loop {
            let (number, line) = lines.next()?;
            if line.trim() != "#[cfg(test)]" {
                return Some((number, line));
            }
            let depth = indent(line);
            let _ = lines.by_ref().find(|(_, line)| ends_item(line, depth));
        }
    })
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether an item, a statement or a field that is indented so far ends with this line, as the code
/// is formatted: what belongs to it is indented more, but for attributes, and lines that go on
/// with a bracket or a `{`.
fn ends_item(line: &str, depth: usize) -> bool {
    let code = code(line).trim();
    let is_own = indent(line) == depth && !code.is_empty() && !code.starts_with("#[");
    is_own && code.ends_with(['}', ';', ','])
}

/// Whether `word` stands in `line` as a word of its own.
pub fn has_word(line: &str, word: &str) -> bool {
    let boundary = |byte: Option<&u8>| {
        byte.is_none_or(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
    };
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        boundary(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && boundary(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::{has_word, without_tests};

    #[test]
    fn what_is_for_tests_alone_is_left_out_and_nothing_else() {
        let text = "
a
#[cfg(test)]
mod tests;
b
struct C {
    #[cfg(test)]
    x: u8,
    c: u8,
}
#[cfg(test)]
#[allow(dead_code)]
pub(crate) fn long(
    x: u8,
) -> u8 {
    if x {
        y
    }

    // }
}
d
#[cfg(test)]
mod more {
    fn f() {}
}
e";
        let kept: Vec<&str> = without_tests(text).map(|(_, line)| line).collect();
        assert_eq!(kept.concat(), "abstruct C {    c: u8,}de");
        assert_eq!(without_tests(text).last(), Some((27, "e")));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(has_word("unsafe", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(!has_word("makeunsafe", "unsafe"));
    }
}
