//! Sets of features that a pool is confined to (property `compatibility`).
//!
//! A value is `off`: any feature; `legacy`: none; or names of files, between commas, of which each
//! lists features, so that only those in all of them are enabled. A file has at most 16 KiB, ends
//! with a newline, and separates names by white space or commas; from `#` to the end of the line is
//! a comment. Where files are found is the business of the program.

use ondisk::features::{FEATURES, Feature, by_name};
use pool::live::{CreateOptions, keeps_writable};
use pool::{Condition, Pool};
use std::collections::BTreeSet;

/// Bytes that a file of features may have; a longer one is refused.
pub const FILE_MAX: usize = 16 << 10;

/// Features that may be enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureSet {
    /// Any.
    All,
    /// Those of these names.
    Only(BTreeSet<&'static str>),
}

/// The meaning of a value of the property `compatibility`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compatibility<'v> {
    /// These features, whatever files say.
    Known(FeatureSet),
    /// The features that these files have in common.
    Files(Vec<&'v str>),
}

/// Reads a value of the property. Whether its files exist is for the caller to see.
#[must_use]
pub fn parse(value: &str) -> Compatibility<'_> {
    match value {
        "" | "off" => Compatibility::Known(FeatureSet::All),
        "legacy" => Compatibility::Known(FeatureSet::none()),
        names => Compatibility::Files(names.split(',').collect()),
    }
}

impl FeatureSet {
    /// No feature.
    #[must_use]
    pub fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// Whether a feature may be enabled.
    #[must_use]
    pub fn has(&self, feature: &Feature) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(feature.name()),
        }
    }

    /// Reads a file; also the words in it that are not features.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn parse(file: &[u8]) -> Result<(Self, Vec<String>), &'static str> {
        if file.len() > FILE_MAX {
            return Err("it is larger than 16 KiB");
        }
        if file.last() != Some(&b'\n') {
            return Err("it does not end with a newline");
        }
        let text = std::str::from_utf8(file).map_err(|_| "it is not text")?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let words = lines.flat_map(|line| line.split(|c: char| c == ',' || c.is_whitespace()));
        let (mut names, mut unknown) = (BTreeSet::new(), Vec::new());
        for word in words.filter(|word| !word.is_empty()) {
            match by_name(word) {
                Some(feature) => drop(names.insert(feature.name())),
                None => unknown.push(word.to_owned()),
            }
        }
        Ok((Self::Only(names), unknown))
    }

    /// The features in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, one) | (one, Self::All) => one,
            (Self::Only(a), Self::Only(b)) => Self::Only(a.intersection(&b).copied().collect()),
        }
    }

    /// The features that are enabled in a new pool, or by an upgrade: those of a list, if it is not
    /// all; one that is in use at once and not written here is left out.
    pub fn enabled(&self) -> impl Iterator<Item = &'static Feature> {
        let is_listed = |f: &&Feature| *self != Self::All && self.has(f);
        FEATURES.iter().filter(is_listed).filter(|f| keeps_writable(f))
    }

    /// A pool that is made has the features of the set, beside those that were named.
    pub(crate) fn confine(&self, options: &mut CreateOptions) {
        if *self == Self::All {
            return;
        }
        for feature in self.enabled().filter(|_| !options.no_features) {
            options.features.entry(feature.name().to_owned()).or_insert(true);
        }
        options.no_features = true;
    }

    /// Whether the pool has a feature enabled that is not in the set.
    #[must_use]
    pub fn is_exceeded_by(&self, pool: &Pool) -> bool {
        FEATURES.iter().any(|f| !self.has(f) && pool.features().count(f.guid).is_some())
    }
}

/// What is to be said of a pool whose property names files; `None` for the set: they cannot be
/// read.
#[must_use]
pub fn condition(pool: &Pool, set: Option<&FeatureSet>) -> Option<Condition> {
    let value = pool.config().compatibility.as_deref().unwrap_or_default();
    if matches!(parse(value), Compatibility::Known(_)) {
        return None;
    }
    let Some(set) = set else { return Some(Condition::UnreadSet) };
    let lacks = |f: &Feature| pool.features().count(f.guid).is_none();
    match () {
        () if set.is_exceeded_by(pool) => Some(Condition::OutsideSet),
        () if set.enabled().any(lacks) => Some(Condition::FeaturesDisabled),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(names: &[&'static str]) -> FeatureSet {
        FeatureSet::Only(names.iter().copied().collect())
    }

    #[test]
    fn a_file_lists_features() {
        let text = b"# one\nlz4_compress, skein # two\n\tblake3\nnix\n\n";
        let (set, unknown) = FeatureSet::parse(text).unwrap();
        assert_eq!(set, only(&["lz4_compress", "skein", "blake3"]));
        assert_eq!(unknown, ["nix"]);
        for (bad, why) in [(&b""[..], "newline"), (b"skein", "newline"), (b"\xff\n", "text")] {
            assert!(FeatureSet::parse(bad).unwrap_err().contains(why), "{bad:?}");
        }
        assert!(FeatureSet::parse(&vec![b'\n'; FILE_MAX + 1]).is_err());
    }

    #[test]
    fn sets_have_features_in_common() {
        let both = only(&["skein", "blake3"]).and(only(&["blake3", "sha512"]));
        assert_eq!(both, only(&["blake3"]));
        assert_eq!(FeatureSet::All.and(both.clone()), both);
        assert_eq!(FeatureSet::none().and(both), FeatureSet::none());
        assert_eq!(FeatureSet::All.enabled().count(), 0);
        assert_eq!(parse("off"), Compatibility::Known(FeatureSet::All));
        assert_eq!(parse("legacy"), Compatibility::Known(FeatureSet::none()));
        assert_eq!(parse("a,/b"), Compatibility::Files(vec!["a", "/b"]));
    }
}
