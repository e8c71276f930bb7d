//! Cache devices that are taken out of use, and used again.
//!
//! Nothing here reads them, so all there is to it is what the pool's list says: OpenZFS uses none
//! that its entry calls offline. What holds only as long as the pool is open stands in memory
//! (`Shared::cache_marks`), and reports have both ([`LivePool::members_now`]).

use super::LivePool;
use super::config::{set_text, set_u64, unset};
use super::leaves::unmark;
use super::mode::OfflineMode;
use crate::error::Result;
use crate::refusal::DeviceFault;
use ondisk::config::VdevConfig;
use ondisk::mos;
use vdev::VdevState;

/// Says of a cache device that it was taken out like this.
pub(super) fn mark(cache: &mut VdevConfig, how: OfflineMode) -> ondisk::Result<()> {
    match how {
        OfflineMode::Offline | OfflineMode::OfflineForNow => set_u64(cache, "offline", 1),
        OfflineMode::Faulted | OfflineMode::FaultedForNow => {
            set_u64(cache, "faulted", 1)?;
            set_text(cache, "aux_state", "external")
        }
    }
}

impl LivePool {
    /// Takes a cache device out of use.
    ///
    /// # Errors
    /// The pool has no such one, or takes no changes.
    pub fn offline_cache(&self, guid: u64, how: OfflineMode) -> Result<()> {
        match how {
            OfflineMode::OfflineForNow | OfflineMode::FaultedForNow => {
                self.cache_device(guid)?;
                self.shared.cache_marks.lock().insert(guid, how);
            }
            _ => self.change_cache(guid, move |cache| mark(cache, how))?,
        }
        let state = match how {
            OfflineMode::Offline | OfflineMode::OfflineForNow => VdevState::Offline,
            OfflineMode::Faulted | OfflineMode::FaultedForNow => VdevState::Faulted,
        };
        self.post_cache(guid, [VdevState::Online, state])
    }

    /// Uses a cache device again.
    ///
    /// # Errors
    /// The pool has no such one, or takes no changes.
    pub fn online_cache(&self, guid: u64) -> Result<()> {
        let was = self.cache_device(guid)?;
        if !was.offline && !was.faulted {
            return Ok(());
        }
        self.change_cache(guid, |_| Ok(()))?;
        self.shared.cache_marks.lock().remove(&guid);
        let before = if was.faulted { VdevState::Faulted } else { VdevState::Offline };
        self.post_cache(guid, [before, VdevState::Online])
    }

    /// What is known of a cache device.
    fn cache_device(&self, guid: u64) -> Result<VdevConfig> {
        let (_, [_, l2cache]) = self.members_now();
        let found = l2cache.into_iter().find(|cache| cache.guid == guid);
        found.ok_or_else(|| self.shared.refused(DeviceFault::NotAux))
    }

    fn post_cache(&self, guid: u64, [from, to]: [VdevState; 2]) -> Result<()> {
        let path = self.cache_device(guid)?.path.unwrap_or_default();
        self.shared.post_state(guid, &path, from, to);
        Ok(())
    }

    /// What the list says of a cache device is forgotten, and then changed.
    fn change_cache(
        &self,
        guid: u64,
        change: impl Fn(&mut VdevConfig) -> ondisk::Result<()> + Send + 'static,
    ) -> Result<()> {
        self.cache_device(guid)?;
        self.shared.run_keeping_datasets(move |cx| {
            cx.change_on_list(mos::L2CACHE, guid, &|cache| {
                unmark(cache)?;
                unset(cache, &["offline"])?;
                change(cache)
            })
        })
    }
}
