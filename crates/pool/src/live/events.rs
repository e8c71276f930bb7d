//! What happened to a pool, as OpenZFS tells it: `zpool events`.
//!
//! # Theory
//!
//! Each event has a number, a time, a class with OpenZFS's name, and members with OpenZFS's names.
//! They are kept in memory, the last [`KEPT`] of them, as OpenZFS's kernel module keeps
//! `zfs_zevent_len_max`; a follower that asks too late is told how many are gone. Nothing of them
//! is on disk: with the process that holds the pool they go. What a pool has to remember is in its
//! configuration and history.
//!
//! Most events are *seen*, not reported: after each txg, when the pool is suspended, and when
//! they are asked for, what the tree and the configuration say now is compared with what they said
//! before (`notice.rs`). So a new way to change the tree needs no call here, and what a completion
//! noted needs no event from a thread that may not wait. What came and went in between is not told,
//! and errors of one device between two looks are one event, with OpenZFS's counts in it.
//!
//! ```text
//! seen      resource.fs.zfs.statechange, .removed       a device has another state
//!           ereport.fs.zfs.io, .checksum, .delay        its counts grew
//!           ereport.fs.zfs.data                         a block is lost: no copy of it is right
//!           ereport.fs.zfs.io_failure                   the pool is suspended
//!           sysevent.fs.zfs.vdev_add, _attach, _remove, _online, config_sync
//! reported  sysevent.fs.zfs.pool_create, _import, _export, _destroy, _reguid
//!           sysevent.fs.zfs.scrub_*, resilver_*         where a scan or rebuild begins and ends
//!           sysevent.fs.zfs.errorscrub_*, trim_*        the same
//!           sysevent.fs.zfs.vdev_spare, _clear, _autoexpand, _remove_aux, _remove_dev
//!           sysevent.fs.zfs.history_event               where history is written
//! ```
//!
//! One lock, never held over a wait; posting wakes the followers.

use parking_lot::Mutex;
use rt::{Condvar, Rt};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use vdev::VdevState;

/// Events that are kept: OpenZFS's `zfs_zevent_len_max`.
const KEPT: usize = 512;
/// Bytes of a text in an event: a command of the history may have a megabyte.
const TEXT_MAX: usize = 1024;

/// A member of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventValue {
    /// A number.
    Number(u64),
    /// A text; from a pool's disks, it may hold anything.
    Text(String),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1 on; of a process that holds the pool.
    pub eid: u64,
    /// When, since 1970.
    pub time: Duration,
    /// OpenZFS's name of what happened: `sysevent.fs.zfs.pool_import`.
    pub class: String,
    /// Members with OpenZFS's names, in its order.
    pub members: Vec<(&'static str, EventValue)>,
}

/// The events of a pool that are kept.
pub struct Events {
    rt: Rt,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Event>,
    /// Number of the last one.
    last: u64,
    is_closed: bool,
}

/// What was seen of a leaf.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) top: u64,
    pub(super) state: VdevState,
    /// Failed reads and writes, wrong blocks, slow requests.
    pub(super) counts: [u64; 4],
}

/// What was seen of a pool.
#[derive(Clone, Default)]
pub(super) struct KnownState {
    pub(super) leaves: BTreeMap<u64, Leaf>,
    pub(super) is_suspended: bool,
    /// How often labels were written.
    pub(super) labels: u64,
}

impl Events {
    pub(super) fn new(rt: &Rt) -> Self {
        Self { rt: rt.clone(), state: Mutex::default(), arrived: rt.condvar() }
    }

