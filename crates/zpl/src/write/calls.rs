//! The functions with names: each builds an operation, and has it carried out in a transaction of
//! its own, or in that of the caller (`_tx`).

use super::check_flags;
use super::data::UNCHANGEABLE;
use crate::error::Result;
use crate::fs::Filesystem;
use crate::node::Node;
use crate::op::XattrMode;
use crate::op::{Create, Data, NameInDir, NewFile, NewKind, Op, Outcome, Renaming, SetAttrs};
use dmu::Tx;
use ondisk::znode::{Time, flags, mode};

/// Bytes written in one transaction by the calls that begin their own.
const CHUNK: u64 = 4 << 20;

/// How to treat a file that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// It loses it.
    Replace,
    /// The rename fails.
    NoReplace,
    /// It gets the old name; there must be one.
    Exchange,
    /// It loses it, and a new character device 0:0 of these owners gets the old name: a mark of
    /// union file systems that a name is gone.
    Whiteout {
        /// Owner.
        uid: u64,
        /// Group, as of any new file.
        gid: u64,
    },
}

fn create_op<'a>(dir: u64, name: &'a [u8], new: &NewFile) -> Op<'a> {
    Op::Create(Box::new(Create {
        at: NameInDir::new(dir, name),
        new: new.clone(),
        identity: None,
        set: SetAttrs::default(),
        acl: None,
    }))
}

fn rename_op<'a>(from: (u64, &'a [u8]), to: (u64, &'a [u8]), how: RenameMode, now: Time) -> Op<'a> {
    let how = match how {
        RenameMode::Replace => Renaming::Replace,
        RenameMode::NoReplace => Renaming::NoReplace,
        RenameMode::Exchange => Renaming::Exchange,
        RenameMode::Whiteout { uid, gid } => {
            let device = NewFile::new(NewKind::Char(0, 0), 0, now);
            Renaming::Whiteout(NewFile { uid, gid, ..device }, None)
        }
    };
    Op::Rename {
        from: NameInDir::new(from.0, from.1),
        to: NameInDir::new(to.0, to.1),
        how: Box::new(how),
    }
}

/// The object that a create made; only one from a log makes none.
fn number_of(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Made(number) => number,
        Outcome::Done | Outcome::Wrote(_) => 0,
    }
}

fn offset_of(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Wrote(offset) => offset,
        Outcome::Done | Outcome::Made(_) => 0,
    }
}

impl Filesystem {
    /// Makes a file called `name` in the directory `dir`, and returns it. There must be no such
    /// name yet.
    ///
    /// # Errors
    /// `Exists`; `NotFound`, `NotDirectory` about `dir`; a name that cannot be; no space.
    pub fn create(&self, dir: u64, name: &[u8], new: &NewFile) -> Result<Node> {
        let made = self.run(&create_op(dir, name, new), new.now)?;
        self.node(number_of(made))
    }

    /// [`Self::create`] within a transaction; returns the object of the new file.
    pub fn create_tx(&self, tx: &Tx, dir: u64, name: &[u8], new: &NewFile) -> Result<u64> {
        let made = self.apply(tx, &create_op(dir, name, new), new.now)?;
        Ok(number_of(made))
    }

    /// Gives the file `file` another name: `name` in the directory `dir`.
    ///
    /// # Errors
    /// `Exists`; `IsDirectory` for a directory; a file with too many names, or without any.
    pub fn link(&self, file: u64, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.run(&Op::Link { file, at: NameInDir::new(dir, name) }, now).map(drop)
    }

    /// [`Self::link`] within a transaction.
    pub fn link_tx(&self, tx: &Tx, file: u64, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.apply(tx, &Op::Link { file, at: NameInDir::new(dir, name) }, now).map(drop)
    }

    /// Takes a name away that is not a directory's. A file without names is freed, a large one in
    /// pieces, each of which is durable before the next; or when it is in use ([`Self::hold`]) as
    /// soon as it is no more.
    ///
    /// # Errors
    /// `NotFound`; `IsDirectory`; flags that forbid it.
    pub fn unlink(&self, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.run(&Op::Unlink(NameInDir::new(dir, name)), now).map(drop)
    }

