//! New files, and new names of files.

use super::attrs::Attrs;
use super::check_flags;
use super::names::Count;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::node::Node;
use dmu::{NewObject, Object, Tx, zap};
use ondisk::DmuType;
use ondisk::sa::zpl;
use ondisk::znode::{Time, device_word, flags, mode};

/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;

/// Most links to one file.
const LINKS_MAX: u64 = i32::MAX as u64;

/// What a new file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewKind {
    /// A regular file, empty.
    File,
    /// A directory, empty.
    Dir,
    /// A symbolic link to this target, of 1 to 4095 bytes.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device of this major and minor number.
    Block(u32, u32),
    /// A character device.
    Char(u32, u32),
}

impl NewKind {
    /// The type bits of the mode.
    fn mode_type(&self) -> u64 {
        match self {
            Self::File => mode::FILE,
            Self::Dir => mode::DIR,
            Self::Symlink(_) => mode::SYMLINK,
            Self::Fifo => mode::FIFO,
            Self::Socket => mode::SOCKET,
            Self::Block(..) => mode::BLOCK,
            Self::Char(..) => mode::CHAR,
        }
    }

    /// Whether there can be such a file.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Symlink(target) if !(1..=TARGET_MAX).contains(&target.len()) => {
                Err(Error::Invalid("the target of a symbolic link has 1 to 4095 bytes"))
            }
            _ => Ok(()),
        }
    }
}

/// A file to be made.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// What it is.
    pub kind: NewKind,
    /// Permissions with set-id and sticky bits; the caller has applied the umask.
    pub mode: u32,
    /// Owner.
    pub uid: u64,
    /// Group. In a directory with the set-group-id bit the new file gets the directory's.
    pub gid: u64,
    /// All four times of the new file.
    pub now: Time,
}

impl NewFile {
    /// A file of `kind` that belongs to root.
    #[must_use]
    pub fn new(kind: NewKind, mode: u32, now: Time) -> Self {
        Self { kind, mode, uid: 0, gid: 0, now }
    }
}