    pub(super) fn post(&self, class: &str, members: Vec<(&'static str, EventValue)>) {
        let time = self.rt.wall();
        let mut state = self.state.lock();
        state.last += 1;
        let eid = state.last;
        while state.kept.len() >= KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(Event { eid, time, class: class.to_owned(), members });
        drop(state);
        self.arrived.notify_all();
    }

    /// Those after number `after`, oldest first, and how many after it are not kept any more.
    #[must_use]
    pub fn after(&self, after: u64) -> (Vec<Event>, u64) {
        Self::after_in(&self.state.lock(), after)
    }

    fn after_in(state: &State, after: u64) -> (Vec<Event>, u64) {
        let kept: Vec<_> = state.kept.iter().filter(|e| e.eid > after).cloned().collect();
        let first = kept.first().map_or(state.last + 1, |e| e.eid);
        (kept, first.saturating_sub(after.saturating_add(1)))
    }

    /// The same; waits for one, but no longer than `patience`.
    #[must_use]
    pub fn wait_after(&self, after: u64, patience: Duration) -> (Vec<Event>, u64) {
        let until = self.rt.now() + patience;
        let mut state = self.state.lock();
        while state.last <= after && !state.is_closed && self.rt.now() < until {
            self.arrived.wait_until(&mut state, until);
        }
        Self::after_in(&state, after)
    }

    /// Hands events on as they come, and how many were not kept that long, until no more will come;
    /// at least once in `patience`. Of what was before it began it hands on what is kept.
    ///
    /// # Errors
    /// What `report` returns, which ends it.
    pub fn follow<E>(
        &self,
        patience: Duration,
        mut report: impl FnMut(&[Event], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last = 0u64;
        loop {
            let is_over = self.is_closed();
            let (new, gone) = self.wait_after(last, patience);
            report(&new, if last > 0 { gone } else { 0 })?;
            // Those that are gone are not waited for again.
            last = last.saturating_add(gone).saturating_add(new.len() as u64);
            if is_over {
                return Ok(());
            }
        }
    }

    /// No more will come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Forgets all that are kept; how many these were. Numbers go on.
    pub fn clear(&self) -> usize {
        std::mem::take(&mut self.state.lock().kept).len()
    }
}

/// A text of bounded length.
pub(super) fn text(value: &str) -> EventValue {
    let mut end = value.len().min(TEXT_MAX);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    EventValue::Text(value.get(..end).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_kept_and_the_others_are_counted() {
        Rt::simulate(1, |rt| {
            let events = Events::new(rt);
            (0..KEPT + 10).for_each(|_| events.post("a.b.c", Vec::new()));
            let (all, gone) = events.after(0);
            assert_eq!((all.len(), all[0].eid, gone), (KEPT, 11, 10));
            let (new, gone) = events.after(KEPT as u64 + 9);
            assert_eq!((new.len(), gone), (1, 0));
            assert_eq!(events.clear(), KEPT);
            assert_eq!(events.after(KEPT as u64 + 10), (Vec::new(), 0));
            assert_eq!(events.after(0).1, KEPT as u64 + 10);
            let began = rt.now();
            let patience = Duration::from_secs(3);
            assert!(events.wait_after(KEPT as u64 + 10, patience).0.is_empty());
            assert_eq!(rt.now() - began, patience);
        });
    }

    /// Those that were forgotten are told once, and not waited for again.
    #[test]
    fn events_are_followed_to_the_end() {
        Rt::simulate(1, |rt| {
            let events = Events::new(rt);
            let post = |n| (0..n).for_each(|_| events.post("a.b.c", Vec::new()));
            post(2);
            let mut met = Vec::new();
            let followed = events.follow(Duration::from_secs(1), |new, gone| {
                met.push((new.len(), gone));
                match met.len() {
                    1 => post(3),
                    2 => events.close(),
                    _ => {}
                }
                if met.len() == 1 {
                    events.clear();
                }
                Ok::<(), ()>(())
            });
            assert_eq!((followed, met), (Ok(()), vec![(2, 0), (0, 3), (0, 0)]));
            assert_eq!(events.follow(Duration::ZERO, |_, _| Err("enough")), Err("enough"));
        });
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let EventValue::Text(cut) = text(&"ä".repeat(TEXT_MAX)) else { panic!() };
        assert_eq!(cut, "ä".repeat(TEXT_MAX / 2));
    }
}
