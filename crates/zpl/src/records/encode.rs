//! Encodes an operation as a record of the log.
//!
//! The other direction of `decode.rs`: what is encoded here decodes to the same operation. An
//! operation must be complete for that. Which object a new file is, where an append went and how
//! much of a hole was in the file is decided while it is applied.

use super::decode::{ACL_HINTS, FLAG_BITS, mask};
use crate::op::{
    AccessList, Cloned, Create, Data, Identity, NameInDir, NewFile, NewKind, Op, Renaming,
    SetAttrs, VolumeOp,
};
use ondisk::fuid::{Fuid, FuidTable};
use ondisk::zil::{self, AclPart, AttrBit, Body, ExtraAttrs, Record, TxType, Whiteout};
use ondisk::znode::{Time, device_word, mode};
use ondisk::{BlkPtr, Endian};

/// The object of a volume's data, as records name it.
const VOLUME_DATA: u64 = 1;

/// Encodes operations of one file system.
#[derive(Clone, Copy)]
pub struct Encoder<'f> {
    /// The domains of the file system.
    pub fuids: &'f FuidTable,
    /// The order in which the log is written.
    pub endian: Endian,
}

impl Encoder<'_> {
    /// The record of an operation, part `seq` of a log, of a change made in `txg`. `None`: the
    /// operation is not complete, or no record can describe it.
    #[must_use]
    pub fn record(&self, op: &Op<'_>, txg: u64, seq: u64) -> Option<Record> {
        let (kind, any_case, body) = self.body(op)?;
        let mut record = Record::new(kind, txg, seq, body);
        record.case_insensitive = any_case;
        Some(record)
    }

    fn body(&self, op: &Op<'_>) -> Option<(TxType, bool, Body)> {
        let named = |at: &NameInDir<'_>| (at.dir, at.name.to_vec(), at.any_case);
        Some(match op {
            Op::Create(create) => {
                let (kind, body) = self.create(create)?;
                (kind, create.at.any_case, Body::Create(Box::new(body)))
            }
            Op::CreateXattrDir { file, new, identity } => {
                let body = self.new_object(*file, new, (*identity)?)?;
                (TxType::MKXATTR, false, Body::Create(Box::new(body)))
            }
            Op::Unlink(at) | Op::Rmdir(at) => {
                let (directory, name, any_case) = named(at);
                let is_dir = matches!(op, Op::Rmdir(_));
                let kind = if is_dir { TxType::RMDIR } else { TxType::REMOVE };
                (kind, any_case, Body::Remove { directory, name })
            }
            Op::Link { file, at } => {
                let (directory, name, any_case) = named(at);
                (TxType::LINK, any_case, Body::Link { directory, object: *file, name })
            }
            Op::Rename { from, to, how } => rename(from, to, how)?,
            Op::SetAttrs { file, set } => (TxType::SETATTR, false, self.set_attrs(*file, set)),
            Op::SetAcl { file, acl } => {
                (TxType::ACL, false, Body::Acl { object: *file, acl: self.acl(acl, Vec::new())? })
            }
            Op::SetXattr { file, name, value, .. } => {
                let (name, value) = (name.to_vec(), value.to_vec());
                (TxType::SETSAXATTR, false, Body::SetSaXattr { object: *file, name, value })
            }
            Op::RemoveXattr { file, name } => {
                let (name, value) = (name.to_vec(), Vec::new());
                (TxType::SETSAXATTR, false, Body::SetSaXattr { object: *file, name, value })
            }
            _ => {
                let (kind, body) = content(op)?;
                (kind, false, body)
            }
        })
    }

    fn create(&self, c: &Create<'_>) -> Option<(TxType, zil::Create)> {
        let mut body = self.new_object(c.at.dir, &c.new, c.identity?)?;
        body.name = c.at.name.to_vec();
        body.attrs = self.extra(&c.set);
        if let Some(acl) = &c.acl {
            // The domains of owner and group are stored with those of the list.
            body.acl = Some(self.acl(acl, std::mem::take(&mut body.domains))?);
        }
        let is_dir = c.new.kind == NewKind::Dir;
        let kind = match (&c.new.kind, body.acl.is_some(), body.attrs.is_some()) {
            (NewKind::Symlink(_), false, false) => TxType::SYMLINK,
            (NewKind::Symlink(_), ..) => return None,
            (_, false, false) if is_dir => TxType::MKDIR,
            (_, false, true) if is_dir => TxType::MKDIR_ATTR,
            (_, true, false) if is_dir => TxType::MKDIR_ACL,
            (_, true, true) if is_dir => TxType::MKDIR_ACL_ATTR,
            (_, false, false) => TxType::CREATE,
            (_, false, true) => TxType::CREATE_ATTR,
            (_, true, false) => TxType::CREATE_ACL,
            (_, true, true) => TxType::CREATE_ACL_ATTR,
        };
        Some((kind, body))
    }

    fn new_object(&self, directory: u64, new: &NewFile, identity: Identity) -> Option<zil::Create> {
        let mut domains = Domains { fuids: self.fuids, names: Vec::new() };
        let link = match &new.kind {
            NewKind::Symlink(target) => Some(target.clone()),
            _ => None,
        };
        // The owner of a symbolic link is logged without its domain.
        let (uid, gid) = match link.is_some() {
            true => (Fuid(new.uid).id().into(), Fuid(new.gid).id().into()),
            false => (domains.logged(new.uid)?, domains.logged(new.gid)?),
        };
        Some(zil::Create {
            directory,
            object: identity.object,
            slots: identity.slots.into(),
            mode: mode_of(new),
            uid,
            gid,
            generation: identity.generation,
            create_time: words(new.now),
            rdev: rdev_of(&new.kind),
            attrs: None,
            acl: None,
            domains: domains.names,
            name: Vec::new(),
            link,
        })
    }

    fn set_attrs(&self, object: u64, set: &SetAttrs) -> Body {
        let masks = [
            (mask::MODE, set.mode.is_some()),
            (mask::UID, set.uid.is_some()),
            (mask::GID, set.gid.is_some()),
            (mask::SIZE, set.size.is_some()),
            (mask::ATIME, set.atime.is_some()),
            (mask::MTIME, set.mtime.is_some()),
            (mask::CTIME, set.ctime.is_some()),
        ];
        let attrs = self.extra(set).map(Box::new);
        let mut bits = masks.iter().filter(|(_, masks)| *masks).fold(0, |all, (bit, _)| all | bit);
        bits |= if attrs.is_some() { mask::EXTRA } else { 0 };
        Body::SetAttr {
            object,
            mask: bits,
            mode: set.mode.unwrap_or(0).into(),
            uid: set.uid.unwrap_or(0),
            gid: set.gid.unwrap_or(0),
            size: set.size.unwrap_or(0),
            atime: words(set.atime.unwrap_or_default()),
            mtime: words(set.mtime.unwrap_or_default()),
            attrs,
        }
    }

    /// The attributes that are not in the fixed fields; `None` if there are none.
    fn extra(&self, set: &SetAttrs) -> Option<ExtraAttrs> {
        let (mut map, mut values) = (0u32, 0u64);
        for (bit, flag) in FLAG_BITS.iter().filter(|(_, flag)| set.flags.which & flag != 0) {
            map |= *bit as u32;
            values |= if set.flags.value & flag != 0 { u64::from(*bit as u32) } else { 0 };
        }
        let mut stamp = [0; 32];
        if let Some(bytes) = &set.scan_stamp {
            map |= AttrBit::AvScanStamp as u32;
            stamp = *bytes;
        } else if let Some(project) = set.project {
            map |= AttrBit::ProjectId as u32;
            let word = match self.endian {
                Endian::Little => project.to_le_bytes(),
                Endian::Big => project.to_be_bytes(),
            };
            stamp[..8].copy_from_slice(&word);
        }
        if set.crtime.is_some() {
            map |= AttrBit::CreateTime as u32;
        }
        let create_time = words(set.crtime.unwrap_or_default());
        (map != 0).then_some(ExtraAttrs { map: [map, 0, 0], values, create_time, stamp })
    }

    /// A list, behind whose own the record has these domains already.
    fn acl(&self, acl: &AccessList, names: Vec<Vec<u8>>) -> Option<AclPart> {
        let mut domains = Domains { fuids: self.fuids, names };
        let entries = super::acl::encode(&acl.entries, self.endian);
        let hints = ACL_HINTS.iter().filter(|(_, flag)| acl.hints & flag != 0);
        let flags = hints.fold(0, |all, (bit, _)| all | bit);
        let mut part = AclPart::new(acl.entries.len() as u64, flags, entries);
        let ids = acl.entries.iter().filter(|a| super::acl::has_domain(a));
        part.fuids = ids.map(|a| domains.logged(a.id)).collect::<Option<_>>()?;
        part.domains = domains.names;
        Some(part)
    }
}