/// Whose child a new file is.
pub(super) enum Parent<'a> {
    /// Nobody's: it is the root directory.
    Nobody,
    /// The directory's.
    Dir(&'a Attrs),
    /// It is the directory of this file's extended attributes.
    Xattrs(&'a Attrs),
}

impl Filesystem {
    /// Makes a file called `name` in the directory `dir`, and returns it. There must be no such
    /// name yet.
    ///
    /// # Errors
    /// `Exists`; `NotFound`, `NotDirectory` about `dir`; a name that cannot be; no space.
    pub fn create(&self, dir: u64, name: &[u8], new: &NewFile) -> Result<Node> {
        let number = self.with_small_tx(|tx| self.create_tx(tx, dir, name, new))?;
        self.node(number)
    }

    /// [`Self::create`] within a transaction; returns the object of the new file.
    pub fn create_tx(&self, tx: &Tx, dir: u64, name: &[u8], new: &NewFile) -> Result<u64> {
        self.check_writable()?;
        let _lock = self.inner.state.attrs.exclusive(dir);
        self.create_locked(tx, dir, name, new)
    }

    pub(super) fn create_locked(
        &self,
        tx: &Tx,
        dir: u64,
        name: &[u8],
        new: &NewFile,
    ) -> Result<u64> {
        self.check_new_name(name)?;
        new.kind.check()?;
        let mut parent = self.load_dir(dir)?;
        if self.find(parent.object(), name)?.is_some() {
            return Err(Error::Exists(String::from_utf8_lossy(name).into_owned()));
        }
        let names = self.dir_object(dir)?;
        let number = self.make(tx, new, &Parent::Dir(&parent))?;
        let entered = self.enter(tx, &names, name, number, new.kind.mode_type());
        let done = entered.and_then(|()| {
            self.count_entries(&mut parent, Count::came(new.kind == NewKind::Dir), new.now);
            parent.save(self, tx)
        });
        if let Err(e) = done {
            // A file without a name would stay for ever, and one that its directory does not count
            // would make that look empty.
            self.leave(tx, dir, name, number)?;
            return self.unmake(tx, number, e);
        }
        Ok(number)
    }

    /// Takes the name of `number` away that was entered just now, if it was.
    pub(super) fn leave(&self, tx: &Tx, dir: u64, name: &[u8], number: u64) -> Result<()> {
        let names = self.dir_object(dir)?;
        match self.find(&names, name)? {
            Some(entry) if entry.object == number => {
                zap::remove(&names, tx, entry.name.as_slice())?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Frees what was made just now, because of `error`.
    fn unmake<T>(&self, tx: &Tx, number: u64, error: Error) -> Result<T> {
        self.objset().free(tx, number)?;
        Err(error)
    }

    /// Makes the object of a file and gives it its attributes. When that fails, there is none.
    pub(super) fn make(&self, tx: &Tx, new: &NewFile, parent: &Parent<'_>) -> Result<u64> {
        let object = self.make_object(tx, &new.kind)?;
        let number = object.number();
        let given = self.give_attributes(tx, object, new, parent);
        given.or_else(|e| self.unmake(tx, number, e))?;
        Ok(number)
    }

    fn give_attributes(
        &self,
        tx: &Tx,
        object: Object,
        new: &NewFile,
        parent: &Parent<'_>,
    ) -> Result<()> {
        let number = object.number();
        let mut file = Attrs::new(self, object)?;
        let kind = new.kind.mode_type();
        let mut m = kind | (u64::from(new.mode) & mode::PERMISSIONS);
        let mut gid = new.gid;
        let (owner, is_xattr) = match parent {
            Parent::Nobody => (None, false),
            Parent::Dir(p) => (Some(*p), p.has_flag(flags::XATTR)),
            Parent::Xattrs(p) => (Some(*p), true),
        };
        if let Parent::Dir(p) = parent
            && p.mode() & 0o2000 != 0
        {
            gid = p.get(zpl::GID);
            if kind == mode::DIR {
                m |= 0o2000;
            }
        }
        let mut pflags = flags::ARCHIVE | flags::AV_MODIFIED;
        if is_xattr {
            pflags |= flags::XATTR;
        }
        let mut project = None;
        if matches!(kind, mode::FILE | mode::DIR) && self.counts_projects() {
            pflags |= flags::PROJID;
            project = Some(0);
            if let Some(p) = owner.filter(|p| p.has_flag(flags::PROJINHERIT)) {
                pflags |= flags::PROJINHERIT;
                project = Some(p.project());
            }
        }
        let target = match &new.kind {
            NewKind::Symlink(target) => Some(target),
            _ => None,
        };
        let (size, links) = match kind {
            mode::DIR => (2, 2),
            _ => (target.map_or(0, |t| t.len() as u64), 1),
        };
        // The order is that of OpenZFS: files of both then share their layouts.
        file.set(zpl::MODE, m);
        file.set(zpl::SIZE, size);
        file.set(zpl::GEN, tx.txg());
        file.set(zpl::UID, new.uid);
        file.set(zpl::GID, gid);
        file.set(zpl::PARENT, owner.map_or(number, Attrs::number));
        file.set(zpl::FLAGS, pflags);
        for name in [zpl::ATIME, zpl::MTIME, zpl::CTIME, zpl::CRTIME] {
            file.set_time(name, new.now);
        }
        file.set(zpl::LINKS, links);
        if let Some(project) = project {
            file.set(zpl::PROJID, project);
        }
        if let NewKind::Block(major, minor) | NewKind::Char(major, minor) = new.kind {
            file.set(zpl::RDEV, device_word(major, minor));
        }
        let inherits = if kind == mode::DIR { flags::ACL_AUTO_INHERIT } else { 0 };
        file.set_trivial_acl(inherits);
        if let Some(target) = target {
            file.set_bytes(zpl::SYMLINK, target.clone());
        }
        file.save(self, tx)
    }

    fn make_object(&self, tx: &Tx, kind: &NewKind) -> Result<Object> {
        let slots = self.settings().dnode_slots;
        if *kind == NewKind::Dir {
            let spec = zap::ZapSpec {
                slots,
                bonus_kind: DmuType::SA,
                norm_flags: self.norm_flags(),
                ..zap::ZapSpec::new(DmuType::DIRECTORY_CONTENTS)
            };
            return Ok(zap::create(self.objset(), tx, &spec)?);
        }
        let mut spec = NewObject::new(DmuType::PLAIN_FILE_CONTENTS).bonus(DmuType::SA, &[]);
        spec.slots = slots;
        Ok(self.objset().create(tx, &spec)?)
    }

    /// Gives the file `file` another name: `name` in the directory `dir`.
    ///
    /// # Errors
    /// `Exists`; `IsDirectory` for a directory; a file with too many names, or without any.
    pub fn link(&self, file: u64, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.with_small_tx(|tx| self.link_tx(tx, file, dir, name, now))
    }

    /// [`Self::link`] within a transaction.
    pub fn link_tx(&self, tx: &Tx, file: u64, dir: u64, name: &[u8], now: Time) -> Result<()> {
        self.check_writable()?;
        self.check_new_name(name)?;
        let _lock = self.inner.state.attrs.lock(&[file, dir], super::locks::Mode::Exclusive);
        let mut parent = self.load_dir(dir)?;
        let before = Attrs::load(self, file)?;
        let mut target = Attrs::load(self, file)?;
        if target.is_dir() {
            return Err(Error::IsDirectory(format!("object {file}")));
        }
        if target.links() == 0 {
            return Err(Error::NotFound(format!("object {file}")));
        }
        if target.links() >= LINKS_MAX {
            return Err(Error::TooManyNames);
        }
        check_flags(&target, flags::IMMUTABLE | flags::APPENDONLY)?;
        if parent.has_flag(flags::XATTR) != target.has_flag(flags::XATTR) {
            return Err(Error::Invalid("an extended attribute has no name among files"));
        }
        self.check_project(&parent, &target)?;
        if self.find(parent.object(), name)?.is_some() {
            return Err(Error::Exists(String::from_utf8_lossy(name).into_owned()));
        }
        let names = self.dir_object(dir)?;
        let entered = self.enter(tx, &names, name, file, target.mode());
        let done = entered.and_then(|()| {
            target.set(zpl::LINKS, target.links() + 1);
            target.set(zpl::PARENT, dir);
            target.state_changed(now);
            target.save(self, tx)?;
            self.count_entries(&mut parent, Count::came(false), now);
            parent.save(self, tx)
        });
        if let Err(e) = done {
            before.save(self, tx)?;
            self.leave(tx, dir, name, file)?;
            return Err(e);
        }
        Ok(())
    }

    /// What is put into a directory whose project is inherited must be of that project.
    pub(super) fn check_project(&self, parent: &Attrs, file: &Attrs) -> Result<()> {
        if parent.has_flag(flags::PROJINHERIT) && parent.project() != file.project() {
            return Err(Error::OtherProject);
        }
        Ok(())
    }
}
