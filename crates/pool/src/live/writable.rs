//! Whether a pool can be changed by this engine, and if not, why.
//!
//! What is not understood is never rewritten: a pool in a state, or with an active feature, whose
//! upkeep is not implemented is opened read-only, and each reason is named.

use super::features::is_writable;
use super::log::{CutLog, LogDevices, cut_logs, missing_logs, why_not_replayed};
use crate::error::{Absence, MissingDevice};
use crate::obstacle::Obstacle;
use crate::open::{Pool, STALE_DEVICES};
use ondisk::{Endian, features, mos};

/// Whether the pool's version and the features in use are such that this engine writes them.
pub(crate) fn can_write_features(pool: &Pool) -> bool {
    let known = pool.features();
    let mut active = known.for_read.iter().chain(&known.for_write).filter(|(_, n)| *n > 0);
    pool.config().version == 5000
        && active.all(|(guid, _)| features::by_guid(guid).is_some_and(is_writable))
}

/// Everything that stands in the way of writing to the pool; empty when nothing does.
pub fn obstacles(pool: &Pool, logs: LogDevices) -> dmu::Result<Vec<Obstacle>> {
    let mut out = Vec::new();
    if pool.config().version != 5000 {
        out.push(Obstacle::Version(pool.config().version));
        return Ok(out);
    }
    if pool.uberblock().rootbp.byteorder() == Endian::Big {
        out.push(Obstacle::BigEndian);
    }
    out.extend(pool.salvage().iter().map(|s| match s.what {
        STALE_DEVICES => Obstacle::OutOfUse(out_of_use(pool)),
        what => Obstacle::Salvaged(what.to_owned()),
    }));
    let known = pool.features();
    let active = known.for_read.iter().chain(&known.for_write).filter(|(_, n)| *n > 0);
    for (guid, _) in active {
        if !features::by_guid(guid).is_some_and(is_writable) {
            out.push(Obstacle::Feature(guid.clone()));
        }
    }
    vdevs(pool, &mut out);
    let directory = pool.directory()?;
    if let Some(table) = directory.get_u64(mos::DELETED_CLONES)?.filter(|n| *n != 0)
        && dmu::Zap::open(&pool.mos().object(table)?)?.entries().next().is_some()
    {
        out.push(Obstacle::Feature("com.delphix:livelist (a clone is being freed)".to_owned()));
    }
    for entry in directory.to_vec()? {
        let name = entry.name.bytes().unwrap_or_default();
        // Tables stay behind, empty, when the last deduplicated block is gone.
        if name.starts_with(b"DDT-") && name != b"DDT-statistics" {
            let table = dmu::Zap::open(&pool.mos().object(entry.u64().unwrap_or(0))?)?;
            if table.entries().next().is_some() {
                out.push(Obstacle::Dedup);
                break;
            }
        }
    }
    let cut = cut_logs(pool);
    if logs != LogDevices::GiveUp {
        log_devices(pool, &cut, logs, &mut out);
    }
    intent_logs(pool, &cut, &mut out);
    Ok(out)
}

/// The devices that are there and must not be used, of a pool that has too few without them, each
/// with the reason.
fn out_of_use(pool: &Pool) -> Vec<String> {
    let tree = &pool.config().vdev_tree;
    let unused = pool.candidate().missing(tree, pool.uberblock().txg).into_iter();
    let there = unused.filter(|device| device.absence != Absence::NotFound);
    let described = there.map(|MissingDevice { guid, path, absence, .. }| {
        let why = match tree.find(guid) {
            Some(leaf) if leaf.offline => "taken offline".to_owned(),
            Some(leaf) if leaf.is_faulted_by_hand() => "marked FAULTED on request".to_owned(),
            _ => absence.to_string(),
        };
        format!("{} ({why})", path.unwrap_or_else(|| guid.to_string()))
    });
    described.collect()
}