/// The record of an operation of a volume, part `seq` of a log, of a change made in `txg`.
#[must_use]
pub fn volume_record(op: &VolumeOp<'_>, txg: u64, seq: u64) -> Record {
    let (kind, body) = match op {
        VolumeOp::Write { offset, data } => write(VOLUME_DATA, *offset, data),
        VolumeOp::Free { offset, length } => {
            let body = Body::Truncate { object: VOLUME_DATA, offset: *offset, length: *length };
            (TxType::TRUNCATE, body)
        }
        VolumeOp::Clone(cloned) => clone(VOLUME_DATA, cloned),
    };
    Record::new(kind, txg, seq, body)
}

/// The record of a change of a file's content.
fn content(op: &Op<'_>) -> Option<(TxType, Body)> {
    let truncate = |object: &u64, offset: &u64, length| {
        (TxType::TRUNCATE, Body::Truncate { object: *object, offset: *offset, length })
    };
    Some(match op {
        Op::Write { file, offset, data } => write(*file, *offset, data),
        Op::Extend { file, offset, length } => {
            let (block, data) = (Box::new(BlkPtr::HOLE), Vec::new());
            let (object, offset, length) = (*file, *offset, *length);
            let body = Body::Write { object, offset, length, block_offset: 0, block, data };
            (TxType::WRITE2, body)
        }
        Op::Truncate { file, size } => truncate(file, size, 0),
        Op::Punch { file, offset, length: length @ 1.., extends: true } => {
            truncate(file, offset, *length)
        }
        Op::Clone { file, cloned } => clone(*file, cloned),
        _ => return None,
    })
}

