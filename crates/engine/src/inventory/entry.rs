//! One file as one member of `entries`.

use super::ctldir;
use super::hash::{self, Hashing};
use super::json::{Json, Members, put_text_or_hex};
use super::tree::FoundFile;
use crate::error::ErrorKind;
use ondisk::acl::{
    POSIX_ACCESS_XATTR, POSIX_DEFAULT_XATTR, decode_posix, posix_from_mode, posix_text,
};
use ondisk::hex;
use zpl::{FileKind, Filesystem, Node, Time};

/// The flag that Linux sets on every file of a directory whose project is inherited; alone it is
/// not worth a member.
const FS_PROJINHERIT: u32 = 0x2000_0000;
/// The kernel's message for a block that it cannot read.
const EIO: &str = "Input/output error";

/// Settings, beside the file, that its description depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryOptions {
    /// The dataset has POSIX access lists (`acltype=posix`).
    pub posix_acls: bool,
    /// The root shows `.zfs` (`snapdir=visible`), which counts as a link.
    pub shows_ctldir: bool,
    /// The inode the root is shown with, where that is not its object: see [`snapshot_root`].
    pub root_inode: Option<u64>,
}

/// The inode of the root of a mounted snapshot: that of its directory in `.zfs/snapshot`.
#[must_use]
pub fn snapshot_root(objset: u64) -> u64 {
    ctldir::INODE_SNAPSHOTS.saturating_sub(objset)
}

/// The description of a file, and what could not be read of it.
pub struct Described {
    /// The entry.
    pub entry: Json,
    /// Parts that could not be read, for `errors`.
    pub errors: Vec<String>,
}

/// Name of a file's type.
#[must_use]
pub fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "dir",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::Block => "block",
        FileKind::Char => "char",
        FileKind::Unknown => "unknown",
    }
}

/// A time in nanoseconds since 1970.
#[must_use]
pub fn nanoseconds(t: Time) -> i128 {
    i128::from(t.seconds) * 1_000_000_000 + i128::from(t.nanos)
}

/// Describes one file. Attributes that cannot be read are reported in the entry and in the errors;
/// the rest of the file is described all the same.
#[must_use]
pub fn describe(
    fs: &Filesystem,
    found: &FoundFile,
    options: EntryOptions,
    hashing: Hashing<'_>,
) -> Described {
    let mut d = Describing { members: Vec::new(), errors: Vec::new(), path: &found.path };
    put_text_or_hex(&mut d.members, "path", &found.path);
    match fs.node(found.object) {
        Ok(node) => {
            d.attributes(&node, options);
            d.content(&node, hashing);
            d.xattrs(&node, options);
        }
        Err(e) => d.fail("", &e.to_string()),
    }
    Described { entry: Json::Map(d.members), errors: d.errors }
}

struct Describing<'a> {
    members: Members,
    errors: Vec<String>,
    path: &'a [u8],
}

