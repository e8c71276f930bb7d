//! RAID-Z expansion: its entries in the ZAP of the growing top-level vdev.
//!
//! Specified in `docs/format/raidz-expansion.md`. While data are being moved to the wider layout,
//! the uberblock has the progress ([`crate::uberblock`]); the ZAP keeps what `zpool status` shows,
//! during and after. The vdev's configuration has `raidz_expanding` while it runs, and afterwards
//! the txgs at which the width grew (`raidz_expand_txgs`), for a block's width follows from its
//! birth.

use crate::scan::State;

/// State, a number of [`State`].
pub const KEY_STATE: &str = "org.openzfs:raidz_expand_state";
/// Begin, seconds since 1970.
pub const KEY_START_TIME: &str = "org.openzfs:raidz_expand_start_time";
/// End, seconds since 1970.
pub const KEY_END_TIME: &str = "org.openzfs:raidz_expand_end_time";
/// Bytes moved.
pub const KEY_BYTES_COPIED: &str = "org.openzfs:raidz_expand_bytes_copied";

/// An expansion that runs or ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Running or finished.
    pub state: State,
    /// Begin, seconds since 1970.
    pub start_time: u64,
    /// End, seconds since 1970; 0 while it runs.
    pub end_time: u64,
    /// Bytes moved.
    pub bytes_copied: u64,
}

impl Expansion {
    /// Gathers the four entries; `lookup` gives the number under a key. `None`: there was none.
    pub fn gather(lookup: impl Fn(&str) -> Option<u64>) -> Option<Self> {
        Some(Self {
            state: State::from_number(lookup(KEY_STATE)?),
            start_time: lookup(KEY_START_TIME).unwrap_or(0),
            end_time: lookup(KEY_END_TIME).unwrap_or(0),
            bytes_copied: lookup(KEY_BYTES_COPIED).unwrap_or(0),
        })
    }

    /// The four entries.
    #[must_use]
    pub fn entries(&self) -> [(&'static str, u64); 4] {
        [
            (KEY_STATE, self.state.number()),
            (KEY_START_TIME, self.start_time),
            (KEY_END_TIME, self.end_time),
            (KEY_BYTES_COPIED, self.bytes_copied),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_both_ways() {
        let e =
            Expansion { state: State::Finished, start_time: 5, end_time: 9, bytes_copied: 1 << 30 };
        let found = |k: &str| e.entries().iter().find(|(n, _)| *n == k).map(|(_, v)| *v);
        assert_eq!(Expansion::gather(found), Some(e));
        assert_eq!(Expansion::gather(|_| None), None);
    }
}
