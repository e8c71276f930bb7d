//! `zinc zfs set` and `zinc zfs inherit`: properties of datasets that are there.

use super::below::heads;
use super::changes::{Target, divide, number};
use super::reserve;
use super::snapshot::one_pool;
use crate::cannot::cannot;
use crate::failure::Failure;
use crate::kept;
use crate::live::LiveArgs;
use engine::PropertyChange;
use engine::props::{find_dataset, is_user_property};
use engine::{Dataset, DatasetKind, PropertyContext, StoredValue};
use engine::{Dsl, LivePool};
use std::process::ExitCode;

/// Arguments of `zinc zfs set`.
#[derive(clap::Args)]
pub struct Set {
    #[command(flatten)]
    live: LiveArgs,
    /// Accepted; zinc mounts nothing here
    #[arg(short = 'u')]
    unmounted: bool,
    /// Properties, then the datasets of one pool that get them
    #[arg(required = true, num_args = 2.., value_name = "PROPERTY=VALUE|DATASET")]
    words: Vec<String>,
}

/// Arguments of `zinc zfs inherit`.
#[derive(clap::Args)]
pub struct Inherit {
    #[command(flatten)]
    live: LiveArgs,
    /// Of all datasets below too
    #[arg(short = 'r')]
    recursive: bool,
    /// Have the value again that was received, if one was
    #[arg(short = 'S')]
    received: bool,
    /// The property
    property: String,
    /// Datasets of one pool
    #[arg(required = true, value_name = "DATASET")]
    names: Vec<String>,
}

impl Set {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let (settings, names): (Vec<_>, Vec<_>) = self.words.iter().partition(|w| w.contains('='));
        let names: Vec<String> = names.into_iter().cloned().collect();
        let Some(first) = names.first() else {
            return Err(Failure::usage("missing dataset name"));
        };
        if settings.is_empty() {
            return Err(Failure::usage("missing property=value argument"));
        }
        one_pool(&names)?;
        self.live.change(first, |pool| {
            let mut changes = Vec::new();
            for name in &names {
                let dataset = dataset(pool.view().dsl(), "set property for", name)?;
                for setting in &settings {
                    let (property, value) = divide(setting)?;
                    changes.extend(change(pool, &dataset, property, value)?);
                }
            }
            let done = pool.set_properties(changes);
            done.map_err(|e| cannot("set property for", first, e))
        })?;
        kept::note(settings);
        Ok(ExitCode::SUCCESS)
    }
}

fn dataset(dsl: &Dsl, doing: &str, name: &str) -> Result<Dataset, Failure> {
    dsl.by_name(name).map_err(|e| cannot(doing, name, e))
}

/// What one property of a dataset changes; a volume's size changes at once.
fn change(
    pool: &LivePool,
    dataset: &Dataset,
    property: &str,
    value: &str,
) -> Result<Vec<(String, PropertyChange)>, Failure> {
    let name = &dataset.name;
    let kind = pool.view().dsl().kind(dataset);
    let target = Target { doing: "set property for", name, kind, is_new: false };
    if dataset.is_snapshot() && !is_user_property(property) {
        let what = format!("'{property}' cannot be set on snapshots");
        return Err(Failure::new(format!("cannot set property for '{name}': {what}")));
    }
    let property = find_dataset(property).map_or(property, |p| p.name);
    let one = |change| Ok(vec![(name.clone(), change)]);
    match (property, kind) {
        ("volsize", DatasetKind::Volume) => {
            let wanted = number(&[target.change(property, value)?], property).unwrap_or(0);
            resize(pool, dataset, wanted)
        }
        ("refreservation", DatasetKind::Volume) if value == "auto" => {
            one(whole_volume(pool, dataset)?)
        }
        ("keylocation", _) => {
            let change = target.change(property, value)?;
            check_keylocation(pool.view().dsl(), dataset, value)?;
            one(change)
        }
        _ => one(target.change(property, value)?),
    }
}

