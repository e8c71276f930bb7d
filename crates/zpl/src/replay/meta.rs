//! Records about one file: its content, its attributes, its lists.

use super::acl;
use super::attrs::File;
use super::nodes::{FileReplay, Result, time};
use super::refusal::Refusal;
use dmu::Zap;
use ondisk::Endian;
use ondisk::nvlist::{NvList, NvPair, NvValue, Packing};
use ondisk::sa::zpl;
use ondisk::zil::{AclPart, AttrBit, Body, ExtraAttrs, Record, TxType};
use ondisk::znode::{Dirent, flags, mode};

/// Bits of the mask of `SETATTR`, as Linux has them.
mod mask {
    pub(super) const MODE: u64 = 0x1;
    pub(super) const UID: u64 = 0x2;
    pub(super) const GID: u64 = 0x4;
    pub(super) const SIZE: u64 = 0x8;
    pub(super) const ATIME: u64 = 0x10;
    pub(super) const MTIME: u64 = 0x20;
}

/// Largest value of an extended attribute among the attributes, and largest list of them.
const SA_XATTR_MAX: usize = 32 << 10;
const SA_XATTRS_MAX: usize = 64 << 10;

impl FileReplay {
    /// Applies a record that is about one file.
    pub(super) fn apply_to_file(&mut self, record: &Record, endian: Endian) -> Result<()> {
        match &record.body {
            Body::Write { object, offset, length, block, data, .. } => {
                if record.kind == TxType::WRITE2 {
                    return self.extend_size(*object, offset.saturating_add(*length));
                }
                let eof = offset.saturating_add(*length);
                let logged = self.state.logged(*object, *offset, *length, block, data)?;
                // The whole of a block counts, but not for where the file ends.
                let eof = if data.is_empty() { Some(eof) } else { None };
                self.write(*object, &logged, eof)
            }
            Body::Truncate { object, offset, length } => self.truncate(*object, *offset, *length),
            Body::SetAttr { .. } => self.setattr(record, endian),
            Body::AclV0 { object, count, entries } => {
                let mut none = || Err(Refusal::Damaged("an ACL entry lacks its FUID"));
                let aces = acl::logged(entries, *count, endian, &mut none)?;
                let mut file = self.load(*object)?;
                let m = acl::mode_of(
                    &aces,
                    file.get(zpl::MODE),
                    file.get(zpl::UID),
                    file.get(zpl::GID),
                );
                file.set(zpl::MODE, m);
                self.set_acl(&mut file, &aces, 0)?;
                file.state_changed(self.now, self.keeps_fuids());
                self.save(file)
            }
            Body::Acl { object, acl } => {
                let mut file = self.load(*object)?;
                self.set_logged_acl(&mut file, acl, endian)?;
                file.state_changed(self.now, self.keeps_fuids());
                self.save(file)
            }
            Body::SetSaXattr { object, name, value } => self.set_xattr(*object, name, value),
            Body::CloneRange { object, offset, length, block_size, blocks } => {
                self.grow_for_clone(*object, *block_size)?;
                self.state.clone_blocks(*object, *offset, *length, *block_size, blocks)?;
                self.content_changed(*object, Some(offset.saturating_add(*length)))
            }
            _ => Err(Refusal::Unsupported("a record of an unknown type")),
        }
    }

    /// The regular file of that number.
    fn regular(&self, object: u64) -> Result<File> {
        let file = self.load(object)?;
        match file.get(zpl::MODE) & mode::TYPE {
            mode::FILE => Ok(file),
            mode::DIR => Err(Refusal::IsDirectory),
            _ => Err(Refusal::Damaged("content for what is no regular file")),
        }
    }

    fn content_changed(&mut self, object: u64, end: Option<u64>) -> Result<()> {
        let mut file = self.load(object)?;
        if let Some(end) = end.filter(|end| *end > file.get(zpl::SIZE)) {
            file.set(zpl::SIZE, end);
        }
        file.content_changed(self.now, self.keeps_fuids());
        self.save(file)
    }

    /// Writes; the file then ends at `eof` when that is behind its end and given, else behind
    /// what was written if that is further.
    fn write(
        &mut self,
        object: u64,
        logged: &super::data::Logged<'_>,
        eof: Option<u64>,
    ) -> Result<()> {
        let size = self.regular(object)?.get(zpl::SIZE);
        self.state.grow(object, size, size.max(logged.end()))?;
        self.state.write(object, logged)?;
        let end = eof.filter(|eof| size < *eof).unwrap_or(logged.end());
        self.content_changed(object, Some(end))
    }

