//! Properties of vdevs: from texts as users write them to what a vdev's table stores.

use super::pool::{PoolSetting, judge_own};
use crate::error::{Error, ErrorKind, Hint, Place, Result};
use crate::members::MemberFault;
use crate::vdev_properties::named_vdevs;
use dsl::Refusal;
use ondisk::pool_props::VDEV;
use ondisk::props::{ValueKind, find};
use pool::live::{LivePool, StoredPropertyValue};

/// The name of a property and the value that is stored.
pub type VdevSetting = (String, StoredPropertyValue);

/// Judges a text as the value of a property of vdevs.
///
/// ```
/// use engine::live::StoredPropertyValue;
/// use engine::properties::vdev::parse;
///
/// assert_eq!(parse("failfast", "off")?, ("failfast".into(), StoredPropertyValue::Number(0)));
/// assert_eq!(parse("io_n", "none")?.1, StoredPropertyValue::Number(u64::MAX));
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
        ValueKind::Index(..) => StoredPropertyValue::Number(p.number(value).ok_or_else(bad)?),
        ValueKind::Number(_) if value == "none" => StoredPropertyValue::Number(u64::MAX),
        ValueKind::Number(_) => StoredPropertyValue::Number(value.parse().map_err(|_| bad())?),
        ValueKind::Text(_) => StoredPropertyValue::Text(value.to_owned()),
    };
    Ok((p.name.to_owned(), word))
}

/// Sets a property of the vdev of this name, as [`named_vdevs`] understands it.
///
/// # Errors
/// [`ErrorKind::Unfit`]: there is no such vdev; or it cannot have the property.
pub fn set(pool: &LivePool, vdev: &str, (name, word): VdevSetting) -> Result<()> {
    let seen = pool.look()?;
    let view = seen.vdev_view(&seen.space());
    let found = named_vdevs(&seen, &view, &[vdev.to_owned()]);
    let Some([found]) = found.as_deref() else {
        let unknown = Error::new(ErrorKind::Unfit(MemberFault::Unknown));
        return Err(unknown.at(Place::Device(vdev.to_owned())));
    };
    Ok(pool.set_vdev_property(found.guid(), &name, word)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewPool, vdev_properties::vdev_properties};

    #[test]
    fn a_property_is_set_of_the_vdev_of_that_name() {
        let pool = NewPool::new("tank").memory(128 << 20).create().expect("pool");
        let setting = || parse("a:b", "c").expect("a property of users");
        set(&pool, "root", setting()).expect("set");
        let seen = pool.look().expect("look");
        let view = seen.vdev_view(&seen.space());
        let named = named_vdevs(&seen, &view, &["root".to_owned()]).expect("root");
        let properties = vdev_properties(&seen, &named[0]);
        assert!(properties.iter().any(|p| p.name == "a:b" && p.value == "c"));
        let error = set(&pool, "nix", setting()).expect_err("no vdev");
        assert_eq!(error.kind(), &ErrorKind::Unfit(MemberFault::Unknown));
        assert_eq!(error.place(), Some(&Place::Device("nix".to_owned())));
    }
}
