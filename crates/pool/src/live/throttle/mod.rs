//! Policies that slow writers down before memory is full.
//!
//! # Theory
//!
//! Writers fill memory faster than devices empty it. Something has to hold them back, and how it
//! does so decides what a program sees: many small delays, or a few long ones. A policy is asked
//! about each writing transaction before that enters the open txg, and answers with one of
//!
//! ```text
//! Go          enter now
//! Delay       wait until that time, then enter; at most once for a transaction
//! NextTxg     this txg is full: it quiesces now, wait until the next one is open
//! Room        wait until less is dirty
//! ```
//!
//! It is told what every txg took when that is durable, and says what its limit is, and how full a
//! txg may be before the devices should begin with it.
//!
//! Two policies exist, after the two that ZFS had:
//! - [`DirtyDelay`] (2013 until now): delays grow with the dirty data of the whole pool, and dirty
//!   data falls as each write completes. No guess about speed, no wall.
//! - [`WriteLimit`] (2008 to 2013): a limit for each txg, so large that its sync takes a target
//!   time at the speed that was measured; one tick of delay near it, a wall at it. It counts bytes
//!   as the devices will have them ([`Inflation`]).
//!
//! Whatever the policy says, writers wait at [`TxgLimits::dirty_max`]. Only transactions that use
//! space are asked about: freeing and housekeeping pass.
//!
//! A policy is called with no lock held, and waits for nothing itself.
//!
//! [`TxgLimits::dirty_max`]: super::txg::TxgLimits::dirty_max

mod dirty_delay;
mod inflation;
mod write_limit;

pub use dirty_delay::{DELAY_MAX, DelayKnobs, DirtyDelay};
pub use inflation::Inflation;
pub use write_limit::{LimitKnobs, Rule, TICK, WriteLimit};

use std::time::Duration;

/// What a policy sees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Now, on the clock of the pool's runtime.
    pub now: Duration,
    /// Dirty bytes of all txgs, not yet on the devices.
    pub dirty: u64,
    /// Bytes that became dirty in the open txg.
    pub open: u64,
    /// Bytes that live transactions of the open txg may still make dirty, at worst.
    pub reserved: u64,
    /// The txg before the open one has quiesced, and waits for its turn to be synced.
    pub waiting: bool,
}

/// The transaction that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// When it first asked.
    pub began: Duration,
    /// It was delayed already.
    pub delayed: bool,
}

/// What a policy says to a writer. See the head of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Go on.
    Go,
    /// Go on at this time.
    Delay {
        /// On the clock of [`Load::now`].
        until: Duration,
    },
    /// Wait until another txg is open.
    NextTxg,
    /// Wait until less is dirty.
    Room,
}

/// What a txg that is durable took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Synced {
    /// Bytes that became dirty in it.
    pub dirtied: u64,
    /// Time from the begin of its sync until its data were written and its tree converged.
    pub write_time: Duration,
    /// Time until it was durable: flushes and labels too.
    pub sync_time: Duration,
    /// The part of the time of writing in which the sync waited for blocks that it had to read.
    pub read_time: Duration,
}

/// A policy. See the head of the file.
pub trait Throttle: Send + Sync {
    /// Its name, as the tunable has it.
    fn name(&self) -> &'static str;

    /// Whether threads that may have to wait are judged one after the other, each when the one
    /// before has gone on; otherwise all at the same time.
    fn in_turn(&self) -> bool {
        false
    }

    /// Judges a transaction.
    fn admit(&self, load: &Load, request: &Request) -> Admission;

    /// Dirty and reserved bytes of all txgs together below which every answer is [`Admission::Go`]:
    /// then it is not asked.
    fn calm_below(&self) -> u64;

    /// Dirty bytes in the open txg at which the devices should begin with it, when they are idle.
    fn push_at(&self) -> u64;

    /// Bytes at which it stops writers, as of now.
    fn limit(&self) -> u64;

    /// A txg is durable.
    fn synced(&self, txg: &Synced);

    /// What is dirty has reached the memory that it may take. Says whether the limit is another one
    /// now.
    fn memory_is_short(&self, _: &Load) -> bool {
        false
    }

    /// What a byte becomes on the devices, from now on.
    fn laid_out(&self, _: Inflation) {}
}

/// No policy but the hard limit.
#[derive(Clone, Copy, Debug)]
pub struct HardLimit {
    /// Bytes (`zfs_dirty_data_max`).
    pub dirty_max: u64,
    /// Part of it at which a txg is pushed (`zfs_dirty_data_sync_percent`).
    pub sync_percent: u64,
}

impl Throttle for HardLimit {
    fn name(&self) -> &'static str {
        "none"
    }

    fn admit(&self, load: &Load, _: &Request) -> Admission {
        if load.dirty < self.dirty_max { Admission::Go } else { Admission::Room }
    }

    fn calm_below(&self) -> u64 {
        self.dirty_max / 4
    }

    fn push_at(&self) -> u64 {
        percent_of(self.dirty_max, self.sync_percent)
    }

    fn limit(&self) -> u64 {
        self.dirty_max
    }

    fn synced(&self, _: &Synced) {}
}

/// Hundredths of `bytes`, not more than all.
fn percent_of(bytes: u64, percent: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent.min(100)) / 100) as u64
}
