//! Which datasets a command line means: names, types and depth to file systems, volumes, snapshots
//! and bookmarks, each with its properties.

use super::owners::name_of;
use super::{Selected, Types};
use crate::HostInfo;
use engine::properties::owner_property;
use engine::{Dataset, DatasetKind, Dsl, Error, ErrorKind, NamedBookmark, Pool};
use engine::{Property, PropertyContext, Source};
use std::collections::BTreeSet;

/// The filter of a selection.
pub struct SelectFilter {
    types: Types,
    /// Levels below the named ones; `None`: all.
    depth: Option<usize>,
    /// Named datasets have to be of these types.
    is_strict: bool,
}

impl SelectFilter {
    /// As a verb's options say: `depth` is that of `-d`, and `others` are the types without `-t`.
    #[must_use]
    pub fn new(
        types: Option<Types>,
        is_recursive: bool,
        depth: Option<usize>,
        others: Types,
    ) -> Self {
        // Of a file system named alone, `-t snapshot` means its snapshots.
        let below = matches!(types, Some(Types::SNAPSHOT | Types::BOOKMARK));
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
        Self { types: Types::FILESYSTEM, depth: None, is_strict: false }
    }

    fn refuses(&self, kind: Types) -> bool {
        self.is_strict && !self.types.has(kind)
    }
}

/// Why a requested dataset is not among those found.
pub enum Missed {
    /// The dataset of this name is of another type than those wanted.
    OtherType(String),
    /// A named dataset cannot be read.
    Unreadable(Error),
    /// Something of this name below it cannot be read.
    Below(String, Error),
}

/// The datasets of a name, and the failures.
#[derive(Default)]
pub struct Selection {
    /// In the order of the walk.
    pub found: Vec<Selected>,
    /// The failures.
    pub missed: Vec<Missed>,
}

/// Finds the datasets of one pool.
pub struct Finder<'a> {
    pool: &'a Pool,
    wanted: &'a SelectFilter,
    /// Properties that are computed on request: they are not among the ordinary ones.
    since: &'a [String],
    context: PropertyContext,
    mounted: BTreeSet<String>,
    host: &'a dyn HostInfo,
}

impl<'a> Finder<'a> {
    /// `size` is that of the pool in bytes; `since` are properties that are computed on request;
    /// `mounted` are the names of the file systems that are mounted; `host` knows users and groups.
    #[must_use]
    pub fn new(
        pool: &'a Pool,
        size: u64,
        wanted: &'a SelectFilter,
        since: &'a [String],
        mounted: BTreeSet<String>,
        host: &'a dyn HostInfo,
    ) -> Self {
        let altroot = pool.altroot().map(str::to_owned);
        let context = PropertyContext { pool_size: Some(size), altroot };
        Self { pool, wanted, since, context, mounted, host }
    }

    fn dsl(&self) -> &Dsl {
        self.pool.dsl()
    }

    /// Selects the datasets of `name`.
    #[must_use]
    pub fn named(&self, name: &str) -> Selection {
        let kind = match name.find(['@', '#']).and_then(|at| name.as_bytes().get(at)) {
            Some(b'@') => Types::SNAPSHOT,
            Some(_) => Types::BOOKMARK,
            None => Types::HEADS,
        };
        let mut out = Selection::default();
        if self.wanted.refuses(kind) {
            out.missed.push(Missed::OtherType(name.to_owned()));
        } else if let Err(e) = self.try_named(name, &mut out) {
            out.missed.push(Missed::Unreadable(e));
        }
        out
    }

    fn try_named(&self, name: &str, out: &mut Selection) -> engine::Result<()> {
        let guard = self.pool.lock_datasets();
        if name.contains('#') {
            let bookmark = self.dsl().bookmark(name)?;
            return self.add_bookmark(&bookmark, out);
        }
        if name.contains('@') {
            let snapshot = self.dsl().by_name(name)?;
            return self.add(&snapshot, Types::SNAPSHOT, out);
        }
        self.dsl().dir_by_name(name)?;
        let depth_of = |n: &str| n.matches('/').count();
        let (base, below) = (depth_of(name), format!("{name}/"));
        let all = self.dsl().walk();
        drop(guard);
        for (dir_name, dir) in all {
            let depth = depth_of(&dir_name).saturating_sub(base);
            let inside = dir_name == name || dir_name.starts_with(&below);
            if !inside || self.wanted.depth.is_some_and(|d| depth > d) {
                continue;
            }
            // One dataset after the other: syncs do not wait for all of them.
            let guard = self.pool.lock_datasets();
            let dir = if guard.is_some() { self.dsl().dir_by_name(&dir_name) } else { dir };
            let done = match dir.and_then(|d| self.dsl().head(&d)).map_err(Error::from) {
                Ok(Some(head)) => self.add_head(&head, depth, out),
                Ok(None) => continue,
                // It was destroyed or renamed just now.
                Err(e) if guard.is_some() && *e.kind() == ErrorKind::NotFound => continue,
                Err(e) => Err(e),
            };
            if let Err(e) = done {
                out.missed.push(Missed::Below(dir_name, e));
            }
        }
        Ok(())
    }

    fn add_head(&self, head: &Dataset, depth: usize, out: &mut Selection) -> engine::Result<()> {
        let types = self.wanted.types;
        let kind = match self.dsl().kind(head) {
            DatasetKind::Filesystem => Types::FILESYSTEM,
            DatasetKind::Volume => Types::VOLUME,
        };
        if types.has(kind) {
            self.add(head, kind, out)?;
        } else if self.wanted.refuses(kind) {
            out.missed.push(Missed::OtherType(head.name.clone()));
        }
        if self.wanted.depth.is_some_and(|d| depth >= d) {
            return Ok(());
        }
        if types.has(Types::SNAPSHOT) {
            for (name, snapshot) in self.dsl().snapshots_found(head) {
                match snapshot {
                    Ok(snapshot) => self.add(&snapshot, Types::SNAPSHOT, out)?,
                    Err(e) => out.missed.push(Missed::Below(name, e.into())),
                }
            }
        }
        if types.has(Types::BOOKMARK) {
            for bookmark in self.dsl().bookmarks(head)? {
                self.add_bookmark(&bookmark, out)?;
            }
        }
        Ok(())
    }

    fn add(&self, dataset: &Dataset, kind: Types, out: &mut Selection) -> engine::Result<()> {
        let mut properties = self.dsl().properties(dataset, &self.context)?;
        for name in self.since {
            let is_called = |kind, id, name: &str| name_of(self.host, kind, id) == Some(name);
            let made = match owner_property(self.dsl(), dataset, name, &is_called) {
                None => self.dsl().property(dataset, &self.context, name)?,
                owned => owned,
            };
            properties.extend(made);
        }
        // A process that mounts holds the pool, or only reads it: what is mounted of one that is
        // looked at elsewhere is dead.
        if kind == Types::FILESYSTEM {
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

    fn add_bookmark(&self, b: &NamedBookmark, out: &mut Selection) -> engine::Result<()> {
        out.found.push(Selected {
            name: b.name.clone(),
            pool: self.pool.name().to_owned(),
            kind: Types::BOOKMARK,
            create_txg: b.phys.creation_txg,
            properties: self.dsl().bookmark_properties(b)?,
        });
        Ok(())
    }
}
