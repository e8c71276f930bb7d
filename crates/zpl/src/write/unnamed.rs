//! Files that are made before they have a name.
//!
//! Such a file has no links and is in the delete queue (`open.rs`), like one that lost its last
//! name while it was in use. It gets its name in the transaction that completes it. So a name
//! always refers to a whole file: whatever ends the work before that, a crash included, leaves a
//! file that the next opening of the file system frees.

use super::attrs::Attrs;
use super::create::Parent;
use super::log::if_gone;
use super::names::Count;
use super::open::OpenFile;
use super::remove::dirent;
use super::undo::Undo;
use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{NewFile, NewKind, SetAttrs};
use crate::refusal::InvalidRequest;
use crate::state::locks::Mode;
use dmu::{Tx, zap};
use ondisk::sa::zpl;
use ondisk::znode::Time;
use zil::SyncScope;

impl Filesystem {
    /// Makes a file that has no name yet and will have one in the directory `dir`, as far as that
    /// decides about its group and project. It goes when the value is dropped, unless
    /// [`Self::give_name`] named it.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory` about `dir`; a directory is to be made; no space.
    pub fn create_unnamed(&self, dir: u64, new: &NewFile) -> Result<OpenFile> {
        self.with_small_tx(|tx| self.create_unnamed_tx(tx, dir, new))
    }

    /// [`Self::create_unnamed`] within a transaction. The value must not be dropped before it
    /// ended.
    pub fn create_unnamed_tx(&self, tx: &Tx, dir: u64, new: &NewFile) -> Result<OpenFile> {
        self.check_writable()?;
        if new.kind == NewKind::Dir {
            return Err(Error::refused(InvalidRequest::UnnamedDirectory));
        }
        new.kind.check()?;
        let number = {
            let _lock = self.inner.state.attrs.shared(dir);
            let parent = Attrs::load(self, dir)?;
            if !parent.is_dir() {
                return Err(Error::NotDirectory(format!("object {dir}")));
            }
            self.make(tx, new, &Parent::Dir(&parent))?
        };
        // From here on it is in use: emptying the queue does not free it.
        let open = self.use_unnamed(number);
        self.note_unloggable(tx, SyncScope::Object(number), &[]);
        match self.take_links(tx, number) {
            Ok(()) => Ok(open),
            Err(e) => {
                // To free it takes a transaction, and this one is not over.
                open.leave_queued();
                Err(e)
            }
        }
    }

    fn take_links(&self, tx: &Tx, number: u64) -> Result<()> {
        let _lock = self.inner.state.attrs.exclusive(number);
        let mut file = Attrs::load(self, number)?;
        file.set(zpl::LINKS, 0);
        file.save(self, tx)?;
        self.enqueue(tx, number)
    }

    /// Gives a file of [`Self::create_unnamed`] its attributes and its name, in one transaction.
    /// `over`: the file that has the name now and loses it; no lookup finds the name without a
    /// file.
    ///
    /// # Errors
    /// `Exists` when another file than `over` has the name; `IsDirectory`; flags that forbid it; a
    /// name that cannot be; no space.
    pub fn give_name(
        &self,
        file: u64,
        (dir, name): (u64, &[u8]),
        over: Option<u64>,
        set: &SetAttrs,
        now: Time,
    ) -> Result<()> {
        self.with_small_tx(|tx| {
            self.set_attrs_tx(tx, file, set, now)?;
            self.give_name_tx(tx, file, (dir, name), over, now)
        })
    }

    /// The name alone, within a transaction.
    pub fn give_name_tx(
        &self,
        tx: &Tx,
        file: u64,
        (dir, name): (u64, &[u8]),
        over: Option<u64>,
        now: Time,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_new_name(name)?;
        let mut locked = vec![file, dir];
        locked.extend(over);
        let _lock = self.inner.state.attrs.lock(&locked, Mode::Exclusive);
        let shown = || String::from_utf8_lossy(name).into_owned();
        let mut parent = self.load_dir(dir)?;
        let mut attrs = Attrs::load(self, file)?;
        if attrs.links() != 0 || !self.inner.state.opens.is_used(file) {
            return Err(Error::refused(InvalidRequest::HasName));
        }
        self.check_project(&parent, &attrs)?;
        let before = self.find(parent.object(), name)?;
        let (mut victim, mut gone) = (None, None);
        if let Some(entry) = &before {
            if over != Some(entry.object) {
                return Err(Error::Exists(shown()));
            }
            let file = Attrs::load(self, entry.object)?;
            if file.is_dir() {
                return Err(Error::IsDirectory(shown()));
            }
            self.check_removable(&file, entry)?;
            gone = if_gone(&file);
            victim = Some(file);
        }
        let mut undo = Undo::new(self, tx);
        undo.attrs(&parent);
        undo.attrs(&attrs);
        undo.name(dir, name, before.as_ref().map(dirent));
        let kind = attrs.mode();
        let names = parent.object().clone();
        attrs.set(zpl::LINKS, 1);
        attrs.set(zpl::PARENT, dir);
        attrs.state_changed(now);
        let count = if before.is_some() { Count::default() } else { Count::added(false) };
        self.count_entries(&mut parent, count, now);
        let done = (|| {
            if let Some(entry) = &before {
                zap::remove(&names, tx, entry.name.as_slice())?;
            }
            self.enter(tx, &names, name, file, kind)?;
            attrs.save(self, tx)?;
            parent.save(self, tx)?;
            self.dequeue(tx, file)?;
            let dropped = victim.map_or(Ok(()), |victim| self.drop_name(tx, victim, now));
            // Without its name it belongs into the queue again.
            dropped.or_else(|e| self.enqueue(tx, file).and(Err(e)))
        })();
        undo.end(done)?;
        self.note_unloggable(tx, SyncScope::Names, gone.as_slice());
        self.inner.state.opens.named(file);
        Ok(())
    }
}
