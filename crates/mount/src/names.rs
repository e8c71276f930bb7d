//! Names, and the attributes of files.

use crate::Options;
use crate::acl;
use crate::attrs::{self, now, without_set_ids};
use crate::errno::{FuseResult, OrErrno as _};
use crate::kernel::{
    AttrChanges, EntryReply, Errno, FileAttr, FileHandle, INodeNo, NewTime, file_type,
};
use crate::served::{Caller, Front};
use crate::snapshots::{self, InodeTarget, Listed, SnapdirMode, Snapshots};
use engine::Node;
use engine::files::{
    FileKind, Hold, NewFile, NewKind, OpenFile, RenameMode, SetAttrs, Time, XattrMode, names,
};
use std::time::Duration;

/// The kind of file that `mknod` is to make.
pub(crate) fn kind_of(mode: u32, rdev: u32) -> FuseResult<NewKind> {
    let (major, minor) = attrs::device_numbers(rdev);
    Ok(match FileKind::from_mode(mode.into()) {
        FileKind::File => NewKind::File,
        FileKind::Fifo => NewKind::Fifo,
        FileKind::Socket => NewKind::Socket,
        FileKind::Block => NewKind::Block(major, minor),
        FileKind::Char => NewKind::Char(major, minor),
        FileKind::Dir | FileKind::Symlink | FileKind::Unknown => return Err(Errno::EINVAL),
    })
}

impl Front {
    /// Bytes of a name, at most.
    pub(crate) fn name_max(&self) -> usize {
        match self.fs.settings().long_names {
            true => names::LONGEST_WITH_FEATURE,
            false => names::LONGEST,
        }
    }

    /// A name, as the kernel is to know its file.
    pub(crate) fn look_up(&self, parent: INodeNo, name: &[u8]) -> FuseResult<EntryReply> {
        // The kernel takes longer ones, and looks every name up before it does anything with it.
        if name.len() > self.name_max() {
            return Err(Errno::ENAMETOOLONG);
        }
        let within = match self.of(parent) {
            InodeTarget::Live(dir) if dir == self.fs.root_object() && name == snapshots::NAME => {
                match &self.snapshots {
                    Some(all) if all.mode() != SnapdirMode::Disabled => {
                        return Ok(self.virtual_dir(InodeTarget::Control, None));
                    }
                    _ => None,
                }
            }
            InodeTarget::Live(_) => None,
            InodeTarget::Control if name == snapshots::BELOW => {
                return Ok(self.virtual_dir(InodeTarget::Listing, None));
            }
            InodeTarget::Control if name == snapshots::SHARES => {
                return Ok(self.virtual_dir(InodeTarget::Shares, None));
            }
            InodeTarget::Control | InodeTarget::Shares => return Err(Errno::ENOENT),
            InodeTarget::Listing => {
                let found = self.snapshots()?.find(name)?;
                return self.look(INodeNo(InodeTarget::Root(found.dataset).number()));
            }
            InodeTarget::Root(dataset) => Some(self.snapshots()?.root(dataset)?),
            InodeTarget::Within(slot, _) => Some((slot, self.snapshots()?.within(slot)?)),
        };
        let entry = self.node(parent)?.lookup(name).or_errno()?.ok_or(Errno::ENOENT)?;
        match within {
            Some((slot, fs)) => {
                let node = fs.node(entry.object).or_errno()?;
                self.known(InodeTarget::Within(slot, entry.object), &node)
            }
            None => {
                let node = self.fs.node(entry.object).or_errno()?;
                self.known(InodeTarget::Live(entry.object), &node)
            }
        }
    }

    /// The kernel's view of a file.
    pub(crate) fn look(&self, ino: INodeNo) -> FuseResult<EntryReply> {
        match self.of(ino) {
            of if of.is_virtual() => Ok(self.virtual_dir(of, None)),
            of => self.known(of, &self.node(ino)?),
        }
    }

