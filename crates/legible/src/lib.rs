//! Text that anyone may have written, so that it can be read: which characters are orders, and how
//! they are spelled.
//!
//! A terminal obeys characters, and some of them make one text look like another. Those are spelled
//! byte by byte, as `\xNN`, in everything that is shown, by whatever shows it: messages of the
//! lowest floors have names of files in them, as tables have.
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
//! nothing.
//!
//! **Invariant:** knows nothing of storage and of terminals; pure functions.
#![forbid(unsafe_code)]

use core::fmt::Write as _;
use std::borrow::Cow;

/// Whether a terminal must not get this character.
#[must_use]
pub fn is_order(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The spelling of the name of a file: as it is, but that orders ([`is_order`]) and bytes that are
/// not UTF-8 are spelled one by one. A file may have any name, a backslash in it too, so this is
/// to be read and leads back to nothing.
#[must_use]
pub fn file(stored: &[u8]) -> String {
    let mut out = String::with_capacity(stored.len());
    for chunk in stored.utf8_chunks() {
        out.push_str(&without_orders(chunk.valid(), |_| false));
        spell(&mut out, chunk.invalid());
    }
    out
}

/// Text in which the orders are spelled, but for those that may stay.
pub fn without_orders(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_fine = |c: char| stays(c) || !is_order(c);
    if text.chars().all(is_fine) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_fine(c) {
            true => out.push(c),
            false => spell(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(out)
}

/// Spells bytes, each as `\xNN`.
pub fn spell(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{b:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_orders_nothing_of_a_terminal() {
        assert_eq!(file("it's \"ä\" \\ @/".as_bytes()), "it's \"ä\" \\ @/");
        assert_eq!(file(b"a\x1b[2J\n\t\x7f\xff"), "a\\x1b[2J\\x0a\\x09\\x7f\\xff");
        assert_eq!(file("\u{9b}2J".as_bytes()), "\\xc2\\x9b2J");
        // Nor does it look like another.
        assert_eq!(file("a\u{202e}b\u{200b}".as_bytes()), "a\\xe2\\x80\\xaeb\\xe2\\x80\\x8b");
    }
}
