//! Normal forms of names, for file systems with `normalization` or `casesensitivity`.
//!
//! OpenZFS prepares names character by character: upper case first (simple mappings, one
//! character to one), then decomposition, canonical order of the combining marks, and, for the
//! composed forms, composition. Its tables are those of Unicode 5.0 (see `unicode5`). Bytes that
//! are not UTF-8 are kept as they are and stand alone. One thing is left out: OpenZFS cuts a
//! sequence of more than 30 combining marks with a grapheme joiner.

use unicode_normalization::char as uni;

use super::unicode5::assigned;

/// Fold to upper case (`casesensitivity` insensitive or mixed).
pub const NORM_TOUPPER: u64 = 0x02;
/// Fold to lower case; defined, never used by ZFS, ignored here.
pub const NORM_TOLOWER: u64 = 0x04;
/// Canonical decomposition (`normalization=formD`).
pub const NORM_NFD: u64 = 0x10;
/// Canonical decomposition, then composition (`formC`).
pub const NORM_NFC: u64 = 0x50;
/// Compatibility decomposition (`formKD`).
pub const NORM_NFKD: u64 = 0x20;
/// Compatibility decomposition, then canonical composition (`formKC`).
pub const NORM_NFKC: u64 = 0x60;

const CANONICAL: u64 = 0x10;
const COMPATIBLE: u64 = 0x20;
const COMPOSE: u64 = 0x40;

const YPOGEGRAMMENI: char = '\u{345}';
const CAPITAL_IOTA: char = '\u{399}';

/// The normal form of `name` under the flags of a ZAP. `match_case` leaves case alone whatever
/// the flags say. Names of any bytes are accepted; the result can be longer than the name.
#[must_use]
pub fn normalize(name: &[u8], norm_flags: u64, match_case: bool) -> Vec<u8> {
    let upper = norm_flags & NORM_TOUPPER != 0 && !match_case;
    let decompose = norm_flags & (CANONICAL | COMPATIBLE) != 0;
    if name.is_ascii() {
        return if upper { name.to_ascii_uppercase() } else { name.to_vec() };
    }
    if !decompose {
        return if upper { fold(name) } else { name.to_vec() };
    }
    let mut marks = decomposed(name, upper, norm_flags & CANONICAL != 0);
    order_marks(&mut marks);
    if norm_flags & COMPOSE != 0 {
        marks = composed(marks);
    }
    let mut out = Vec::with_capacity(name.len());
    for m in &marks {
        m.unit.write(&mut out);
    }
    out
}

/// A character, or bytes that are not valid UTF-8.
#[derive(Clone, Copy)]
enum Unit<'a> {
    Char(char),
    Raw(&'a [u8]),
}

impl Unit<'_> {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Self::Raw(b) => out.extend_from_slice(b),
        }
    }
}

/// A unit and its combining class; class 0 starts a new sequence.
#[derive(Clone, Copy)]
struct Mark<'a> {
    unit: Unit<'a>,
    class: u8,
}

/// Cuts a name into units by lead byte alone: a lead byte takes its continuation bytes along
/// even when they are not characters, as OpenZFS does.
fn units(name: &[u8]) -> impl Iterator<Item = Unit<'_>> {
    let mut rest = name;
    core::iter::from_fn(move || {
        let len = match rest.first()? {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let (head, tail) = rest.split_at(len.min(rest.len()));
        rest = tail;
        let c = core::str::from_utf8(head).ok().and_then(|s| s.chars().next());
        Some(c.map_or(Unit::Raw(head), Unit::Char))
    })
}

/// Upper case by the simple mapping of Unicode 5.0.
fn simple_upper(c: char) -> char {
    if !assigned(c) {
        return c;
    }
    // Letters with iota below have a one-character title form that the full mapping, which the
    // standard library has, spells in two characters.
    let with_iota = match c {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => 0,
    };
    if with_iota != 0 {
        return char::from_u32(u32::from(c) + with_iota).unwrap_or(c);
    }
    let mut full = c.to_uppercase();
    match (full.next(), full.next()) {
        (Some(up), None) if assigned(up) => up,
        _ => c,
    }
}

fn fold(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for unit in units(name) {
        match unit {
            Unit::Char(c) => Unit::Char(simple_upper(c)).write(&mut out),
            raw @ Unit::Raw(_) => raw.write(&mut out),
        }
    }
    out
}

fn class_of(c: char) -> u8 {
    if assigned(c) { uni::canonical_combining_class(c) } else { 0 }
}

