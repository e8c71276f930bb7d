//! Properties as they are stored, along the line of inheritance.

use crate::error::{Error, Result};
use crate::property::{Property, Source};
use crate::tree::{Dataset, Dsl};
use dmu::{Objset, Zap, ZapEntry};
use ondisk::dsl::prop_suffix::{INHERIT, IUV, RECEIVED};
use ondisk::props::{self, DATASET, ValueKind};
use ondisk::spelling;
use std::collections::HashMap;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// A number, or the number of a word.
    Number(u64),
    /// A text.
    Text(String),
}

impl StoredValue {
    fn of(entry: &ZapEntry) -> Option<Self> {
        match entry.value_text() {
            Some(t) => Some(Self::Text(String::from_utf8_lossy(t).into_owned())),
            None => entry.u64().map(Self::Number),
        }
    }

    /// The text of `zfs get -p`.
    #[must_use]
    pub fn text(&self, native: Option<&props::PropertyDesc>) -> String {
        match (self, native) {
            (Self::Text(t), _) => t.clone(),
            (Self::Number(n), Some(p)) => match (p.kind, p.word(*n)) {
                (ValueKind::Index(..), Some(word)) => word.to_owned(),
                _ => n.to_string(),
            },
            (Self::Number(n), None) => n.to_string(),
        }
    }
}

/// The stored properties of a dataset, nearest first.
#[derive(Clone, Debug, Default)]
pub struct StoredProperties {
    values: Vec<(String, StoredValue, Source)>,
    index: HashMap<String, usize>,
    received: HashMap<String, StoredValue>,
    received_names: Vec<String>,
}

/// One table on the way up.
struct Level {
    /// Object of the table in the MOS; 0: none.
    table: u64,
    /// Name of the dataset it belongs to.
    at: String,
    /// It is above the dataset: only what is inherited counts.
    above: bool,
}

impl StoredProperties {
    /// The value in effect, and where it comes from.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&StoredValue, &Source)> {
        let (_, value, source) = self.values.get(*self.index.get(name)?)?;
        Some((value, source))
    }

    /// The value in effect, when it is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some((StoredValue::Number(n), _)) => Some(*n),
            _ => None,
        }
    }

    /// The dataset's own values: name and value of each property that was set or received and is in
    /// effect, in the order of its table.
    pub fn own(&self) -> impl Iterator<Item = (&str, &StoredValue)> {
        let own = |source: &Source| matches!(source, Source::Local | Source::Received);
        let own = self.values.iter().filter(move |(_, _, source)| own(source));
        own.map(|(name, value, _)| (name.as_str(), value))
    }

    /// The received values, in effect or not, in the order of the table.
    pub fn all_received(&self) -> impl Iterator<Item = (&str, &StoredValue)> {
        let found = |name: &String| self.received.get_key_value(name);
        self.received_names.iter().filter_map(found).map(|(name, value)| (name.as_str(), value))
    }

    /// Text of the value that came with a stream.
    pub(crate) fn received(&self, native: &props::PropertyDesc) -> Option<String> {
        self.received.get(native.name).map(|v| v.text(Some(native)))
    }

    /// The properties users invented, in stored order.
    pub(crate) fn user(&self) -> impl Iterator<Item = Property> + '_ {
        let user = self.values.iter().filter(|(n, _, _)| n.contains(':'));
        user.map(|(name, value, source)| Property {
            name: name.clone(),
            value: value.text(None),
            source: source.clone(),
            received: self.received.get(name).map(|v| v.text(None)),
            native: None,
        })
    }

    fn add_level(&mut self, table: &Zap, level: &Level, snapshot: bool) -> Result<()> {
        let source = match level.above {
            true => Source::Inherited(level.at.clone()),
            false => Source::Local,
        };
        for entry in table.entries() {
            let entry = entry?;
            let Some(key) = entry.name.bytes() else { continue };
            let Some(value) = StoredValue::of(&entry) else { continue };
            let end = key.iter().position(|b| *b == b'$').unwrap_or(key.len());
            let (bare, suffix) = key.split_at(end);
            let with = |suffix: &str| table.get(&[bare, suffix.as_bytes()].concat());
            // A name that no property can have is escaped so that it fits in one cell.
            let name = spelling::name(bare);
            let is_received = suffix == RECEIVED.as_bytes();
            let source = match suffix {
                b"" => source.clone(),
                _ if is_received => {
                    if !level.above {
                        self.received.insert(name.clone(), value.clone());
                        self.received_names.push(name.clone());
                    }
                    let covered = with("")?.is_some();
                    let refused = with(INHERIT)?.is_some();
                    if covered || refused {
                        continue;
                    }
                    if level.above { source.clone() } else { Source::Received }
                }
                _ => continue,
            };
            let value = match with(IUV)? {
                Some(e) if suffix.is_empty() => user_value(&name, &e).unwrap_or(value),
                _ => value,
            };
            if self.index.contains_key(&name) || !counts(&name, level.above, snapshot) {
                continue;
            }
            self.index.insert(name.clone(), self.values.len());
            self.values.push((name, value, source));
        }
        Ok(())
    }
}

/// The value a user set where older versions would not know its word: those find the default under
/// the plain name, as with `redundant_metadata=none`.
fn user_value(name: &str, entry: &ZapEntry) -> Option<StoredValue> {
    let known = props::find(&DATASET, name).and_then(|p| p.word(entry.u64()?));
    known.and_then(|_| StoredValue::of(entry))
}

/// A value found there means something for the dataset.
fn counts(name: &str, above: bool, snapshot: bool) -> bool {
    match props::find(&DATASET, name) {
        // Names this program does not know are of a newer version; only users' names have a colon.
        None => name.contains(':'),
        Some(p) => {
            let fits = !snapshot || p.applies & props::applies::SNAPSHOT != 0;
            fits && (!above || p.is_inheritable())
        }
    }
}

impl Dsl {
    /// The stored properties of a dataset, its own and inherited.
    pub fn stored(&self, dataset: &Dataset) -> Result<StoredProperties> {
        let snapshot = dataset.is_snapshot();
        let mut levels = Vec::new();
        if snapshot {
            let at = dataset.name.clone();
            levels.push(Level { table: dataset.phys.props, at, above: false });
        }
        for dir in self.ancestry(&dataset.dir)? {
            let above = snapshot || dir.object != dataset.dir.object;
            levels.push(Level { table: dir.phys.props_zap, at: dir.name, above });
        }
        let mut out = StoredProperties::default();
        for level in levels.iter().filter(|l| l.table != 0) {
            let table = Zap::open(&self.mos().object(level.table)?).map_err(Error::from)?;
            out.add_level(&table, level, snapshot)?;
        }
        Ok(out)
    }

    /// The number a table of properties has of its own for `name`, set here or received; what is
    /// inherited is left aside.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn own_number(&self, table: u64, name: &str) -> Result<Option<u64>> {
        own_number(self.mos(), table, name)
    }
}

/// The number a table of properties has of its own for `name`: local, or else received.
pub(crate) fn own_number(mos: &Objset, table: u64, name: &str) -> Result<Option<u64>> {
    if table == 0 {
        return Ok(None);
    }
    let table = Zap::open(&mos.object(table)?)?;
    let local = table.get(name.as_bytes())?;
    if let Some(entry) = local {
        return Ok(entry.u64());
    }
    if table.get(format!("{name}{INHERIT}").as_bytes())?.is_some() {
        return Ok(None);
    }
    let received = table.get(format!("{name}{RECEIVED}").as_bytes())?;
    Ok(received.and_then(|e| e.u64()))
}
