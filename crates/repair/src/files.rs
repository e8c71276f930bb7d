//! Repairs of the attributes of files, of directory entries, and of sums by owner.
//!
//! All of it was found by comparing every name with every file, so it is only done here. Names that
//! lead to nothing are taken away and named; files without a name get one in `lost+found`.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use check::{Issue, Location, Report};
use ondisk::{DmuType, spelling};
use pool::Pool;
use pool::UnguardedDatasets as _;
use pool::live::LivePool;
use std::collections::{BTreeMap, BTreeSet};
use zpl::{FileKind, Filesystem, Mend, Time};

/// One thing to be done in a file system.
enum Change {
    /// Numbers of a file.
    Numbers { file: u64, mend: Mend, step: Step },
    /// Names of things that are not files.
    DropNames { dir: u64, object: u64 },
    /// A file without a name.
    Adopt { file: u64 },
    /// Directories take a file for another kind.
    Kind { file: u64 },
    /// A directory, or the delete queue, of which a part cannot be read.
    Table { table: u64 },
    /// A slot that no object can be read from.
    Slot { object: u64 },
    /// A block of dnodes that is lost.
    Dnodes { block: u64 },
    /// A sum by owner.
    Owner { table: u64, key: String, from: u64, to: u64, step: Step },
}

/// The changes of one round, by dataset.
#[derive(Default)]
pub(crate) struct Files(BTreeMap<String, Vec<Change>>);

fn file_of(at: &Location) -> String {
    format!("object {} of {}", at.place.object, at.dataset)
}

/// Table and key of a sum by owner, as `userused@0` names it.
fn owner(text: &str) -> Option<(u64, String)> {
    let (table, id) = text.split_once('@')?;
    let id: u64 = id.parse().ok()?;
    let (kind, prefix) = match table.strip_suffix("objused") {
        Some(kind) => (kind, "obj-"),
        None => (table.strip_suffix("used")?, ""),
    };
    let number = match kind {
        "user" => 1,
        "group" => 2,
        "project" => 3,
        _ => return None,
    };
    Some((number, format!("{prefix}{id:x}")))
}

impl Files {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn decide(pool: &Pool, report: &Report, attempts: &Attempts) -> Self {
        let mut out = Self::default();
        for (dataset, table) in tables(pool, report) {
            out.0.entry(dataset).or_default().push(Change::Table { table });
        }
        for issue in &report.issues {
            if let Some((dataset, change)) = change_for(issue) {
                out.0.entry(dataset).or_default().push(change);
            }
        }
        for (dataset, changes) in &mut out.0 {
            changes.retain(|change| !attempts.has_failed(&change.description(dataset)));
        }
        out.0.retain(|_, changes| !changes.is_empty());
        // Names come and go first: the numbers are judged again when they have.
        for changes in out.0.values_mut() {
            let names = |c: &Change| !matches!(c, Change::Numbers { .. } | Change::Owner { .. });
            if changes.iter().any(names) {
                changes.retain(names);
            }
        }
        out
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        let now = live.rt().wall();
        let now = Time { seconds: now.as_secs().cast_signed(), nanos: now.subsec_nanos().into() };
        for (dataset, changes) in self.0 {
            // A dataset that cannot be opened is left as it is, and the plan has its issues.
            let Ok(fs) = live.undrained_filesystem(&dataset) else { continue };
            for change in changes {
                let what = change.description(&dataset);
                attempts.make(live, &what, || change.make(&fs, &dataset, now))?;
            }
        }
        Ok(())
    }
}

/// Snapshots are not changed, and the MOS has no files.
fn is_of_head(at: &Location) -> bool {
    at.place.objset != 0 && !at.dataset.contains('@')
}

/// The tables that are rebuilt: their datasets and numbers.
fn tables(pool: &Pool, report: &Report) -> BTreeSet<(String, u64)> {
    const KINDS: [DmuType; 2] = [DmuType::DIRECTORY_CONTENTS, DmuType::UNLINKED_SET];
    let mut sets: BTreeMap<String, Option<dmu::Objset>> = BTreeMap::new();
    let mut out = BTreeSet::new();
    for issue in &report.issues {
        let (Issue::BlockLost { at, .. } | Issue::BadStructure { at, .. }) = issue else {
            continue;
        };
        if !is_of_head(at) || at.place.object == 0 {
            continue;
        }
        let open = || pool.dsl().objset(&pool.dsl().by_name(&at.dataset).ok()?).ok();
        let objset = sets.entry(at.dataset.to_string()).or_insert_with(open);
        let object = objset.as_ref().and_then(|objset| objset.object(at.place.object).ok());
        if object.is_some_and(|object| KINDS.contains(&object.dnode().kind)) {
            out.insert((at.dataset.to_string(), at.place.object));
        }
    }
    out
}

