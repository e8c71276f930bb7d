//! Decodes a record of a log into an operation.

use super::acl;
use super::refusal::Refusal;
use crate::op::{
    AccessList, Cloned, Create, Data, FlagChange, Identity, NameInDir, NewFile, NewKind, Op,
    Renaming, SetAttrs, StoredData, VolumeOp, XattrMode,
};
use ondisk::fuid::{Fuid, FuidTable};
use ondisk::zil::{self, AclPart, AttrBit, Body, ExtraAttrs, Record, TxType, Whiteout};
use ondisk::znode::{Time, device_numbers, flags, mode};
use ondisk::{BlkPtr, Endian};

type Result<T> = std::result::Result<T, Refusal>;

/// Bits of the mask of `SETATTR`, as Linux has them.
pub(super) mod mask {
    pub(in super::super) const MODE: u64 = 0x1;
    pub(in super::super) const UID: u64 = 0x2;
    pub(in super::super) const GID: u64 = 0x4;
    pub(in super::super) const SIZE: u64 = 0x8;
    pub(in super::super) const ATIME: u64 = 0x10;
    pub(in super::super) const MTIME: u64 = 0x20;
    pub(in super::super) const CTIME: u64 = 0x40;
    /// More attributes follow.
    pub(in super::super) const EXTRA: u64 = 1 << 31;
}

/// Flags of a list in a record, and what they are in a file.
pub(super) const ACL_HINTS: [(u64, u64); 3] =
    [(0x1, flags::ACL_AUTO_INHERIT), (0x2, flags::ACL_PROTECTED), (0x4, flags::ACL_DEFAULTED)];

/// Attributes of a record that are flags of a file.
pub(super) const FLAG_BITS: [(AttrBit, u64); 15] = [
    (AttrBit::ReadOnly, flags::READONLY),
    (AttrBit::Hidden, flags::HIDDEN),
    (AttrBit::System, flags::SYSTEM),
    (AttrBit::Archive, flags::ARCHIVE),
    (AttrBit::Immutable, flags::IMMUTABLE),
    (AttrBit::NoUnlink, flags::NOUNLINK),
    (AttrBit::AppendOnly, flags::APPENDONLY),
    (AttrBit::NoDump, flags::NODUMP),
    (AttrBit::Opaque, flags::OPAQUE),
    (AttrBit::AvQuarantined, flags::AV_QUARANTINED),
    (AttrBit::AvModified, flags::AV_MODIFIED),
    (AttrBit::Reparse, flags::REPARSE),
    (AttrBit::Offline, flags::OFFLINE),
    (AttrBit::Sparse, flags::SPARSE),
    (AttrBit::ProjInherit, flags::PROJINHERIT),
];

/// Largest value of an extended attribute that is kept among the attributes.
const XATTR_MAX: usize = 32 << 10;
/// No object of a file has this number or a higher one.
const OBJECTS_MAX: u64 = 1 << 48;
/// Files end before 2^63.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// The time a record was made, if it has one.
pub(crate) fn time_of(record: &Record) -> Option<Time> {
    match &record.body {
        Body::Create(c) => Some(time(c.create_time)),
        Body::Rename { whiteout: Some(w), .. } => Some(time(w.create_time)),
        _ => None,
    }
}

/// A time as records have it.
fn time(words: [u64; 2]) -> Time {
    Time { seconds: words[0].cast_signed(), nanos: words[1] }
}

/// Decodes records of one file system.
pub struct Decoder<'f> {
    /// The domains of the file system.
    pub fuids: &'f FuidTable,
    /// When the change is thought to be made.
    pub now: Time,
    /// The order of what the record leaves undecoded.
    pub endian: Endian,
}

