//! User holds: tags that keep a snapshot from being destroyed.

use crate::error::{Error, Result};
use crate::tree::{Dataset, Dsl};
use dmu::Zap;
use ondisk::dsl::holds::parse_temp_key;
use ondisk::mos;

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The user's word.
    pub tag: String,
    /// When it was set, in seconds since 1970.
    pub time: u64,
    /// A process holds it; the next import releases it.
    pub temporary: bool,
}

impl Dsl {
    /// The holds of a snapshot, in the order of their table; none of a head.
    pub fn holds(&self, snapshot: &Dataset) -> Result<Vec<Hold>> {
        let object = snapshot.phys.userrefs;
        if object == 0 {
            return Ok(Vec::new());
        }
        let temporary = self.temporary_holds()?;
        let mut out = Vec::new();
        for entry in Zap::open(&self.mos().object(object)?)?.entries() {
            let entry = entry?;
            let bad = || Error::Tree { object, rule: "a hold is not a tag and time" };
            let tag = entry.name.bytes().ok_or_else(bad)?;
            let tag = String::from_utf8_lossy(tag).into_owned();
            let temporary = temporary.contains(&(snapshot.object, tag.clone()));
            out.push(Hold { time: entry.u64().ok_or_else(bad)?, temporary, tag });
        }
        Ok(out)
    }

    /// Snapshots and tags of holds that the next import releases.
    pub fn temporary_holds(&self) -> Result<Vec<(u64, String)>> {
        let directory = Zap::open(&self.mos().object(mos::DIRECTORY_OBJECT)?)?;
        let Some(object) = directory.get_u64(mos::TMP_USERREFS)?.filter(|n| *n != 0) else {
            return Ok(Vec::new());
        };
        let mut out = Vec::new();
        for entry in Zap::open(&self.mos().object(object)?)?.entries() {
            let entry = entry?;
            let key = entry.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            out.extend(key.and_then(parse_temp_key).map(|(o, t)| (o, t.to_owned())));
        }
        Ok(out)
    }
}
