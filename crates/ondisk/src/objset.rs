//! Object sets: the header of a set of objects, with its meta dnode and intent log.
//!
//! Specified in `docs/format/dmu.md`. Three sizes: 1024 bytes (pool versions before user
//! accounting), 2048 (user and group accounting dnodes), 4096 (project accounting dnode).
//!
//! ```text
//! 0 meta dnode (512)   512 ZIL header (192)   704 type u64   712 flags u64
//! 720 portable MAC (32)   752 local MAC (32)   784 padding up to 1024
//! 1024 user-used dnode   1536 group-used dnode   2048 project-used dnode   2560.. padding to 4096
//! ```

use crate::blkptr::BlkPtr;
use crate::cursor::{Endian, Reader, Writer};
use crate::dnode::{DNODE_SLOT_SIZE, Dnode};
use crate::error::{ErrorKind, Result};

/// Size of the first form in bytes.
pub const OBJSET_SIZE_V1: usize = 1024;
/// Size with user and group accounting in bytes.
pub const OBJSET_SIZE_V2: usize = 2048;
/// Size with project accounting in bytes.
pub const OBJSET_SIZE_V3: usize = 4096;
/// Size of the intent log header in bytes.
pub const ZIL_HEADER_SIZE: usize = 192;
const MACS_AT: usize = 720;

/// User accounting is complete.
pub const FLAG_USERACCOUNTING_COMPLETE: u64 = 1 << 0;
/// Object-count accounting is complete.
pub const FLAG_USEROBJACCOUNTING_COMPLETE: u64 = 1 << 1;
/// Project accounting is complete.
pub const FLAG_PROJECTQUOTA_COMPLETE: u64 = 1 << 2;

/// The kind of an object set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjsetKind {
    /// No type: never formatted, or the head of an origin.
    None,
    /// The meta object set (MOS) of the pool.
    Meta,
    /// A file system.
    Zfs,
    /// A volume.
    Zvol,
    /// Made by tests (ztest).
    Other,
    /// "Any": not on disk by intent.
    Any,
    /// An unknown number.
    Unknown(u64),
}

impl ObjsetKind {
    /// From the number on disk.
    #[must_use]
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => Self::None,
            1 => Self::Meta,
            2 => Self::Zfs,
            3 => Self::Zvol,
            4 => Self::Other,
            5 => Self::Any,
            n => Self::Unknown(n),
        }
    }

    /// The number on disk.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Meta => 1,
            Self::Zfs => 2,
            Self::Zvol => 3,
            Self::Other => 4,
            Self::Any => 5,
            Self::Unknown(n) => n,
        }
    }
}

/// Header of a dataset's intent log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ZilHeader {
    /// Txg in which log blocks began to be claimed; 0: no log to replay.
    pub claim_txg: u64,
    /// Highest record sequence number already replayed.
    pub replay_seq: u64,
    /// First log block.
    pub log: BlkPtr,
    /// Highest claimed block sequence number.
    pub claim_blk_seq: u64,
    /// `FLAG_*` of the ZIL header: 1 replay needed, 2 `claim_lr_seq` is valid.
    pub flags: u64,
    /// Highest claimed record sequence number.
    pub claim_lr_seq: u64,
    pad: [u64; 3],
}

impl ZilHeader {
    /// The log must be replayed before the dataset is changed.
    pub const FLAG_REPLAY_NEEDED: u64 = 1 << 0;
    /// `claim_lr_seq` is valid.
    pub const FLAG_CLAIM_LR_SEQ_VALID: u64 = 1 << 1;

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            claim_txg: r.u64("zil claim_txg")?,
            replay_seq: r.u64("zil replay_seq")?,
            log: r.blkptr("zil log")?,
            claim_blk_seq: r.u64("zil claim_blk_seq")?,
            flags: r.u64("zil flags")?,
            claim_lr_seq: r.u64("zil claim_lr_seq")?,
            pad: r.words("zil pad")?,
        })
    }

    fn write(&self, w: &mut Writer) {
        w.u64(self.claim_txg).u64(self.replay_seq).blkptr(&self.log).u64(self.claim_blk_seq);
        w.u64(self.flags).u64(self.claim_lr_seq).words(&self.pad);
    }
}

