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
//! them are spelled that a terminal would obey or that make one text look like another ([`file`]);
//! so `term` does with everything that is printed.

pub use legible::file;
use legible::spell;

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
}
