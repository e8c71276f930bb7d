//! The NFSv4 access list every file has, in all forms it was ever stored in.
//!
//! | where | version |
//! | --- | --- |
//! | attributes `ZPL_DACL_COUNT` and `ZPL_DACL_ACES` | 1 |
//! | attribute `ZPL_ZNODE_ACL`: the structure of the old znode, kept by an upgrade | 0 or 1 |
//! | the old znode: up to 72 bytes within, or an object of their own | 0 or 1 |
//!
//! Linux neither shows nor obeys these lists; it keeps them so that other systems can. They are
//! shown in the compact text of `ls -V` (illumos) and `nfs4_getfacl`-like tools:
//! `user:1000:rwxpdDaARWcCos:fdi----:allow`.

mod trivial;

pub(crate) use trivial::{mode_of, trivial};

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::node::Node;
use crate::stored_acl::StoredAcl;
use ondisk::Endian;
use ondisk::acl::{Ace, AceWho, AclPhys, VERSION_FUID, decode_aces};
use ondisk::fuid::Fuid;
use ondisk::znode::flags;
use std::fmt::Write as _;

/// Largest list that is read: 1024 entries of the largest size, with room to spare.
const ACL_BYTES_MAX: u64 = 64 << 10;

/// An access list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Its entries, in the order in which they decide.
    pub entries: Vec<Ace>,
    /// The list grants exactly what the mode does.
    pub trivial: bool,
}

/// An entry of an access list as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AceText {
    /// `owner@`, `group@`, `everyone@`, `user:ID` or `group:ID`.
    pub who: String,
    /// One letter for each permission, `-` where it is not set.
    pub permissions: String,
    /// One letter for each inheritance flag, `-` where it is not set.
    pub inheritance: String,
    /// `allow`, `deny`, `audit` or `alarm`.
    pub kind: &'static str,
}

impl std::fmt::Display for AceText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}:{}", self.who, self.permissions, self.inheritance, self.kind)
    }
}

impl Node {
    /// The NFSv4 list; empty when the file has none.
    pub fn acl(&self) -> Result<Acl> {
        let trivial = self.flags & flags::ACL_TRIVIAL != 0;
        let object = self.number();
        let format = |error| Error::Format { object, error };
        let entries = match &self.acl {
            StoredAcl::None => Vec::new(),
            StoredAcl::Damaged(e) => return Err(format(e.clone())),
            StoredAcl::Entries { count, bytes, endian } => {
                decode_aces(bytes, VERSION_FUID, *count, *endian).map_err(format)?
            }
            StoredAcl::Phys(acl, endian) => match acl.embedded_aces(*endian).map_err(format)? {
                Some(entries) => entries,
                None => self.external_aces(acl, *endian)?,
            },
        };
        Ok(Acl { entries, trivial })
    }

    /// The entries of a list too long for the znode.
    fn external_aces(&self, acl: &AclPhys, endian: Endian) -> Result<Vec<Ace>> {
        let object = self.filesystem().objset().object(acl.external_object)?;
        if acl.size > ACL_BYTES_MAX.min(object.size_of_blocks()) {
            let rule = "an access list is larger than its object";
            return Err(object.error(dmu::ErrorKind::Tree(rule)).into());
        }
        let mut bytes = vec![0; acl.size as usize];
        object.read_at(0, &mut bytes)?;
        // The object's blocks have the byte order of the machine that wrote them last, as has the
        // dnode: both were rewritten with the list.
        decode_aces(&bytes, acl.version, acl.count, endian)
            .map_err(|error| Error::Format { object: acl.external_object, error })
    }
}

/// Letters of the permissions, by their bit, in the order of the compact text.
const PERMISSIONS: [(u32, char); 14] = [
    (0x1, 'r'),
    (0x2, 'w'),
    (0x20, 'x'),
    (0x4, 'p'),
    (0x1_0000, 'd'),
    (0x40, 'D'),
    (0x80, 'a'),
    (0x100, 'A'),
    (0x8, 'R'),
    (0x10, 'W'),
    (0x2_0000, 'c'),
    (0x4_0000, 'C'),
    (0x8_0000, 'o'),
    (0x10_0000, 's'),
];

/// Letters of the inheritance flags.
const INHERITANCE: [(u16, char); 7] =
    [(0x1, 'f'), (0x2, 'd'), (0x8, 'i'), (0x4, 'n'), (0x10, 'S'), (0x20, 'F'), (0x80, 'I')];

impl Filesystem {
    /// An entry as text; ids of other domains are resolved.
    #[must_use]
    pub fn ace_text(&self, ace: &Ace) -> AceText {
        let who = match ace.who() {
            AceWho::Owner => "owner@".to_owned(),
            AceWho::OwningGroup => "group@".to_owned(),
            AceWho::Everyone => "everyone@".to_owned(),
            AceWho::User(id) => format!("user:{}", self.id_text(id)),
            AceWho::Group(id) => format!("group:{}", self.id_text(id)),
        };
        let mut permissions = String::new();
        for (bit, letter) in PERMISSIONS {
            permissions.push(if ace.mask & bit != 0 { letter } else { '-' });
        }
        let mut inheritance = String::new();
        for (bit, letter) in INHERITANCE {
            inheritance.push(if ace.flags & bit != 0 { letter } else { '-' });
        }
        let kind = match ace.kind {
            0 | 5 => "allow",
            1 | 6 => "deny",
            2 | 7 => "audit",
            _ => "alarm",
        };
        AceText { who, permissions, inheritance, kind }
    }

    /// An id as text: the number, or domain and relative id (`S-1-5-21-1-2-3-1013`).
    #[must_use]
    pub fn id_text(&self, id: u64) -> String {
        let fuid = Fuid(id);
        if fuid.domain() == 0 {
            return fuid.id().to_string();
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = match self.fuids().resolve(fuid) {
            Some((domain, id)) => write!(text, "{}-{id}", String::from_utf8_lossy(domain)),
            None => write!(text, "domain-{}-{}", fuid.domain(), fuid.id()),
        };
        text
    }

    /// The id Linux shows for a stored one: ids of other domains mean no one there.
    #[must_use]
    pub fn linux_id(id: u64) -> u32 {
        /// `nobody`.
        const NOBODY: u32 = 65534;
        let fuid = Fuid(id);
        if fuid.domain() == 0 { fuid.id() } else { NOBODY }
    }
}
