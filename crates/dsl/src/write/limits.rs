//! Counts of file systems and snapshots, and the limits on them.
//!
//! A directory has counts once a limit was set on it or above (feature `filesystem_limits`); they
//! count the directory's whole subtree. A directory without counts has none above it that would
//! have to change, so counting up the tree ends there.

use super::features::FILESYSTEM_LIMITS;
use super::meta::DslCx;
use super::spacing::add;
use crate::error::{Error, Refusal, Result};
use crate::tree::{DEPTH_MAX, Dir, Dsl};
use ondisk::dsl::dir_field::{FILESYSTEM_COUNT, SNAPSHOT_COUNT};

/// A kind of object that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Filesystems,
    Snapshots,
}

impl Counted {
    fn field(self) -> &'static str {
        match self {
            Self::Filesystems => FILESYSTEM_COUNT,
            Self::Snapshots => SNAPSHOT_COUNT,
        }
    }

    fn property(self) -> &'static str {
        match self {
            Self::Filesystems => "filesystem_limit",
            Self::Snapshots => "snapshot_limit",
        }
    }
}

/// File systems and snapshots of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub filesystems: u64,
    pub snapshots: u64,
}

impl DslCx<'_> {
    /// `by` more in a directory and all above, where they are counted.
    pub(super) fn count(&self, dir: u64, what: Counted, by: i64) -> Result<()> {
        let mut at = dir;
        while at != 0 && by != 0 {
            let Some(mut n) = self.field(at, what.field())? else { return Ok(()) };
            add(&mut n, by);
            self.put(at, what.field(), n)?;
            at = self.dir(at)?.parent;
        }
        Ok(())
    }

    /// The counts of a directory; `None` when it has none.
    pub(super) fn counts(&self, dir: u64) -> Result<Option<Counts>> {
        let filesystems = self.field(dir, FILESYSTEM_COUNT)?;
        let snapshots = self.field(dir, SNAPSHOT_COUNT)?;
        Ok(filesystems.zip(snapshots).map(|(f, s)| Counts { filesystems: f, snapshots: s }))
    }

    /// A limit is set on a directory: it and all below have counts from now on. The feature is
    /// active from the first limit on for ever; its count means no more than that.
    pub(super) fn begin_counting(&self, dir: u64) -> Result<()> {
        self.subtree_counts(dir)?;
        let table = self.directory(ondisk::mos::FEATURES_FOR_WRITE)?.unwrap_or(0);
        match self.lookup(table, FILESYSTEM_LIMITS)? {
            Some(0) => self.features.incr(self, FILESYSTEM_LIMITS),
            _ => Ok(()),
        }
    }

    /// The counts of a directory, counted now when it had none.
    pub(super) fn subtree_counts(&self, dir: u64) -> Result<Counts> {
        match self.counts(dir)? {
            Some(counts) => Ok(counts),
            None => self.count_below(dir, 0),
        }
    }

    fn count_below(&self, dir: u64, depth: usize) -> Result<Counts> {
        if depth > DEPTH_MAX {
            return Err(Error::Tree { object: dir, rule: "directories nest too deep" });
        }
        if let Some(counts) = self.counts(dir)? {
            return Ok(counts);
        }
        let d = self.dir(dir)?;
        let mut sum = Counts::default();
        for (name, words) in self.entries(d.child_zap)? {
            let Some(child) = words.first().filter(|_| !name.starts_with(['$', '%'])) else {
                continue;
            };
            let below = self.count_below(*child, depth + 1)?;
            sum.filesystems += below.filesystems + 1;
            sum.snapshots += below.snapshots;
        }
        let head = self.dataset(d.head_dataset)?;
        sum.snapshots += self.entries(head.snapnames_zap)?.len() as u64;
        self.put_counts(dir, sum)?;
        Ok(sum)
    }

    /// A new directory where things are counted has counts from the start.
    pub(super) fn start_counts(&self, dir: u64) -> Result<()> {
        self.put_counts(dir, Counts::default())
    }

    fn put_counts(&self, dir: u64, counts: Counts) -> Result<()> {
        self.zapify(dir)?;
        self.put(dir, FILESYSTEM_COUNT, counts.filesystems)?;
        self.put(dir, SNAPSHOT_COUNT, counts.snapshots)
    }
}

impl Dsl {
    /// Whether `more` file systems or snapshots below `dir` keep all limits from there upwards.
    pub(super) fn check_limits(&self, dir: &Dir, what: Counted, more: u64) -> Result<()> {
        self.ancestry(dir)?.iter().try_for_each(|d| self.check_limits_at(d, what, more))
    }

    /// The same of one directory's own limit.
    pub(super) fn check_limits_at(&self, dir: &Dir, what: Counted, more: u64) -> Result<()> {
        if self.ignores_limits() {
            return Ok(());
        }
        let Some(fields) = self.fields(dir.object, dir.has_fields)? else { return Ok(()) };
        let Some(count) = fields.get_u64(what.field())? else { return Ok(()) };
        let limit = self.own_number(dir.phys.props_zap, what.property())?;
        match limit {
            Some(limit) if count.saturating_add(more) > limit => {
                Err(Error::refused(&dir.name, Refusal::Limit(what.property())))
            }
            _ => Ok(()),
        }
    }
}
