//! Bookmarks: what is left of a snapshot to send increments from, without its data.
//!
//! Specified in `docs/format/bookmark.md`. A dataset's bookmarks are entries of the ZAP under
//! [`crate::dsl::dataset_field::BOOKMARKS`], name to an array of 3 words, or of 12 with feature
//! `bookmark_v2` or `bookmark_written`.

use crate::bpobj::Space;
use crate::error::{Error, ErrorKind, Result};
use crate::wordstruct::word_struct;

word_struct! {
    /// The additional fields of the second form: for redacted sends, for the size written since,
    /// for raw sends.
    pub struct BookmarkExtra("bookmark") {
        /// [Redaction list](crate::redaction); 0: none.
        pub redaction_obj: u64,
        /// `BookmarkExtra::FLAG_*`.
        pub flags: u64,
        referenced: u64,
        compressed: u64,
        uncompressed: u64,
        freed_referenced: u64,
        freed_compressed: u64,
        freed_uncompressed: u64,
        /// Identifies the set of IVs of the snapshot; 0: not encrypted.
        pub ivset_guid: u64,
    }
}

impl BookmarkExtra {
    /// The sizes of what was freed before the next snapshot are valid.
    pub const FLAG_HAS_FREED: u64 = 1 << 0;
    /// The snapshot was still there when the flag was last updated.
    pub const FLAG_SNAPSHOT_EXISTS: u64 = 1 << 1;

    /// Space the snapshot referenced.
    #[must_use]
    pub fn referenced(&self) -> Space {
        let (used, compressed, uncompressed) =
            (self.referenced, self.compressed, self.uncompressed);
        Space { used, compressed, uncompressed }
    }

    /// Space of the snapshot's blocks that were freed before the next snapshot.
    #[must_use]
    pub fn freed_before_next_snap(&self) -> Space {
        let (used, compressed, uncompressed) =
            (self.freed_referenced, self.freed_compressed, self.freed_uncompressed);
        Space { used, compressed, uncompressed }
    }

    /// With these sizes.
    #[must_use]
    pub fn with_spaces(self, referenced: Space, freed: Space) -> Self {
        Self {
            referenced: referenced.used,
            compressed: referenced.compressed,
            uncompressed: referenced.uncompressed,
            freed_referenced: freed.used,
            freed_compressed: freed.compressed,
            freed_uncompressed: freed.uncompressed,
            ..self
        }
    }
}

/// A bookmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// GUID of the snapshot.
    pub guid: u64,
    /// Its creation txg.
    pub creation_txg: u64,
    /// Its creation time, seconds since 1970.
    pub creation_time: u64,
    /// The rest; `None` in the first form.
    pub extra: Option<BookmarkExtra>,
}

impl Bookmark {
    /// Words of the first form.
    pub const WORDS_V1: usize = 3;
    /// Words of the second form.
    pub const WORDS_V2: usize = Self::WORDS_V1 + BookmarkExtra::WORDS;

    /// Decodes the words of the ZAP value.
    pub fn from_words(words: &[u64]) -> Result<Self> {
        let &[guid, creation_txg, creation_time, ref rest @ ..] = words else {
            let (needed, available) = (Self::WORDS_V1 as u64 * 8, words.len() as u64 * 8);
            let kind = ErrorKind::Truncated { needed, available };
            return Err(Error { structure: "bookmark", field: "guid", offset: 0, kind });
        };
        let extra = match rest {
            [] => None,
            rest => Some(BookmarkExtra::from_words(rest)?),
        };
        Ok(Self { guid, creation_txg, creation_time, extra })
    }

    /// The words of the ZAP value.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        let mut words = vec![self.guid, self.creation_txg, self.creation_time];
        if let Some(extra) = &self.extra {
            words.extend(extra.to_words());
        }
        words
    }
}
