//! Datasets that do not refer to each other both ways.
//!
//! What one dataset says of another is also said by others: a snapshot by what comes after it, a
//! clone by its origin, a txg by all that come after and by the keys of dead lists. Only where
//! these decide it, it is corrected, first the fields of datasets and then, in a later round, the
//! tables of clones and of names, which are judged by the fields.

use crate::attempts::{Attempts, RoundEnd};
use crate::plan::Step;
use crate::tables::{Table, datasets};
use check::{Issue, Report};
use dsl::Dataset;
use ondisk::{DmuType, DslDataset};
use pool::Pool;
use pool::UnguardedDatasets as _;
use pool::live::{LivePool, TaskCx};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the fields in a plan if they cannot be repaired.
const FIELDS: &str = "what datasets say of each other";

/// What a dataset says of others, by its name in a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Before,
    BeforeTxg,
    Next,
    Children,
    Created,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "the snapshot before",
            Self::BeforeTxg => "the txg of the snapshot before",
            Self::Next => "what comes after",
            Self::Children => "the children of",
            Self::Created => "the txg of",
        }
    }

    fn of(self, d: &mut DslDataset) -> &mut u64 {
        match self {
            Self::Before => &mut d.prev_snap,
            Self::BeforeTxg => &mut d.prev_snap_txg,
            Self::Next => &mut d.next_snap,
            Self::Children => &mut d.num_children,
            Self::Created => &mut d.creation_txg,
        }
    }
}

/// A field that is corrected.
struct Correction {
    dataset: u64,
    name: String,
    field: Field,
    from: u64,
    to: u64,
}

/// What is corrected in one round.
#[derive(Default)]
pub(crate) struct Links {
    fields: Vec<Correction>,
    tables: Vec<Table>,
}

impl Links {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.tables.is_empty()
    }

    pub(crate) fn decide(pool: &Pool, report: &Report, attempts: &Attempts) -> Self {
        let is_link = |i: &Issue| matches!(i, Issue::DatasetLinks { .. });
        if !report.issues.iter().any(is_link) {
            return Self::default();
        }
        let names = names(pool);
        let all: BTreeMap<u64, Dataset> = datasets(pool).map(|d| (d.object, d)).collect();
        let mut out = Self::default();
        if !attempts.has_failed(FIELDS) {
            for (number, dataset) in &all {
                let name = names.get(number).cloned();
                let name = name.unwrap_or_else(|| format!("dataset {number}"));
                let add = |(field, from, to): (Field, u64, u64)| Correction {
                    dataset: *number,
                    name: name.clone(),
                    field,
                    from,
                    to,
                };
                out.fields.extend(wrong_fields(pool, dataset, &all).into_iter().map(add));
            }
        }
        if out.fields.is_empty() {
            out.tables = all.values().flat_map(|d| wrong_tables(pool, d)).collect();
            out.tables.retain(|table| !attempts.has_failed(table.what()));
        }
        out
    }

    pub(crate) fn mend(
        self,
        live: &LivePool,
        attempts: &mut Attempts,
    ) -> std::result::Result<(), RoundEnd> {
        if !self.fields.is_empty() {
            let step = |c: &Correction| {
                let of = format!("{} {}", c.field.name(), c.name);
                Step::Sum { of, from: c.from, to: c.to }
            };
            let steps: Vec<Step> = self.fields.iter().map(step).collect();
            let fields = self.fields;
            attempts
                .make(live, FIELDS, || live.run(move |cx| write(cx, &fields)).map(|()| steps))?;
        }
        self.tables.into_iter().try_for_each(|table| table.mend(live, attempts))
    }
}

/// The names of datasets, by object.
fn names(pool: &Pool) -> BTreeMap<u64, String> {
    let all = pool.dsl().datasets().into_iter();
    all.filter_map(|(name, dataset)| Some((dataset.ok()?.object, name))).collect()
}

/// The datasets whose snapshot before is `snapshot`.
fn behind<'a>(
    all: &'a BTreeMap<u64, Dataset>,
    snapshot: &'a Dataset,
) -> impl Iterator<Item = &'a Dataset> {
    all.values().filter(|d| d.phys.prev_snap == snapshot.object)
}

