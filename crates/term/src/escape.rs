//! What a terminal must not get to see, made visible.
//!
//! A terminal obeys the bytes it is sent: it can be told to change its title, to answer with
//! input, to overwrite what stands above, to show text in another order. Names, labels,
//! properties and histories come from pools that others made, so every character that is
//! an order and not a letter is shown as `\xNN`, byte by byte, before text is printed.
//!
//! | characters | why |
//! | --- | --- |
//! | C0, DEL, C1 | the orders themselves; C1 holds one-byte forms of `ESC [` and its like |
//! | bytes that are no UTF-8 | some terminals read them as C1 |
//! | bidirectional controls | they reorder what follows: one name looks like another |
//! | line and paragraph separators | they break lines where none is expected |
//! | invisible characters | zero width space, word joiner, byte order mark, tags, annotations |
//!
//! The joiners U+200C and U+200D stay: several scripts and emoji need them, and they reorder
//! nothing. A line end and a tab stay in text that the command itself lays out ([`text`]); in what
//! stands in one line or cell they are escaped too ([`line`]), so that a value forges no row.

use std::borrow::Cow;

/// Whether a terminal must not get this character.
fn is_order(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether nothing in these bytes can need a change.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| matches!(b, b' '..=b'~' | b'\n' | b'\t'))
}

fn push(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        out.push_str(&format!("\\x{b:02x}"));
    }
}

fn escaped<'a>(text: &'a str, stays: impl Fn(char) -> bool) -> Cow<'a, str> {
    let is_fine = |c: char| stays(c) || !is_order(c);
    if text.chars().all(is_fine) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_fine(c) {
            true => out.push(c),
            false => push(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(out)
}

/// Text of several lines, laid out by the command.
pub fn text(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    escaped(text, |c| c == '\n' || c == '\t')
}

/// What stands in one line or in one cell of a table.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A cell for programs: as it is, but that it stays in its row and column.
pub fn cell(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && c != '\t')
}

/// The name of a file, which may be any bytes.
pub fn name(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        out.push_str(&line(chunk.valid()));
        push(&mut out, chunk.invalid());
    }
    out
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
}
