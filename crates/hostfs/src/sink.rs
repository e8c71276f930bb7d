//! Directories of this machine as the target of a copy out of a pool: what the engine decides
//! ([`engine::extract`]) is done here.

use crate::dir::Item;
use crate::{Dir, FileInfo, Identity, NewFile, Tree, names};
use engine::Node;
use engine::extract::{self, Found, Linked, Preserve};
use engine::files::{NewKind, Time};
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

impl extract::Sink for Dir {
    type Id = Identity;
    type File<'d> = NewFile<'d>;
    type Item = Item;
    type Tree = Tree;

    fn tree(top: Arc<Self>) -> io::Result<Tree> {
        Tree::new(top)
    }

    fn subdir(&self, name: &[u8]) -> io::Result<Self> {
        Ok(Self::subdir(self, name)?.0)
    }

    fn close(&self, node: &Node, keep: Preserve) -> io::Result<()> {
        self.close_for_others(node, keep)
    }

    fn find(&self, name: &[u8]) -> io::Result<Option<Found<Identity>>> {
        let Some(there) = self.look(name)? else { return Ok(None) };
        let target = match there.is_symlink() {
            true => self.read_link(name).ok(),
            false => None,
        };
        let FileInfo { identity: id, size, device, .. } = there;
        let mtime = Time { seconds: there.mtime.0, nanos: there.mtime.1 };
        Ok(Some(Found { id, kind: there.file_kind(), size, mtime, device, target }))
    }

    fn file(&self, size: u64) -> io::Result<NewFile<'_>> {
        let new = self.begin()?;
        new.file.set_len(size)?;
        Ok(new)
    }

    fn special(&self, name: &[u8], what: &NewKind) -> io::Result<(Item, Identity)> {
        let made = match what {
            NewKind::Symlink(target) => self.symlink(name, target)?,
            _ => Self::special(self, name, what)?,
        };
        let id = made.look()?.identity;
        Ok((made, id))
    }

    fn item(&self, name: &[u8]) -> io::Result<(Item, Identity)> {
        let item = Self::item(self, name)?;
        let id = item.look()?.identity;
        Ok((item, id))
    }

    fn link(&self, name: &[u8], item: &Item) -> io::Result<Linked> {
        match Self::link(self, name, item) {
            Ok(()) => Ok(Linked::Made),
            Err(e) if is_no_link(&e) => Ok(Linked::Unsupported(e)),
            Err(e) => Err(e),
        }
    }

    fn remove(&self, name: &[u8], seen: Identity) -> io::Result<()> {
        Self::remove(self, name, seen)
    }

    fn refuses_name(e: &io::Error) -> bool {
        names::is_refused(e)
    }
}

/// Whether the target has no hard links, or no more of them.
fn is_no_link(e: &io::Error) -> bool {
    let none = [Errno::XDEV, Errno::MLINK, Errno::PERM, Errno::OPNOTSUPP];
    Errno::from_io_error(e).is_some_and(|e| none.contains(&e))
}

impl extract::TargetFile for NewFile<'_> {
    type Id = Identity;

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn finish(self, name: &[u8], replaced: Option<Identity>) -> io::Result<Identity> {
        Self::finish(self, name, replaced)
    }
}

impl extract::Tree for Tree {
    type Sink = Dir;

    fn make(&mut self, above: usize, name: &[u8]) -> io::Result<(usize, bool)> {
        Self::make(self, above, name)
    }

    fn dir(&mut self, at: usize) -> io::Result<Arc<Dir>> {
        Self::dir(self, at)
    }

    fn path(&self, at: usize) -> Vec<u8> {
        Self::path(self, at)
    }
}
