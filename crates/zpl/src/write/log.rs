//! Records changes in the intent log, and makes them durable when a caller requests it.
//!
//! A change that succeeded is completed with the decisions made in it (the number of a new file,
//! its group, where data went) and recorded while its locks are held, so that changes of one file
//! are in the log in the order in which they were made. `zil::IntentLog` has the rest.
//!
//! A change that no record can describe, or that only newer implementations could replay, is
//! recorded as such, and a promise then waits for the txg: files that got their name after their
//! content, extended attributes that are set to nothing, new sizes of volumes, owners with a
//! domain.

use super::attrs::Attrs;
use crate::error::{Error, Result};
use crate::fs::{Filesystem, Inner};
use crate::op::{Create, Data, Identity, NewFile, Op, SetAttrs, VolumeOp};
use crate::records::{Encoder, volume_record};
use crate::volume::{VOLUME_DATA, Volume};
use dmu::{EarlyWrite, Hold, Object, Objset, Tx};
use ondisk::Endian;
use ondisk::fuid::Fuid;
use std::sync::{Arc, Weak};
use zil::{Change, EarlyBlock, FetchData, IntentLog, LoggedChange, SyncMode, SyncScope};

/// The scope of a sync that waits for names alone: no file is object 0.
const NAMES: u64 = 0;

/// Data of the files of a file system.
struct FileData(Weak<Inner>);

impl FetchData for FileData {
    fn fetch(&self, object: u64, offset: u64, into: &mut [u8]) -> usize {
        let Some(inner) = self.0.upgrade() else { return 0 };
        let fs = Filesystem::of(inner);
        // No write is half done meanwhile.
        let _content = fs.inner.state.content.exclusive(object);
        let Ok(file) = Attrs::load(&fs, object) else { return 0 };
        // Of all that is known of a file only its end matters here.
        let length = into
            .len()
            .min(usize::try_from(file.size().saturating_sub(offset)).unwrap_or(usize::MAX));
        let into = &mut into[..length];
        file.object().read_at(offset, into).map_or(0, |()| length)
    }

    fn block_size(&self, object: u64) -> u64 {
        let Some(inner) = self.0.upgrade() else { return 0 };
        block_size(&Filesystem::of(inner).objset().object(object))
    }

    fn write_early(&self, object: u64, blkid: u64, what_for: EarlyWrite) -> EarlyBlock {
        let fs = Filesystem::of(self.0.upgrade()?);
        let tx = fs.objset().begin(NO_SPACE).ok()?;
        // No write is half done meanwhile.
        let _content = fs.inner.state.content.exclusive(object);
        fs.objset().object(object).ok()?.write_early(&tx, blkid, what_for).ok()?
    }
}

/// The space of a block for a log's record is reserved when it is written.
const NO_SPACE: Hold = Hold { bytes: 0, space: dmu::SpaceUse::Always };

/// Bytes of the object's blocks, when they are a power of two.
fn block_size(object: &dmu::Result<Object>) -> u64 {
    let size = object.as_ref().map_or(0, |object| object.dnode().block_size());
    if size.is_power_of_two() { size } else { 0 }
}

/// Data of a volume.
struct VolumeData(Objset);

impl FetchData for VolumeData {
    fn fetch(&self, _: u64, offset: u64, into: &mut [u8]) -> usize {
        let Ok(volume) = Volume::open(&self.0) else { return 0 };
        volume.read_at(offset, into).unwrap_or(0)
    }

    fn block_size(&self, object: u64) -> u64 {
        block_size(&self.0.object(object))
    }

    fn write_early(&self, object: u64, blkid: u64, what_for: EarlyWrite) -> EarlyBlock {
        let tx = self.0.begin(NO_SPACE).ok()?;
        self.0.object(object).ok()?.write_early(&tx, blkid, what_for).ok()?
    }
}

fn stopped(objset: &Objset, why: String) -> Error {
    let kind = dmu::ErrorKind::Stopped(why);
    Error::Dmu(dmu::Error { objset: objset.id(), object: 0, kind })
}

/// Waits for the txg that is open: what is done where there is no log.
fn wait_for_txg(objset: &Objset) -> Result<()> {
    let txg = objset.begin(NO_SPACE)?.txg();
    Ok(objset.wait_synced(txg)?)
}

impl Op<'_> {
    fn about(&self) -> SyncScope {
        match self {
            Self::Write { file, .. }
            | Self::Append { file, .. }
            | Self::Extend { file, .. }
            | Self::Truncate { file, .. }
            | Self::Punch { file, .. }
            | Self::Clone { file, .. }
            | Self::SetAttrs { file, .. }
            | Self::SetAcl { file, .. }
            | Self::SetXattr { file, .. }
            | Self::RemoveXattr { file, .. } => SyncScope::Object(*file),
            _ => SyncScope::Names,
        }
    }
}

