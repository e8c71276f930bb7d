//! Extended attributes of both kinds: a list among the attributes (`xattr=sa`), and files in a
//! hidden directory (`xattr=dir`).
//!
//! Both can exist for one file; a name in the list covers the same name in the directory.

use crate::error::{Error, Result};
use crate::node::Node;
use ondisk::nvlist::{NvList, NvValue};
use std::collections::BTreeMap;

/// Largest value that is read, as Linux limits it (`XATTR_SIZE_MAX`), with room to spare.
const VALUE_MAX: u64 = 16 << 20;

impl Node {
    /// All extended attributes by name, with the names as stored.
    pub fn xattrs(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let mut out = BTreeMap::new();
        if self.xattr_dir != 0 {
            let dir = self.filesystem().node(self.xattr_dir)?;
            for entry in dir.sorted_entries()? {
                let file = self.filesystem().node(entry.object)?;
                if file.size > VALUE_MAX {
                    let rule = "an extended attribute is larger than any can be";
                    return Err(file.object().error(dmu::ErrorKind::Tree(rule)).into());
                }
                let mut value = vec![0; file.size as usize];
                file.read_at(0, &mut value)?;
                out.insert(entry.name, value);
            }
        }
        if let Some(packed) = self.sa_xattrs.as_ref().filter(|p| !p.is_empty()) {
            let object = self.number();
            let list = NvList::decode(packed).map_err(|error| Error::Format { object, error })?;
            for pair in list.pairs {
                match pair.value {
                    NvValue::ByteArray(v) => drop(out.insert(pair.name, v)),
                    NvValue::U8Array(v) => drop(out.insert(pair.name, v)),
                    _ => {}
                }
            }
        }
        Ok(out)
    }
}
