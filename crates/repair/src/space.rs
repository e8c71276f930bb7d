//! Which space maps are wrong, and what is to be in them.

use crate::plan::Step;
use check::{Issue, Report, UsedSpace};
use ondisk::config::VdevConfig;
use pool::{Pool, SpaceMapRebuild, TopSpec};
use std::collections::BTreeSet;

/// The name that the check uses for the log space maps, which stand for all maps.
const LOGS: &str = "the log space maps";

/// Decides which maps are rebuilt, and returns the steps for the plan; `None`: all are right.
pub(crate) fn decide(
    pool: &Pool,
    report: &Report,
    taken: &UsedSpace,
) -> Option<(SpaceMapRebuild, Vec<Step>)> {
    let tops = &pool.config().vdev_tree.children;
    let specs: Vec<TopSpec> =
        tops.iter().filter_map(|t: &VdevConfig| TopSpec::of(t, pool.reader())).collect();
    let drop_logs =
        report.issues.iter().any(|i| matches!(i, Issue::Unopened { what, .. } if *what == LOGS));
    let kinds = ["leaked", "used-but-free", "space-map"];
    let all = drop_logs || kinds.iter().any(|kind| report.dropped.contains_key(kind));
    // Space that an entry of a dedup table names is free when the entry is gone.
    let may_free = taken.is_complete();
    let mut wrong = BTreeSet::new();
    let (mut freed, mut used) = (0u64, 0u64);
    for issue in &report.issues {
        let (vdev, from, size) = match issue {
            Issue::Leaked { vdev, offset, size, .. } if may_free => {
                freed = freed.saturating_add(*size);
                (*vdev, *offset, *size)
            }
            Issue::UsedButFree { vdev, offset, size, .. } => {
                used = used.saturating_add(*size);
                (*vdev, *offset, *size)
            }
            Issue::SpaceMap { vdev, metaslab, .. } => {
                wrong.insert((*vdev, *metaslab));
                continue;
            }
            _ => continue,
        };
        let shift = specs.iter().find(|s| s.id == vdev).map_or(63, |s| s.ms_shift);
        let last = from.saturating_add(size.saturating_sub(1));
        wrong.extend((from >> shift..=last >> shift).map(|index| (vdev, index)));
    }
    let mut anew = SpaceMapRebuild { drop_logs, ..SpaceMapRebuild::default() };
    let mut of = 0;
    for spec in &specs {
        of += spec.ms_count;
        for index in (0..spec.ms_count).filter(|i| all || wrong.contains(&(spec.id, *i))) {
            let (from, to) = spec.bounds(index);
            anew.allocated.insert((spec.id, index), taken.ranges(spec.id, from, to));
        }
    }
    if anew.allocated.is_empty() {
        return None;
    }
    let maps = anew.allocated.len() as u64;
    let mut steps = vec![Step::SpaceMaps { maps, of, freed, taken: used }];
    steps.extend(drop_logs.then_some(Step::LogSpaceMaps));
    Some((anew, steps))
}
