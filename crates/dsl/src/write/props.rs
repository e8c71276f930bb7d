//! Setting properties: what is stored where, and what may be set.

mod needs;
mod values;

pub use values::{parse_size, parse_value};

use super::meta::DslCx;
use super::room::{check_new_reservation, check_reservation};
use super::spacing::Delta;
use crate::error::{Error, Refusal, Result};
use crate::stored::StoredValue;
use crate::tree::{Dataset, Dir, Dsl};
use dmu::Zap;
use ondisk::DmuType;
use ondisk::dsl::DslDir;
use ondisk::dsl::prop_suffix::{HAS_RECEIVED, INHERIT, IUV, RECEIVED};
use ondisk::props::{Access, DATASET, find};
use ondisk::znode::ZPL_VERSION_FUID;
use std::collections::HashSet;

/// A change of one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyChange {
    /// Its name.
    pub name: String,
    /// The new local value ([`parse_value`] makes it from a text); `None`: no local value any more,
    /// so that it is inherited or has its default.
    pub value: Option<StoredValue>,
}

impl PropertyChange {
    /// The number that it sets the property to.
    fn number(&self) -> Option<u64> {
        match self.value {
            Some(StoredValue::Number(n)) => Some(n),
            _ => None,
        }
    }
}

/// Properties that take room from others.
const RESERVATIONS: [&str; 2] = ["reservation", "refreservation"];

/// Properties that live in the object set: what makes or changes that takes care of them.
const INSIDE: [&str; 6] =
    ["volsize", "volblocksize", "version", "utf8only", "normalization", "casesensitivity"];

/// Properties of names, which file systems have since version 3.
const OF_NAMES: [&str; 3] = ["utf8only", "normalization", "casesensitivity"];

/// Refuses properties that file systems of the requested version do not have.
///
/// # Errors
/// A property of names is given a value before version 3, even the usual one.
pub fn check_version(name: &str, version: u64, given: &[PropertyChange]) -> Result<()> {
    let lacks = |change: &&PropertyChange| OF_NAMES.contains(&change.name.as_str());
    match given.iter().find(lacks) {
        Some(change) if version < ZPL_VERSION_FUID => {
            Err(Error::refused(name, Refusal::VersionLacks(change.name.clone())))
        }
        _ => Ok(()),
    }
}

/// Sets or clears a property of a head or snapshot (`dataset`).
///
/// Changes on disk: the table of properties of the directory (of a snapshot: its own, made with the
/// first); for `quota`, `reservation` and `refreservation` the directory, and space above; for
/// limits the counts of all directories below.
///
/// # Errors
/// The property cannot be set, or not to that value now.
pub fn set_property(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    dataset: &str,
    change: &PropertyChange,
) -> Result<()> {
    let ds = dsl.by_name(dataset)?;
    if ds.phys.is_snapshot() {
        return set_on_snapshot(cx, ds.object, change);
    }
    check_change(&ds.name, change)?;
    if INSIDE.contains(&change.name.as_str()) {
        return Err(Error::refused(dataset, Refusal::NotHere(change.name.clone())));
    }
    set_on_head(cx, dsl, &ds, change, PropertyOrigin::Local)
}

/// Whether [`set_property`] would give a head or snapshot this property, which is one that users
/// invent.
///
/// # Errors
/// There is no such dataset; it is another property; it cannot have that name or value.
pub fn check_user_property(dsl: &Dsl, dataset: &str, change: &PropertyChange) -> Result<()> {
    dsl.by_name(dataset)?;
    check_on_snapshot(change)
}

/// Sets a property of a head to a value that it may have.
fn set_on_head(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    ds: &Dataset,
    change: &PropertyChange,
    origin: PropertyOrigin,
) -> Result<()> {
    if let Some(property) = RESERVATIONS.into_iter().find(|p| *p == change.name)
        && !origin.is_hidden(cx, ds.dir.phys.props_zap, property)?
    {
        let value = change.number().unwrap_or(0);
        check_reservation(dsl, ds, property, value, cx.pool_size)?;
    }
    check_features(cx, &ds.name, std::slice::from_ref(change))?;
    apply(cx, &ds.name, (ds.dir.object, ds.object), change, origin)
}

