//! Repairs of the attributes of files and of the entries of directories.
//!
//! For repairs of a pool: what is wrong was found by comparing all names with all files, so nothing
//! is checked here, flags and read-only settings stop nothing, and nothing is written to the intent
//! log. Times stay as they are.

use super::attrs::Attrs;
use super::names::Count;
use super::{HOLD_NAMES, HOLD_TREE};
use crate::dir::DirEntry;
use crate::error::Result;
use crate::fs::Filesystem;
use crate::node::FileKind;
use crate::state::locks::Mode;
use crate::{NewFile, NewKind};
use dmu::{Hold, SpaceUse, Tx, zap};
use ondisk::DmuType;
use ondisk::sa::zpl;
use ondisk::znode::{Dirent, Time, flags};

/// The directory in the root in which files are put that no directory names.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The attributes to correct; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mend {
    /// Links.
    pub links: Option<u64>,
    /// Size in bytes; of a directory its entries and two.
    pub size: Option<u64>,
    /// The directory that names it.
    pub parent: Option<u64>,
}

/// A repair is possible in a pool that is full.
const HOLD: Hold = Hold { bytes: HOLD_NAMES + HOLD_TREE, space: SpaceUse::Free };

impl Filesystem {
    fn mending<T>(&self, change: impl FnOnce(&Tx) -> Result<T>) -> Result<T> {
        change(&self.objset().begin(HOLD)?)
    }

    /// Corrects the attributes of a file.
    ///
    /// # Errors
    /// The file cannot be read or changed.
    pub fn mend(&self, file: u64, mend: Mend) -> Result<()> {
        self.mending(|tx| {
            let _lock = self.inner.state.attrs.lock(&[file], Mode::Exclusive);
            let mut attrs = Attrs::load(self, file)?;
            let fields = [(zpl::LINKS, mend.links), (zpl::SIZE, mend.size)];
            for (name, value) in fields.into_iter().chain([(zpl::PARENT, mend.parent)]) {
                if let Some(value) = value {
                    attrs.set(name, value);
                }
            }
            attrs.save(self, tx)
        })
    }

    /// Takes the names of an object that is not a file out of a directory; these names.
    ///
    /// # Errors
    /// The directory cannot be read or changed.
    pub fn drop_names(&self, dir: u64, object: u64) -> Result<Vec<Vec<u8>>> {
        self.mending(|tx| {
            let _lock = self.inner.state.attrs.lock(&[dir], Mode::Exclusive);
            let entries = crate::Node::open(self, dir)?;
            let entries = entries.stored_entries()?;
            let named: Vec<DirEntry> = entries
                .filter_map(std::result::Result::ok)
                .filter(|e| e.object == object)
                .collect();
            let mut parent = Attrs::load(self, dir)?;
            let times = [zpl::MTIME, zpl::CTIME].map(|name| (name, parent.time(name)));
            let names = parent.object().clone();
            for entry in &named {
                zap::remove(&names, tx, entry.name.as_slice())?;
                let is_dir = FileKind::from_mode(u64::from(entry.kind) << 12) == FileKind::Dir;
                self.count_entries(&mut parent, Count::removed(is_dir), Time::default());
            }
            times.into_iter().for_each(|(name, time)| parent.set_time(name, time));
            parent.save(self, tx)?;
            Ok(named.into_iter().map(|entry| entry.name).collect())
        })
    }

