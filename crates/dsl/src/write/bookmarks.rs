//! Bookmarks: made, destroyed, and kept right while snapshots come and go.
//!
//! A bookmark with sizes (feature `bookmark_written`) knows what was freed between its snapshot and
//! the next one. While its snapshot is the last, that grows with every block the head gives up;
//! when the next snapshot goes, what that one's successor gave up is added.

use super::deadlists;
use super::features::{BOOKMARK_V2, BOOKMARK_WRITTEN, BOOKMARKS};
use super::meta::{DslCx, ZAPIFIED};
use super::spacing::{Delta, add};
use crate::bookmarks::NamedBookmark;
use crate::error::{Error, Refusal, Result};
use crate::names::{NameKind, check_name};
use crate::tree::{Dataset, Dsl};
use ondisk::bookmark::{Bookmark, BookmarkExtra};
use ondisk::bpobj::Space;
use ondisk::dsl::{DslDataset, dataset_field};

/// Whether a bookmark counts what is freed after it.
pub(super) fn counts_freed(b: &Bookmark) -> bool {
    b.extra.is_some_and(|x| x.flags & BookmarkExtra::FLAG_HAS_FREED != 0)
}

fn snapshot_exists(b: &Bookmark) -> bool {
    b.extra.is_some_and(|x| x.flags & BookmarkExtra::FLAG_SNAPSHOT_EXISTS != 0)
}

impl DslCx<'_> {
    /// The table of a head's bookmarks; 0: none.
    pub(super) fn bookmark_table(&self, head: u64) -> Result<u64> {
        Ok(self.field(head, dataset_field::BOOKMARKS)?.unwrap_or(0))
    }

    /// A head's bookmarks, oldest first.
    pub(super) fn bookmarks_of(&self, head: u64) -> Result<Vec<(String, Bookmark)>> {
        let object = self.bookmark_table(head)?;
        let mut out = Vec::new();
        for (name, words) in self.entries(object)? {
            let b = Bookmark::from_words(&words);
            out.push((name, b.map_err(|error| Error::Format { object, error })?));
        }
        out.sort_by(|a, b| (a.1.creation_txg, &a.0).cmp(&(b.1.creation_txg, &b.0)));
        Ok(out)
    }

    fn put_bookmark(&self, head: u64, name: &str, b: &Bookmark) -> Result<()> {
        self.put_words(self.bookmark_table(head)?, name, &b.to_words())
    }

    /// Creation txgs of bookmarks younger than `txg`, each once.
    pub(super) fn marks_after(&self, head: u64, txg: u64) -> Result<Vec<u64>> {
        let marks = self.bookmarks_of(head)?;
        let mut txgs: Vec<u64> = marks.iter().map(|(_, b)| b.creation_txg).collect();
        txgs.retain(|t| *t > txg);
        txgs.dedup();
        Ok(txgs)
    }

    /// More was freed between a bookmark and the next snapshot.
    pub(super) fn add_freed(
        &self,
        head: u64,
        name: &str,
        mut b: Bookmark,
        more: Delta,
    ) -> Result<()> {
        let Some(x) = b.extra else { return Ok(()) };
        let mut freed = x.freed_before_next_snap();
        add(&mut freed.used, more.used);
        add(&mut freed.compressed, more.compressed);
        add(&mut freed.uncompressed, more.uncompressed);
        b.extra = Some(x.with_spaces(x.referenced(), freed));
        self.put_bookmark(head, name, &b)
    }

    /// The snapshot `snap` is about to be destroyed. True when a bookmark of it needs the key that
    /// dead lists have for it.
    pub(super) fn bookmarks_outlive(&self, head: u64, snap: &DslDataset) -> Result<bool> {
        let mut needed = false;
        for (name, b) in self.bookmarks_of(head)? {
            let txg = b.creation_txg;
            if !counts_freed(&b) || txg < snap.prev_snap_txg || txg > snap.creation_txg {
                continue;
            }
            if txg < snap.creation_txg {
                let next = self.dataset(snap.next_snap)?;
                let more = deadlists::space_range(self, next.deadlist, 0, txg)?;
                self.add_freed(head, &name, b, more.into())?;
            } else {
                let mut b = b;
                if let Some(x) = &mut b.extra {
                    x.flags &= !BookmarkExtra::FLAG_SNAPSHOT_EXISTS;
                }
                self.put_bookmark(head, &name, &b)?;
                needed = true;
            }
        }
        Ok(needed)
    }

    /// The snapshot `snap` is followed by another dataset now: its bookmarks are counted again.
    pub(super) fn bookmarks_recount(&self, head: u64, snap: u64) -> Result<()> {
        let s = self.dataset(snap)?;
        for (name, mut b) in self.bookmarks_of(head)? {
            let Some(x) = b.extra.filter(|_| b.guid == s.guid && counts_freed(&b)) else {
                continue;
            };
            let freed = deadlists::space(self, self.dataset(s.next_snap)?.deadlist)?;
            b.extra = Some(x.with_spaces(x.referenced(), freed));
            self.put_bookmark(head, &name, &b)?;
        }
        Ok(())
    }

    /// Enters a bookmark, with the table and counts of features that it needs.
    pub(super) fn add_bookmark(&self, head: u64, name: &str, b: &Bookmark) -> Result<()> {
        let mut table = self.bookmark_table(head)?;
        if table == 0 {
            table = self.new_name_table(ZAPIFIED)?;
            self.features.incr(self, BOOKMARKS)?;
            self.zapify(head)?;
            self.put(head, dataset_field::BOOKMARKS, table)?;
        }
        if b.extra.is_some() {
            self.features.incr(self, BOOKMARK_V2)?;
        }
        if counts_freed(b) {
            self.features.incr(self, BOOKMARK_WRITTEN)?;
        }
        self.put_words(table, name, &b.to_words())
    }

    /// Takes a bookmark out, and the table with the last.
    pub(super) fn remove_bookmark(&self, head: u64, name: &str, b: &Bookmark) -> Result<()> {
        let table = self.bookmark_table(head)?;
        self.remove(table, name)?;
        if b.extra.is_some() {
            self.features.decr(self, BOOKMARK_V2)?;
        }
        if counts_freed(b) {
            self.features.decr(self, BOOKMARK_WRITTEN)?;
        }
        if self.entries(table)?.is_empty() {
            self.free_table(table)?;
            self.remove(head, dataset_field::BOOKMARKS)?;
            self.features.decr(self, BOOKMARKS)?;
        }
        Ok(())
    }
}

