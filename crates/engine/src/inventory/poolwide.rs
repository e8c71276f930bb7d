//! The pool-wide part of a manifest.

use super::json::{Json, Members};
use super::{Reports, member};
use crate::Pool;

/// The members before `datasets`.
pub(super) fn members(pool: &Pool, read_only: bool, reports: Reports) -> Members {
    let space = pool.space();
    let mut properties: Vec<(String, String)> =
        pool.properties(&space).into_iter().map(|p| (p.name, p.value)).collect();
    as_imported(&mut properties, read_only);
    let value = |name: &str| {
        let found = properties.iter().find(|(n, _)| n == name);
        found.map_or("-", |(_, v)| v.as_str()).to_owned()
    };
    let mut out = vec![member("format", Json::Int(1)), member("pool", pool.name())];
    out.push(member("guid", pool.guid().to_string()));
    out.push(member("vdev_files", device_files(pool)));
    out.push(member("ashift", value("ashift")));
    out.push(member("pool_state", value("health")));
    out.push(member("status", reports.status));
    out.push(member("vdev_list", reports.vdev_list));
    let (mut native, mut features) = (Members::new(), Members::new());
    for (name, value) in properties {
        match name.strip_prefix("feature@") {
            Some(feature) => features.push(member(feature, value)),
            None if name.contains('@') || value == "-" || value.is_empty() => {}
            None => native.push(member(&name, value)),
        }
    }
    out.push(member("pool_properties", Json::Map(native)));
    out.push(member("features", Json::Map(features)));
    out
}

/// Replaces properties that depend on how a pool is imported by those of the import that the
/// manifest describes.
fn as_imported(properties: &mut Vec<(String, String)>, read_only: bool) {
    let mut set = |name: &str, to: String| match properties.iter_mut().find(|(n, _)| n == name) {
        Some((_, value)) => *value = to,
        None => properties.push((name.to_owned(), to)),
    };
    set("cachefile", "none".to_owned());
    set("readonly", if read_only { "on" } else { "off" }.to_owned());
    if !read_only {
        return;
    }
    // A read-only import loads neither space maps nor the table of cloned blocks.
    for name in ["allocated", "capacity", "fragmentation", "bcloneused", "bclonesaved"] {
        set(name, "0".to_owned());
    }
    set("bcloneratio", "1.00".to_owned());
    let size = properties.iter().find(|(n, _)| n == "size").map(|(_, v)| v.clone());
    if let (Some(size), Some((_, free))) = (size, properties.iter_mut().find(|(n, _)| n == "free"))
    {
        *free = size;
    }
}

/// Names of the files or devices the pool was found on, those with numbers in their order.
fn device_files(pool: &Pool) -> Json {
    let candidate = pool.candidate();
    let all = candidate.leaves.values().chain(candidate.aux.values());
    let name =
        |l: &pool::CandidateLeaf| l.path.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut names: Vec<String> = all.filter_map(name).collect();
    // `vdev10` comes after `vdev9`: by length, then by letter.
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    names.dedup();
    Json::List(names.into_iter().map(Json::from).collect())
}

/// Whether what is shown is a read-only import: the pool was not exported and has intent logs that
/// a read-write import would replay first. Such an import tells nothing of space by user, and has
/// no devices for snapshots of volumes.
pub(super) fn is_read_only_view(pool: &Pool) -> bool {
    let datasets = pool.datasets();
    let logged = |dir: dsl::Result<std::sync::Arc<dsl::Dir>>| {
        let head = dir.ok().and_then(|d| datasets.head(&d).ok()).flatten();
        let objset = head.and_then(|h| datasets.objset(&h).ok());
        objset.is_some_and(|os| !os.phys().zil.log.is_hole())
    };
    pool.candidate().state() == pool::CandidateState::Active
        && datasets.walk().into_iter().any(|(_, dir)| logged(dir))
}
