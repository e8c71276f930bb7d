//! A tree of vdevs with one side more or less, as configurations.
//!
//! # Theory
//!
//! Three kinds of vdevs hold the same on each of their sides: a mirror, a *replacing* vdev, where
//! one device takes another's place, and a *spare* vdev, where a hot spare stands in. A side that
//! comes where there is no such vdev makes one around the leaf:
//!
//! ```text
//! raidz                          raidz
//!  |- a                           |- a
//!  |- b      replace b by c       |- replacing
//!  |- d      ------------->       |   |- b
//!                                 |   |- c
//!            <-------------       |- d
//!           c is taken off
//! ```
//!
//! The new vdev takes the leaf's number; at the top of the tree it also takes what belongs to a
//! top-level vdev, its space and its tables. When one side is left, that side takes all of it back.
//! A replacing vdev within a mirror is a vdev of its own, so that it is known which side goes.

use super::config::{Builder, FIRST_TXG, set_text, set_u64, unset};
use crate::error::{Error, Result};
use crate::refusal::{DeviceFault, VdevFault};
use ondisk::config::{VdevConfig, VdevKind};
use ondisk::nvlist::NvList;

/// Members that a top-level vdev has and a side has not.
const OF_TOPS: [&str; 12] = [
    "metaslab_array",
    "metaslab_shift",
    "ashift",
    "asize",
    "is_log",
    "alloc_bias",
    "com.delphix:vdev_zap_top",
    "removing",
    "non_allocating",
    "com.delphix:indirect_object",
    "com.delphix:indirect_births",
    "com.delphix:prev_indirect_vdev",
];

/// What the path of a device ends with while it is replaced by another at the same path, as in
/// OpenZFS: so that each has a name of its own.
const REPLACED: &str = "/old";

/// What a device is put beside another for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttachKind {
    /// To hold the same from now on.
    Mirror,
    /// To take its place.
    Replacing,
    /// To stand in for it, as a hot spare.
    Spare,
}

impl AttachKind {
    fn kind(self) -> VdevKind {
        match self {
            Self::Mirror => VdevKind::Mirror,
            Self::Replacing => VdevKind::Replacing,
            Self::Spare => VdevKind::Spare,
        }
    }
}

pub(super) fn bad(e: &dyn std::fmt::Display) -> Error {
    Error::Inconsistent { what: e.to_string() }
}

/// The top-level vdev at or above a leaf.
pub(super) fn top_of<'a>(pool: &str, root: &'a VdevConfig, leaf: u64) -> Result<&'a VdevConfig> {
    let mut tops = root.children.iter();
    let top = tops.find(|top| top.walk().any(|v| v.guid == leaf && v.kind.is_leaf()));
    top.ok_or_else(|| Error::refused(pool, DeviceFault::NotInPool))
}

/// The vdev that has this one as a child.
pub(super) fn parent_of(root: &VdevConfig, guid: u64) -> Option<&VdevConfig> {
    root.walk().find(|v| v.children.iter().any(|c| c.guid == guid))
}

/// Numbers children from 0.
fn numbered(mut children: Vec<VdevConfig>) -> ondisk::Result<Vec<VdevConfig>> {
    (0u64..).zip(&mut children).try_for_each(|(id, child)| set_u64(child, "id", id))?;
    Ok(children)
}

/// `to` in the place of `from`: with its number, and what it has as a top-level vdev.
fn in_place_of(from: &VdevConfig, mut to: NvList) -> ondisk::Result<VdevConfig> {
    let stored = from.to_nvlist();
    for name in ["id"].iter().chain(&OF_TOPS) {
        if let Some(pair) = stored.pairs.iter().find(|p| p.name == name.as_bytes()) {
            to.set(name, pair.value.clone());
        }
    }
    // The class stands in the vdev's table, not in every stored list.
    Ok(VdevConfig { alloc_bias: from.alloc_bias.clone(), ..VdevConfig::decode(&to)? })
}

/// A vdev of this kind in the place of a leaf, with it and another device as its sides.
fn around(leaf: &VdevConfig, kind: &VdevKind, new: &VdevConfig, guid: u64) -> Result<VdevConfig> {
    let mut side = leaf.clone();
    unset(&mut side, &OF_TOPS).map_err(|e| bad(&e))?;
    side.alloc_bias = None;
    if let Some(path) = side.path.clone().filter(|path| new.path.as_ref() == Some(path))
        && *kind == VdevKind::Replacing
    {
        set_text(&mut side, "path", &format!("{path}{REPLACED}")).map_err(|e| bad(&e))?;
    }
    let sides = numbered(vec![side, new.clone()]).map_err(|e| bad(&e))?;
    let vdev = Builder::new().text("type", kind.name()).u64("id", leaf.id).u64("guid", guid);
    let vdev = vdev.u64("create_txg", leaf.create_txg.unwrap_or(FIRST_TXG));
    let lists = sides.iter().map(VdevConfig::to_nvlist).collect();
    in_place_of(leaf, vdev.lists("children", lists).done()).map_err(|e| bad(&e))
}