/// Whether the pool has the features that these values need, asked before anything is changed.
///
/// # Errors
/// One is missing.
pub(super) fn check_features(
    cx: &DslCx<'_>,
    name: &str,
    properties: &[PropertyChange],
) -> Result<()> {
    for feature in properties.iter().filter_map(needs::feature) {
        if !cx.has(feature)? {
            return Err(Error::refused(name, Refusal::NoFeature(feature)));
        }
    }
    Ok(())
}

/// The first name that comes twice.
fn named_twice(properties: &[PropertyChange]) -> Option<&str> {
    let mut seen = HashSet::new();
    properties.iter().map(|p| p.name.as_str()).find(|name| !seen.insert(*name))
}

/// Whether a new dataset below `parent` that references `referenced` bytes can have these
/// properties, asked before anything is made.
///
/// # Errors
/// Quotas and reservations that exclude each other, or for which there is no room.
pub(super) fn check_new(
    dsl: &Dsl,
    parent: &Dir,
    name: &str,
    referenced: u64,
    properties: &[PropertyChange],
    pool_size: u64,
) -> Result<()> {
    if let Some(twice) = named_twice(properties) {
        return Err(Error::refused(name, Refusal::SetTwice(twice.to_owned())));
    }
    let number = |name| {
        let found = properties.iter().find(|p| p.name == name);
        found.and_then(PropertyChange::number).unwrap_or(0)
    };
    let (quota, refquota) = (number("quota"), number("refquota"));
    let [reserved, refreserved] = RESERVATIONS.map(number);
    for change in properties.iter().filter(|p| !INSIDE.contains(&p.name.as_str())) {
        match find(&DATASET, &change.name) {
            // Properties that cannot be changed later are set now.
            Some(p) if p.is_fixed() && p.access != Access::ReadOnly => check_stored(name, change)?,
            _ => check_change(name, change)?,
        }
    }
    for (property, value, most) in [
        ("reservation", reserved, quota),
        ("refreservation", refreserved, quota),
        ("refreservation", refreserved, refquota),
    ] {
        if most != 0 && value > most {
            return Err(Error::refused(name, Refusal::AboveQuota(property)));
        }
    }
    if refquota != 0 && referenced > refquota {
        return Err(Error::refused(name, Refusal::BelowUsed("refquota")));
    }
    check_new_reservation(dsl, parent, name, reserved.max(refreserved), pool_size)
}

/// Gives a property the value again that was received for it: what was set here since then goes,
/// and so does the mark that it be inherited. Without a received value it is inherited, and has its
/// default where it is not inherited (limits and reservations).
///
/// Changes on disk: those of [`set_property`].
///
/// # Errors
/// The property is stored in the object set; or a limit or reservation cannot have its former value
/// now.
pub fn revert_property(cx: &DslCx<'_>, dsl: &Dsl, dataset: &str, name: &str) -> Result<()> {
    let ds = dsl.by_name(dataset)?;
    let change = PropertyChange { name: name.to_owned(), value: None };
    check_change(&ds.name, &change)?;
    if INSIDE.contains(&name) {
        return Err(Error::refused(dataset, Refusal::NotHere(change.name)));
    }
    let table = if ds.phys.is_snapshot() { ds.phys.props } else { ds.dir.phys.props_zap };
    if table == 0 {
        return Ok(());
    }
    if !is_inherited(name) {
        // It counts elsewhere too: it is set here first, which does that.
        let received = cx.zap(table)?.get(format!("{name}{RECEIVED}").as_bytes())?;
        let value = received.and_then(|entry| entry.u64()).map(StoredValue::Number);
        let back = PropertyChange { value, ..change };
        set_on_head(cx, dsl, &ds, &back, PropertyOrigin::Local)?;
    }
    for suffix in ["", INHERIT, IUV] {
        cx.remove(table, &format!("{name}{suffix}"))?;
    }
    Ok(())
}