    /// [`Self::unlink`] within a transaction. A large file is freed by the next change that begins
    /// its own, or when the file system is opened.
    pub fn unlink_tx(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.apply(tx, &Op::Unlink(NameInDir::new(dir, name)), now).map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotDirectory`; `NotEmpty`; flags that forbid it.
    pub fn rmdir(&self, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.run(&Op::Rmdir(NameInDir::new(dir, name)), now).map(drop)
    }

    /// [`Self::rmdir`] within a transaction.
    pub fn rmdir_tx(&self, tx: &Tx, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.apply(tx, &Op::Rmdir(NameInDir::new(dir, name)), now).map(drop)
    }

    /// Renames `from` to `to`, each a directory and a name in it.
    ///
    /// # Errors
    /// `NotFound`; `Exists` by `how`; `IsDirectory`, `NotDirectory`, `NotEmpty` about what would
    /// be replaced; `Loop`; flags that forbid it.
    pub fn rename(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: RenameMode,
        now: Time,
    ) -> Result<()> {
        self.run(&rename_op(from, to, how, now), now).map(drop)
    }

    /// [`Self::rename`] within a transaction.
    pub fn rename_tx(
        &self,
        tx: &Tx,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: RenameMode,
        now: Time,
    ) -> Result<()> {
        self.apply(tx, &rename_op(from, to, how, now), now).map(drop)
    }

    /// Writes `data` at byte `offset` of a regular file, in transactions of at most 4 MiB.
    ///
    /// # Errors
    /// `NotFound`; no regular file; flags that forbid it; no space. Data written before the error
    /// stays.
    pub fn write_at(&self, file: u64, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let write = || self.write_in_chunks(file, offset, data, now);
        self.objset().usage().writing(data.len() as u64, write)
    }

    fn write_in_chunks(&self, file: u64, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            // Transactions end at multiples of the chunk, so that no record is in two.
            let n = (CHUNK - at % CHUNK).max(1).min(rest.len() as u64) as usize;
            let (part, behind) = rest.split_at(n);
            let op = Op::Write { file, offset: at, data: Data::Bytes(part) };
            self.run(&op, now)?;
            at = at.saturating_add(n as u64);
            rest = behind;
        }
        Ok(())
    }

    /// [`Self::write_at`] within a transaction.
    pub fn write_at_tx(
        &self,
        tx: &Tx,
        file: u64,
        offset: u64,
        data: &[u8],
        now: Time,
    ) -> Result<()> {
        let data = Data::Bytes(data);
        self.apply(tx, &Op::Write { file, offset, data }, now).map(drop)
    }

    /// Writes `data` behind the end of a regular file, in one transaction, and returns where that
    /// was.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn append(&self, file: u64, data: &[u8], now: Time) -> Result<u64> {
        self.run(&Op::Append { file, data }, now).map(offset_of)
    }

    /// [`Self::append`] within a transaction.
    pub fn append_tx(&self, tx: &Tx, file: u64, data: &[u8], now: Time) -> Result<u64> {
        self.apply(tx, &Op::Append { file, data }, now).map(offset_of)
    }

    /// Lets a regular file end at `size`: what is behind is gone, what comes is a hole. Of a large
    /// file that is done in pieces, each of which is durable before the next.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn truncate(&self, file: u64, size: u64, now: Time) -> Result<()> {
        self.free_most_of(file, size, u64::MAX, |attrs| {
            check_flags(attrs, UNCHANGEABLE | flags::APPENDONLY)?;
            Ok(attrs.kind() == mode::FILE && attrs.size() > size)
        })?;
        self.run(&Op::Truncate { file, size }, now).map(drop)
    }

    /// [`Self::truncate`] within a transaction.
    pub fn truncate_tx(&self, tx: &Tx, file: u64, size: u64, now: Time) -> Result<()> {
        self.apply(tx, &Op::Truncate { file, size }, now).map(drop)
    }

    /// Makes `len` bytes from `offset` of a regular file a hole, as far as the file reaches. Its
    /// size does not change.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn punch(&self, file: u64, offset: u64, len: u64, now: Time) -> Result<()> {
        let end = offset.saturating_add(len);
        self.free_most_of(file, offset, end, |attrs| {
            check_flags(attrs, UNCHANGEABLE | flags::APPENDONLY)?;
            Ok(attrs.kind() == mode::FILE)
        })?;
        self.run(&Op::Punch { file, offset, length: len, extends: false }, now).map(drop)
    }

    /// [`Self::punch`] within a transaction.
    pub fn punch_tx(&self, tx: &Tx, file: u64, offset: u64, len: u64, now: Time) -> Result<()> {
        self.apply(tx, &Op::Punch { file, offset, length: len, extends: false }, now).map(drop)
    }

    /// Sets attributes of a file.
    ///
    /// # Errors
    /// `NotFound`; a project where there are none.
    pub fn set_attrs(&self, file: u64, set: &SetAttrs, now: Time) -> Result<()> {
        self.run(&Op::SetAttrs { file, set: *set }, now).map(drop)
    }

    /// [`Self::set_attrs`] within a transaction.
    pub fn set_attrs_tx(&self, tx: &Tx, file: u64, set: &SetAttrs, now: Time) -> Result<()> {
        self.apply(tx, &Op::SetAttrs { file, set: *set }, now).map(drop)
    }

    /// Sets the extended attribute `name` (with its namespace, `user.comment`) of a file.
    ///
    /// # Errors
    /// `Exists`, `NoXattr` by `how`; `TooLarge`; `Unsupported` where `xattr=off`.
    pub fn set_xattr(
        &self,
        file: u64,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
        now: Time,
    ) -> Result<()> {
        self.run(&Op::SetXattr { file, name, value, how }, now).map(drop)
    }

    /// [`Self::set_xattr`] within a transaction.
    pub fn set_xattr_tx(
        &self,
        tx: &Tx,
        file: u64,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
        now: Time,
    ) -> Result<()> {
        self.apply(tx, &Op::SetXattr { file, name, value, how }, now).map(drop)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoXattr` when the file has none of that name.
    pub fn remove_xattr(&self, file: u64, name: &[u8], now: Time) -> Result<()> {
        self.run(&Op::RemoveXattr { file, name }, now).map(drop)
    }

    /// [`Self::remove_xattr`] within a transaction.
    pub fn remove_xattr_tx(&self, tx: &Tx, file: u64, name: &[u8], now: Time) -> Result<()> {
        self.apply(tx, &Op::RemoveXattr { file, name }, now).map(drop)
    }
}