    /// `WRITE2`: the data are in the file already, its size may not be.
    fn extend_size(&mut self, object: u64, end: u64) -> Result<()> {
        let mut file = self.regular(object)?;
        if end <= file.get(zpl::SIZE) {
            return Ok(());
        }
        if end > i64::MAX as u64 {
            return Err(Refusal::Damaged("the write ends behind the largest file"));
        }
        file.set(zpl::SIZE, end);
        self.save(file)
    }

    /// `TRUNCATE`: frees a range; with length 0 all behind, where the file then ends.
    fn truncate(&mut self, object: u64, offset: u64, length: u64) -> Result<()> {
        let size = self.regular(object)?.get(zpl::SIZE);
        let end = offset.checked_add(length).filter(|end| *end <= i64::MAX as u64);
        let end = end.ok_or(Refusal::Damaged("the range ends behind the largest file"))?;
        if offset > size || length == 0 {
            self.resize(object, end)?;
        } else {
            self.state.free(object, offset, end.min(size))?;
            if end > size {
                self.resize(object, end)?;
            }
        }
        self.content_changed(object, None)
    }

    /// Lets the file end at `end`: frees what is behind, or grows the block it is in.
    fn resize(&mut self, object: u64, end: u64) -> Result<()> {
        let size = self.regular(object)?.get(zpl::SIZE);
        if end == size {
            return Ok(());
        }
        if end < size {
            self.state.free(object, end, u64::MAX)?;
        } else {
            self.state.grow(object, size, end)?;
        }
        let mut file = self.load(object)?;
        file.set(zpl::SIZE, end);
        if end == 0 {
            file.set_flag(flags::SPARSE, false);
        }
        self.save(file)
    }

    /// A clone keeps the block size of what it clones.
    fn grow_for_clone(&mut self, object: u64, block_size: u64) -> Result<()> {
        let file = self.regular(object)?;
        if file.block_size() < block_size {
            let size = file.get(zpl::SIZE);
            drop(file);
            self.state.set_block_size(object, size, block_size)?;
        }
        Ok(())
    }

    /// `SETATTR`.
    fn setattr(&mut self, record: &Record, endian: Endian) -> Result<()> {
        let Body::SetAttr { object, mask, mode: m, uid, gid, size, atime, mtime, attrs } =
            &record.body
        else {
            return Err(Refusal::Unsupported("a record of an unknown type"));
        };
        let asks = |bit| mask & bit != 0;
        if asks(mask::SIZE) {
            if *size > i64::MAX as u64 {
                return Err(Refusal::Damaged("the size is that of no file"));
            }
            self.resize(*object, *size)?;
        }
        let mut file = self.load(*object)?;
        let uid = asks(mask::UID).then(|| self.id(*uid, &[])).transpose()?;
        let gid = asks(mask::GID).then(|| self.id(*gid, &[])).transpose()?;
        let project = attrs.as_ref().and_then(|a| a.project(endian));
        if asks(mask::MODE) {
            let m = (file.get(zpl::MODE) & mode::TYPE) | (m & mode::PERMISSIONS);
            file.set(zpl::MODE, m);
            self.set_acl(&mut file, &acl::trivial(m), flags::ACL_TRIVIAL)?;
        }
        if asks(mask::ATIME) {
            file.set_time(zpl::ATIME, time(*atime));
        }
        file.state_changed(self.now, false);
        if asks(mask::MTIME) || asks(mask::SIZE) {
            file.set_time(zpl::MTIME, time(*mtime));
        }
        if let Some(attrs) = attrs {
            self.set_extra(&mut file, attrs, endian);
        }
        let owners = Owners { uid, gid, project };
        owners.give(&mut file);
        let xattrs = file.get(zpl::XATTR);
        self.save(file)?;
        self.give_xattrs(xattrs, &owners)
    }

