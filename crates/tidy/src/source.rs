//! Looking at Rust source without a parser: good enough for rules about words and lines.

/// The part of a line before a comment that starts in it. A `//` within a string literal ends the
/// code here too early, which the rules can live with.
pub fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// The lines of a file before its unit tests (`#[cfg(test)]`), numbered from 1.
pub fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .map(|(index, line)| (index + 1, line))
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
    use super::has_word;

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(has_word("unsafe", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(!has_word("makeunsafe", "unsafe"));
    }
}
