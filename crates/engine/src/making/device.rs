//! What is on a device, and what uses it: why it is not taken for a pool.

use crate::devices::{SystemUse, foreign, loop_above, use_by_system};
use device::{DeviceRef, ErrorKind, WriteDeviceRef};
use ondisk::config::{LabelConfig, PoolState};
use pool::live::DEVICE_MIN;
use pool::{Candidate, CandidateState, FoundLeaf, OpenOptions, Pool, look_at_device, scan};
use rt::Rt;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a device is not taken for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceRefusal {
    /// This loop device shows the file as a disk.
    LoopAbove(String),
    /// The system works with it.
    System(SystemUse),
    /// It has this many bytes, fewer than [`DEVICE_MIN`].
    TooSmall(u64),
    /// It answers no request within the deadline (`zinc_vdev_silence_ms`).
    Silent,
    /// The pool of this name uses it here.
    InPool(String),
    /// It holds something that would be lost.
    Holds(Content),
}

/// What a device holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A part of this pool, which was exported.
    Exported(String),
    /// A part of this pool, which another host may use.
    PerhapsActive(String),
    /// A spare or cache device of this pool.
    Aux(String),
    /// Something else, of this kind.
    Foreign(String),
}

impl DeviceRefusal {
    /// It is taken all the same when that is forced.
    #[must_use]
    pub fn yields_to_force(&self) -> bool {
        matches!(self, Self::LoopAbove(_) | Self::Holds(_))
    }
}

impl fmt::Display for DeviceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoopAbove(device) => write!(f, "is in use: {device} is a loop device on it"),
            Self::System(SystemUse::Swap) => f.write_str("is in use as swap"),
            Self::System(SystemUse::Mount(target)) => write!(f, "is mounted on {target}"),
            Self::System(SystemUse::PartOf(name)) => write!(f, "is in use: {name} uses it"),
            Self::TooSmall(size) => write!(f, "has {size} bytes; a pool needs {DEVICE_MIN}"),
            Self::Silent => f.write_str("does not answer"),
            Self::InPool(pool) => write!(f, "is part of active pool '{pool}'"),
            Self::Holds(Content::Exported(pool)) => {
                write!(f, "is part of exported pool '{pool}'")
            }
            Self::Holds(Content::PerhapsActive(pool)) => {
                write!(f, "is part of potentially active pool '{pool}'")
            }
            Self::Holds(Content::Aux(pool)) => {
                write!(f, "is a spare or cache device of pool '{pool}'")
            }
            Self::Holds(Content::Foreign(what)) => write!(f, "contains {what}"),
        }
    }
}

impl std::error::Error for DeviceRefusal {}

/// The question whether devices can be taken for a pool.
pub struct DeviceCheck<'a> {
    /// The pool; `None`: one that is yet to be made. What was about to become a device of it when
    /// that was cut off has nothing on it.
    pub pool: Option<&'a Pool>,
    /// Also devices that hold something.
    pub force: bool,
    /// The pool that uses a device with this label here, whatever the labels say; the device is to
    /// be a spare when the second is true.
    pub user: &'a dyn Fn(&LabelConfig, bool) -> Option<String>,
}

