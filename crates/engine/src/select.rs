//! Which datasets a request means: names, types and depth to file systems, volumes, snapshots and
//! bookmarks, each with its properties.

use crate::error::{Error, ErrorKind, Result};
use crate::properties::owner_property;
use dsl::{Dataset, DatasetKind, NamedBookmark, Property, PropertyContext, Source};
use ondisk::props::{self, applies};
use pool::{Datasets, Pool};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zpl::SpaceKind;

/// Types of datasets; a set of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DatasetTypes(u8);

impl DatasetTypes {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// File systems.
    pub const FILESYSTEM: Self = Self(applies::FILESYSTEM);
    /// Snapshots.
    pub const SNAPSHOT: Self = Self(applies::SNAPSHOT);
    /// Volumes.
    pub const VOLUME: Self = Self(applies::VOLUME);
    /// Bookmarks.
    pub const BOOKMARK: Self = Self(applies::BOOKMARK);
    /// File systems and volumes.
    pub const HEADS: Self = Self(Self::FILESYSTEM.0 | Self::VOLUME.0);
    /// All there are.
    pub const ALL: Self = Self(Self::HEADS.0 | Self::SNAPSHOT.0 | Self::BOOKMARK.0);

    /// One of `other` is among these.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A selected dataset.
#[derive(Debug, Serialize, Deserialize)]
pub struct Selected {
    /// Its name.
    pub name: String,
    /// The name of its pool.
    pub pool: String,
    /// Its type.
    pub kind: DatasetTypes,
    /// The txg in which it was made.
    pub create_txg: u64,
    /// Its properties, also those that were requested by name.
    #[serde(with = "properties")]
    pub properties: Vec<Property>,
}

impl Selected {
    /// A property by name or heading; `None` when it has none of that name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        let wanted = props::find_dataset(name).map_or(name, |p| p.name);
        self.properties.iter().find(|p| p.name == wanted)
    }
}

/// Properties between the process that holds a pool and the one that shows them.
mod properties {
    use super::{Deserialize, Property, Serialize, Source, props};
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "Source")]
    enum SourceForm {
        None,
        Default,
        Local,
        Inherited(String),
        Received,
        Temporary,
    }

    #[derive(Serialize, Deserialize)]
    struct Form {
        name: String,
        value: String,
        #[serde(with = "SourceForm")]
        source: Source,
        received: Option<String>,
        /// The name in the table of OpenZFS's properties, of one that is there.
        native: Option<String>,
    }

    pub(super) fn serialize<S: Serializer>(all: &[Property], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|p| Form {
            name: p.name.clone(),
            value: p.value.clone(),
            source: p.source.clone(),
            received: p.received.clone(),
            native: p.native.map(|native| native.name.to_owned()),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Property>, D::Error> {
        let property = |form: Form| Property {
            name: form.name,
            value: form.value,
            source: form.source,
            received: form.received,
            native: form.native.and_then(|name| props::find(&props::DATASET, &name)),
        };
        Ok(Vec::<Form>::deserialize(from)?.into_iter().map(property).collect())
    }
}

/// The filter of a selection.
#[derive(Clone, Copy, Debug)]
pub struct SelectFilter {
    types: DatasetTypes,
    /// Levels below the named ones; `None`: all.
    depth: Option<usize>,
    /// Named datasets have to be of these types.
    is_strict: bool,
}

impl SelectFilter {
    /// What is named, and with `is_recursive` as many levels below it as `depth` says, or all.
    /// Without `types` it is what is of the types `others`.
    #[must_use]
    pub fn new(
        types: Option<DatasetTypes>,
        is_recursive: bool,
        depth: Option<usize>,
        others: DatasetTypes,
    ) -> Self {
        // Of a file system named alone, snapshots as the type mean its own.
        let below = matches!(types, Some(DatasetTypes::SNAPSHOT | DatasetTypes::BOOKMARK));
        let depth = match (is_recursive, below) {
            (true, _) => depth,
            (false, true) => Some(1),
            (false, false) => Some(0),
        };
        let is_strict = types.is_some() && !is_recursive && depth == Some(0);
        Self { types: types.unwrap_or(others), depth, is_strict }
    }

    /// All file systems, whatever is named.
    #[must_use]
    pub const fn filesystems() -> Self {
        Self { types: DatasetTypes::FILESYSTEM, depth: None, is_strict: false }
    }

    fn refuses(&self, kind: DatasetTypes) -> bool {
        self.is_strict && !self.types.has(kind)
    }
}

/// Why a requested dataset is not among those found.
#[derive(Debug)]
pub enum Missed {
    /// The dataset of this name is of another type than those wanted.
    OtherType(String),
    /// A named dataset cannot be read.
    Unreadable(Error),
    /// Something of this name below it cannot be read.
    Below(String, Error),
}

/// The datasets of a name, and the failures.
#[derive(Debug, Default)]
pub struct Selection {
    /// In the order of the walk.
    pub found: Vec<Selected>,
    /// The failures.
    pub missed: Vec<Missed>,
}

/// Without names of owners: they are known by their numbers.
fn no_id(_: SpaceKind, _: &str) -> Option<u64> {
    None
}

/// Selects datasets of one pool.
///
/// ```
/// use engine::select::{DatasetTypes, Select, SelectFilter};
/// use engine::{Create, NewPool};
///
/// let pool = NewPool::new("tank").memory(128 << 20).create()?;
/// Create::filesystem("tank/a")?.run(&pool)?;
/// let wanted = SelectFilter::new(None, true, None, DatasetTypes::HEADS);
/// let selection = Select::new(pool.view(), wanted).named("tank");
/// let names: Vec<_> = selection.found.iter().map(|found| found.name.as_str()).collect();
/// assert_eq!((names, selection.missed.len()), (vec!["tank", "tank/a"], 0));
/// assert_eq!(selection.found[1].property("mounted").unwrap().value, "no");
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Select<'a> {
    pool: &'a Pool,
    wanted: SelectFilter,
    since: &'a [String],
    context: PropertyContext,
    mounted: BTreeSet<String>,
    id_of: &'a dyn Fn(SpaceKind, &str) -> Option<u64>,
}

