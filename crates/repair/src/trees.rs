//! Trees of blocks that count wrongly: what pointers say is filled below them, and the space that
//! dnodes say their blocks take.
//!
//! Blocks above those of level 0 count what is below whenever they are written. So they are
//! written, and nothing else: no content is read. Trees of snapshots stay as they are.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use check::{Issue, Location, Report};
use dmu::{Hold, Objset, SpaceUse, TreeMend, Tx};
use pool::Pool;
use pool::UnguardedDatasets as _;
use pool::live::LivePool;
use std::collections::BTreeMap;
use zio::Place;

/// Room for what is written anew.
const HOLD: Hold = Hold { bytes: 1 << 20, space: SpaceUse::Free };

/// Dnodes of the smallest size in one of their blocks.
const SLOTS_SHIFT: u32 = 5;

/// What is mended of one object set.
#[derive(Default)]
struct SetMend {
    objects: BTreeMap<u64, TreeMend>,
    /// Of the dnode of the dnodes.
    meta_used: i64,
    steps: Vec<Step>,
}

/// The object sets that are mended in one round, by name.
#[derive(Default)]
pub(crate) struct Trees(BTreeMap<String, SetMend>);

/// The name of the meta object set.
const MOS: &str = "MOS";

/// The description of the repair.
fn words(set: &str) -> String {
    format!("the counts in trees of {set}")
}

impl Trees {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn decide(pool: &Pool, report: &Report, attempts: &Attempts) -> Self {
        let mut out = Self::default();
        for issue in &report.issues {
            let (Issue::FillCount { at, .. } | Issue::ObjectSpace { at, .. }) = issue else {
                continue;
            };
            let is_left = at.dataset.contains('@') || attempts.has_failed(&words(&at.dataset));
            if is_left || (at.is_pools_own() && &*at.dataset != MOS) {
                continue;
            }
            let Some(set) = objset(pool, at) else { continue };
            let mend = out.0.entry(at.dataset.to_string()).or_default();
            match issue {
                Issue::FillCount { stored, counted, .. } if mend.count(&set, at.place) => {
                    let of = format!("what is filled below {at}");
                    mend.steps.push(Step::Sum { of, from: *stored, to: *counted });
                }
                Issue::ObjectSpace { stored, counted, .. } => {
                    mend.take_space(&set, at.place.object, counted.wrapping_sub(*stored));
                    let of = format!("the space of object {} of {}", at.place.object, at.dataset);
                    mend.steps.push(Step::Sum { of, from: *stored, to: *counted });
                }
                _ => {}
            }
        }
        out.0.retain(|_, mend| !mend.steps.is_empty());
        out
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        for (name, set) in self.0 {
            let what = words(&name);
            if name == MOS {
                attempts
                    .make(live, &what, || live.run(move |cx| set.write(cx.dsl().mos, cx.tx)))?;
                continue;
            }
            // A dataset that cannot be opened is left as it is, and the plan has its issues.
            let Ok(head) = live.head(&name) else { continue };
            attempts.make(live, &what, || {
                let tx = head.objset.begin(HOLD)?;
                set.write(&head.objset, &tx)
            })?;
        }
        Ok(())
    }
}

/// The object set in which a place is.
fn objset(pool: &Pool, at: &Location) -> Option<Objset> {
    match at.place.objset {
        0 => Some(pool.mos().clone()),
        _ => pool.dsl().objset(&pool.dsl().by_name(&at.dataset).ok()?).ok(),
    }
}

impl SetMend {
    /// Has the pointer to a block counted anew; false if nothing leads there.
    fn count(&mut self, set: &Objset, place: Place) -> bool {
        if place.level == Place::LEVEL_OBJSET {
            return self.touch(set, 0);
        }
        let Ok(level) = u32::try_from(place.level) else { return false };
        if place.object == 0 {
            let Some(meta) = set.meta_object() else { return false };
            return self.touch(set, first_below(&meta, place.blkid, level) << SLOTS_SHIFT);
        }
        let Ok(object) = set.object(place.object) else { return false };
        let block = first_below(&object, place.blkid, level);
        self.objects.entry(place.object).or_default().above.insert(block);
        true
    }

    /// Writes the first object from a number on anew: that counts its block, and those above.
    fn touch(&mut self, set: &Objset, from: u64) -> bool {
        let mut objects = set.objects_from(from.max(1)).filter_map(Result::ok);
        objects.next().is_some_and(|object| {
            self.objects.entry(object.number()).or_default();
            true
        })
    }

    fn take_space(&mut self, set: &Objset, object: u64, change: u64) {
        let change = change.cast_signed();
        if object == 0 {
            self.meta_used = self.meta_used.saturating_add(change);
            self.touch(set, 0);
            return;
        }
        let mend = self.objects.entry(object).or_default();
        mend.used = mend.used.saturating_add(change);
    }

    fn write(self, set: &Objset, tx: &Tx) -> pool::Result<Vec<Step>> {
        // Of objects that are gone nothing is wrong.
        let objects = self.objects.iter();
        let objects: Vec<_> =
            objects.filter_map(|(n, mend)| Some((set.object(*n).ok()?, mend))).collect();
        set.mend_meta_used(self.meta_used)?;
        objects.iter().try_for_each(|(object, mend)| object.mend_tree(tx, mend))?;
        Ok(self.steps)
    }
}

/// The first block of level 0 that is below this one of `level`.
fn first_below(object: &dmu::Object, blkid: u64, level: u32) -> u64 {
    let shift = object.dnode().pointers_per_indirect().ilog2().saturating_mul(level);
    blkid.checked_shl(shift).unwrap_or(0)
}