    /// A directory that is on no disk: those of `.zfs`, and in a listing of snapshots one that was
    /// not looked into.
    pub(crate) fn virtual_dir(&self, of: InodeTarget, listed: Option<&Listed>) -> EntryReply {
        let changed = match (of, &self.snapshots) {
            (InodeTarget::Listing, Some(all)) => all.changed(),
            _ => listed.map(|listed| listed.made),
        };
        let at = Time { seconds: i64::try_from(changed.unwrap_or(0)).unwrap_or(0), nanos: 0 };
        // What may be done with snapshots is not decided by who owns their directory.
        let is_managed = of == InodeTarget::Listing
            && self.snapshots.as_ref().is_some_and(Snapshots::are_managed);
        let attr = FileAttr {
            ino: INodeNo(of.number()),
            size: 2,
            blocks: 1,
            atime: at,
            mtime: at,
            ctime: at,
            crtime: at,
            kind: file_type::DIRECTORY,
            perm: if is_managed { 0o777 } else { 0o555 },
            nlink: 2,
            uid: 0,
            gid: 0,
            device: (0, 0),
            blksize: 4096,
        };
        let ttl = if listed.is_some() { Duration::ZERO } else { self.ttl_of(of) };
        EntryReply { attr, generation: 0, ttl }
    }

    /// Makes a file. The kernel leaves it to the file system to take the umask off the mode: it
    /// does not count where a directory hands access lists down.
    pub(crate) fn make(
        &self,
        caller: Caller,
        parent: INodeNo,
        name: &[u8],
        kind: NewKind,
        (mode, umask): (u32, u32),
    ) -> FuseResult<Node> {
        let (dir, mut new) = (self.object(parent)?, caller.file(kind, mode));
        if let Some(default) = self.handed_down(dir, &new.kind)? {
            return self.make_with_list(dir, name, new, &default);
        }
        new.mode &= !umask;
        self.fs.create(dir, name, &new).or_errno()
    }

    /// Makes a file that has no name (`O_TMPFILE`), and is in use. It may get one from
    /// [`Self::add_link`].
    fn make_unnamed(
        &self,
        caller: Caller,
        parent: INodeNo,
        (mode, umask): (u32, u32),
    ) -> FuseResult<(OpenFile, Node)> {
        let (dir, mut new) = (self.object(parent)?, caller.file(NewKind::File, mode));
        let list = self.handed_down(dir, &new.kind)?.map(|default| default.for_new(new.mode));
        match &list {
            Some(list) => new.mode = (new.mode & !0o777) | list.mode(),
            None => new.mode &= !umask,
        }
        let open = self.fs.create_unnamed(dir, &new).or_errno()?;
        let file = OpenFile::object(&open);
        if let Some(list) = list.filter(|list| !list.is_mode()) {
            let value = list.encode();
            self.fs.set_xattr(file, acl::ACCESS, &value, XattrMode::Any, new.now).or_errno()?;
        }
        let node = self.fs.node(file).or_errno()?;
        Ok((open, node))
    }

    /// Makes a file, with or without a name, which is in use.
    pub(crate) fn create(
        &self,
        caller: Caller,
        parent: INodeNo,
        name: Option<&[u8]>,
        modes: (u32, u32),
    ) -> FuseResult<(EntryReply, OpenFile)> {
        let (held, node) = match name {
            Some(name) => {
                let node = self.make(caller, parent, name, NewKind::File, modes)?;
                (self.fs.hold(node.number()).or_errno()?, node)
            }
            None => self.make_unnamed(caller, parent, modes)?,
        };
        Ok((self.known(InodeTarget::Live(node.number()), &node)?, held))
    }

    /// The list that a directory hands down to a new file of this kind, if it does.
    fn handed_down(&self, dir: u64, kind: &NewKind) -> FuseResult<Option<acl::List>> {
        match matches!(kind, NewKind::Symlink(_)) || !self.is_on(Options::has_lists) {
            true => Ok(None),
            false => self.list_of(dir, acl::DEFAULT),
        }
    }