impl Decoder<'_> {
    /// The operation of a record of a file system.
    ///
    /// # Errors
    /// The record contradicts itself, or contains something unknown.
    pub fn op<'r>(&self, record: &'r Record) -> Result<Op<'r>> {
        let any_case = record.case_insensitive;
        let at = |dir: u64, name: &'r [u8]| NameInDir { dir, name, any_case };
        Ok(match &record.body {
            Body::Create(c) => return self.create(record, c, at(c.directory, &c.name)),
            Body::Remove { directory, name } => match record.kind {
                TxType::RMDIR => Op::Rmdir(at(*directory, name)),
                _ => Op::Unlink(at(*directory, name)),
            },
            Body::Link { directory, object, name } => {
                Op::Link { file: *object, at: at(*directory, name) }
            }
            Body::Rename { source_directory, target_directory, whiteout, source, target } => {
                let how = match (record.kind, whiteout) {
                    (TxType::RENAME_EXCHANGE, _) => Renaming::Exchange,
                    (_, Some(w)) => whiteout_of(w)?,
                    (_, None) => Renaming::Replace,
                };
                let (from, to) = (at(*source_directory, source), at(*target_directory, target));
                Op::Rename { from, to, how: Box::new(how) }
            }
            Body::Write { object, offset, length, .. } if record.kind == TxType::WRITE2 => {
                Op::Extend { file: *object, offset: *offset, length: *length }
            }
            Body::Write { object, offset, length, block, data, .. } => {
                Op::Write { file: *object, offset: *offset, data: data_of(*length, block, data) }
            }
            Body::Truncate { object, offset, length: 0 } => {
                Op::Truncate { file: *object, size: *offset }
            }
            Body::Truncate { object, offset, length } => {
                let end = offset.checked_add(*length).filter(|end| *end <= OFFSET_MAX);
                end.ok_or(Refusal::Damaged("the range ends behind the largest file"))?;
                Op::Punch { file: *object, offset: *offset, length: *length, extends: true }
            }
            Body::SetAttr { object, .. } => {
                Op::SetAttrs { file: *object, set: self.set_attrs(&record.body)? }
            }
            Body::AclV0 { object, count, entries } => {
                let mut none = || Err(Refusal::Damaged("an ACL entry lacks its FUID"));
                let entries = acl::logged(entries, *count, self.endian, &mut none)?;
                Op::SetAcl { file: *object, acl: AccessList { entries, hints: 0 } }
            }
            Body::Acl { object, acl } => Op::SetAcl { file: *object, acl: self.acl(acl)? },
            Body::SetSaXattr { object, name, value } => match value.as_slice() {
                [] => Op::RemoveXattr { file: *object, name },
                value if value.len() > XATTR_MAX => {
                    return Err(Refusal::Damaged("an attribute longer than the list takes"));
                }
                value => Op::SetXattr { file: *object, name, value, how: XattrMode::Any },
            },
            Body::CloneRange { object, .. } => match cloned_of(&record.body) {
                Some(cloned) => Op::Clone { file: *object, cloned },
                None => return Err(UNKNOWN),
            },
            _ => return Err(UNKNOWN),
        })
    }

    fn create<'r>(&self, record: &Record, c: &NewObject, at: NameInDir<'r>) -> Result<Op<'r>> {
        let kind = c.mode & mode::TYPE;
        let fits = match record.kind {
            TxType::MKXATTR => kind == mode::DIR,
            TxType::SYMLINK => kind == mode::SYMLINK,
            k if k == TxType::MKDIR || k.0 >= TxType::MKDIR_ACL.0 => kind == mode::DIR,
            _ => !matches!(kind, mode::DIR | mode::SYMLINK),
        };
        if !fits {
            return Err(Refusal::Damaged("the mode does not match the type of the new file"));
        }
        let domains = c.acl.as_ref().map_or(&c.domains, |a| &a.domains);
        let new = NewFile {
            kind: kind_of(c.mode, c.rdev, c.link.as_deref())?,
            mode: permissions(c.mode),
            uid: self.id(c.uid, domains)?,
            gid: self.id(c.gid, domains)?,
            now: time(c.create_time),
        };
        let identity = Some(identity(c.object, c.slots, c.generation)?);
        if record.kind == TxType::MKXATTR {
            return Ok(Op::CreateXattrDir { file: c.directory, new, identity });
        }
        let mut set = SetAttrs::default();
        if let Some(attrs) = &c.attrs {
            self.extra(&mut set, attrs);
        }
        let acl = c.acl.as_ref().map(|part| self.acl(part)).transpose()?;
        Ok(Op::Create(Box::new(Create { at, new, identity, set, acl })))
    }

    fn set_attrs(&self, body: &Body) -> Result<SetAttrs> {
        let Body::SetAttr { mask, mode, uid, gid, size, atime, mtime, attrs, .. } = body else {
            return Err(UNKNOWN);
        };
        let asks = |bit| mask & bit != 0;
        let id = |id| self.id(id, &[]);
        let mut set = SetAttrs {
            mode: asks(mask::MODE).then(|| permissions(*mode)),
            uid: asks(mask::UID).then(|| id(*uid)).transpose()?,
            gid: asks(mask::GID).then(|| id(*gid)).transpose()?,
            size: asks(mask::SIZE).then_some(*size),
            atime: asks(mask::ATIME).then(|| time(*atime)),
            mtime: (asks(mask::MTIME) || asks(mask::SIZE)).then(|| time(*mtime)),
            // A read is never logged, so this was a change whatever it set.
            ctime: Some(self.now),
            ..SetAttrs::default()
        };
        if let Some(attrs) = attrs {
            self.extra(&mut set, attrs);
        }
        Ok(set)
    }

    /// The attributes at the end of a create or setattr record.
    fn extra(&self, set: &mut SetAttrs, attrs: &ExtraAttrs) {
        let mut change = FlagChange::default();
        for (bit, flag) in FLAG_BITS {
            if let Some(on) = attrs.value(bit) {
                change.which |= flag;
                change.value |= if on { flag } else { 0 };
            }
        }
        set.flags = change;
        if attrs.asks(AttrBit::CreateTime) {
            set.crtime = Some(time(attrs.create_time));
        }
        if attrs.asks(AttrBit::AvScanStamp) {
            set.scan_stamp = Some(attrs.stamp);
        } else {
            set.project = attrs.project(self.endian);
        }
    }

    fn acl(&self, part: &AclPart) -> Result<AccessList> {
        let mut fuids = part.fuids.iter();
        let mut next = || {
            let logged = fuids.next().ok_or(Refusal::Damaged("an ACL entry lacks its FUID"))?;
            self.id(*logged, &part.domains)
        };
        let entries = acl::logged(&part.entries, part.count, self.endian, &mut next)?;
        let hints = ACL_HINTS.iter().filter(|(bit, _)| part.flags & bit != 0);
        Ok(AccessList { entries, hints: hints.fold(0, |all, (_, flag)| all | flag) })
    }

    /// An id of a record as the file system stores it: one with a domain gets the number the
    /// domain has here, for that in the record only counts the record's own list.
    fn id(&self, logged: u64, domains: &[Vec<u8>]) -> Result<u64> {
        let id = Fuid(logged);
        let Some(at) = id.domain().checked_sub(1) else { return Ok(logged) };
        let name =
            domains.get(at as usize).ok_or(Refusal::Damaged("a domain that is not listed"))?;
        let mut known = self.fuids.domains.iter();
        let (number, _) = known
            .find(|(_, d)| *d == name)
            .ok_or(Refusal::Unsupported("a domain new to the file system"))?;
        Ok(Fuid::new(*number, id.id()).0)
    }
}

