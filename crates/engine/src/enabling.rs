//! Which features of a pool are enabled, and by what rules.
//!
//! A pool may be confined to a set of features (property `compatibility`); the caller supplies the
//! set, for it may be stored in files. A feature that is active as soon as it is enabled, and that
//! is not written here, is never enabled: the pool could only be read from then on. The pool itself
//! refuses it, to any caller.

use crate::error::{Error, Place, Result, Rule};
use crate::properties::compatibility::FeatureSet;
use ondisk::features::{self, Feature};
use pool::Pool;
use pool::live::{ENABLED_BY_DEFAULT, LivePool, to_enable};

/// Features that are enabled by default: those that are written here.
pub fn by_default() -> impl Iterator<Item = &'static Feature> {
    ENABLED_BY_DEFAULT.iter().filter_map(|name| features::by_name(name))
}

/// Features that the pool does not have enabled and an upgrade would enable: those of its set, or
/// without one those of [`by_default`].
#[must_use]
pub fn missing(pool: &Pool, set: &FeatureSet) -> Vec<&'static Feature> {
    let lacks = |f: &&Feature| pool.features().count(f.guid).is_none();
    match set {
        FeatureSet::All => by_default().filter(lacks).collect(),
        set => set.enabled().filter(lacks).collect(),
    }
}

/// Enables a feature, by name, and those it needs, in a pool that is confined to `set`.
///
/// ```
/// use engine::properties::compatibility::FeatureSet;
/// use engine::{ErrorKind, NewPool, Rule, features};
///
/// let pool = NewPool::new("tank").memory(128 << 20).create()?;
/// features::enable(&pool, "livelist", &FeatureSet::All)?;
/// let refused = features::enable(&pool, "head_errlog", &FeatureSet::none()).unwrap_err();
/// assert_eq!(*refused.kind(), ErrorKind::Against(Rule::OutsideSet));
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// There is no such feature, it is not in the set, it would make the pool one that can only be read
/// here; or the pool cannot be changed.
pub fn enable(pool: &LivePool, name: &str, set: &FeatureSet) -> Result<()> {
    let feature = to_enable(name)?;
    if !set.has(feature) {
        let place = Place::Property(format!("feature@{name}"));
        return Err(Error::against(Rule::OutsideSet).at(place));
    }
    Ok(pool.enable_feature(name)?)
}

/// Enables the [`missing`] features and returns them.
///
/// # Errors
/// As for [`enable`].
pub fn upgrade(pool: &LivePool, set: &FeatureSet) -> Result<Vec<&'static Feature>> {
    let wanted = missing(&pool.look()?, set);
    wanted.iter().try_for_each(|feature| enable(pool, feature.name(), set))?;
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::ImportOptions;
    use crate::{ErrorKind, NewPool, OpenOptions};
    use ondisk::features::FEATURES;

    #[test]
    fn a_pool_with_all_that_may_be_enabled_is_still_written() {
        let folder = tempfile::tempdir().expect("folder");
        let image = folder.path().join("a.img");
        let pool = NewPool::new("tank").file(&image, 64 << 20).expect("file").create();
        let pool = pool.expect("create");
        for feature in &FEATURES {
            let done = enable(&pool, feature.name(), &FeatureSet::All);
            let refused = done.err().map(|e| e.kind().clone());
            let is_allowed = !feature.is_active_when_enabled() || pool::live::is_writable(feature);
            let expected = (!is_allowed).then_some(ErrorKind::Against(Rule::UnwrittenFeature));
            assert_eq!(refused, expected, "{}", feature.name());
        }
        assert!(upgrade(&pool, &FeatureSet::All).expect("upgrade").is_empty());
        pool.export().expect("export");
        let options = ImportOptions::new(OpenOptions::in_places([&image]));
        let pool = LivePool::open("tank", &options).expect("a pool that is written");
        let unknown = enable(&pool, "nix", &FeatureSet::All).expect_err("no feature");
        assert_eq!(*unknown.kind(), ErrorKind::Against(Rule::NoSuchFeature));
    }
}
