//! The interface of a target into which files of a pool are copied.

use std::hash::Hash;
use std::io;
use std::sync::Arc;
use zpl::write::NewKind;
use zpl::{FileKind, Node, Time};

/// The attributes of a file that are set on the copy.
#[derive(Clone, Copy, Debug)]
pub struct Preserve {
    /// Owner and group, and what is worth something only with them: set-id bits, attributes that
    /// give rights, devices that others may open.
    pub owner: bool,
    /// The user asked for owners to be left out, so what is lost with them is not reported.
    pub declined: bool,
    /// Extended attributes and access lists.
    pub xattrs: bool,
    /// Devices.
    pub devices: bool,
}

impl Preserve {
    /// All that there is.
    pub const ALL: Self = Self { owner: true, declined: false, xattrs: true, devices: true };
}

/// One attribute of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute<'a> {
    /// Its owner and group.
    Owner {
        /// The user's number.
        uid: u32,
        /// The group's.
        gid: u32,
    },
    /// An extended attribute, by the name Linux shows.
    Xattr {
        /// The name.
        name: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Permissions with set-id and sticky bits. They come after the owner, whose change takes the
    /// set-id bits away; a symbolic link has none.
    Mode(u32),
    /// Times, which come last.
    Times {
        /// Last access.
        atime: Time,
        /// Last change of the data.
        mtime: Time,
    },
}

/// Something that was made, and takes attributes.
pub trait SetAttribute {
    /// Sets one.
    ///
    /// # Errors
    /// The target does not accept it. That is reported, and the copy continues.
    fn set(&self, attribute: &Attribute<'_>) -> io::Result<()>;
}

/// A directory of the target, open. A copy of a tree makes everything in one of them, by a single
/// name: names that no file can have do not come here.
///
/// ```
/// use engine::extract::{Sink as _, TargetFile as _};
/// # mod memory {
/// #     include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/extract/memory.rs"));
/// # }
/// # use memory::{Handle, Memory};
/// # use std::sync::{Arc, Mutex};
///
/// // A target that is memory: what `tests/extract/memory.rs` implements.
/// let target = Arc::new(Mutex::new(Memory::default()));
/// let letters = Handle::top(&target).subdir(b"letters")?;
/// let file = letters.file(8)?;
/// file.write(4, b"text")?;
/// // It has a name when it is whole.
/// assert!(letters.find(b"first")?.is_none());
/// file.finish(b"first", None)?;
/// assert!(letters.find(b"first")?.is_some_and(|found| found.is_file() && found.size == 8));
/// assert_eq!(target.lock().unwrap().at("letters/first").ranges, [(4, 4)]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Sink: SetAttribute + Sized + Send + Sync {
    /// Tells two files apart, whatever their names are.
    type Id: Copy + Eq + Hash + Send;
    /// A regular file that is being made.
    type File<'d>: TargetFile<Id = Self::Id>
    where
        Self: 'd;
    /// A file, opened for its attributes and for more names.
    type Item: SetAttribute;
    /// All directories of a copy.
    type Tree: Tree<Sink = Self>;

    /// A tree with this directory at its top.
    ///
    /// # Errors
    /// The directory cannot be used.
    fn tree(top: Arc<Self>) -> io::Result<Self::Tree>;

    /// The directory of that name in this one, made when it is not there.
    ///
    /// # Errors
    /// Something else is there, or it cannot be made.
    fn subdir(&self, name: &[u8]) -> io::Result<Self>;

    /// Closes a directory that was there before to all whom `node` keeps out: it gets its
    /// attributes when all is in it. A directory that is made is closed from the beginning. A
    /// target that has one user only need not do anything.
    ///
    /// # Errors
    /// It stays open; nothing is copied into it.
    fn close(&self, node: &Node, keep: Preserve) -> io::Result<()> {
        let _ = (node, keep);
        Ok(())
    }

    /// Looks up a name; `None` if it does not exist.
    ///
    /// # Errors
    /// The name cannot be looked up.
    fn find(&self, name: &[u8]) -> io::Result<Option<Found<Self::Id>>>;

