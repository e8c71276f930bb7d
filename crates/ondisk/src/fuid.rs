//! FUIDs: user and group ids that can carry a Windows domain.
//!
//! Specified in `docs/format/fuid.md`. The low 32 bits are the id (in a domain: the relative id),
//! the high 32 bits the number of a domain in the file system's table; number 0 means plain POSIX
//! ids. The table is an object of type "FUID table" named by `FUID` in the master node: a packed
//! name-value list whose length is stored in the object's bonus.

use std::collections::BTreeMap;

use crate::cursor::{Endian, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::nvlist::{NvList, NvValue, Packing};

/// Entry of the master node that names the table's object.
pub const MASTER_NODE_ENTRY: &str = "FUID";
const ARRAY: &str = "fuid_nvlist";
const INDEX: &str = "fuid_idx";
const OFFSET: &str = "fuid_offset";
const DOMAIN: &str = "fuid_domain";

/// A user or group id as stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fuid(pub u64);

impl Fuid {
    /// An id in the domain of that number.
    #[must_use]
    pub fn new(domain: u32, id: u32) -> Self {
        Self((u64::from(domain) << 32) | u64::from(id))
    }

    /// Number of the domain in the table; 0: a plain id.
    #[must_use]
    pub fn domain(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The id, relative to its domain when it has one.
    #[must_use]
    pub fn id(self) -> u32 {
        self.0 as u32
    }
}

/// The domains of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FuidTable {
    /// Domain names (`S-1-5-21-…`) by number.
    pub domains: BTreeMap<u32, Vec<u8>>,
}

fn error(field: &'static str, kind: ErrorKind) -> Error {
    Error { structure: "fuid table", field, offset: 0, kind }
}

impl FuidTable {
    /// Length of the packed list, from the object's bonus.
    pub fn packed_size(bonus: &[u8], endian: Endian) -> Result<u64> {
        Reader::new("fuid table size", bonus, endian).u64("size")
    }

    /// Decodes the object's content, at least [`Self::packed_size`] bytes of it.
    pub fn decode(packed: &[u8]) -> Result<Self> {
        let list = NvList::decode(packed)?;
        let mut domains = BTreeMap::new();
        let rows = match list.get(ARRAY) {
            Some(NvValue::NvListArray(rows)) => rows,
            Some(_) => return Err(error(ARRAY, ErrorKind::WrongType)),
            None => return Err(error(ARRAY, ErrorKind::Missing)),
        };
        for row in rows {
            let number = row.u64(INDEX)?;
            let Ok(number) = u32::try_from(number) else {
                let max = u32::MAX.into();
                return Err(error(INDEX, ErrorKind::OutOfRange { value: number, min: 0, max }));
            };
            let Some(NvValue::String(domain)) = row.get(DOMAIN) else {
                return Err(error(DOMAIN, ErrorKind::Missing));
            };
            domains.insert(number, domain.clone());
        }
        Ok(Self { domains })
    }

    /// Packs the table as OpenZFS does.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let rows = self.domains.iter().map(|(number, domain)| {
            let mut row = NvList::new();
            row.set(INDEX, NvValue::U64((*number).into()));
            row.set(OFFSET, NvValue::U64(0));
            row.set(DOMAIN, NvValue::String(domain.clone()));
            row
        });
        let mut list = NvList::new();
        list.set(ARRAY, NvValue::NvListArray(rows.collect()));
        list.encode(Packing::XDR)
    }

    /// The domain and relative id of `id`; `None` for a plain id or an unknown domain.
    #[must_use]
    pub fn resolve(&self, id: Fuid) -> Option<(&[u8], u32)> {
        self.domains.get(&id.domain()).map(|d| (d.as_slice(), id.id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_round_trips() {
        let mut table = FuidTable::default();
        table.domains.insert(1, b"S-1-5-21-1-2-3".to_vec());
        table.domains.insert(2, b"S-1-5-32".to_vec());
        let packed = table.encode().unwrap();
        assert_eq!(FuidTable::decode(&packed).unwrap(), table);
        let id = Fuid::new(2, 544);
        assert_eq!(id.0, 0x2_0000_0220);
        assert_eq!(table.resolve(id), Some((&b"S-1-5-32"[..], 544)));
        assert_eq!(table.resolve(Fuid(1000)), None);
    }
}