/// Whether a dataset has the value of the one above when it has none of its own.
fn is_inherited(name: &str) -> bool {
    find(&DATASET, name).map_or(ondisk::props::is_user_property(name), |p| p.is_inheritable())
}

/// Sets a property of a dataset that is just being made; what lives in its object set is left to
/// what makes that.
pub(super) fn set_on_new(
    cx: &DslCx<'_>,
    dir: u64,
    head: u64,
    change: &PropertyChange,
) -> Result<()> {
    match INSIDE.contains(&change.name.as_str()) {
        true => Ok(()),
        false => apply(cx, "new dataset", (dir, head), change, PropertyOrigin::Local),
    }
}

/// Sets a property of a snapshot: users' properties only.
pub(super) fn set_on_snapshot(cx: &DslCx<'_>, snap: u64, change: &PropertyChange) -> Result<()> {
    match table_of_snapshot(cx, snap, change)? {
        0 => Ok(()),
        table => cx.store_property(table, &change.name, change.value.as_ref()),
    }
}

/// The table of a snapshot's properties, for a change of them; 0 where there is nothing to change.
fn table_of_snapshot(cx: &DslCx<'_>, snap: u64, change: &PropertyChange) -> Result<u64> {
    check_on_snapshot(change)?;
    let mut ds = cx.dataset(snap)?;
    if ds.props == 0 && change.value.is_some() {
        ds.props = cx.new_table(DmuType::DSL_PROPS, 0)?;
        cx.put_dataset(snap, &ds)?;
    }
    Ok(ds.props)
}

/// Whether a snapshot can have a property: users' properties only.
pub(super) fn check_on_snapshot(change: &PropertyChange) -> Result<()> {
    if !ondisk::props::is_user_property(&change.name) {
        return Err(Error::refused(&change.name, Refusal::NotHere(change.name.clone())));
    }
    check_stored(&change.name, change)
}

/// Checks by the tables whether a property may be set, and to what.
fn check_change(dataset: &str, change: &PropertyChange) -> Result<()> {
    let Some(p) = find(&DATASET, &change.name) else {
        return match ondisk::props::is_user_property(&change.name) {
            true => check_stored(dataset, change),
            false => Err(Error::refused(dataset, Refusal::NoProperty(change.name.clone()))),
        };
    };
    match p.is_fixed() {
        true => Err(Error::refused(dataset, Refusal::ReadOnly(change.name.clone()))),
        false => check_stored(dataset, change),
    }
}

