//! What is known of a file, read at once: for those that show it.

use dmu::Segment;
use ondisk::acl::{POSIX_ACCESS_XATTR, POSIX_DEFAULT_XATTR, PosixEntry, decode_posix};
use std::collections::BTreeMap;
use zpl::{AceText, FileKind, Filesystem, Node, Result, Stored, Time};

/// What a long listing shows of a file.
#[derive(Debug)]
pub struct FileSummary {
    /// Its type.
    pub kind: FileKind,
    /// Permissions, and the bits for the user, the group and sticky directories.
    pub permissions: u32,
    /// How many names it has.
    pub links: u64,
    /// The number of its owner.
    pub uid: u64,
    /// The same as text, with its domain if it has one.
    pub owner: String,
    /// The number of its group.
    pub gid: u64,
    /// The same as text.
    pub group: String,
    /// Bytes.
    pub size: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// When its content was changed.
    pub mtime: Time,
    /// Where a symbolic link leads to.
    pub target: Option<Result<Vec<u8>>>,
}

impl FileSummary {
    /// The summary of a file; where a symbolic link leads to is read for it.
    ///
    /// ```
    /// use engine::files::{FileKind, FileSummary, NewFile, NewKind, Time};
    ///
    /// let pool = engine::NewPool::new("tank").memory(128 << 20).create()?;
    /// let fs = pool.filesystem("tank")?;
    /// let kind = NewKind::Symlink(b"over there".to_vec());
    /// let new = NewFile::new(kind, 0o777, Time { seconds: 1, nanos: 0 });
    /// let link = FileSummary::of(&fs, &fs.create(fs.root_object(), b"link", &new)?);
    /// assert_eq!((link.kind, link.links), (FileKind::Symlink, 1));
    /// assert_eq!(link.target.unwrap()?, b"over there");
    /// # Ok::<(), engine::Error>(())
    /// ```
    #[must_use]
    pub fn of(fs: &Filesystem, node: &Node) -> Self {
        Self {
            target: (node.kind() == FileKind::Symlink).then(|| node.read_link()),
            ..Self::without_target(fs, node)
        }
    }

    /// The same, without reading where a symbolic link leads to.
    #[must_use]
    pub fn without_target(fs: &Filesystem, node: &Node) -> Self {
        Self {
            kind: node.kind(),
            permissions: node.permissions(),
            links: node.links,
            uid: node.uid,
            owner: fs.id_text(node.uid),
            gid: node.gid,
            group: fs.id_text(node.gid),
            size: node.size,
            device: node.device(),
            mtime: node.mtime,
            target: None,
        }
    }
}

/// Two lists of access rights as POSIX has them: for the file, and for what is made in it.
pub type PosixLists = [Vec<PosixEntry>; 2];

/// All that is known of a file.
#[derive(Debug)]
pub struct FileFacts {
    /// What a listing shows.
    pub summary: FileSummary,
    /// The number of its object.
    pub object: u64,
    /// The txg in which it was made.
    pub generation: u64,
    /// The object of the directory that it is in.
    pub parent: u64,
    /// Its project; 0: none.
    pub project: u64,
    /// The object of the directory of its extended attributes; 0: none.
    pub xattr_dir: u64,
    /// Space used in units of 512 bytes.
    pub blocks: u64,
    /// When it was read.
    pub atime: Time,
    /// When its attributes were changed.
    pub ctime: Time,
    /// When it was made.
    pub crtime: Time,
    /// Its flags ([`crate::files::flags`]).
    pub flags: u64,
    /// Its attributes are kept as versions before system attributes did it.
    pub is_old_form: bool,
    /// The sizes of its object.
    pub stored: Stored,
    /// Stored ranges of a regular file; `None` for other files.
    pub segments: Option<Result<Vec<Segment>>>,
    /// The NFSv4 list of access rights.
    pub acl: Result<Vec<AceText>>,
    /// The POSIX lists, of a file that has one.
    pub posix: Option<PosixLists>,
    /// Extended attributes by name.
    pub xattrs: Result<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl FileFacts {
    /// The facts of a file. `has_posix_acls`: its dataset has access lists of POSIX
    /// ([`crate::properties::has_posix_acls`]).
    #[must_use]
    pub fn of(fs: &Filesystem, node: &Node, has_posix_acls: bool) -> Self {
        let texts = |acl: zpl::Acl| acl.entries.iter().map(|ace| fs.ace_text(ace)).collect();
        Self {
            summary: FileSummary::of(fs, node),
            object: node.number(),
            generation: node.generation,
            parent: node.parent,
            project: node.project,
            xattr_dir: node.xattr_dir,
            blocks: node.blocks(),
            atime: node.atime,
            ctime: node.ctime,
            crtime: node.crtime,
            flags: node.flags,
            is_old_form: node.is_old_form(),
            stored: node.stored(),
            segments: segments(node),
            acl: node.acl().map(texts),
            posix: posix(node, has_posix_acls),
            xattrs: node.xattrs(),
        }
    }
}

/// That the map of a file of another kind cannot be read is an error too.
fn segments(node: &Node) -> Option<Result<Vec<Segment>>> {
    match node.segments() {
        Ok(_) if node.kind() != FileKind::File => None,
        segments => Some(segments),
    }
}

fn posix(node: &Node, has_posix_acls: bool) -> Option<PosixLists> {
    let xattrs = node.linux_xattrs(has_posix_acls).ok()?;
    let list = |n: &str| xattrs.get(n.as_bytes()).and_then(|v| decode_posix(v).ok());
    let (access, default) = (list(POSIX_ACCESS_XATTR), list(POSIX_DEFAULT_XATTR));
    let has_one = access.is_some() || default.is_some();
    has_one.then(|| [access, default].map(Option::unwrap_or_default))
}
