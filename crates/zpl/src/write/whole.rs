//! Files that are made whole: object, attributes, content and name in one change.
//!
//! No other thread sees the object before it has its name, which comes last. So the content needs
//! no lock, the delete queue need not know of the file, and its attributes are put together once. A
//! file that takes the place of another, or more than one transaction, gets its name as in
//! `unnamed.rs`.

use super::create::Parent;
use super::data::grown_block;
use super::names::Count;
use super::undo::taken_back;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{NewFile, NewKind, SetAttrs};
use crate::refusal::{Excess, InvalidRequest};
use dmu::Tx;
use ondisk::sa::zpl;
use ondisk::znode::Time;
use zil::SyncScope;

/// A file to be made with all that is in it.
#[derive(Clone, Copy, Debug)]
pub struct WholeFile<'a> {
    /// The attributes of every new file.
    pub new: &'a NewFile,
    /// The attributes that differ; its size, its mode and the time of its change do not count.
    pub set: &'a SetAttrs,
    /// Bytes of a regular file.
    pub size: u64,
    /// Pieces of its content with their offsets, all within the size; the rest are holes.
    pub pieces: &'a [(u64, Vec<u8>)],
}

impl Filesystem {
    /// Makes a file called `name` in the directory `dir`, with its content, and returns its object.
    /// There must be no such name yet.
    ///
    /// # Errors
    /// `Exists`; `NotFound`, `NotDirectory` about `dir`; a directory is to be made; a name, an
    /// owner or a content that cannot be; no space.
    pub fn create_whole_tx(
        &self,
        tx: &Tx,
        (dir, name): (u64, &[u8]),
        whole: &WholeFile<'_>,
        now: Time,
    ) -> Result<u64> {
        self.check_writable()?;
        self.check_new_name(name)?;
        let WholeFile { new, set, size, pieces } = *whole;
        if new.kind == NewKind::Dir {
            return Err(Error::refused(InvalidRequest::ContentOfDirectory));
        }
        new.kind.check()?;
        check_content(whole)?;
        set.uid.into_iter().chain(set.gid).try_for_each(|id| self.check_owner(id))?;
        let _lock = self.inner.state.attrs.exclusive(dir);
        let mut parent = self.load_dir(dir)?;
        if self.find(parent.object(), name)?.is_some() {
            return Err(Error::Exists(String::from_utf8_lossy(name).into_owned()));
        }
        let number = self.make_with(tx, new, None, &Parent::Dir(&parent), |file| {
            set.put(file);
            if new.kind == NewKind::File {
                file.set(zpl::SIZE, size);
            }
            file.state_changed(now);
            self.check_create(file)
        })?;
        let names = parent.object().clone();
        let filled = self.put_content(tx, number, size, pieces);
        let entered =
            filled.and_then(|()| self.enter(tx, &names, name, number, new.kind.mode_type()));
        let done = entered.and_then(|()| {
            self.count_entries(&mut parent, Count::added(false), now);
            parent.save(self, tx)
        });
        if let Err(e) = done {
            let left = self.leave(tx, dir, name, number);
            return self.unmake(tx, number, taken_back(tx, e, left));
        }
        self.note_unloggable(tx, SyncScope::Object(number), &[]);
        self.note_unloggable(tx, SyncScope::Names, &[]);
        Ok(number)
    }

    /// Puts the content into a new object.
    fn put_content(
        &self,
        tx: &Tx,
        number: u64,
        size: u64,
        pieces: &[(u64, Vec<u8>)],
    ) -> Result<()> {
        if size == 0 {
            return Ok(());
        }
        let mut object = self.objset().object(number)?;
        let record = u64::from(self.settings().record_size);
        let block = grown_block(object.dnode().block_size(), 0, size, record);
        if let Some(block) = block.and_then(|n| u32::try_from(n).ok()) {
            object.set_block_size(tx, block)?;
            object = object.reopen()?;
        }
        for (offset, bytes) in pieces {
            let put = || object.write_at(tx, *offset, bytes);
            self.objset().usage().writing(bytes.len() as u64, put)?;
        }
        Ok(())
    }
}

/// Whether the pieces are of a file of that size and kind.
fn check_content(whole: &WholeFile<'_>) -> Result<()> {
    let fits = |(offset, bytes): &(u64, Vec<u8>)| {
        offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= whole.size)
    };
    match () {
        () if whole.new.kind != NewKind::File && whole.size != 0 => {
            Err(Error::refused(InvalidRequest::ContentOfSpecial))
        }
        () if whole.size > super::stored::OFFSET_MAX => Err(Error::refused(Excess::FileEnd)),
        () if !whole.pieces.iter().all(fits) => Err(Error::refused(InvalidRequest::PieceBehindEnd)),
        () => Ok(()),
    }
}
