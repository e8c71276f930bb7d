//! Features that pools have and lack, as `zpool upgrade` shows them.

use engine::features::{self, Feature};
use engine::live::is_writable;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The new feature of each version of pools before features, from version 1 on.
const VERSIONS: [&str; 28] = [
    "Initial version",
    "Ditto blocks",
    "Hot spares, and raidz of two parities",
    "History of the pool",
    "Compression by gzip",
    "Property bootfs",
    "Separate log devices",
    "Delegated administration",
    "Properties refquota and refreservation",
    "Cache devices",
    "Faster scrub",
    "Properties of snapshots",
    "Properties of used space",
    "More values of aclinherit",
    "Space of users and groups",
    "Conversion of versions with snapshots",
    "Raidz of three parities",
    "Holds on snapshots",
    "Removal of log devices",
    "Compression zle",
    "Deduplication",
    "Properties that were received",
    "Slim intent log",
    "System attributes",
    "Scrub statistics",
    "Faster destruction of snapshots",
    "Faster creation of snapshots",
    "Several vdevs as replacements",
];

/// The effect on a pool with this feature when another implementation uses it: `None` for one that
/// is written here.
#[must_use]
pub fn unwritten(name: &str) -> Option<String> {
    let is_written = features::by_name(name).is_none_or(is_writable);
    (!is_written).then(|| {
        format!(
            "note: zinc does not write '{name}': once another system uses it, this pool can only \
             be read here\n"
        )
    })
}

/// A pool and the features that an upgrade would enable.
#[derive(Debug, Serialize, Deserialize)]
pub struct MissingFeatures {
    pool: String,
    features: Vec<String>,
    /// Its version, when it is from before features.
    #[serde(default)]
    old_version: Option<u64>,
}

impl MissingFeatures {
    /// The features that this pool lacks.
    #[must_use]
    pub fn new(pool: &str, features: &[&Feature]) -> Self {
        let features = features.iter().map(|f| f.name().to_owned()).collect();
        Self { pool: pool.to_owned(), features, old_version: None }
    }

    /// The same of a pool from before features, which is only read.
    #[must_use]
    pub fn before_features(pool: &str, version: u64) -> Self {
        Self { pool: pool.to_owned(), features: Vec::new(), old_version: Some(version) }
    }
}

/// All features, and the versions before them.
#[must_use]
pub fn supported() -> String {
    let mut text = "The following features are supported:\n\n".to_owned();
    for feature in features::by_default() {
        let _ = writeln!(text, "{}\n     {}", feature.name(), feature.description);
    }
    text.push_str(
        "\nThe following legacy versions are also known, and read:\n\n\
         VER  DESCRIPTION\n---  -----------\n",
    );
    for (version, what) in (1..).zip(VERSIONS) {
        let _ = writeln!(text, " {version:<2}  {what}");
    }
    text
}

/// The features that were enabled on a pool.
#[must_use]
pub fn enabled(pool: &str, features: &[&Feature]) -> String {
    let mut text = format!("Enabled the following features on '{pool}':\n");
    for feature in features {
        let _ = writeln!(text, "  {}", feature.name());
    }
    text.push('\n');
    text
}

/// The features that these pools lack, in the order of their names.
#[must_use]
pub fn lacking(mut pools: Vec<MissingFeatures>) -> String {
    pools.sort_by(|a, b| a.pool.cmp(&b.pool));
    let old = pools.iter().filter_map(|p| Some(format!("{:<4} {}\n", p.old_version?, p.pool)));
    let old: String = old.collect();
    let mut text = match old.is_empty() {
        true => "All pools are formatted using feature flags.\n\n".to_owned(),
        false => format!(
            "The following pools are formatted with legacy version numbers. zinc only reads\n\
             them; OpenZFS can upgrade them to feature flags.\n\n\
             VER  POOL\n---  ------------\n{old}\n"
        ),
    };
    let are_all_old = !pools.is_empty() && pools.iter().all(|pool| pool.old_version.is_some());
    if are_all_old {
        return text;
    }
    pools.retain(|pool| !pool.features.is_empty());
    if pools.is_empty() {
        text.push_str(
            "Every feature flags pool already has all supported and requested features enabled.\n",
        );
        return text;
    }
    text.push_str(
        "Some supported features are not enabled on the following pools. Once a\n\
         feature is enabled the pool may become incompatible with software\n\
         that does not support the feature. See zpool-features(7) for details.\n\n\
         POOL  FEATURE\n---------------\n",
    );
    for pool in pools {
        let _ = writeln!(text, "{}", pool.pool);
        for feature in pool.features {
            let _ = writeln!(text, "      {feature}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_shown_by_name_and_only_where_they_lack_something() {
        let lacks = |pool: &str, features: &[&str]| MissingFeatures {
            pool: pool.to_owned(),
            features: features.iter().map(|f| (*f).to_owned()).collect(),
            old_version: None,
        };
        let text = lacking(vec![lacks("b", &["x", "y"]), lacks("c", &[]), lacks("a", &["z"])]);
        assert!(text.ends_with("---\na\n      z\nb\n      x\n      y\n"), "{text}");
        assert!(
            lacking(vec![lacks("c", &[])])
                .ends_with("all supported and requested features enabled.\n")
        );
        let old = || MissingFeatures::before_features("old", 28);
        let text = lacking(vec![lacks("b", &["x"]), old()]);
        assert!(text.contains("\n28   old\n\nSome supported") && !text.contains("All pools"));
        assert!(lacking(vec![old()]).ends_with("\n28   old\n\n"));
    }

    #[test]
    fn all_versions_are_listed() {
        assert!(supported().ends_with(" 28  Several vdevs as replacements\n"));
    }
}
