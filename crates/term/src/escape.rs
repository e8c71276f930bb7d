//! Makes control characters visible, which a terminal must not get.
//!
//! A terminal obeys the bytes that it receives: they can change its title, make it answer with
//! input, overwrite the text above, or show text in another order. Names, labels, properties and
//! histories come from pools that others made, so every character that is an order and not a letter
//! is shown as `\xNN`, byte by byte, before text is printed.
//!
//! These characters are defined in one place for all, the crate `legible`, as errors from below
//! spell names too. A line end and a tab stay in text that the command itself lays out ([`text`]);
//! in text on one line or in one cell they are escaped too ([`line`]), so that a value forges no
//! row.

use legible::{is_order, without_orders};
use std::borrow::Cow;

/// The name of a file, which may be any bytes.
pub use legible::file as name;

/// Whether nothing in these bytes can need a change.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\t'))
}

/// Text of several lines, laid out by the command.
pub fn text(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    without_orders(text, |c| c == '\n' || c == '\t')
}

/// Text on one line or in one cell of a table.
pub fn line(text: &str) -> Cow<'_, str> {
    without_orders(text, |_| false)
}

/// A cell for programs: as it is, but that it stays in its row and column.
pub fn cell(text: &str) -> Cow<'_, str> {
    without_orders(text, |c| c != '\n' && c != '\t')
}

/// JSON with escapes of its own for the same characters: what a reader gets is what it was.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c == '\n' || !is_order(c);
    if is_plain(text.as_bytes()) || text.chars().all(is_fine) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_fine(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

/// A word of a command line that a person may copy: quoted for a shell where it has to be.
#[must_use]
pub fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@#%+=,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{7f}\u{9b}1m\u{202e}\u{200b}\u{feff}é\u{200d}\r";
    const SHOWN: &str = "a\\x1b[2J\\x7f\\xc2\\x9b1m\\xe2\\x80\\xae\\xe2\\x80\\x8b\
                         \\xef\\xbb\\xbfé\u{200d}\\x0d";

    #[test]
    fn orders_to_the_terminal_are_shown_and_letters_stay() {
        assert_eq!(text(HOSTILE), SHOWN);
        assert_eq!(line(HOSTILE), SHOWN);
        assert_eq!(name(HOSTILE.as_bytes()), SHOWN);
        assert_eq!(name(b"\xff-\x9b"), "\\xff-\\x9b");
    }

    #[test]
    fn a_value_forges_no_line_and_no_column() {
        assert_eq!(text("a\tb\nc"), "a\tb\nc");
        assert_eq!(line("a\tb\nc"), "a\\x09b\\x0ac");
        assert_eq!(cell("a\tb\n\u{1b}"), "a\\x09b\\x0a\u{1b}");
    }

    #[test]
    fn json_says_the_same_to_its_reader() {
        let value = serde_json::json!({ "name": HOSTILE, "tag": "\u{e0001}" });
        let plain = value.to_string();
        let safe = json(&plain);
        assert!(safe.chars().all(|c| !is_order(c)), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).ok(), Some(value));
    }

    #[test]
    fn words_of_commands_can_be_copied() {
        assert_eq!(word("tank/fs@s"), "tank/fs@s");
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("it's"), "'it'\\''s'");
        assert_eq!(word(""), "''");
    }
}