/// A new object in a record.
type NewObject = zil::Create;

const UNKNOWN: Refusal = Refusal::Unsupported("a record of an unknown type");

/// The operation of a record of a volume of `size` bytes; `None`: there is nothing to do.
pub(crate) fn volume_op(record: &Record, size: u64) -> Result<Option<VolumeOp<'_>>> {
    Ok(match &record.body {
        // The data are where they belong, and the size does not change.
        Body::Write { .. } if record.kind == TxType::WRITE2 => None,
        Body::Write { offset, length, block, data, .. } => {
            Some(VolumeOp::Write { offset: *offset, data: data_of(*length, block, data) })
        }
        Body::Truncate { offset, length, .. } => {
            let end = match length {
                0 => size,
                n => offset.saturating_add(*n).min(size),
            };
            let length = end.saturating_sub(*offset);
            (length > 0).then_some(VolumeOp::Free { offset: *offset, length })
        }
        Body::CloneRange { .. } => cloned_of(&record.body).map(VolumeOp::Clone),
        _ => return Err(Refusal::Unsupported("a volume has no records of this type")),
    })
}

/// The data of a write: in the record, or in the block it names.
fn data_of<'r>(length: u64, block: &'r BlkPtr, data: &'r [u8]) -> Data<'r> {
    match data.is_empty() && length > 0 {
        true => Data::Stored(StoredData { block, length }),
        false => Data::Bytes(data),
    }
}

fn cloned_of(body: &Body) -> Option<Cloned<'_>> {
    let Body::CloneRange { offset, length, block_size, blocks, .. } = body else { return None };
    Some(Cloned { offset: *offset, length: *length, block_size: *block_size, blocks })
}

fn whiteout_of(w: &Whiteout) -> Result<Renaming> {
    if w.mode & mode::TYPE != mode::CHAR {
        return Err(Refusal::Damaged("a whiteout is a character device"));
    }
    let (uid, gid) = (w.uid, w.gid);
    let kind = kind_of(w.mode, w.rdev, None)?;
    let new = NewFile { kind, mode: permissions(w.mode), uid, gid, now: time(w.create_time) };
    Ok(Renaming::Whiteout(new, Some(identity(w.object, w.slots, w.generation)?)))
}

fn permissions(m: u64) -> u32 {
    (m & mode::PERMISSIONS) as u32
}

fn kind_of(m: u64, rdev: u64, target: Option<&[u8]>) -> Result<NewKind> {
    let (major, minor) = device_numbers(rdev);
    Ok(match m & mode::TYPE {
        mode::FILE => NewKind::File,
        mode::DIR => NewKind::Dir,
        mode::SYMLINK => NewKind::Symlink(target.unwrap_or_default().to_vec()),
        mode::FIFO => NewKind::Fifo,
        mode::SOCKET => NewKind::Socket,
        mode::BLOCK => NewKind::Block(major, minor),
        mode::CHAR => NewKind::Char(major, minor),
        _ => return Err(Refusal::Damaged("the mode is not that of a file")),
    })
}

fn identity(object: u64, slots: u16, generation: u64) -> Result<Identity> {
    if object == 0 || object >= OBJECTS_MAX {
        return Err(Refusal::Damaged("no file has that number"));
    }
    match u8::try_from(slots) {
        Ok(slots @ 1..=32) => Ok(Identity { object, slots, generation }),
        _ => Err(Refusal::Damaged("the number of dnode slots is out of range")),
    }
}
