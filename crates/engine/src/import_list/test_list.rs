//! A list of imported pools that is kept in memory, and can fail.

use super::{ImportConflict, ImportEntry, ImportList};
use crate::error::{Error, ErrorKind, Result};
use crate::faults::ImportRefusal;
use pool::Candidate;
use pool::live::LivePool;
use std::any::Any;
use std::cell::{Cell, RefCell};

/// A list, and what was called.
#[derive(Default)]
pub(crate) struct List {
    pub conflict: Cell<Option<ImportConflict>>,
    /// Another pool has the name of the new one.
    pub is_named: bool,
    /// Another program takes the name while the pool is opened.
    pub is_overtaken: bool,
    pub is_read_only: bool,
    pub cannot_add: bool,
    pub calls: RefCell<Vec<&'static str>>,
    pub entries: RefCell<Vec<ImportEntry>>,
}

impl List {
    fn note(&self, what: &'static str) {
        self.calls.borrow_mut().push(what);
    }

    fn unlisted() -> Error {
        Error::new(ErrorKind::NotImported(ImportRefusal::NotListed))
    }
}

impl ImportList for List {
    fn conflict(&self, _: &Candidate, _: &str) -> Option<ImportConflict> {
        self.note("conflict");
        self.conflict.get()
    }

    fn is_named(&self, _: &str) -> bool {
        self.note("named");
        self.is_named
    }

    fn check_writable(&self) -> Result<()> {
        self.note("writable");
        if self.is_read_only { Err(Self::unlisted()) } else { Ok(()) }
    }

    fn hold(&self) -> Box<dyn Any> {
        self.note("hold");
        if self.is_overtaken {
            self.conflict.set(Some(ImportConflict::NameTaken));
        }
        Box::new(())
    }

    fn add(&self, entry: &ImportEntry) -> Result<()> {
        self.note("add");
        if self.cannot_add {
            return Err(Self::unlisted());
        }
        self.entries.borrow_mut().push(entry.clone());
        Ok(())
    }

    fn remove(&self, guid: u64) {
        self.note("remove");
        self.entries.borrow_mut().retain(|entry| entry.guid != guid);
    }

    fn refresh(&self, _: &LivePool) {
        self.note("refresh");
    }
}
