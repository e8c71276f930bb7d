//! From the values of tunables to what they steer.

use super::shared::Shared;
use super::throttle::{DelayKnobs, DirtyDelay, HardLimit, LimitKnobs, Rule};
use super::tunables::{Push, Tunable};
use std::sync::Arc;
use std::time::Duration;

impl Shared {
    /// Makes the throttle that the tunables describe, and lets it decide from now on.
    pub(super) fn choose_throttle(&self) {
        let get = |tunable| self.tunables.get(tunable);
        let (dirty_max, sync_percent) =
            (get(Tunable::DirtyDataMax), get(Tunable::DirtyDataSyncPercent));
        match get(Tunable::Throttle) {
            0 => self.txgs.set_policy(Arc::new(DirtyDelay::new(DelayKnobs {
                dirty_max,
                sync_percent,
                min_dirty_percent: get(Tunable::DelayMinDirtyPercent),
                scale_ns: get(Tunable::DelayScale),
            }))),
            1 => {
                self.txgs.set_write_limit(self.limit_knobs());
                self.txgs.laid_out(self.inflation(&self.all_heads(), false));
            }
            _ => self.txgs.set_policy(Arc::new(HardLimit { dirty_max, sync_percent })),
        }
    }

    fn limit_knobs(&self) -> LimitKnobs {
        let get = |tunable| self.tunables.get(tunable);
        let max = match get(Tunable::WriteLimitMax) {
            0 => device::memory_bytes() >> get(Tunable::WriteLimitShift),
            max => max,
        };
        LimitKnobs {
            synctime: Duration::from_secs(get(Tunable::TxgSynctime)),
            min: get(Tunable::WriteLimitMin),
            max,
            inflated: get(Tunable::WriteLimitInflated),
            fixed: get(Tunable::WriteLimitOverride),
            inflation: get(Tunable::WriteLimitInflation),
            delay_eighths: get(Tunable::WriteLimitDelayEighths),
            off: get(Tunable::NoWriteThrottle) == 1,
            rule: match get(Tunable::WriteLimitRule) {
                0 => Rule::Throughput,
                _ => Rule::Target,
            },
            sync_percent: get(Tunable::DirtyDataSyncPercent),
        }
    }

    /// Sets a value and brings it down to what uses it.
    pub(super) fn set_tunable(&self, tunable: Tunable, value: u64) {
        self.tunables.store(tunable, value);
        self.push(tunable, value);
        if matches!(tunable.row().push, Push::Txg) {
            self.txgs.want_next();
        }
    }

    /// Brings every value down to what uses it.
    pub(super) fn push_tunables(&self) {
        for tunable in Tunable::ALL {
            self.push(*tunable, self.tunables.get(*tunable));
        }
    }

    fn push(&self, tunable: Tunable, value: u64) {
        let is_on = value == 1;
        let number = usize::try_from(value).unwrap_or(usize::MAX);
        match tunable.row().push {
            Push::OnUse | Push::Txg => {}
            Push::Timeout => {
                self.txgs.change_limits(|l| l.timeout = Duration::from_secs(value));
            }
            Push::DirtyMax => {
                self.txgs.change_limits(|l| l.dirty_max = value);
                self.choose_throttle();
            }
            Push::SyncPercent => {
                self.txgs.change_limits(|l| l.sync_percent = value);
                self.choose_throttle();
            }
            Push::DirtyUntilDurable => self.txgs.keep_dirty(is_on),
            Push::AwaitedIsUrgent => self.txgs.set_awaited_urgent(is_on),
            Push::History => self.txgs.keep_records(number),
            Push::Throttle => self.choose_throttle(),
            Push::IndirectShift => self.set_indirect_shift(value),
            Push::RecordMax => self.set_record_max(value),
            Push::Checksum => self.set_checksum(),
            Push::Queue(limit) => self.queues.set(limit, value),
            Push::IssueThreads => self.writer.set_issue_threads(number),
            Push::InFlightMax => self.writer.set_in_flight_max(value),
            Push::Counting => self.set_counting(is_on),
        }
    }
}
