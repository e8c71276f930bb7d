//! Changing the pool itself: more vdevs, its properties, its guid.

use super::create::{PropertyWord, guid_from};
use super::{LivePool, TaskCx, mos as util};
use crate::error::{Error, Result};
use dmu::{Zap, zap};
use ondisk::config::VdevConfig;
use ondisk::{DmuType, features, mos};

impl TaskCx<'_> {
    /// The table of pool properties, made when there is none.
    fn pool_props(&self) -> Result<u64> {
        let objects = &self.shared.mos;
        let directory = Zap::open(&objects.object(mos::DIRECTORY_OBJECT)?)?;
        if let Some(table) = directory.get_u64(mos::POOL_PROPS)? {
            return Ok(table);
        }
        let table = util::new_zap(objects, self.tx, DmuType::POOL_PROPS)?;
        util::set_u64(objects, self.tx, mos::DIRECTORY_OBJECT, mos::POOL_PROPS, table)?;
        Ok(table)
    }

    fn set_root(&self, root: VdevConfig) {
        let mut config = self.shared.config.lock();
        config.root = root;
        config.dirty = true;
    }
}

impl LivePool {
    /// Sets a stored pool property.
    pub fn set_pool_property(&self, name: &str, word: PropertyWord) -> Result<()> {
        let name = name.to_owned();
        self.run(move |cx| {
            match (&*name, &word) {
                ("comment", PropertyWord::Text(text)) => {
                    let mut config = cx.shared.config.lock();
                    config.facts.comment = (!text.is_empty()).then(|| text.clone());
                    config.dirty = true;
                }
                ("compatibility", PropertyWord::Text(text)) => {
                    let mut config = cx.shared.config.lock();
                    config.facts.compatibility = Some(text.clone());
                    config.dirty = true;
                }
                _ => {
                    let table = cx.shared.mos.object(cx.pool_props()?)?;
                    zap::set(&table, cx.tx, name.as_bytes(), &word.value())?;
                }
            }
            Ok(())
        })
    }

    /// Enables a feature, by name, and those it needs.
    pub fn enable_feature(&self, name: &str) -> Result<()> {
        let unknown = || Error::Invalid { what: format!("there is no feature {name:?}") };
        let feature = features::by_name(name).ok_or_else(unknown)?;
        self.run(move |cx| {
            cx.shared.features.enable(cx.tx, feature)?;
            cx.shared.config.lock().dirty = true;
            Ok(())
        })
    }

    /// Gives the pool a new guid, so that a copy of it can be told from it.
    pub fn reguid(&self) -> Result<u64> {
        let guid = guid_from(&self.shared.rt)();
        self.run(move |cx| {
            let (root, txg) = {
                let config = cx.shared.config.lock();
                (config.root.clone(), config.root.create_txg)
            };
            let mut list = root.to_nvlist();
            list.set("guid", ondisk::nvlist::NvValue::U64(guid));
            let bad = |e: ondisk::Error| Error::Invalid { what: e.to_string() };
            let root = VdevConfig::decode(&list).map_err(bad)?;
            debug_assert_eq!(root.create_txg, txg);
            cx.shared.config.lock().facts.guid = guid;
            cx.set_root(root);
            Ok(guid)
        })
    }
}