/// The tree with another vdev in the place of the one with this guid; `None` when there is none.
/// The depth of a configuration is bounded.
fn with_other(vdev: &VdevConfig, guid: u64, other: &VdevConfig) -> Option<VdevConfig> {
    if vdev.guid == guid {
        return Some(other.clone());
    }
    let changed = vdev.children.iter().enumerate();
    let (at, child) = changed
        .into_iter()
        .find_map(|(at, child)| with_other(child, guid, other).map(|changed| (at, changed)))?;
    let mut vdev = vdev.clone();
    *vdev.children.get_mut(at)? = child;
    Some(vdev)
}

/// The tree with `new` beside a leaf; `guid` is for a vdev that has to be made around both.
pub(super) fn with_child(
    pool: &str,
    root: &VdevConfig,
    leaf: u64,
    (new, how): (&VdevConfig, AttachKind),
    guid: u64,
) -> Result<VdevConfig> {
    let missing = || Error::refused(pool, DeviceFault::NotInPool);
    let parent = parent_of(root, leaf).ok_or_else(missing)?;
    let old = parent.children.iter().find(|c| c.guid == leaf).ok_or_else(missing)?;
    // A distributed spare that stands in for nothing is a child as any other.
    let is_child = matches!(old.kind, VdevKind::DraidSpare { .. }) && !old.is_spare;
    if !old.kind.has_device() && !is_child {
        return Err(Error::refused(pool, VdevFault::AttachToGroup));
    }
    let is_at_top = matches!(parent.kind, VdevKind::Root);
    if how == AttachKind::Mirror && parent.kind != VdevKind::Mirror && !is_at_top {
        return Err(Error::refused(pool, VdevFault::AttachBelow));
    }
    // A spare that stands in is relieved by another spare, or by the device that it stands in for.
    if old.is_spare && parent.kind == VdevKind::Spare && how != AttachKind::Spare {
        return Err(Error::refused(pool, VdevFault::AttachToSpare));
    }
    let changed = if parent.kind == how.kind() {
        let all = parent.children.iter().chain([new]).cloned().collect();
        let children = numbered(all).map_err(|e| bad(&e))?;
        VdevConfig { children, ..parent.clone() }
    } else {
        around(old, &how.kind(), new, guid)?
    };
    let place = if parent.kind == how.kind() { parent.guid } else { old.guid };
    with_other(root, place, &changed).ok_or_else(missing)
}

/// The tree without a side. The last spare that stands in for nothing any more is a device as any.
pub(super) fn without_child(pool: &str, root: &VdevConfig, leaf: u64) -> Result<VdevConfig> {
    let no_sides = || Error::refused(pool, VdevFault::NoSides);
    let parent = parent_of(root, leaf).ok_or_else(no_sides)?;
    if !matches!(parent.kind, VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare) {
        return Err(no_sides());
    }
    let left: Vec<VdevConfig> =
        parent.children.iter().filter(|c| c.guid != leaf).cloned().collect();
    let changed = match left.as_slice() {
        [] => return Err(Error::refused(pool, DeviceFault::NoReplicas)),
        [last] => {
            let mut last = last.clone();
            if parent.kind == VdevKind::Spare {
                unset(&mut last, &["is_spare", "unspare"]).map_err(|e| bad(&e))?;
            }
            let gone = parent.children.iter().find(|c| c.guid == leaf);
            let own = gone.and_then(|gone| gone.path.clone()).filter(|path| {
                parent.kind == VdevKind::Replacing
                    && last.path.as_deref().and_then(|p| p.strip_suffix(REPLACED)) == Some(path)
            });
            if let Some(own) = own {
                set_text(&mut last, "path", &own).map_err(|e| bad(&e))?;
            }
            in_place_of(parent, last.to_nvlist())
        }
        _ => numbered(left).map(|children| VdevConfig { children, ..parent.clone() }),
    };
    let changed = changed.map_err(|e| bad(&e))?;
    with_other(root, parent.guid, &changed).ok_or_else(no_sides)
}

/// The leaf of a configuration with this guid.
pub(super) fn leaf_of(root: &VdevConfig, guid: u64) -> Option<&VdevConfig> {
    root.walk().find(|v| v.guid == guid && v.kind.is_leaf())
}

/// Changes a leaf of a configuration. Depth is bounded: the configuration's decoder limits it.
pub(super) fn change_leaf(
    vdev: &mut VdevConfig,
    guid: u64,
    change: &dyn Fn(&mut VdevConfig) -> ondisk::Result<()>,
) -> ondisk::Result<()> {
    if vdev.guid == guid && vdev.kind.is_leaf() {
        return change(vdev);
    }
    vdev.children.iter_mut().try_for_each(|child| change_leaf(child, guid, change))
}

#[cfg(test)]
mod tests {
    use super::super::config::VdevSpec;
    use super::super::config::{TopNumbers, new_root, new_top};
    use super::*;
    use zio::SpaceClass;

    fn leaf(path: &str) -> VdevSpec {
        VdevSpec::Leaf { path: path.to_owned(), is_file: true }
    }