    /// Puts a file that no directory names into the directory `lost+found` of the root, which is
    /// made when it is not there; its name, which is its number.
    ///
    /// # Errors
    /// The file or the directory cannot be read or changed.
    pub fn adopt(&self, file: u64, now: Time) -> Result<Vec<u8>> {
        let root = self.root_object();
        let found = self.find(&self.dir_object(root)?, LOST_AND_FOUND)?;
        let dir = match found {
            Some(entry) => entry.object,
            None => {
                let new = NewFile::new(NewKind::Dir, 0o700, now);
                self.create(root, LOST_AND_FOUND, &new)?.number()
            }
        };
        let mut name = format!("#{file}").into_bytes();
        while self.find(&self.dir_object(dir)?, &name)?.is_some() {
            name.push(b'_');
        }
        self.mending(|tx| {
            let _lock = self.inner.state.attrs.lock(&[file, dir], Mode::Exclusive);
            let (mut parent, mut attrs) = (Attrs::load(self, dir)?, Attrs::load(self, file)?);
            let names = self.dir_object(dir)?;
            self.enter(tx, &names, &name, file, attrs.mode())?;
            if !attrs.is_dir() {
                attrs.set(zpl::LINKS, 1);
            }
            // An extended attribute whose file is lost is a file as any other.
            attrs.set_flag(flags::XATTR, false);
            attrs.set(zpl::PARENT, dir);
            let is_dir = attrs.is_dir();
            attrs.save(self, tx)?;
            self.count_entries(&mut parent, Count::added(is_dir), now);
            parent.save(self, tx)?;
            Ok(name.clone())
        })
    }

    /// Has directory `dir` say rightly what kind of file `file` is.
    ///
    /// # Errors
    /// One of them cannot be read, or the directory cannot be changed.
    pub fn mend_kinds(&self, dir: u64, file: u64) -> Result<()> {
        self.mending(|tx| {
            let _lock = self.inner.state.attrs.lock(&[dir, file], Mode::Exclusive);
            let kind = (Attrs::load(self, file)?.mode() >> 12 & 0xf) as u8;
            let directory = crate::Node::open(self, dir)?;
            let entries = directory.stored_entries()?.filter_map(std::result::Result::ok);
            for entry in entries.filter(|e| e.object == file && e.kind != kind && e.kind != 0) {
                let value = Dirent { object: file, kind }.encode();
                zap::set_u64(&self.dir_object(dir)?, tx, entry.name.as_slice(), value)?;
            }
            Ok(())
        })
    }

    /// Rebuilds a table, a directory or the delete queue, from the entries that can be read;
    /// returns their number. The size of a directory in its attributes is not changed.
    ///
    /// # Errors
    /// It is no such table; its attributes cannot be read, or it cannot be changed.
    pub fn renew_table(&self, table: u64) -> Result<u64> {
        self.mending(|tx| {
            let _lock = self.inner.state.attrs.lock(&[table], Mode::Exclusive);
            let objset = self.objset();
            let bonus_kind = objset.object(table)?.dnode().bonus_kind;
            let attrs =
                (bonus_kind == DmuType::SA).then(|| Attrs::load(self, table)).transpose()?;
            let kept = objset.renew_table(tx, table, self.norm_flags())?;
            if let Some(attrs) = attrs {
                attrs.of_object(objset.object(table)?).save(self, tx)?;
            }
            Ok(kept)
        })
    }

    /// Takes out of the way what no object can be read from: one slot.
    ///
    /// # Errors
    /// There is an object.
    pub fn drop_slot(&self, object: u64) -> Result<()> {
        self.mending(|tx| Ok(self.objset().clear_slot(tx, object)?))
    }

    /// The same of a block of dnodes that is lost.
    ///
    /// # Errors
    /// It is not.
    pub fn drop_dnodes(&self, block: u64) -> Result<()> {
        self.mending(|tx| Ok(self.objset().renew_dnodes(tx, block)?))
    }

    /// Sets a sum by owner: `table` is 1 for users, 2 for groups and 3 for projects, `key` as
    /// stored there. It is changed by the difference, so that changes made meanwhile count too.
    ///
    /// # Errors
    /// There is no such table, or it cannot be changed.
    pub fn mend_owner(&self, table: u64, key: &str, from: u64, to: u64) -> Result<()> {
        self.mending(|tx| {
            let object = self.objset().object(table.wrapping_neg())?;
            let now = dmu::Zap::open(&object)?.get_u64(key)?.unwrap_or(0);
            let new = now.wrapping_add(to.wrapping_sub(from));
            match new {
                0 => drop(zap::remove(&object, tx, key)?),
                new => zap::set_u64(&object, tx, key, new)?,
            }
            Ok(())
        })
    }
}
