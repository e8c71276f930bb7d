//! Reading and writing of the type-specific part of log records; the layouts are in
//! `docs/format/zil.md`.

use super::attrs::{EXTRA_ATTRS_SIZE, ExtraAttrs};
use super::record::{AclPart, Body, Create, TxType, Whiteout};
use crate::BlkPtr;
use crate::blkptr::BLKPTR_SIZE;
use crate::cursor::{Reader, Writer};
use crate::error::{ErrorKind, Result};
use crate::fuid::Fuid;

/// Bits of the setattr mask that announce further attributes: Linux's and that of the others.
const MASK_ATTRS: u64 = (1 << 31) | (1 << 16);
/// Object numbers have 48 bits; the top 8 of the word hold the dnode's slots less one.
const OBJECT_BITS: u64 = (1 << 48) - 1;

fn split_object(word: u64) -> (u64, u16) {
    (word & OBJECT_BITS, (word >> 56) as u16 + 1)
}

fn join_object(object: u64, slots: u16) -> u64 {
    (object & OBJECT_BITS) | (u64::from(slots.saturating_sub(1)) << 56)
}

/// A string and the NUL that ends it.
fn text(r: &mut Reader<'_>, field: &'static str) -> Result<Vec<u8>> {
    let rest = r.clone().bytes(field, r.remaining())?;
    let Some(len) = rest.iter().position(|b| *b == 0) else {
        return Err(r.error(field, ErrorKind::BadText));
    };
    let name = r.bytes(field, len)?.to_vec();
    r.skip(field, 1)?;
    Ok(name)
}

fn put_text(w: &mut Writer, text: &[u8]) {
    w.bytes(text).u8(0);
}

/// `count` strings; each takes at least a byte, so the count is bounded by what is left.
fn texts(r: &mut Reader<'_>, field: &'static str, count: u64) -> Result<Vec<Vec<u8>>> {
    let max = r.remaining() as u64;
    if count > max {
        return Err(r.error(field, ErrorKind::OutOfRange { value: count, min: 0, max }));
    }
    (0..count).map(|_| text(r, field)).collect()
}

fn sized<'a>(r: &mut Reader<'a>, field: &'static str, size: u64) -> Result<&'a [u8]> {
    let available = r.remaining() as u64;
    match usize::try_from(size) {
        Ok(n) => r.bytes(field, n),
        Err(_) => Err(r.error(field, ErrorKind::Truncated { needed: size, available })),
    }
}

/// The five words of an ACL part; the lists follow later.
struct AclCounts {
    aces: u64,
    domains: u64,
    fuids: u64,
    bytes: u64,
    flags: u64,
}

impl AclCounts {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let [aces, domains, fuids, bytes, flags] = r.words("acl counts")?;
        Ok(Self { aces, domains, fuids, bytes, flags })
    }

    fn read_lists(&self, r: &mut Reader<'_>) -> Result<AclPart> {
        let entries = sized(r, "acl", self.bytes)?.to_vec();
        let filler = entries.len().next_multiple_of(8) - entries.len();
        let filler = r.bytes("acl filler", filler)?.to_vec();
        let max = r.remaining() as u64 / 8;
        if self.fuids > max {
            let kind = ErrorKind::OutOfRange { value: self.fuids, min: 0, max };
            return Err(r.error("fuidcnt", kind));
        }
        let fuids = (0..self.fuids).map(|_| r.u64("fuid")).collect::<Result<Vec<u64>>>()?;
        let domains = texts(r, "domain", self.domains)?;
        Ok(AclPart { count: self.aces, flags: self.flags, entries, fuids, domains, filler })
    }
}

impl AclPart {
    fn write_counts(&self, w: &mut Writer) {
        w.words(&[self.count, self.domains.len() as u64, self.fuids.len() as u64]);
        w.words(&[self.entries.len() as u64, self.flags]);
    }

    fn write_lists(&self, w: &mut Writer) {
        w.bytes(&self.entries).bytes(&self.filler).words(&self.fuids);
        for d in &self.domains {
            put_text(w, d);
        }
    }
}

/// Number of domain names before the name in a create record without ACL: one for each domain
/// that owner and group have.
fn domains_of(uid: u64, gid: u64) -> u64 {
    let (user, group) = (Fuid(uid).domain(), Fuid(gid).domain());
    u64::from(user != 0) + u64::from(group != 0 && group != user)
}

