//! The table of tunables. A line is
//! `Key "name" Unit, default, min..=max, push, "Meaning.";` in the order in which they are listed.

use super::super::shared::Shared;
use super::{Row, Unit};
use std::time::Duration;

/// For values that are asked for where they are used.
fn asked(_: &Shared, _: u64) {}

/// Brings every value down to what uses it.
pub(crate) fn push_all(shared: &Shared) {
    for (tunable, row) in Tunable::ALL.iter().zip(ROWS) {
        (row.push)(shared, shared.tunables.get(*tunable));
    }
}

impl Shared {
    /// Sets a value and brings it down to what uses it.
    pub(crate) fn set_tunable(&self, tunable: Tunable, value: u64) {
        self.tunables.store(tunable, value);
        (tunable.row().push)(self, value);
    }
}

macro_rules! table {
    ($($key:ident $name:literal $unit:expr, $default:expr, $min:literal..=$max:expr, $push:expr,
       $meaning:literal;)*) => {
        /// A tunable, by its key.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Tunable {
            $(#[doc = concat!("`", $name, "`: ", $meaning)] $key,)*
        }

        impl Tunable {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$key,)*];
        }

        pub(super) static ROWS: &[Row] = &[$(Row {
            name: $name,
            unit: $unit,
            default: $default,
            min: $min,
            max: $max,
            meaning: $meaning,
            push: $push,
        },)*];
    };
}

table! {
    // Transaction groups.
    TxgTimeout "zfs_txg_timeout" Unit::Seconds, 5, 1..=86_400,
        |s, v| s.txgs.change_limits(|l| l.timeout = Duration::from_secs(v)),
        "A txg with changes is pushed when it was open for so long.";
    DirtyDataMax "zfs_dirty_data_max" Unit::Bytes, 256 << 20, 0x10_0000..=1 << 50,
        |s, v| s.txgs.change_limits(|l| l.dirty_max = v),
        "Dirty data at which writers wait, whatever the throttle says. Memory held by txgs that \
         are not durable stays below twice as much.";
    DirtyDataSyncPercent "zfs_dirty_data_sync_percent" Unit::Percent, 20, 1..=100,
        |s, v| s.txgs.change_limits(|l| l.sync_percent = v),
        "A txg is pushed when it holds this part of zfs_dirty_data_max.";
    TxgHistory "zfs_txg_history" Unit::Count, 100, 1..=10_000, asked,
        "Txgs of which a record is kept.";
    // Blocks.
    DefaultIbs "zfs_default_ibs" Unit::Bits, 17, 12..=17, Shared::set_indirect_shift,
        "Size of the indirect blocks of objects made from now on; those that exist keep theirs. \
         OpenZFS refuses an object with more than 17 (128 KiB).";
}
