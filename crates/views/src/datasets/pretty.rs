//! Values for people: what `zfs get` prints without `-p`.

use engine::Property;
use engine::props::ValueKind;
use term::human::{date, nicebytes, nicenum, stamp};

/// The value; times are of UTC plus `utc_offset` seconds.
pub(super) fn pretty(property: &Property, utc_offset: i64) -> String {
    let value = &property.value;
    let Some(native) = property.native else { return value.clone() };
    let Ok(n) = value.parse::<u64>() else {
        return match native.name {
            "compressratio" | "refcompressratio" => format!("{value}x"),
            _ => value.clone(),
        };
    };
    let local = n.saturating_add_signed(utc_offset);
    match native.name {
        "written" if property.name != native.name => nicebytes(n),
        "quota" | "refquota" | "reservation" | "refreservation" if n == 0 => "none".to_owned(),
        "creation" => date(local),
        "snapshots_changed" => stamp(local, ' '),
        "guid" | "createtxg" | "objsetid" | "pbkdf2iters" => value.clone(),
        "referenced"
        | "available"
        | "used"
        | "usedbysnapshots"
        | "usedbydataset"
        | "usedbyrefreservation"
        | "usedbychildren"
        | "quota"
        | "refquota"
        | "reservation"
        | "refreservation" => nicebytes(n),
        // `copies` and `version` are words that look like numbers.
        _ if matches!(native.kind, ValueKind::Number(_)) => nicenum(n),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::pretty;
    use engine::{Property, Source};

    #[test]
    fn as_zfs_get_prints() {
        for (name, value, text) in [
            ("quota", "0", "none"),
            ("quota", "1073741824", "1G"),
            ("used", "512", "512B"),
            ("written", "0", "0"),
            ("recordsize", "131072", "128K"),
            ("compressratio", "2.50", "2.50x"),
            ("copies", "2", "2"),
            ("compression", "on", "on"),
            ("filesystem_limit", "none", "none"),
            ("guid", "6515400140013783957", "6515400140013783957"),
            ("creation", "1795289107", "Sat Nov 21 19:25 2026"),
        ] {
            let p = Property::native(name, value.to_owned(), Source::None);
            assert_eq!(p.map(|p| pretty(&p, 0)).as_deref(), Some(text), "{name}");
        }
    }
}
