//! Giving and taking permissions (`zfs allow`, `zfs unallow`).
//!
//! A directory gets its table with the first permission that is given on it, and keeps it, empty,
//! when the last one is taken. A holder's entry goes with its last permission.

use super::meta::DslCx;
use crate::deleg::Delegation;
use crate::error::{Error, Refusal, Result};
use crate::tree::{Dataset, Dsl, VisitedLinks};
use ondisk::DmuType;
use ondisk::dsl::deleg::{Scope, Who, WhoKey, is_permission, is_set_name};

/// Permissions that are revoked from a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokedPermissions {
    /// The holder, and the datasets that it applies to.
    pub who: WhoKey,
    /// These; `None`: all that there are.
    pub permissions: Option<Vec<String>>,
}

/// The event and its text, as in the history.
pub type DelegationEvent = (&'static str, String);

/// A file system or volume, whose permissions are to be changed.
fn target(dsl: &Dsl, name: &str) -> Result<Dataset> {
    let dataset = dsl.by_name(name)?;
    match dataset.phys.is_snapshot() {
        true => Err(Error::refused(name, Refusal::NotAHead)),
        false => Ok(dataset),
    }
}

/// Checks that a holder can have these permissions: sets if the key is for sets, and existing
/// permissions otherwise.
fn check(name: &str, who: &WhoKey, permissions: &[String]) -> Result<()> {
    let is_number = !who.name.is_empty() && who.name.bytes().all(|c| c.is_ascii_digit());
    let is_good = match who.who {
        Who::User | Who::Group => is_number && who.scope != Scope::None,
        Who::Everyone => who.name.is_empty() && who.scope != Scope::None,
        Who::Create => who.name.is_empty() && who.scope == Scope::None,
        Who::NamedSet => is_set_name(&who.name) && who.scope == Scope::None,
    };
    if !is_good {
        return Err(Error::refused(name, Refusal::NotAPermission(who.name.clone())));
    }
    let is_one = |p: &&String| if who.sets { is_set_name(p) } else { is_permission(p) };
    match permissions.iter().find(|p| !is_one(p)) {
        Some(bad) => Err(Error::refused(name, Refusal::NotAPermission(bad.clone()))),
        None => Ok(()),
    }
}

/// Grants permissions on a file system or volume. Returns the change.
///
/// Changes on disk: the directory's table of permissions, made with the first, and a table for each
/// holder.
///
/// # Errors
/// There is no such dataset, permission or holder.
pub fn allow(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    given: &[Delegation],
) -> Result<Vec<DelegationEvent>> {
    let dir = target(dsl, name)?.dir.object;
    given.iter().try_for_each(|one| check(name, &one.who, &one.permissions))?;
    let mut events = Vec::new();
    for one in given.iter().filter(|one| !one.permissions.is_empty()) {
        cx.give(dir, &one.who, &one.permissions)?;
        let key = one.who.format();
        events.extend(one.permissions.iter().map(|p| ("permission update", format!("{key} {p}"))));
    }
    Ok(events)
}

/// Revokes permissions on a file system or volume; those that were not granted are ignored. Returns
/// the change.
///
/// Changes on disk: the tables of the holders; one without a permission goes.
///
/// # Errors
/// As [`allow`].
pub fn unallow(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    taken: &[RevokedPermissions],
) -> Result<Vec<DelegationEvent>> {
    let table = target(dsl, name)?.dir.phys.deleg_zap;
    for one in taken {
        check(name, &one.who, one.permissions.as_deref().unwrap_or_default())?;
    }
    let mut events = Vec::new();
    if table == 0 {
        return Ok(events);
    }
    for RevokedPermissions { who, permissions } in taken {
        let key = who.format();
        let holder = cx.lookup(table, &key)?;
        let Some(permissions) = permissions else {
            events.push(("permission who remove", key.clone()));
            if let Some(holder) = holder {
                cx.remove(table, &key)?;
                cx.free_table(holder)?;
            }
            continue;
        };
        let Some(holder) = holder else { continue };
        for permission in permissions {
            cx.remove(holder, permission)?;
            events.push(("permission remove", format!("{key} {permission}")));
        }
        if cx.zap(holder)?.entries().next().is_none() {
            cx.remove(table, &key)?;
            cx.free_table(holder)?;
        }
    }
    Ok(events)
}

impl DslCx<'_> {
    fn give(&self, dir: u64, who: &WhoKey, permissions: &[String]) -> Result<()> {
        let mut table = self.dir(dir)?.deleg_zap;
        if table == 0 {
            table = self.new_table(DmuType::DSL_PERMS, 0)?;
            self.update_dir(dir, |d| d.deleg_zap = table)?;
        }
        let key = who.format();
        let holder = match self.lookup(table, &key)? {
            Some(holder) => holder,
            None => {
                let holder = self.new_table(DmuType::DSL_PERMS, 0)?;
                self.put(table, &key, holder)?;
                holder
            }
        };
        permissions.iter().try_for_each(|permission| self.put(holder, permission, 0))
    }

    /// Gives the creator of a new directory the permissions that its ancestors grant to creators.
    pub(super) fn give_to_creator(&self, dir: u64) -> Result<()> {
        let (mut above, mut seen) = (self.dir(dir)?.parent, VisitedLinks::default());
        while above != 0 {
            seen.step(above, "directories form a loop")?;
            let upper = self.dir(above)?;
            for sets in [false, true] {
                let key =
                    WhoKey { who: Who::Create, sets, scope: Scope::None, name: String::new() };
                let given = self.lookup(upper.deleg_zap, &key.format())?.unwrap_or(0);
                let given = self.entries(given)?.into_iter().map(|(name, _)| name);
                let given: Vec<String> = given.collect();
                if !given.is_empty() {
                    let name = self.creator.to_string();
                    let creator = WhoKey { who: Who::User, sets, scope: Scope::Local, name };
                    self.give(dir, &creator, &given)?;
                }
            }
            above = upper.parent;
        }
        Ok(())
    }

    /// Frees the tables of permissions of a directory that is destroyed.
    pub(super) fn free_delegations(&self, table: u64) -> Result<()> {
        for (_, words) in self.entries(table)? {
            self.free_table(words.first().copied().unwrap_or(0))?;
        }
        self.free_table(table)
    }
}
