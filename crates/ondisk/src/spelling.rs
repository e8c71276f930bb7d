//! Names as the format allows them, and text from a pool that stands in one line.
//!
//! OpenZFS gives pools, datasets and snapshots names of letters, digits, `-_.:` and blanks, and has
//! `$` and `%` for its own. A program that makes a pool by other means can put any bytes there:
//! line ends that forge a line of a table, orders to a terminal, a `/` or `@` that makes one name
//! look like several. Such a byte is not trusted: it is spelled `\xNN`, in everything that is shown
//! and compared, and a name that was spelled so leads back to the bytes ([`stored`]). As a
//! backslash is not allowed either, no two names are spelled alike.

use core::fmt::Write as _;

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

/// The spelling of the name of a file in a message: as it is, but that what orders a terminal and
/// what is no UTF-8 is spelled byte by byte. A file may have any name, a backslash in it too, so
/// this is to be read and leads back to nothing.
#[must_use]
pub fn file(stored: &[u8]) -> String {
    let mut out = String::with_capacity(stored.len());
    for chunk in stored.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.is_control() {
                true => spell(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                false => out.push(c),
            }
        }
        spell(&mut out, chunk.invalid());
    }
    out
}

fn spell(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{b:02x}");
    }
}

/// Text that stands in a line with other text: it ends no line and no column.
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
    }
}
