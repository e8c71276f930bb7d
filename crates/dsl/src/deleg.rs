//! Delegated permissions: what users other than the administrator may do (`zfs allow`).

use crate::error::{Error, Result};
use crate::tree::{Dir, Dsl};
use dmu::Zap;
use ondisk::dsl::deleg::WhoKey;

/// Permissions of a user, a group, or everyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The holder, and the datasets that it applies to.
    pub who: WhoKey,
    /// Names of permissions, or of sets when `who.sets`; sorted.
    pub permissions: Vec<String>,
}

impl Dsl {
    /// The permissions given on one directory itself, in order of their keys. Those of the
    /// directories above also hold here when their scope is the descendants.
    pub fn delegations(&self, dir: &Dir) -> Result<Vec<Delegation>> {
        let object = dir.phys.deleg_zap;
        if object == 0 {
            return Ok(Vec::new());
        }
        let rule = "a table of permissions has an entry that is not a permission";
        let bad = || Error::Tree { object, rule };
        let mut out = Vec::new();
        for entry in Zap::open(&self.mos().object(object)?)?.entries() {
            let entry = entry?;
            let key = entry.name.bytes().and_then(|n| std::str::from_utf8(n).ok());
            let who = key.and_then(WhoKey::parse).ok_or_else(bad)?;
            let mut permissions = Vec::new();
            let below = entry.u64().filter(|n| *n != 0).ok_or_else(bad)?;
            for p in Zap::open(&self.mos().object(below)?)?.entries() {
                let p = p?;
                let name = p.name.bytes().ok_or_else(bad)?;
                permissions.push(String::from_utf8_lossy(name).into_owned());
            }
            permissions.sort();
            out.push(Delegation { who, permissions });
        }
        out.sort_by_key(|d| d.who.format());
        Ok(out)
    }
}
