//! Second names of files: hard links.
//!
//! A second name is only given to a file that this copy made for the same object, or found
//! complete: the first name is opened again and must still refer to that very file. Otherwise
//! (another file was in the way, the target has no hard links, it was changed meanwhile) the second
//! name gets a copy of its own.

use super::failure::Failure;
use super::file::{NameState, is_copy};
use super::walk::PendingDir;
use super::{Extract, Folder, Linked, MadeHere, Sink, Tree as _, join, lock};
use crate::Cancelled;
use std::collections::HashMap;
use std::sync::Mutex;

/// The first name of a file that has several.
pub(super) struct FirstName<I> {
    /// Number of its directory.
    pub(super) dir: usize,
    /// Its name there.
    pub(super) name: Vec<u8>,
    /// Which file it is.
    pub(super) id: I,
}

/// Hard links found while files were copied.
pub(super) struct Links<I>(Mutex<Names<I>>);

struct Names<I> {
    first: HashMap<u64, FirstName<I>>,
    later: Vec<PendingDir>,
    /// Directories that the ones they are in take for files.
    directories: Vec<PendingDir>,
}

impl<I> Links<I> {
    pub(super) fn new() -> Self {
        let (later, directories) = (Vec::new(), Vec::new());
        Self(Mutex::new(Names { first: HashMap::new(), later, directories }))
    }

    /// A file was made that has more names.
    pub(super) fn note_first(&self, object: u64, first: FirstName<I>) {
        lock(&self.0).first.insert(object, first);
    }

    /// A name of a file that was come across before.
    pub(super) fn note_later_name(&self, above: usize, name: Vec<u8>, object: u64) {
        lock(&self.0).later.push(PendingDir { above, name, object });
    }

    /// A directory, found among files.
    pub(super) fn note_directory(&self, above: usize, name: Vec<u8>, object: u64) {
        lock(&self.0).directories.push(PendingDir { above, name, object });
    }

    /// Directories that were found among files.
    pub(super) fn take_directories(&self) -> Vec<PendingDir> {
        std::mem::take(&mut lock(&self.0).directories)
    }
}

impl Extract<'_> {
    /// Makes all second names.
    pub(super) fn second_names<S: Sink>(
        &self,
        links: Links<S::Id>,
        tree: &mut S::Tree,
        made: &MadeHere<S::Id>,
        prefix: &[u8],
    ) -> Result<(), Cancelled> {
        let Names { mut first, later, .. } =
            links.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for second in later {
            self.progress.check()?;
            let shown = join(prefix, &tree.path(second.above));
            let made = tree.dir(second.above).map_err(Failure::from).and_then(|dir| {
                let folder = Folder::new(dir, second.above, shown.clone(), made);
                self.second_name(&second, &mut first, tree, &folder)
            });
            if let Err(e) = made {
                self.report(&join(&shown, &second.name), second.object, e);
            }
        }
        Ok(())
    }

    fn second_name<S: Sink>(
        &self,
        second: &PendingDir,
        known: &mut HashMap<u64, FirstName<S::Id>>,
        tree: &mut S::Tree,
        folder: &Folder<S>,
    ) -> Result<(), Failure> {
        let shown = join(&folder.shown, &second.name);
        let node = self.fs.node(second.object)?;
        let item = known.get(&second.object).and_then(|first| {
            let (item, id) = tree.dir(first.dir).and_then(|dir| dir.item(&first.name)).ok()?;
            (id == first.id).then_some((item, id))
        });
        if let Some((item, id)) = item {
            let there = folder.dir.find(&second.name)?;
            if there.is_some_and(|there| there.id == id) {
                self.progress.add(1, 0);
                return Ok(());
            }
            match self.room(folder, &second.name, |there| is_copy(there, &node))? {
                NameState::Free(Some(replaced)) => folder.dir.remove(&second.name, replaced)?,
                NameState::Free(None) => {}
                NameState::Whole(_) => {
                    let why = "copied as a separate file";
                    self.observer.not_kept(&shown, "hard link", why);
                    return Ok(());
                }
            }
            match folder.dir.link(&second.name, &item)? {
                Linked::Made => {
                    folder.note_made(id);
                    self.progress.add(1, 0);
                    return Ok(());
                }
                Linked::Unsupported(e) => {
                    self.observer.not_kept(&shown, "hard link", &e.to_string());
                }
            }
        }
        if let Some((id, name)) = self.make(&node, folder, &second.name, &shown) {
            known.insert(second.object, FirstName { dir: second.above, name, id });
        }
        Ok(())
    }
}
