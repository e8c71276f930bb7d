//! All datasets of a pool, also those that damage has cut off from the tree.
//!
//! The tree is one way to a dataset: directory, table of children, directory, head, table of
//! snapshots. Any of these may be lost while the dataset itself is whole. It is an object of the
//! MOS like any other, so when something on the way could not be read the MOS is searched from end
//! to end for datasets the tree did not lead to, and for tables that still know a name.

use crate::error::{Error, Result};
use crate::tree::{DEPTH_MAX, Dataset, Dir, Dsl, sort_by_age};
use ondisk::DmuType;
use ondisk::dsl::DslDir;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

impl Dsl {
    /// A head's snapshots, oldest first. One that cannot be read is one error item, and a table
    /// that cannot be read to its end another, under the name `head@?`.
    #[must_use]
    pub fn snapshots_found(&self, head: &Dataset) -> Vec<(String, Result<Dataset>)> {
        let (names, failure) = self.names_found(head.phys.snapnames_zap);
        let (mut lost, mut found) = (Vec::new(), Vec::with_capacity(names.len()));
        for (n, object) in names {
            let name = format!("{}@{n}", head.name);
            match self.dataset(object, name.clone(), &head.dir) {
                Ok(snapshot) => found.push(snapshot),
                Err(e) => lost.push((name, Err(e))),
            }
        }
        sort_by_age(&mut found, head);
        let mut out = lost;
        out.extend(found.into_iter().map(|s| (s.name.clone(), Ok(s))));
        out.extend(failure.map(|e| (format!("{}@?", head.name), Err(e))));
        out
    }

    /// Every head and snapshot of the pool by name, internal ones left out. Datasets that cannot be
    /// read are error items. If there are any, the datasets that the tree no longer leads to
    /// follow, under the names that are still known: `?` and the object's number replace those that
    /// are not.
    #[must_use]
    pub fn datasets(&self) -> Vec<(String, Result<Dataset>)> {
        let mut out: Vec<(String, Result<Dataset>)> = Vec::new();
        for (name, dir) in self.walk() {
            match dir.and_then(|d| self.head(&d)) {
                Ok(Some(head)) => {
                    out.extend(self.snapshots_found(&head));
                    out.push((name, Ok(head)));
                }
                Ok(None) => {}
                Err(e) => out.push((name, Err(e))),
            }
        }
        if out.iter().any(|(_, d)| d.is_err()) {
            let known = out.iter().filter_map(|(_, d)| Some(d.as_ref().ok()?.object)).collect();
            let orphans = self.orphans(&known);
            out.extend(orphans.into_iter().map(|d| (d.name.clone(), Ok(d))));
        }
        out
    }

    /// Datasets in the MOS that are not among the known ones.
    fn orphans(&self, known: &HashSet<u64>) -> Vec<Dataset> {
        let mut names = HashMap::new();
        let mut found = Vec::new();
        for object in self.mos().objects().flatten() {
            let dnode = object.dnode();
            if [DmuType::DSL_DIR_CHILD_MAP, DmuType::DSL_DS_SNAP_MAP].contains(&dnode.kind) {
                let (entries, _) = self.names_found(object.number());
                names.extend(entries.into_iter().map(|(n, o)| (o, n)));
            }
            let number = object.number();
            if dnode.bonus_kind == DmuType::DSL_DATASET && !known.contains(&number) {
                found.push(number);
            }
        }
        let mut out: Vec<_> = found.into_iter().filter_map(|o| self.orphan(o, &names)).collect();
        out.sort_by(|a, b| a.name.cmp(&b.name));
        out
    }

    /// `None` for what is internal, or no dataset after all.
    fn orphan(&self, object: u64, names: &HashMap<u64, String>) -> Option<Dataset> {
        let empty = DslDir::default();
        let nowhere = Dir { object: 0, name: String::new(), phys: empty, has_fields: false };
        let mut dataset = self.dataset(object, String::new(), &Arc::new(nowhere.clone())).ok()?;
        let path = self.path_of(dataset.phys.dir, names)?;
        let dir = self.dir(dataset.phys.dir, path.clone());
        dataset.dir = dir.unwrap_or_else(|_| Arc::new(Dir { name: path.clone(), ..nowhere }));
        dataset.name = match (dataset.phys.is_snapshot(), names.get(&object)) {
            (false, _) => path,
            (true, Some(name)) => format!("{path}@{name}"),
            (true, None) => format!("{path}@?{object}"),
        };
        Some(dataset)
    }

    /// The path of a directory as far as it is known; `None` for internal ones.
    fn path_of(&self, dir: u64, names: &HashMap<u64, String>) -> Option<String> {
        let root = self.root_object();
        let mut parts = Vec::new();
        let mut at = dir;
        while at != root && parts.len() < DEPTH_MAX {
            let name = names.get(&at).cloned().unwrap_or_else(|| format!("?{at}"));
            if name.starts_with(['$', '%']) {
                return None;
            }
            parts.push(name);
            match self.dir(at, String::new()) {
                Ok(d) if d.phys.parent != 0 => at = d.phys.parent,
                Ok(_) => break,
                Err(Error::Dmu(_) | Error::Format { .. }) => {
                    parts.push("?".to_owned());
                    break;
                }
                Err(_) => break,
            }
        }
        parts.push(self.pool().to_owned());
        parts.reverse();
        Some(parts.join("/"))
    }
}
