//! Intent logs, replayed: to be looked at, and by imports.
//!
//! # Theory
//!
//! Changes that were acknowledged to an application since the last txg are in the log only. An
//! import that may write repeats them; one that only reads cannot, and shows the state before. Here
//! each record becomes the operation it was made of ([`crate::Op`]), and the write path applies
//! that: for an import to the set itself, for a look to a set that is thrown away
//! ([`dmu::Objset::scratch`]). A reader of that set sees what the import would have made of the
//! pool, and not a byte is written.
//!
//! ```text
//! delete queue    files unlinked while open: gone, as a mount that may write empties the queue
//! records         in order; each finds what those before it made
//! a record fails  the rest is lost to a look, as OpenZFS does it; an import for writing refuses
//! settle          blocks of zeros become holes, space used follows; nothing changes any more
//! ```
//!
//! A record about the content or the attributes of an object that is no more is passed over:
//! such records can be logged after the removal. A record that fails changes nothing.
//!
//! The time of its changes is not known to a replay. OpenZFS takes the clock, so that files and
//! directories changed by it get the time of the import. Here the newest creation time in the log
//! so far is taken, which is close to when it was done, and the same at every look.
//!
//! Records are bytes from disk. Each is bounded by the block it is in; its cost in memory is not (a
//! record of one byte can change a block of 16 MiB), so that is counted and capped.

pub use crate::records::{Refusal, ReplayStop};

use crate::error::{Error, Result};
use crate::fs::Filesystem;
use crate::op::{Data, VolumeOp};
use crate::records::{Decoder, time_of, volume_op};
use crate::state::settings::FsSettings;
use crate::volume::Volume;
use dmu::{Hold, Objset, ScratchSpec};
use ondisk::zil::Record;
use ondisk::znode::{Time, master};
use ondisk::{Endian, ObjsetKind};
use zil::{Log, LogEnd};

/// Before every time.
const LONG_AGO: Time = Time { seconds: i64::MIN, nanos: 0 };
/// Bytes that an operation of a volume makes dirty beside its data, at most but for odd cases.
const HOLD_TREE: u64 = 256 << 10;

/// Settings of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The pool's last synced txg.
    pub synced: u64,
    /// Property `recordsize` of the dataset: the block size files grow to.
    pub record_size: u64,
    /// Property `compression` is not `off`: a block of zeros becomes a hole.
    pub zeros_are_holes: bool,
    /// Most bytes of content that are held in memory.
    pub memory_max: u64,
}

impl Settings {
    /// The defaults of OpenZFS's properties, and 4 GiB: more than it lets be dirty at once.
    #[must_use]
    pub fn new(synced: u64) -> Self {
        Self { synced, record_size: 128 << 10, zeros_are_holes: true, memory_max: 4 << 30 }
    }

    /// The set that is changed in the place of `objset`.
    fn scratch(&self, objset: &Objset) -> Result<Objset> {
        let (txg, memory_max) = (self.synced.saturating_add(1), self.memory_max);
        Ok(objset.scratch(ScratchSpec { txg, memory_max })?)
    }
}

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Records applied.
    pub applied: u64,
    /// Records about objects that are no more.
    pub passed_over: u64,
    /// Files of the delete queue that are gone.
    pub released: u64,
    /// The record that could not be applied; it and what follows it is not in the file system.
    pub stopped: Option<ReplayStop>,
    /// Why the log ends where it does.
    pub log_end: LogEnd,
}

impl ReplayReport {
    /// Describes the lost part of the log, if there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if let Some(stop) = &self.stopped {
            return Some(format!("{stop}; the rest of the log is not replayed"));
        }
        match &self.log_end {
            LogEnd::Lost(e) => Some(format!("a block of the intent log is lost: {e}")),
            LogEnd::Damaged(e) => Some(format!("a block of the intent log is damaged: {e}")),
            LogEnd::Locked => Some("the intent log is encrypted and no key is loaded".to_owned()),
            LogEnd::Empty | LogEnd::Unwritten | LogEnd::Claimed => None,
        }
    }
}

/// Something records are applied to. `done` is called with the txg, within its transaction.
trait Target {
    fn apply(
        &mut self,
        record: &Record,
        endian: Endian,
        done: &dyn Fn(u64),
    ) -> std::result::Result<(), Refusal>;
}

/// How a log is replayed into a pool.
pub struct IntoPool<'a> {
    /// How files are made.
    pub settings: FsSettings,
    /// Is given the file system before anything is changed in it.
    pub opened: &'a dyn Fn(&Filesystem),
    /// Called for each record with the txg in which it was repeated, within the transaction: when
    /// that txg is durable the record must not be repeated again.
    pub done: &'a dyn Fn(u64, u64),
}

/// Replays a log, as it was claimed, into the live object set of a file system or volume.
///
/// # Errors
/// As [`filesystem`]. After a record that cannot be applied nothing more is; what was before it
/// stays.
pub fn into_pool(objset: &Objset, log: &Log, how: &IntoPool<'_>) -> Result<ReplayReport> {
    let mut released = 0;
    let mut target: Box<dyn Target> = if objset.phys().kind == ObjsetKind::Zvol {
        Box::new(VolumeReplay { volume: Volume::open(objset)? })
    } else {
        let fs = Filesystem::open_to_replay(objset.clone())?;
        // What a log has was promised, whatever the property says by now.
        fs.configure(FsSettings { read_only: false, ..how.settings })?;
        (how.opened)(&fs);
        if fs.master()?.get_u64(master::DELETE_QUEUE)?.is_some() {
            released = fs.drain_unlinked()?;
        }
        let now = log.pending(0).find_map(time_of).unwrap_or(LONG_AGO);
        Box::new(FileReplay { fs, now })
    };
    Ok(repeat(objset, log, (0, released), &mut *target, how.done)?)
}

