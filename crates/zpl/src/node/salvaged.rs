//! Files of which attributes are lost: with those that can be read, or whose places show what they
//! are (`ondisk::sa::places`).

use super::{FileKind, Node};
use crate::error::Result;
use crate::fs::{Filesystem, Reading};
use dmu::Object;
use ondisk::DmuType;
use ondisk::sa::places::{self, Facts, Found};
use ondisk::sa::{SaSet, SaTables, SaValue, zpl};
use ondisk::znode::mode;

/// Nanoseconds of a time are fewer.
const NANOS_END: u64 = 1_000_000_000;

impl Node {
    /// The file as far as its attributes can be read.
    pub(crate) fn salvaged(fs: &Filesystem, object: Object) -> Result<Self> {
        let whole = Self::whole(fs, object.clone());
        if whole.as_ref().is_ok_and(Self::is_plausible) {
            return whole;
        }
        let kind = match object.dnode().kind {
            DmuType::PLAIN_FILE_CONTENTS => mode::FILE,
            DmuType::DIRECTORY_CONTENTS => mode::DIR,
            _ => return whole,
        };
        if let Some(node) = Self::by_places(fs, &object) {
            return Ok(node);
        }
        whole.or_else(|e| {
            let lost = format!(
                "its attributes are lost: only its owner may use it, and it is as large as its \
                 blocks ({e})"
            );
            Ok(Self::of_data(fs, object, kind).without(Some(lost)))
        })
    }

    /// The attributes can be those of a file.
    fn is_plausible(&self) -> bool {
        let times = [self.atime, self.mtime, self.ctime, self.crtime];
        self.kind() != FileKind::Unknown
            && self.mode <= mode::TYPE | mode::PERMISSIONS
            && times.iter().all(|t| t.nanos < NANOS_END)
    }

    /// The file, with the attributes that the tables know or whose places show what they are, from
    /// bonus and spill block.
    fn by_places(fs: &Filesystem, object: &Object) -> Option<Self> {
        let dnode = object.dnode();
        let tables = fs.sa_tables().filter(|_| dnode.bonus_kind == DmuType::SA)?;
        let has_spill = dnode.spill.as_ref().is_some_and(|bp| !bp.is_hole());
        let mut lost = Vec::new();
        let known = tables.split(&dnode.bonus).ok().and_then(|values| {
            let set = SaSet::new(&tables, values.clone());
            let node = Self::from_set(fs, object.clone(), &set).ok()?;
            node.is_plausible().then_some(values)
        });
        let mut values = match known {
            Some(values) => values,
            None => {
                let found = places::in_bonus(&dnode.bonus, has_spill)?;
                lost.extend(unsure(fs, &found));
                values_at(&tables, &dnode.bonus, &found)
            }
        };
        let facts = facts(&SaSet::new(&tables, values.clone()));
        let (more, missing) = spilled(fs, object, &tables, facts);
        values.extend(more);
        lost.extend(missing);
        let node = Self::from_set(fs, object.clone(), &SaSet::new(&tables, values)).ok()?;
        Some(node.without(lost.into_iter().next()))
    }
}

/// The attributes in the spill block of a file, and what is to be said of them.
fn spilled(
    fs: &Filesystem,
    object: &Object,
    tables: &SaTables,
    facts: Facts,
) -> (Vec<SaValue>, Option<String>) {
    let spill = match object.read_spill() {
        Ok(Some(spill)) => spill,
        Ok(None) => return (Vec::new(), None),
        Err(e) => return (Vec::new(), Some(format!("{LATER_LOST} ({e})"))),
    };
    if let Ok(values) = tables.split(spill.bytes()) {
        return (values, None);
    }
    match places::in_spill(spill.bytes(), facts) {
        Some(found) => (values_at(tables, spill.bytes(), &found), unsure(fs, &found)),
        None => (Vec::new(), Some(LATER_LOST.to_owned())),
    }
}

const LATER_LOST: &str = "attributes beside mode, owner, size and times are lost";

/// What is to be said of a file whose attributes were found by their places. Where that is so of
/// all files, it was said already.
fn unsure(fs: &Filesystem, found: &Found) -> Option<String> {
    match (found.is_whole, fs.reading()) {
        (false, _) => Some(LATER_LOST.to_owned()),
        (true, Reading::Guess) => None,
        (true, _) => Some("its attributes are found by their sizes and values".to_owned()),
    }
}

fn values_at(tables: &SaTables, data: &[u8], found: &Found) -> Vec<SaValue> {
    let value = |(name, place): &(&str, std::ops::Range<usize>)| {
        let bytes = data.get(place.clone())?.to_vec();
        Some(SaValue { number: tables.attr(name)?.number, bytes, endian: found.endian })
    };
    found.places.iter().filter_map(value).collect()
}

fn facts(set: &SaSet<'_>) -> Facts {
    let word = |name| set.u64(name).unwrap_or(0);
    Facts {
        mode: word(zpl::MODE),
        size: word(zpl::SIZE),
        flags: word(zpl::FLAGS),
        aces: set.u64(zpl::DACL_COUNT),
    }
}
