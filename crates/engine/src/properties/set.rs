//! Changing properties of datasets that are there.
//!
//! Most are a value in a table. Four are more: the size of a volume changes the volume, and a
//! reservation for all of it follows; `refreservation=auto` is worked out; where a key is can
//! be said only of what has one of its own; and the version of a file system is in it.

use crate::datasets::{Upgraded, heads_of, reserved, upgrade, whole_volume};
use crate::error::{Error, Place, Result, Rule};
use crate::keys::check_location;
use crate::values::{number, number_change, numeric, parse};
use dsl::write::PropertyChange;
use dsl::{Dataset, DatasetKind, Dsl, Refusal};
use ondisk::props::{find_dataset, is_user_property};
use pool::live::LivePool;

/// A property of a dataset that is to be set.
#[derive(Clone, Copy, Debug)]
pub struct DatasetSetting<'a> {
    /// The file system, volume or snapshot.
    pub dataset: &'a str,
    /// The property.
    pub property: &'a str,
    /// The value, as users write it.
    pub value: &'a str,
}

/// Sets properties, all in one txg but for the sizes of volumes, which change first. The first that
/// is refused ends it; those before it are set.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::properties::{DatasetSetting, set};
///
/// set(&pool, &[DatasetSetting { dataset: "tank", property: "atime", value: "off" }])?;
/// let no = set(&pool, &[DatasetSetting { dataset: "tank", property: "atime", value: "maybe" }]);
/// assert_eq!(no.unwrap_err().operand(), Some("tank"));
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// A value cannot be had: the dataset is the error's operand. Or the pool refuses it now.
pub fn set(pool: &LivePool, settings: &[DatasetSetting<'_>]) -> Result<()> {
    let mut changes = Vec::new();
    for setting in settings {
        let one = one(pool, setting).map_err(|e| e.of(setting.dataset))?;
        changes.extend(one.map(|change| (setting.dataset.to_owned(), change)));
    }
    Ok(pool.set_properties(changes)?)
}

/// What is left to be changed for one setting.
fn one(pool: &LivePool, setting: &DatasetSetting<'_>) -> Result<Option<PropertyChange>> {
    let DatasetSetting { property, value, .. } = *setting;
    let (dataset, kind) = {
        let dsl = pool.view().datasets();
        let dataset = dsl.by_name(setting.dataset)?;
        let kind = dsl.kind(&dataset);
        (dataset, kind)
    };
    if dataset.is_snapshot() && !is_user_property(property) {
        let at = Place::Property(property.to_owned());
        return Err(Error::against(Rule::OnSnapshot).at(at));
    }
    let property = find_dataset(property).map_or(property, |p| p.name);
    match (property, kind) {
        ("volsize", DatasetKind::Volume) => {
            let change = parse(property, value, kind, false)?;
            resize(pool, &dataset, number(&[change], property).unwrap_or(0))
        }
        ("refreservation", DatasetKind::Volume) if value == "auto" => {
            whole_volume(pool, &dataset).map(Some)
        }
        ("keylocation", _) => {
            let change = parse(property, value, kind, false)?;
            check_location(value)?;
            let dsl = pool.view().datasets();
            check_keylocation(&dsl, &dataset, value)?;
            Ok(Some(change))
        }
        ("version", DatasetKind::Filesystem) => {
            let change = parse(property, value, kind, false)?;
            let wanted = number(&[change], property).unwrap_or(0);
            refuse_older(&upgrade(pool, &[&dataset.name], false, wanted)?)?;
            Ok(None)
        }
        _ => parse(property, value, kind, false).map(Some),
    }
}

/// A version never becomes less.
fn refuse_older(done: &Upgraded) -> Result<()> {
    match done.newer.first() {
        Some((name, has)) => Err(dsl::Error::refused(name, Refusal::NewerVersion(*has)).into()),
        None => Ok(()),
    }
}

/// Where a key is can be said of what has one of its own, and of nothing else.
pub(crate) fn check_keylocation(dsl: &Dsl, dataset: &Dataset, value: &str) -> Result<()> {
    let rule = match (dsl.encryption_root(&dataset.dir)?, value) {
        (None, "none") => return Ok(()),
        (None, _) => Rule::KeylocationOfPlain,
        (Some(_), "none") => Rule::KeylocationOfEncrypted,
        (Some(root), _) if root != dataset.name => Rule::KeylocationBelowRoot,
        _ => return Ok(()),
    };
    Err(Error::against(rule).at(Place::Property("keylocation".to_owned())))
}

/// Gives a volume another size. A reservation for all of it follows: what is returned is left of
/// that.
fn resize(pool: &LivePool, dataset: &Dataset, size: u64) -> Result<Option<PropertyChange>> {
    let name = &dataset.name;
    let mut volume = pool.volume_to_set(name, "volsize")?;
    let (old, block) = (volume.size(), volume.block_size());
    if size < old {
        pool.check_unused(dataset)?;
    }
    let (follows, reservation) = {
        let datasets = pool.view().datasets();
        let had = numeric(&datasets, dataset, "refreservation")?;
        let follows = had != 0 && had == reserved(&datasets, dataset, old, block)?;
        (follows, number_change("refreservation", reserved(&datasets, dataset, size, block)?))
    };
    // What grows is reserved first, so that a pool without room refuses before anything changed.
    if follows && size > old {
        pool.set_properties(vec![(name.clone(), reservation.clone())])?;
    }
    volume.resize(size)?;
    drop(volume);
    pool.sync()?;
    Ok((follows && size < old).then_some(reservation))
}

/// A property that datasets are to have from the one above again.
///
/// ```
/// use engine::properties::Inherit;
///
/// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// engine::Create::filesystem("tank/home")?.set("compression", "gzip")?.run(&pool)?;
/// Inherit::new("compression")?.recursive().run(&pool, &["tank"])?;
/// // Limits are not inherited.
/// assert!(Inherit::new("quota").is_err());
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Inherit {
    property: String,
    recursive: bool,
    received: bool,
}

impl Inherit {
    /// The property, by its name or the heading of its column.
    ///
    /// # Errors
    /// There is no such property, or it is not inherited.
    pub fn new(property: &str) -> Result<Self> {
        Self::of(property, false)
    }

    /// The same, back to the value that was received, where one was. Such a property need not be
    /// inherited: without a received value it has its default.
    ///
    /// # Errors
    /// There is no such property, or it is not set.
    pub fn or_received(property: &str) -> Result<Self> {
        Self::of(property, true)
    }

    fn of(property: &str, received: bool) -> Result<Self> {
        let known = find_dataset(property);
        let property = known.map_or(property, |p| p.name);
        let at = || Place::Property(property.to_owned());
        match known {
            // Without the place of its key an encryption root is not one.
            Some(p) if p.name == "keylocation" => {
                return Err(Error::against(Rule::NotInherited).at(at()));
            }
            Some(p) if (p.is_inheritable() || received) && !p.is_fixed() => {}
            None if is_user_property(property) => {}
            // A limit without a local value has its default, which is none.
            Some(_) => return Err(Error::against(Rule::NotInherited).at(at())),
            None => {
                let why = Refusal::NoProperty(property.to_owned());
                return Err(Error::from(dsl::Error::refused(property, why)).at(at()));
            }
        }
        Ok(Self { property: property.to_owned(), recursive: false, received })
    }

    /// Of all datasets below too.
    #[must_use]
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// A dataset and all below it, with their snapshots where these have such properties.
    fn below(&self, dsl: &Dsl, name: &str) -> Result<Vec<Dataset>> {
        let mut all = heads_of(dsl, name)?;
        if is_user_property(&self.property) {
            for at in 0..all.len() {
                let snapshots = dsl.snapshots(&all[at])?;
                all.extend(snapshots);
            }
        }
        Ok(all)
    }

    /// Lets these datasets have it; durable when this returns.
    ///
    /// # Errors
    /// One of them is not there, or refuses; those before it have it.
    pub fn run(&self, pool: &LivePool, names: &[impl AsRef<str>]) -> Result<()> {
        let mut all = Vec::new();
        {
            let dsl = pool.view().datasets();
            for name in names.iter().map(AsRef::as_ref) {
                let found = match self.recursive && !name.contains('@') {
                    true => self.below(&dsl, name),
                    false => dsl.by_name(name).map(|one| vec![one]).map_err(Error::from),
                };
                all.extend(found.map_err(|e| e.of(name))?.into_iter().map(|dataset| dataset.name));
            }
        }
        let inherit = || PropertyChange { name: self.property.clone(), value: None };
        Ok(match self.received {
            true => pool.revert_property(&all, &self.property),
            false => pool.set_properties(all.into_iter().map(|name| (name, inherit())).collect()),
        }?)
    }
}