/// The only one; none where there are several.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next();
    first.filter(|_| all.next().is_none())
}

/// The txg of a snapshot, if it and what comes after it do not say the same: that which most say.
/// The dead lists of later datasets have it as a key, too.
fn txg_of(pool: &Pool, snapshot: &Dataset, all: &BTreeMap<u64, Dataset>) -> Option<u64> {
    let mut votes = BTreeMap::from([(snapshot.phys.creation_txg, 1u64)]);
    for after in behind(all, snapshot) {
        *votes.entry(after.phys.prev_snap_txg).or_default() += 1;
    }
    if votes.len() < 2 {
        return None;
    }
    let keys = |d: &Dataset| dmu::deadlist::keys(pool.mos(), d.phys.deadlist).unwrap_or_default();
    let keys: BTreeSet<u64> = all.values().flat_map(|d| keys(d).into_keys()).collect();
    votes.iter_mut().for_each(|(txg, times)| *times += u64::from(keys.contains(txg)));
    let most = votes.values().copied().max()?;
    only(votes.into_iter().filter(|(_, times)| *times == most)).map(|(txg, _)| txg)
}

/// The fields of a dataset that contradict others which decide them: with what they are to be.
fn wrong_fields(pool: &Pool, d: &Dataset, all: &BTreeMap<u64, Dataset>) -> Vec<(Field, u64, u64)> {
    let mut out = Vec::new();
    let mut differs = |field: Field, to: u64| {
        let mut phys = d.phys;
        let from = *field.of(&mut phys);
        out.extend((from != to).then_some((field, from, to)));
    };
    match all.get(&d.phys.prev_snap) {
        None if d.phys.prev_snap != 0 => {
            let is_before = |s: &&Dataset| s.phys.is_snapshot() && s.phys.next_snap == d.object;
            let origin = Some(d.dir.phys.origin).filter(|n| all.contains_key(n));
            let before = only(all.values().filter(is_before)).map(|s| s.object);
            if let Some(before) = before.or(origin) {
                differs(Field::Before, before);
            }
        }
        Some(before) => {
            if let Some(txg) = txg_of(pool, before, all) {
                differs(Field::BeforeTxg, txg);
            }
        }
        _ => {}
    }
    if !d.phys.is_snapshot() {
        return out;
    }
    if let Some(txg) = txg_of(pool, d, all) {
        differs(Field::Created, txg);
    }
    let next = only(behind(all, d).filter(|after| after.phys.dir == d.phys.dir));
    let next = next.map_or(d.phys.next_snap, |after| after.object);
    if all.contains_key(&next) {
        differs(Field::Next, next);
        if d.phys.next_clones != 0 {
            let clones = behind(all, d).filter(|after| after.object != next).count();
            differs(Field::Children, clones as u64 + 1);
        }
    }
    out
}

/// The tables of a dataset that have other entries than the fields of datasets say.
fn wrong_tables(pool: &Pool, d: &Dataset) -> Vec<Table> {
    let tables = [
        (d.phys.next_clones, DmuType::NEXT_CLONES),
        (d.phys.snapnames_zap, DmuType::DSL_DS_SNAP_MAP),
    ];
    let there: BTreeSet<(u64, u8)> =
        tables.iter().filter(|(n, _)| *n != 0).map(|(n, kind)| (*n, kind.0)).collect();
    there.into_iter().filter_map(|(n, kind)| Table::unlike(pool, n, DmuType(kind))).collect()
}

fn write(cx: &TaskCx<'_>, fields: &[Correction]) -> pool::Result<()> {
    let (mos, tx) = (cx.dsl().mos, cx.tx);
    for correction in fields {
        let object = mos.object(correction.dataset)?;
        let (endian, kind) = (object.dnode().endian, object.dnode().bonus_kind);
        let mut d = DslDataset::decode(&object.dnode().bonus, endian)
            .map_err(|e| object.format_error(0, e))?;
        *correction.field.of(&mut d) = correction.to;
        object.set_bonus(tx, kind, &d.encode(endian))?;
    }
    Ok(())
}