/// Makes the bookmark `pool/a#name` of a snapshot or of another bookmark, which is of the same file
/// system or volume, or of its past: of what it is a clone of, as it was when that was made.
///
/// Changes on disk: the head's table of bookmarks, which is made with the first. Of a snapshot it
/// has sizes with feature `bookmark_written`, otherwise it is of the first form. Of a bookmark it
/// is the same again, without a list of what was redacted.
pub fn create_bookmark(cx: &DslCx<'_>, dsl: &Dsl, name: &str, source: &str) -> Result<Bookmark> {
    let (head, b) = check_bookmark(cx, dsl, name, source)?;
    let (_, short) = name.split_once('#').ok_or_else(|| Error::BadName(name.to_owned()))?;
    cx.add_bookmark(head.object, short, &b)?;
    Ok(b)
}

/// Whether [`create_bookmark`] would make it. Returns its head, and what would be made.
pub fn check_bookmark(
    cx: &DslCx<'_>,
    dsl: &Dsl,
    name: &str,
    source: &str,
) -> Result<(Dataset, Bookmark)> {
    let bad = || Error::BadName(name.to_owned());
    if check_name(name)? != NameKind::Bookmark {
        return Err(bad());
    }
    if !cx.has(BOOKMARKS)? {
        return Err(Error::refused(name, Refusal::NoFeature(BOOKMARKS)));
    }
    let (path, short) = name.split_once('#').ok_or_else(bad)?;
    let (b, of) = match source.split_once('#') {
        Some((of, _)) => (copied(dsl.bookmark(source)?.phys), dsl.by_name(of)?),
        None => {
            let snap = dsl.by_name(source)?;
            (of_snapshot(cx, &snap)?, snap)
        }
    };
    let head = dsl.by_name(path)?;
    if !is_past_of(dsl, &head, of.dir.object, b.creation_txg)? {
        return Err(Error::refused(source, Refusal::NotOfItsPast));
    }
    let any_case = head.phys.flags & DslDataset::FLAG_CASE_INSENSITIVE != 0;
    let same = |n: &str| n == short || (any_case && n.eq_ignore_ascii_case(short));
    if cx.bookmarks_of(head.object)?.iter().any(|(n, _)| same(n)) {
        return Err(Error::refused(name, Refusal::Exists));
    }
    Ok((head, b))
}

