//! Feature flags of a live pool: which are enabled, how often each is used.
//!
//! The counts stand in two ZAPs of the MOS, for features one must know to read and for those one
//! must know to write; a third describes them, a fourth says in which txg each was enabled. See
//! `docs/format/features.md`. Counts change in syncing context only; any thread may ask.

use crate::error::{Error, Result};
use dmu::{Objset, Tx, ZapValue, zap};
use dsl::write::DslCx;
use ondisk::features::{self, FEATURES, Feature};
use ondisk::mos;
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};

/// Features of OpenZFS 2.3 that pools made by zinc have enabled when nothing else is said: those it
/// can write. One that it cannot write, once used by another implementation, would make the pool
/// read-only here.
pub const ENABLED_BY_DEFAULT: [&str; 33] = [
    "async_destroy",
    "empty_bpobj",
    "lz4_compress",
    "spacemap_histogram",
    "enabled_txg",
    "hole_birth",
    "extensible_dataset",
    "embedded_data",
    "bookmarks",
    "filesystem_limits",
    "large_blocks",
    "large_dnode",
    "sha512",
    "skein",
    "edonr",
    "userobj_accounting",
    "project_quota",
    "allocation_classes",
    "device_removal",
    "obsolete_counts",
    "zpool_checkpoint",
    "spacemap_v2",
    "resilver_defer",
    "bookmark_v2",
    "encryption",
    "bookmark_written",
    "zstd_compress",
    "zilsaxattr",
    "blake3",
    "vdev_zaps_v2",
    "draid",
    "device_rebuild",
    "raidz_expansion",
];

/// Features whose use the writer keeps up: a pool on which any other is active is not written.
#[must_use]
pub fn is_writable(feature: &Feature) -> bool {
    // The others of the list are either maintained by zinc or need nothing of a writer while a
    // dataset that uses them is not changed.
    const MORE: [&str; 5] =
        ["multi_vdev_crash_dump", "head_errlog", "log_spacemap", "livelist", "block_cloning"];
    let name = feature.name();
    ENABLED_BY_DEFAULT.contains(&name) || MORE.contains(&name)
}

/// The feature of this name, where it may be enabled: one that is in use from then on, and not
/// written here, would make the pool one that can only be read.
///
/// # Errors
/// There is no such feature, or it may not.
pub fn to_enable(name: &str) -> Result<&'static Feature> {
    let feature = features::by_name(name);
    let feature = feature.ok_or_else(|| Error::NoSuchFeature { name: name.to_owned() })?;
    match keeps_writable(feature) {
        true => Ok(feature),
        false => Err(Error::UnwrittenFeature { name: feature.name() }),
    }
}

/// Whether a pool can still be written when this feature is enabled and nothing else is done.
#[must_use]
pub fn keeps_writable(feature: &Feature) -> bool {
    is_writable(feature) || !feature.is_active_when_enabled()
}

/// The features of a pool.
pub(crate) struct FeatureTable {
    mos: Objset,
    for_read: u64,
    for_write: u64,
    descriptions: u64,
    enabled_txg: RwLock<u64>,
    counts: RwLock<BTreeMap<&'static str, u64>>,
}

impl FeatureTable {
    /// The table of an open pool, from what was read of it.
    pub(crate) fn open(mos: &Objset, known: &crate::Features) -> dmu::Result<Self> {
        let directory = dmu::Zap::open(&mos.object(mos::DIRECTORY_OBJECT)?)?;
        let counts = FEATURES.iter().filter_map(|f| Some((f.guid, known.count(f.guid)?)));
        Ok(Self {
            mos: mos.clone(),
            for_read: directory.need_u64(mos::FEATURES_FOR_READ)?,
            for_write: directory.need_u64(mos::FEATURES_FOR_WRITE)?,
            descriptions: directory.need_u64(mos::FEATURE_DESCRIPTIONS)?,
            enabled_txg: RwLock::new(directory.get_u64(mos::FEATURE_ENABLED_TXG)?.unwrap_or(0)),
            counts: RwLock::new(counts.collect()),
        })
    }

    /// Makes the empty tables of a new pool.
    pub(crate) fn create(mos: &Objset, tx: &Tx) -> dmu::Result<Self> {
        let table = |name: &str| -> dmu::Result<u64> {
            let number = super::mos::new_zap(mos, tx, super::mos::TABLE)?;
            super::mos::set_u64(mos, tx, mos::DIRECTORY_OBJECT, name, number)?;
            Ok(number)
        };
        Ok(Self {
            mos: mos.clone(),
            for_read: table(mos::FEATURES_FOR_READ)?,
            for_write: table(mos::FEATURES_FOR_WRITE)?,
            descriptions: table(mos::FEATURE_DESCRIPTIONS)?,
            enabled_txg: RwLock::new(0),
            counts: RwLock::default(),
        })
    }