impl<'a> Select<'a> {
    /// The datasets that `wanted` lets through.
    #[must_use]
    pub fn new(pool: &'a Pool, wanted: SelectFilter) -> Self {
        let altroot = pool.altroot().map(str::to_owned);
        let context = PropertyContext { pool_size: None, altroot };
        let mounted = BTreeSet::new();
        Self { pool, wanted, since: &[], context, mounted, id_of: &no_id }
    }

    /// With properties that depend on how many bytes the pool has ([`PoolSpace::usable`]).
    ///
    /// [`PoolSpace::usable`]: crate::pools::PoolSpace::usable
    #[must_use]
    pub fn in_size(mut self, size: u64) -> Self {
        self.context.pool_size = Some(size);
        self
    }

    /// With these properties beside the ordinary ones: those that are computed on request.
    /// `id_of` is the number of an owner of a kind by its name.
    #[must_use]
    pub fn with(
        mut self,
        properties: &'a [String],
        id_of: &'a dyn Fn(SpaceKind, &str) -> Option<u64>,
    ) -> Self {
        (self.since, self.id_of) = (properties, id_of);
        self
    }

    /// The file systems of these names are mounted.
    #[must_use]
    pub fn mounted(mut self, names: BTreeSet<String>) -> Self {
        self.mounted = names;
        self
    }

