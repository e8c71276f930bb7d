//! Properties of pools: from texts as users write them to what a pool stores.
//!
//! Some of them are not stored in the pool's table: `ashift` is of the vdevs that come, a feature
//! is enabled, and where a pool is remembered (`cachefile`), below which folder its mount points
//! are shown (`altroot`) and whether it is only read (`readonly`) is the business of the program
//! that opens it.

use crate::error::{Error, ErrorKind, Hint, Place, Result, Rule};
use dsl::Refusal;
use ondisk::features;
use ondisk::pool_props::find_pool;
use ondisk::props::{ValueKind, is_user_property};
use pool::live::{LivePool, StoredPropertyValue};
use std::collections::BTreeSet;

/// A setting that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSetting {
    /// A property that the pool stores.
    Stored(&'static str, StoredPropertyValue),
    /// A property that users invented.
    User(String, StoredPropertyValue),
    /// log2 of the sector size of new vdevs; 0 is "as the devices say".
    Ashift(u32),
    /// The feature of that name is enabled, or left out.
    Feature(String, bool),
    /// Where the pool is remembered, as it was said.
    Cachefile(String),
    /// The folder below which its mount points are shown.
    Altroot(String),
    /// The pool is only to be read.
    ReadOnly(bool),
}

/// Longest comment in bytes.
const COMMENT_MAX: usize = 32;
/// Longest name and value of a property that users invented, in bytes.
const USER_NAME_MAX: usize = 255;
const USER_VALUE_MAX: usize = 8191;
/// Sector exponents that vdevs can be made with.
const ASHIFTS: std::ops::RangeInclusive<u32> = 9..=16;

impl PoolSetting {
    /// `ashift` as a pool stores it.
    #[must_use]
    pub fn ashift_word(n: u32) -> StoredPropertyValue {
        StoredPropertyValue::Number(u64::from(n))
    }

    /// Whether it can be set of a pool that is open. Where it is remembered (`cachefile`) can be
    /// said at any time, by the program that does.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check_change(&self) -> Result<()> {
        let (rule, name) = match self {
            Self::Feature(name, false) => (Rule::FeatureOff, format!("feature@{name}")),
            Self::Altroot(_) => (Rule::AltrootSet, "altroot".to_owned()),
            Self::ReadOnly(_) => (Rule::ReadOnlySet, "readonly".to_owned()),
            _ => return Ok(()),
        };
        Err(Error::against(rule).at(Place::Property(name)))
    }

    /// Whether it can be set when a pool is imported.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check_at_import(&self) -> Result<()> {
        match self {
            Self::Feature(name, _) => {
                let place = Place::Property(format!("feature@{name}"));
                Err(Error::against(Rule::FeatureAtImport).at(place))
            }
            _ => Ok(()),
        }
    }

    /// Puts it into a pool, when it is one that the pool stores; a feature is enabled by
    /// [`LivePool::enable_feature`].
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn store(self, pool: &LivePool) -> Result<()> {
        match self {
            Self::Stored(name, word) => pool.set_pool_property(name, word)?,
            Self::User(name, word) => pool.set_pool_property(&name, word)?,
            Self::Ashift(n) => pool.set_pool_property("ashift", Self::ashift_word(n))?,
            Self::Feature(..) | Self::Cachefile(_) | Self::Altroot(_) | Self::ReadOnly(_) => {}
        }
        Ok(())
    }
}

/// Judges a text as the value of a property. A property can be named by the heading of its column.
///
/// ```
/// use engine::live::StoredPropertyValue;
/// use engine::properties::pool::{PoolSetting, parse};
///
/// assert_eq!(parse("ashift", "13")?, PoolSetting::Ashift(13));
/// let on = StoredPropertyValue::Number(1);
/// assert_eq!(parse("autotrim", "on")?, PoolSetting::Stored("autotrim", on));
/// assert!(parse("ashift", "8").is_err());
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// There is no such property, it is not set so, or it cannot have that value.
pub fn parse(name: &str, value: &str) -> Result<PoolSetting> {
    judge(name, value).map_err(|e| e.at(Place::Property(name.to_owned())))
}

/// The same for several, of which each is given once.
///
/// # Errors
/// Those of [`parse`], or one is given twice.
pub fn parse_all<'a>(
    settings: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<PoolSetting>> {
    let settings: Vec<_> = settings.into_iter().collect();
    let mut names = BTreeSet::new();
    for (name, _) in &settings {
        let name = find_pool(name).map_or(*name, |p| p.name);
        if !names.insert(name) {
            let twice = ErrorKind::Refused(Refusal::SetTwice(name.to_owned()));
            return Err(Error::new(twice).at(Place::Property(name.to_owned())));
        }
    }
    settings.into_iter().map(|(name, value)| parse(name, value)).collect()
}

fn bad(name: &str, value: &str, values: &'static str) -> Error {
    let (property, value) = (name.to_owned(), value.to_owned());
    Error::new(ErrorKind::BadValue { property, value }).with_hint(Hint::ChooseValue(values))
}