/// The change that repairs an issue, and its dataset.
fn change_for(issue: &Issue) -> Option<(String, Change)> {
    let sum = |of: String, from: u64, to: u64| Step::Sum { of, from, to };
    let numbers = |at: &Location, mend: Mend, step: Step| {
        (at.dataset.to_string(), Change::Numbers { file: at.place.object, mend, step })
    };
    Some(match issue {
        Issue::LinkCount { at, stored, counted } => {
            let mend = Mend { links: Some(*counted), ..Mend::default() };
            numbers(at, mend, sum(format!("links of {}", file_of(at)), *stored, *counted))
        }
        Issue::DirectorySize { at, stored, counted } => {
            let mend = Mend { size: Some(*counted), ..Mend::default() };
            numbers(at, mend, sum(format!("entries of {}", file_of(at)), *stored, *counted))
        }
        Issue::WrongParent { at, parent, by } if *by != 0 => {
            let mend = Mend { parent: Some(*by), ..Mend::default() };
            numbers(at, mend, sum(format!("parent of {}", file_of(at)), *parent, *by))
        }
        Issue::DanglingEntry { at, object, .. } => {
            (at.dataset.to_string(), Change::DropNames { dir: at.place.object, object: *object })
        }
        Issue::Orphan { at, .. } => {
            (at.dataset.to_string(), Change::Adopt { file: at.place.object })
        }
        Issue::BadEntry { at, name, .. } if name.is_empty() && at.place.objset != 0 => {
            (at.dataset.to_string(), Change::Kind { file: at.place.object })
        }
        Issue::BadStructure { at, what: "dnode", .. } if is_of_head(at) => {
            (at.dataset.to_string(), Change::Slot { object: at.place.object })
        }
        Issue::BlockLost { at, .. }
            if is_of_head(at) && (at.place.object, at.place.level) == (0, 0) =>
        {
            (at.dataset.to_string(), Change::Dnodes { block: at.place.blkid })
        }
        Issue::OwnerSpace { dataset, owner: text, stored, counted } => {
            let (table, key) = owner(text)?;
            let step = sum(format!("{text} of {dataset}"), *stored, *counted);
            let (from, to) = (*stored, *counted);
            (dataset.to_string(), Change::Owner { table, key, from, to, step })
        }
        _ => return None,
    })
}

impl Change {
    /// The description of the repair.
    fn description(&self, dataset: &str) -> String {
        match self {
            Self::Numbers { file, .. } => format!("the numbers of object {file} of {dataset}"),
            Self::DropNames { dir, object } => {
                format!("names of object {object} in directory {dir} of {dataset}")
            }
            Self::Adopt { file } => format!("the name of object {file} of {dataset}"),
            Self::Kind { file } => format!("the kind of object {file} of {dataset}"),
            Self::Table { table } => format!("the table in object {table} of {dataset}"),
            Self::Slot { object } => format!("object {object} of {dataset}"),
            Self::Dnodes { block } => format!("block {block} of the dnodes of {dataset}"),
            Self::Owner { table, key, .. } => {
                format!("the sum of '{key}' in table {table} of {dataset}")
            }
        }
    }

    fn make(self, fs: &Filesystem, dataset: &str, now: Time) -> zpl::Result<Vec<Step>> {
        Ok(match self {
            Self::Numbers { file, mend, step } => {
                fs.mend(file, mend)?;
                vec![step]
            }
            Self::DropNames { dir, object } => {
                let dir_name = format!("directory {dir} of {dataset}");
                let name = |name: Vec<u8>| Step::NameRemoved {
                    dir: dir_name.clone(),
                    name: spelling::file(&name),
                    object,
                };
                fs.drop_names(dir, object)?.into_iter().map(name).collect()
            }
            Self::Adopt { file } => {
                let name = fs.adopt(file, now)?;
                let name = spelling::file(&name);
                let path = format!("{dataset}:/lost+found/{name}");
                vec![Step::Adopted { file: format!("object {file} of {dataset}"), path }]
            }
            Self::Kind { file } => {
                for dir in directories_of(fs, file)? {
                    fs.mend_kinds(dir, file)?;
                }
                vec![Step::Kind { file: format!("object {file} of {dataset}") }]
            }
            Self::Table { table } => {
                let kept = fs.renew_table(table)?;
                vec![Step::Table { table: format!("object {table} of {dataset}"), kept }]
            }
            Self::Slot { object } => {
                fs.drop_slot(object)?;
                vec![Step::Dropped { what: format!("object {object} of {dataset}") }]
            }
            Self::Dnodes { block } => {
                fs.drop_dnodes(block)?;
                let (first, last) = (block * 32, block * 32 + 31);
                let what = format!("objects {first} to {last} of {dataset}");
                vec![Step::Dropped { what }]
            }
            Self::Owner { table, key, from, to, step } => {
                fs.mend_owner(table, &key, from, to)?;
                vec![step]
            }
        })
    }
}

/// The directories that name a file.
fn directories_of(fs: &Filesystem, file: u64) -> zpl::Result<Vec<u64>> {
    let mut out = Vec::new();
    for object in fs.objset().objects().flatten() {
        let Ok(node) = zpl::Node::from_object(fs, object) else { continue };
        if node.kind() != FileKind::Dir {
            continue;
        }
        let names_it = node.entries()?.flatten().any(|e| e.object == file);
        if names_it {
            out.push(node.number());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_found_in_their_tables() {
        assert_eq!(owner("userused@0"), Some((1, "0".to_owned())));
        assert_eq!(owner("groupobjused@255"), Some((2, "obj-ff".to_owned())));
        assert_eq!(owner("projectused@16"), Some((3, "10".to_owned())));
        assert_eq!(owner("used@1"), None);
        assert_eq!(owner("userused@x"), None);
    }
}
