//! Changes that fail half way are taken back.
//!
//! A change reads and checks first. What it is about to change it shows to an [`Undo`], which puts
//! that back when a later step fails: attributes, names, and objects that were made. What cannot be
//! taken back, freeing an object, is the last step, and either happens or does not.

use super::attrs::Attrs;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use dmu::{Tx, zap};
use ondisk::znode::Dirent;

/// Where a name of a directory led.
struct Name {
    dir: u64,
    name: Vec<u8>,
    was: Option<Dirent>,
}

/// What is put back when a change fails.
pub(super) struct Undo<'a> {
    fs: &'a Filesystem,
    tx: &'a Tx,
    attrs: Vec<Attrs>,
    names: Vec<Name>,
    made: Vec<u64>,
}

impl<'a> Undo<'a> {
    pub(super) fn new(fs: &'a Filesystem, tx: &'a Tx) -> Self {
        Self { fs, tx, attrs: Vec::new(), names: Vec::new(), made: Vec::new() }
    }

    /// The attributes of a file that will change, as they are.
    pub(super) fn attrs(&mut self, file: &Attrs) {
        self.attrs.push(file.clone());
    }

    /// A name that will change or go, and what it leads to; or one that will come.
    pub(super) fn name(&mut self, dir: u64, name: &[u8], was: Option<Dirent>) {
        self.names.push(Name { dir, name: name.to_vec(), was });
    }

    /// An object that was made for the change.
    pub(super) fn made(&mut self, object: u64) {
        self.made.push(object);
    }

    /// Ends the change: when it failed, everything is as it was before.
    ///
    /// # Errors
    /// The change's own; or why something could not be put back.
    pub(super) fn end<T>(self, done: Result<T>) -> Result<T> {
        match done {
            Ok(value) => Ok(value),
            Err(e) => Err(self.take_back(e)),
        }
    }

    fn take_back(self, error: Error) -> Error {
        let Self { fs, tx, attrs, names, made } = self;
        let is_made = |object: u64| made.contains(&object);
        let put = || -> Result<()> {
            for Name { dir, name, was } in names.iter().filter(|n| !is_made(n.dir)) {
                let table = fs.dir_object(*dir)?;
                let now = fs.find(&table, name)?;
                match (now, was) {
                    (Some(entry), Some(was)) if entry.object == was.object => {}
                    (Some(entry), None) => drop(zap::remove(&table, tx, entry.name.as_slice())?),
                    (_, Some(was)) => zap::set_u64(&table, tx, name.as_slice(), was.encode())?,
                    (None, None) => {}
                }
            }
            for file in attrs {
                file.restore(fs, tx)?;
            }
            for object in &made {
                fs.objset().free(tx, *object)?;
            }
            Ok(())
        };
        put().err().unwrap_or(error)
    }
}
