//! The properties of a pool that were set, as the MOS has them.

use crate::open::Pool;
use dmu::Zap;
use ondisk::{mos, spelling};
use std::collections::HashMap;

/// The stored properties of the pool.
#[derive(Default)]
pub(crate) struct StoredPoolProperties {
    pub(crate) numbers: HashMap<String, u64>,
    pub(crate) texts: HashMap<String, String>,
    /// Those users invented, in stored order.
    pub(crate) user: Vec<(String, String)>,
}

impl Pool {
    /// The number that a property was set to.
    pub(crate) fn stored_number(&self, name: &str) -> dmu::Result<Option<u64>> {
        let _datasets = self.datasets();
        Ok(self.stored_properties()?.numbers.get(name).copied())
    }

    /// The stored properties of the pool.
    pub(crate) fn stored_properties(&self) -> dmu::Result<StoredPoolProperties> {
        let mut out = StoredPoolProperties::default();
        let Some(object) = self.directory()?.get_u64(mos::POOL_PROPS)? else { return Ok(out) };
        for entry in Zap::open(&self.mos().object(object)?)?.entries() {
            let entry = entry?;
            let Some(name) = entry.name.bytes() else { continue };
            let name = spelling::name(name);
            match entry.value_text() {
                Some(t) => {
                    let text = String::from_utf8_lossy(t).into_owned();
                    if name.contains(':') {
                        out.user.push((name, text));
                    } else {
                        out.texts.insert(name, text);
                    }
                }
                None => out.numbers.extend(entry.u64().map(|n| (name, n))),
            }
        }
        Ok(out)
    }
}
