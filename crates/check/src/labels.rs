//! Labels of all devices against each other and against the pool; what is absent; known errors.

use crate::issue::Issue;
use crate::sink::Sink;
use dmu::Zap;
use ondisk::config::{LabelConfig, PoolConfig};
use ondisk::errlog::{HeadEntry, Zbookmark};
use ondisk::mos;
use pool::{LabelView, Pool};
use vdev::{NodeRef, Reason, VdevState};

/// Judges all devices.
pub(crate) fn audit(pool: &Pool, sink: &Sink) {
    let mut in_use = Vec::new();
    for leaf in pool.vdevs().leaves() {
        let (device, guid) = (leaf.name().to_owned(), leaf.guid());
        if let (Some(d), Some(size_min)) = (leaf.device(), leaf.size_missed()) {
            sink.put(Issue::DeviceShort { device, guid, size: d.size(), size_min });
        } else if !is_read(leaf) {
            let (state, reason) = (leaf.state(), leaf.reason());
            let state = match reason {
                Reason::Behind(_) => format!("{state}: {reason}"),
                _ => state.to_string(),
            };
            sink.put(Issue::DeviceAbsent { device, guid, state });
        }
        if leaf.device().is_some() && !leaf.is_stale() {
            in_use.push(leaf.guid());
        }
    }
    // Devices that were removed from the pool are ignored.
    let tree = &pool.config().vdev_tree;
    for (guid, seen) in pool.candidate().leaves.iter().filter(|(g, _)| tree.find(**g).is_some()) {
        let Some(device) = pool.device_of(*guid) else { continue };
        let views = pool::read_labels(&device);
        judge(pool, *guid, &seen.path.display().to_string(), &views, in_use.contains(guid), sink);
    }
    for salvage in pool.salvage() {
        sink.put(Issue::Unopened { what: salvage.what, cause: salvage.cause.clone() });
    }
}

/// Whether a device is read like any other. A DEGRADED one is: that only means that it has had many
/// errors.
fn is_read(leaf: NodeRef<'_>) -> bool {
    match leaf.state() {
        VdevState::Online => true,
        VdevState::Degraded => leaf.device().is_some() && !leaf.is_stale(),
        _ => false,
    }
}

fn judge(pool: &Pool, guid: u64, device: &str, views: &[LabelView], in_use: bool, sink: &Sink) {
    let put = |label, cause: String| {
        sink.put(Issue::Label { device: device.to_owned(), label, cause });
    };
    let newest = views.iter().filter_map(|v| member(v).map(|c| c.txg)).max();
    let is_half_way = is_half_way(views, newest);
    if let (true, Some(txg)) = (is_half_way, newest) {
        sink.put(Issue::LabelRound { device: device.to_owned(), txg });
    }
    for v in views {
        let config = match &v.config {
            Ok(LabelConfig::Member(c)) => c,
            Ok(LabelConfig::Aux(_)) => {
                put(v.index, "is the label of a spare or cache device".to_owned());
                continue;
            }
            Err(e) => {
                put(v.index, e.clone());
                continue;
            }
        };
        if Some(config.txg) != newest && !is_half_way {
            put(v.index, format!("has txg {}, and another label is newer", config.txg));
        }
        if config.pool_guid != pool.guid() || config.guid != Some(guid) {
            put(v.index, "belongs to another pool or device".to_owned());
        }
        if in_use && pool.config().vdev_tree.find(guid).is_none() {
            put(v.index, "names a device that the pool does not have".to_owned());
        }
    }
    for label in 0..views.len() {
        let mut found = pool.candidate().uberblocks.iter();
        let any = found.any(|u| u.leaf == guid && u.label == label);
        if !any && views.iter().any(|v| v.index == label && v.config.is_ok()) {
            put(label, "has no valid uberblock".to_owned());
        }
    }
}

/// Whether the labels are as a crash leaves them: those of even numbers are written first, and
/// those of odd numbers once the uberblock is. So there are old ones in one of the two rounds only.
fn is_half_way(views: &[LabelView], newest: Option<u64>) -> bool {
    let count = |round, is_new| {
        let of_round = views.iter().filter(|v| v.index % 2 == round);
        of_round.filter_map(member).filter(|c| (Some(c.txg) == newest) == is_new).count()
    };
    let (old_first, old_second, new_second) = (count(0, false), count(1, false), count(1, true));
    old_first + old_second > 0 && (old_first == 0 || new_second == 0)
}

fn member(v: &LabelView) -> Option<&PoolConfig> {
    match &v.config {
        Ok(LabelConfig::Member(c)) => Some(c),
        _ => None,
    }
}

/// Reports what the pool's own error logs hold.
pub(crate) fn known_errors(pool: &Pool, sink: &Sink) {
    let read = || -> dmu::Result<()> {
        let dir = pool.directory()?;
        for name in [mos::ERRLOG_LAST, mos::ERRLOG_SCRUB] {
            let Some(n) = dir.get_u64(name)?.filter(|n| *n != 0) else { continue };
            for e in Zap::open(&pool.mos().object(n)?)?.entries() {
                let e = e?;
                let key = String::from_utf8_lossy(e.name.bytes().unwrap_or_default()).into_owned();
                match (Zbookmark::parse_log_key(&key), e.u64()) {
                    (Some(b), _) => sink.put(Issue::KnownError {
                        entry: format!(
                            "dataset {}, {}",
                            b.objset,
                            block(b.object, b.level(), b.blkid)
                        ),
                    }),
                    (None, Some(list)) => heads(pool, &key, list, sink)?,
                    (None, None) => sink.put(Issue::KnownError { entry: key }),
                }
            }
        }
        Ok(())
    };
    if let Err(e) = read() {
        sink.put(Issue::Unopened { what: "the error log", cause: e.to_string() });
    }
}

/// How a block is called.
fn block(object: u64, level: i64, number: u64) -> String {
    format!("object {object}, level {level}, block {number}")
}

/// The newer form: one table per dataset.
fn heads(pool: &Pool, head: &str, list: u64, sink: &Sink) -> dmu::Result<()> {
    for e in Zap::open(&pool.mos().object(list)?)?.entries() {
        let e = e?;
        let key = String::from_utf8_lossy(e.name.bytes().unwrap_or_default()).into_owned();
        let entry = match HeadEntry::parse_log_key(&key) {
            Some(h) => format!("dataset {head}, {}", block(h.object, h.level(), h.blkid)),
            None => format!("dataset {head}: {key}"),
        };
        sink.put(Issue::KnownError { entry });
    }
    Ok(())
}
