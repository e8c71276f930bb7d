//! Extended attributes: in the list among the attributes, or as files in a hidden directory.
//!
//! A name is in one place: what is set in one is removed from the other. The list holds values up
//! to [`VALUE_MAX`] and all of it up to [`LIST_MAX`]; what does not fit goes into the directory.

use super::attrs::Attrs;
use super::create::Parent;
use super::names::Count;
use super::remove::dirent;
use super::undo::Undo;
use super::{XattrStore, check_flags};
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Create, Data, NameInDir, NewFile, NewKind, Op, SetAttrs, XattrMode};
use crate::refusal::{Excess, Unsupported};
use dmu::{Tx, zap};
use ondisk::nvlist::{NvList, NvPair, NvValue, Packing};
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags, mode};

/// Largest value in the list.
const VALUE_MAX: usize = 32 << 10;
/// Largest list, packed.
const LIST_MAX: usize = 64 << 10;
/// Largest value at all, as Linux limits it.
const ANY_VALUE_MAX: usize = 64 << 10;
/// Longest name, as Linux limits it.
const NAME_MAX: usize = 255;

/// Where a name is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FoundIn {
    list: bool,
    dir: bool,
}

/// What became of an attribute in the directory.
struct MadeInDir {
    /// The directory.
    dir: u64,
    /// How it was made, if it was not there.
    new_dir: Option<NewFile>,
    /// The file with the value, and how it was made.
    file: u64,
    new: NewFile,
}

impl Filesystem {
    pub(super) fn set_xattr_now(
        &self,
        tx: &Tx,
        file: u64,
        (name, value): (&[u8], &[u8]),
        how: XattrMode,
        now: Time,
    ) -> Result<()> {
        check_xattr(name, value)?;
        let shown = || String::from_utf8_lossy(name).into_owned();
        // A log's record is of the list, whatever the property is by now.
        let store = if self.replays() { XattrStore::Sa } else { self.settings().xattr };
        if store == XattrStore::Off {
            return Err(Error::refused(Unsupported::XattrOff));
        }
        let _lock = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load(self, file)?;
        check_flags(&attrs, flags::IMMUTABLE | flags::APPENDONLY)?;
        let mut list = xattr_list(&attrs)?;
        let found = self.find_xattr(&attrs, &list, name)?;
        match how {
            XattrMode::Create if found.list || found.dir => return Err(Error::Exists(shown())),
            XattrMode::Replace if !found.list && !found.dir => {
                return Err(Error::NoXattr(shown()));
            }
            _ => {}
        }
        list.pairs.retain(|p| p.name != name);
        let without = list.clone();
        list.pairs.push(NvPair { name: name.to_vec(), value: NvValue::ByteArray(value.to_vec()) });
        let fits = store == XattrStore::Sa && value.len() <= VALUE_MAX && !attrs.is_old_form();
        let packed = if fits { Some(pack(&attrs, &list)?) } else { None };
        let packed = packed.filter(|p| p.len() <= LIST_MAX);
        if packed.is_none() && self.replays() {
            // A log's record of the directory is of the files in it.
            return Err(Error::refused(Excess::XattrList));
        }
        let mut undo = Undo::new(self, tx);
        undo.attrs(&attrs);
        let (is_listed, dir) = (packed.is_some(), attrs.get(zpl::XATTR));
        let mut made = None;
        let done = match packed {
            Some(packed) => {
                attrs.set_bytes(zpl::DXATTR, &packed)?;
                attrs.state_changed(now);
                let saved = attrs.save(self, tx);
                saved.and_then(|()| match found.dir {
                    true => self.remove_dir_xattr(tx, dir, name, now),
                    false => Ok(()),
                })
            }
            None => {
                if found.list {
                    set_list(&mut attrs, &without)?;
                }
                attrs.state_changed(now);
                let done = self.set_dir_xattr(tx, attrs, (name, value), now, &mut undo);
                done.map(|new| made = Some(new))
            }
        };
        undo.end(done)?;
        let unlinked = found.dir.then(|| Op::Unlink(NameInDir::new(dir, name)));
        let listed = match is_listed {
            true => Some(Op::SetXattr { file, name, value, how }),
            false => found.list.then_some(Op::RemoveXattr { file, name }),
        };
        let made = self.made_in_dir(tx, file, (name, value), made.as_ref());
        self.note_xattr(tx, file, (unlinked, listed), made);
        Ok(())
    }

