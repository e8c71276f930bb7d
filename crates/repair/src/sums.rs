//! Sums that do not add up, in datasets, directories and lists of blocks.
//!
//! A sum that is wrong makes others look wrong that are counted from it: what a dataset refers to
//! is counted from the snapshot before it, what a directory uses from those below. So in a round
//! only such are set right that are counted from nothing else that is wrong. They are changed by
//! the difference, because the repair's own writes count too.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use check::{Issue, Report};
use ondisk::bpobj::{BpobjHeader, Space};
use ondisk::deadlist::{DeadlistHeader, Form};
use ondisk::{DmuType, DslDataset, DslDir};
use pool::Pool;
use pool::live::{LivePool, TaskCx};
use std::collections::{BTreeMap, BTreeSet};

/// A sum of a dataset or directory.
#[derive(Clone)]
struct Sum {
    name: String,
    object: u64,
    field: &'static str,
    stored: u64,
    counted: u64,
}

/// Their name in a plan if they cannot be repaired.
const SUMS: &str = "sums of datasets and lists of blocks";

/// The sums that are set right in one round.
#[derive(Default)]
pub(crate) struct Sums {
    datasets: Vec<Sum>,
    /// Lists of blocks, with their right sums.
    lists: Vec<(u64, Space)>,
}

fn delta(now: u64, from: u64, to: u64) -> u64 {
    now.wrapping_add(to.wrapping_sub(from))
}

/// The word of a dataset.
fn of_dataset<'a>(d: &'a mut DslDataset, field: &str) -> Option<&'a mut u64> {
    Some(match field {
        "referenced" => &mut d.referenced,
        "compressed" => &mut d.compressed,
        "uncompressed" => &mut d.uncompressed,
        "unique" => &mut d.unique,
        _ => return None,
    })
}

/// The word of a directory.
fn of_dir<'a>(d: &'a mut DslDir, field: &str) -> Option<&'a mut u64> {
    let [head, snap, child, child_reserved, reserved] = &mut d.used_breakdown;
    Some(match field {
        "used" => &mut d.used,
        "compressed" => &mut d.compressed,
        "uncompressed" => &mut d.uncompressed,
        "used by the dataset" => head,
        "used by snapshots" => snap,
        "used by children" => child,
        "reserved by children" => child_reserved,
        "used by refreservation" => reserved,
        _ => return None,
    })
}

impl Sums {
    pub(crate) fn is_empty(&self) -> bool {
        self.datasets.is_empty() && self.lists.is_empty()
    }

    /// Those of what the check found that can be set right now.
    pub(crate) fn decide(pool: &Pool, report: &Report, attempts: &Attempts) -> Self {
        let mut out = Self::default();
        if attempts.has_failed(SUMS) {
            return out;
        }
        let mut wrong = BTreeMap::<u64, Vec<Sum>>::new();
        let mut broken = BTreeSet::new();
        for issue in &report.issues {
            match issue {
                Issue::DatasetSpace { dataset, object, field, stored, counted } => {
                    let (name, object) = (dataset.to_string(), *object);
                    let (stored, counted) = (*stored, *counted);
                    let sum = Sum { name, object, field, stored, counted };
                    wrong.entry(object).or_default().push(sum);
                }
                Issue::BlockList { at, .. } => {
                    broken.insert(at.place.object);
                }
                _ => {}
            }
        }
        for list in broken {
            if let Ok(Some(space)) = wrong_list(pool, list) {
                out.lists.push((list, space));
            }
        }
        // The space of datasets is summed with their dead lists.
        if !out.lists.is_empty() {
            return out;
        }
        let is_wrong = |object: u64| wrong.contains_key(&object);
        for (object, sums) in &wrong {
            let bonus = pool.mos().object(*object).map(|o| (o.dnode().bonus_kind, o));
            let Ok((kind, record)) = bonus else { continue };
            let (bytes, endian) = (&record.dnode().bonus, record.dnode().endian);
            let ready = match kind {
                DmuType::DSL_DATASET => DslDataset::decode(bytes, endian)
                    .is_ok_and(|d| d.prev_snap == 0 || !is_wrong(d.prev_snap)),
                DmuType::DSL_DIR => DslDir::decode(bytes, endian)
                    .is_ok_and(|d| is_counted(pool, *object, &d, &is_wrong)),
                _ => false,
            };
            if ready {
                // The total comes after its parts.
                let has_parts = sums.iter().any(|s| s.field != "used");
                let chosen = sums.iter().filter(|s| s.field != "used" || !has_parts);
                out.datasets.extend(chosen.cloned());
            }
        }
        out
    }