impl Filesystem {
    /// Notes changes in `log` from now on. Only the first call counts.
    pub fn log_to(&self, log: &Arc<IntentLog>) {
        if self.inner.state.log.set(Arc::clone(log)).is_ok() {
            log.set_data(Arc::new(FileData(Arc::downgrade(&self.inner))));
        }
    }

    pub(super) fn log(&self) -> Option<&Arc<IntentLog>> {
        self.inner.state.log.get()
    }

    /// Waits until what was changed of a file before the call, and all changes of names, survive
    /// whatever happens. The caller holds no transaction.
    ///
    /// # Errors
    /// The pool has stopped; its devices fail.
    pub fn sync(&self, file: u64) -> Result<()> {
        self.promise(Some(file))
    }

    /// The same for all files.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn sync_all(&self) -> Result<()> {
        self.promise(None)
    }

    /// [`Self::sync`] of one file, or of all, without a thread that waits: `then` is called when it
    /// is so, and must not wait itself.
    pub fn sync_then(&self, file: Option<u64>, then: impl FnOnce(Result<()>) + Send + 'static) {
        match self.log() {
            Some(log) => {
                let objset = self.objset().clone();
                log.commit_then(file, move |done| then(done.map_err(|why| stopped(&objset, why))));
            }
            None => then(wait_for_txg(self.objset())),
        }
    }

    fn promise(&self, file: Option<u64>) -> Result<()> {
        match self.log() {
            Some(log) => log.commit(file).map_err(|why| stopped(self.objset(), why)),
            None => wait_for_txg(self.objset()),
        }
    }

    /// Makes an operation durable that was carried out in a transaction of its own, if that is
    /// required of all (`sync=always`).
    pub(super) fn promise_always(&self, op: &Op<'_>) -> Result<()> {
        if self.log().is_none_or(|log| log.mode() != SyncMode::Always) {
            return Ok(());
        }
        self.promise(Some(match op.about() {
            SyncScope::Object(file) => file,
            SyncScope::Names => NAMES,
        }))
    }

    /// Records an operation that was carried out. Changes of the files `after` have to be repeated
    /// before it, the files `gone` are no more.
    pub(super) fn note(&self, tx: &Tx, op: &Op<'_>, after: &[u64], gone: &[u64]) {
        let Some(log) = self.log() else { return };
        let what = match op {
            Op::Write { file, offset, data: Data::Bytes(bytes) } => {
                LoggedChange::Data { object: *file, offset: *offset, length: bytes.len() as u64 }
            }
            Op::SetAttrs { set, .. } if has_domain(set) => LoggedChange::Unloggable,
            _ => {
                let encoder = Encoder { fuids: self.fuids(), endian: Endian::Little };
                let record = encoder.record(op, tx.txg(), 0);
                record.map_or(LoggedChange::Unloggable, |record| {
                    LoggedChange::Record(Box::new(record))
                })
            }
        };
        log.add(Change { txg: tx.txg(), about: op.about(), logged: what, after, gone });
    }

    /// Records a change of an extended attribute: what became of it in the directory, where its
    /// file was removed or others were `made`, and in the list. A replay here takes an attribute
    /// that is put into the list out of the directory by itself, OpenZFS's does not: so the removal
    /// comes first. A record of the list cannot set an attribute to nothing, for that would remove
    /// it. `made`, if it is `None`: something that cannot be told.
    pub(super) fn note_xattr(
        &self,
        tx: &Tx,
        file: u64,
        (unlinked, listed): (Option<Op<'_>>, Option<Op<'_>>),
        made: Option<Vec<Op<'_>>>,
    ) {
        let Some(log) = self.log() else { return };
        let is_empty = matches!(listed, Some(Op::SetXattr { value: [], .. }));
        // The first that is asked for has none, so it is asked whenever one is needed.
        let has_record = listed.is_none() || log.has_xattr_records();
        // A replay of the list's record would remove both.
        let is_twice = unlinked.is_some() && matches!(listed, Some(Op::RemoveXattr { .. }));
        let about = SyncScope::Object(file);
        let Some(made) = made.filter(|_| has_record && !is_empty && !is_twice) else {
            return self.note_unloggable(tx, about, &[]);
        };
        let ops: Vec<Op<'_>> = unlinked.into_iter().chain(listed).chain(made).collect();
        if let [op @ (Op::SetXattr { .. } | Op::RemoveXattr { .. })] = &ops[..] {
            return self.note(tx, op, &[], &[]);
        }
        // A file without a name is not there in a replay, or not any more.
        if !Attrs::load(self, file).is_ok_and(|file| file.links() > 0) {
            return self.note_unloggable(tx, about, &[]);
        }
        let encoder = Encoder { fuids: self.fuids(), endian: Endian::Little };
        let records = ops.iter().map(|op| encoder.record(op, tx.txg(), 0)).collect();
        let Some(records) = records else { return self.note_unloggable(tx, about, &[]) };
        // Objects are made and freed, which is in the order of the names.
        let (about, logged) = (SyncScope::Names, LoggedChange::Together(records));
        log.add(Change { txg: tx.txg(), about, logged, after: &[file], gone: &[] });
    }

    /// What a log says of an object that was made in `tx`. `None`: it cannot be read.
    pub(super) fn identity_of(&self, tx: &Tx, number: u64) -> Option<Identity> {
        let object = self.objset().object(number).ok()?;
        let slots = object.dnode().extra_slots + 1;
        Some(Identity { object: number, slots, generation: tx.txg() })
    }

    /// Notes a change that no operation says.
    pub(super) fn note_unloggable(&self, tx: &Tx, about: SyncScope, gone: &[u64]) {
        if let Some(log) = self.log() {
            log.add(Change {
                txg: tx.txg(),
                about,
                logged: LoggedChange::Unloggable,
                after: &[],
                gone,
            });
        }
    }

    /// Notes that `number` was made, of the group `gid`.
    pub(super) fn note_create(&self, tx: &Tx, c: &Create<'_>, number: u64, gid: u64) {
        if self.log().is_none() {
            return;
        }
        let Some(identity) = self.identity_of(tx, number) else {
            return self.note_unloggable(tx, SyncScope::Names, &[]);
        };
        let identity = Some(identity);
        let new = NewFile { gid, ..c.new.clone() };
        let made = Create { identity, new, ..c.clone() };
        self.note(tx, &Op::Create(Box::new(made)), &[], &[]);
    }

    /// Forgets what was noted of a file that is about to be freed.
    pub(super) fn forget_changes(&self, file: u64) {
        if let Some(log) = self.log() {
            log.forget(file);
        }
    }
}