impl Create {
    fn read(kind: TxType, r: &mut Reader<'_>) -> Result<Self> {
        let directory = r.u64("doid")?;
        let (object, slots) = split_object(r.u64("foid")?);
        let [mode, uid, gid, generation] = r.words("mode, uid, gid, gen")?;
        let create_time = r.words("crtime")?;
        let rdev = r.u64("rdev")?;
        let counts = if kind.has_acl() { Some(AclCounts::read(r)?) } else { None };
        let attrs = if kind.has_attrs() { Some(ExtraAttrs::read(r)?) } else { None };
        let acl = counts.map(|c| c.read_lists(r)).transpose()?;
        // The owner of a symbolic link is logged without its domain.
        let domains = match (&acl, kind) {
            (None, k) if k != TxType::SYMLINK => texts(r, "domain", domains_of(uid, gid))?,
            _ => Vec::new(),
        };
        let name = text(r, "name")?;
        let link = if kind == TxType::SYMLINK { Some(text(r, "link")?) } else { None };
        Ok(Self {
            directory,
            object,
            slots,
            mode,
            uid,
            gid,
            generation,
            create_time,
            rdev,
            attrs,
            acl,
            domains,
            name,
            link,
        })
    }

    fn write(&self, w: &mut Writer) {
        w.words(&[self.directory, join_object(self.object, self.slots)]);
        w.words(&[self.mode, self.uid, self.gid, self.generation]);
        w.words(&self.create_time).u64(self.rdev);
        if let Some(acl) = &self.acl {
            acl.write_counts(w);
        }
        if let Some(attrs) = &self.attrs {
            attrs.write(w);
        }
        if let Some(acl) = &self.acl {
            acl.write_lists(w);
        }
        for d in &self.domains {
            put_text(w, d);
        }
        put_text(w, &self.name);
        if let Some(link) = &self.link {
            put_text(w, link);
        }
    }
}

impl Whiteout {
    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let (object, slots) = split_object(r.u64("wfoid")?);
        let [mode, uid, gid, generation] = r.words("wmode, wuid, wgid, wgen")?;
        let create_time = r.words("wcrtime")?;
        let rdev = r.u64("wrdev")?;
        Ok(Self { object, slots, mode, uid, gid, generation, create_time, rdev })
    }

    fn write(&self, w: &mut Writer) {
        w.words(&[join_object(self.object, self.slots), self.mode, self.uid, self.gid]);
        w.u64(self.generation).words(&self.create_time).u64(self.rdev);
    }
}

impl Body {
    pub(super) fn read(kind: TxType, r: &mut Reader<'_>) -> Result<Self> {
        Ok(match kind {
            TxType::CREATE
            | TxType::MKDIR
            | TxType::MKXATTR
            | TxType::SYMLINK
            | TxType::CREATE_ACL
            | TxType::CREATE_ATTR
            | TxType::CREATE_ACL_ATTR
            | TxType::MKDIR_ACL
            | TxType::MKDIR_ATTR
            | TxType::MKDIR_ACL_ATTR => Self::Create(Box::new(Create::read(kind, r)?)),
            TxType::REMOVE | TxType::RMDIR => {
                Self::Remove { directory: r.u64("doid")?, name: text(r, "name")? }
            }
            TxType::LINK => Self::Link {
                directory: r.u64("doid")?,
                object: r.u64("link_obj")?,
                name: text(r, "name")?,
            },
            TxType::RENAME | TxType::RENAME_EXCHANGE | TxType::RENAME_WHITEOUT => {
                Self::read_rename(kind, r)?
            }
            TxType::WRITE | TxType::WRITE2 => Self::read_write(r)?,
            TxType::TRUNCATE => Self::Truncate {
                object: r.u64("foid")?,
                offset: r.u64("offset")?,
                length: r.u64("length")?,
            },
            TxType::SETATTR => Self::read_setattr(r)?,
            TxType::ACL_V0 => {
                let [object, count] = r.words("foid, aclcnt")?;
                let size = count.saturating_mul(12);
                Self::AclV0 { object, count, entries: sized(r, "acl", size)?.to_vec() }
            }
            TxType::ACL => {
                let object = r.u64("foid")?;
                let counts = AclCounts::read(r)?;
                Self::Acl { object, acl: counts.read_lists(r)? }
            }
            TxType::SETSAXATTR => {
                let [object, size] = r.words("foid, size")?;
                let name = text(r, "name")?;
                Self::SetSaXattr { object, name, value: sized(r, "value", size)?.to_vec() }
            }
            TxType::CLONE_RANGE => Self::read_clone(r)?,
            _ => Self::Unknown(r.bytes("unknown", r.remaining())?.to_vec()),
        })
    }

