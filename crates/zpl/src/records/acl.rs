//! The NFSv4 lists of log records.
//!
//! A record has entries as applications pass them: 12 bytes, ids of 32 bits, and 32 more where the
//! entry is about a kind of object. An id above 2^31 represents an owner with a domain; it is the
//! next of the record's FUIDs.

use super::refusal::Refusal;
use ondisk::Endian;
use ondisk::acl::{Ace, AceWho};
use ondisk::acl::{VERSION_INITIAL, decode_aces, encode_aces};
use ondisk::fuid::Fuid;

type Result<T> = std::result::Result<T, Refusal>;

const ENTRY_SIZE: usize = 12;
/// The id of an owner with a domain, and of entries that name no id.
const FOREIGN_ID: u64 = 1 << 31;
const NO_ID: u64 = u32::MAX as u64;
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
            AceWho::User(id) | AceWho::Group(id) if is_ephemeral(id) => ace.id = fuid()?,
            AceWho::User(_) | AceWho::Group(_) => {}
            _ => ace.id = 0,
        }
        out.push(ace);
    }
    Ok(out)
}

/// Encodes entries as applications pass them.
pub(super) fn encode(aces: &[Ace], endian: Endian) -> Vec<u8> {
    let mut out = Vec::new();
    for ace in aces {
        let id = match ace.who() {
            AceWho::User(_) | AceWho::Group(_) if has_domain(ace) => FOREIGN_ID,
            AceWho::User(id) | AceWho::Group(id) => id,
            _ => NO_ID,
        };
        out.extend(encode_aces(&[Ace { id, ..*ace }], VERSION_INITIAL, endian));
        if TYPES_OBJECT.contains(&ace.kind) {
            out.extend(ace.object.unwrap_or_default().as_flattened());
        }
    }
    out
}

/// Whether an entry is about an owner with a domain.
pub(super) fn has_domain(ace: &Ace) -> bool {
    matches!(ace.who(), AceWho::User(id) | AceWho::Group(id) if Fuid(id).domain() != 0)
}

/// Ids above this one represent ids with a domain.
pub(super) fn is_ephemeral(id: u64) -> bool {
    id > i32::MAX as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_are_cut_off_are_damage() {
        let mut none = || Err(Refusal::Damaged("no FUID"));
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