fn write(object: u64, offset: u64, data: &Data<'_>) -> (TxType, Body) {
    let (length, block, data) = match data {
        Data::Bytes(bytes) => (bytes.len() as u64, BlkPtr::HOLE, bytes.to_vec()),
        Data::Stored(stored) => (stored.length, *stored.block, Vec::new()),
    };
    let block = Box::new(block);
    (TxType::WRITE, Body::Write { object, offset, length, block_offset: 0, block, data })
}

fn clone(object: u64, cloned: &Cloned<'_>) -> (TxType, Body) {
    let Cloned { offset, length, block_size, blocks } = *cloned;
    let blocks = blocks.to_vec();
    (TxType::CLONE_RANGE, Body::CloneRange { object, offset, length, block_size, blocks })
}

fn rename(
    from: &NameInDir<'_>,
    to: &NameInDir<'_>,
    how: &Renaming,
) -> Option<(TxType, bool, Body)> {
    let (kind, whiteout) = match how {
        Renaming::Replace | Renaming::NoReplace => (TxType::RENAME, None),
        Renaming::Exchange => (TxType::RENAME_EXCHANGE, None),
        Renaming::Whiteout(new, identity) => {
            let Identity { object, slots, generation } = (*identity)?;
            let whiteout = Whiteout {
                object,
                slots: slots.into(),
                mode: mode_of(new),
                uid: new.uid,
                gid: new.gid,
                generation,
                create_time: words(new.now),
                rdev: rdev_of(&new.kind),
            };
            (TxType::RENAME_WHITEOUT, Some(whiteout))
        }
    };
    let body = Body::Rename {
        source_directory: from.dir,
        target_directory: to.dir,
        whiteout,
        source: from.name.to_vec(),
        target: to.name.to_vec(),
    };
    Some((kind, from.any_case, body))
}

fn words(time: Time) -> [u64; 2] {
    time.words()
}

fn mode_of(new: &NewFile) -> u64 {
    new.kind.mode_type() | (u64::from(new.mode) & mode::PERMISSIONS)
}

fn rdev_of(kind: &NewKind) -> u64 {
    match kind {
        NewKind::Block(major, minor) | NewKind::Char(major, minor) => device_word(*major, *minor),
        _ => 0,
    }
}

/// The domains that a record lists, as they are needed.
struct Domains<'f> {
    fuids: &'f FuidTable,
    names: Vec<Vec<u8>>,
}

