//! Access of users other than the administrator to datasets, by delegated permissions.
//!
//! # Theory
//!
//! A permission is given on a dataset, for the dataset itself (*local*), for all below it
//! (*descendent*), or both, to a user, a group or everyone (`zfs allow`). A user has a permission
//! on a dataset if it, or one of those above it, gives it:
//!
//! ```text
//! tank/a/b     local entries            of the user, each group, everyone
//! tank/a       descendent entries       the same
//! tank         descendent entries       the same
//! ```
//!
//! A snapshot lies below its file system, so only descendent entries count for it. An entry may
//! name a *set* instead of a permission. A set that was found is looked up in the directory where
//! it was found, then in those above; the nearest definition is the one that counts, and it may
//! name further sets.
//!
//! An operation is refused unless it is permitted. [`RULES`] lists what each operation needs: it is
//! the whole list, and an operation that is not in it is for the administrator alone. Two
//! operations are not in the table, because what they need depends on their arguments: changing a
//! property needs the permission of that name ([`of_property`]), and giving permissions needs each
//! ([`Dsl::permit_allow`]).
//!
//! With the pool's property `delegation` off no user has any permission. On a dataset with `zoned`
//! set only the administrator changes anything.

use crate::deleg::Delegation;
use crate::error::{Error, Refusal, Result};
use crate::props::PropertyContext;
use crate::tree::{DEPTH_MAX, Dataset, Dir, Dsl};
use crate::write::RevokedPermissions;
use dmu::Zap;
use ondisk::dsl::deleg::{PERMISSIONS, Scope, Who, WhoKey};
use ondisk::{mos, props};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A user who is not the administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its number.
    pub user: u64,
    /// All groups it is in.
    pub groups: Vec<u64>,
}

/// An operation on a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A snapshot is taken.
    Snapshot,
    /// A file system or volume is made; the name is the new one.
    Create,
    /// A clone is made of it; the clone itself is a [`Action::Create`].
    CloneOf,
    /// A clone becomes independent.
    Promote,
    /// The snapshot that a promoted clone was made of becomes the clone's.
    PromoteOver,
    /// It is destroyed: a file system, a volume or a snapshot.
    Destroy,
    /// A bookmark is destroyed; the name is the bookmark's.
    DestroyBookmark,
    /// A bookmark is made; the name is the new one.
    Bookmark,
    /// It is renamed.
    Rename,
    /// Something gets this name.
    RenameTo,
    /// A file system or volume is taken back to this snapshot.
    Rollback,
    /// A snapshot is held.
    Hold,
    /// A hold of a snapshot is released.
    Release,
    /// It is compared with another state.
    Diff,
    /// It is sent.
    Send,
    /// A stream extends or replaces it.
    Receive,
    /// A stream becomes a file system or volume; the name is the new one.
    ReceiveNew,
    /// Permissions are given or taken.
    Allow,
}

/// On which dataset a permission is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermissionOn {
    /// On what is named.
    Itself,
    /// On the file system or volume of a snapshot or bookmark.
    Head,
    /// On what is above: of a snapshot its file system or volume.
    Parent,
}

/// The permissions that each operation needs: all of them.
pub const RULES: [(Action, &[(PermissionOn, &str)]); 18] = [
    (Action::Snapshot, &[(PermissionOn::Head, "snapshot")]),
    (Action::Create, &[(PermissionOn::Parent, "create"), (PermissionOn::Parent, "mount")]),
    (Action::CloneOf, &[(PermissionOn::Itself, "clone")]),
    (Action::Promote, &[(PermissionOn::Itself, "promote"), (PermissionOn::Itself, "mount")]),
    (Action::PromoteOver, &[(PermissionOn::Itself, "promote")]),
    (Action::Destroy, &[(PermissionOn::Itself, "destroy"), (PermissionOn::Itself, "mount")]),
    (Action::DestroyBookmark, &[(PermissionOn::Head, "destroy")]),
    (Action::Bookmark, &[(PermissionOn::Head, "bookmark")]),
    (Action::Rename, &[(PermissionOn::Itself, "rename"), (PermissionOn::Itself, "mount")]),
    (Action::RenameTo, &[(PermissionOn::Parent, "create"), (PermissionOn::Parent, "mount")]),
    (Action::Rollback, &[(PermissionOn::Head, "rollback")]),
    (Action::Hold, &[(PermissionOn::Head, "hold")]),
    (Action::Release, &[(PermissionOn::Head, "release")]),
    (Action::Diff, &[(PermissionOn::Head, "diff")]),
    (Action::Send, &[(PermissionOn::Itself, "send")]),
    (
        Action::Receive,
        &[
            (PermissionOn::Itself, "receive"),
            (PermissionOn::Itself, "create"),
            (PermissionOn::Itself, "mount"),
        ],
    ),
    (
        Action::ReceiveNew,
        &[
            (PermissionOn::Parent, "receive"),
            (PermissionOn::Parent, "create"),
            (PermissionOn::Parent, "mount"),
        ],
    ),
    (Action::Allow, &[(PermissionOn::Itself, "allow")]),
];

