//! Devices of a pool that are there and may not be opened.

use pool::{Absence, Candidate, SearchOptions, denied};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Files and disks that this user may not read, each of which is a device of this pool that was not
/// found, by its path or by its name in one of these places.
#[must_use]
pub fn denied_devices(candidate: &Candidate, places: &[PathBuf]) -> Vec<PathBuf> {
    let missing = candidate.missing(&candidate.tree, u64::MAX).into_iter();
    let absent = missing.filter(|m| m.absence == Absence::NotFound);
    let named: Vec<PathBuf> = absent.filter_map(|m| m.path.map(PathBuf::from)).collect();
    if named.is_empty() {
        return Vec::new();
    }
    let is_device = |path: &PathBuf| named.iter().any(|n| n.file_name() == path.file_name());
    let usual = named.iter().filter(|path| path.is_absolute());
    let paths: Vec<PathBuf> = usual.chain(places).cloned().collect();
    if paths.is_empty() {
        return Vec::new();
    }
    let found = denied(&SearchOptions { paths, ..SearchOptions::default() });
    let resolved = found.into_iter().filter(is_device).map(|p| p.canonicalize().unwrap_or(p));
    let devices: BTreeSet<PathBuf> = resolved.collect();
    devices.into_iter().collect()
}
