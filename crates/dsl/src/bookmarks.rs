//! Bookmarks: the places incremental sends can start from without a snapshot.

use crate::error::{Error, Result};
use crate::property::{Property, Source};
use crate::tree::{Dataset, Dsl};
use dmu::Zap;
use ondisk::bookmark::Bookmark;
use ondisk::dsl::dataset_field;
use ondisk::redaction::RedactionHeader;
use ondisk::spelling;

/// A bookmark and its name.
#[derive(Clone, Debug)]
pub struct NamedBookmark {
    /// Full name, `pool/a#bookmark`.
    pub name: String,
    /// As on disk.
    pub phys: Bookmark,
}

impl Dsl {
    /// The bookmarks of a head, oldest first, then by name.
    pub fn bookmarks(&self, head: &Dataset) -> Result<Vec<NamedBookmark>> {
        let Some(table) = self.bookmark_table(head)? else { return Ok(Vec::new()) };
        let object = table.object().number();
        let mut out = Vec::new();
        for entry in table.entries() {
            let entry = entry?;
            let bad = || Error::Tree { object, rule: "a bookmark has no name" };
            let name = spelling::name(entry.name.bytes().ok_or_else(bad)?);
            let words: Vec<u64> = entry.ints().collect();
            let phys = Bookmark::from_words(&words);
            let phys = phys.map_err(|error| Error::Format { object, error })?;
            out.push(NamedBookmark { name: format!("{}#{name}", head.name), phys });
        }
        out.sort_by(|a, b| (a.phys.creation_txg, &a.name).cmp(&(b.phys.creation_txg, &b.name)));
        Ok(out)
    }

    /// The bookmark `pool/a#name`.
    pub fn bookmark(&self, name: &str) -> Result<NamedBookmark> {
        let absent = || Error::NoSuchDataset(name.to_owned());
        let (path, short) = name.split_once('#').ok_or_else(|| Error::BadName(name.to_owned()))?;
        let head = self.head(&self.dir_by_name(path)?)?.ok_or_else(absent)?;
        let table = self.bookmark_table(&head)?.ok_or_else(absent)?;
        let entry = table.get(&spelling::stored(short))?.ok_or_else(absent)?;
        let words: Vec<u64> = entry.ints().collect();
        let object = table.object().number();
        let phys = Bookmark::from_words(&words);
        let phys = phys.map_err(|error| Error::Format { object, error })?;
        Ok(NamedBookmark { name: name.to_owned(), phys })
    }

    fn bookmark_table(&self, head: &Dataset) -> Result<Option<Zap>> {
        let Some(fields) = self.fields(head.object, head.has_fields)? else { return Ok(None) };
        match fields.get_u64(dataset_field::BOOKMARKS)?.filter(|n| *n != 0) {
            Some(n) => Ok(Some(Zap::open(&self.mos().object(n)?)?)),
            None => Ok(None),
        }
    }

    /// The properties of a bookmark, as in `zfs get all`. Sizes are known only of bookmarks made
    /// with the feature `bookmark_written`.
    pub fn bookmark_properties(&self, bookmark: &NamedBookmark) -> Result<Vec<Property>> {
        let b = &bookmark.phys;
        let mut out = vec![("type", "bookmark".to_owned())];
        out.push(("creation", b.creation_time.to_string()));
        if let Some(x) = b.extra.as_ref().filter(|x| x.referenced().used != 0) {
            out.push(("referenced", x.referenced().used.to_string()));
        }
        out.push(("createtxg", b.creation_txg.to_string()));
        out.push(("guid", b.guid.to_string()));
        if let Some(x) = b.extra.as_ref().filter(|x| x.referenced().used != 0) {
            out.push(("logicalreferenced", x.referenced().uncompressed.to_string()));
        }
        if let Some(x) = b.extra.as_ref().filter(|x| x.redaction_obj != 0) {
            let guids = self.redaction_snapshots(x.redaction_obj)?;
            let guids: Vec<_> = guids.iter().map(u64::to_string).collect();
            out.push(("redact_snaps", guids.join(",")));
        }
        let property = |(name, value)| Property::native(name, value, Source::None);
        Ok(out.into_iter().filter_map(property).collect())
    }

    /// GUIDs of the snapshots a redaction list was made with.
    pub fn redaction_snapshots(&self, object: u64) -> Result<Vec<u64>> {
        let list = self.mos().object(object)?;
        let header = match list.read_spill()? {
            Some(b) => RedactionHeader::decode(b.bytes(), b.endian()),
            None => RedactionHeader::decode(&list.dnode().bonus, list.dnode().endian),
        };
        Ok(header.map_err(|error| Error::Format { object, error })?.snapshots)
    }
}