fn decomposed(name: &[u8], upper: bool, canonical: bool) -> Vec<Mark<'_>> {
    let mut out: Vec<Mark<'_>> = Vec::with_capacity(name.len());
    for unit in units(name) {
        let Unit::Char(c) = unit else {
            out.push(Mark { unit, class: 0 });
            continue;
        };
        // The iota below becomes a letter of its own in upper case, but where it follows another
        // character it keeps the place of a combining mark.
        if upper && c == YPOGEGRAMMENI {
            let class = if out.is_empty() { 0 } else { class_of(c) };
            out.push(Mark { unit: Unit::Char(CAPITAL_IOTA), class });
            continue;
        }
        let c = if upper { simple_upper(c) } else { c };
        let mut push = |c| out.push(Mark { unit: Unit::Char(c), class: class_of(c) });
        match (assigned(c), canonical) {
            (false, _) => push(c),
            (true, true) => uni::decompose_canonical(c, push),
            (true, false) => uni::decompose_compatible(c, push),
        }
    }
    out
}

/// Sorts each run of combining marks by class; equal classes keep their order.
fn order_marks(marks: &mut [Mark<'_>]) {
    for run in marks.chunk_by_mut(|a, b| a.class != 0 && b.class != 0) {
        run.sort_by_key(|m| m.class);
    }
}

fn composed(marks: Vec<Mark<'_>>) -> Vec<Mark<'_>> {
    let mut out: Vec<Mark<'_>> = Vec::with_capacity(marks.len());
    let mut starter: Option<usize> = None;
    for mark in marks {
        let last = out.last().map(|m| m.class);
        if let (Some(s), Some(last)) = (starter, last) {
            let next_to = s + 1 == out.len();
            let joined = match (out.get(s).map(|m| m.unit), mark.unit) {
                (Some(Unit::Char(a)), Unit::Char(b)) if next_to || last < mark.class => {
                    uni::compose(a, b).filter(|c| assigned(*c) && assigned(a) && assigned(b))
                }
                _ => None,
            };
            if let (Some(c), Some(place)) = (joined, out.get_mut(s)) {
                place.unit = Unit::Char(c);
                continue;
            }
        }
        if mark.class == 0 {
            starter = Some(out.len());
        }
        out.push(mark);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norm(name: &str, flags: u64) -> String {
        String::from_utf8(normalize(name.as_bytes(), flags, false)).unwrap()
    }

    #[test]
    fn forms_are_those_of_unicode() {
        let name = "A\u{301}\u{323} \u{e9} \u{ac01} \u{fb01} \u{9c7}\u{9be}";
        use unicode_normalization::UnicodeNormalization as _;
        assert_eq!(norm(name, NORM_NFD), name.nfd().collect::<String>());
        assert_eq!(norm(name, NORM_NFC), name.nfc().collect::<String>());
        assert_eq!(norm(name, NORM_NFKD), name.nfkd().collect::<String>());
        assert_eq!(norm(name, NORM_NFKC), name.nfkc().collect::<String>());
    }

    #[test]
    fn case_is_simple_upper_case() {
        assert_eq!(norm("stra\u{df}e \u{e4} \u{3c2}", NORM_TOUPPER), "STRA\u{df}E \u{c4} \u{3a3}");
        assert_eq!(norm("\u{1fb3}\u{131}\u{17f}", NORM_TOUPPER), "\u{1fbc}IS");
        assert_eq!(norm("\u{e9}", NORM_TOUPPER | NORM_NFC), "\u{c9}");
        assert_eq!(norm("\u{e9}", NORM_TOUPPER | NORM_NFD), "E\u{301}");
        let kept = normalize("\u{e9}x".as_bytes(), NORM_TOUPPER | NORM_NFD, true);
        assert_eq!(kept, "e\u{301}x".as_bytes());
    }

    #[test]
    fn characters_after_unicode_5_stay_as_they_are() {
        // Georgian got capitals in Unicode 11, U+0250 its capital in 5.1, U+1E030 came in 15.
        for name in ["\u{10d0}", "\u{250}", "\u{1e030}"] {
            assert_eq!(norm(name, NORM_TOUPPER | NORM_NFKD), name);
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept() {
        let name = b"a\xff\xc3(b\xe2\x82";
        assert_eq!(normalize(name, NORM_TOUPPER, false), b"A\xff\xc3(B\xe2\x82");
        assert_eq!(normalize(name, NORM_NFC, false), name);
    }
}
