//! The intent log of a file system or volume, replayed into memory.
//!
//! # Theory
//!
//! What was promised to an application since the last txg stands in the log only. An import that
//! may write repeats it; one that only reads cannot, and shows the state before. Here the records
//! are applied to an [`Overlay`] instead: the object set seen through it is what the import would
//! have made of it, and not a byte is written.
//!
//! ```text
//! delete queue    files unlinked while open: gone, as a mount that may write empties the queue
//! records         in order; each reads the state that those before it made
//! a record fails  the rest of the log is lost, as OpenZFS does it: later records may rest on it
//! ```
//!
//! A record about the content or the attributes of an object that is no more is passed over:
//! such records can be logged after the removal. A record that fails changes nothing: the log is
//! then replayed again up to it.
//!
//! What a replay cannot know: the time of what it does. OpenZFS takes the clock, so that files
//! and directories changed by it get the time of the import. Here the newest creation time in the
//! log so far is taken, which is close to when it was done, and the same at every look.
//!
//! Records are bytes from disk. Each is bounded by the block it stands in; what it costs in memory
//! is not (a record of one byte can change a block of 16 MiB), so that is counted and capped.

mod acl;
mod attrs;
mod data;
mod links;
mod meta;
mod nodes;
mod refusal;
mod state;

pub use refusal::{Refusal, Stop};

use crate::error::{Error, Result};
use dmu::{Objset, Overlay};
use nodes::FileReplay;
use ondisk::zil::{Body, Record};
use ondisk::{Endian, ObjsetKind};
use state::State;
use std::sync::Arc;
use zil::{Log, LogEnd};

/// Object of a volume's data.
const VOLUME_DATA: u64 = 1;

/// What a replay has to be told.
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
}

/// What a replay did.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// Records applied.
    pub applied: u64,
    /// Records about objects that are no more.
    pub passed_over: u64,
    /// Files of the delete queue that are gone.
    pub released: u64,
    /// The record that could not be applied; it and what follows it is lost.
    pub stopped: Option<Stop>,
    /// Why the log ends where it does.
    pub log_end: LogEnd,
}

impl ReplayReport {
    /// What was lost of the log, in words, if anything was.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if let Some(stop) = &self.stopped {
            return Some(format!("{stop}; the rest of the log is lost"));
        }
        match &self.log_end {
            LogEnd::Lost(e) => Some(format!("a block of the intent log is lost: {e}")),
            LogEnd::Damaged(e) => Some(format!("a block of the intent log is damaged: {e}")),
            LogEnd::Locked => Some("the intent log is encrypted and no key is loaded".to_owned()),
            LogEnd::Empty | LogEnd::Unwritten | LogEnd::Claimed => None,
        }
    }
}

/// Something records are applied to.
trait Target {
    fn apply(&mut self, record: &Record, endian: Endian) -> std::result::Result<(), Refusal>;
    fn state(&mut self) -> &mut State;
}

/// Replays the log of the file system in `objset`, the live one and no snapshot.
///
/// # Errors
/// When it is no file system, or what every replay needs of it cannot be read. A record that
/// cannot be applied is no error: see [`ReplayReport::stopped`].
pub fn filesystem(objset: &Objset, settings: &Settings) -> Result<(Objset, ReplayReport)> {
    filesystem_log(objset, settings, &Log::read(objset))
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
    let fs = crate::Filesystem::open(objset.clone())?;
    replay(objset, settings, log, |state, records| FileReplay::new(&fs, state, records))
}

/// Replays the log of the volume in `objset`, the live one and no snapshot.
///
/// # Errors
/// As [`filesystem`].
pub fn volume(objset: &Objset, settings: &Settings) -> Result<(Objset, ReplayReport)> {
    volume_log(objset, settings, &Log::read(objset))
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
    replay(objset, settings, log, |state, _| Ok(VolumeReplay { state }))
}

fn replay<T: Target>(
    objset: &Objset,
    settings: &Settings,
    log: &Log,
    start: impl Fn(State, &[(&Record, Endian)]) -> Result<T>,
) -> Result<(Objset, ReplayReport)> {
    let pending: Vec<(&Record, Endian)> = log.pending_with_endian(settings.synced).collect();
    let run = |records: &[(&Record, Endian)]| -> Result<(T, usize, Option<Stop>)> {
        let mut target = start(State::new(objset.clone(), *settings), records)?;
        for (at, (record, endian)) in records.iter().enumerate() {
            if let Err(why) = apply(&mut target, record, *endian) {
                let stop = Stop { seq: record.seq, kind: record.kind, why };
                return Ok((target, at, Some(stop)));
            }
        }
        Ok((target, records.len(), None))
    };
    let (mut target, done, stopped) = run(&pending)?;
    if stopped.is_some() {
        // The failed record may have got halfway.
        target = run(pending.get(..done).unwrap_or_default())?.0;
    }
    let state = target.state();
    state.settle_space();
    let report = ReplayReport {
        applied: done as u64 - state.passed_over,
        passed_over: state.passed_over,
        released: state.released,
        stopped,
        log_end: log.end.clone(),
    };
    let overlay: Arc<Overlay> = state.overlay();
    Ok((objset.with_overlay(overlay), report))
}

fn apply<T: Target>(
    target: &mut T,
    record: &Record,
    endian: Endian,
) -> std::result::Result<(), Refusal> {
    if let Some(object) = record.object()
        && !target.state().exists(object)?
    {
        target.state().passed_over += 1;
        return Ok(());
    }
    target.apply(record, endian)
}

/// Applies records to a volume.
struct VolumeReplay {
    state: State,
}

impl Target for VolumeReplay {
    fn apply(&mut self, record: &Record, _endian: Endian) -> std::result::Result<(), Refusal> {
        match &record.body {
            Body::Write { offset, length, block, data, .. } => {
                if record.kind == ondisk::zil::TxType::WRITE2 {
                    return Ok(());
                }
                let logged = self.state.logged(VOLUME_DATA, *offset, *length, block, data)?;
                self.state.write(VOLUME_DATA, &logged)
            }
            Body::Truncate { offset, length, .. } => {
                let end = match length {
                    0 => u64::MAX,
                    n => offset.saturating_add(*n),
                };
                self.state.free(VOLUME_DATA, *offset, end)
            }
            Body::CloneRange { offset, length, block_size, blocks, .. } => {
                self.state.clone_blocks(VOLUME_DATA, *offset, *length, *block_size, blocks)
            }
            _ => Err(Refusal::Unsupported("a volume has no records of this type")),
        }
    }

    fn state(&mut self) -> &mut State {
        &mut self.state
    }
}