impl DeviceCheck<'_> {
    fn refuse(&self, why: DeviceRefusal) -> Result<(), DeviceRefusal> {
        if self.force && why.yields_to_force() { Ok(()) } else { Err(why) }
    }

    /// What is known of a device before it is opened.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn by_name(&self, path: &Path) -> Result<(), DeviceRefusal> {
        if let Some(device) = loop_above(path) {
            self.refuse(DeviceRefusal::LoopAbove(device))?;
        }
        // Not even by force is taken from the system what it works with.
        use_by_system(path).map_or(Ok(()), |by| Err(DeviceRefusal::System(by)))
    }

    /// The label is of a device that the pool had, and has not any more: one that failed keeps its
    /// labels when it is detached.
    fn is_former(&self, label: &LabelConfig) -> bool {
        let LabelConfig::Member(c) = label else { return false };
        let is_of = |pool: &&Pool| pool.guid() == c.pool_guid;
        let is_in = |pool: &Pool, guid| {
            let aux = pool.spares().iter().chain(pool.l2cache());
            pool.config().vdev_tree.walk().chain(aux).any(|v| v.guid == guid)
        };
        let pool = self.pool.filter(is_of);
        pool.zip(c.guid).is_some_and(|(pool, guid)| !is_in(pool, guid))
    }

    /// The device with deadlines for its requests: one that hangs holds up no command.
    fn guarded(&self, device: &WriteDeviceRef) -> DeviceRef {
        let reader = Arc::clone(device).as_device();
        let (rt, limits) = match self.pool {
            Some(pool) => (pool.rt(), Arc::clone(pool.vdevs().queue_limits())),
            None => (Rt::current(), Arc::default()),
        };
        vdev::guarded_reader(&rt, &reader, &limits)
    }

    /// What is on a device that is open for writing.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn opened(
        &self,
        path: &Path,
        device: &WriteDeviceRef,
        is_spare: bool,
    ) -> Result<(), DeviceRefusal> {
        if device.size() < DEVICE_MIN {
            return Err(DeviceRefusal::TooSmall(device.size()));
        }
        let reader = self.guarded(device);
        let probe = reader.read_new(0, reader.sector_size() as usize);
        if probe.is_err_and(|e| e.kind == ErrorKind::NoAnswer) {
            return Err(DeviceRefusal::Silent);
        }
        let label = look_at_device(&reader, path.to_owned());
        let was_begun = |label: &FoundLeaf| self.pool.is_some_and(|pool| pool.is_half_added(label));
        if label.as_ref().is_some_and(was_begun) {
            return Ok(());
        }
        let user = |label: &FoundLeaf| match self.is_former(&label.config) {
            true => None,
            false => (self.user)(&label.config, is_spare),
        };
        if let Some(pool) = label.as_ref().and_then(user) {
            return Err(DeviceRefusal::InPool(pool));
        }
        let content = label.and_then(|label| of_label(&label.config, path, is_spare));
        let content = match content {
            Some(LabelVerdict::Nothing) => None,
            Some(LabelVerdict::Content(content)) => Some(content),
            // Something else may have been put on what is left of a pool.
            None => foreign(reader.as_ref()).map(Content::Foreign),
        };
        content.map_or(Ok(()), |content| self.refuse(DeviceRefusal::Holds(content)))
    }
}

/// What a label makes of the device.
enum LabelVerdict {
    Content(Content),
    /// It can be used as it is.
    Nothing,
}

fn of_label(label: &LabelConfig, path: &Path, is_spare: bool) -> Option<LabelVerdict> {
    let content = match label {
        LabelConfig::Member(c) => match c.state {
            PoolState::Destroyed => return None,
            PoolState::Exported => Content::Exported(c.name.clone()),
            _ if c.txg == 0 => return None,
            _ => Content::PerhapsActive(c.name.clone()),
        },
        // A spare of one pool may be a spare of others too.
        LabelConfig::Aux(c) if is_spare && c.state == PoolState::Spare => {
            return Some(LabelVerdict::Nothing);
        }
        LabelConfig::Aux(c) => {
            Content::Aux(owner_of_aux(c.guid, path, |s| s != CandidateState::Destroyed)?)
        }
    };
    Some(LabelVerdict::Content(content))
}

/// The pool of such a state that has a spare or cache device of this guid, among those whose
/// devices are where this one is. Its label does not name the pool, and stays when the pool is
/// destroyed.
pub(super) fn owner_of_aux(
    guid: u64,
    path: &Path,
    counts: impl Fn(CandidateState) -> bool,
) -> Option<String> {
    let mut options = OpenOptions::default();
    if !path.starts_with("/dev") {
        options.search.paths = path.parent().map(PathBuf::from).into_iter().collect();
    }
    let found = scan(&options.search).ok()?;
    let candidates = Candidate::group(&found).into_iter();
    let chosen = candidates.filter(|c| counts(c.state()));
    let pools = chosen.filter_map(|c| Pool::open_candidate(&c, &options).ok());
    let has = |p: &Pool| p.spares().iter().chain(p.l2cache()).any(|c| c.guid == guid);
    pools.filter(has).map(|p| p.name().to_owned()).next()
}
