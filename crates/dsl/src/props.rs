//! Properties of datasets: what `zfs get` shows, value and source.
//!
//! # Theory
//!
//! A property's value is found in the first place that has it:
//!
//! ```text
//! computed   from the dataset, its directory, its key, its object set    source  -
//! stored     snapshot's own table, then the directory's: local, else     source  local, received
//!            received; then (if it is inherited) every directory above   source  inherited from
//! default    the table of properties                                     source  default
//! ```
//!
//! Some rules break the pattern. Limits and reservations are not inherited and count as local
//! when they are set. A mount point is inherited with the path from where it was set. A computed
//! property that does not apply (`origin` of a dataset that is not a clone) is not there at all.
//!
//! Values are the exact texts of `zfs get -p`; front ends shorten them for people.
//! Of a damaged or locked object set, what is read from inside it is left out and nothing else.

mod facts;

use crate::error::{Error, Result};
use crate::kind::DatasetKind;
use crate::property::{Property, Source};
use crate::tree::{Dataset, Dsl};
use dmu::Zap;
use facts::Facts;
use ondisk::mos::master_node;
use ondisk::props::{self, applies};

/// The inputs of properties beside the datasets.
#[derive(Clone, Debug, Default)]
pub struct PropertyContext {
    /// Bytes the pool's normal class can hold without slop space; `None`: not known, `available`
    /// is left out.
    pub pool_size: Option<u64>,
    /// The prefix of mount points (the pool property `altroot`).
    pub altroot: Option<String>,
}

/// A property a dataset of that kind can have.
#[must_use]
pub fn has_property(p: &props::PropertyDesc, kind: DatasetKind, is_snapshot: bool) -> bool {
    if !is_snapshot {
        return p.applies & kind.bit() != 0;
    }
    let heads = p.applies & (applies::FILESYSTEM | applies::VOLUME);
    p.applies & applies::SNAPSHOT != 0 && (heads == 0 || heads & kind.bit() != 0)
}

impl Dsl {
    /// Whether the dataset is a file system or a volume. When its object set cannot be read, its
    /// properties tell: only volumes have a size of their own in their directory's properties.
    #[must_use]
    pub fn kind(&self, dataset: &Dataset) -> DatasetKind {
        let kind = self.objset(dataset).map(|os| os.phys().kind);
        let volume = match kind {
            Ok(kind) => kind == ondisk::ObjsetKind::Zvol,
            Err(_) => self.stored(dataset).is_ok_and(|s| s.number("volsize").is_some()),
        };
        if volume { DatasetKind::Volume } else { DatasetKind::Filesystem }
    }

    /// A property that a file system was made with, and keeps: `utf8only`, `normalization` or
    /// `casesensitivity`, as its number. One of an old version has none of them, which is 0.
    ///
    /// # Errors
    /// It cannot be read, or the dataset is a volume.
    pub fn made_with(&self, dataset: &Dataset, name: &str) -> Result<u64> {
        let table = Zap::open(&self.open_part(dataset)?.object(master_node::OBJECT)?)?;
        Ok(table.get_u64(name)?.unwrap_or(0))
    }

    /// All properties of a file system, volume or snapshot in the order of `zfs get all`: the
    /// native ones, then those users invented.
    ///
    /// # Errors
    /// When the pool's own structures about the dataset cannot be read. The contents of its object
    /// set do not matter: properties that cannot be read there are left out.
    pub fn properties(
        &self,
        dataset: &Dataset,
        context: &PropertyContext,
    ) -> Result<Vec<Property>> {
        let (properties, problems) = self.properties_salvaged(dataset, context);
        match problems.into_iter().next() {
            None => Ok(properties),
            Some(e) => Err(e),
        }
    }

    /// Like [`Self::properties`], in spite of damage: what cannot be read is left out (a stored
    /// property then seems to have its default), and the errors come along.
    #[must_use]
    pub fn properties_salvaged(
        &self,
        dataset: &Dataset,
        context: &PropertyContext,
    ) -> (Vec<Property>, Vec<Error>) {
        let mut problems = Vec::new();
        let facts = Facts::gather(self, dataset, context, &mut problems);
        let snapshot = dataset.is_snapshot();
        let mut out = Vec::new();
        for native in props::DATASET.iter().filter(|p| p.is_visible()) {
            if !has_property(native, facts.kind, snapshot) {
                continue;
            }
            if let Some((value, source)) = facts.value(native) {
                let name = native.name.to_owned();
                let received = facts.stored.received(native);
                out.push(Property { name, value, source, received, native: Some(native) });
            }
        }
        out.extend(facts.stored.user());
        (out, problems)
    }

    /// Those of these properties that are kept as they were set, such as `mountpoint` and
    /// `readonly`, for a dataset of any kind. Nothing is read but what was set: this is for many
    /// datasets at once.
    ///
    /// # Errors
    /// What was set cannot be read.
    pub fn kept_properties(
        &self,
        dataset: &Dataset,
        context: &PropertyContext,
        wanted: &[&str],
    ) -> Result<Vec<Property>> {
        let facts = Facts::of_stored(dataset, context, self.stored(dataset)?);
        let natives = wanted.iter().filter_map(|name| props::find(&props::DATASET, name));
        let found = natives.filter_map(|native| {
            let (value, source) = facts.kept(native)?;
            let received = facts.stored.received(native);
            let name = native.name.to_owned();
            Some(Property { name, value, source, received, native: Some(native) })
        });
        Ok(found.collect())
    }

    /// One property of a dataset by its name; `None` when it has none of that name. Beside those
    /// of [`Self::properties`] also `written@SNAPSHOT` and `written#BOOKMARK`, which count as
    /// local, as in OpenZFS.
    pub fn property(
        &self,
        dataset: &Dataset,
        context: &PropertyContext,
        name: &str,
    ) -> Result<Option<Property>> {
        if let Some(since) = name.strip_prefix("written@") {
            let head = dataset.name.split('@').next().unwrap_or_default();
            let full =
                if since.contains('@') { since.to_owned() } else { format!("{head}@{since}") };
            let Some(snapshot) = there(self.by_name(&full))? else { return Ok(None) };
            let value = self.written_since(dataset, &snapshot)?;
            let property = |v: u64| Property {
                name: name.to_owned(),
                value: v.to_string(),
                source: Source::Local,
                received: None,
                native: props::find(&props::DATASET, "written"),
            };
            return Ok(value.map(property));
        }
        if let Some(since) = name.strip_prefix("written#") {
            let head = dataset.name.split('@').next().unwrap_or_default();
            let full =
                if since.contains('#') { since.to_owned() } else { format!("{head}#{since}") };
            let Some(bookmark) = there(self.bookmark(&full))? else { return Ok(None) };
            let value = self.written_since_bookmark(dataset, &bookmark.phys)?;
            return Ok(value.map(|v| Property {
                name: name.to_owned(),
                value: v.to_string(),
                source: Source::Local,
                received: None,
                native: props::find(&props::DATASET, "written"),
            }));
        }
        let wanted = props::find_dataset(name).map_or(name, |p| p.name);
        Ok(self.properties(dataset, context)?.into_iter().find(|p| p.name == wanted))
    }
}

/// Turns "not found" into `None`: most datasets do not have a snapshot of the others' name.
fn there<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(Error::NoSuchDataset(_)) => Ok(None),
        found => found.map(Some),
    }
}
