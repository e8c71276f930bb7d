//! Operations on devices by what they are called: which device is meant, what it is for the pool,
//! and what is done with it.
//!
//! A device that comes into the pool from outside is opened by the caller, which knows what else
//! may use it ([`crate::pools::DeviceCheck`]); one that the pool knows already is opened here.

use super::{DeviceRole, Member, MemberFault};
use crate::devices::DeviceSource;
use crate::error::{Error, ErrorKind, Place, Result};
use ondisk::config::VdevConfig;
use pool::Pool;
use pool::live::{LivePool, OfflineMode, OwnChanges, ResilverKind, VdevSpec};
use std::path::PathBuf;

/// How the names of devices are understood, and where devices are opened.
///
/// ```
/// use engine::NewPool;
/// use engine::devices::AnyDevices;
/// use engine::pools::DeviceNames;
///
/// # let folder = tempfile::tempdir().unwrap();
/// let image = folder.path().join("a.img");
/// let pool = NewPool::new("tank").file(&image, 64 << 20)?.create()?;
/// let (here, source) = (folder.path().to_owned(), AnyDevices::default());
/// let names = DeviceNames { path_of: &|name| here.join(name), source: &source };
/// let leaf = names.device(&pool.look()?, "a.img")?;
/// assert!(names.is_used(&pool, "a.img")? && leaf != 0);
/// assert!(names.device(&pool.look()?, "b.img").is_err());
/// names.clear(&pool, Some("a.img"))?;
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct DeviceNames<'a> {
    /// Resolves a name to a path, in the place where it was given.
    pub path_of: &'a dyn Fn(&str) -> PathBuf,
    /// Opens devices.
    pub source: &'a dyn DeviceSource,
}

/// The device cannot be used for the operation.
fn unfit(name: &str, fault: MemberFault) -> Error {
    Error::new(ErrorKind::Unfit(fault)).at(Place::Device(name.to_owned()))
}

/// Whether the pool writes to a device.
fn is_written(pool: &LivePool, guid: u64) -> bool {
    let tree = pool.view().vdevs();
    tree.leaves().any(|leaf| leaf.guid() == guid && leaf.writer().is_some())
}

/// Uses a device again, from where it was found, or from the place that its label names.
fn reopen_leaf(
    pool: &LivePool,
    guid: u64,
    own: OwnChanges,
    source: &dyn DeviceSource,
) -> pool::Result<()> {
    let seen = pool.view().candidate().leaves.get(&guid).map(|sight| sight.path.clone());
    pool.online_leaf(guid, own, seen.as_deref(), source)
}

/// Retries devices that are not in use. Absent devices, and devices with changes of their own, stay
/// out of use. That an absent one failed is forgotten if it `forgives`: it only is not there, or
/// another is in its place.
fn retry_unused(
    pool: &LivePool,
    source: &dyn DeviceSource,
    forgives: bool,
    is_meant: impl Fn(&u64) -> bool,
) {
    pool.with_one_resilver(|| {
        for guid in pool.leaves_away().into_iter().filter(is_meant) {
            // The pool's status shows the result, so it is not reported here.
            let done = reopen_leaf(pool, guid, OwnChanges::Keep, source);
            if let (true, Err(why)) = (forgives, &done) {
                let _ = pool.count_as_missing(guid, why);
            }
        }
    });
}

/// What became of a device that is to be used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Onlined {
    /// It is used.
    Used,
    /// It is not taken out any more, and cannot be opened, or is another one, for this reason: it
    /// is used when it is there.
    Waits(String),
}