impl PermissionOn {
    /// The dataset's name.
    fn subject_of(self, name: &str) -> &str {
        let head = name.split(['@', '#']).next().unwrap_or(name);
        match self {
            Self::Itself => name,
            Self::Head => head,
            Self::Parent if head != name => head,
            Self::Parent => name.rsplit_once('/').map_or("", |(parent, _)| parent),
        }
    }
}

/// The permission to change a property: of users' properties `userprop`, of quotas of owners the
/// name before the `@`, of all others their own name.
#[must_use]
pub fn of_property(property: &str) -> &str {
    match property.split_once('@') {
        Some((kind, _)) if PERMISSIONS.contains(&kind) => kind,
        _ if props::is_user_property(property) => "userprop",
        _ => property,
    }
}

/// The permission table of a directory, and the keys of the users to look up.
struct Level<'a> {
    dsl: &'a Dsl,
    table: Zap,
    scope: Scope,
}

impl Level<'_> {
    /// The table that a holder has here.
    fn holder(&self, who: Who, sets: bool, scope: Scope, name: &str) -> Result<Option<Zap>> {
        let key = WhoKey { who, sets, scope, name: name.to_owned() }.format();
        let Some(entry) = self.table.get(key.as_bytes())? else { return Ok(None) };
        let rule = "a table of permissions has an entry that is not a permission";
        let object = self.table.object().number();
        let below = entry.u64().filter(|n| *n != 0).ok_or(Error::Tree { object, rule })?;
        Ok(Some(Zap::open(&self.dsl.mos().object(below)?)?))
    }

    /// The permissions of the user here: its own, those of its groups and of everyone.
    fn held(&self, caller: &Caller, sets: bool) -> Result<Vec<Zap>> {
        let mut out = Vec::new();
        let user = (Who::User, caller.user.to_string());
        let groups = caller.groups.iter().map(|group| (Who::Group, group.to_string()));
        let all = [user, (Who::Everyone, String::new())].into_iter().chain(groups);
        for (who, name) in all {
            out.extend(self.holder(who, sets, self.scope, &name)?);
        }
        Ok(out)
    }
}

/// The names in a table of permissions.
fn names(table: &Zap) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for entry in table.entries() {
        let entry = entry?;
        let name = entry.name.bytes().and_then(|name| std::str::from_utf8(name).ok());
        out.extend(name.map(str::to_owned));
    }
    Ok(out)
}

/// The sets that were found so far; true: its definition was found too.
type Sets = BTreeMap<String, bool>;

/// Whether one of the sets gives a permission by its definition on this level. Those defined here
/// are settled, and what they name is added.
fn sets_give(level: &Level<'_>, sets: &mut Sets, permission: &str) -> Result<bool> {
    while let Some(name) = next_defined(level, sets)? {
        if let Some(table) = level.holder(Who::NamedSet, false, Scope::None, &name)?
            && table.get(permission.as_bytes())?.is_some()
        {
            return Ok(true);
        }
        if let Some(table) = level.holder(Who::NamedSet, true, Scope::None, &name)? {
            for further in names(&table)? {
                sets.entry(further).or_insert(false);
            }
        }
        sets.insert(name, true);
    }
    Ok(false)
}

/// A set that is not settled and is defined on this level.
fn next_defined(level: &Level<'_>, sets: &Sets) -> Result<Option<String>> {
    for name in sets.iter().filter(|(_, is_settled)| !**is_settled).map(|(name, _)| name) {
        for kind in [false, true] {
            if level.holder(Who::NamedSet, kind, Scope::None, name)?.is_some() {
                return Ok(Some(name.clone()));
            }
        }
    }
    Ok(None)
}

