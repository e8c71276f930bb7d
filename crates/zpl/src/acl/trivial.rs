//! The list that corresponds to a mode, and the mode that corresponds to a list.

use ondisk::acl::{Ace, AceWho, FLAG_EVERYONE, FLAG_GROUP, FLAG_IDENTIFIER_GROUP, FLAG_OWNER};
use ondisk::acl::{TYPE_ALLOW, TYPE_DENY};
use ondisk::znode::mode;

/// The entry is for what is made below only.
const FLAG_INHERIT_ONLY: u16 = 0x8;

const READ_DATA: u32 = 0x1;
const WRITE_DATA: u32 = 0x2;
const APPEND_DATA: u32 = 0x4;
const READ_NAMED_ATTRS: u32 = 0x8;
const WRITE_NAMED_ATTRS: u32 = 0x10;
const EXECUTE: u32 = 0x20;
const DELETE_CHILD: u32 = 0x40;
const READ_ATTRIBUTES: u32 = 0x80;
const WRITE_ATTRIBUTES: u32 = 0x100;
const READ_ACL: u32 = 0x2_0000;
const WRITE_ACL: u32 = 0x4_0000;
const WRITE_OWNER: u32 = 0x8_0000;
const SYNCHRONIZE: u32 = 0x10_0000;
/// Permissions that everyone always has.
const ALL: u32 = READ_ACL | READ_ATTRIBUTES | READ_NAMED_ATTRS | SYNCHRONIZE;
/// Permissions that the owner always has beyond that.
const OWNER: u32 = WRITE_ATTRIBUTES | WRITE_OWNER | WRITE_ACL | WRITE_NAMED_ATTRS;
const OWNING_GROUP: u16 = FLAG_GROUP | FLAG_IDENTIFIER_GROUP;

/// The list that corresponds to mode `m`. A class with fewer permissions than one after it needs a
/// denial first, or the later entry would grant them.
pub(crate) fn trivial(m: u64) -> Vec<Ace> {
    let write = match m & mode::TYPE {
        mode::DIR => WRITE_DATA | APPEND_DATA | DELETE_CHILD,
        _ => WRITE_DATA | APPEND_DATA,
    };
    let (mut allow0, mut deny1, mut deny2) = (0, 0, 0);
    let (mut owner, mut group, mut everyone) = (ALL | OWNER, ALL, ALL);
    for (bit, mask) in [(4, READ_DATA), (2, write), (1, EXECUTE)] {
        let [u, g, o] = [6, 3, 0].map(|shift| (m >> shift) & bit != 0);
        allow0 |= if u && !g && o { mask } else { 0 };
        deny1 |= if !u && (g || o) { mask } else { 0 };
        deny2 |= if !g && o { mask } else { 0 };
        owner |= if u { mask } else { 0 };
        group |= if g { mask } else { 0 };
        everyone |= if o { mask } else { 0 };
    }
    let ace = |kind, flags, mask| Ace { kind, flags, mask, id: 0, object: None };
    let before = [
        ace(TYPE_ALLOW, FLAG_OWNER, allow0),
        ace(TYPE_DENY, FLAG_OWNER, deny1),
        ace(TYPE_DENY, OWNING_GROUP, deny2),
    ];
    let mut out: Vec<Ace> = before.into_iter().filter(|a| a.mask != 0).collect();
    out.push(ace(TYPE_ALLOW, FLAG_OWNER, owner));
    out.push(ace(TYPE_ALLOW, OWNING_GROUP, group));
    out.push(ace(TYPE_ALLOW, FLAG_EVERYONE, everyone));
    out
}

/// The permissions that a list gives to owner, group and others, read from its first word about
/// each. Set-id and sticky bits and the type are those of `m`.
pub(crate) fn mode_of(aces: &[Ace], m: u64, uid: u64, gid: u64) -> u64 {
    let (mut seen, mut granted) = (0u64, 0u64);
    for ace in aces.iter().filter(|a| a.flags & FLAG_INHERIT_ONLY == 0) {
        let classes: u64 = match ace.who() {
            AceWho::Owner => 0o700,
            AceWho::OwningGroup => 0o070,
            AceWho::Everyone => 0o777,
            AceWho::User(id) if id == uid => 0o700,
            AceWho::Group(id) if id == gid => 0o070,
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
}
