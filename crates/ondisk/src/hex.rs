//! Bytes as hexadecimal digits, two for each.

/// The digits of bytes, in lower case.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or_default();
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    out
}

/// The bytes of digits, in either case; `None` where they are none, or their number is odd. Nothing
/// is copied on the way, for a caller that wipes what it gets.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or_default() as u8;
    let mut out = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        out.push(pair.iter().fold(0, |byte, b| byte << 4 | digit(*b)));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_the_same() {
        let all: Vec<u8> = (0..=255).collect();
        let text = encode(&all);
        assert!(text.starts_with("000102") && text.ends_with("feff"), "{text}");
        assert_eq!(decode(&text).as_ref(), Some(&all));
        assert_eq!(decode(&text.to_uppercase()), Some(all));
        assert_eq!(decode(""), Some(Vec::new()));
        for bad in ["0", "0g", "+1", "ü", "é0", " 00"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }
}
