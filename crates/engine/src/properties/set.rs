//! Changing properties of datasets that are there.
//!
//! Most are a value in a table. Four are more: the size of a volume changes the volume, and a
//! reservation for all of it follows; `refreservation=auto` is worked out; where a key is can
//! be said only of what has one of its own; and the version of a file system is in it.

use crate::datasets::{heads_of, reserved, upgrade, whole_volume};
use crate::error::{Error, ErrorKind, Place, Result, Rule};
use crate::keys::check_location;
use crate::owners::OwnerQuota;
use crate::values::{number, number_change, numeric, parse};
use dsl::write::PropertyChange;
use dsl::{Dataset, DatasetKind, Dsl, Refusal};
use ondisk::props::{find_dataset, is_user_property};
use pool::live::LivePool;
use std::collections::HashSet;

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

/// Sets properties: [`set_with_quotas`] without quotas.
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
/// Those of [`set_with_quotas`].
pub fn set(pool: &LivePool, settings: &[DatasetSetting<'_>]) -> Result<()> {
    set_with_quotas(pool, settings, &[])
}

/// Sets properties of datasets, and quotas of owners of files in these file systems, in this order:
/// all are judged, and one that cannot be had leaves all as they were; sizes of volumes and
/// versions of file systems are changed; all other properties, in one txg; the quotas. It is
/// durable when this returns.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::files::{QuotaKind, SpaceKind};
/// use engine::properties::{DatasetSetting, OwnerQuota, set_with_quotas};
///
/// let (kind, what) = (SpaceKind::User, QuotaKind::Space);
/// let quota = OwnerQuota { kind, what, owner: 1000, value: 1 << 30 };
/// let atime = DatasetSetting { dataset: "tank", property: "atime", value: "off" };
/// set_with_quotas(&pool, &[atime], &[("tank", quota)])?;
/// let users = pool.filesystem("tank")?.space(kind)?;
/// assert!(users.iter().any(|user| user.id == 1000 && user.quota == Some(1 << 30)));
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// A value cannot be had, or one property of a dataset is given two: the dataset is the error's
/// operand. Or the pool refuses it now: what comes before in that order is set.
pub fn set_with_quotas(
    pool: &LivePool,
    settings: &[DatasetSetting<'_>],
    quotas: &[(&str, OwnerQuota)],
) -> Result<()> {
    check_once(settings, quotas)?;
    let mut steps = Vec::new();
    for setting in settings {
        let step = judge(pool, setting).map_err(|e| e.of(setting.dataset))?;
        steps.push((setting.dataset, step));
    }
    // What a volume reserves depends on its size.
    steps.sort_by_key(|(_, step)| !matches!(step, Step::Resize(..)));
    for (dataset, quota) in quotas {
        let fits = pool.filesystem_to_set(dataset, &quota.property());
        fits.map_err(|e| Error::from(e).of(dataset))?;
    }
    let mut changes = Vec::new();
    for (name, step) in steps {
        let change = step.take(pool).map_err(|e| e.of(name))?;
        changes.extend(change.map(|change| (name.to_owned(), change)));
    }
    pool.set_properties(changes)?;
    for (dataset, quota) in quotas {
        quota.set_unsynced(pool, dataset).map_err(|e| e.of(dataset))?;
    }
    if quotas.is_empty() { Ok(()) } else { Ok(pool.sync()?) }
}

/// Refuses two values for one property of a dataset, under whichever of its names. For programs
/// that prepare for the change ([`set_with_quotas`]).
///
/// # Errors
/// There are two.
pub fn check_once(settings: &[DatasetSetting<'_>], quotas: &[(&str, OwnerQuota)]) -> Result<()> {
    let full = |name: &str| find_dataset(name).map_or(name, |p| p.name).to_owned();
    let names = settings.iter().map(|one| (one.dataset, full(one.property)));
    let mut seen = HashSet::new();
    for (dataset, name) in names.chain(quotas.iter().map(|(of, quota)| (*of, quota.property()))) {
        if !seen.insert((dataset, name.clone())) {
            let twice = ErrorKind::Refused(Refusal::SetTwice(name.clone()));
            return Err(Error::new(twice).at(Place::Property(name)).of(dataset));
        }
    }
    Ok(())
}

/// What setting a property does, when nothing is known to keep it from being done.
enum Step {
    /// A value in a table.
    Store(PropertyChange),
    /// A volume gets this size.
    Resize(Box<Dataset>, u64),
    /// A volume reserves what it takes to write all of it.
    Reserve(String),
    /// A file system gets this version.
    Upgrade(String, u64),
}

/// Judges a setting; nothing is changed.
fn judge(pool: &LivePool, setting: &DatasetSetting<'_>) -> Result<Step> {
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
    if (property, kind, value) == ("refreservation", DatasetKind::Volume, "auto") {
        return Ok(Step::Reserve(dataset.name));
    }
    let change = parse(property, value, kind, false)?;
    let number = |change| number(&[change], property).unwrap_or(0);
    Ok(match (property, kind) {
        ("volsize", DatasetKind::Volume) => Step::Resize(Box::new(dataset), number(change)),
        ("version", DatasetKind::Filesystem) => {
            let wanted = number(change);
            refuse_older(pool, &dataset, wanted)?;
            Step::Upgrade(dataset.name, wanted)
        }
        ("keylocation", _) => {
            check_location(value)?;
            let dsl = pool.view().datasets();
            check_keylocation(&dsl, &dataset, value)?;
            Step::Store(change)
        }
        _ => Step::Store(change),
    })
}

impl Step {
    /// Does what is not a value in a table; what is left to be stored.
    fn take(self, pool: &LivePool) -> Result<Option<PropertyChange>> {
        match self {
            Self::Store(change) => Ok(Some(change)),
            Self::Resize(dataset, size) => resize(pool, &dataset, size),
            Self::Reserve(name) => {
                // As it is by now: it may have another size.
                let dataset = pool.view().datasets().by_name(&name)?;
                whole_volume(pool, &dataset).map(Some)
            }
            Self::Upgrade(name, version) => upgrade(pool, &[name], false, version).map(|_| None),
        }
    }
}

/// A version never becomes less.
fn refuse_older(pool: &LivePool, dataset: &Dataset, wanted: u64) -> Result<()> {
    let has = numeric(&pool.view().datasets(), dataset, "version")?;
    match has > wanted {
        true => Err(dsl::Error::refused(&dataset.name, Refusal::NewerVersion(has)).into()),
        false => Ok(()),
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
