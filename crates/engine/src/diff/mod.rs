//! The changes between a snapshot and a later state of the same line.
//!
//! # Theory
//!
//! Dnodes are blocks of the meta dnode, so every file that changed has a new block there: walking
//! that one tree, and leaving out whatever was born before the earlier snapshot, finds all changed
//! files at a cost proportional to the changes (`objects`). Each of them is then compared as a
//! file, with its path in both states (`side`):
//!
//! ```text
//! only later               added
//! only earlier             removed
//! another generation       removed and added: the object's number was used again
//! same change time         nothing
//! more or fewer names      modified, with the change in links
//! another path             renamed
//! else                     modified
//! ```

mod objects;
mod side;
mod volume;

pub use side::FileState;
pub use volume::VolumeDiff;

use crate::error::{Error, Hint, Place, Result, Rule};
use crate::inventory::OpenObjset;
use crate::reading::lease;
use dsl::{Action, Dataset, Dsl, PropertyContext};
use pool::Pool;
use pool::live::{InUse, LivePool};
use rt::Progress;
use side::Side;
use std::collections::{VecDeque, btree_set};
use zpl::{FileKind, Filesystem};

/// A kind of change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was made.
    Added,
    /// It was removed.
    Removed,
    /// It has another path.
    Renamed {
        /// The path it had.
        from: Vec<u8>,
    },
    /// It changed.
    Modified {
        /// Names it has more than before.
        links: i128,
    },
}

/// A file that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The number of its object.
    pub object: u64,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The file as it is, or as it was when it was removed.
    pub file: FileState,
}

/// The changes between two states, in the order of the objects.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// # let now = engine::files::Time { seconds: 1, nanos: 0 };
/// # let new = engine::files::NewFile::new(engine::files::NewKind::File, 0o644, now);
/// use engine::diff::{Diff, ChangeKind};
///
/// engine::datasets::snapshot(&pool, &["tank@before"], false, Vec::new())?;
/// let fs = pool.filesystem("tank")?;
/// fs.create(fs.root_object(), b"letter", &new)?;
/// pool.sync()?;
/// let progress = engine::Progress::new();
/// let on_disk = |dataset: &engine::Dataset| Ok(pool.view().datasets().objset(dataset)?);
/// let added: Vec<_> = Diff::new(pool.view(), "tank@before", None, &on_disk, &progress)?
///     .filter_map(|change| change.ok().filter(|c| c.kind == ChangeKind::Added))
///     .collect();
/// assert_eq!(added[0].file.path, b"/tank/letter");
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Diff<'a> {
    earlier: Side<'a>,
    later: Side<'a>,
    name: String,
    objects: btree_set::IntoIter<u64>,
    found: VecDeque<Change>,
    progress: &'a Progress,
    _in_use: Vec<InUse>,
}

/// Two states of a file system that are to be compared, by their names.
///
/// ```
/// # let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// use engine::diff::Comparison;
///
/// engine::datasets::snapshot(&pool, &["tank@before"], false, Vec::new())?;
/// let states = Comparison::new("tank@before", None)?.held_in(&pool)?;
/// assert_eq!(states.later(), "tank");
/// let progress = engine::Progress::new();
/// let on_disk = |dataset: &engine::Dataset| Ok(pool.view().datasets().objset(dataset)?);
/// assert_eq!(states.run(pool.view(), &on_disk, &progress)?.count(), 0);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Comparison {
    from: String,
    to: String,
    in_use: Vec<InUse>,
}

impl Comparison {
    /// The snapshot `from`, and `to`: a later snapshot (`@NAME` of the same file system), the file
    /// system itself, which is the default, or a clone.
    ///
    /// # Errors
    /// The first is not the name of a snapshot.
    pub fn new(from: &str, to: Option<&str>) -> Result<Self> {
        let Some((path, _)) = from.split_once('@') else {
            let error = Error::against(Rule::SnapshotName).at(Place::Dataset(from.to_owned()));
            return Err(error.with_hint(Hint::NameSnapshot));
        };
        let to = match to {
            None => path.to_owned(),
            Some(short) if short.starts_with('@') => format!("{path}{short}"),
            Some(name) => name.to_owned(),
        };
        Ok(Self { from: from.to_owned(), to, in_use: Vec::new() })
    }

    /// The full name of the later state.
    #[must_use]
    pub fn later(&self) -> &str {
        &self.to
    }