/// Whether what directory `dir` was in `txg` is what `head` was then.
fn is_past_of(dsl: &Dsl, head: &Dataset, dir: u64, txg: u64) -> Result<bool> {
    let (mut at, mut until) = (head.dir.clone(), u64::MAX);
    while at.object != dir {
        let Some(origin) = dsl.origin(&at)? else { return Ok(false) };
        let origin = dsl.by_name(&origin)?;
        // Time runs backwards along origins, whatever the pool says.
        if origin.phys.creation_txg >= until {
            return Ok(false);
        }
        (at, until) = (origin.dir, origin.phys.creation_txg);
    }
    Ok(txg <= until)
}

/// The bookmark of a snapshot.
fn of_snapshot(cx: &DslCx<'_>, snap: &Dataset) -> Result<Bookmark> {
    let s = snap.phys;
    if !s.is_snapshot() {
        return Err(Error::refused(&snap.name, Refusal::NotASnapshot));
    }
    let mut extra = None;
    if cx.has(BOOKMARK_WRITTEN)? {
        let referenced =
            Space { used: s.referenced, compressed: s.compressed, uncompressed: s.uncompressed };
        let freed = deadlists::space(cx, cx.dataset(s.next_snap)?.deadlist)?;
        let flags = BookmarkExtra::FLAG_HAS_FREED | BookmarkExtra::FLAG_SNAPSHOT_EXISTS;
        let mut x = BookmarkExtra::default();
        x.flags = flags;
        extra = Some(x.with_spaces(referenced, freed));
    }
    if let Some(ivset_guid) = cx.field(snap.object, dataset_field::IVSET_GUID)?
        && cx.has(BOOKMARK_V2)?
    {
        extra.get_or_insert_default().ivset_guid = ivset_guid;
    }
    let (guid, creation_txg, creation_time) = (s.guid, s.creation_txg, s.creation_time);
    Ok(Bookmark { guid, creation_txg, creation_time, extra })
}

/// The same bookmark again; of the first form where the second says nothing more.
fn copied(mut b: Bookmark) -> Bookmark {
    if let Some(extra) = &mut b.extra {
        extra.redaction_obj = 0;
    }
    b.extra = b.extra.filter(|extra| *extra != BookmarkExtra::default());
    b
}

/// Whether a bookmark can be destroyed.
pub(super) fn check_destroy_bookmark(mark: &NamedBookmark) -> Result<()> {
    if mark.phys.extra.is_some_and(|x| x.redaction_obj != 0) {
        return Err(Error::refused(&mark.name, Refusal::Unsupported("redaction bookmarks")));
    }
    Ok(())
}

/// Destroys a bookmark.
///
/// Changes on disk: the head's table of bookmarks, which goes with the last; a key of the head's
/// dead list that only this bookmark still needed.
pub fn destroy_bookmark(cx: &DslCx<'_>, dsl: &Dsl, name: &str) -> Result<()> {
    let found = dsl.bookmark(name)?;
    check_destroy_bookmark(&found)?;
    let bad = || Error::BadName(name.to_owned());
    let (path, short) = name.split_once('#').ok_or_else(bad)?;
    let head = dsl.by_name(path)?;
    let b = found.phys;
    cx.remove_bookmark(head.object, short, &b)?;
    let same = |o: &Bookmark| o.creation_txg == b.creation_txg && counts_freed(o);
    let others = cx.bookmarks_of(head.object)?.iter().any(|(_, o)| same(o));
    // A head's list has no keys from its last snapshot on.
    let has_key = b.creation_txg < head.phys.prev_snap_txg;
    if counts_freed(&b) && !snapshot_exists(&b) && !others && has_key {
        deadlists::remove_key(cx, head.phys.deadlist, b.creation_txg)?;
    }
    Ok(())
}
