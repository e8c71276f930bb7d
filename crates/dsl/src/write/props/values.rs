//! From the text of a property to what is stored of it.

use crate::error::{Error, Refusal, Result};
use crate::kind::DatasetKind;
use crate::stored::StoredValue;
use ondisk::props::{Access, DATASET, PropertyDesc, ValueKind, find, is_user_property};

/// Longest value of a user's property in bytes, its NUL counted.
pub(super) const USER_VALUE_MAX: usize = 8192;
/// Longest name in the path of a mount point, in bytes: what a name of a dataset can have.
const PLACE_NAME_MAX: usize = 255;
/// Longest name of a property in bytes.
pub(super) const NAME_MAX: usize = 255;

/// Judges a text as a value of a property of a `kind` of dataset, and turns it into what is stored.
/// `new`: the dataset is being made, when more can be set than later.
///
/// # Errors
/// There is no such property, this kind of dataset does not have it, it cannot be set, or not to
/// that.
pub fn parse_value(name: &str, text: &str, kind: DatasetKind, new: bool) -> Result<StoredValue> {
    let refused = |why| Err(Error::refused(name, why));
    let bad = || Error::refused(name, Refusal::BadValue(text.to_owned()));
    if is_user_property(name) {
        let fits = name.len() <= NAME_MAX && text.len() < USER_VALUE_MAX && !text.contains('\0');
        return if fits { Ok(StoredValue::Text(text.to_owned())) } else { Err(bad()) };
    }
    let Some(p) = find(&DATASET, name).filter(|p| p.is_visible() || p.name == "iscsioptions")
    else {
        return refused(Refusal::NoProperty(name.to_owned()));
    };
    // `volsize` is listed for volumes' snapshots as well, `special_small_blocks` not for volumes.
    if p.applies & kind.bit() == 0 {
        return refused(Refusal::NotHere(name.to_owned()));
    }
    let settable = match p.access {
        Access::ReadOnly => false,
        Access::Once | Access::OnceInherit => new,
        Access::Settable | Access::Inherit => true,
    };
    if !settable {
        return refused(Refusal::ReadOnly(name.to_owned()));
    }
    match p.kind {
        ValueKind::Index(..) => p.number(text).map(StoredValue::Number).ok_or_else(bad),
        ValueKind::Number(_) => number(p, text).map(StoredValue::Number).ok_or_else(bad),
        ValueKind::Text(_) => {
            is_text(name, text).then(|| StoredValue::Text(text.to_owned())).ok_or_else(bad)
        }
    }
}

/// Whether a file system can be mounted there: on a path of names of usual lengths.
fn is_place(text: &str) -> bool {
    text.starts_with('/') && text.split('/').all(|name| name.len() <= PLACE_NAME_MAX)
}

fn is_text(name: &str, text: &str) -> bool {
    match name {
        "mountpoint" if !["none", "legacy"].contains(&text) && !is_place(text) => false,
        "sharenfs" | "sharesmb" => {
            let is_switch = |word: &str| text.eq_ignore_ascii_case(word) && text != word;
            let is_odd = text.is_empty() || is_switch("on") || is_switch("off");
            let fits = !is_odd && text.len() < USER_VALUE_MAX;
            fits && (name == "sharesmb" || are_nfs_options(text))
        }
        _ => text.len() < USER_VALUE_MAX && !text.contains('\0'),
    }
}

/// Options of an NFS export, those of exports(5) and of Solaris, between commas.
const NFS_OPTIONS: &[&str] = &[
    "acl",
    "all_squash",
    "anon",
    "anongid",
    "anonuid",
    "async",
    "auth_nlm",
    "crossmnt",
    "fsid",
    "fsuid",
    "hide",
    "insecure",
    "insecure_locks",
    "mountpoint",
    "mp",
    "no_acl",
    "no_all_squash",
    "no_auth_nlm",
    "no_pnfs",
    "no_root_squash",
    "no_subtree_check",
    "no_wdelay",
    "nohide",
    "nordirplus",
    "nosub",
    "pnfs",
    "refer",
    "replicas",
    "ro",
    "root",
    "root_mapping",
    "root_squash",
    "rw",
    "sec",
    "secure",
    "secure_locks",
    "security_label",
    "subtree_check",
    "sync",
    "wdelay",
    "xprtsec",
];