/// Replays the log of the file system in `objset`, the live one and no snapshot.
///
/// # Errors
/// When it is not a file system, or what every replay needs of it cannot be read. A record that
/// cannot be applied is not an error: see [`ReplayReport::stopped`].
pub fn filesystem(objset: &Objset, settings: &Settings) -> Result<(Objset, ReplayReport)> {
    filesystem_log(objset, settings, &Log::read_after(objset, settings.synced))
}

/// Like [`filesystem`], with the log already read, or with another one.
///
/// # Errors
/// As [`filesystem`].
pub fn filesystem_log(
    objset: &Objset,
    settings: &Settings,
    log: &Log,
) -> Result<(Objset, ReplayReport)> {
    let scratch = settings.scratch(objset)?;
    let fs = Filesystem::open_to_replay(scratch.clone())?;
    if let Ok(record_size) = u32::try_from(settings.record_size) {
        fs.configure(FsSettings { record_size, ..FsSettings::default() })?;
    }
    let released = match fs.master()?.get_u64(master::DELETE_QUEUE)? {
        Some(_) => fs.drain_unlinked()?,
        None => 0,
    };
    let now = log.pending(settings.synced).find_map(time_of).unwrap_or(LONG_AGO);
    let mut target = FileReplay { fs, now };
    Ok(replay(scratch, settings, log, released, &mut target)?)
}

/// Replays the log of the volume in `objset`, the live one and no snapshot.
///
/// # Errors
/// As [`filesystem`].
pub fn volume(objset: &Objset, settings: &Settings) -> Result<(Objset, ReplayReport)> {
    volume_log(objset, settings, &Log::read_after(objset, settings.synced))
}

/// Like [`volume`], with the log already read, or with another one.
///
/// # Errors
/// As [`filesystem`].
pub fn volume_log(
    objset: &Objset,
    settings: &Settings,
    log: &Log,
) -> Result<(Objset, ReplayReport)> {
    if objset.phys().kind != ObjsetKind::Zvol {
        return Err(Error::WrongKind { wanted: "volume" });
    }
    let scratch = settings.scratch(objset)?;
    let mut target = VolumeReplay { volume: Volume::open(&scratch)? };
    Ok(replay(scratch, settings, log, 0, &mut target)?)
}

fn replay(
    scratch: Objset,
    settings: &Settings,
    log: &Log,
    released: u64,
    target: &mut dyn Target,
) -> dmu::Result<(Objset, ReplayReport)> {
    let report = repeat(&scratch, log, (settings.synced, released), target, &|_, _| {})?;
    scratch.settle(settings.zeros_are_holes)?;
    Ok((scratch, report))
}

/// Applies the records of a log to an object set whose pool was synced up to `synced`.
fn repeat(
    objset: &Objset,
    log: &Log,
    (synced, released): (u64, u64),
    target: &mut dyn Target,
    done: &dyn Fn(u64, u64),
) -> dmu::Result<ReplayReport> {
    let log_end = log.end.clone();
    let mut report = ReplayReport { applied: 0, passed_over: 0, released, stopped: None, log_end };
    for (record, endian) in log.pending_with_endian(synced) {
        let done = match is_about_nothing(objset, record) {
            Ok(true) => {
                report.passed_over += 1;
                continue;
            }
            Ok(false) => target.apply(record, endian, &|txg| done(txg, record.seq)),
            Err(e) => Err(e.into()),
        };
        if let Err(why) = done {
            report.stopped = Some(ReplayStop { seq: record.seq, kind: record.kind, why });
            break;
        }
        report.applied += 1;
    }
    Ok(report)
}

/// Whether a record is about a file that is no more.
fn is_about_nothing(objset: &Objset, record: &Record) -> dmu::Result<bool> {
    let Some(object) = record.object() else { return Ok(false) };
    match objset.object(object) {
        Ok(_) => Ok(false),
        Err(e) if matches!(e.kind, dmu::ErrorKind::NoObject) => Ok(true),
        Err(e) => Err(e),
    }
}

/// Applies records to a file system.
struct FileReplay {
    fs: Filesystem,
    /// When the record is thought to be applied; see [`self`].
    now: Time,
}

impl Target for FileReplay {
    fn apply(
        &mut self,
        record: &Record,
        endian: Endian,
        done: &dyn Fn(u64),
    ) -> std::result::Result<(), Refusal> {
        self.now = time_of(record).map_or(self.now, |t| t.max(self.now));
        let op = Decoder { fuids: self.fs.fuids(), now: self.now, endian }.op(record)?;
        self.fs.with_tx(op.hold(), |tx| {
            self.fs.apply(tx, &op, self.now)?;
            done(tx.txg());
            Ok(())
        })?;
        Ok(())
    }
}

/// Applies records to a volume.
struct VolumeReplay {
    volume: Volume,
}

impl Target for VolumeReplay {
    fn apply(
        &mut self,
        record: &Record,
        _endian: Endian,
        done: &dyn Fn(u64),
    ) -> std::result::Result<(), Refusal> {
        let Some(op) = volume_op(record, self.volume.size())? else { return Ok(()) };
        let data = match &op {
            VolumeOp::Write { data: Data::Bytes(data), .. } => data.len() as u64,
            _ => self.volume.block_size(),
        };
        let tx =
            self.volume.object().objset().begin(Hold::write(data.saturating_add(HOLD_TREE)))?;
        self.volume.apply(&tx, &op)?;
        done(tx.txg());
        Ok(())
    }
}