    /// A raidz of three, 101 with 102 to 104, and a disk, 105.
    fn root() -> VdevConfig {
        let mut next = 100;
        let mut guid = || {
            next += 1;
            next
        };
        let children = ["/a", "/b", "/c"].map(leaf).to_vec();
        let raidz = VdevSpec::Raidz { nparity: 1, children };
        let tops = (0u64..).zip([raidz, leaf("/d")]).map(|(id, spec)| {
            let numbers =
                TopNumbers { id, ashift: 12, asize: 1 << 28, metaslab_shift: 24, create_txg: 4 };
            new_top(&spec, SpaceClass::Normal, &numbers, &mut guid).unwrap()
        });
        let tops: Vec<VdevConfig> = tops.collect();
        new_root(7, 4, &tops).unwrap()
    }

    fn new(guid: u64) -> VdevConfig {
        let list = Builder::new().text("type", "file").u64("id", 0).u64("guid", guid);
        VdevConfig::decode(&list.text("path", "/new").done()).unwrap()
    }

    fn guids(vdev: &VdevConfig) -> Vec<u64> {
        vdev.walk().map(|v| v.guid).collect()
    }

    #[test]
    fn a_side_that_comes_and_goes_leaves_the_tree_as_it_was() {
        for leaf in [103, 105] {
            for how in [AttachKind::Replacing, AttachKind::Spare] {
                let with = with_child("pool", &root(), leaf, (&new(200), how), 300).unwrap();
                let around = parent_of(&with, 200).unwrap();
                assert_eq!((around.guid, &around.kind), (300, &how.kind()));
                assert_eq!(guids(around), [300, leaf, 200]);
                assert_eq!(around.asize.is_some(), leaf == 105);
                let without = without_child("pool", &with, 200).unwrap();
                assert_eq!(without.to_nvlist(), root().to_nvlist());
                let replaced = without_child("pool", &with, leaf).unwrap();
                assert!(replaced.find(leaf).is_none() && replaced.find(300).is_none());
                assert_eq!(replaced.find(200).unwrap().asize, root().find(leaf).unwrap().asize);
            }
        }
    }

    #[test]
    fn a_device_that_is_replaced_at_its_own_path_has_another_name_meanwhile() {
        let own = root().find(103).and_then(|v| v.path.clone()).unwrap();
        let mut same = new(200);
        set_text(&mut same, "path", &own).unwrap();
        let with = with_child("pool", &root(), 103, (&same, AttachKind::Replacing), 300).unwrap();
        let path = |guid| with.find(guid).and_then(|v| v.path.clone());
        assert_eq!(path(103), Some(format!("{own}/old")));
        assert_eq!(path(200), Some(own.clone()));
        let cancelled = without_child("pool", &with, 200).unwrap();
        assert_eq!(cancelled.to_nvlist(), root().to_nvlist());
        let replaced = without_child("pool", &with, 103).unwrap();
        assert_eq!(replaced.find(200).and_then(|v| v.path.clone()), Some(own));
        // A device that is called so is not renamed.
        let mut old = new(201);
        set_text(&mut old, "path", "/new/old").unwrap();
        let with = with_child("pool", &root(), 103, (&old, AttachKind::Replacing), 300).unwrap();
        let left = without_child("pool", &with, 103).unwrap();
        assert_eq!(left.find(201).and_then(|v| v.path.as_deref()), Some("/new/old"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let root = root();
        assert!(with_child("pool", &root, 103, (&new(200), AttachKind::Mirror), 300).is_err());
        assert!(with_child("pool", &root, 101, (&new(200), AttachKind::Replacing), 300).is_err());
        assert!(with_child("pool", &root, 999, (&new(200), AttachKind::Replacing), 300).is_err());
        assert!(
            without_child("pool", &root, 103).is_err()
                && without_child("pool", &root, 105).is_err()
        );
    }

    /// A device with a spare that is replaced: the spare goes by itself, or stays and is none any
    /// more.
    #[test]
    fn a_spare_beside_a_replacement() {
        let mut spare = new(200);
        set_u64(&mut spare, "is_spare", 1).unwrap();
        let spared = with_child("pool", &root(), 103, (&spare, AttachKind::Spare), 300).unwrap();
        let both =
            with_child("pool", &spared, 103, (&new(201), AttachKind::Replacing), 301).unwrap();
        assert_eq!(guids(parent_of(&both, 301).unwrap()), [300, 301, 103, 201, 200]);
        let relieve = with_child("pool", &spared, 200, (&new(202), AttachKind::Replacing), 302);
        assert!(relieve.unwrap_err().to_string().contains("only another spare"));
        let done = without_child("pool", &both, 103).unwrap();
        assert_eq!(guids(done.find(300).unwrap()), [300, 201, 200]);
        assert!(done.find(200).unwrap().is_spare);
        let kept = without_child("pool", &spared, 103).unwrap();
        assert!(!kept.find(200).unwrap().is_spare && kept.find(300).is_none());
    }
}
