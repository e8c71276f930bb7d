//! Changes that fail half way are taken back.
//!
//! A change reads and checks first. Before it changes something it shows it to an [`Undo`], which
//! restores it when a later step fails: attributes, names, and objects that were made. A step that
//! cannot be undone, freeing an object, is the last, and either happens or does not.
//!
//! If restoring fails too, half a change would become durable. So it stops the pool before its txg
//! is written, as a sync task that failed partway does (decision 0013); the rest is restored all
//! the same, for readers.

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

/// The state to restore when a change fails.
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
    pub(super) fn record_created(&mut self, object: u64) {
        self.made.push(object);
    }

    /// Ends the change: when it failed, everything is as it was before.
    ///
    /// # Errors
    /// The change's own; or that the pool has stopped, because something could not be put back.
    pub(super) fn end<T>(self, done: Result<T>) -> Result<T> {
        match done {
            Ok(value) => Ok(value),
            Err(e) => Err(self.take_back(e)),
        }
    }

    fn take_back(self, error: Error) -> Error {
        let Self { fs, tx, attrs, names, made } = self;
        let is_made = |object: u64| made.contains(&object);
        let mut put = Ok(());
        let mut first = |done: Result<()>| {
            if put.is_ok() {
                put = done;
            }
        };
        names.iter().filter(|n| !is_made(n.dir)).for_each(|n| first(n.put_back(fs, tx)));
        attrs.into_iter().for_each(|file| first(file.restore(fs, tx)));
        made.iter().for_each(|object| first(fs.objset().free(tx, *object).map_err(Error::from)));
        taken_back(tx, error, put)
    }
}

impl Name {
    fn put_back(&self, fs: &Filesystem, tx: &Tx) -> Result<()> {
        let Self { dir, name, was } = self;
        let table = fs.dir_object(*dir)?;
        match (fs.find(&table, name)?, was) {
            (Some(entry), Some(was)) if entry.object == was.object => {}
            (Some(entry), None) => drop(zap::remove(&table, tx, entry.name.as_slice())?),
            (_, Some(was)) => zap::set_u64(&table, tx, name.as_slice(), was.encode())?,
            (None, None) => {}
        }
        Ok(())
    }
}

/// Why a change failed, after what it did was `put` back; where that failed the pool stops.
pub(super) fn taken_back(tx: &Tx, error: Error, put: Result<()>) -> Error {
    let Err(second) = put else { return error };
    let (objset, object) = match &error {
        Error::Dmu(e) => (e.objset, e.object),
        _ => (0, 0),
    };
    Error::Dmu(dmu::Error { objset, object, kind: tx.stop(&error, &second) })
}
