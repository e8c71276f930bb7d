//! The one place where operations are carried out.

use super::{HOLD_NAMES, HOLD_TREE};
use crate::error::Result;
use crate::fs::Filesystem;
use crate::op::{Data, Op, Outcome};
use dmu::{Hold, SpaceUse, Tx};
use ondisk::znode::Time;

/// Bytes that setting an extended attribute may make dirty beside its value.
const HOLD_XATTR: u64 = 256 << 10;

impl Op<'_> {
    /// The hold of a transaction for it.
    #[must_use]
    pub fn hold(&self) -> Hold {
        match self {
            Self::Write { data: Data::Stored(stored), .. } => {
                Hold::write(stored.block.lsize() + HOLD_TREE)
            }
            Self::Write { data, .. } => Hold::write(data.len() + HOLD_TREE),
            Self::Append { data, .. } => Hold::write(data.len() as u64 + HOLD_TREE),
            // Whether a file shrinks is only known once it is locked; one that grows gets holes, so
            // both may use the reserve.
            Self::Truncate { .. } | Self::Punch { .. } => {
                Hold { bytes: HOLD_TREE, space: SpaceUse::Free }
            }
            Self::Unlink(_) | Self::Rmdir(_) => Hold { bytes: HOLD_NAMES, space: SpaceUse::Free },
            Self::SetXattr { value, .. } => Hold::write(HOLD_XATTR + value.len() as u64),
            Self::Clone { .. } => Hold::write(HOLD_TREE),
            _ => Hold::write(HOLD_NAMES),
        }
    }
}

impl Data<'_> {
    /// Bytes that are written.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(stored) => stored.length,
        }
    }
}

impl Filesystem {
    /// Carries out an operation as part of `tx`. `now` is the time it happens at.
    ///
    /// # Errors
    /// Why it is not possible; nothing is changed then. The functions with names list the errors.
    pub fn apply(&self, tx: &Tx, op: &Op<'_>, now: Time) -> Result<Outcome> {
        self.check_writable()?;
        let done = match op {
            Op::Create(create) => return self.create_now(tx, create, now),
            Op::CreateXattrDir { file, new, identity } => {
                return self.create_xattr_dir(tx, *file, new, *identity);
            }
            Op::Unlink(at) => self.remove(tx, at, false, now),
            Op::Rmdir(at) => self.remove(tx, at, true, now),
            Op::Link { file, at } => self.link_now(tx, *file, at, now),
            Op::Rename { from, to, how } => self.rename_now(tx, (from, to), how, now),
            Op::Write { file, offset, data } => {
                let write = || self.write_now(tx, *file, *offset, data, now);
                self.objset().usage().writing(data.len(), write)
            }
            Op::Append { file, data } => {
                let append = || self.append_now(tx, *file, data, now);
                let at = self.objset().usage().writing(data.len() as u64, append)?;
                return Ok(Outcome::Wrote(at));
            }
            Op::Extend { file, offset, length } => {
                self.extend_now(tx, *file, offset.saturating_add(*length))
            }
            Op::Truncate { file, size } => self.truncate_now(tx, *file, *size, now),
            Op::Punch { file, offset, length, extends } => {
                self.punch_now(tx, *file, (*offset, *length), *extends, now)
            }
            Op::Clone { file, cloned } => self.clone_now(tx, *file, cloned, now),
            Op::SetAttrs { file, set } => self.set_attrs_now(tx, *file, set, now),
            Op::SetAcl { file, acl } => self.set_acl_now(tx, *file, acl, now),
            Op::SetXattr { file, name, value, how } => {
                self.set_xattr_now(tx, *file, (name, value), *how, now)
            }
            Op::RemoveXattr { file, name } => self.remove_xattr_now(tx, *file, name, now),
        };
        done.map(|()| Outcome::Done)
    }
}
