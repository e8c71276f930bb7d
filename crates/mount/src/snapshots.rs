//! `.zfs/snapshot`: the snapshots of a mounted file system, as directories of it.
//!
//! # Numbers
//!
//! The kernel's number of a file has 64 bits, that of an object 48 at most. The upper bits are the
//! place of the object:
//!
//! | upper 16 bits | lower 48 bits |
//! | --- | --- |
//! | 0 | a file of the file system itself |
//! | 1 to 0xfffd | a file of the snapshot that was looked into as the first, second … |
//! | 0xfffe | the snapshot of this object of the pool: its root directory |
//! | 0xffff | 1: `.zfs`, 2: `.zfs/snapshot`, 3: `.zfs/shares` |
//!
//! So a listing of `.zfs/snapshot` opens none, and one is opened when something in it is accessed.
//!
//! # Lives
//!
//! A snapshot that was looked into stays open. Whether it still exists is looked up again whenever
//! a txg has become durable since: blocks of a destroyed one are not overwritten before. An access
//! to one that is gone fails with `ESTALE`, and a number is never used again.

use crate::errno::FuseResult;
use crate::kernel::Errno;
use engine::{Dataset, Filesystem, OpenPool, PropertyContext, WeakPool};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of an object's number.
const OBJECT_BITS: u32 = 48;
/// The part of a number that is the object's.
const OBJECTS: u64 = (1 << OBJECT_BITS) - 1;
/// Upper parts that are not those of a snapshot.
const ROOTS: u64 = 0xfffe;
const CONTROL: u64 = 0xffff;

/// The name of the directory in the root.
pub(crate) const NAME: &[u8] = b".zfs";
/// The name of the directory in that.
pub(crate) const BELOW: &[u8] = b"snapshot";
/// The name of the other directory in that, in which nothing is: there are no shares.
pub(crate) const SHARES: &[u8] = b"shares";

/// Where a number of the kernel's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeTarget {
    /// A file of the file system.
    Live(u64),
    /// `.zfs`.
    Control,
    /// `.zfs/snapshot`.
    Listing,
    /// `.zfs/shares`.
    Shares,
    /// The root of the snapshot that is this object of the pool.
    Root(u64),
    /// A file of a snapshot that was looked into.
    Within(usize, u64),
}

impl InodeTarget {
    pub(crate) fn read(number: u64) -> Self {
        let object = number & OBJECTS;
        match number >> OBJECT_BITS {
            0 => Self::Live(object),
            ROOTS => Self::Root(object),
            CONTROL if object == 1 => Self::Control,
            CONTROL if object == 3 => Self::Shares,
            CONTROL => Self::Listing,
            slot => Self::Within(usize::try_from(slot).unwrap_or(usize::MAX) - 1, object),
        }
    }

    /// It is on no disk.
    pub(crate) fn is_virtual(self) -> bool {
        matches!(self, Self::Control | Self::Listing | Self::Shares)
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Live(object) => object,
            Self::Control => CONTROL << OBJECT_BITS | 1,
            Self::Listing => CONTROL << OBJECT_BITS | 2,
            Self::Shares => CONTROL << OBJECT_BITS | 3,
            Self::Root(object) => ROOTS << OBJECT_BITS | object,
            Self::Within(slot, object) => (slot as u64 + 1) << OBJECT_BITS | object,
        }
    }
}

/// The snapshots of a dataset, for as long as its pool is open.
pub struct Snapshots {
    pool: WeakPool,
    name: String,
    open: RwLock<Vec<Open>>,
    /// Whether the dataset or snapshot with a full name is mounted by itself.
    pub(crate) is_mounted: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

/// A snapshot that was looked into.
struct Open {
    dataset: u64,
    name: String,
    fs: Filesystem,
    /// The txg after which it was there.
    seen: AtomicU64,
}

/// A snapshot in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// The part of its name behind the `@`.
    pub(crate) name: String,
    /// Its object in the pool.
    pub(crate) dataset: u64,
    /// When it was made, in seconds.
    pub(crate) made: u64,
    /// The txg of that.
    pub(crate) txg: u64,
}

impl Listed {
    fn of(dataset: &Dataset) -> Self {
        Self {
            name: short(&dataset.name).to_owned(),
            dataset: dataset.object,
            made: dataset.created(),
            txg: dataset.create_txg(),
        }
    }
}

/// A snapshot's name behind the `@`.
fn short(name: &str) -> &str {
    name.split_once('@').map_or(name, |(_, short)| short)
}

impl Snapshots {
    /// Those of the dataset `name`; `is_mounted` tells which datasets and snapshots of the pool are
    /// mounted by themselves.
    #[must_use]
    pub fn of(
        pool: &OpenPool,
        name: &str,
        is_mounted: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (pool, name, is_mounted) = (pool.downgrade(), name.to_owned(), Box::new(is_mounted));
        Self { pool, name, open: RwLock::default(), is_mounted }
    }

