//! Second names of files: hard links.
//!
//! A second name is given only to what was made for the same object by this copy, or found whole
//! by it: the first name is opened again and must still stand for that very file. Where there is
//! none (another file stood in the way, the target has no hard links, it was changed meanwhile),
//! the second name gets a copy of its own.

use super::walk::Below;
use super::{Copier, Folder, Made, Room, is_copy, join, lock};
use crate::{Identity, Tree};
use engine::Cancelled;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

/// The first name of a file that has several.
pub(super) struct First {
    /// Number of its directory.
    pub(super) spot: usize,
    /// Its name there.
    pub(super) name: Vec<u8>,
    /// Which file it is.
    pub(super) identity: Identity,
}

/// What was found while files were copied.
#[derive(Default)]
pub(super) struct Links(Mutex<Found>);

#[derive(Default)]
struct Found {
    first: HashMap<u64, First>,
    later: Vec<Below>,
    /// Directories that the ones they are in take for files.
    directories: Vec<Below>,
}

impl Links {
    /// A file was made that has more names.
    pub(super) fn note_first(&self, object: u64, first: First) {
        lock(&self.0).first.insert(object, first);
    }

    /// A name of a file that was come across before.
    pub(super) fn note_second(&self, above: usize, name: Vec<u8>, object: u64) {
        lock(&self.0).later.push(Below { above, name, object });
    }

    /// A directory, found among files.
    pub(super) fn note_directory(&self, above: usize, name: Vec<u8>, object: u64) {
        lock(&self.0).directories.push(Below { above, name, object });
    }

    /// Directories that were found among files.
    pub(super) fn take_directories(&self) -> Vec<Below> {
        std::mem::take(&mut lock(&self.0).directories)
    }
}

impl Copier<'_> {
    /// Makes all second names.
    pub(super) fn second_names(
        &self,
        links: Links,
        tree: &mut Tree,
        made: &Made,
        prefix: &[u8],
    ) -> Result<(), Cancelled> {
        let Found { mut first, later, .. } =
            links.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for second in later {
            self.progress.check()?;
            let shown = join(prefix, &tree.path(second.above));
            let made = tree
                .dir(second.above)
                .map(|dir| Folder::new(dir, second.above, shown.clone(), made))
                .and_then(|folder| self.second_name(&second, &mut first, tree, &folder));
            if let Err(e) = made {
                let shown = join(&shown, &second.name);
                self.tell(&shown, second.object, &e);
            }
        }
        Ok(())
    }

    fn second_name(
        &self,
        second: &Below,
        known: &mut HashMap<u64, First>,
        tree: &mut Tree,
        folder: &Folder,
    ) -> io::Result<()> {
        let shown = join(&folder.shown, &second.name);
        let node = self.fs.node(second.object).map_err(io::Error::other)?;
        let item = known.get(&second.object).and_then(|first| {
            let item = tree.dir(first.spot).and_then(|dir| dir.item(&first.name)).ok()?;
            let is_it = item.look().is_ok_and(|look| look.identity == first.identity);
            is_it.then_some((item, first.identity))
        });
        if let Some((item, identity)) = item {
            let there = folder.dir.look(&second.name)?;
            if there.is_some_and(|there| there.identity == identity) {
                self.progress.add(1, 0);
                return Ok(());
            }
            match self.room(folder, &second.name, |there| is_copy(there, &node))? {
                Room::Free(Some(replaced)) => folder.dir.remove(&second.name, replaced)?,
                Room::Free(None) => {}
                Room::Whole(_) => {
                    let why = "a copy of its own is there";
                    self.sink.not_kept(&shown, "hard link", why);
                    return Ok(());
                }
            }
            match folder.dir.link(&second.name, &item) {
                Ok(()) => {
                    folder.note_made(identity);
                    self.progress.add(1, 0);
                    return Ok(());
                }
                Err(e) if is_no_link(&e) => {
                    self.sink.not_kept(&shown, "hard link", &e.to_string());
                }
                Err(e) => return Err(e),
            }
        }
        if let Some((identity, name)) = self.make(&node, folder, &second.name, &shown) {
            let first = First { spot: second.above, name, identity };
            known.insert(second.object, first);
        }
        Ok(())
    }
}

/// Whether the target has no hard links, or no more of them.
fn is_no_link(e: &io::Error) -> bool {
    let none = [Errno::XDEV, Errno::MLINK, Errno::PERM, Errno::OPNOTSUPP];
    Errno::from_io_error(e).is_some_and(|e| none.contains(&e))
}