fn judge(name: &str, value: &str) -> Result<PoolSetting> {
    if let Some(feature) = name.strip_prefix("feature@") {
        return judge_feature(name, feature, value);
    }
    if name.contains(':') {
        return judge_own(name, value);
    }
    let Some(p) = find_pool(name) else {
        return Err(Error::new(ErrorKind::Refused(Refusal::NoProperty(name.to_owned()))));
    };
    let bad = || bad(name, value, p.values);
    match p.name {
        "ashift" => {
            let n: u32 = value.parse().map_err(|_| bad())?;
            let is_one = n == 0 || ASHIFTS.contains(&n);
            return if is_one { Ok(PoolSetting::Ashift(n)) } else { Err(bad()) };
        }
        "cachefile" => return Ok(PoolSetting::Cachefile(value.to_owned())),
        "altroot" if !value.starts_with('/') => return Err(bad()),
        "altroot" => return Ok(PoolSetting::Altroot(value.to_owned())),
        "readonly" if !matches!(value, "on" | "off") => return Err(bad()),
        "readonly" => return Ok(PoolSetting::ReadOnly(value == "on")),
        "comment" if value.len() > COMMENT_MAX => return Err(Error::against(Rule::Comment)),
        "multihost" if value == "on" => return Err(Error::against(Rule::Multihost)),
        "bootfs" | "version" | "dedup_table_quota" | "dedupditto" => {
            return Err(Error::new(ErrorKind::Unsupported));
        }
        _ => {}
    }
    if p.is_fixed() {
        return Err(Error::new(ErrorKind::Refused(Refusal::ReadOnly(name.to_owned()))));
    }
    let word = match p.kind {
        ValueKind::Index(..) => StoredPropertyValue::Number(p.number(value).ok_or_else(bad)?),
        ValueKind::Number(_) => StoredPropertyValue::Number(value.parse().map_err(|_| bad())?),
        ValueKind::Text(_) => StoredPropertyValue::Text(value.to_owned()),
    };
    Ok(PoolSetting::Stored(p.name, word))
}

fn judge_feature(name: &str, feature: &str, value: &str) -> Result<PoolSetting> {
    if features::by_name(feature).is_none() {
        return Err(Error::against(Rule::NoSuchFeature));
    }
    match value {
        "enabled" => Ok(PoolSetting::Feature(feature.to_owned(), true)),
        "disabled" => Ok(PoolSetting::Feature(feature.to_owned(), false)),
        _ => Err(bad(name, value, "enabled | disabled")),
    }
}

/// A property that users invented.
pub(super) fn judge_own(name: &str, value: &str) -> Result<PoolSetting> {
    let kind = match () {
        () if !is_user_property(name) => ErrorKind::InvalidName,
        () if name.len() > USER_NAME_MAX => ErrorKind::NameTooLong,
        () if value.len() > USER_VALUE_MAX => ErrorKind::TooLarge,
        () => {
            let word = StoredPropertyValue::Text(value.to_owned());
            return Ok(PoolSetting::User(name.to_owned(), word));
        }
    };
    Err(Error::new(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_set() {
        let ok = |name, value| parse(name, value).ok();
        let stored = |name, n| Some(PoolSetting::Stored(name, StoredPropertyValue::Number(n)));
        assert_eq!(ok("autotrim", "on"), stored("autotrim", 1));
        assert_eq!(ok("failmode", "panic"), stored("failmode", 2));
        assert_eq!(ok("ashift", "13"), Some(PoolSetting::Ashift(13)));
        let left_out = Some(PoolSetting::Feature("blake3".to_owned(), false));
        assert_eq!(ok("feature@blake3", "disabled"), left_out);
    }

    #[test]
    fn when_a_property_can_be_set_depends_on_it() {
        let setting = |name, value| parse(name, value).unwrap();
        let changed =
            |name, value| setting(name, value).check_change().map_err(|e| e.kind().clone());
        let against = |rule| Err(ErrorKind::Against(rule));
        assert_eq!(changed("autotrim", "on"), Ok(()));
        assert_eq!(changed("feature@blake3", "enabled"), Ok(()));
        assert_eq!(changed("feature@blake3", "disabled"), against(Rule::FeatureOff));
        assert_eq!(changed("altroot", "/mnt"), against(Rule::AltrootSet));
        assert_eq!(changed("readonly", "on"), against(Rule::ReadOnlySet));
        let imported = |name, value| setting(name, value).check_at_import().is_ok();
        assert!(imported("readonly", "on") && imported("altroot", "/mnt"));
        assert!(!imported("feature@blake3", "enabled"));
    }

    #[test]
    fn what_cannot_be_set_is_said_by_kind() {
        let kind = |name: &str, value: &str| parse(name, value).unwrap_err().kind().clone();
        for (name, value) in [("ashift", "8"), ("failmode", "x"), ("feature@blake3", "on")] {
            assert!(matches!(kind(name, value), ErrorKind::BadValue { .. }), "{name}");
        }
        assert_eq!(kind("size", "1"), ErrorKind::Refused(Refusal::ReadOnly("size".to_owned())));
        assert_eq!(kind("nix", "1"), ErrorKind::Refused(Refusal::NoProperty("nix".to_owned())));
        assert_eq!(kind("feature@nix", "enabled"), ErrorKind::Against(Rule::NoSuchFeature));
        assert_eq!(kind("comment", &"x".repeat(33)), ErrorKind::Against(Rule::Comment));
        assert_eq!(kind("multihost", "on"), ErrorKind::Against(Rule::Multihost));
        assert_eq!(kind("bootfs", "p/a"), ErrorKind::Unsupported);
        assert_eq!(kind(&format!("a:{}", "b".repeat(300)), ""), ErrorKind::NameTooLong);
        let twice = parse_all([("listsnaps", "on"), ("listsnapshots", "off")]).unwrap_err();
        let why = Refusal::SetTwice("listsnapshots".to_owned());
        assert_eq!(twice.kind(), &ErrorKind::Refused(why));
    }
}