impl DeviceNames<'_> {
    /// The vdev or device of that name.
    #[must_use]
    pub fn find(&self, seen: &Pool, name: &str) -> Option<Member> {
        Member::find(seen, name, &(self.path_of)(name))
    }

    /// The guid of the device of that name, which is one that holds data.
    ///
    /// # Errors
    /// [`ErrorKind::Unfit`]: there is none, it is a spare or a cache device, or it is several.
    pub fn device(&self, seen: &Pool, name: &str) -> Result<u64> {
        let fault = match self.find(seen, name) {
            Some(found) if found.is_spare && !found.is_in_tree => MemberFault::Reserved,
            Some(found) if !found.is_in_tree => MemberFault::Cache,
            Some(found) if found.is_device => return Ok(found.guid),
            Some(_) => MemberFault::Several,
            None => MemberFault::Unknown,
        };
        Err(unfit(name, fault))
    }

    /// Returns the role of the file or disk of this name in the pool, by its label.
    #[must_use]
    pub fn role(&self, seen: &Pool, name: &str) -> Option<DeviceRole> {
        let path = (self.path_of)(name);
        match self.source.open(&path) {
            Ok(device) => DeviceRole::of(seen, &device, &path),
            Err(_) => DeviceRole::distributed(seen, name),
        }
    }

    /// Whether the pool writes to a device of that name.
    ///
    /// # Errors
    /// The pool has stopped.
    pub fn is_used(&self, pool: &LivePool, name: &str) -> Result<bool> {
        let found = self.find(&pool.look()?, name);
        Ok(found.is_some_and(|found| is_written(pool, found.guid)))
    }

    /// Uses a device again that is in another place than before.
    ///
    /// # Errors
    /// It is not there, or is another.
    pub fn online_from(&self, pool: &LivePool, leaf: u64, name: &str) -> Result<()> {
        let path = (self.path_of)(name);
        Ok(pool.online_leaf(leaf, OwnChanges::GiveUp, Some(&path), self.source)?)
    }

    /// Uses a device again, by its name in the pool, or the path of one of the pool's devices that
    /// was moved; also a cache device. The space by which it has grown is used if `expands`, or the
    /// pool's `autoexpand`, is set. One that cannot be opened, or in whose place another is, is
    /// not taken out any more all the same, as in OpenZFS.
    ///
    /// # Errors
    /// As for [`Self::device`]; or what is there cannot be used.
    pub fn online(&self, pool: &LivePool, name: &str, expands: bool) -> Result<Onlined> {
        let seen = pool.look()?;
        let found = self.find(&seen, name);
        if let Some(cache) = found.as_ref().filter(|found| found.is_cache() && !expands) {
            pool.online_cache(cache.guid)?;
            return self.onlined_cache(pool, cache.guid);
        }
        let guid = match (found, self.role(&seen, name)) {
            (None, Some(DeviceRole::Leaf(guid))) => {
                self.online_from(pool, guid, name)?;
                guid
            }
            _ => {
                let guid = self.device(&seen, name)?;
                if let Err(e) = reopen_leaf(pool, guid, OwnChanges::GiveUp, self.source) {
                    let why = pool.count_as_missing(guid, &e)?;
                    return why.map(Onlined::Waits).ok_or_else(|| e.into());
                }
                guid
            }
        };
        match expands {
            true => pool.expand(&[guid])?,
            false => pool.expand_if_wanted()?,
        }
        Ok(Onlined::Used)
    }

    /// What became of a cache device. Nothing here reads it, so it is opened to see that.
    fn onlined_cache(&self, pool: &LivePool, guid: u64) -> Result<Onlined> {
        let seen = pool.look()?;
        let path = seen.l2cache().iter().find(|v| v.guid == guid).and_then(|v| v.path.clone());
        let opened = path.map(|path| self.source.open(&(self.path_of)(&path)));
        Ok(match opened {
            Some(Err(e)) => Onlined::Waits(e.to_string()),
            _ => Onlined::Used,
        })
    }

    /// Takes a device out of use, also a cache device.
    ///
    /// # Errors
    /// As for [`Self::device`]; or the others do not make up for it.
    pub fn offline(&self, pool: &LivePool, name: &str, how: OfflineMode) -> Result<()> {
        let seen = pool.look()?;
        if let Some(cache) = self.find(&seen, name).filter(Member::is_cache) {
            return Ok(pool.offline_cache(cache.guid, how)?);
        }
        let guid = self.device(&seen, name)?;
        Ok(pool.offline_leaf(guid, how)?)
    }

    /// Takes a side off a mirror.
    ///
    /// # Errors
    /// As for [`Self::device`]; it is no side of a mirror, or the others do not make up for it.
    pub fn detach(&self, pool: &LivePool, name: &str) -> Result<()> {
        let guid = self.device(&pool.look()?, name)?;
        Ok(pool.detach(guid)?)
    }

    /// The sides that a new pool gets, one of each mirror: those of these names, and of other
    /// mirrors the last one.
    ///
    /// # Errors
    /// As for [`Self::device`], where the name is the error's operand; the pool is not made of
    /// mirrors, or several sides of one are named.
    pub fn sides_to_split(&self, pool: &LivePool, names: &[String]) -> Result<Vec<u64>> {
        let seen = pool.look()?;
        let named = names.iter().map(|name| self.device(&seen, name).map_err(|e| e.of(name)));
        Ok(pool.sides_to_split(&named.collect::<Result<Vec<_>>>()?)?)
    }

    /// Forgets the errors of a device or vdev, or of all, and retries those that are not in use:
    /// one that failed and is not there is missing from then on, as in OpenZFS. A suspended pool is
    /// resumed.
    ///
    /// # Errors
    /// There is none of that name, or it is a spare; or too few devices answer.
    pub fn clear(&self, pool: &LivePool, name: Option<&str>) -> Result<()> {
        let seen = pool.look()?;
        let find = |name| self.find(&seen, name).ok_or_else(|| unfit(name, MemberFault::Unknown));
        let chosen = name.map(find).transpose()?;
        if let (Some(true), Some(name)) = (chosen.as_ref().map(|c| c.is_spare), name) {
            return Err(unfit(name, MemberFault::Reserved));
        }
        // With whatever device it is called: it is the pool that is suspended.
        pool.resume(self.source)?;
        pool.forget_errors(chosen.as_ref().map(|c| c.guid))?;
        let is_chosen = |guid| chosen.as_ref().is_none_or(|c| c.devices.contains(&guid));
        let is_meant = |guid: &u64| is_chosen(*guid);
        retry_unused(pool, self.source, true, is_meant);
        let is_failed = |v: &&VdevConfig| v.faulted && is_chosen(v.guid);
        let failed: Vec<u64> = seen.l2cache().iter().filter(is_failed).map(|v| v.guid).collect();
        Ok(failed.into_iter().try_for_each(|cache| pool.online_cache(cache))?)
    }

    /// Tries all devices again that are not used, and uses what they have grown by where the pool
    /// is to do that.
    ///
    /// # Errors
    /// The pool cannot be changed.
    pub fn reopen(&self, pool: &LivePool) -> Result<()> {
        retry_unused(pool, self.source, false, |_| true);
        Ok(pool.expand_if_wanted()?)
    }

    /// Bytes of memory that the removal of a device or vdev will take.
    ///
    /// # Errors
    /// It cannot be removed, or that is not recorded.
    pub fn memory_of_removal(&self, seen: &Pool, name: &str) -> Result<u64> {
        let Removable::Data { id, .. } = self.removable(seen, name)? else {
            // A vdev without data needs no map of where its data is now.
            return Ok(0);
        };
        let bytes = seen.mapping_memory_of(id)?;
        bytes.ok_or_else(|| unfit(name, MemberFault::UnknownMemory))
    }

    /// Removes a device that the pool can do without: a spare, a cache device, or a whole top-level
    /// vdev, whose data is moved elsewhere first. That continues in the background; a removal that
    /// runs already continues if `goes_on`.
    ///
    /// # Errors
    /// There is none of that name, it is part of a vdev, or the pool cannot do without it.
    pub fn remove(&self, pool: &LivePool, name: &str, goes_on: bool) -> Result<()> {
        let is_leaving = |id| pool.removing().is_some_and(|now| now.vdev == id);
        match self.removable(&pool.look()?, name)? {
            Removable::Data { id, .. } if goes_on && is_leaving(id) => {}
            Removable::Data { guid, .. } => pool.remove_top(guid)?,
            Removable::Log(guid) => pool.remove_log(guid)?,
            Removable::Aux(guid, path) => {
                let path = path.map(|path| (self.path_of)(&path));
                // One that cannot be opened keeps its label.
                let device = path.and_then(|path| self.source.claim(&path).ok());
                pool.remove_aux(guid, device)?;
            }
        }
        Ok(())
    }

    fn removable(&self, seen: &Pool, name: &str) -> Result<Removable> {
        let found = self.find(seen, name).ok_or_else(|| unfit(name, MemberFault::Unknown))?;
        let guid = found.guid;
        if let Some(aux) = seen.spares().iter().chain(seen.l2cache()).find(|v| v.guid == guid) {
            return Ok(Removable::Aux(guid, aux.path.clone()));
        }
        match seen.config().vdev_tree.children.iter().find(|top| top.guid == guid) {
            Some(top) if top.is_log => Ok(Removable::Log(guid)),
            Some(top) => Ok(Removable::Data { guid, id: top.id }),
            None => Err(unfit(name, MemberFault::Part)),
        }
    }
}

