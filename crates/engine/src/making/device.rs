//! What is on a device, and what uses it: why it is not taken for a pool.

use crate::devices::{foreign, loop_above, use_by_system};
use crate::faults::{Content, DeviceRefusal};
use device::{DeviceRef, ErrorKind, WriteDeviceRef};
use ondisk::config::{LabelConfig, PoolState};
use pool::live::DEVICE_MIN;
use pool::{Candidate, CandidateState, FoundLeaf, OpenOptions, Pool, look_at_device, scan};
use rt::Rt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The question whether devices can be taken for a pool.
///
/// ```
/// use engine::NewPool;
/// use engine::devices::{AnyDevices, DeviceSource as _};
/// use engine::pools::{Content, DeviceCheck, DeviceRefusal};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("a.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let device = AnyDevices::default().claim(&image)?;
/// let check = |force| DeviceCheck { pool: None, force, user: &|_, _| None };
/// let why = check(false).opened(&image, &device, false).unwrap_err();
/// assert_eq!(why, DeviceRefusal::Holds(Content::Exported("tank".to_owned())));
/// check(true).opened(&image, &device, false)?;
/// # Ok::<(), engine::Error>(())
/// ```
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

    /// The label is of a device that the pool had, and has not any more: one that failed, or was
    /// away, keeps its labels when it is detached.
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

    /// The same, and nothing of it is of use to the pool: as in OpenZFS it takes no force to use it
    /// for this one again. A label of a later txg than the pool's is of changes that the pool has
    /// not, as after it went back.
    fn is_done_with(&self, label: &LabelConfig) -> bool {
        let LabelConfig::Member(c) = label else { return false };
        let last = self.pool.map_or(0, |pool| pool.uberblock().txg);
        self.is_former(label) && c.state == PoolState::Active && c.txg <= last
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
        let is_done_with = |label: &FoundLeaf| self.is_done_with(&label.config);
        if label.as_ref().is_some_and(|label| was_begun(label) || is_done_with(label)) {
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