    /// Extended attributes kept as files belong to whom the file does.
    fn give_xattrs(&mut self, dir: u64, owners: &Owners) -> Result<()> {
        if dir == 0 || (owners.uid, owners.gid, owners.project) == (None, None, None) {
            return Ok(());
        }
        let mut todo = vec![dir];
        for entry in Zap::open(&self.state.object(dir)?)?.to_vec()? {
            todo.extend(entry.ints().next().map(|v| Dirent::decode(v).object));
        }
        for object in todo {
            let mut file = self.load(object)?;
            owners.give(&mut file);
            self.save(file)?;
        }
        Ok(())
    }

    /// Sets the attributes at the end of a create or setattr record; the project is set by
    /// setattr, for it concerns more than the file.
    pub(super) fn set_extra(&self, file: &mut File, attrs: &ExtraAttrs, endian: Endian) {
        const BITS: [(AttrBit, u64); 15] = [
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
        for (bit, flag) in BITS {
            if let Some(on) = attrs.value(bit) {
                file.set_flag(flag, on);
            }
        }
        if attrs.asks(AttrBit::CreateTime) {
            file.set_time(zpl::CRTIME, time(attrs.create_time));
        }
        if attrs.asks(AttrBit::AvScanStamp) {
            file.set_bytes(zpl::SCANSTAMP, attrs.stamp.to_vec());
        } else if let Some(project) = attrs.project(endian) {
            Owners { uid: None, gid: None, project: Some(project) }.give(file);
        }
    }

    /// Sets the list of a record, and the mode it gives.
    pub(super) fn set_logged_acl(
        &self,
        file: &mut File,
        part: &AclPart,
        endian: Endian,
    ) -> Result<()> {
        let mut fuids = part.fuids.iter();
        let mut next = || {
            let logged = fuids.next().ok_or(Refusal::Damaged("an ACL entry lacks its FUID"))?;
            self.id(*logged, &part.domains)
        };
        let aces = acl::logged(&part.entries, part.count, endian, &mut next)?;
        let hints = [
            (0x1, flags::ACL_AUTO_INHERIT),
            (0x2, flags::ACL_PROTECTED),
            (0x4, flags::ACL_DEFAULTED),
        ];
        let hints = hints.iter().filter(|(bit, _)| part.flags & bit != 0);
        let hints = hints.fold(0, |all, (_, flag)| all | flag);
        let m = acl::mode_of(&aces, file.get(zpl::MODE), file.get(zpl::UID), file.get(zpl::GID));
        file.set(zpl::MODE, m);
        self.set_acl(file, &aces, hints)
    }

    /// `SETSAXATTR`: an empty value removes the attribute.
    fn set_xattr(&mut self, object: u64, name: &[u8], value: &[u8]) -> Result<()> {
        let mut file = self.load(object)?;
        if file.old().is_some() {
            return Err(Refusal::Damaged("an old file has no list of extended attributes"));
        }
        let packed = file.bytes(zpl::DXATTR).unwrap_or_default();
        if value.len() > SA_XATTR_MAX || packed.len() > SA_XATTRS_MAX {
            return Err(Refusal::Damaged("more extended attributes than a file can have"));
        }
        let mut list = if packed.is_empty() { NvList::new() } else { NvList::decode(packed)? };
        let before = list.pairs.len();
        list.pairs.retain(|p| p.name != name);
        if value.is_empty() {
            if list.pairs.len() == before {
                return Err(Refusal::NotFound);
            }
        } else {
            let value = NvValue::ByteArray(value.to_vec());
            list.pairs.push(NvPair { name: name.to_vec(), value });
        }
        if list.pairs.is_empty() {
            file.remove(zpl::DXATTR);
        } else {
            file.set_bytes(zpl::DXATTR, list.encode(Packing::XDR)?);
        }
        file.state_changed(self.now, self.keeps_fuids());
        self.save(file)
    }
}

/// Whom a file is given to.
struct Owners {
    uid: Option<u64>,
    gid: Option<u64>,
    project: Option<u64>,
}

impl Owners {
    fn give(&self, file: &mut File) {
        if let Some(uid) = self.uid {
            file.set(zpl::UID, uid);
        }
        if let Some(gid) = self.gid {
            file.set(zpl::GID, gid);
        }
        // Before system attributes there were no projects.
        if let Some(project) = self.project.filter(|_| file.old().is_none()) {
            file.set(zpl::PROJID, project);
            file.set_flag(flags::PROJID, true);
        }
    }
}
