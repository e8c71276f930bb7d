//! How far a directory was listed (`listing.rs`).

use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::Errno;
use crate::snapshots::Listed;
use engine::Node;
use engine::files::{DirCursor, DirEntry};

/// Entries that are read at once.
const PAGE: usize = 512;

/// How far a program has listed a directory.
#[derive(Default)]
pub(crate) struct Progress {
    /// The snapshots, where these are listed.
    pub(crate) snapshots: Vec<Listed>,
    /// Where pages begin: the number of the first entry, and its place in the table.
    starts: Vec<(u64, DirCursor)>,
    /// The page that was read last: which of them, and its entries.
    page: Option<(usize, Vec<DirEntry>)>,
    /// Entries of all pages, when the end was met.
    end: Option<u64>,
}

impl Progress {
    /// The entry of this number; `None` behind the last.
    pub(crate) fn entry(&mut self, dir: &Node, number: u64) -> FuseResult<Option<&DirEntry>> {
        loop {
            if self.end.is_some_and(|end| number >= end) {
                return Ok(None);
            }
            let known = self.starts.partition_point(|(first, _)| *first <= number);
            let index = known.saturating_sub(1);
            if self.page.as_ref().is_none_or(|(read, _)| *read != index) {
                self.read(dir, index)?;
            }
            let first = self.starts.get(index).map_or(0, |(first, _)| *first);
            let Some((_, entries)) = &self.page else { return Err(Errno::EIO) };
            let at = usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
            if at < entries.len() {
                break;
            }
            // A page that is shorter than when it was read first ends where the next one begins.
            match self.starts.get(index + 1) {
                Some((next, _)) if *next > number => return Ok(None),
                Some(_) => {}
                None => self.end = Some(first.saturating_add(entries.len() as u64)),
            }
        }
        let first = self.page.as_ref().and_then(|(i, _)| self.starts.get(*i)).map_or(0, |s| s.0);
        let at = usize::try_from(number - first).unwrap_or(usize::MAX);
        Ok(self.page.as_ref().and_then(|(_, entries)| entries.get(at)))
    }

    /// Reads the page that begins at a known place, and notes where the one behind it does.
    fn read(&mut self, dir: &Node, index: usize) -> FuseResult<()> {
        if self.starts.is_empty() {
            self.starts.push((0, DirCursor::default()));
        }
        let Some(&(first, from)) = self.starts.get(index) else { return Err(Errno::EIO) };
        let page = dir.read_dir(from, PAGE).or_errno()?;
        let mut entries = Vec::with_capacity(page.entries.len());
        for entry in page.entries {
            entries.push(entry.or_errno()?);
        }
        if let (Some(next), true) = (page.next, self.starts.len() == index + 1) {
            self.starts.push((first.saturating_add(entries.len() as u64), next));
        }
        self.page = Some((index, entries));
        Ok(())
    }
}