impl Domains<'_> {
    /// An id of the file system as a record has it: the number of its domain counts the record's
    /// own list. `None`: its domain is not known.
    fn logged(&mut self, id: u64) -> Option<u64> {
        let id = Fuid(id);
        if id.domain() == 0 {
            return Some(id.0);
        }
        let name = self.fuids.domains.get(&id.domain())?;
        let at = self.names.iter().position(|n| n == name).unwrap_or_else(|| {
            self.names.push(name.clone());
            self.names.len() - 1
        });
        Some(Fuid::new(u32::try_from(at).ok()?.checked_add(1)?, id.id()).0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::{Decoder, volume_op};
    use super::*;
    use crate::op::{FlagChange, StoredData};
    use ondisk::acl::Ace;
    use ondisk::znode::flags;

    const NOW: Time = Time { seconds: 7, nanos: 8 };

    fn table() -> FuidTable {
        let names = [b"S-1-5-21-1".to_vec(), b"S-1-5-21-2".to_vec(), b"S-1-5-21-3".to_vec()];
        FuidTable { domains: (1..).zip(names).collect() }
    }

    /// A list with entries of every kind.
    fn list() -> AccessList {
        let ace = |kind, flags, id, object| Ace { kind, flags, mask: 0x1f, id, object };
        let entries = vec![
            ace(0, 0x1000, 0, None),
            ace(1, 0, 1000, None),
            ace(0, 0, Fuid::new(3, 500).0, None),
            ace(5, 0x40, Fuid::new(1, 600).0, Some([[1; 16], [2; 16]])),
            ace(0, 0x4000, 0, None),
        ];
        AccessList { entries, hints: flags::ACL_PROTECTED | flags::ACL_AUTO_INHERIT }
    }

    #[test]
    fn what_no_corpus_has_comes_back_from_its_record() {
        let fuids = table();
        let new = |kind| {
            let (uid, gid) = (Fuid::new(2, 10).0, Fuid::new(3, 11).0);
            NewFile { uid, gid, ..NewFile::new(kind, 0o2750, NOW) }
        };
        let identity = Some(Identity { object: 77, slots: 3, generation: 9 });
        let set = SetAttrs {
            flags: FlagChange { which: flags::IMMUTABLE | flags::NODUMP, value: flags::NODUMP },
            crtime: Some(NOW),
            project: Some(4711),
            ..SetAttrs::default()
        };
        let at = NameInDir { dir: 5, name: b"name", any_case: true };
        let mut ops = Vec::new();
        for kind in [NewKind::File, NewKind::Dir, NewKind::Char(1, 3)] {
            for (set, acl) in
                [(set, None), (SetAttrs::default(), Some(list())), (set, Some(list()))]
            {
                let new = new(kind.clone());
                ops.push(Op::Create(Box::new(Create { at, new, identity, set, acl })));
            }
        }
        let stamp = SetAttrs { scan_stamp: Some([9; 32]), ctime: Some(NOW), ..Default::default() };
        ops.push(Op::SetAttrs { file: 6, set: SetAttrs { ctime: Some(NOW), ..set } });
        ops.push(Op::SetAttrs { file: 6, set: stamp });
        ops.push(Op::SetAcl { file: 6, acl: list() });
        for endian in [Endian::Little, Endian::Big] {
            let encoder = Encoder { fuids: &fuids, endian };
            let decoder = Decoder { fuids: &fuids, now: NOW, endian };
            for op in &ops {
                let bytes = encoder.record(op, 3, 4).unwrap().encode(endian);
                let record = Record::decode(&bytes, endian).unwrap();
                let again = decoder.op(&record).unwrap();
                assert_eq!(format!("{again:?}"), format!("{op:?}"), "{endian:?}");
            }
        }
    }

    #[test]
    fn what_is_not_complete_has_no_record() {
        let fuids = table();
        let encoder = Encoder { fuids: &fuids, endian: Endian::Little };
        let new = NewFile::new(NewKind::File, 0o600, NOW);
        let (at, set, acl) = (NameInDir::new(5, b"name"), SetAttrs::default(), None);
        let create = Create { at, new: new.clone(), identity: None, set, acl };
        let foreign = NewFile { uid: Fuid::new(9, 1).0, ..new };
        let identity = Some(Identity { object: 77, slots: 1, generation: 9 });
        for op in [
            Op::Create(Box::new(create)),
            Op::CreateXattrDir { file: 5, new: foreign, identity },
            Op::Append { file: 5, data: b"x" },
            Op::Punch { file: 5, offset: 0, length: 9, extends: false },
        ] {
            assert!(encoder.record(&op, 3, 4).is_none(), "{op:?}");
        }
    }

    #[test]
    fn operations_of_volumes_come_back() {
        let block = BlkPtr::HOLE;
        let ops = [
            VolumeOp::Write { offset: 512, data: Data::Bytes(b"bytes") },
            VolumeOp::Write {
                offset: 512,
                data: Data::Stored(StoredData { block: &block, length: 8192 }),
            },
            VolumeOp::Free { offset: 512, length: 1024 },
            VolumeOp::Clone(Cloned {
                offset: 0,
                length: 8192,
                block_size: 8192,
                blocks: std::slice::from_ref(&block),
            }),
        ];
        for op in &ops {
            let bytes = volume_record(op, 3, 4).encode(Endian::Little);
            let record = Record::decode(&bytes, Endian::Little).unwrap();
            let again = volume_op(&record, 1 << 20).unwrap().unwrap();
            assert_eq!(format!("{again:?}"), format!("{op:?}"));
        }
    }
}
