//! How a disk in a store is used.

use super::cache::CachePlace;
use super::format::WriterId;
use super::purse::Budget;
use core::time::Duration;
use std::path::PathBuf;

/// How a disk in a store is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a store may fail at a request before the disk counts as gone.
    pub patience: Duration,
    /// Memory of the map at most, in bytes.
    pub map_memory: u64,
    /// Bytes of writes that do not count yet at most; others wait.
    pub uncounted_max: u64,
    /// Segments after which a checkpoint is made.
    pub checkpoint_every: u64,
    /// How long what is dead is kept for readers without a pin.
    pub grace: Duration,
    /// Segments with less life than this are moved together, in percent.
    pub clean_below: u32,
    /// Bytes that are moved at a time, at most.
    pub clean_bytes: u64,
    /// What moving them may cost; `None`: it is not counted.
    pub clean_budget: Option<Budget>,
    /// How often the whole log is listed for objects that belong to nothing, while it grows.
    pub sweep_every: Duration,
    /// A thread makes checkpoints and collects garbage.
    pub is_tended: bool,
    /// Names the writer, for people.
    pub who: WriterId,
    /// Where on this machine is kept what was read; `None`: nowhere.
    pub cache: Option<CachePlace>,
    /// It should be kept somewhere, and what says where makes no sense.
    pub lacks_cache: bool,
    /// The file of this machine that remembers how far the disk was; `None`: there is none.
    pub seen: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(120),
            map_memory: 1 << 30,
            uncounted_max: 256 << 20,
            checkpoint_every: 128,
            grace: Duration::from_secs(600),
            clean_below: 40,
            clean_bytes: 256 << 20,
            clean_budget: None,
            sweep_every: Duration::from_secs(24 * 3600),
            is_tended: true,
            who: WriterId { host: String::new(), pid: std::process::id() },
            cache: None,
            lacks_cache: false,
            seen: None,
        }
    }
}
