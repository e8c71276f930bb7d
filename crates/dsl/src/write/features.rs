//! Counting what uses a feature.

use super::meta::{DslCx, FeatureCounts};
use crate::error::{Error, Result};
use ondisk::{DmuType, features, mos};

/// Trees that are freed in the background.
pub(super) const ASYNC_DESTROY: &str = "com.delphix:async_destroy";
/// Heads with bookmarks.
pub(super) const BOOKMARKS: &str = "com.delphix:bookmarks";
/// Bookmarks of the second form.
pub(super) const BOOKMARK_V2: &str = "com.datto:bookmark_v2";
/// Bookmarks that know sizes.
pub(super) const BOOKMARK_WRITTEN: &str = "com.delphix:bookmark_written";
/// Limits on the number of file systems and snapshots.
pub(super) const FILESYSTEM_LIMITS: &str = "com.joyent:filesystem_limits";

/// The counts as stored in the MOS: nothing is kept in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MosFeatures;

impl MosFeatures {
    /// The table a feature is counted in.
    fn table(cx: &DslCx<'_>, guid: &str) -> Result<u64> {
        let compatible = features::by_guid(guid).is_some_and(|f| f.is_read_only_compatible());
        let key = if compatible { mos::FEATURES_FOR_WRITE } else { mos::FEATURES_FOR_READ };
        Ok(cx.directory(key)?.unwrap_or(0))
    }

    /// The count; `None` when the feature is not enabled.
    pub fn count(self, cx: &DslCx<'_>, guid: &str) -> Result<Option<u64>> {
        cx.lookup(Self::table(cx, guid)?, guid)
    }

    fn change(self, cx: &DslCx<'_>, guid: &str, by: i64) -> Result<()> {
        let object = Self::table(cx, guid)?;
        let rule = "a feature is used that is not enabled";
        let old = cx.lookup(object, guid)?.ok_or(Error::Tree { object, rule })?;
        let rule = "the use count of a feature would become negative";
        let new = old.checked_add_signed(by).ok_or(Error::Tree { object, rule })?;
        cx.put(object, guid, new)
    }
}

impl FeatureCounts for MosFeatures {
    fn is_enabled(&self, cx: &DslCx<'_>, guid: &str) -> Result<bool> {
        Ok(self.count(cx, guid)?.is_some())
    }

    fn incr(&self, cx: &DslCx<'_>, guid: &str) -> Result<()> {
        self.change(cx, guid, 1)
    }

    fn decr(&self, cx: &DslCx<'_>, guid: &str) -> Result<()> {
        self.change(cx, guid, -1)
    }
}

/// The feature that a block's form needs its dataset to name; `None` for most.
pub(super) fn of_checksum(checksum: ondisk::Checksum) -> Option<&'static str> {
    Some(match checksum {
        ondisk::Checksum::SHA512 => "org.illumos:sha512",
        ondisk::Checksum::SKEIN => "org.illumos:skein",
        ondisk::Checksum::EDONR => "org.illumos:edonr",
        ondisk::Checksum::BLAKE3 => "org.openzfs:blake3",
        _ => return None,
    })
}

/// Features that a dataset's blocks can make it name, in the order of the bits of a set of them.
pub(super) const BY_BLOCKS: [&str; 6] = [
    "org.open-zfs:large_blocks",
    "org.illumos:sha512",
    "org.illumos:skein",
    "org.illumos:edonr",
    "org.openzfs:blake3",
    "org.freebsd:zstd_compress",
];

impl DslCx<'_> {
    /// A dataset uses a feature from now on: its entry, and the pool's count.
    pub(super) fn activate(&self, dataset: u64, guid: &str) -> Result<()> {
        self.zapify(dataset)?;
        if self.zap(dataset)?.get(guid.as_bytes())?.is_some() {
            return Ok(());
        }
        self.put(dataset, guid, 0)?;
        self.features.incr(self, guid)
    }

    /// A dataset does not use a feature any more.
    pub(super) fn deactivate(&self, dataset: u64, guid: &str) -> Result<()> {
        self.remove(dataset, guid)?;
        self.features.decr(self, guid)
    }

    /// The features that a dataset names, with their values.
    pub(super) fn dataset_features(&self, dataset: u64) -> Result<Vec<(String, Vec<u64>)>> {
        if !self.is_zapified(dataset)? {
            return Ok(Vec::new());
        }
        let mut found = self.entries(dataset)?;
        let known = |guid: &str| features::by_guid(guid).is_some_and(|f| f.is_per_dataset());
        found.retain(|(name, _)| known(name));
        Ok(found)
    }

    /// `to` uses the features that `from` uses: a snapshot of it, or a clone.
    pub(super) fn copy_features(&self, from: u64, to: u64) -> Result<()> {
        for (guid, words) in self.dataset_features(from)? {
            self.zapify(to)?;
            self.put_words(to, &guid, &words)?;
            self.features.incr(self, &guid)?;
        }
        Ok(())
    }

    /// A dataset goes: it uses no features any more.
    pub(super) fn drop_features(&self, dataset: u64) -> Result<()> {
        for (guid, _) in self.dataset_features(dataset)? {
            self.deactivate(dataset, &guid)?;
        }
        Ok(())
    }

    /// Whether the pool has a feature.
    pub(super) fn has(&self, guid: &str) -> Result<bool> {
        self.features.is_enabled(self, guid)
    }

    /// A table for datasets' snapshots' or bookmarks' names, which may be looked up in any case.
    pub(super) fn new_name_table(&self, kind: DmuType) -> Result<u64> {
        self.new_table(kind, ondisk::zap::NORM_TOUPPER)
    }
}
