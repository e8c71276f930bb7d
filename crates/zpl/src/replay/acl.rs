//! NFSv4 lists: the trivial one of a mode, those of log records, and the mode a list gives.
//!
//! A record has entries as applications pass them: 12 bytes, ids of 32 bits, and 32 more where
//! the entry is about a kind of object. An id above 2^31 stands for an owner with a domain; the
//! next of the record's FUIDs says which.

use super::refusal::Refusal;
pub(super) use crate::acl::trivial;
use crate::acl::{EXECUTE, READ_DATA, WRITE_DATA};
use ondisk::Endian;
use ondisk::acl::{Ace, Who};
use ondisk::acl::{TYPE_ALLOW, TYPE_DENY, VERSION_INITIAL, decode_aces};

type Result<T> = std::result::Result<T, Refusal>;

/// The entry is for what is made below only.
const FLAG_INHERIT_ONLY: u16 = 0x8;
const ENTRY_SIZE: usize = 12;
const OBJECT_SIZE: usize = 32;
const TYPES_OBJECT: core::ops::RangeInclusive<u16> = 5..=8;

/// Decodes `count` entries of a record; `fuid` gives the FUID of the next id with a domain.
pub(super) fn logged(
    bytes: &[u8],
    count: u64,
    endian: Endian,
    fuid: &mut dyn FnMut() -> Result<u64>,
) -> Result<Vec<Ace>> {
    if count > bytes.len() as u64 / ENTRY_SIZE as u64 {
        return Err(Refusal::Damaged("more ACL entries than bytes for them"));
    }
    let mut rest = bytes;
    let mut out = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (entry, behind) =
            rest.split_at_checked(ENTRY_SIZE).ok_or(Refusal::Damaged("an ACL entry is cut off"))?;
        rest = behind;
        let decoded = decode_aces(entry, VERSION_INITIAL, 1, endian)?;
        let Some(mut ace) = decoded.first().copied() else { continue };
        if TYPES_OBJECT.contains(&ace.kind) {
            let (object, behind) = rest
                .split_at_checked(OBJECT_SIZE)
                .ok_or(Refusal::Damaged("an ACL entry is cut off"))?;
            rest = behind;
            let (kinds, _) = object.as_chunks::<16>();
            ace.object = kinds.first_chunk::<2>().copied();
        }
        match ace.who() {
            Who::User(id) | Who::Group(id) if is_ephemeral(id) => ace.id = fuid()?,
            Who::User(_) | Who::Group(_) => {}
            _ => ace.id = 0,
        }
        out.push(ace);
    }
    Ok(out)
}

/// Ids above this one stand for ids with a domain.
pub(super) fn is_ephemeral(id: u64) -> bool {
    id > i32::MAX as u64
}

/// The permissions that a list gives to owner, group and others, read from its first word about
/// each. Set-id and sticky bits and the type are those of `m`.
pub(super) fn mode_of(aces: &[Ace], m: u64, uid: u64, gid: u64) -> u64 {
    let (mut seen, mut granted) = (0u64, 0u64);
    for ace in aces.iter().filter(|a| a.flags & FLAG_INHERIT_ONLY == 0) {
        let classes: u64 = match ace.who() {
            Who::Owner => 0o700,
            Who::OwningGroup => 0o070,
            Who::Everyone => 0o777,
            Who::User(id) if id == uid => 0o700,
            Who::Group(id) if id == gid => 0o070,
            _ => continue,
        };
        if !matches!(ace.kind, TYPE_ALLOW | TYPE_DENY) {
            continue;
        }
        let mut bits = 0;
        for (mask, bit) in [(READ_DATA, 0o444), (WRITE_DATA, 0o222), (EXECUTE, 0o111)] {
            bits |= if ace.mask & mask != 0 { bit } else { 0 };
        }
        let new = bits & classes & !seen;
        seen |= new;
        granted |= if ace.kind == TYPE_ALLOW { new } else { 0 };
    }
    (m & !0o777) | granted
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::znode::mode;

    #[test]
    fn a_trivial_list_gives_its_mode() {
        for permissions in 0..0o1000 {
            for kind in [mode::FILE, mode::DIR] {
                let m = kind | 0o4000 | permissions;
                assert_eq!(mode_of(&trivial(m), m & !0o777, 0, 0), m, "{permissions:o}");
            }
        }
    }

    #[test]
    fn the_usual_modes_need_no_denial() {
        let kinds = |m| trivial(m).iter().map(|a| a.kind).collect::<Vec<_>>();
        assert_eq!(kinds(mode::FILE | 0o644), [TYPE_ALLOW; 3]);
        assert_eq!(kinds(mode::FILE | 0o077).len(), 4);
        assert_eq!(kinds(mode::FILE | 0o604).len(), 5);
    }

    #[test]
    fn entries_that_are_cut_off_are_damage() {
        let mut none = || Err(Refusal::NotFound);
        assert!(logged(&[0; 24], 3, Endian::Little, &mut none).is_err());
        assert!(logged(&[0; 24], u64::MAX, Endian::Little, &mut none).is_err());
        // Type 5 needs 32 bytes more.
        let object = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 5, 0];
        assert!(logged(&object, 1, Endian::Little, &mut none).is_err());
        // An id above 2^31 needs a FUID.
        let foreign = [0, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0];
        assert!(logged(&foreign, 1, Endian::Little, &mut none).is_err());
        let found = logged(&foreign, 1, Endian::Little, &mut || Ok(7 << 32)).unwrap();
        assert_eq!(found[0].id, 7 << 32);
    }
}
