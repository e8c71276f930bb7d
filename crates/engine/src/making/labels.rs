//! Labels of a device: whose it is by them, and when they may be cleared.

use super::device::owner_of_aux;
use crate::devices::WriteDeviceRef;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::faults::{Content, DeviceRefusal};
use ondisk::config::{LabelConfig, PoolState};
use pool::{CandidateState, look_at_device};
use std::path::Path;
use std::sync::Arc;

/// What is known of the pools of this machine, whatever labels say.
pub trait PoolRegistry {
    /// The imported pool that has the device of this guid; of several the pool of that guid, when
    /// it is one of them.
    fn with_device(&self, device: u64, pool: Option<u64>) -> Option<String>;
    /// The pool of this guid that a program holds.
    fn held(&self, pool: u64) -> Option<String>;
}

/// The pool that uses the device with this label here; the device is to be a spare when `is_spare`.
/// No device is taken from such a pool, by whatever force. A pool that another host uses, or that
/// was left behind by a crash, cannot be told from one that is not used any more, and is not meant.
#[must_use]
pub fn pool_of_label(
    label: &LabelConfig,
    is_spare: bool,
    here: &dyn PoolRegistry,
) -> Option<String> {
    match label {
        LabelConfig::Member(c) if c.state == PoolState::Destroyed || c.txg == 0 => None,
        // A spare that stands in is one of other pools too: its label says which has it.
        LabelConfig::Member(c) => {
            let known = c.guid.and_then(|guid| here.with_device(guid, Some(c.pool_guid)));
            known.or_else(|| here.held(c.pool_guid))
        }
        // A spare of one pool may be a spare of others too.
        LabelConfig::Aux(c) if is_spare && c.state == PoolState::Spare => None,
        LabelConfig::Aux(c) => here.with_device(c.guid, None),
    }
}

/// A device that shall belong to no pool any more.
///
/// ```
/// use engine::devices::{AnyDevices, DeviceSource as _};
/// use engine::pools::{self, ClearLabels};
/// use engine::{NewPool, OpenOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("a.img");
/// NewPool::new("tank").file(&image, 64 << 20)?.create()?.export()?;
/// let device = AnyDevices::default().claim(&image)?;
/// let clear = |force| ClearLabels { force, user: &|_, _| None };
/// assert!(clear(false).run(&image, &device).is_err(), "its pool was exported");
/// clear(true).run(&image, &device)?;
/// drop(device);
/// assert!(pools::scan(&OpenOptions::in_places([&image]).search)?.is_empty());
/// # Ok::<(), engine::Error>(())
/// ```
pub struct ClearLabels<'a> {
    /// Also when its pool is exported, or may be active elsewhere, and has to do without it then.
    pub force: bool,
    /// The pool that uses a device with this label here ([`pool_of_label`]).
    pub user: &'a dyn Fn(&LabelConfig, bool) -> Option<String>,
}

impl ClearLabels<'_> {
    /// Clears the labels of the device at `path`. What else is where labels are stays: it may be of
    /// use.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: it has no label. [`ErrorKind::DeviceRefused`]: a pool uses it
    /// here, or, which is all the same to force, an exported pool or one that another host may use
    /// has it. Not even force takes a spare or cache device from an active pool. Or the device
    /// fails.
    pub fn run(&self, path: &Path, device: &WriteDeviceRef) -> Result<()> {
        let reader = Arc::clone(device).as_device();
        let at = || Place::Path(path.to_owned());
        let Some(found) = look_at_device(&reader, path.to_owned()) else {
            return Err(Error::new(ErrorKind::NotFound).at(at()));
        };
        if let Some(why) = self.refusal(&found.config, path) {
            return Err(Error::from(why).at(at()));
        }
        let good = found.labels.iter().filter(|label| label.nvlist.is_some());
        clear_labels(device, &good.map(|label| label.index).collect::<Vec<_>>())
    }

    fn refusal(&self, label: &LabelConfig, path: &Path) -> Option<DeviceRefusal> {
        if let Some(pool) = (self.user)(label, false) {
            return Some(DeviceRefusal::InPool(pool));
        }
        let content = match label {
            LabelConfig::Member(c) if c.state == PoolState::Destroyed => return None,
            LabelConfig::Member(c) if c.state == PoolState::Exported => {
                Content::Exported(c.name.clone())
            }
            LabelConfig::Member(c) if c.txg == 0 => return None,
            LabelConfig::Member(c) => Content::PerhapsActive(c.name.clone()),
            // Its label stays when its pool is gone, and says nothing of another's use.
            LabelConfig::Aux(c) => {
                let pool = owner_of_aux(c.guid, path, |s| s == CandidateState::Active)?;
                return Some(DeviceRefusal::Holds(Content::Aux(pool)));
            }
        };
        (!self.force).then_some(DeviceRefusal::Holds(content))
    }
}

/// Erases these labels (0 to 3), and waits until that is durable.
fn clear_labels(device: &WriteDeviceRef, which: &[usize]) -> Result<()> {
    vdev::label::clear(device.as_ref(), which).map_err(|e| Error::external(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewPool;
    use crate::devices::{AnyDevices, DeviceSource as _};

    struct Here(&'static str);

    impl PoolRegistry for Here {
        fn with_device(&self, _: u64, _: Option<u64>) -> Option<String> {
            (self.0 == "known").then(|| "known".to_owned())
        }

        fn held(&self, _: u64) -> Option<String> {
            (self.0 == "held").then(|| "held".to_owned())
        }
    }

    #[test]
    fn labels_are_cleared_of_what_no_pool_uses() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a.img");
        let file = std::fs::File::create(&path).expect("file");
        file.set_len(64 << 20).expect("size");
        let make = || NewPool::new("tank").device(&path).expect("device").create();
        let clear = |force, here: &'static str| {
            let user = |label: &LabelConfig, is_spare| pool_of_label(label, is_spare, &Here(here));
            let device = AnyDevices::default().claim(&path).expect("device");
            ClearLabels { force, user: &user }.run(&path, &device)
        };
        let refused = |force, here| match clear(force, here).expect_err("refused").kind() {
            ErrorKind::DeviceRefused(why) => why.clone(),
            other => panic!("{other:?}"),
        };
        make().expect("create").export().expect("export");
        for used in ["known", "held"] {
            assert_eq!(refused(true, used), DeviceRefusal::InPool(used.to_owned()));
        }
        let exported = DeviceRefusal::Holds(Content::Exported("tank".to_owned()));
        assert_eq!(refused(false, "none"), exported);
        clear(true, "none").expect("by force");
        assert_eq!(clear(true, "none").expect_err("none").kind(), &ErrorKind::NotFound);

        make().expect("create").close().expect("close");
        let active = DeviceRefusal::Holds(Content::PerhapsActive("tank".to_owned()));
        assert_eq!(refused(false, "none"), active);
        clear(true, "none").expect("by force");

        // What was destroyed may go, and is no known pool's any more.
        make().expect("create").destroy().expect("destroy");
        clear(false, "known").expect("destroyed");
    }
}