/// The devices that can be removed from a pool.
enum Removable {
    /// A top-level vdev with data: its guid, and its number.
    Data { guid: u64, id: u64 },
    /// A top-level vdev for logs.
    Log(u64),
    /// A spare or cache device, and its path.
    Aux(u64, Option<String>),
}

/// A device that comes beside one of the pool's, or in its place.
///
/// ```
/// use engine::devices::{AnyDevices, DeviceSource};
/// use engine::live::{ResilverKind, VdevSpec};
/// use engine::pools::{DeviceNames, Exchange, Known};
/// use engine::{NewPool, Progress, activity};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = |name: &str| {
/// #     let path = folder.path().join(name);
/// #     std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
/// #     path.to_str().unwrap().to_owned()
/// # };
/// let [a, b] = ["a.img", "b.img"].map(|name| folder.path().join(name));
/// let pool = NewPool::new("tank").mirror(&[&a, &b], 64 << 20)?.create()?;
/// let (here, source) = (folder.path().to_owned(), AnyDevices::default());
/// let names = DeviceNames { path_of: &|name| here.join(name), source: &source };
/// let exchange = Exchange::replace(&pool, names, "b.img", ResilverKind::Healing)?;
/// // The pool knows nothing of the new one: it is opened here.
/// let path = image("c.img");
/// assert_eq!(exchange.with_known("c.img")?, Known::No);
/// let device = source.claim(path.as_ref())?;
/// exchange.with(&VdevSpec::Leaf { path, is_file: true }, device)?;
/// activity::wait_for_scans(&pool, &Progress::new())?;
/// assert!(names.is_used(&pool, "c.img")?);
/// # pool.export()?;
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    pool: &'a LivePool,
    names: DeviceNames<'a>,
    leaf: u64,
    replaces: bool,
    resilver: ResilverKind,
}

