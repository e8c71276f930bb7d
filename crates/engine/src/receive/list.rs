//! The list that a stream of several snapshots begins with: file systems, snapshots, properties.

use crate::error::{Error, ErrorKind, Result, StreamFault};
use dsl::write::PropertyChange;
use dsl::{CRYPT_KEYDATA, SealedStream, StoredValue};
use ondisk::nvlist::{NvList, NvPair, NvValue};
use ondisk::props::{Access, find_dataset, is_user_property};
use ondisk::spelling::full_name;
use ondisk::stream::ENCRYPTION_ROOT;
use std::collections::BTreeMap;

/// The list of a stream of several snapshots.
pub(super) struct ReceivedPackage {
    /// Without one it is of several snapshots of one dataset, whose properties are not sent.
    list: Option<NvList>,
    /// The dataset that was sent, with all below it if they were.
    pub(super) top: String,
}

/// A dataset as the sender has it.
pub(super) struct Sent {
    /// Its name there.
    pub(super) name: String,
    /// GUID of a snapshot of the dataset above it; 0 of the one that was sent.
    pub(super) above: u64,
    /// It is an encryption root.
    pub(super) is_root: bool,
    /// GUIDs of its snapshots, with their names.
    pub(super) snapshots: BTreeMap<u64, String>,
}

/// The properties that a stream carries for a dataset and one of its snapshots.
#[derive(Default)]
pub(super) struct SentProperties {
    /// It is one of a tree, whose datasets are of several kinds.
    pub(super) is_in_tree: bool,
    /// The dataset's properties are sent.
    pub(super) has_properties: bool,
    /// They, but those that a dataset does not receive.
    pub(super) properties: Vec<PropertyChange>,
    /// Users' properties of the snapshot.
    pub(super) of_snapshot: Vec<PropertyChange>,
}

impl ReceivedPackage {
    /// Of the list behind BEGIN; `name` is what BEGIN calls it.
    pub(super) fn new(packed: &[u8], name: &str) -> Result<Self> {
        let bad = || Error::new(ErrorKind::BadStream(StreamFault::List));
        let list = match packed {
            [] => None,
            packed => Some(NvList::decode(packed).map_err(|_| bad())?),
        };
        let top = name.split('@').next().unwrap_or_default().to_owned();
        Ok(Self { list, top })
    }

    /// Datasets below the one that was sent are in it.
    pub(super) fn is_recursive(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.get("not_recursive").is_none())
    }

    /// Encrypted datasets come as they are encrypted.
    pub(super) fn is_raw(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.get("raw").is_some())
    }

    /// All are increments of snapshots of one name.
    pub(super) fn is_increment(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.get("fromsnap").is_some())
    }

    /// All datasets that the list is about, in its order.
    pub(super) fn datasets(&self) -> Vec<Sent> {
        let all = self.list.as_ref().and_then(|list| list.get("fss"));
        let Some(NvValue::NvList(all)) = all else { return Vec::new() };
        let one = |pair: &NvPair| {
            let NvValue::NvList(one) = &pair.value else { return None };
            let Some(NvValue::String(name)) = one.get("name") else { return None };
            let Some(NvValue::NvList(snapshots)) = one.get("snaps") else { return None };
            let guid = |pair: &NvPair| match pair.value {
                NvValue::U64(guid) => Some((guid, ondisk::spelling::name(&pair.name))),
                _ => None,
            };
            Some(Sent {
                name: full_name(name),
                above: one.u64("parentfromsnap").unwrap_or(0),
                is_root: one.get(ENCRYPTION_ROOT).is_some(),
                snapshots: snapshots.pairs.iter().filter_map(guid).collect(),
            })
        };
        all.pairs.iter().filter_map(one).collect()
    }

    /// The properties sent for the snapshot with this GUID and for its dataset.
    pub(super) fn properties_of(&self, guid: u64) -> SentProperties {
        let none =
            || SentProperties { is_in_tree: self.is_recursive(), ..SentProperties::default() };
        let all = self.list.as_ref().and_then(|list| list.get("fss"));
        let Some(NvValue::NvList(all)) = all else { return none() };
        for one in &all.pairs {
            let NvValue::NvList(one) = &one.value else { continue };
            let Some(NvValue::NvList(snapshots)) = one.get("snaps") else { continue };
            let found = snapshots.pairs.iter().find(|pair| pair.value == NvValue::U64(guid));
            let Some(snapshot) = found else { continue };
            let properties = one.get("props");
            let of_snapshot = match one.get("snapprops") {
                Some(NvValue::NvList(all)) => {
                    let mine = all.pairs.iter().find(|pair| pair.name == snapshot.name);
                    mine.map(|pair| changes(&pair.value)).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            return SentProperties {
                has_properties: properties.is_some(),
                properties: properties.map(changes).unwrap_or_default(),
                of_snapshot,
                ..none()
            };
        }
        none()
    }
}

/// The object and the offset with which the rest of a stream begins, of the list behind its BEGIN.
pub(super) fn start(packed: &[u8]) -> Option<(u64, u64)> {
    let list = NvList::decode(packed).ok()?;
    Some((list.u64("resume_object").ok()?, list.u64("resume_offset").ok()?))
}

/// The encryption parameters of a raw stream, from the list behind its BEGIN.
pub(super) fn sealed(packed: &[u8]) -> Result<SealedStream> {
    let bad = |what| Error::new(ErrorKind::BadStream(what));
    let list = NvList::decode(packed).map_err(|_| bad(StreamFault::List))?;
    let Some(NvValue::NvList(list)) = list.get(CRYPT_KEYDATA) else {
        return Err(bad(StreamFault::Record("a raw stream has no key")));
    };
    let wrong = |_| bad(StreamFault::Record("the key of the raw stream cannot be received"));
    SealedStream::decode(list).map_err(wrong)
}

/// The properties of a list, but those that come with the content, or cannot be set.
fn changes(list: &NvValue) -> Vec<PropertyChange> {
    let NvValue::NvList(list) = list else { return Vec::new() };
    let mut out = Vec::new();
    for pair in &list.pairs {
        let Ok(name) = std::str::from_utf8(&pair.name) else { continue };
        let value = match &pair.value {
            NvValue::U64(n) => StoredValue::Number(*n),
            NvValue::String(text) => StoredValue::Text(String::from_utf8_lossy(text).into_owned()),
            _ => continue,
        };
        let is_received = match find_dataset(name) {
            Some(p) => {
                p.name == name
                    && matches!(p.access, Access::Settable | Access::Inherit)
                    && name != "keylocation"
            }
            None => is_user_property(name),
        };
        if is_received {
            out.push(PropertyChange { name: name.to_owned(), value: Some(value) });
        }
    }
    out
}