/// Whether a table can hold a property, and a reader can use it: [`parse_value`] makes
/// nothing else of a text, but not every value comes from there.
fn check_stored(dataset: &str, change: &PropertyChange) -> Result<()> {
    let good = match &change.value {
        None => true,
        Some(StoredValue::Text(text)) => {
            text.len() < values::USER_VALUE_MAX && !text.contains('\0')
        }
        Some(StoredValue::Number(n)) => {
            change.name != "recordsize" || n.is_power_of_two() && (512..=16 << 20).contains(n)
        }
    };
    if !good || change.name.len() > values::NAME_MAX {
        let value = match &change.value {
            Some(StoredValue::Number(n)) => n.to_string(),
            _ => change.name.clone(),
        };
        return Err(Error::refused(dataset, Refusal::BadValue(value)));
    }
    Ok(())
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PropertyOrigin {
    /// It was set here.
    Local,
    /// It came with a stream: a local value goes before it.
    Received,
}

impl PropertyOrigin {
    /// Whether such a value has no effect: one that came with a stream is hidden by a value that
    /// is set here, and by the mark that the property be inherited.
    fn is_hidden(self, cx: &DslCx<'_>, table: u64, name: &str) -> Result<bool> {
        if self == Self::Local {
            return Ok(false);
        }
        let table = cx.zap(table)?;
        let has = |key: &str| Ok::<_, Error>(table.get(key.as_bytes())?.is_some());
        Ok(has(name)? || has(&format!("{name}{INHERIT}"))?)
    }
}

/// Sets a property of a directory and its head, or clears it.
fn apply(
    cx: &DslCx<'_>,
    name: &str,
    (dir, head): (u64, u64),
    change: &PropertyChange,
    origin: PropertyOrigin,
) -> Result<()> {
    let number = change.number().unwrap_or(0);
    let d = cx.dir(dir)?;
    let refused = |why| Err(Error::refused(name, why));
    let store = || match origin {
        PropertyOrigin::Local => {
            cx.store_property(d.props_zap, &change.name, change.value.as_ref())
        }
        PropertyOrigin::Received => {
            cx.store_received(d.props_zap, &change.name, change.value.as_ref())
        }
    };
    if origin.is_hidden(cx, d.props_zap, &change.name)? {
        return store();
    }
    if needs::feature(change) == Some(needs::ZSTD) {
        cx.activate(head, needs::ZSTD)?;
    }
    match change.name.as_str() {
        "quota" => {
            if number != 0 && (number < d.used || number < d.reserved) {
                return refused(Refusal::BelowUsed("quota"));
            }
            store()?;
            cx.update_dir(dir, |d| d.quota = number)
        }
        "reservation" => {
            if d.quota != 0 && number > d.quota {
                return refused(Refusal::AboveQuota("reservation"));
            }
            store()?;
            cx.set_reservation_phys(dir, number)
        }
        "refquota" => {
            let ds = cx.dataset(head)?;
            let reserved = cx.own_number(dir, "refreservation")?;
            if number != 0 && (number < ds.referenced || number < reserved) {
                return refused(Refusal::BelowUsed("refquota"));
            }
            store()
        }
        "refreservation" => {
            let quota = cx.own_number(dir, "refquota")?;
            if quota != 0 && number > quota {
                return refused(Refusal::AboveQuota("refreservation"));
            }
            cx.charge_refreservation(dir, head, number)?;
            store()
        }
        "filesystem_limit" | "snapshot_limit" => {
            if change.value.is_some() {
                cx.begin_counting(dir)?;
            }
            store()
        }
        _ => store(),
    }
}

/// Sets a property of a head or snapshot to a received value, or clears it. A value that is set
/// here takes precedence. Properties stored in the object set were received with that.
///
/// Changes on disk: as [`set_property`].
///
/// # Errors
/// As [`set_property`].
pub fn set_received(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    dataset: &str,
    change: &PropertyChange,
) -> Result<()> {
    let ds = dsl.by_name(dataset)?;
    if ds.phys.is_snapshot() {
        return match table_of_snapshot(cx, ds.object, change)? {
            0 => Ok(()),
            table => cx.store_received(table, &change.name, change.value.as_ref()),
        };
    }
    if INSIDE.contains(&change.name.as_str()) {
        return Ok(());
    }
    check_change(&ds.name, change)?;
    set_on_head(cx, dsl, &ds, change, PropertyOrigin::Received)
}

/// Sets a property of a dataset that is just being made to a value that came with a stream, unless
/// the pool cannot have it.
pub(super) fn set_received_on_new(
    cx: &DslCx<'_>,
    dir: u64,
    head: u64,
    change: &PropertyChange,
) -> Result<()> {
    let one = std::slice::from_ref(change);
    match check_change("new dataset", change).and_then(|()| check_features(cx, "", one)) {
        Ok(()) => apply(cx, "new dataset", (dir, head), change, PropertyOrigin::Received),
        Err(_) => Ok(()),
    }
}

/// The names of the properties whose values came with a stream.
///
/// # Errors
/// The dataset cannot be read.
pub fn received_properties(dsl: &Dsl, dataset: &Dataset) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let table = dataset.dir.phys.props_zap;
    if table == 0 {
        return Ok(out);
    }
    for entry in Zap::open(&dsl.mos().object(table)?)?.entries() {
        let entry = entry?;
        let name = entry.name.bytes().and_then(|name| std::str::from_utf8(name).ok());
        out.extend(name.and_then(|name| name.strip_suffix(RECEIVED)).map(str::to_owned));
    }
    Ok(out)
}