/// What the pool has done with a device that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is the device itself that was to be replaced or to get another side, in another place by
    /// now: it is used again.
    Itself,
    /// It is a spare, and is in use from now on.
    StandsIn,
    /// It is not a member of the pool: it is to be opened, and given to [`Exchange::with`].
    No,
}

impl<'a> Exchange<'a> {
    /// A device that becomes a side of the mirror that `old` is or becomes part of, or makes a
    /// raidz vdev wider.
    ///
    /// # Errors
    /// As for [`DeviceNames::device`].
    pub fn attach(
        pool: &'a LivePool,
        names: DeviceNames<'a>,
        old: &str,
        resilver: ResilverKind,
    ) -> Result<Self> {
        let seen = pool.look()?;
        let leaf = match names.find(&seen, old) {
            Some(found) if found.is_raidz => found.guid,
            _ => names.device(&seen, old)?,
        };
        Ok(Self { pool, names, leaf, replaces: false, resilver })
    }

    /// A device that comes in the place of `old`.
    ///
    /// # Errors
    /// As for [`DeviceNames::device`].
    pub fn replace(
        pool: &'a LivePool,
        names: DeviceNames<'a>,
        old: &str,
        resilver: ResilverKind,
    ) -> Result<Self> {
        let leaf = names.device(&pool.look()?, old)?;
        Ok(Self { pool, names, leaf, replaces: true, resilver })
    }

    /// The path of the device that was named, where a new one may be by now.
    #[must_use]
    pub fn path_of_old(&self) -> Option<String> {
        self.pool.look().ok()?.config().vdev_tree.find(self.leaf)?.path.clone()
    }

    /// Uses `new` where the pool knows it: as itself, or as a spare.
    ///
    /// # Errors
    /// [`ErrorKind::Unfit`]: the pool uses it for something else; or it cannot be used.
    pub fn with_known(&self, new: &str) -> Result<Known> {
        // A failure in a suspended pool is due to that, and not to the device.
        self.pool.check_takes_changes()?;
        let seen = self.pool.look()?;
        let stand_in = |spare, device| {
            let done = self.pool.take_spare_by(self.leaf, spare, device, self.resilver);
            done.map(|()| Known::StandsIn)
        };
        let fault = match self.names.role(&seen, new) {
            Some(DeviceRole::Leaf(it)) if it == self.leaf && !is_written(self.pool, it) => {
                self.names.online_from(self.pool, it, new)?;
                return Ok(Known::Itself);
            }
            Some(DeviceRole::Distributed(spare)) if self.replaces => {
                return Ok(stand_in(spare, None)?);
            }
            Some(DeviceRole::Spare(spare)) if self.replaces => {
                let device = self.names.source.claim(&(self.names.path_of)(new))?;
                return Ok(stand_in(spare, Some(device))?);
            }
            Some(DeviceRole::Spare(_) | DeviceRole::Distributed(_)) => MemberFault::NewIsSpare,
            Some(DeviceRole::Cache) => MemberFault::NewIsCache,
            // A device that is in use has not moved: this is another name, or a copy, of it.
            Some(DeviceRole::Leaf(it)) if is_written(self.pool, it) => MemberFault::NewIsUsed,
            Some(DeviceRole::Leaf(_)) if self.names.find(&seen, new).is_none() => {
                MemberFault::NewIsMoved
            }
            _ if self.names.is_used(self.pool, new)? => MemberFault::NewIsUsed,
            _ => return Ok(Known::No),
        };
        Err(unfit(new, fault))
    }

    /// Uses a device that is not a member of the pool. It is resilvered from now on.
    ///
    /// # Errors
    /// It is too small, or cannot be used there.
    pub fn with(&self, spec: &VdevSpec, device: crate::devices::WriteDeviceRef) -> Result<()> {
        match self.replaces {
            true => Ok(self.pool.replace_by(self.leaf, spec, device, self.resilver)?),
            false => Ok(self.pool.attach_by(self.leaf, spec, device, self.resilver)?),
        }
    }
}
