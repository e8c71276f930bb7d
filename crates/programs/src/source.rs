//! A script for Lua 5.4, made of one for OpenZFS's Lua: numbers are integers there, and are divided
//! as such.
//!
//! - `/` becomes `//`, the division of integers, and the name `__div` becomes `__idiv`.
//! - A number with a fraction or an exponent is malformed.
//! - A decimal number that is too large wraps around, as a hexadecimal one does by itself.
//!
//! Strings and comments stay as they are, and so do lines.

/// The script as Lua 5.4 is to read it; else the line of a fault, and the fault.
pub(crate) fn adapt(source: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(source.len() + source.len() / 64);
    let mut rest = source;
    while let Some(&first) = rest.first() {
        let length = match first {
            b'-' if rest.starts_with(b"--") => comment(rest),
            b'[' => long_bracket(rest).unwrap_or(1),
            b'"' | b'\'' => string(rest, first),
            b'0'..=b'9' => {
                let length = number_length(rest);
                let (number, behind) = rest.split_at(length);
                match integer(number) {
                    Some(text) => out.extend_from_slice(text.as_bytes()),
                    None => return Err(malformed(source, behind, number)),
                }
                rest = behind;
                continue;
            }
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => {
                let (number, behind) = rest.split_at(number_length(rest));
                return Err(malformed(source, behind, number));
            }
            // Two or three dots are operators, and a number may follow them.
            b'.' => rest.iter().take_while(|b| **b == b'.').count(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
                let (word, behind) = rest.split_at(rest.iter().take_while(is_part).count());
                // What a table does where it is divided.
                out.extend_from_slice(if word == b"__div" { b"__idiv" } else { word });
                rest = behind;
                continue;
            }
            b'/' => {
                out.extend_from_slice(b"//");
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            _ => 1,
        };
        let (same, behind) = rest.split_at(length.clamp(1, rest.len()));
        out.extend_from_slice(same);
        rest = behind;
    }
    Ok(out)
}

/// Length of a comment, without the end of its line.
fn comment(text: &[u8]) -> usize {
    let behind = text.get(2..).unwrap_or_default();
    match long_bracket(behind) {
        Some(length) => 2 + length,
        None => text.iter().position(|b| *b == b'\n').unwrap_or(text.len()),
    }
}

/// Length of a text in long brackets, `[[…]]` or `[==[…]==]`, when it is one.
fn long_bracket(text: &[u8]) -> Option<usize> {
    let level = text.get(1..)?.iter().take_while(|b| **b == b'=').count();
    if text.first() != Some(&b'[') || text.get(level + 1) != Some(&b'[') {
        return None;
    }
    let mut end = vec![b']'];
    end.resize(level + 1, b'=');
    end.push(b']');
    let inside = text.get(level + 2..)?;
    let at = inside.windows(end.len()).position(|window| window == end);
    Some(at.map_or(text.len(), |at| level + 2 + at + end.len()))
}

/// Length of a text in quotes.
fn string(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\\' => 2,
            b'\n' => return at,
            byte if *byte == quote => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// Length of what Lua takes for a number, well formed or not.
fn number_length(text: &[u8]) -> usize {
    let is_hex = text.len() > 1 && text[0] == b'0' && matches!(text[1], b'x' | b'X');
    let exponent = if is_hex { [b'p', b'P'] } else { [b'e', b'E'] };
    let mut before = 0;
    let is_part = |byte: &&u8| {
        let is_sign = matches!(byte, b'+' | b'-') && exponent.contains(&before);
        before = **byte;
        is_sign || byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_')
    };
    text.iter().take_while(is_part).count()
}

/// A number as Lua 5.4 reads it as an integer; `None` when it is not one.
fn integer(number: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(number).ok()?;
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        return is_number.then(|| text.to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    if text.parse::<i64>().is_ok() {
        return Some(text.to_owned());
    }
    let digit = |sum: u64, b: u8| sum.wrapping_mul(10).wrapping_add(u64::from(b - b'0'));
    Some(format!("{:#x}", text.bytes().fold(0u64, digit)))
}

/// The fault of a number, with its line.
fn malformed(source: &[u8], behind: &[u8], number: &[u8]) -> String {
    let read = source.get(..source.len() - behind.len()).unwrap_or_default();
    let line = 1 + read.iter().filter(|b| **b == b'\n').count();
    format!("{line}: malformed number near '{}'", String::from_utf8_lossy(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(source: &str) -> String {
        adapt(source.as_bytes()).map_or_else(|e| e, |s| String::from_utf8(s).unwrap_or_default())
    }

    #[test]
    fn numbers_are_integers() {
        for (source, wanted) in [
            ("return 7 / 2", "return 7 // 2"),
            ("a=b/c -- 1/2\nx=1/2", "a=b//c -- 1/2\nx=1//2"),
            ("--[[ 1/2\n1.5 ]] 3/4", "--[[ 1/2\n1.5 ]] 3//4"),
            ("--[==[ ]] 1/2 ]==]3/4", "--[==[ ]] 1/2 ]==]3//4"),
            (
                "s = 'a/b' .. \"1.5/\\\"2\" .. [[3/4]] .. [=[ ]] 5/6]=]/7",
                "s = 'a/b' .. \"1.5/\\\"2\" .. [[3/4]] .. [=[ ]] 5/6]=]//7",
            ),
            ("t[1]/t[x[2]]", "t[1]//t[x[2]]"),
            ("x1_2/0x1F", "x1_2//0x1F"),
            ("a..1 ...", "a..1 ..."),
            ("t.__div = t.__divs", "t.__idiv = t.__divs"),
            ("18446744073709551615", "0xffffffffffffffff"),
            ("18446744073709551616", "0x0"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "0x8000000000000000"),
        ] {
            assert_eq!(adapted(source), wanted);
        }
    }

    #[test]
    fn other_numbers_are_malformed_where_they_stand() {
        for (source, fault) in [
            ("return 1.0", "1: malformed number near '1.0'"),
            ("\n\nx = -1.5 + 2", "3: malformed number near '1.5'"),
            ("x = .5", "1: malformed number near '.5'"),
            ("x = 1e-3", "1: malformed number near '1e-3'"),
            ("x = 3x", "1: malformed number near '3x'"),
            ("x = 0x", "1: malformed number near '0x'"),
            ("x = 0x1p+4", "1: malformed number near '0x1p+4'"),
        ] {
            assert_eq!(adapted(source), fault);
        }
    }

    #[test]
    fn whatever_is_read_ends() {
        for source in ["'", "\"\\", "[[", "--[[", "--", "[=", "a'\n'", "\u{fc}/", "."] {
            adapt(source.as_bytes()).unwrap_or_default();
        }
    }
}