    /// Sets them right: one change, all or none.
    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        if self.is_empty() {
            return Ok(());
        }
        let mut steps = Vec::new();
        for sum in &self.datasets {
            let of = format!("{} of {}", sum.field, sum.name);
            steps.push(Step::Sum { of, from: sum.stored, to: sum.counted });
        }
        for (list, space) in &self.lists {
            let of = format!("the sums of block list {list}");
            steps.push(Step::List { of, used: space.used });
        }
        attempts.make(live, SUMS, || live.run(move |cx| self.write(cx)).map(|()| steps))
    }

    fn write(&self, cx: &TaskCx<'_>) -> pool::Result<()> {
        let (mos, tx) = (cx.dsl().mos, cx.tx);
        for sum in &self.datasets {
            let object = mos.object(sum.object)?;
            let (endian, kind) = (object.dnode().endian, object.dnode().bonus_kind);
            let bonus = object.dnode().bonus.clone();
            let change = |word: Option<&mut u64>| {
                if let Some(word) = word {
                    *word = delta(*word, sum.stored, sum.counted);
                }
            };
            let bytes = match kind {
                DmuType::DSL_DATASET => {
                    let mut d = DslDataset::decode(&bonus, endian)
                        .map_err(|e| object.format_error(0, e))?;
                    change(of_dataset(&mut d, sum.field));
                    d.encode(endian)
                }
                DmuType::DSL_DIR => {
                    let mut d =
                        DslDir::decode(&bonus, endian).map_err(|e| object.format_error(0, e))?;
                    change(of_dir(&mut d, sum.field));
                    d.encode(endian)
                }
                _ => continue,
            };
            object.set_bonus(tx, kind, &bytes)?;
        }
        for (list, space) in &self.lists {
            let object = mos.object(*list)?;
            let (endian, kind) = (object.dnode().endian, object.dnode().bonus_kind);
            let bytes = match Form::of(kind) {
                Some(Form::Zap) => DeadlistHeader::new(*space).encode(endian),
                _ => {
                    let header = BpobjHeader::decode(&object.dnode().bonus, endian)
                        .map_err(|e| object.format_error(0, e))?;
                    let accounting =
                        header.accounting.map(|_| [space.compressed, space.uncompressed]);
                    BpobjHeader { bytes: space.used, accounting, ..header }.encode(endian)
                }
            };
            object.set_bonus(tx, kind, &bytes)?;
        }
        Ok(())
    }
}

/// Whether nothing is wrong of which the sums of a directory are made: its datasets, and the
/// directories below.
fn is_counted(pool: &Pool, number: u64, dir: &DslDir, is_wrong: &dyn Fn(u64) -> bool) -> bool {
    let mut head = Some(dir.head_dataset);
    let mut seen = BTreeSet::new();
    // Its head, and the snapshots before that are its own.
    while let Some(object) = head.filter(|n| *n != 0) {
        if is_wrong(object) || !seen.insert(object) {
            return false;
        }
        let record = pool.mos().object(object).ok();
        let dataset =
            record.and_then(|o| DslDataset::decode(&o.dnode().bonus, o.dnode().endian).ok());
        head = dataset.filter(|d| d.dir == number).map(|d| d.prev_snap);
    }
    if dir.child_zap == 0 {
        return true;
    }
    let table = pool.mos().object(dir.child_zap).and_then(|o| dmu::Zap::open(&o));
    let children = table.and_then(|z| z.to_vec()).unwrap_or_default();
    !children.iter().filter_map(dmu::ZapEntry::u64).any(is_wrong)
}

/// The right sum of a list, if the stored one is another.
pub(crate) fn wrong_list(pool: &Pool, number: u64) -> dmu::Result<Option<Space>> {
    let mos = pool.mos();
    let object = mos.object(number)?;
    let (bonus, endian) = (&object.dnode().bonus, object.dnode().endian);
    let mut space = Space::default();
    let mut add = |e: &ondisk::bpobj::Entry| {
        let one = check::space_of(pool, &e.0);
        space.used = space.used.saturating_add(one.used);
        space.compressed = space.compressed.saturating_add(one.compressed);
        space.uncompressed = space.uncompressed.saturating_add(one.uncompressed);
    };
    let stored = match Form::of(object.dnode().bonus_kind) {
        Some(Form::Zap) => {
            for list in dmu::deadlist::keys(mos, number)?.into_values() {
                dmu::bpobj::entries(mos, list, &mut add)?;
            }
            DeadlistHeader::decode(bonus, endian).map(|h| h.space())
        }
        _ => {
            dmu::bpobj::entries(mos, number, &mut add)?;
            BpobjHeader::decode(bonus, endian).map(|h| h.space())
        }
    };
    Ok(Some(space).filter(|space| stored.is_ok_and(|stored| stored != *space)))
}