/// Where a key is can be said of what has one of its own, and of nothing else.
fn check_keylocation(dsl: &Dsl, dataset: &Dataset, value: &str) -> Result<(), Failure> {
    let why = match (dsl.encryption_root(&dataset.dir)?, value) {
        (None, "none") => return Ok(()),
        (None, _) => "keylocation must be 'none' for unencrypted datasets",
        (Some(_), "none") => "keylocation must not be 'none' for encrypted datasets",
        (Some(root), _) if root != dataset.name => {
            "keylocation may only be set on encryption roots"
        }
        _ => return Ok(()),
    };
    Err(Failure::new(format!("cannot set property for '{}': {why}", dataset.name)))
}

/// The reservation by which all of a volume can always be written.
pub fn whole_volume(pool: &LivePool, dataset: &Dataset) -> Result<PropertyChange, Failure> {
    let volume = engine::Volume::open(&pool.view().dsl().objset(dataset)?)?;
    let bytes = reserved(pool, dataset, volume.size(), volume.block_size())?;
    Ok(number_change("refreservation", bytes))
}

fn number_change(name: &str, n: u64) -> PropertyChange {
    PropertyChange { name: name.to_owned(), value: Some(StoredValue::Number(n)) }
}

fn numeric(pool: &LivePool, dataset: &Dataset, name: &str) -> Result<u64, Failure> {
    let found = pool.view().dsl().property(dataset, &PropertyContext::default(), name)?;
    Ok(found.and_then(|p| p.number()).unwrap_or(0))
}

fn reserved(pool: &LivePool, volume: &Dataset, size: u64, block: u64) -> Result<u64, Failure> {
    let copies = numeric(pool, volume, "copies")?.max(1);
    Ok(reserve::for_volume(size, block, copies, &pool.view().config().vdev_tree))
}

/// Gives a volume another size. A reservation for all of it follows.
fn resize(
    pool: &LivePool,
    dataset: &Dataset,
    size: u64,
) -> Result<Vec<(String, PropertyChange)>, Failure> {
    let name = &dataset.name;
    let fail = |e| cannot("set property for", name, e);
    let mut volume = pool.volume(name).map_err(fail)?;
    let (old, block) = (volume.size(), volume.block_size());
    let had = numeric(pool, dataset, "refreservation")?;
    let follows = had != 0 && had == reserved(pool, dataset, old, block)?;
    let reservation = |size| -> Result<Vec<_>, Failure> {
        let bytes = reserved(pool, dataset, size, block)?;
        Ok(vec![(name.clone(), number_change("refreservation", bytes))])
    };
    // What grows is reserved first, so that a pool without room refuses before anything changed.
    if follows && size > old {
        pool.set_properties(reservation(size)?).map_err(fail)?;
    }
    volume.resize(size).map_err(|e| fail(e.into()))?;
    drop(volume);
    pool.sync().map_err(fail)?;
    if follows && size < old { reservation(size) } else { Ok(Vec::new()) }
}

impl Inherit {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        one_pool(&self.names)?;
        let property = find_dataset(&self.property).map_or(&*self.property, |p| p.name);
        let known = find_dataset(property);
        let can = known.map_or(is_user_property(property), |p| p.is_inheritable() && !p.is_fixed());
        if !can {
            // A limit without a local value has its default, which is none.
            let what = match known {
                Some(_) => format!("'{property}' cannot be inherited"),
                None => format!("invalid property '{property}'"),
            };
            return Err(Failure::usage(what).hint("set it to its default: `zinc zfs set`"));
        }
        let first = self.names.first().map_or("", String::as_str);
        self.live.change(first, |pool| {
            let dsl = pool.view().dsl();
            let still = pool.view().hold_still();
            let mut all = Vec::new();
            for name in &self.names {
                all.extend(match self.recursive && !name.contains('@') {
                    true => heads(dsl, name)?,
                    false => vec![dataset(dsl, "inherit property for", name)?],
                });
            }
            drop(still);
            let names = all.into_iter().map(|dataset| dataset.name);
            let inherit = || PropertyChange { name: property.to_owned(), value: None };
            let done = match self.received {
                true => pool.revert_property(&names.collect::<Vec<_>>(), property),
                false => pool.set_properties(names.map(|name| (name, inherit())).collect()),
            };
            done.map_err(|e| cannot("inherit property for", first, e))
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