    /// Makes a file in a directory whose default list it gets, all at once.
    fn make_with_list(
        &self,
        dir: u64,
        name: &[u8],
        mut new: NewFile,
        default: &acl::List,
    ) -> FuseResult<Node> {
        /// Bytes that a file, its name and two lists make dirty.
        const HOLD: u64 = 512 << 10;
        let list = default.clone().for_new(new.mode);
        new.mode = (new.mode & !0o777) | list.mode();
        let made = {
            let tx = self.fs.begin(Hold::write(HOLD)).or_errno()?;
            let made = self.fs.create_tx(&tx, dir, name, &new).or_errno()?;
            let given = [
                (acl::ACCESS, (!list.is_mode()).then(|| list.encode())),
                (acl::DEFAULT, (new.kind == NewKind::Dir).then(|| default.encode())),
            ];
            for (name, value) in given {
                let Some(value) = value else { continue };
                let any = XattrMode::Any;
                self.fs.set_xattr_tx(&tx, made, name, &value, any, new.now).or_errno()?;
            }
            made
        };
        self.fs.node(made).or_errno()
    }

    /// A list of a file.
    pub(crate) fn list_of(&self, file: u64, which: &[u8]) -> FuseResult<Option<acl::List>> {
        let all = self.fs.node(file).or_errno()?.xattrs().or_errno()?;
        Ok(all.get(which).map(|bytes| acl::List::decode(bytes)).transpose()?.flatten())
    }

    /// Updates the list of a file to correspond to its mode.
    fn follow_mode(&self, file: u64, mode: u32) -> FuseResult<()> {
        if !self.is_on(Options::has_lists) {
            return Ok(());
        }
        let Some(list) = self.list_of(file, acl::ACCESS)? else { return Ok(()) };
        let value = list.with_mode(mode).encode();
        self.fs.set_xattr(file, acl::ACCESS, &value, XattrMode::Any, now()).or_errno()
    }

    /// Takes a name away. A large file is freed by the time of its last use: in pieces, for which
    /// the caller need not wait.
    pub(crate) fn unlink_name(&self, parent: INodeNo, name: &[u8]) -> FuseResult<()> {
        let (dir, used) = (self.object(parent)?, self.used_unopened(parent, name));
        self.fs.unlink(dir, name, now()).or_errno()?;
        self.keep_nameless(used);
        Ok(())
    }

    pub(crate) fn remove_dir(
        &self,
        caller: Caller,
        parent: INodeNo,
        name: &[u8],
    ) -> FuseResult<()> {
        if self.is_of_snapshots(parent) {
            return self.destroy_snapshot(caller, name);
        }
        let (dir, used) = (self.object(parent)?, self.used_unopened(parent, name));
        self.fs.rmdir(dir, name, now()).or_errno()?;
        self.keep_nameless(used);
        Ok(())
    }

    /// What has a name that is about to go, in use, if programs may use it without a handle.
    fn used_unopened(&self, parent: INodeNo, name: &[u8]) -> Option<OpenFile> {
        let entry = self.node(parent).ok()?.lookup(name).ok()??;
        match FileKind::from_mode(u64::from(entry.kind) << 12) {
            FileKind::File | FileKind::Symlink | FileKind::Unknown => None,
            _ => self.fs.hold(entry.object).ok(),
        }
    }

    /// Keeps it until the kernel forgets it, if that was its last name.
    fn keep_nameless(&self, used: Option<OpenFile>) {
        let is_nameless = |file: &OpenFile| {
            self.fs.node(OpenFile::object(file)).is_ok_and(|node| node.links == 0)
        };
        if let Some(file) = used.filter(is_nameless) {
            self.nameless.add(file);
        }
    }

    /// What was kept of a file that the kernel has forgotten now.
    pub(crate) fn forgotten(&self, ino: INodeNo) -> Option<OpenFile> {
        match self.of(ino) {
            InodeTarget::Live(object) => self.nameless.remove(object),
            _ => None,
        }
    }