impl DslCx<'_> {
    /// Sets `reservation` in a directory: what it keeps free and does not use counts above.
    pub(super) fn set_reservation_phys(&self, dir: u64, value: u64) -> Result<()> {
        let mut d = self.dir(dir)?;
        let more = d.used.max(value).wrapping_sub(d.used.max(d.reserved)).cast_signed();
        d.reserved = value;
        self.put_dir(dir, &d)?;
        match d.parent {
            0 => Ok(()),
            _ if more == 0 => Ok(()),
            above => self.charge(above, DslDir::USED_CHILD_RESERVED, Delta::used(more)),
        }
    }

    /// Accounts for a new `refreservation`, before it is stored.
    fn charge_refreservation(&self, dir: u64, head: u64, value: u64) -> Result<()> {
        let unique = self.dataset(head)?.unique;
        let old = self.own_number(dir, "refreservation")?;
        let more = unique.max(value).wrapping_sub(unique.max(old)).cast_signed();
        match more {
            0 => Ok(()),
            n => self.charge(dir, DslDir::USED_REF_RESERVED, Delta::used(n)),
        }
    }

    /// Sets `refreservation`; 0 takes every trace of it away, for a head that is destroyed.
    pub(super) fn set_refreservation(&self, dir: u64, head: u64, value: u64) -> Result<()> {
        self.charge_refreservation(dir, head, value)?;
        let table = self.dir(dir)?.props_zap;
        if value != 0 {
            return self.put(table, "refreservation", value);
        }
        for suffix in ["", INHERIT, RECEIVED] {
            self.remove(table, &format!("refreservation{suffix}"))?;
        }
        Ok(())
    }

    /// Writes a value that came with a stream into a table of properties, or takes it out.
    fn store_received(&self, table: u64, name: &str, value: Option<&StoredValue>) -> Result<()> {
        let key = format!("{name}{RECEIVED}");
        match value {
            None => self.remove(table, &key).map(drop),
            Some(StoredValue::Text(text)) => self.put_text(table, &key, text),
            Some(StoredValue::Number(n)) => self.put(table, &key, *n),
        }?;
        self.put(table, HAS_RECEIVED, 0)
    }

    /// Writes a local value into a table of properties, or removes it. If there are received
    /// properties, removing it also records that the received value does not count.
    pub(super) fn store_property(
        &self,
        table: u64,
        name: &str,
        value: Option<&StoredValue>,
    ) -> Result<()> {
        let inherit = format!("{name}{INHERIT}");
        let hidden = format!("{name}{IUV}");
        let Some(value) = value else {
            self.remove(table, name)?;
            self.remove(table, &hidden)?;
            let received = self.zap(table)?.get(HAS_RECEIVED.as_bytes())?.is_some();
            return if received { self.put(table, &inherit, 0) } else { Ok(()) };
        };
        self.remove(table, &inherit)?;
        match value {
            StoredValue::Text(text) => self.put_text(table, name, text),
            StoredValue::Number(n) if name == "redundant_metadata" && *n >= 2 => {
                // Older software knows only the first two words.
                self.put(table, &hidden, *n)?;
                self.put(table, name, 0)
            }
            StoredValue::Number(n) => {
                self.remove(table, &hidden)?;
                self.put(table, name, *n)
            }
        }
    }
}