    pub(crate) fn pool(&self) -> FuseResult<OpenPool> {
        self.pool.upgrade().ok_or(Errno::EIO)
    }

    /// All, oldest first.
    pub(crate) fn all(&self) -> FuseResult<Vec<Listed>> {
        let pool = self.pool()?;
        let dsl = pool.view().datasets();
        let all = dsl.by_name(&self.name).and_then(|head| dsl.snapshots(&head));
        Ok(all.map_err(|_| Errno::EIO)?.iter().map(Listed::of).collect())
    }

    /// The name of one, by the part behind the `@`.
    pub(crate) fn full_name(&self, short: &str) -> String {
        format!("{}@{short}", self.name)
    }

    /// One has another name behind the `@` now, and stays open.
    pub(crate) fn renamed(&self, full: &str, to: &str) {
        let mut open = self.open.write();
        open.iter_mut()
            .filter(|one| one.name == full)
            .for_each(|one| one.name = self.full_name(to));
    }

    /// The one of this name.
    pub(crate) fn find(&self, name: &[u8]) -> FuseResult<Listed> {
        let name = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let pool = self.pool()?;
        let dsl = pool.view().datasets();
        let found = dsl.by_name(&self.full_name(name));
        found.map(|dataset| Listed::of(&dataset)).map_err(|_| Errno::ENOENT)
    }

    /// The property `snapdir` for the directory.
    pub(crate) fn mode(&self) -> SnapdirMode {
        match self.property("snapdir").as_deref() {
            Some("visible") => SnapdirMode::Visible,
            Some("disabled") => SnapdirMode::Disabled,
            _ => SnapdirMode::Hidden,
        }
    }

    /// When one was made, renamed or destroyed for the last time, in seconds.
    pub(crate) fn changed(&self) -> Option<u64> {
        self.property("snapshots_changed")?.parse().ok()
    }

    /// A property of the dataset, if it has it and the pool is open.
    fn property(&self, name: &str) -> Option<String> {
        let pool = self.pool().ok()?;
        let dsl = pool.view().datasets();
        let head = dsl.by_name(&self.name).ok()?;
        let context = PropertyContext { pool_size: None, altroot: None };
        dsl.property(&head, &context, name).ok()?.map(|property| property.value)
    }

    /// The place among those looked into, and the files, of the snapshot that is `dataset`.
    pub(crate) fn root(&self, dataset: u64) -> FuseResult<(usize, Filesystem)> {
        let known = self.open.read().iter().position(|open| open.dataset == dataset);
        if let Some(slot) = known
            && let Ok(fs) = self.within(slot)
        {
            return Ok((slot, fs));
        }
        let listed = self.all()?.into_iter().find(|one| one.dataset == dataset);
        let name = self.full_name(&listed.ok_or(Errno::ESTALE)?.name);
        let pool = self.pool()?;
        let seen = AtomicU64::new(pool.last_synced());
        let fs = pool.filesystem(&name).map_err(|_| Errno::EIO)?;
        let mut open = self.open.write();
        // A place of one that is gone is not used again: the kernel may know numbers of it.
        open.push(Open { dataset, name, fs: fs.clone(), seen });
        match open.len() < ROOTS as usize {
            true => Ok((open.len() - 1, fs)),
            false => Err(Errno::ENFILE),
        }
    }

    /// The last durable txg, if one that was looked into is there after it.
    pub(crate) fn is_there(&self, slot: usize) -> Option<u64> {
        let durable = self.pool().ok()?.last_synced();
        // A txg that ended since then has looked at it as well.
        self.within(slot).is_ok().then_some(durable)
    }

    /// The files of one that was looked into.
    pub(crate) fn within(&self, slot: usize) -> FuseResult<Filesystem> {
        let pool = self.pool()?;
        let open = self.open.read();
        let one = open.get(slot).ok_or(Errno::ESTALE)?;
        let durable = pool.last_synced();
        if one.seen.load(Ordering::Relaxed) != durable {
            let dsl = pool.view().datasets();
            let found = dsl.by_name(&one.name);
            match found {
                Ok(dataset) if dataset.object == one.dataset => {
                    one.seen.store(durable, Ordering::Relaxed);
                }
                _ => return Err(Errno::ESTALE),
            }
        }
        Ok(one.fs.clone())
    }
}

/// How the directory is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapdirMode {
    /// It is found by its name.
    Hidden,
    /// It is listed too.
    Visible,
    /// It is not there.
    Disabled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_where_a_file_is() {
        let all = [
            InodeTarget::Live(34),
            InodeTarget::Live(OBJECTS),
            InodeTarget::Control,
            InodeTarget::Listing,
            InodeTarget::Shares,
            InodeTarget::Root(77),
            InodeTarget::Within(0, 34),
            InodeTarget::Within(0xfffc, OBJECTS),
        ];
        for of in all {
            assert_eq!(InodeTarget::read(of.number()), of);
        }
        let numbers: std::collections::HashSet<u64> = all.iter().map(|of| of.number()).collect();
        assert_eq!(numbers.len(), all.len());
    }
}