    /// Gives a file another name, or one that was made without its first. The kernel refuses it to
    /// files that have lost their last name.
    pub(crate) fn add_link(&self, ino: INodeNo, parent: INodeNo, name: &[u8]) -> FuseResult<Node> {
        let (file, dir) = (self.object(ino)?, self.object(parent)?);
        if self.node(ino)?.links == 0 {
            let set = SetAttrs::default();
            self.fs.give_name(file, (dir, name), None, &set, now()).or_errno()?;
        } else {
            self.fs.link(file, dir, name, now()).or_errno()?;
        }
        self.node(ino)
    }

    pub(crate) fn move_name(
        &self,
        caller: Caller,
        from: (INodeNo, &[u8]),
        to: (INodeNo, &[u8]),
        flags: u32,
    ) -> FuseResult<()> {
        /// As `renameat2` has them.
        const NO_REPLACE: u32 = 1 << 0;
        const EXCHANGE: u32 = 1 << 1;
        const WHITEOUT: u32 = 1 << 2;
        let how = match flags {
            0 => RenameMode::Replace,
            NO_REPLACE => RenameMode::NoReplace,
            EXCHANGE => RenameMode::Exchange,
            WHITEOUT => RenameMode::Whiteout { uid: caller.uid.into(), gid: caller.gid.into() },
            _ => return Err(Errno::EINVAL),
        };
        if self.is_of_snapshots(from.0) && self.is_of_snapshots(to.0) {
            let is_plain = matches!(how, RenameMode::Replace | RenameMode::NoReplace);
            return self.rename_snapshot(caller, (from.1, to.1), is_plain);
        }
        let used = self.used_unopened(to.0, to.1);
        let (from, to) = ((self.object(from.0)?, from.1), (self.object(to.0)?, to.1));
        self.fs.rename(from, to, how, now()).or_errno()?;
        self.keep_nameless(used);
        Ok(())
    }

    /// Changes attributes; the file as it is then.
    pub(crate) fn set_attributes(&self, ino: INodeNo, wanted: &AttrChanges) -> FuseResult<Node> {
        let (file, now) = (self.object(ino)?, now());
        let when = |t: NewTime| match t {
            NewTime::Now => now,
            NewTime::At(at) => at,
        };
        let mut set = SetAttrs {
            mode: wanted.mode.map(|mode| mode & 0o7777),
            uid: wanted.uid.map(u64::from),
            gid: wanted.gid.map(u64::from),
            atime: wanted.atime.map(when),
            mtime: wanted.mtime.map(when),
            ctime: wanted.ctime,
            ..SetAttrs::default()
        };
        // No caller keeps set-id bits through a change of owner. Whether it does through one of
        // size is said by the kernel, which does not say who it is.
        let strips = wanted.without_set_ids || set.uid.is_some() || set.gid.is_some();
        if strips && set.mode.is_none() {
            set.mode = without_set_ids(&self.node(ino)?);
        }
        if let Some(size) = wanted.size {
            self.fs.truncate(file, size, now).or_errno()?;
            // The kernel sets the time of a truncation too, and means the same.
            if wanted.mtime == Some(NewTime::Now) {
                set.mtime = None;
            }
        }
        if set != SetAttrs::default() {
            self.fs.set_attrs(file, &set, now).or_errno()?;
        }
        if let Some(mode) = set.mode {
            self.follow_mode(file, mode)?;
        }
        self.node(ino)
    }

    /// The directory, in use.
    pub(crate) fn open_dir(&self, ino: INodeNo) -> FuseResult<FileHandle> {
        let held = match self.of(ino) {
            InodeTarget::Live(object) if self.fs.is_live() => {
                Some(self.fs.hold(object).or_errno()?)
            }
            _ => None,
        };
        Ok(self.handles.add_dir(held))
    }

    /// Notes that a file was read, as far as its mount and its dataset want that.
    pub(crate) fn note_read(&self, ino: INodeNo, node: &Node) {
        let is_noted = self.is_on(|options| options.atime && !options.read_only);
        if is_noted && matches!(self.of(ino), InodeTarget::Live(_)) {
            let now: Time = now();
            // A read is a read also when that cannot be noted.
            let _ = self.fs.touch_atime(node, now);
        }
    }
}
