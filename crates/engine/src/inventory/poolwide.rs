//! What the manifest says about the pool as a whole.

use super::json::Json;
use super::json::Members;
use super::member;
use crate::Pool;

/// The members before `datasets`.
pub(super) fn members(pool: &Pool, read_only: bool) -> Members {
    let _ = read_only;
    let mut out = vec![member("format", Json::Int(1)), member("pool", pool.name())];
    out.push(member("guid", pool.guid().to_string()));
    out.push(member("vdev_files", device_files(pool)));
    out
}

/// Names of the files or devices the pool was found on, those with numbers in their order.
fn device_files(pool: &Pool) -> Json {
    let candidate = pool.candidate();
    let all = candidate.leaves.values().chain(candidate.aux.values());
    let name = |l: &pool::LeafSight| l.path.file_name().map(|n| n.to_string_lossy().into_owned());
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
    let logged = |dir: dsl::Result<std::sync::Arc<dsl::Dir>>| {
        let head = dir.ok().and_then(|d| pool.dsl().head(&d).ok()).flatten();
        let objset = head.and_then(|h| pool.dsl().objset(&h).ok());
        objset.is_some_and(|os| !os.phys().zil.log.is_hole())
    };
    pool.candidate().state() == pool::CandidateState::Active
        && pool.dsl().walk().into_iter().any(|(_, dir)| logged(dir))
}
