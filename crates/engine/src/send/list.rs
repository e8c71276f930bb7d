//! The list of a package: datasets, their snapshots, properties and holds.

use super::scope::{Scope, short};
use crate::error::Result;
use dsl::{Dataset, Dsl, StoredValue};
use ondisk::nvlist::{NvList, NvPair, NvValue};
use ondisk::props::{Access, find_dataset};
use ondisk::stream::ENCRYPTION_ROOT;

/// A dataset of a package.
pub(super) struct SentDataset {
    pub(super) head: Dataset,
    /// GUID of the snapshot of the dataset above that is sent, or that is the source of it; 0 of
    /// the dataset that was named.
    pub(super) above: u64,
    /// GUID of the snapshot that it is a clone of.
    pub(super) origin: Option<u64>,
    /// And its name.
    pub(super) origin_name: Option<String>,
    /// Its snapshots up to the last that is sent, oldest first.
    pub(super) snapshots: Vec<Dataset>,
}

impl SentDataset {
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.snapshots.iter().position(|s| short(&s.name) == name)
    }

    pub(super) fn snapshot(&self, name: &str) -> Option<&Dataset> {
        self.snapshots.get(self.position(name)?)
    }
}

/// The list of these datasets: of their snapshots up to `to`, which go on from `from`.
pub(super) fn of(
    dsl: &Dsl,
    scope: &Scope,
    from: Option<&str>,
    to: &str,
    members: &[SentDataset],
) -> Result<NvList> {
    let mut list = NvList::new();
    if let Some(from) = from {
        put(&mut list, "fromsnap", text(from));
    }
    put(&mut list, "tosnap", text(to));
    if !scope.replicate {
        put(&mut list, "not_recursive", NvValue::Boolean);
    }
    if scope.raw {
        put(&mut list, "raw", NvValue::Boolean);
    }
    let mut all = NvList::new();
    for member in members {
        let one = of_member(dsl, scope, from, to, member)?;
        put(&mut all, &format!("0x{:x}", member.head.phys.guid), NvValue::NvList(one));
    }
    put(&mut list, "fss", NvValue::NvList(all));
    Ok(list)
}

/// The list entry of a dataset. Of the snapshot from which a line continues it has the GUID alone.
fn of_member(
    dsl: &Dsl,
    scope: &Scope,
    from: Option<&str>,
    to: &str,
    member: &SentDataset,
) -> Result<NvList> {
    let mut one = NvList::new();
    put(&mut one, "name", text(&member.head.name));
    put(&mut one, "parentfromsnap", NvValue::U64(member.above));
    if let Some(origin) = member.origin {
        put(&mut one, "origin", NvValue::U64(origin));
    }
    if scope.has_properties() {
        put(&mut one, "props", NvValue::NvList(properties(dsl, scope, &member.head)?));
    }
    let info = dsl.key_info(&member.head.dir)?;
    if info.is_some_and(|info| info.root_dir == member.head.dir.object) {
        put(&mut one, ENCRYPTION_ROOT, NvValue::Boolean);
    }
    let [mut guids, mut of_snapshots, mut holds] = [NvList::new(), NvList::new(), NvList::new()];
    // Without -R, nothing before the source is listed.
    let first = match (scope.replicate, from) {
        (false, Some(from)) => member.position(from).unwrap_or(0),
        _ => 0,
    };
    for snapshot in member.snapshots.iter().skip(first) {
        let name = short(&snapshot.name);
        if !(scope.is_line() || name == to) {
            continue;
        }
        put(&mut guids, name, NvValue::U64(snapshot.phys.guid));
        if !scope.replicate && Some(name) == from {
            continue;
        }
        put(&mut of_snapshots, name, NvValue::NvList(properties(dsl, scope, snapshot)?));
        if scope.holds {
            let mut tags = NvList::new();
            for hold in dsl.holds(snapshot)? {
                put(&mut tags, &hold.tag, NvValue::U64(hold.time));
            }
            put(&mut holds, name, NvValue::NvList(tags));
        }
    }
    put(&mut one, "snaps", NvValue::NvList(guids));
    put(&mut one, "snapprops", NvValue::NvList(of_snapshots));
    if scope.holds {
        put(&mut one, "snapholds", NvValue::NvList(holds));
    }
    Ok(one)
}

/// The properties that a dataset has for itself and that can be set; or those that it received.
fn properties(dsl: &Dsl, scope: &Scope, dataset: &Dataset) -> Result<NvList> {
    let mut out = NvList::new();
    let stored = dsl.stored(dataset)?;
    let mut add = |(name, value): (&str, &StoredValue)| {
        let is_sent = find_dataset(name)
            .is_none_or(|p| matches!(p.access, Access::Settable | Access::Inherit));
        if is_sent {
            let value = match value {
                StoredValue::Number(n) => NvValue::U64(*n),
                StoredValue::Text(value) => text(value),
            };
            put(&mut out, name, value);
        }
    };
    match scope.received_properties {
        true => stored.all_received().for_each(&mut add),
        false => stored.own().for_each(&mut add),
    }
    Ok(out)
}

fn text(text: &str) -> NvValue {
    NvValue::String(ondisk::spelling::stored(text))
}

fn put(list: &mut NvList, name: &str, value: NvValue) {
    // Names are unique: they are keys of tables, or fixed.
    list.pairs.push(NvPair { name: ondisk::spelling::stored(name), value });
}