impl Describing<'_> {
    fn put(&mut self, name: &str, value: impl Into<Json>) {
        self.members.push((name.into(), value.into()));
    }

    fn fail(&mut self, what: &str, why: &str) {
        let path = String::from_utf8_lossy(self.path);
        self.errors.push(format!("{path}{what}: {EIO} ({why})"));
        if !self.members.iter().any(|(n, _)| n == b"error") && what.is_empty() {
            self.put("error", EIO);
        }
    }

    fn attributes(&mut self, node: &Node, options: EntryOptions) {
        let is_root = node.number() == node.filesystem().root_object();
        let ctldir = u64::from(is_root && options.shows_ctldir);
        self.put("type", kind_name(node.kind()));
        self.put("mode", format!("{:04o}", node.permissions()));
        self.put("uid", Filesystem::linux_id(node.uid));
        self.put("gid", Filesystem::linux_id(node.gid));
        self.put("size", node.size);
        self.put("nlink", node.links.saturating_add(ctldir));
        let inode = options.root_inode.filter(|_| is_root);
        self.put("ino", inode.unwrap_or(node.number()));
        self.put("mtime_ns", Json::Int(nanoseconds(node.mtime)));
        self.put("ctime_ns", Json::Int(nanoseconds(node.ctime)));
        self.put("atime_ns", Json::Int(nanoseconds(node.atime)));
        self.put("blocks", node.blocks());
    }

    fn content(&mut self, node: &Node, hashing: Hashing<'_>) {
        match node.kind() {
            FileKind::Symlink => match node.read_link() {
                Ok(target) => put_text_or_hex(&mut self.members, "target", &target),
                Err(e) => self.fail("", &e.to_string()),
            },
            FileKind::Block | FileKind::Char => {
                let (major, minor) = node.device();
                self.put("rdev", Json::List(vec![major.into(), minor.into()]));
            }
            FileKind::File => match hash::sha256(node.object(), node.size, hashing) {
                Ok(sum) => {
                    self.put("sha256", hex::encode(&sum));
                    self.ranges(node);
                    self.flags(node);
                }
                Err(e) if *e.kind() == ErrorKind::TooManyHoles => {
                    let why = e.to_string();
                    let path = String::from_utf8_lossy(self.path);
                    self.errors.push(format!("{path}: not hashed: {why}"));
                    self.put("not_hashed", why);
                    self.ranges(node);
                    self.flags(node);
                }
                // As in the tool that makes manifests, nothing more is read after an error.
                Err(e) => self.fail("", &e.to_string()),
            },
            FileKind::Dir => self.flags(node),
            _ => {}
        }
    }

    /// The data ranges of a file with holes.
    fn ranges(&mut self, node: &Node) {
        if node.size == 0 || has_no_holes(node) {
            return;
        }
        match node.segments() {
            Ok(s) if s.len() == 1 && s[0].offset == 0 && s[0].length == node.size => {}
            Ok(segments) => {
                let pair = |s: &dmu::Segment| Json::List(vec![s.offset.into(), s.length.into()]);
                self.put("data", Json::List(segments.iter().map(pair).collect()));
            }
            Err(e) => self.fail("", &e.to_string()),
        }
    }

    fn flags(&mut self, node: &Node) {
        let flags = node.linux_flags();
        if flags & !FS_PROJINHERIT != 0 {
            self.put("flags", flags);
        }
        if node.project != 0 {
            self.put("projid", node.project);
        }
    }

    fn xattrs(&mut self, node: &Node, options: EntryOptions) {
        let xattrs = match node.linux_xattrs(options.posix_acls) {
            Ok(x) if x.is_empty() => return,
            Ok(x) => x,
            Err(e) => return self.fail(" xattrs", &e.to_string()),
        };
        let members = xattrs.iter().map(|(n, v)| (n.clone(), hex::encode(v).into())).collect();
        self.put("xattrs", Json::Map(members));
        let list = |name: &str| xattrs.get(name.as_bytes()).map(|v| decode_posix(v));
        let (access, default) = (list(POSIX_ACCESS_XATTR), list(POSIX_DEFAULT_XATTR));
        if access.is_none() && default.is_none() {
            return;
        }
        let access = access.unwrap_or_else(|| Ok(posix_from_mode(node.permissions())));
        match (access, default.unwrap_or_else(|| Ok(Vec::new()))) {
            (Ok(access), Ok(default)) => self.put("acl", posix_text(&access, &default)),
            (Err(e), _) | (_, Err(e)) => self.fail(" acl", &e.to_string()),
        }
    }
}

/// The pointers in the dnode count the blocks below; when they count all of the file's there is
/// no hole, and the tree need not be gone through.
fn has_no_holes(node: &Node) -> bool {
    let object = node.object();
    let dnode = object.dnode();
    let blocks = node.size.div_ceil(dnode.block_size().max(1));
    !object.has_changes()
        && dnode.max_block.checked_add(1) == Some(blocks)
        && hash::filled(object) == blocks
}