    /// Begins a regular file of `size` bytes, all of them a hole. It has no name until it is whole.
    ///
    /// # Errors
    /// It cannot be made.
    fn file(&self, size: u64) -> io::Result<Self::File<'_>>;

    /// Makes a symbolic link, a pipe, a socket or a device.
    ///
    /// # Errors
    /// It cannot be made. Of a device, [`io::ErrorKind::PermissionDenied`] is reported as an
    /// attribute that is not kept.
    fn special(&self, name: &[u8], what: &NewKind) -> io::Result<(Self::Item, Self::Id)>;

    /// Opens the file that a name refers to now, and returns its identity.
    ///
    /// # Errors
    /// There is nothing, or it cannot be opened: then a second name of it is a copy of its own.
    fn item(&self, name: &[u8]) -> io::Result<(Self::Item, Self::Id)>;

    /// Gives a file a further name, which is free.
    ///
    /// # Errors
    /// It cannot, although the target has files with several names.
    fn link(&self, name: &[u8], item: &Self::Item) -> io::Result<Linked>;

    /// Removes a name that is not a directory, if it still refers to this file.
    ///
    /// # Errors
    /// It does not, or cannot be removed.
    fn remove(&self, name: &[u8], seen: Self::Id) -> io::Result<()>;

    /// Whether an error means that the target does not accept such a name, though others do.
    fn refuses_name(e: &io::Error) -> bool {
        matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename)
    }
}

/// A regular file that has no name until it is whole. One that is dropped before leaves nothing.
pub trait TargetFile: SetAttribute {
    /// Tells two files apart.
    type Id;

    /// Writes a range of its data. Ranges come in ascending order and do not overlap; what is not
    /// written is a hole, or could not be read.
    ///
    /// # Errors
    /// The copy of this file ends.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Gives it its name, after its data and attributes. A file that has the name already stays,
    /// and is an error, unless it is `replaced`.
    ///
    /// # Errors
    /// There is something else now, or the file is not whole after all.
    fn finish(self, name: &[u8], replaced: Option<Self::Id>) -> io::Result<Self::Id>;
}

/// The directories of one copy, by numbers in the order in which they are made; 0 is the top. They
/// are used mostly in the order of the tree, so that only some need be held open.
pub trait Tree: Send {
    /// One of them.
    type Sink;

    /// Makes a directory in `above`, or takes the one that is there; its number, and whether it was
    /// there.
    ///
    /// # Errors
    /// It cannot be made, or is one that was made already under a name that is the same here; then
    /// no number is taken.
    fn make(&mut self, above: usize, name: &[u8]) -> io::Result<(usize, bool)>;

    /// A directory by its number.
    ///
    /// # Errors
    /// It is not there any more.
    fn dir(&mut self, at: usize) -> io::Result<Arc<Self::Sink>>;

    /// The path of a directory from the top, for reports: of a very long one perhaps only the end.
    fn path(&self, at: usize) -> Vec<u8>;
}

/// What a name of the target refers to.
#[derive(Clone, Debug)]
pub struct Found<I> {
    /// Which file it is.
    pub id: I,
    /// Its type.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Last change of the data.
    pub mtime: Time,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Where a symbolic link leads, when that can be read.
    pub target: Option<Vec<u8>>,
}

impl<I> Found<I> {
    /// It is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::File
    }
}

/// The result of adding a second name.
#[derive(Debug)]
pub enum Linked {
    /// It refers to the file.
    Made,
    /// The target has no files with several names, or no more of them.
    Unsupported(io::Error),
}

/// A file of this type in the words of a sentence, such as "a directory".
#[must_use]
pub fn kind_phrase(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "a file",
        FileKind::Dir => "a directory",
        FileKind::Symlink => "a symbolic link",
        FileKind::Fifo => "a pipe",
        FileKind::Socket => "a socket",
        FileKind::Block | FileKind::Char => "a device",
        FileKind::Unknown => "something",
    }
}