    /// Times it is used; `None` when it is not enabled.
    pub(crate) fn count(&self, guid: &str) -> Option<u64> {
        self.counts.read().get(guid).copied()
    }

    pub(crate) fn is_enabled(&self, name: &str) -> bool {
        features::by_name(name).is_some_and(|f| self.count(f.guid).is_some())
    }

    /// Active features that must be named in the labels.
    pub(crate) fn for_labels(&self) -> Vec<String> {
        let counts = self.counts.read();
        let active = |f: &&Feature| counts.get(f.guid).is_some_and(|n| *n > 0);
        let named = FEATURES.iter().filter(|f| f.is_needed_for_mos()).filter(active);
        named.map(|f| f.guid.to_owned()).collect()
    }

    /// Everything that is enabled, in the form the read-only pool has it.
    pub(crate) fn snapshot(&self) -> crate::Features {
        let counts = self.counts.read();
        let mut out = crate::Features::default();
        for (guid, n) in counts.iter() {
            let to = match features::by_guid(guid) {
                Some(f) if f.is_read_only_compatible() => &mut out.for_write,
                _ => &mut out.for_read,
            };
            to.push(((*guid).to_owned(), *n));
        }
        out
    }

    fn table_of(&self, feature: &Feature) -> u64 {
        if feature.is_read_only_compatible() { self.for_write } else { self.for_read }
    }

    fn store(&self, tx: &Tx, feature: &Feature, count: u64) -> dmu::Result<()> {
        super::mos::set_u64(&self.mos, tx, self.table_of(feature), feature.guid, count)
    }

    /// Enables a feature, after those it needs.
    pub(crate) fn enable(&self, tx: &Tx, feature: &'static Feature) -> dmu::Result<()> {
        self.enable_all(tx, feature, &mut BTreeSet::new())
    }

    fn enable_all(
        &self,
        tx: &Tx,
        feature: &'static Feature,
        begun: &mut BTreeSet<&'static str>,
    ) -> dmu::Result<()> {
        if self.count(feature.guid).is_some() || !begun.insert(feature.guid) {
            return Ok(());
        }
        for name in feature.depends {
            if let Some(needed) = features::by_name(name) {
                self.enable_all(tx, needed, begun)?;
            }
        }
        let count = u64::from(feature.is_active_when_enabled());
        self.store(tx, feature, count)?;
        let text = ZapValue { int_len: 1, values: with_nul(feature.description) };
        let table = self.mos.object(self.descriptions)?;
        zap::set(&table, tx, feature.guid.as_bytes(), &text)?;
        self.counts.write().insert(feature.guid, count);
        self.note_txg(tx, feature)
    }

    /// Records the txg, when the pool does that: the feature `enabled_txg` counts these records.
    fn note_txg(&self, tx: &Tx, feature: &Feature) -> dmu::Result<()> {
        let Some(recorder) = features::by_name("enabled_txg") else { return Ok(()) };
        if self.count(recorder.guid).is_none() {
            return Ok(());
        }
        if *self.enabled_txg.read() == 0 {
            let number = super::mos::new_zap(&self.mos, tx, super::mos::TABLE)?;
            let directory = mos::DIRECTORY_OBJECT;
            super::mos::set_u64(&self.mos, tx, directory, mos::FEATURE_ENABLED_TXG, number)?;
            *self.enabled_txg.write() = number;
        }
        let table = *self.enabled_txg.read();
        super::mos::set_u64(&self.mos, tx, table, feature.guid, tx.txg())?;
        self.add(tx, recorder.guid, 1)
    }

    /// Changes the count of an enabled feature; one that is not enabled stays so.
    pub(crate) fn add(&self, tx: &Tx, guid: &str, delta: i64) -> dmu::Result<()> {
        let Some(feature) = features::by_guid(guid) else { return Ok(()) };
        // The tables are the truth: some counts are kept by what uses the feature.
        let table = dmu::Zap::open(&self.mos.object(self.table_of(feature))?)?;
        let Some(old) = table.get_u64(guid)? else { return Ok(()) };
        let new = old.saturating_add_signed(delta);
        if new == old {
            return Ok(());
        }
        // Memory follows the table, so that a failure leaves both as they were.
        self.store(tx, feature, new)?;
        self.counts.write().insert(feature.guid, new);
        Ok(())
    }
}

fn with_nul(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

impl dsl::write::FeatureCounts for FeatureTable {
    fn is_enabled(&self, _cx: &DslCx<'_>, guid: &str) -> dsl::Result<bool> {
        Ok(self.count(guid).is_some())
    }

    fn incr(&self, cx: &DslCx<'_>, guid: &str) -> dsl::Result<()> {
        Ok(self.add(cx.tx, guid, 1)?)
    }

    fn decr(&self, cx: &DslCx<'_>, guid: &str) -> dsl::Result<()> {
        Ok(self.add(cx.tx, guid, -1)?)
    }
}
