//! Makes sure that a pool holds what the model says.

use super::Tree;
use super::sets::{Model, Set, State};
use engine::inside::pool::UnguardedDatasets as _;
use engine::inside::zpl::FileKind;
use engine::inside::zpl::write::NewKind;
use engine::{Filesystem, Node, Pool, Volume};
use std::collections::BTreeSet;
use testkit::posix::{Content, Kind};

type Same = Result<(), String>;

fn text(e: impl std::fmt::Display) -> String {
    e.to_string()
}

/// Every dataset and snapshot.
pub fn pool(pool: &Pool, model: &Model) -> Same {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for (name, dataset) in pool.dsl().walk() {
        dataset.map_err(text)?;
        if !name.contains('$') && !name.contains('%') {
            found.insert(name);
        }
    }
    let want: BTreeSet<String> = model.sets.keys().cloned().collect();
    if found != want {
        return Err(format!("datasets {found:?}, not {want:?}"));
    }
    model.sets.iter().try_for_each(|(name, s)| set(pool, name, s))
}

/// A dataset and its snapshots, as the pool shows them on disk or in memory.
pub fn set(pool: &Pool, name: &str, set: &Set) -> Same {
    let dsl = pool.dsl();
    let head = dsl.by_name(name).map_err(text)?;
    let snapshots = dsl.snapshots(&head).map_err(text)?;
    let found: Vec<&str> =
        snapshots.iter().map(|s| s.name.split_once('@').map_or("", |(_, n)| n)).collect();
    let want: Vec<&str> = set.snapshots.iter().map(|(n, _)| n.as_str()).collect();
    if found != want {
        return Err(format!("snapshots of {name}: {found:?}, not {want:?}"));
    }
    let origin = dsl.origin(&head.dir).map_err(text)?;
    let origin = origin.as_deref().and_then(|o| o.split_once('@')).map(|(_, n)| n);
    if origin != set.origin.as_deref() {
        return Err(format!("{name} is a clone of {origin:?}, not of {:?}", set.origin));
    }
    if !pool.mos().is_live() {
        state(pool, name, &set.state)?;
    }
    for (snap, then) in &set.snapshots {
        state(pool, &format!("{name}@{snap}"), then)?;
    }
    Ok(())
}

fn state(pool: &Pool, name: &str, want: &State) -> Same {
    let dataset = pool.dsl().by_name(name).map_err(text)?;
    let objset = pool.dsl().objset(&dataset).map_err(text)?;
    match want {
        State::Files(want) => {
            let fs = Filesystem::open(objset).map_err(|e| format!("{name}: {e}"))?;
            tree(&fs, want).map_err(|e| format!("{name}: {e}"))
        }
        State::Volume(want) => {
            let got = Volume::open(&objset).map_err(|e| format!("{name}: {e}"))?;
            volume(&got, want).map_err(|e| format!("{name}: {e}"))
        }
    }
}

pub fn volume(got: &Volume, want: &Content) -> Same {
    want.compare(got.size(), &|at, out| match got.read_at(at, out).map_err(text)? {
        n if n == out.len() => Ok(()),
        n => Err(format!("only {n} bytes could be read")),
    })
}

/// A file system, from its root down.
pub fn tree(fs: &Filesystem, want: &Tree) -> Same {
    let mut seen = BTreeSet::new();
    let mut todo = vec![(want.root, String::from("/"))];
    while let Some((number, path)) = todo.pop() {
        if !seen.insert(number) {
            continue;
        }
        let in_path = |e: String| format!("{path} (object {number}): {e}");
        inode(fs, want, number).map_err(in_path)?;
        if let Kind::Dir(entries) = &want.get(number).kind {
            for (name, child) in entries {
                todo.push((*child, format!("{path}{}/", String::from_utf8_lossy(name))));
            }
        }
    }
    match seen.len() == want.inodes.len() {
        true => Ok(()),
        false => Err("the model has files that no directory has".to_owned()),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Same {
    match got == want {
        true => Ok(()),
        false => Err(format!("{what} is {got:?}, not {want:?}")),
    }
}

fn inode(fs: &Filesystem, tree: &Tree, number: u64) -> Same {
    let want = tree.get(number);
    let got = fs.node(number).map_err(text)?;
    equal("mode", &got.permissions(), &want.mode)?;
    equal("owner", &(got.uid, got.gid), &(want.uid, want.gid))?;
    equal("mtime and ctime", &(got.mtime, got.ctime), &(want.mtime, want.ctime))?;
    equal("xattrs", &got.xattrs().map_err(text)?, &want.xattrs)?;
    match &want.kind {
        Kind::Dir(entries) => directory(&got, tree, entries, want.parent),
        Kind::File(content) => {
            equal("kind", &got.kind(), &FileKind::File)?;
            equal("links", &got.links, &want.links)?;
            content.compare(got.size, &|at, out| match got.read_at(at, out).map_err(text)? {
                n if n == out.len() => Ok(()),
                n => Err(format!("only {n} bytes could be read")),
            })
        }
        Kind::Other(kind) => {
            equal("links", &got.links, &want.links)?;
            match kind {
                NewKind::Symlink(target) => {
                    equal("target", &got.read_link().map_err(text)?, target)
                }
                NewKind::Block(major, minor) | NewKind::Char(major, minor) => {
                    equal("device", &got.device(), &(*major, *minor))
                }
                _ => Ok(()),
            }
        }
    }
}

fn directory(
    got: &Node,
    tree: &Tree,
    entries: &std::collections::BTreeMap<Vec<u8>, u64>,
    parent: u64,
) -> Same {
    equal("kind", &got.kind(), &FileKind::Dir)?;
    let found = got.sorted_entries().map_err(text)?;
    let found: Vec<_> = found.into_iter().map(|e| (e.name, e.object)).collect();
    let mut want: Vec<_> = entries.iter().map(|(n, o)| (n.clone(), *o)).collect();
    want.sort();
    if found != want {
        let differ = found.iter().filter(|e| !want.contains(e)).take(3).collect::<Vec<_>>();
        let missing = want.iter().filter(|e| !found.contains(e)).take(3).collect::<Vec<_>>();
        return Err(format!("entries differ: too many {differ:?}, too few {missing:?}"));
    }
    let dirs = entries.values().filter(|n| tree.get(**n).is_dir()).count() as u64;
    equal("links", &got.links, &(2 + dirs))?;
    equal("size", &got.size, &(2 + entries.len() as u64))?;
    equal("parent", &got.parent, &parent)
}