    fn read_rename(kind: TxType, r: &mut Reader<'_>) -> Result<Self> {
        let [source_directory, target_directory] = r.words("sdoid, tdoid")?;
        let whiteout =
            if kind == TxType::RENAME_WHITEOUT { Some(Whiteout::read(r)?) } else { None };
        let source = text(r, "source")?;
        let target = text(r, "target")?;
        Ok(Self::Rename { source_directory, target_directory, whiteout, source, target })
    }

    fn read_write(r: &mut Reader<'_>) -> Result<Self> {
        let [object, offset, length, block_offset] = r.words("foid, offset, length, blkoff")?;
        let block = Box::new(r.blkptr("blkptr")?);
        // A record without data points to a block, or, in a volume or for WRITE2, to nothing.
        let size = if r.remaining() == 0 { 0 } else { length };
        let data = sized(r, "data", size)?.to_vec();
        Ok(Self::Write { object, offset, length, block_offset, block, data })
    }

    fn read_setattr(r: &mut Reader<'_>) -> Result<Self> {
        let [object, mask, mode, uid, gid, size] = r.words("fields")?;
        let atime = r.words("atime")?;
        let mtime = r.words("mtime")?;
        // The mask's bits differ between systems, so the part must also look like one.
        let begins = r.clone().u32("attr_masksize").is_ok_and(|n| n == 3);
        let attrs = if mask & MASK_ATTRS != 0 && begins && r.remaining() >= EXTRA_ATTRS_SIZE {
            Some(Box::new(ExtraAttrs::read(r)?))
        } else {
            None
        };
        Ok(Self::SetAttr { object, mask, mode, uid, gid, size, atime, mtime, attrs })
    }

    fn read_clone(r: &mut Reader<'_>) -> Result<Self> {
        let [object, offset, length, block_size] = r.words("fields")?;
        let blocks = read_cloned_blocks(r)?;
        Ok(Self::CloneRange { object, offset, length, block_size, blocks })
    }

    /// What is readable without a key: the pointers.
    pub(super) fn read_cloned(r: &mut Reader<'_>) -> Result<Self> {
        r.skip("foid, offset, length, blksz", 32)?;
        let blocks = read_cloned_blocks(r)?;
        Ok(Self::CloneRange { object: 0, offset: 0, length: 0, block_size: 0, blocks })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        match self {
            Self::Create(create) => create.write(w),
            Self::Remove { directory, name } => {
                w.u64(*directory);
                put_text(w, name);
            }
            Self::Link { directory, object, name } => {
                w.words(&[*directory, *object]);
                put_text(w, name);
            }
            Self::Rename { source_directory, target_directory, whiteout, source, target } => {
                w.words(&[*source_directory, *target_directory]);
                if let Some(whiteout) = whiteout {
                    whiteout.write(w);
                }
                put_text(w, source);
                put_text(w, target);
            }
            Self::Write { object, offset, length, block_offset, block, data } => {
                w.words(&[*object, *offset, *length, *block_offset]).blkptr(block).bytes(data);
            }
            Self::Truncate { object, offset, length } => {
                w.words(&[*object, *offset, *length]);
            }
            Self::SetAttr { object, mask, mode, uid, gid, size, atime, mtime, attrs } => {
                w.words(&[*object, *mask, *mode, *uid, *gid, *size]).words(atime).words(mtime);
                if let Some(attrs) = attrs {
                    attrs.write(w);
                }
            }
            Self::AclV0 { object, count, entries } => {
                w.words(&[*object, *count]).bytes(entries);
            }
            Self::Acl { object, acl } => {
                w.u64(*object);
                acl.write_counts(w);
                acl.write_lists(w);
            }
            Self::SetSaXattr { object, name, value } => {
                w.words(&[*object, value.len() as u64]);
                put_text(w, name);
                w.bytes(value);
            }
            Self::CloneRange { object, offset, length, block_size, blocks } => {
                w.words(&[*object, *offset, *length, *block_size, blocks.len() as u64]);
                for bp in blocks {
                    w.blkptr(bp);
                }
            }
            Self::Unknown(bytes) => {
                w.bytes(bytes);
            }
        }
    }
}

/// The number of pointers, and the pointers.
fn read_cloned_blocks(r: &mut Reader<'_>) -> Result<Vec<BlkPtr>> {
    let count = r.u64("nbps")?;
    let max = (r.remaining() / BLKPTR_SIZE) as u64;
    if count > max {
        return Err(r.error("nbps", ErrorKind::OutOfRange { value: count, min: 0, max }));
    }
    (0..count).map(|_| r.blkptr("bps")).collect()
}
