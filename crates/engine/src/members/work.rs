//! Initializing and trimming devices by what they are called.

use super::DeviceNames;
use crate::error::{Error, Result};
use ondisk::config::VdevConfig;
use pool::live::LivePool;
use pool::{LeafWork, Pool};

/// A change of the [`LeafWork`] of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkChange {
    /// It begins, or continues where it was suspended, with at most this many bytes each second; 0:
    /// without a limit.
    Start(u64),
    /// It stops where it is.
    Suspend,
    /// It is called off.
    Cancel,
    /// That it was done is forgotten.
    Forget,
}

impl WorkChange {
    fn of(self, pool: &LivePool, work: LeafWork, leaf: u64) -> pool::Result<()> {
        match self {
            Self::Start(rate) => pool.start_work(leaf, work, rate),
            Self::Suspend => pool.suspend_work(leaf, work),
            Self::Cancel => pool.cancel_work(leaf, work),
            Self::Forget => pool.forget_work(leaf, work),
        }
    }
}

impl DeviceNames<'_> {
    /// Changes the work on the devices of these names, and at those below vdevs of these names; on
    /// all where none is named, of which those count for which it is possible. Answers which they
    /// are, with what each is called.
    ///
    /// # Errors
    /// As for [`Self::device`], or it is not possible on a device that was named, or on none of
    /// all; the device is the error's operand.
    pub fn work(
        &self,
        pool: &LivePool,
        names: &[String],
        (work, change): (LeafWork, WorkChange),
    ) -> Result<Vec<(u64, String)>> {
        let (mut done, mut refused) = (Vec::new(), None);
        for (leaf, name) in self.leaves(&pool.look()?, names)? {
            match change.of(pool, work, leaf) {
                Ok(()) => done.push((leaf, name)),
                Err(e) if names.is_empty() => {
                    refused.get_or_insert(Error::from(e).of(&name));
                }
                Err(e) => return Err(Error::from(e).of(&name)),
            }
        }
        match refused {
            Some(error) if done.is_empty() => Err(error),
            _ => Ok(done),
        }
    }

    /// The devices that hold data at and below these names; all where none is named.
    fn leaves(&self, seen: &Pool, names: &[String]) -> Result<Vec<(u64, String)>> {
        if names.is_empty() {
            // A vdev that was removed has no device any more.
            let has_device = |v: &&VdevConfig| v.kind.has_device();
            let leaves = seen.config().vdev_tree.walk().filter(has_device);
            return Ok(leaves.map(|v| (v.guid, v.path.clone().unwrap_or_default())).collect());
        }
        let mut out = Vec::new();
        for name in names {
            let found = self.find(seen, name);
            match found.filter(|found| found.is_in_tree && !found.devices.is_empty()) {
                Some(found) => out.extend(found.devices.iter().map(|leaf| (*leaf, name.clone()))),
                None => out.push((self.device(seen, name).map_err(|e| e.of(name))?, name.clone())),
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::AnyDevices;
    use crate::error::ErrorKind;
    use crate::pools::MemberFault;
    use crate::{NewPool, Progress, activity};

    #[test]
    fn work_is_on_what_is_named_and_of_all_on_what_can_have_it() {
        let folder = tempfile::tempdir().expect("folder");
        let [a, b] = ["a.img", "b.img"].map(|name| folder.path().join(name));
        let pool = NewPool::new("tank").mirror(&[&a, &b], 64 << 20).expect("mirror");
        let pool = pool.create().expect("create");
        let here = folder.path().to_owned();
        let names = DeviceNames { path_of: &|n| here.join(n), source: &AnyDevices::default() };
        let change = |called: &[&str], change| {
            let called: Vec<String> = called.iter().map(|name| (*name).to_owned()).collect();
            names.work(&pool, &called, (LeafWork::Initialize, change))
        };
        let started = change(&["mirror-0"], WorkChange::Start(0)).expect("both sides");
        assert_eq!(started.len(), 2);
        activity::wait_for_work(&pool, LeafWork::Initialize, &started, &Progress::new())
            .expect("initialized");

        // On neither of all it is possible, nor on the one that is named: it has ended.
        let refused = change(&[], WorkChange::Suspend).expect_err("nothing runs");
        assert!(refused.operand().is_some_and(|name| name.ends_with("a.img")));
        let refused = change(&["b.img"], WorkChange::Suspend).expect_err("nothing runs");
        assert_eq!(refused.operand(), Some("b.img"));
        let unknown = change(&["c.img"], WorkChange::Start(0)).expect_err("no device");
        assert_eq!(unknown.kind(), &ErrorKind::Unfit(MemberFault::Unknown));
        assert_eq!(unknown.operand(), Some("c.img"));

        // Of all, those count for which it is possible.
        names.detach(&pool, "b.img").expect("detach");
        assert_eq!(change(&[], WorkChange::Forget).expect("one is left").len(), 1);
        assert!(names.offline(&pool, "c.img", pool::live::OfflineMode::Offline).is_err());
        pool.export().expect("export");
    }
}