    /// The operations that make what [`Self::set_dir_xattr`] made, if it was called. `None`: they
    /// cannot be told.
    fn made_in_dir<'a>(
        &self,
        tx: &Tx,
        file: u64,
        (name, value): (&'a [u8], &'a [u8]),
        made: Option<&MadeInDir>,
    ) -> Option<Vec<Op<'a>>> {
        let mut out = Vec::new();
        let Some(MadeInDir { dir, new_dir, file: number, new }) = made else { return Some(out) };
        if let Some(new) = new_dir {
            let identity = Some(self.identity_of(tx, *dir)?);
            out.push(Op::CreateXattrDir { file, new: new.clone(), identity });
        }
        let identity = Some(self.identity_of(tx, *number)?);
        let (at, set) = (NameInDir::new(*dir, name), SetAttrs::default());
        let create = Create { at, new: new.clone(), identity, set, acl: None };
        out.push(Op::Create(Box::new(create)));
        if !value.is_empty() {
            out.push(Op::Write { file: *number, offset: 0, data: Data::Bytes(value) });
        }
        Some(out)
    }

    pub(super) fn remove_xattr_now(
        &self,
        tx: &Tx,
        file: u64,
        name: &[u8],
        now: Time,
    ) -> Result<()> {
        let _lock = self.inner.state.attrs.exclusive(file);
        let mut attrs = Attrs::load(self, file)?;
        check_flags(&attrs, flags::IMMUTABLE | flags::APPENDONLY)?;
        let mut list = xattr_list(&attrs)?;
        let found = self.find_xattr(&attrs, &list, name)?;
        if !found.list && !found.dir {
            return Err(Error::NoXattr(String::from_utf8_lossy(name).into_owned()));
        }
        let mut undo = Undo::new(self, tx);
        undo.attrs(&attrs);
        let dir = attrs.get(zpl::XATTR);
        if found.list {
            list.pairs.retain(|p| p.name != name);
            set_list(&mut attrs, &list)?;
        }
        attrs.state_changed(now);
        let saved = attrs.save(self, tx);
        undo.end(saved.and_then(|()| match found.dir {
            true => self.remove_dir_xattr(tx, dir, name, now),
            false => Ok(()),
        }))?;
        let unlinked = found.dir.then(|| Op::Unlink(NameInDir::new(dir, name)));
        let listed = found.list.then_some(Op::RemoveXattr { file, name });
        self.note_xattr(tx, file, (unlinked, listed), Some(Vec::new()));
        Ok(())
    }

    fn find_xattr(&self, attrs: &Attrs, list: &NvList, name: &[u8]) -> Result<FoundIn> {
        let in_list = list.pairs.iter().any(|p| p.name == name);
        let in_dir = match attrs.get(zpl::XATTR) {
            0 => false,
            dir => self.find(&self.dir_object(dir)?, name)?.is_some(),
        };
        Ok(FoundIn { list: in_list, dir: in_dir })
    }

    /// Sets an attribute in the directory, which is made when there is none, and saves its owner.
    /// The value goes into a new file; one that it replaces is freed last.
    fn set_dir_xattr(
        &self,
        tx: &Tx,
        mut owner: Attrs,
        (name, value): (&[u8], &[u8]),
        now: Time,
        undo: &mut Undo<'_>,
    ) -> Result<MadeInDir> {
        let (uid, gid) = (owner.get(zpl::UID), owner.get(zpl::GID));
        let mut number = owner.get(zpl::XATTR);
        let mut new_dir = None;
        if number == 0 {
            /// Of the directory; it is not shown.
            const DIR_MODE: u32 = 0o1777;
            let new = NewFile { uid, gid, ..NewFile::new(NewKind::Dir, DIR_MODE, now) };
            number = self.make(tx, &new, &Parent::Xattrs(&owner))?;
            undo.record_created(number);
            owner.set(zpl::XATTR, number);
            new_dir = Some(new);
        }
        let mut dir = Attrs::load(self, number)?;
        let names = dir.object().clone();
        let before = self.find(&names, name)?;
        let replaced = before.as_ref().map(|entry| Attrs::load(self, entry.object)).transpose()?;
        let new = NewFile { uid, gid, ..NewFile::new(NewKind::File, 0o644, now) };
        let file = self.make(tx, &new, &Parent::Dir(&dir))?;
        undo.record_created(file);
        self.fill(tx, file, value, now)?;
        undo.name(number, name, before.as_ref().map(dirent));
        match &before {
            Some(entry) => {
                let value = Dirent { object: file, kind: entry.kind }.encode();
                zap::set_u64(&names, tx, entry.name.as_slice(), value)?;
            }
            None => {
                undo.attrs(&dir);
                self.enter(tx, &names, name, file, mode::FILE)?;
                self.count_entries(&mut dir, Count::added(false), now);
                dir.save(self, tx)?;
            }
        }
        owner.save(self, tx)?;
        replaced.map_or(Ok(()), |old| self.drop_xattr_file(tx, old))?;
        Ok(MadeInDir { dir: number, new_dir, file, new })
    }

    /// Lets a new file be `value`.
    fn fill(&self, tx: &Tx, file: u64, value: &[u8], now: Time) -> Result<()> {
        let object = self.objset().object(file)?;
        let wanted = (value.len() as u64).min(u64::from(self.settings().record_size));
        let wanted = wanted.next_multiple_of(512).max(512);
        if wanted > object.dnode().block_size() {
            object.set_block_size(tx, wanted as u32)?;
        }
        if !value.is_empty() {
            object.reopen()?.write_at(tx, 0, value)?;
        }
        let mut attrs = Attrs::load(self, file)?;
        attrs.set(zpl::SIZE, value.len() as u64);
        attrs.content_changed(now);
        attrs.save(self, tx)
    }

    /// A file in a directory of attributes has one name less. It is one step.
    fn drop_xattr_file(&self, tx: &Tx, mut file: Attrs) -> Result<()> {
        match file.links().saturating_sub(1) {
            0 => Ok(self.objset().free(tx, file.number())?),
            links => {
                file.set(zpl::LINKS, links);
                file.save(self, tx)
            }
        }
    }

    /// Removes an attribute from the directory `dir`, which stays.
    fn remove_dir_xattr(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        let mut dir = Attrs::load(self, dir)?;
        let Some(entry) = self.find(dir.object(), name)? else { return Ok(()) };
        let file = Attrs::load(self, entry.object)?;
        let mut undo = Undo::new(self, tx);
        undo.name(dir.number(), &entry.name, Some(dirent(&entry)));
        undo.attrs(&dir);
        let names = dir.object().clone();
        self.count_entries(&mut dir, Count::removed(false), now);
        let done = (|| {
            zap::remove(&names, tx, entry.name.as_slice())?;
            dir.save(self, tx)?;
            self.drop_xattr_file(tx, file)
        })();
        undo.end(done)
    }
}

