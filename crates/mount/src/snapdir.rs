//! Snapshots that are taken, renamed and destroyed by their directories: `mkdir`, `mv` and `rmdir`
//! in `.zfs/snapshot`.
//!
//! As in OpenZFS that is off, unless a tunable of the pool turns it on (`zfs_admin_snapshot`): a
//! program that removes a tree with its `.zfs` would destroy the snapshots. Users other than the
//! one who serves the pool need the permissions that the verbs need (`zfs allow`); the kernel lets
//! all of them ask.

use crate::errno::{self, FuseResult};
use crate::kernel::{Errno, INodeNo};
use crate::served::{Caller, Front};
use crate::snapshots::{InodeTarget, Snapshots};
use engine::live::{LivePool, Tunable};
use engine::{Error, ErrorKind, OpenPool, Refusal, permissions};
use std::sync::Arc;

/// The number for an error of a snapshot's operation.
fn number(e: impl Into<Error>) -> Errno {
    let e: Error = e.into();
    match e.kind() {
        ErrorKind::Refused(Refusal::Exists) => Errno::EEXIST,
        ErrorKind::Refused(Refusal::Denied | Refusal::DelegationOff) => Errno::EPERM,
        ErrorKind::Refused(Refusal::NoSpace | Refusal::NoRoomFor(_)) => Errno::ENOSPC,
        ErrorKind::Refused(Refusal::Limit(_) | Refusal::Quota(_)) => Errno::EDQUOT,
        // It is held, cloned or used.
        ErrorKind::Refused(_) => Errno::EBUSY,
        _ => errno::number(&e),
    }
}

/// A snapshot's name behind the `@`.
fn short(name: &[u8]) -> FuseResult<&str> {
    std::str::from_utf8(name).ok().filter(|name| !name.contains('@')).ok_or(Errno::EILSEQ)
}

impl Snapshots {
    /// Whether the tunable is on.
    pub(crate) fn are_managed(&self) -> bool {
        self.pool().is_ok_and(|pool| is_on(&pool))
    }

    /// The pool, as far as this caller may change it.
    fn pool_for(&self, caller: Caller) -> FuseResult<Arc<LivePool>> {
        let pool = self.pool()?;
        if !is_on(&pool) {
            return Err(Errno::EACCES);
        }
        let OpenPool::Live(pool) = pool else { return Err(Errno::EROFS) };
        let (user, groups) = caller.user_and_groups().ok_or(Errno::EPERM)?;
        if [0, nix::unistd::geteuid().as_raw().into()].contains(&user) {
            return Ok(pool);
        }
        pool.on_behalf_of(permissions::Caller { user, groups }).map(Arc::new).map_err(number)
    }

    /// The full name of one that is not mounted by itself: that mount would be left without it.
    fn unmounted(&self, name: &[u8]) -> FuseResult<String> {
        let full = self.full_name(&self.find(name)?.name);
        match (self.is_mounted)(&full) {
            true => Err(Errno::EBUSY),
            false => Ok(full),
        }
    }

    fn take(&self, caller: Caller, name: &[u8]) -> FuseResult<()> {
        let full = self.full_name(short(name)?);
        self.pool_for(caller)?.snapshot(&[full], Vec::new()).map_err(number)
    }

    fn destroy(&self, caller: Caller, name: &[u8]) -> FuseResult<()> {
        let pool = self.pool_for(caller)?;
        pool.destroy_snapshots(&[self.unmounted(name)?], false).map_err(number)
    }

    fn rename(&self, caller: Caller, name: &[u8], to: &[u8]) -> FuseResult<()> {
        let (pool, to) = (self.pool_for(caller)?, short(to)?);
        let full = self.unmounted(name)?;
        pool.rename_snapshot(&full, to, false).map_err(number)?;
        self.renamed(&full, to);
        Ok(())
    }
}

fn is_on(pool: &OpenPool) -> bool {
    matches!(pool, OpenPool::Live(pool) if pool.tunables().get(Tunable::AdminSnapshot) != 0)
}

impl Front {
    /// Whether this is the directory of the snapshots' directories.
    pub(crate) fn is_of_snapshots(&self, dir: INodeNo) -> bool {
        self.of(dir) == InodeTarget::Listing
    }

    /// Takes a snapshot; its directory.
    pub(crate) fn take_snapshot(&self, caller: Caller, name: &[u8]) -> FuseResult<INodeNo> {
        let all = self.snapshots()?;
        all.take(caller, name)?;
        Ok(INodeNo(InodeTarget::Root(all.find(name)?.dataset).number()))
    }

    pub(crate) fn destroy_snapshot(&self, caller: Caller, name: &[u8]) -> FuseResult<()> {
        self.snapshots()?.destroy(caller, name)
    }

    /// Gives a snapshot another name, which none may have.
    pub(crate) fn rename_snapshot(
        &self,
        caller: Caller,
        (name, to): (&[u8], &[u8]),
        is_plain: bool,
    ) -> FuseResult<()> {
        match is_plain {
            true => self.snapshots()?.rename(caller, name, to),
            false => Err(Errno::EINVAL),
        }
    }
}