impl Dsl {
    /// The directories from this one up to the pool's.
    fn upwards(&self, dir: &Arc<Dir>) -> Result<Vec<Arc<Dir>>> {
        let mut out = vec![Arc::clone(dir)];
        while let Some(above) = out.last().map(|dir| dir.phys.parent).filter(|n| *n != 0) {
            if out.len() > DEPTH_MAX {
                return Err(Error::Tree { object: above, rule: "directories form a loop" });
            }
            out.push(self.dir(above, String::new())?);
        }
        Ok(out)
    }

    fn level(&self, dir: &Dir, scope: Scope) -> Result<Option<Level<'_>>> {
        match dir.phys.deleg_zap {
            0 => Ok(None),
            n => Ok(Some(Level { dsl: self, table: Zap::open(&self.mos().object(n)?)?, scope })),
        }
    }

    /// Whether users can have permissions in this pool: its property `delegation`.
    fn delegates(&self) -> Result<bool> {
        let directory = Zap::open(&self.mos().object(mos::DIRECTORY_OBJECT)?)?;
        let Some(table) = directory.get_u64(mos::POOL_PROPS)?.filter(|n| *n != 0) else {
            return Ok(true);
        };
        Ok(Zap::open(&self.mos().object(table)?)?.get_u64("delegation")? != Some(0))
    }

    /// Whether the entries from `dir` upwards give the user a permission, `scope` in `dir` itself
    /// and as descendent above; `sets` and `given` are had already.
    fn is_given(
        &self,
        caller: &Caller,
        (dir, scope): (&Arc<Dir>, Scope),
        mut sets: Sets,
        permission: &str,
    ) -> Result<bool> {
        for (at, dir) in self.upwards(dir)?.iter().enumerate() {
            let scope = if at == 0 { scope } else { Scope::Descendent };
            let Some(level) = self.level(dir, scope)? else { continue };
            for table in level.held(caller, true)? {
                for name in names(&table)? {
                    sets.entry(name).or_insert(false);
                }
            }
            if sets_give(&level, &mut sets, permission)? {
                return Ok(true);
            }
            for table in level.held(caller, false)? {
                if table.get(permission.as_bytes())?.is_some() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a user has a permission on a file system, volume or snapshot.
    ///
    /// # Errors
    /// A table cannot be read: then it is unknown, and nothing is to be done.
    pub fn has_permission(
        &self,
        caller: &Caller,
        dataset: &Dataset,
        permission: &str,
    ) -> Result<bool> {
        let zoned = self.property(dataset, &PropertyContext::default(), "zoned")?;
        if zoned.is_some_and(|zoned| zoned.value == "on") {
            return Ok(false);
        }
        let scope = if dataset.is_snapshot() { Scope::Descendent } else { Scope::Local };
        self.is_given(caller, (&dataset.dir, scope), Sets::new(), permission)
    }

    /// Whether a user will have a permission on what it makes below `parent`: what descendents of
    /// `parent` have, and what creators get.
    fn will_have(&self, caller: &Caller, parent: &Arc<Dir>, permission: &str) -> Result<bool> {
        let mut sets = Sets::new();
        for dir in self.upwards(parent)? {
            let Some(level) = self.level(&dir, Scope::None)? else { continue };
            if let Some(table) = level.holder(Who::Create, false, Scope::None, "")?
                && table.get(permission.as_bytes())?.is_some()
            {
                return Ok(true);
            }
            if let Some(table) = level.holder(Who::Create, true, Scope::None, "")? {
                sets.extend(names(&table)?.into_iter().map(|name| (name, false)));
            }
        }
        self.is_given(caller, (parent, Scope::Descendent), sets, permission)
    }

    /// Refuses what the user does not have; `name` is what the request is about.
    fn need(&self, caller: &Caller, (name, on): (&str, &str), permission: &str) -> Result<()> {
        let has = self.has_permission(caller, &self.by_name(on)?, permission)?;
        if has { Ok(()) } else { Err(Error::refused(name, Refusal::Denied)) }
    }

    /// Refuses all when the pool's permissions are off.
    fn need_delegation(&self, name: &str) -> Result<()> {
        match self.delegates()? {
            true => Ok(()),
            false => Err(Error::refused(name, Refusal::DelegationOff)),
        }
    }

    /// Whether a user may do that to a dataset.
    ///
    /// # Errors
    /// It may not ([`Refusal::Denied`]); there is no such dataset.
    pub fn permit(&self, caller: &Caller, action: Action, name: &str) -> Result<()> {
        self.need_delegation(name)?;
        let rule = RULES.iter().find(|(of, _)| *of == action);
        let (_, needs) = rule.ok_or_else(|| Error::refused(name, Refusal::Denied))?;
        needs.iter().try_for_each(|(on, permission)| {
            self.need(caller, (name, on.subject_of(name)), permission)
        })
    }

    /// Whether a user may change a property of a dataset that is there.
    ///
    /// # Errors
    /// As [`Self::permit`].
    pub fn permit_property(&self, caller: &Caller, name: &str, property: &str) -> Result<()> {
        self.need_delegation(name)?;
        self.need(caller, (name, name), of_property(property))
    }

    /// Whether a user may give a property to the dataset `name` that it is about to make.
    ///
    /// # Errors
    /// As [`Self::permit`].
    pub fn permit_new_property(&self, caller: &Caller, name: &str, property: &str) -> Result<()> {
        self.need_delegation(name)?;
        let parent = self.dir_by_name(PermissionOn::Parent.subject_of(name))?;
        let has = self.will_have(caller, &parent, of_property(property))?;
        if has { Ok(()) } else { Err(Error::refused(name, Refusal::Denied)) }
    }

    /// Whether a user may give these permissions on a dataset: it must have each of them itself,
    /// and may neither pass `allow` on nor give a set, which others can change.
    ///
    /// # Errors
    /// As [`Self::permit`].
    pub fn permit_allow(&self, caller: &Caller, name: &str, given: &[Delegation]) -> Result<()> {
        self.permit(caller, Action::Allow, name)?;
        for permission in given.iter().flat_map(|one| &one.permissions) {
            if permission == "allow" || permission.starts_with('@') {
                return Err(Error::refused(name, Refusal::Denied));
            }
            self.need(caller, (name, name), permission)?;
        }
        Ok(())
    }

    /// Whether a user may take these permissions on a dataset: its own alone.
    ///
    /// # Errors
    /// As [`Self::permit`].
    pub fn permit_unallow(
        &self,
        caller: &Caller,
        name: &str,
        taken: &[RevokedPermissions],
    ) -> Result<()> {
        self.permit(caller, Action::Allow, name)?;
        let own = caller.user.to_string();
        match taken.iter().all(|one| one.who.who == Who::User && one.who.name == own) {
            true => Ok(()),
            false => Err(Error::refused(name, Refusal::Denied)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::dsl::deleg::is_permission;

    #[test]
    fn every_rule_names_permissions_that_there_are() {
        for (at, (action, needs)) in RULES.iter().enumerate() {
            assert!(RULES[..at].iter().all(|(other, _)| other != action), "{action:?}");
            // A rule that needs nothing would let everyone do it.
            assert!(!needs.is_empty(), "{action:?}");
            assert!(needs.iter().all(|(_, permission)| is_permission(permission)), "{action:?}");
        }
    }

    #[test]
    fn a_permission_is_needed_on_a_dataset() {
        for (name, itself, head, parent) in [
            ("p", "p", "p", ""),
            ("p/a/b", "p/a/b", "p/a/b", "p/a"),
            ("p/a@s", "p/a@s", "p/a", "p/a"),
            ("p/a#b", "p/a#b", "p/a", "p/a"),
        ] {
            let all = [PermissionOn::Itself, PermissionOn::Head, PermissionOn::Parent]
                .map(|on| on.subject_of(name));
            assert_eq!(all, [itself, head, parent]);
        }
    }

    #[test]
    fn a_property_is_changed_by_its_permission() {
        for (property, permission) in [
            ("compression", "compression"),
            ("com.example:mine", "userprop"),
            ("userquota@ann", "userquota"),
            ("projectobjquota@7", "projectobjquota"),
            ("written@x", "written@x"),
        ] {
            assert_eq!(of_property(property), permission);
        }
    }
}