    /// For a pool that this process has open for writing, by the handle of the user who is to see
    /// the changes ([`LivePool::on_behalf_of`]): it needs the permission to compare both, and
    /// neither is destroyed as long as it is read.
    ///
    /// # Errors
    /// There is no permission, or one is not there: it is the error's operand.
    pub fn held_in(mut self, pool: &LivePool) -> Result<Self> {
        let names = [self.from.as_str(), self.to.as_str()];
        self.in_use = lease(pool, Action::Diff, &names, names)?;
        Ok(self)
    }

    /// Compares them, as they are in `pool`; `open` opens the later state. When cancelled, it ends
    /// with an error.
    ///
    /// # Errors
    /// They are not on one line, or cannot be read.
    pub fn run<'a>(
        self,
        pool: &Pool,
        open: &OpenObjset<'_>,
        progress: &'a Progress,
    ) -> Result<Diff<'a>> {
        let Self { from, to, in_use } = self;
        let dsl = pool.datasets();
        let (earlier, later) = (dsl.by_name(&from)?, dsl.by_name(&to)?);
        if !is_ancestor(&dsl, &earlier, &later)? {
            let error = Error::against(Rule::NotEarlier).at(Place::Dataset(from));
            return Err(error.with_hint(Hint::OlderFirst));
        }
        let prefix = mount_point(&dsl, &later)?;
        let since = earlier.phys.creation_txg;
        let earlier = Filesystem::open(dsl.objset(&earlier)?)?;
        drop(dsl);
        let earlier = Side::new(earlier, prefix.clone(), progress);
        let name = later.name.clone();
        let later = Side::new(Filesystem::open(open(&later)?)?, prefix, progress);
        let objects = objects::changed(earlier.objset(), later.objset(), since, progress)?;
        let (objects, found) = (objects.into_iter(), VecDeque::new());
        Ok(Diff { earlier, later, name, objects, found, progress, _in_use: in_use })
    }
}

impl<'a> Diff<'a> {
    /// [`Comparison`], of a pool that nothing changes meanwhile.
    ///
    /// # Errors
    /// Those of [`Comparison::new`] and [`Comparison::run`].
    pub fn new(
        pool: &Pool,
        from: &str,
        to: Option<&str>,
        open: &OpenObjset<'_>,
        progress: &'a Progress,
    ) -> Result<Self> {
        Comparison::new(from, to)?.run(pool, open, progress)
    }

    /// The name of the later state.
    #[must_use]
    pub fn later(&self) -> &str {
        &self.name
    }

    /// Compares one more object.
    fn advance_to(&mut self, object: u64) -> Result<()> {
        self.progress.check()?;
        let (was, is) = (self.earlier.see(object)?, self.later.see(object)?);
        let changes = compare(was, is).into_iter();
        self.found.extend(changes.map(|(kind, file)| Change { object, kind, file }));
        Ok(())
    }
}

impl Iterator for Diff<'_> {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        loop {
            if let Some(change) = self.found.pop_front() {
                return Some(Ok(change));
            }
            let object = self.objects.next()?;
            if let Err(e) = self.advance_to(object) {
                // Later entries would be as incomplete.
                self.objects = btree_set::BTreeSet::new().into_iter();
                return Some(Err(e));
            }
        }
    }
}

/// Compares two states of one object.
fn compare(was: Option<FileState>, is: Option<FileState>) -> Vec<(ChangeKind, FileState)> {
    let (was, is) = match (was, is) {
        (None, None) => return Vec::new(),
        (Some(was), None) => return vec![(ChangeKind::Removed, was)],
        (None, Some(is)) => return vec![(ChangeKind::Added, is)],
        (Some(was), Some(is)) => (was, is),
    };
    if was.generation != is.generation {
        return vec![(ChangeKind::Removed, was), (ChangeKind::Added, is)];
    }
    if was.ctime == is.ctime {
        return Vec::new();
    }
    let links = match is.kind {
        FileKind::Dir => 0,
        _ => i128::from(is.links) - i128::from(was.links),
    };
    if was.path != is.path && links == 0 {
        return vec![(ChangeKind::Renamed { from: was.path }, is)];
    }
    // Which of several names is another one is not known: it is shown with one that it had.
    let path = if links > 0 { was.path } else { is.path };
    vec![(ChangeKind::Modified { links }, FileState { path, ..is })]
}

/// `earlier` is a snapshot on the line of snapshots (origins included) that leads to `later`.
fn is_ancestor(dsl: &Dsl, earlier: &Dataset, later: &Dataset) -> Result<bool> {
    let mut at = (later.phys.prev_snap, later.phys.prev_snap_txg);
    while at.0 != 0 {
        if at.0 == earlier.object {
            return Ok(true);
        }
        let before = dsl.dataset(at.0, String::new(), &later.dir)?;
        // Each is older than the next, so a damaged line that loops ends here.
        if before.phys.prev_snap_txg >= at.1 {
            break;
        }
        at = (before.phys.prev_snap, before.phys.prev_snap_txg);
    }
    Ok(false)
}