    /// Selects the datasets of `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Selection {
        let kind = match name.find(['@', '#']).and_then(|at| name.as_bytes().get(at)) {
            Some(b'@') => DatasetTypes::SNAPSHOT,
            Some(_) => DatasetTypes::BOOKMARK,
            None => DatasetTypes::HEADS,
        };
        let mut out = Selection::default();
        if self.wanted.refuses(kind) {
            out.missed.push(Missed::OtherType(name.to_owned()));
        } else if let Err(e) = self.try_named(name, &mut out) {
            out.missed.push(Missed::Unreadable(e));
        }
        out
    }

    fn try_named(&self, name: &str, out: &mut Selection) -> Result<()> {
        let datasets = self.pool.datasets();
        if name.contains('#') {
            let bookmark = datasets.bookmark(name)?;
            return self.add_bookmark(&datasets, &bookmark, out);
        }
        if name.contains('@') {
            let snapshot = datasets.by_name(name)?;
            return self.add(&datasets, &snapshot, DatasetTypes::SNAPSHOT, out);
        }
        datasets.dir_by_name(name)?;
        let depth_of = |n: &str| n.matches('/').count();
        let (base, below) = (depth_of(name), format!("{name}/"));
        let all = datasets.walk();
        drop(datasets);
        for (dir_name, dir) in all {
            let depth = depth_of(&dir_name).saturating_sub(base);
            let inside = dir_name == name || dir_name.starts_with(&below);
            if !inside || self.wanted.depth.is_some_and(|d| depth > d) {
                continue;
            }
            // One dataset after the other: syncs do not wait for all of them.
            let datasets = self.pool.datasets();
            let can_change = datasets.can_change();
            let dir = if can_change { datasets.dir_by_name(&dir_name) } else { dir };
            let done = match dir.and_then(|d| datasets.head(&d)).map_err(Error::from) {
                Ok(Some(head)) => self.add_head(&datasets, &head, depth, out),
                Ok(None) => continue,
                // It was destroyed or renamed just now.
                Err(e) if can_change && *e.kind() == ErrorKind::NotFound => continue,
                Err(e) => Err(e),
            };
            if let Err(e) = done {
                out.missed.push(Missed::Below(dir_name, e));
            }
        }
        Ok(())
    }

    fn add_head(
        &self,
        datasets: &Datasets<'_>,
        head: &Dataset,
        depth: usize,
        out: &mut Selection,
    ) -> Result<()> {
        let types = self.wanted.types;
        let kind = match datasets.kind(head) {
            DatasetKind::Filesystem => DatasetTypes::FILESYSTEM,
            DatasetKind::Volume => DatasetTypes::VOLUME,
        };
        if types.has(kind) {
            self.add(datasets, head, kind, out)?;
        } else if self.wanted.refuses(kind) {
            out.missed.push(Missed::OtherType(head.name.clone()));
        }
        if self.wanted.depth.is_some_and(|d| depth >= d) {
            return Ok(());
        }
        if types.has(DatasetTypes::SNAPSHOT) {
            for (name, snapshot) in datasets.snapshots_found(head) {
                match snapshot {
                    Ok(snapshot) => self.add(datasets, &snapshot, DatasetTypes::SNAPSHOT, out)?,
                    Err(e) => out.missed.push(Missed::Below(name, e.into())),
                }
            }
        }
        if types.has(DatasetTypes::BOOKMARK) {
            for bookmark in datasets.bookmarks(head)? {
                self.add_bookmark(datasets, &bookmark, out)?;
            }
        }
        Ok(())
    }

    fn add(
        &self,
        datasets: &Datasets<'_>,
        dataset: &Dataset,
        kind: DatasetTypes,
        out: &mut Selection,
    ) -> Result<()> {
        let mut properties = datasets.properties(dataset, &self.context)?;
        for name in self.since {
            let made = match owner_property(datasets, dataset, name, self.id_of) {
                None => datasets.property(dataset, &self.context, name)?,
                owned => owned,
            };
            properties.extend(made);
        }
        // A process that mounts holds the pool, or only reads it: what is mounted of one that is
        // looked at elsewhere is dead.
        if kind == DatasetTypes::FILESYSTEM {
            let value = if self.mounted.contains(&dataset.name) { "yes" } else { "no" };
            match properties.iter_mut().find(|p| p.name == "mounted") {
                Some(property) => value.clone_into(&mut property.value),
                None => {
                    properties.extend(Property::native("mounted", value.to_owned(), Source::None));
                }
            }
        }
        out.found.push(Selected {
            name: dataset.name.clone(),
            pool: self.pool.name().to_owned(),
            kind,
            create_txg: dataset.phys.creation_txg,
            properties,
        });
        Ok(())
    }

    fn add_bookmark(
        &self,
        datasets: &Datasets<'_>,
        b: &NamedBookmark,
        out: &mut Selection,
    ) -> Result<()> {
        out.found.push(Selected {
            name: b.name.clone(),
            pool: self.pool.name().to_owned(),
            kind: DatasetTypes::BOOKMARK,
            create_txg: b.phys.creation_txg,
            properties: datasets.bookmark_properties(b)?,
        });
        Ok(())
    }
}
