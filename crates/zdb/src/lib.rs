//! Everything inside a pool, structure by structure, as text for people or as one JSON value.
//!
//! The modes are those of OpenZFS's zdb; each has a file of its own, and writes its facts to a
//! [`Dump`], which makes text or JSON of them and hands it to the caller's [`Output`]. A mode that
//! is given several times prints more detail.
//!
//! | function | modes of zdb |
//! | --- | --- |
//! | [`pool`] | `-u`, `-C`, `-d`, `-N`, `-i`, `-m`, `-M`, `-D`, `-S`, `-h`, `-b`, `-c`, `-Z` |
//! | [`labels`] | `-l` |
//! | [`cached`] | none, of a cache file (`-U`) |
//! | [`block`], [`embedded`] | `-R`, `-E` |
//! | [`File`] | `-O`, `-r` |
//!
//! Nothing here judges a pool: that is [`mod@engine::check`]. What cannot be read or decoded is
//! said where it stands and counted ([`Dump::finish`]), and the dump goes on. It ends early only
//! when its output is no longer wanted.
//!
//! **Invariant:** a pool is looked at and never changed; nothing is printed but through the
//! [`Output`] that was given.
#![forbid(unsafe_code)]

mod backup;
mod block;
mod blocks;
mod bonus;
mod config;
mod context;
mod copy;
mod data;
mod datasets;
mod ddt;
mod dump;
mod error;
mod groups;
mod history;
mod label;
mod locked;
mod metaslab;
mod object;
mod roles;
mod show;
mod spacemap;
mod stored;
mod tree;
mod uber;
mod walk;
mod zap;
mod zil;
mod znode;

pub use backup::backup;
pub use block::{embedded, read as block};
pub use config::cached;
pub use copy::{File, Target};
pub use ddt::summary as dedup_summary;
pub use dump::{Dump, Output};
pub use error::{Error, Result};
pub use label::{LabelOptions, device, dump as labels};

use engine::Pool;

/// How much of each mode of [`pool`] is wanted: 0 for nothing, more for more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modes {
    /// The uberblock; 2: all that were found.
    pub uberblocks: u8,
    /// The configuration in the MOS; 2: also in the labels.
    pub config: u8,
    /// Datasets and objects.
    pub datasets: u8,
    /// Intent logs.
    pub logs: u8,
    /// Metaslabs and space maps.
    pub metaslabs: u8,
    /// Fragmentation of each vdev and of the pool; 2: histograms.
    pub groups: u8,
    /// Deduplication tables.
    pub dedup: u8,
    /// The history of the pool.
    pub history: u8,
    /// Sums over all blocks.
    pub blocks: u8,
    /// Checksums of metadata; 2: of all blocks.
    pub checksum: u8,
    /// What deduplication would save.
    pub simulate: bool,
    /// What follows the name of the pool is the number of an object set, never a name.
    pub is_number: bool,
    /// With pointers of blocks that are compressed with zstd, the headers of these blocks.
    pub zstd_headers: bool,
    /// Added to every mode that is wanted.
    pub verbose: u8,
}

impl Modes {
    /// Level of a mode with what [`Self::verbose`] adds.
    fn level(&self, given: u8) -> u8 {
        if given == 0 { 0 } else { given.saturating_add(self.verbose) }
    }

    /// Nothing is wanted, or configurations alone.
    #[must_use]
    pub fn is_of_configs(&self) -> bool {
        Self { config: 0, ..*self }.is_empty()
    }

    fn is_empty(&self) -> bool {
        let levels = [
            self.uberblocks,
            self.config,
            self.datasets,
            self.logs,
            self.metaslabs,
            self.groups,
            self.dedup,
            self.history,
            self.blocks,
            self.checksum,
        ];
        !self.simulate && levels.iter().all(|n| *n == 0)
    }
}

/// Dumps a pool, or the dataset in it that `name` is. `which` narrows it down: objects as `N` or
/// `FIRST:LAST[:FLAGS]`, or vdev and metaslabs when metaslabs are wanted without datasets. Without
/// any mode it is the pool in short.
///
/// # Errors
/// `which` or `name` cannot be understood, or what every mode begins with cannot be read.
pub fn pool(
    d: &mut Dump<'_>,
    pool: &Pool,
    name: &str,
    which: &[String],
    modes: &Modes,
) -> Result<()> {
    let is_inside = name.contains(['/', '@']);
    let objects = match modes.metaslabs > 0 && modes.datasets == 0 {
        true => Vec::new(),
        false => objects(which)?,
    };
    let is_whole = !is_inside && objects.is_empty();
    let is_short = modes.is_empty() && is_whole;
    if is_whole {
        whole(d, pool, which, modes, is_short)?;
    }
    let level = |given: u8| modes.level(given.max(u8::from(is_short)));
    let datasets = match is_whole || modes.logs > 0 {
        true => level(modes.datasets),
        false => modes.level(modes.datasets.max(1)),
    };
    let (logs, blocks) = (level(modes.logs), modes.level(modes.blocks));
    let headers = modes.zstd_headers;
    let wanted = datasets::DumpOptions { level: datasets, logs, blocks, headers, objects };
    if wanted.level > 0 || wanted.logs > 0 {
        if is_inside {
            let name = name.trim_end_matches('/');
            datasets::one(d, pool, &datasets::by_name(pool, name, modes.is_number)?, &wanted);
        } else {
            datasets::all(d, pool, &wanted);
        }
    }
    if level(modes.history) > 0 && is_whole {
        history::dump(d, pool, level(modes.history))?;
    }
    if modes.simulate {
        ddt::simulate(d, pool);
    }
    let blocks = modes.blocks.max(modes.checksum).max(u8::from(is_short));
    if blocks > 0 && !is_inside && d.is_wanted() {
        blocks::dump(d, pool, modes.level(blocks.min(modes.blocks.max(1))), modes.checksum);
    }
    Ok(())
}

/// Dumps the pool-wide part, before the datasets.
fn whole(
    d: &mut Dump<'_>,
    pool: &Pool,
    which: &[String],
    modes: &Modes,
    is_short: bool,
) -> Result<()> {
    let level = |given: u8| modes.level(given.max(u8::from(is_short)));
    if level(modes.config) > 0 {
        config::dump(d, pool, level(modes.config))?;
    }
    if level(modes.uberblocks) > 0 {
        uber::dump(d, pool, level(modes.uberblocks))?;
    }
    if level(modes.dedup) > 0 {
        ddt::dump(d, pool, level(modes.dedup))?;
    }
    let maps = level(modes.metaslabs);
    let maps = if modes.level(modes.datasets) > 2 { maps.max(1) } else { maps };
    if modes.groups > 0 {
        groups::dump(d, pool, modes.level(modes.groups));
    }
    if maps > 0 {
        metaslab::dump(d, pool, maps, if modes.datasets == 0 { which } else { &[] })?;
    }
    Ok(())
}

fn objects(which: &[String]) -> Result<Vec<object::Range>> {
    let ranges: Option<_> = which.iter().map(|word| object::Range::parse(word)).collect();
    ranges.ok_or_else(|| Error::Usage("objects are N or FIRST:LAST[:FLAGS]".to_owned()))
}
