//! Names as the format allows them, and text from a pool on one line.
//!
//! OpenZFS gives pools, datasets and snapshots names of letters, digits, `-_.:` and blanks, and has
//! `$` and `%` for its own. A program that makes a pool by other means can put any bytes there:
//! line ends that forge a line of a table, orders to a terminal, a `/` or `@` that makes one name
//! look like several. Such a byte is not trusted: it is spelled `\xNN`, in everything that is shown
//! and compared, and a name that was spelled so leads back to the bytes ([`stored`]). As a
//! backslash is not allowed either, no two names are spelled alike.
//!
//! Names of files may have almost any bytes, and so may texts. In a message, those characters of
//! them are spelled that a terminal would obey or that make one text look like another
//! ([`is_order`]); so `term` does with everything that is printed:
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

use core::fmt::Write as _;
use std::borrow::Cow;

fn is_allowed(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.: $%".contains(&b)
}

/// The spelling of the name of a pool, dataset or snapshot.
#[must_use]
pub fn name(stored: &[u8]) -> String {
    let mut out = String::with_capacity(stored.len());
    for b in stored {
        match is_allowed(*b) {
            true => out.push(char::from(*b)),
            false => spell(&mut out, &[*b]),
        }
    }
    out
}

/// The spelling of the full name of a dataset or snapshot, with the `/` and `@` between its parts.
#[must_use]
pub fn full_name(stored: &[u8]) -> String {
    let mut out = String::with_capacity(stored.len());
    for part in stored.split_inclusive(|byte| b"/@".contains(byte)) {
        let (part, separator) = match part.split_last() {
            Some((last, part)) if b"/@".contains(last) => (part, Some(char::from(*last))),
            _ => (part, None),
        };
        out.push_str(&name(part));
        out.extend(separator);
    }
    out
}

/// The bytes of a name that is spelled so.
#[must_use]
pub fn stored(spelling: &str) -> Vec<u8> {
    let mut rest = spelling.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.strip_prefix(b"x").and_then(|d| d.get(..2));
        let value = digits.and_then(|d| core::str::from_utf8(d).ok());
        let value = value.and_then(|d| u8::from_str_radix(d, 16).ok());
        match (first, value) {
            (b'\\', Some(value)) => {
                out.push(value);
                rest = behind.get(3..).unwrap_or_default();
            }
            _ => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

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

fn spell(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{b:02x}");
    }
}

/// Text on a line with other text: it ends no line and no column.
#[must_use]
pub fn in_line(text: &str) -> String {
    text.replace('\n', "\\x0a").replace('\t', "\\x09")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_may_not_have_is_spelled_and_found_again() {
        for (bytes, spelling) in [
            (&b"a b-c_d.e:f0"[..], "a b-c_d.e:f0"),
            (b"$MOS", "$MOS"),
            (b"a\x1b[2J\n", "a\\x1b\\x5b2J\\x0a"),
            (b"a/b@c#d", "a\\x2fb\\x40c\\x23d"),
            (b"\\x41", "\\x5cx41"),
            (b"\xff\xc3\xa9", "\\xff\\xc3\\xa9"),
        ] {
            assert_eq!(name(bytes), spelling);
            assert_eq!(stored(spelling), bytes);
        }
        assert_eq!(stored("a\\x4"), b"a\\x4");
        assert_eq!(stored("\\xé1"), "\\xé1".as_bytes());
    }

    #[test]
    fn a_file_orders_nothing_of_a_terminal() {
        assert_eq!(file("it's \"ä\" \\ @/".as_bytes()), "it's \"ä\" \\ @/");
        assert_eq!(file(b"a\x1b[2J\n\t\x7f\xff"), "a\\x1b[2J\\x0a\\x09\\x7f\\xff");
        assert_eq!(file("\u{9b}2J".as_bytes()), "\\xc2\\x9b2J");
        // Nor does it look like another.
        assert_eq!(file("a\u{202e}b\u{200b}".as_bytes()), "a\\xe2\\x80\\xaeb\\xe2\\x80\\x8b");
    }
}