/// The prefix of the paths: where the file system would be mounted.
fn mount_point(dsl: &Dsl, dataset: &Dataset) -> Result<Vec<u8>> {
    let name = dataset.name.split('@').next().unwrap_or_default();
    let head = dsl.by_name(name)?;
    let property = dsl.property(&head, &PropertyContext::default(), "mountpoint")?;
    let path = property.map(|p| p.value).filter(|v| v.starts_with('/'));
    let path = path.unwrap_or_else(|| format!("/{name}"));
    Ok(path.trim_end_matches('/').as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zpl::Time;

    fn seen(generation: u64, changed: i64, path: &str) -> Option<FileState> {
        let (kind, ctime) = (FileKind::File, Time { seconds: changed, nanos: 0 });
        Some(FileState { kind, generation, links: 1, ctime, path: path.into() })
    }

    fn kinds_of_change(was: Option<FileState>, is: Option<FileState>) -> Vec<ChangeKind> {
        compare(was, is).into_iter().map(|(what, _)| what).collect()
    }

    #[test]
    fn each_fate_of_a_file_has_its_name() {
        let before = || seen(1, 1, "/a");
        assert_eq!(kinds_of_change(before(), before()), []);
        assert_eq!(kinds_of_change(None, before()), [ChangeKind::Added]);
        assert_eq!(kinds_of_change(before(), None), [ChangeKind::Removed]);
        assert_eq!(
            kinds_of_change(before(), seen(2, 1, "/a")),
            [ChangeKind::Removed, ChangeKind::Added]
        );
        assert_eq!(
            kinds_of_change(before(), seen(1, 2, "/b")),
            [ChangeKind::Renamed { from: b"/a".into() }]
        );
        assert_eq!(
            kinds_of_change(before(), seen(1, 2, "/a")),
            [ChangeKind::Modified { links: 0 }]
        );
        // Its folder was renamed, too.
        let linked = || Some(FileState { links: 2, ..seen(1, 2, "/b").unwrap() });
        let of = |was, is| compare(was, is).into_iter().map(|(what, s)| (what, s.path)).next();
        let gained = (ChangeKind::Modified { links: 1 }, b"/a".to_vec());
        assert_eq!(of(before(), linked()), Some(gained));
        let lost = (ChangeKind::Modified { links: -1 }, b"/c".to_vec());
        assert_eq!(of(linked(), seen(1, 3, "/c")), Some(lost));
    }

    /// Whether the pool notes the births of holes or not: blocks of dnodes that became holes held
    /// files that are gone, and blocks that no file was ever in hold none.
    #[test]
    fn files_whose_blocks_of_dnodes_are_gone_were_removed() {
        use crate::files::{NewFile, NewKind};
        const FILES: u64 = 2000;
        for hole_birth in [true, false] {
            let feature = ("hole_birth".to_owned(), hole_birth);
            let new = crate::NewPool::new("tank").memory(256 << 20);
            let pool = new.with(|o| o.features.extend([feature])).create().unwrap();
            let now = Time { seconds: 1, nanos: 0 };
            let new = NewFile::new(NewKind::File, 0o644, now);
            let fs = pool.filesystem("tank").unwrap();
            let name = |n: u64| format!("file{n}").into_bytes();
            for n in 0..FILES {
                fs.create(fs.root_object(), &name(n), &new).unwrap();
            }
            crate::datasets::snapshot(&pool, &["tank@before"], false, Vec::new()).unwrap();
            for n in 1..FILES {
                fs.unlink(fs.root_object(), &name(n), now).unwrap();
            }
            pool.sync().unwrap();
            let (progress, view) = (Progress::new(), pool.view());
            let on_disk = |dataset: &Dataset| Ok(view.datasets().objset(dataset)?);
            let diff = Diff::new(view, "tank@before", None, &on_disk, &progress).unwrap();
            let all: Vec<ChangeKind> = diff.map(|change| change.unwrap().kind).collect();
            let removed = all.iter().filter(|what| **what == ChangeKind::Removed).count() as u64;
            assert_eq!(removed, FILES - 1, "hole_birth {hole_birth}");
            let live = {
                let datasets = view.datasets();
                datasets.by_name("tank").and_then(|d| datasets.objset(&d)).unwrap()
            };
            let first = live.meta_object().unwrap().block_pointer(0, 100 / 32).unwrap();
            assert!(first.is_none_or(|bp| bp.is_hole()), "a block of dnodes is gone");
        }
    }
}
