//! What a disk in a store of objects costs.
//!
//! A store is paid for each request and for what it keeps (`money`). How many requests a month of
//! use needs follows from how a disk works ([`mod@crate::log`]); what a disk has really asked is
//! counted ([`device::StoreUsage`]).

use crate::disk::SEGMENT_BYTES;
use crate::log::Options;

pub use crate::money::{Cost, Prices};

/// Seconds of a month, of 30 days.
const MONTH: u64 = 30 * 24 * 60 * 60;

/// A month of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Bytes that the store keeps.
    pub kept: u64,
    /// Bytes that are written in the month.
    pub written: u64,
    /// Bytes that are read in the month.
    pub read: u64,
    /// Bytes that one request reads.
    pub read_size: u64,
    /// Seconds between two transaction groups while something is written.
    pub txg: u64,
    /// Percent of the time in which something is written.
    pub busy: u64,
    /// Times in a second that programs wait until what they wrote is safe, with no log device.
    pub syncs: u64,
}

/// One reason to pay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The reason.
    pub what: &'static str,
    /// Requests in the month.
    pub requests: u64,
    /// What they, or what is kept, cost in the month.
    pub cost: Cost,
}

/// Creates of a transaction group beside its data: the blocks of the pool itself and the uberblock,
/// a flush behind each.
pub const TXG_CREATES: u64 = 2;
/// Of what is written as much is moved in addition, at most: the worst case of segments that are
/// cleaned when less than 40 percent of them lives is 1.67 times the writing.
const MOVED_PERCENT: u64 = 67;

impl Workload {
    /// What a month costs: at most, as far as the use is as it is said to be.
    #[must_use]
    pub fn month(&self, prices: &Prices) -> Vec<Item> {
        let segments = |bytes: u64| bytes.div_ceil(u64::from(SEGMENT_BYTES));
        let create = |what, requests: u64| {
            let cost = Prices::requests(prices.create, requests);
            Item { what, requests, cost }
        };
        let get = |what, requests: u64, bytes: u64| {
            let cost = Prices::requests(prices.get, requests);
            Item { what, requests, cost: cost.plus(Prices::bytes(prices.out, bytes)) }
        };
        let data = segments(self.written);
        let txgs = MONTH * self.busy.min(100) / 100 / self.txg.max(1) * TXG_CREATES;
        let syncs = MONTH.saturating_mul(self.syncs);
        let moved = self.written / 100 * MOVED_PERCENT;
        let all = data.saturating_add(txgs).saturating_add(syncs).saturating_add(segments(moved));
        // Pages of the map, and the root.
        let checkpoints = (all / Options::default().checkpoint_every).saturating_mul(2);
        vec![
            Item { what: "kept", requests: 0, cost: Prices::bytes(prices.keep, self.kept) },
            create("written", data),
            create("transaction groups", txgs),
            create("waiting programs", syncs),
            create("checkpoints", checkpoints),
            create("moved, at most", segments(moved)),
            get("read to be moved", segments(moved), moved),
            get("read", self.read.div_ceil(self.read_size.max(1)), self.read),
        ]
    }
}
