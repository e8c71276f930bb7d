//! The whole content of a pool as a manifest: every property, every file with its hash.
//!
//! # Theory
//!
//! The format is that of the test corpus, which the OpenZFS kernel module wrote: what a read-write
//! import of the pool would show to root on Linux. So a manifest of zinc and one of the kernel can
//! be compared member by member, and two manifests of zinc show what changed between them.
//!
//! It is written while the pool is read, one line for each file, and never held in memory: a
//! dataset costs the names of one directory per level, and a few thousand files in flight, or fewer
//! when their paths are long.
//!
//! Parts that cannot be read are left out and named in `errors`, up to this many bytes, behind
//! which the rest is counted; only a failure to write ends it early.

mod ctldir;
mod dataset;
mod entry;
mod errors;
mod hash;
pub mod json;
mod poolwide;
pub mod tree;

pub use entry::{Described, EntryOptions, describe, kind_name, nanoseconds, snapshot_root};
pub use hash::{Hashing, MAX_HOLE, sha256};

use crate::{Dataset, Pool};
use dmu::Objset;
use errors::Errors;
use json::{Json, Members};
use rt::Progress;
use std::io::{self, Write};

/// Opens the object set of a dataset: as it is on disk, or with its intent log replayed.
pub type OpenObjset<'a> = dyn Fn(&Dataset) -> crate::Result<Objset> + Sync + 'a;

/// The inputs of a manifest, beside the pool.
pub struct Options<'a> {
    /// Hash volumes and their snapshots.
    pub volumes: bool,
    /// `open` replays intent logs.
    pub replayed: bool,
    /// How object sets are opened.
    pub open: &'a OpenObjset<'a>,
    /// Bytes of holes in a file or volume, at most, that it is hashed with; what has more is listed
    /// with `not_hashed`. [`MAX_HOLE`] is a good one.
    pub max_hole: u64,
    /// Receives the progress: files and bytes.
    pub progress: &'a Progress,
    /// The reports that a manifest quotes.
    pub reports: &'a dyn Fn(&Pool) -> Reports,
}

/// The output of OpenZFS's commands for a pool. The words are the front end's, not the engine's.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// The text of `zpool status -P`.
    pub status: String,
    /// The text of `zpool list -vP`.
    pub vdev_list: String,
}

impl Options<'_> {
    fn hashing(&self) -> Hashing<'_> {
        Hashing { progress: self.progress, max_hole: self.max_hole }
    }
}

/// Writes the manifest of `pool`. Returns what could not be read, as it is listed in `errors`.
///
/// ```
/// use engine::inventory::{self, MAX_HOLE, Options, Reports};
///
/// # let live = engine::NewPool::new("tank").memory(128 << 20).create()?;
/// # let (pool, progress) = (live.view(), engine::Progress::new());
/// let options = Options {
///     volumes: true,
///     replayed: false,
///     open: &|dataset| Ok(pool.datasets().objset(dataset)?),
///     max_hole: MAX_HOLE,
///     progress: &progress,
///     reports: &|_| Reports::default(),
/// };
/// let mut json = Vec::new();
/// assert!(inventory::write(pool, &options, &mut json)?.is_empty());
/// assert!(json.starts_with(b"{") && json.ends_with(b"}\n"));
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// When `out` fails, or the work was cancelled through the progress.
pub fn write(
    pool: &Pool,
    options: &Options<'_>,
    out: &mut (dyn Write + Send),
) -> io::Result<Vec<String>> {
    let mut errors = Errors::default();
    out.write_all(b"{\n")?;
    let read_only = !options.replayed && poolwide::is_read_only_view(pool);
    for (name, value) in poolwide::members(pool, read_only, (options.reports)(pool)) {
        writeln!(out, " {}: {},", Json::Text(name).dump(), value.dump())?;
    }
    out.write_all(b" \"datasets\": [")?;
    dataset::write_all(pool, options, read_only, out, &mut errors)?;
    let errors = errors.into_list();
    out.write_all(b"\n ]")?;
    if !errors.is_empty() {
        let list = errors.iter().map(|e| e.as_str().into()).collect();
        write!(out, ",\n \"errors\": {}", Json::List(list).dump())?;
    }
    out.write_all(b"\n}\n")?;
    Ok(errors)
}

fn member(name: &str, value: impl Into<Json>) -> (Vec<u8>, Json) {
    (name.into(), value.into())
}

/// Members as an object; `None` when there are none.
fn some_map(members: Members) -> Option<Json> {
    (!members.is_empty()).then_some(Json::Map(members))
}
