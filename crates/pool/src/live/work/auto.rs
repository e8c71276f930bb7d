//! `autotrim`: what became free is given back to the devices some txgs later.
//!
//! # Theory
//!
//! While the property is on, each metaslab remembers what became free, which is two durable txgs
//! after it was given up, and was not taken again (`alloc/hold.rs`). Every [`EACH`] txgs a thread
//! holds these ranges, window by window, tells every device below the vdev, and releases them. So
//! what is short-lived is never told, and what lies together by then is told at once.
//!
//! What was not told when the pool is closed is forgotten, as in OpenZFS: `zpool trim` tells all.
//! A device that refuses is passed over; the pool is none the worse for it.

use super::run::{TRIM_MIN, windows};
use crate::error::Result;
use crate::live::LivePool;
use crate::live::shared::Shared;
use core::ops::Range;

/// Txgs between two passes.
const EACH: u64 = 32;

impl Shared {
    /// Gives back what becomes free from now on, or not any more.
    pub(in super::super) fn set_autotrim(&self, on: bool) -> Result<()> {
        self.alloc.note_freed(on);
        let mut state = self.works.state.lock();
        state.autotrim = on;
        self.works.changed.notify_all();
        if !on || state.auto.is_some() || state.is_closing {
            return Ok(());
        }
        let Some(me) = self.me.upgrade() else { return Ok(()) };
        let task = self.rt.spawn("autotrim", move || me.autotrim());
        state.auto = Some(task.map_err(|e| self.failed("starting autotrim", e))?);
        Ok(())
    }

    fn autotrim(&self) {
        let mut next = self.txgs.last_synced() + EACH;
        loop {
            {
                let mut state = self.works.state.lock();
                while !(state.is_closing || state.autotrim && state.synced >= next) {
                    self.works.changed.wait(&mut state);
                }
                if state.is_closing {
                    return;
                }
                next = state.synced + EACH;
            }
            self.trim_freed();
        }
    }

    fn trim_freed(&self) {
        let tops: Vec<u32> = self.reader.vdevs().tops().map(|t| t.id()).collect();
        for top in tops {
            for slab in self.alloc.slabs(top) {
                let vdevs = self.reader.vdevs();
                for window in windows(&vdevs, top, &slab) {
                    if self.works.state.lock().is_closing {
                        return;
                    }
                    self.trim_freed_in(top, &window);
                }
            }
        }
    }

    fn trim_freed_in(&self, top: u32, window: &Range<u64>) {
        let _turn = self.works.turn(top);
        let held = {
            // No map is being written.
            let _gate = self.gate.read();
            self.alloc.hold_freed(top, window, TRIM_MIN)
        };
        let Some(held) = held else { return };
        let vdevs = self.reader.vdevs();
        for leaf in vdevs.leaves() {
            let Some(device) = leaf.writer() else { continue };
            for (start, end) in held.ranges() {
                let extent = vdevs.extent_on(top, leaf.guid(), &(*start..*end));
                let Some(extent) = extent.filter(|e| e.end - e.start >= TRIM_MIN) else { continue };
                // One that does not support it has no use for the others either.
                if device.trim(extent.start, extent.end - extent.start).is_err() {
                    break;
                }
            }
        }
    }
}

impl LivePool {
    /// What `autotrim` does every [`EACH`] txgs, now: for tests.
    #[doc(hidden)]
    pub fn trim_freed_now(&self) {
        self.shared.trim_freed();
    }
}
