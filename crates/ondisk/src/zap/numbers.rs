//! Keys that are numbers, in text.

/// Key of a ZAP whose keys are numbers: dead lists, `next_clones`, `clones`, log space maps.
#[must_use]
pub fn int_key(n: u64) -> String {
    format!("{n:x}")
}

/// The number in such a key.
#[must_use]
pub fn parse_int_key(key: &str) -> Option<u64> {
    let hex = key.bytes().all(|b| b.is_ascii_hexdigit());
    hex.then(|| u64::from_str_radix(key, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int_keys_go_both_ways() {
        for n in [0, 1, 0x1f, u64::MAX] {
            assert_eq!(parse_int_key(&int_key(n)), Some(n));
        }
        for bad in ["", "+1", "-1", "0x1", "11112222333344445"] {
            assert_eq!(parse_int_key(bad), None, "{bad}");
        }
    }
}