/// Whether `sharenfs` can have this value.
fn are_nfs_options(text: &str) -> bool {
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    text == "on"
        || text == "off"
        || text.split(',').all(|option| NFS_OPTIONS.contains(&name(option).as_str()))
}

/// A number as it is stored for that property.
fn number(p: &PropertyDesc, text: &str) -> Option<u64> {
    match (p.name, text) {
        ("filesystem_limit" | "snapshot_limit", "none") => return Some(u64::MAX),
        ("filesystem_limit" | "snapshot_limit", _) => return text.parse().ok(),
        ("quota" | "reservation" | "refquota" | "refreservation", "none") => return Some(0),
        _ => {}
    }
    let n = parse_size(text)?;
    let in_range = |least, most| n.is_power_of_two() && (least..=most).contains(&n);
    let good = match p.name {
        "recordsize" => in_range(512, 16 << 20),
        "volblocksize" => in_range(512, 16 << 20),
        "special_small_blocks" => n == 0 || in_range(512, 16 << 20),
        "quota" | "refquota" => n != 0,
        "volsize" => n != 0 && n <= i64::MAX.cast_unsigned(),
        _ => true,
    };
    good.then_some(n)
}

/// A size: a number, with a fraction when a unit follows; units are powers of 1024, `K`, `KB` or
/// `KiB` in any case. `None` for any other text, and for more than fits.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (value, unit) = text.split_at(digits);
    let unit = unit.to_ascii_uppercase();
    let shift = match unit.as_str() {
        "" | "B" => 0,
        _ => {
            let at = "KMGTPE".find(unit.get(..1)?)?;
            if !["", "B", "IB"].contains(&unit.get(1..)?) {
                return None;
            }
            10 * (at as u32 + 1)
        }
    };
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    if (whole.is_empty() && part.is_empty()) || (value.contains('.') && shift == 0) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let scaled = whole.checked_mul(1u64.checked_shl(shift)?)?;
    let mut fraction = 0u128;
    for (i, c) in part.chars().take(18).enumerate() {
        let digit = u128::from(c.to_digit(10)?);
        fraction += (digit << shift) * 10u128.pow(17 - i as u32);
    }
    let fraction = fraction / 10u128.pow(18);
    scaled.checked_add(u64::try_from(fraction).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fs(name: &str, text: &str) -> Option<StoredValue> {
        parse_value(name, text, DatasetKind::Filesystem, false).ok()
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("0"), Some(0));
        assert_eq!(parse_size("128k"), Some(128 << 10));
        assert_eq!(parse_size("1.5G"), Some(3 << 29));
        assert_eq!(parse_size("10KiB"), Some(10 << 10));
        assert_eq!(parse_size(".5M"), Some(512 << 10));
        assert_eq!(parse_size("18446744073709551615"), Some(u64::MAX));
        for bad in ["", ".", "1.5", "1x", "1kk", "-1", "16E", "18446744073709551616", "1..5k"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn values_of_file_systems() {
        let number = |n| Some(StoredValue::Number(n));
        assert_eq!(fs("compression", "lz4"), number(15));
        assert_eq!(fs("recordsize", "1M"), number(1 << 20));
        assert_eq!(fs("quota", "none"), number(0));
        assert_eq!(fs("quota", "0"), None, "a quota of nothing is never meant");
        assert_eq!(fs("reservation", "0"), number(0));
        assert_eq!(fs("snapshot_limit", "none"), number(u64::MAX));
        assert_eq!(fs("mountpoint", "/a"), Some(StoredValue::Text("/a".to_owned())));
        assert_eq!(fs("mountpoint", "a"), None);
        assert_eq!(fs("mountpoint", &format!("/a/{}", "b".repeat(256))), None);
        assert!(fs("mountpoint", &format!("/a/{}", "b".repeat(255))).is_some());
        assert_eq!(fs("org.x:y", ""), Some(StoredValue::Text(String::new())));
        for (name, bad) in [
            ("compression", "lz5"),
            ("recordsize", "3k"),
            ("recordsize", "256"),
            ("mountpoint", "a"),
            ("volsize", "1G"),
            ("used", "1"),
            ("casesensitivity", "mixed"),
            ("nonsense", "1"),
            ("filesystem_limit", "1k"),
        ] {
            assert_eq!(fs(name, bad), None, "{name}={bad}");
        }
        let new = parse_value("casesensitivity", "mixed", DatasetKind::Filesystem, true);
        assert!(new.is_ok());
    }
}