fn vdevs(pool: &Pool, out: &mut Vec<Obstacle>) {
    for node in pool.vdevs().walk() {
        let mut push = |what: String| {
            out.push(Obstacle::Vdev { name: node.name().to_owned(), what });
        };
        match node.kind() {
            "root" | "mirror" | "replacing" | "spare" | "raidz" | "draid" | "leaf" | "dspare"
            | "hole" | "indirect" => {}
            kind => push(format!("{kind} vdevs are not written yet")),
        }
    }
    // Within the redundancy the pool goes on without devices.
    let is_needed =
        |t: &vdev::TopRef<'_>| !matches!(t.node().kind(), "hole" | "indirect") && !t.is_log();
    for node in pool.vdevs().tops().filter(is_needed).map(vdev::TopRef::node) {
        if !node.state().is_readable() {
            let (name, state) = (node.name().to_owned(), node.state());
            let what = match node.reason().to_string() {
                reason if reason.is_empty() => format!("is {state}"),
                reason => format!("is {state} ({reason})"),
            };
            out.push(Obstacle::Vdev { name, what });
        }
    }
    diverged(pool, out);
}

/// Devices that were written without the others. Which side is to stay is for a person to say, and
/// as long as none is taken away the next one to open the pool could pick either.
fn diverged(pool: &Pool, out: &mut Vec<Obstacle>) {
    let tree = &pool.config().vdev_tree;
    let guids = pool.candidate().diverged(tree, pool.uberblock().txg);
    for leaf in tree.walk().filter(|leaf| guids.contains(&leaf.guid)) {
        let unnamed = || format!("{} ({})", leaf.kind.name(), leaf.guid);
        let (guid, name) = (leaf.guid, leaf.path.clone().unwrap_or_else(unnamed));
        out.push(Obstacle::Diverged { guid, name });
    }
}

/// Log devices that are missing.
fn log_devices(pool: &Pool, cut: &[CutLog], logs: LogDevices, out: &mut Vec<Obstacle>) {
    for (id, name) in missing_logs(pool) {
        let leads_there = |c: &&CutLog| c.at.contains(&id);
        let datasets = cut.iter().filter(leads_there).map(|c| c.dataset.clone());
        let datasets: Vec<String> = datasets.collect();
        let is_needed = logs == LogDevices::Needed && is_missing(pool, id);
        if is_needed || !datasets.is_empty() {
            out.push(Obstacle::LogDevice { name, datasets });
        }
    }
}

/// A device of this top-level vdev is not there, and nothing but that keeps it from being used. One
/// that the administrator took out is not missing, and one that failed is there: its logs ended.
fn is_missing(pool: &Pool, top: u64) -> bool {
    let top = pool.config().vdev_tree.children.iter().find(|t| t.id == top);
    let mut leaves = top.into_iter().flat_map(|t| t.walk()).filter(|v| v.children.is_empty());
    leaves.any(|leaf| {
        let is_taken_out = leaf.offline || leaf.is_faulted_by_hand();
        let has_failed = leaf.faulted && pool.candidate().leaves.contains_key(&leaf.guid);
        !is_taken_out && !has_failed
    })
}

fn intent_logs(pool: &Pool, cut: &[CutLog], out: &mut Vec<Obstacle>) {
    let is_rewound = pool.uberblock().checkpoint_txg != 0;
    for (name, dataset) in pool.dsl().datasets() {
        let Ok(dataset) = dataset else {
            out.push(Obstacle::Dataset(name));
            continue;
        };
        let is_cut = cut.iter().any(|c| c.dataset == name);
        if dataset.is_snapshot() || dataset.phys.bp.is_hole() || is_cut {
            continue;
        }
        match pool.dsl().objset(&dataset) {
            // Of a pool that went back to its checkpoint nothing of it is replayed.
            Ok(objset) if is_rewound && objset.phys().zil.claim_txg == 0 => {}
            Ok(objset) => {
                let why = why_not_replayed(pool, &dataset, &objset);
                out.extend(why.map(|why| why.of(name)));
            }
            Err(_) => out.push(Obstacle::Dataset(name)),
        }
    }
}