/// Whether an owner is set that has a domain.
fn has_domain(set: &SetAttrs) -> bool {
    [set.uid, set.gid].into_iter().flatten().any(|id| Fuid(id).domain() != 0)
}

/// The file, when a name less is its end.
pub(super) fn if_gone(file: &Attrs) -> Option<u64> {
    (file.is_dir() || file.links() <= 1).then(|| file.number())
}

impl Volume {
    /// The same volume, noting changes in `log`.
    #[must_use]
    pub fn logging_to(self, log: &Arc<IntentLog>) -> Self {
        log.set_data(Arc::new(VolumeData(self.object().objset().clone())));
        self.with_log(Arc::clone(log))
    }

    /// Waits until all that was changed before the call survives whatever happens: what a disk does
    /// when it flushes its cache. The caller holds no transaction.
    ///
    /// # Errors
    /// The pool has stopped; its devices fail.
    pub fn flush(&self) -> Result<()> {
        let objset = self.object().objset();
        match self.log() {
            Some(log) => log.commit(None).map_err(|why| stopped(objset, why)),
            None => wait_for_txg(objset),
        }
    }

    /// [`Self::flush`] without a thread that waits: `then` is called when it is so, and must not
    /// wait itself.
    pub fn flush_then(&self, then: impl FnOnce(Result<()>) + Send + 'static) {
        let objset = self.object().objset().clone();
        match self.log() {
            Some(log) => {
                log.commit_then(None, move |done| then(done.map_err(|why| stopped(&objset, why))));
            }
            None => then(wait_for_txg(&objset)),
        }
    }

    /// Makes earlier changes durable, if that is required of all (`sync=always`).
    pub(super) fn promise_always(&self) -> Result<()> {
        match self.log().is_some_and(|log| log.mode() == SyncMode::Always) {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Records an operation that was carried out; `None`: no record describes it.
    pub(super) fn note(&self, tx: &Tx, op: Option<&VolumeOp<'_>>) {
        let Some(log) = self.log() else { return };
        let what = match op {
            Some(VolumeOp::Write { offset, data: Data::Bytes(bytes) }) => LoggedChange::Data {
                object: VOLUME_DATA,
                offset: *offset,
                length: bytes.len() as u64,
            },
            Some(op) => LoggedChange::Record(Box::new(volume_record(op, tx.txg(), 0))),
            None => LoggedChange::Unloggable,
        };
        let about = SyncScope::Object(VOLUME_DATA);
        log.add(Change { txg: tx.txg(), about, logged: what, after: &[], gone: &[] });
    }
}