/// Whether there can be such an attribute at all.
fn check_xattr(name: &[u8], value: &[u8]) -> Result<()> {
    let shown = || String::from_utf8_lossy(name).into_owned();
    if name.is_empty() || name.contains(&0) || name.contains(&b'/') {
        return Err(Error::BadName(shown()));
    }
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong(shown()));
    }
    if value.len() > ANY_VALUE_MAX {
        return Err(Error::refused(Excess::XattrValue));
    }
    Ok(())
}

/// The list among a file's attributes.
fn xattr_list(attrs: &Attrs) -> Result<NvList> {
    match attrs.bytes(zpl::DXATTR) {
        None | Some([]) => Ok(NvList::new()),
        Some(packed) => {
            NvList::decode(packed).map_err(|error| Error::Format { object: attrs.number(), error })
        }
    }
}

fn pack(attrs: &Attrs, list: &NvList) -> Result<Vec<u8>> {
    let packed = list.encode(Packing::XDR);
    packed.map_err(|error| Error::Format { object: attrs.number(), error })
}

fn set_list(attrs: &mut Attrs, list: &NvList) -> Result<()> {
    if list.pairs.is_empty() {
        attrs.remove(zpl::DXATTR);
    } else {
        let packed = pack(attrs, list)?;
        attrs.set_bytes(zpl::DXATTR, &packed)?;
    }
    Ok(())
}
