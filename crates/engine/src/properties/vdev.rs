//! Properties of vdevs: from texts as users write them to what a vdev's table stores.

use super::pool::{PoolSetting, judge_own};
use crate::error::{Error, ErrorKind, Hint, Place, Result};
use dsl::Refusal;
use ondisk::pool_props::VDEV;
use ondisk::props::{ValueKind, find};
use pool::live::PropertyWord;

/// The name of a property and the value that is stored.
pub type VdevSetting = (String, PropertyWord);

/// Judges a text as the value of a property of vdevs.
///
/// ```
/// use engine::live::PropertyWord;
/// use engine::properties::vdev::parse;
///
/// assert_eq!(parse("failfast", "off")?, ("failfast".into(), PropertyWord::Number(0)));
/// assert_eq!(parse("io_n", "none")?.1, PropertyWord::Number(u64::MAX));
/// assert!(parse("guid", "1").is_err());
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// There is no such property, it is not set so, or it cannot have that value.
pub fn parse(name: &str, value: &str) -> Result<VdevSetting> {
    judge(name, value).map_err(|e| e.at(Place::Property(name.to_owned())))
}

fn judge(name: &str, value: &str) -> Result<VdevSetting> {
    if name.contains(':') {
        return match judge_own(name, value)? {
            PoolSetting::User(name, word) => Ok((name, word)),
            _ => Err(Error::new(ErrorKind::Unsupported)),
        };
    }
    let Some(p) = find(&VDEV, name) else {
        return Err(Error::new(ErrorKind::Refused(Refusal::NoProperty(name.to_owned()))));
    };
    if p.is_fixed() {
        return Err(Error::new(ErrorKind::Refused(Refusal::ReadOnly(name.to_owned()))));
    }
    // A device that is elsewhere is found by its guid, and allocation is stopped by removal alone.
    if matches!(p.name, "path" | "allocating") {
        return Err(Error::new(ErrorKind::Unsupported));
    }
    let bad = || {
        let (property, value) = (name.to_owned(), value.to_owned());
        Error::new(ErrorKind::BadValue { property, value }).with_hint(Hint::ChooseValue(p.values))
    };
    let word = match p.kind {
        ValueKind::Index(..) => PropertyWord::Number(p.number(value).ok_or_else(bad)?),
        ValueKind::Number(_) if value == "none" => PropertyWord::Number(u64::MAX),
        ValueKind::Number(_) => PropertyWord::Number(value.parse().map_err(|_| bad())?),
        ValueKind::Text(_) => PropertyWord::Text(value.to_owned()),
    };
    Ok((p.name.to_owned(), word))
}
