//! Access lists of POSIX, where a dataset has them (`acltype=posix`): as the kernel and the pool
//! have them, an extended attribute each.
//!
//! The kernel checks rights by the list. The consequences of a list are computed here: the list of
//! a new file from the default list of its directory, the mode that corresponds to a list, and the
//! list that a mode changes.

use crate::errno::FuseResult;
use crate::kernel::Errno;

/// The list that decides about a file.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The list that what is made in a directory gets.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The number before the entries.
const VERSION: u32 = 2;

/// The subject of an entry.
const OWNER: u16 = 0x01;
const GROUP: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHERS: u16 = 0x20;
/// Others than those three, and the mask.
const NAMED: [u16; 2] = [0x02, 0x08];

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    rights: u16,
    id: u32,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List(Vec<Entry>);

impl List {
    /// Reads one; a list of no entries means that there is none.
    pub(crate) fn decode(bytes: &[u8]) -> FuseResult<Option<Self>> {
        let (version, rest) = bytes.split_first_chunk().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*version) != VERSION || rest.len() % 8 != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let entries: Vec<Entry> = rest
            .chunks_exact(8)
            .filter_map(|b| {
                let &[a, b, c, d, e, f, g, h] = <&[u8; 8]>::try_from(b).ok()?;
                let (tag, rights) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                Some(Entry { tag, rights, id: u32::from_le_bytes([e, f, g, h]) })
            })
            .collect();
        let known =
            |e: &Entry| [OWNER, GROUP, MASK, OTHERS].contains(&e.tag) || NAMED.contains(&e.tag);
        if !entries.iter().all(|e| known(e) && e.rights <= 7) {
            return Err(Errno::EINVAL);
        }
        Ok((!entries.is_empty()).then_some(Self(entries)))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = VERSION.to_le_bytes().to_vec();
        for e in &self.0 {
            out.extend(e.tag.to_le_bytes());
            out.extend(e.rights.to_le_bytes());
            out.extend(e.id.to_le_bytes());
        }
        out
    }

    fn rights(&self, tag: u16) -> Option<u32> {
        self.0.iter().find(|e| e.tag == tag).map(|e| e.rights.into())
    }

    /// The corresponding permissions of owner, group and others.
    pub(crate) fn mode(&self) -> u32 {
        let group = self.rights(MASK).or_else(|| self.rights(GROUP));
        let [owner, group, others] =
            [self.rights(OWNER), group, self.rights(OTHERS)].map(Option::unwrap_or_default);
        (owner << 6) | (group << 3) | others
    }

    /// It is equivalent to a mode.
    pub(crate) fn is_mode(&self) -> bool {
        self.0.iter().all(|e| [OWNER, GROUP, OTHERS].contains(&e.tag))
    }

    /// The list with the permissions of a mode: what is for the group is for the mask when there is
    /// one.
    pub(crate) fn with_mode(mut self, mode: u32) -> Self {
        let group = if self.rights(MASK).is_some() { MASK } else { GROUP };
        for e in &mut self.0 {
            let shift = match e.tag {
                OWNER => 6,
                OTHERS => 0,
                tag if tag == group => 3,
                _ => continue,
            };
            e.rights = ((mode >> shift) & 7) as u16;
        }
        self
    }

    /// The list of a new file of this mode, from its directory's default list.
    pub(crate) fn for_new(self, mode: u32) -> Self {
        let both = mode & self.mode();
        self.with_mode(both)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> List {
        List(entries.iter().map(|&(tag, rights)| Entry { tag, rights, id: 7 }).collect())
    }

    #[test]
    fn a_list_survives_the_way() {
        let full = list(&[(OWNER, 7), (NAMED[0], 6), (GROUP, 5), (MASK, 4), (OTHERS, 1)]);
        assert_eq!(List::decode(&full.encode()).unwrap(), Some(full.clone()));
        assert_eq!((full.mode(), full.is_mode()), (0o741, false));
        assert_eq!(List::decode(&VERSION.to_le_bytes()).unwrap(), None);
        for bytes in [&b""[..], b"\x02\0\0", b"\x03\0\0\0", b"\x02\0\0\0\x01\0\x08\0\0\0\0\0"] {
            assert!(List::decode(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_new_file_has_no_more_than_was_asked_for_it() {
        let default = list(&[(OWNER, 7), (NAMED[1], 7), (GROUP, 5), (MASK, 7), (OTHERS, 5)]);
        let new = default.for_new(0o640);
        assert_eq!((new.mode(), new.rights(GROUP)), (0o640, Some(5)));
        let plain = list(&[(OWNER, 7), (GROUP, 7), (OTHERS, 7)]).with_mode(0o751);
        assert!(plain.is_mode() && plain.mode() == 0o751);
    }
}
