//! Delegated permissions: giving them, taking them, and seeing what there is.
//!
//! Which user may do what with them is in `dsl::access`. A handle of a pool that is for a user
//! ([`LivePool::on_behalf_of`]) checks them by itself.

use super::names::heads;
use crate::error::{Error, Result};
use dsl::write::RevokedPermissions;
use dsl::{Delegation, Refusal};
use ondisk::dsl::deleg::{Scope, Who, WhoKey};
use pool::Pool;
use pool::live::LivePool;

/// The holder of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A user, by number.
    User(u64),
    /// All users in a group, by number.
    Group(u64),
    /// All users.
    Everyone,
    /// The user who makes a dataset below gets the permissions on that.
    Creator,
    /// All that have the set of that name, which begins with `@`.
    Set(String),
}

/// Permissions that are given or taken, by the names of permissions and of sets (`@NAME`).
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::datasets::{Create, Holder, Permissions, permissions};
///
/// Create::filesystem("tank/home")?.run(&pool)?;
/// let to_ann = Permissions::of(vec![Holder::User(1000)]).only(&["snapshot", "hold"]);
/// to_ann.clone().on_descendents().allow(&pool, "tank/home")?;
/// assert_eq!(permissions(pool.view(), "tank/home")?[0].1.len(), 1);
/// to_ann.unallow(&pool, "tank/home", false)?;
/// assert!(permissions(pool.view(), "tank/home")?.is_empty());
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Permissions {
    holders: Vec<Holder>,
    scopes: Vec<Scope>,
    names: Option<Vec<String>>,
}

impl Permissions {
    /// All permissions that these have, on the dataset itself and on all below.
    #[must_use]
    pub fn of(holders: Vec<Holder>) -> Self {
        Self { holders, scopes: vec![Scope::Local, Scope::Descendent], names: None }
    }

    /// These alone.
    #[must_use]
    pub fn only(mut self, names: &[impl AsRef<str>]) -> Self {
        self.names = Some(names.iter().map(|name| name.as_ref().to_owned()).collect());
        self
    }

    /// On the dataset itself, and not on those below.
    #[must_use]
    pub fn on_itself(mut self) -> Self {
        self.scopes = vec![Scope::Local];
        self
    }

    /// On those below, and not on the dataset itself.
    #[must_use]
    pub fn on_descendents(mut self) -> Self {
        self.scopes = vec![Scope::Descendent];
        self
    }

    /// The keys of the holders, those of permissions and those of sets.
    fn keys(&self) -> Vec<WhoKey> {
        let mut out = Vec::new();
        for holder in &self.holders {
            let (who, name) = match holder {
                Holder::User(id) => (Who::User, id.to_string()),
                Holder::Group(id) => (Who::Group, id.to_string()),
                Holder::Everyone => (Who::Everyone, String::new()),
                Holder::Creator => (Who::Create, String::new()),
                Holder::Set(name) => (Who::NamedSet, name.clone()),
            };
            let scopes = match holder {
                Holder::Creator | Holder::Set(_) => &[Scope::None][..],
                _ => &self.scopes,
            };
            for scope in scopes {
                let key = |sets| WhoKey { who, sets, scope: *scope, name: name.clone() };
                out.extend([key(false), key(true)]);
            }
        }
        out
    }

    /// The names that belong under a key.
    fn names_of(&self, key: &WhoKey) -> Vec<String> {
        let names = self.names.iter().flatten();
        names.filter(|name| name.starts_with('@') == key.sets).cloned().collect()
    }

    /// Gives them on a file system or volume; durable when this returns.
    ///
    /// # Errors
    /// There is no such dataset or permission; no permission is named.
    pub fn allow(&self, pool: &LivePool, dataset: &str) -> Result<()> {
        let given = self.keys().into_iter().map(|who| {
            let permissions = self.names_of(&who);
            Delegation { who, permissions }
        });
        let given: Vec<_> = given.filter(|one| !one.permissions.is_empty()).collect();
        if given.is_empty() {
            let why = Refusal::NotAPermission(String::new());
            return Err(dsl::Error::refused(dataset, why).into());
        }
        Ok(pool.allow(dataset, given)?)
    }

    /// Revokes them on a file system or volume, and with `recursive` on all below; durable when
    /// this returns. Permissions that were not granted are ignored.
    ///
    /// # Errors
    /// There is no such dataset or permission.
    pub fn unallow(&self, pool: &LivePool, dataset: &str, recursive: bool) -> Result<()> {
        let taken = self.keys().into_iter().filter_map(|who| {
            let permissions = self.names.is_some().then(|| self.names_of(&who));
            let is_meant = permissions.as_ref().is_none_or(|names| !names.is_empty());
            is_meant.then_some(RevokedPermissions { who, permissions })
        });
        let names = match recursive {
            false => vec![dataset.to_owned()],
            true => {
                let all = heads(pool.view(), dataset).map_err(|e| e.of(dataset))?;
                all.into_iter().map(|head| head.name).collect()
            }
        };
        Ok(pool.unallow(&names, taken.collect())?)
    }
}

/// The permissions that count for a file system or volume: those given on it, then those given on
/// each dataset above it, as far as there are any.
///
/// # Errors
/// There is no such dataset, or a table cannot be read.
pub fn permissions(pool: &Pool, dataset: &str) -> Result<Vec<(String, Vec<Delegation>)>> {
    let dsl = pool.datasets();
    let mut out = Vec::new();
    let mut name = dataset;
    loop {
        let dir = dsl.dir_by_name(name).map_err(|e| Error::from(e).of(dataset))?;
        let given = dsl.delegations(&dir).map_err(|e| Error::from(e).of(dataset))?;
        if !given.is_empty() {
            out.push((name.to_owned(), given));
        }
        let Some((above, _)) = name.rsplit_once('/') else { return Ok(out) };
        name = above;
    }
}
