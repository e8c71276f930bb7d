//! Vdevs that are named on a command line.

use crate::naming::Names;
use engine::stats::Snapshot;

/// The vdevs of a pool: the name of each that is shown, its own, and its guid.
#[derive(Debug)]
pub struct VdevNames(Vec<(String, String, u64)>);

impl VdevNames {
    /// Those of a pool whose vdevs are shown by these names.
    #[must_use]
    pub fn of(mut now: Snapshot, names: Names) -> Self {
        let own: Vec<_> = now.vdevs.iter().map(|v| (v.name.clone(), v.guid)).collect();
        names.rename(&mut now);
        let shown = now.vdevs.into_iter().map(|v| v.name);
        Self(shown.zip(own).map(|(shown, (own, guid))| (shown, own, guid)).collect())
    }

    /// The names that are shown of those that `words` mean.
    fn meant(&self, words: &[String]) -> Vec<String> {
        let meant = self.0.iter().filter(|vdev| words.iter().any(|word| is_meant(word, vdev)));
        meant.map(|(shown, ..)| shown.clone()).collect()
    }
}

/// A vdev has the name that is shown, its path, the last part of that, and its guid.
fn is_meant(word: &str, (shown, own, guid): &(String, String, u64)) -> bool {
    let is_last = own.starts_with('/') && own.rsplit('/').next() == Some(word);
    shown == word || own == word || is_last || guid.to_string() == word
}

/// The names that are shown of the vdevs of each pool that these words mean.
///
/// # Errors
/// The first word that means none of any pool.
pub fn named<'w>(
    pools: &[VdevNames],
    words: &'w [String],
) -> std::result::Result<Vec<Vec<String>>, &'w str> {
    let is_there =
        |word: &String| pools.iter().any(|pool| !pool.meant(std::slice::from_ref(word)).is_empty());
    match words.iter().find(|word| !is_there(word)) {
        Some(strange) => Err(strange),
        None => Ok(pools.iter().map(|pool| pool.meant(words)).collect()),
    }
}
