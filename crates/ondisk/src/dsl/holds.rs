//! User holds, permanent and temporary.
//!
//! Specified in `docs/format/dsl.md`. A snapshot's `userrefs` ZAP maps a tag to the time it was
//! set (seconds since 1970). Holds that a process holds while it lives are listed a second time,
//! in the pool's `tmp_userrefs` ZAP, so that the next import can release them: key
//! `<dataset object in hexadecimal>-<tag>`, value the time.

/// Longest tag in bytes of a permanent hold, without the NUL of C.
pub const MAX_TAG_LEN: usize = 255;
/// The prefix of the tag in a temporary hold's key: 16 hexadecimal digits and the dash at most.
pub const MAX_TEMP_PREFIX_LEN: usize = 17;

/// Key in `tmp_userrefs`.
#[must_use]
pub fn temp_key(dataset: u64, tag: &str) -> String {
    format!("{dataset:x}-{tag}")
}

/// Takes such a key apart: dataset object and tag.
#[must_use]
pub fn parse_temp_key(key: &str) -> Option<(u64, &str)> {
    let (dataset, tag) = key.split_once('-')?;
    // from_str_radix accepts a sign, which is not of the form.
    let hex = dataset.bytes().all(|b| b.is_ascii_hexdigit());
    let object = u64::from_str_radix(dataset, 16).ok()?;
    hex.then_some((object, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_keys_go_both_ways() {
        assert_eq!(temp_key(0x1f, ".send-1-2"), "1f-.send-1-2");
        assert_eq!(parse_temp_key("1f-.send-1-2"), Some((0x1f, ".send-1-2")));
        for bad in ["", "1f", "-tag", "+1-tag", "xyz-tag", "11112222333344445-t"] {
            assert_eq!(parse_temp_key(bad), None, "{bad}");
        }
    }
}