/// Header of an object set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjsetPhys {
    /// Dnode of the array of all dnodes; `None` when its slot is free (an empty set).
    pub meta_dnode: Option<Dnode>,
    /// Intent log.
    pub zil: ZilHeader,
    /// The kind of the set.
    pub kind: ObjsetKind,
    /// `FLAG_*`.
    pub flags: u64,
    /// MAC over what a raw receive must preserve (encrypted datasets).
    pub portable_mac: [u8; 32],
    /// MAC over accounting, local to this pool (encrypted datasets).
    pub local_mac: [u8; 32],
    /// Space used by user (ZAP), when this form has it and it is allocated.
    pub user_used: Option<Dnode>,
    /// Space used by group (ZAP).
    pub group_used: Option<Dnode>,
    /// Space used by project (ZAP).
    pub project_used: Option<Dnode>,
    /// Size on disk: one of the three forms.
    pub size: usize,
    raw: Vec<u8>,
}

impl ObjsetPhys {
    /// The header of a set without objects; `size` is one of the three forms.
    #[must_use]
    pub fn new(kind: ObjsetKind, size: usize) -> Self {
        Self {
            meta_dnode: None,
            zil: ZilHeader::default(),
            kind,
            flags: 0,
            portable_mac: [0; 32],
            local_mac: [0; 32],
            user_used: None,
            group_used: None,
            project_used: None,
            size,
            raw: Vec::new(),
        }
    }

    /// Decodes the whole block.
    pub fn decode(data: &[u8], endian: Endian) -> Result<Self> {
        let mut r = Reader::new("objset", data, endian);
        let size = match data.len() {
            OBJSET_SIZE_V1 => OBJSET_SIZE_V1,
            OBJSET_SIZE_V2 => OBJSET_SIZE_V2,
            n if n >= OBJSET_SIZE_V3 => OBJSET_SIZE_V3,
            n => {
                let (needed, available) = (OBJSET_SIZE_V1 as u64, n as u64);
                return Err(r.error("size", ErrorKind::Truncated { needed, available }));
            }
        };
        let dnode = |at: usize| -> Result<Option<Dnode>> {
            match data.get(at..at + DNODE_SLOT_SIZE) {
                Some(b) if at + DNODE_SLOT_SIZE <= size && !Dnode::is_free_slot(b) => {
                    Dnode::decode(b, endian).map(Some)
                }
                _ => Ok(None),
            }
        };
        let meta_dnode = dnode(0)?;
        r.seek("zil", DNODE_SLOT_SIZE)?;
        let zil = ZilHeader::read(&mut r)?;
        let kind = ObjsetKind::from_number(r.u64("type")?);
        let flags = r.u64("flags")?;
        let portable_mac = r.array("portable_mac")?;
        let local_mac = r.array("local_mac")?;
        Ok(Self {
            meta_dnode,
            zil,
            kind,
            flags,
            portable_mac,
            local_mac,
            user_used: dnode(OBJSET_SIZE_V1)?,
            group_used: dnode(OBJSET_SIZE_V1 + DNODE_SLOT_SIZE)?,
            project_used: dnode(OBJSET_SIZE_V2)?,
            size,
            raw: data.get(..size).unwrap_or(data).to_vec(),
        })
    }

    /// Encodes into [`Self::size`] bytes; padding is kept as found.
    #[must_use]
    pub fn encode(&self, endian: Endian) -> Vec<u8> {
        let mut out = self.raw.clone();
        out.resize(self.size, 0);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(slot) = out.get_mut(at..at + bytes.len()) {
                slot.copy_from_slice(bytes);
            }
        };
        let dnodes = [
            (0, &self.meta_dnode),
            (OBJSET_SIZE_V1, &self.user_used),
            (OBJSET_SIZE_V1 + DNODE_SLOT_SIZE, &self.group_used),
            (OBJSET_SIZE_V2, &self.project_used),
        ];
        for (at, dn) in dnodes {
            match dn {
                Some(dn) => put(at, &dn.encode(endian)),
                // A slot that was free keeps its bytes; one that became free is cleared.
                None if self.raw.get(at).is_some_and(|kind| *kind != 0) => {
                    put(at, &[0; DNODE_SLOT_SIZE]);
                }
                None => {}
            }
        }
        let mut w = Writer::new(endian);
        self.zil.write(&mut w);
        w.u64(self.kind.number()).u64(self.flags);
        debug_assert_eq!(DNODE_SLOT_SIZE + w.at(), MACS_AT);
        w.bytes(&self.portable_mac).bytes(&self.local_mac);
        put(DNODE_SLOT_SIZE, &w.into_bytes());
        out
    }
}
