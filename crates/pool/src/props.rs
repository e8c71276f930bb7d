//! Properties of pools: what `zpool get all` shows.
//!
//! Most are computed from the pool's space ([`PoolSpace`]) and configuration; those a user set are
//! in a table of the MOS; features are properties named `feature@NAME`. Those that only a running
//! system has (`load_guid`, `cachefile`) have no value here.

use crate::open::Pool;
use crate::space::PoolSpace;
use crate::stored_props::StoredPoolProperties;
use ondisk::dsl::{FREE_DIR_NAME, LEAK_DIR_NAME};
use ondisk::features::{FEATURES, VERSION_FEATURES};
use ondisk::pool_props::POOL;
use ondisk::props::{self, ValueKind};
use ondisk::{features, mos};
use serde::{Deserialize, Serialize};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolPropertySource {
    /// Nowhere: it is computed.
    None,
    /// It was not set.
    Default,
    /// It was set.
    Local,
}

/// A property of a pool with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolProperty {
    /// Its name.
    pub name: String,
    /// Its value, exactly as `zpool get -p` prints it; `-` when it has none.
    pub value: String,
    /// Where the value comes from.
    pub source: PoolPropertySource,
}

impl Pool {
    /// All properties in the order of `zpool get all`: native ones, features, user properties.
    /// Those that cannot be read because of damage have their default or `-`.
    #[must_use]
    pub fn properties(&self, space: &PoolSpace) -> Vec<PoolProperty> {
        let stored = self.stored_properties().unwrap_or_default();
        let mut out = Vec::new();
        for p in POOL.iter().filter(|p| p.is_visible()) {
            let (value, source) = self.property_value(p, space, &stored);
            let value = value.unwrap_or_else(|| "-".to_owned());
            out.push(PoolProperty { name: p.name.to_owned(), value, source });
        }
        let local = |name, value| PoolProperty { name, value, source: PoolPropertySource::Local };
        for f in &FEATURES {
            let value = self.feature_state(f.guid).to_owned();
            out.push(local(format!("feature@{}", f.name()), value));
        }
        for (guid, count) in self.features().for_write.iter().filter(|(_, n)| *n > 0) {
            if features::by_guid(guid).is_none() {
                debug_assert!(*count > 0);
                out.push(local(format!("unsupported@{guid}"), "readonly".to_owned()));
            }
        }
        out.extend(stored.user.into_iter().map(|(name, value)| local(name, value)));
        out
    }

    /// `disabled`, `enabled`, or `active` while something uses the feature.
    #[must_use]
    pub fn feature_state(&self, guid: &str) -> &'static str {
        match self.features().count(guid) {
            None => "disabled",
            Some(0) => "enabled",
            Some(_) => "active",
        }
    }

    fn property_value(
        &self,
        p: &'static props::PropertyDesc,
        space: &PoolSpace,
        stored: &StoredPoolProperties,
    ) -> (Option<String>, PoolPropertySource) {
        use PoolPropertySource::{Default, Local, None as Computed};
        let set = |text: Option<&String>| match text {
            Some(t) => (Some(t.clone()), Local),
            None => (p.default_text().map(str::to_owned), Default),
        };
        match p.name {
            "version" if self.config().version >= VERSION_FEATURES => (None, Default),
            "version" => (Some(self.config().version.to_string()), Local),
            "comment" => set(self.config().comment.as_ref()),
            "compatibility" => set(self.config().compatibility.as_ref()),
            "altroot" => match self.altroot() {
                Some(path) => (Some(path.to_owned()), Local),
                None => (None, Default),
            },
            "cachefile" => (None, Default),
            "readonly" => {
                let word = if crate::live::can_write_features(self) { "off" } else { "on" };
                (Some(word.to_owned()), Computed)
            }
            "bootfs" => match stored.numbers.get(p.name).filter(|n| **n != 0) {
                Some(object) => (self.dsl().name_of(*object).ok(), Local),
                None => (None, Default),
            },
            name if p.access == props::Access::ReadOnly => (self.computed(name, space), Computed),
            name => {
                if let Some(text) = stored.texts.get(name) {
                    return (Some(text.clone()), Local);
                }
                let default = p.default_number();
                let n = stored.numbers.get(name).copied().or(default);
                let source = if n == default { Default } else { Local };
                (n.map(|n| number_text(p, n)), source)
            }
        }
    }

    fn computed(&self, name: &str, space: &PoolSpace) -> Option<String> {
        let total = space.total();
        let ratio = |percent: u64| format!("{}.{:02}", percent / 100, percent % 100);
        let number = match name {
            "size" => total.size,
            "allocated" => total.allocated,
            "free" => total.size.saturating_sub(total.allocated),
            "capacity" => percentage(total.allocated, total.size),
            "fragmentation" => space.fragmentation()?,
            "checkpoint" => Some(space.checkpoint()).filter(|n| *n != 0)?,
            "expandsize" => Some(self.expand_size(space)).filter(|n| *n != 0)?,
            "freeing" => self.freeing(),
            "leaked" => self.internal_used(LEAK_DIR_NAME),
            "guid" => self.guid(),
            "bcloneused" => space.clones_used,
            "bclonesaved" => space.clones_saved,
            "dedup_table_size" => space.dedup_table_size,
            "last_scrubbed_txg" => {
                let txg = self.directory().and_then(|d| d.get_u64(mos::LAST_SCRUBBED_TXG));
                txg.ok().flatten().unwrap_or(0)
            }
            "dedupratio" => return Some(ratio(space.dedup_percent())),
            "bcloneratio" => return Some(ratio(space.clones_percent())),
            "health" => return Some(self.health()),
            _ => return None,
        };
        Some(number.to_string())
    }

    /// Bytes of what was destroyed and is not freed yet.
    #[must_use]
    pub fn freeing(&self) -> u64 {
        self.internal_used(FREE_DIR_NAME)
    }

    /// Space a directory of the pool's own accounts for.
    fn internal_used(&self, name: &str) -> u64 {
        let dirs = self.dsl().internal_dirs().unwrap_or_default();
        let found = dirs.into_iter().find(|(n, _)| n == name);
        let dir = found.and_then(|(n, object)| self.dsl().dir(object, n).ok());
        dir.map_or(0, |d| d.phys.used)
    }
}

pub(crate) fn percentage(part: u64, all: u64) -> u64 {
    let p = (u128::from(part) * 100).checked_div(u128::from(all)).unwrap_or(0);
    u64::try_from(p).unwrap_or(u64::MAX)
}

fn number_text(p: &'static props::PropertyDesc, n: u64) -> String {
    match (p.name, p.kind) {
        ("dedup_table_quota", _) if n == u64::MAX => "auto".to_owned(),
        ("dedup_table_quota", _) if n == 0 => "none".to_owned(),
        (_, ValueKind::Index(..)) => p.word(n).map_or_else(|| n.to_string(), str::to_owned),
        _ => n.to_string(),
    }
}
