//! `zinc zdb`: everything inside a pool, structure by structure.
//!
//! The options are those of OpenZFS's zdb; each mode has a file of its own. An option given several
//! times says more. A mode writes its facts to a [`dump::Dump`], which makes text or JSON of them.
//!
//! Nothing here judges a pool: that is `zinc check`. What cannot be read or decoded is said where
//! it stands, the dump goes on, and the exit code is 1.

mod block;
mod blocks;
mod bonus;
mod config;
mod copy;
mod data;
mod datasets;
mod ddt;
mod dump;
mod history;
mod label;
mod locked;
mod metaslab;
mod object;
mod roles;
mod show;
mod spacemap;
mod tree;
mod uber;
mod walk;
mod zap;
mod zil;
mod znode;

use crate::common::OpenArgs;
use crate::failure::{FAILED, Failure, USAGE};
use crate::found::{self, Reach};
use dump::Dump;
use engine::{OpenOptions, Pool};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true, disable_help_flag = true, disable_version_flag = true)]
#[allow(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
pub struct Args {
    /// Labels of devices
    #[arg(short = 'l', long = "label", action = clap::ArgAction::Count)]
    labels: u8,
    /// Uberblock; twice: all uberblocks found; with -l: of the labels
    #[arg(short = 'u', long = "uberblock", action = clap::ArgAction::Count)]
    uberblocks: u8,
    /// Configuration in the MOS; twice: also in the labels
    #[arg(short = 'C', long = "config", action = clap::ArgAction::Count)]
    config: u8,
    /// Datasets and objects; up to six times for more
    #[arg(short = 'd', long = "datasets", action = clap::ArgAction::Count)]
    datasets: u8,
    /// Intent logs
    #[arg(short = 'i', long = "intent-logs", action = clap::ArgAction::Count)]
    logs: u8,
    /// Metaslabs and space maps
    #[arg(short = 'm', long = "metaslabs", action = clap::ArgAction::Count)]
    metaslabs: u8,
    /// Deduplication tables
    #[arg(short = 'D', long = "dedup-stats", action = clap::ArgAction::Count)]
    dedup: u8,
    /// History of the pool
    #[arg(short = 'h', long = "history", action = clap::ArgAction::Count)]
    history: u8,
    /// Block statistics
    #[arg(short = 'b', long = "block-stats", action = clap::ArgAction::Count)]
    blocks: u8,
    /// Verify checksums: of metadata; twice: of all blocks
    #[arg(short = 'c', long = "checksum", action = clap::ArgAction::Count)]
    checksum: u8,
    /// What deduplication would save, were it on
    #[arg(short = 'S', long = "simulate-dedup")]
    simulate: bool,
    /// Read blocks: POOL VDEV:OFFSET:SIZE[/PSIZE][:FLAGS]
    #[arg(short = 'R', long = "read-block")]
    read: bool,
    /// Decode an embedded block pointer given as sixteen words with colons between
    #[arg(short = 'E', long = "embedded-block-pointer", value_name = "WORDS")]
    embedded: Option<String>,
    /// The object of a path: DATASET PATH
    #[arg(short = 'O', long = "object-lookups")]
    lookup: bool,
    /// Copy a file: DATASET PATH DESTINATION
    #[arg(short = 'r', long = "copy-object")]
    copy: bool,
    /// More of everything
    #[arg(short = 'v', long = "verbose", action = clap::ArgAction::Count)]
    verbose: u8,
    /// Leave out the configuration (with -l)
    #[arg(short = 'q', long = "skip-label")]
    quiet: bool,
    /// Print numbers in full
    #[arg(short = 'P', long = "parseable")]
    exact: bool,
    /// Print JSON
    #[arg(long = "json")]
    json: bool,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'p', long = "path", visible_alias = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    /// The pool is not in a cache file (always so here)
    #[arg(short = 'e', long = "exported")]
    exported: bool,
    /// Key or passphrase of the dataset, which every user of the machine can see; better its place:
    /// file:///PATH, fd:N or prompt
    #[arg(short = 'K', value_name = "KEY")]
    passphrase: Option<String>,
    /// Look at the state the pool's checkpoint kept
    #[arg(short = 'k', long = "checkpointed-state")]
    checkpointed: bool,
    /// Look at the state of this txg
    #[arg(short = 't', value_name = "TXG")]
    at: Option<u64>,
    /// Print help (`-h` is the history)
    #[arg(long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Accepted for habit: what cannot be read never stops a dump, and leaks are for `zinc check`
    #[arg(short = 'A', short_aliases = ['F', 'G', 'L', 's', 'V', 'X', 'Y'], hide = true,
          action = clap::ArgAction::Count)]
    habit: u8,
    #[command(flatten)]
    open: OpenArgs,
    /// A pool, dataset or device; then objects, paths or blocks as the mode wants
    args: Vec<String>,
}

fn usage() -> Failure {
    Failure::usage("zdb: name a pool, a dataset or, with -l, a device")
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut d = Dump::new(self.json, self.exact);
        let outcome = self.dump(&mut d);
        // What was dumped before a failure is still worth printing.
        let failures = d.finish();
        let has_labels = outcome?;
        Ok(match failures {
            0 => ExitCode::SUCCESS,
            _ if has_labels => ExitCode::from(FAILED),
            _ => ExitCode::from(USAGE),
        })
    }

    /// Level of a mode with `-v`.
    fn level(&self, given: u8) -> u8 {
        if given == 0 { 0 } else { given.saturating_add(self.verbose) }
    }

    /// Dumps what is asked for; false when that are the labels of devices that have none.
    fn dump(&self, d: &mut Dump) -> Result<bool, Failure> {
        if self.labels > 0 && self.embedded.is_none() {
            return self.dump_labels(d);
        }
        self.dump_inside(d).map(|()| true)
    }

    fn dump_inside(&self, d: &mut Dump) -> Result<(), Failure> {
        if let Some(words) = &self.embedded {
            return block::embedded(d, words);
        }
        let Some((first, rest)) = self.args.split_first() else {
            return Err(usage());
        };
        // A shell completes the name of a folder so.
        let first = first.strip_suffix('/').unwrap_or(first);
        let pool = self.open_pool(first)?;
        for s in pool.salvage() {
            d.fail(format_args!("{}: {}", s.what, s.cause));
        }
        if self.read && rest.is_empty() {
            return Err(Failure::usage("zdb: want -R POOL VDEV:OFFSET:SIZE[/PSIZE][:FLAGS]"));
        }
        if self.read {
            return rest.iter().try_for_each(|spec| block::read(d, &pool, spec));
        }
        if self.lookup || self.copy {
            return self.dump_file(d, &pool, first, rest);
        }
        self.dump_pool(d, &pool, first, rest)
    }

    fn dump_labels(&self, d: &mut Dump) -> Result<bool, Failure> {
        if self.args.is_empty() {
            return Err(usage());
        }
        let wanted = label::Wanted {
            config: !self.quiet,
            level: self.level(self.labels),
            uberblocks: self.level(self.uberblocks),
        };
        let mut any = false;
        for path in &self.args {
            any |= label::dump(d, &label::device(path), wanted)?;
        }
        Ok(any)
    }

    fn open_pool(&self, name: &str) -> Result<Pool, Failure> {
        let mut o = OpenOptions::default();
        o.search.paths.clone_from(&self.search);
        o.txg = self.at.or(self.open.txg);
        o.checkpoint = self.checkpointed || self.open.checkpoint;
        o.allow_missing = self.open.allow_missing;
        o.cache_bytes = self.open.cache_mib.max(1) << 20;
        let found = found::find(&self.search, name, Reach::Anywhere)?;
        found.complete(&mut o);
        let pool = Pool::open_candidate(&found.candidate, &o)?;
        self.open.load_keys(&pool)?;
        if let Some(key) = &self.passphrase {
            let dataset = name.split('@').next().unwrap_or(name);
            crate::keys::load_word(&pool, dataset, key)?;
        }
        Ok(pool)
    }

    fn dump_file(
        &self,
        d: &mut Dump,
        pool: &Pool,
        dataset: &str,
        rest: &[String],
    ) -> Result<(), Failure> {
        match rest {
            [path] if self.lookup => {
                let level = self.level(self.datasets).max(4 + self.verbose);
                copy::show(d, pool, dataset, path, level)
            }
            [path, target] if self.copy => copy::copy(d, pool, dataset, path, Path::new(target)),
            _ => Err(Failure::usage("zdb: want -O DATASET PATH or -r DATASET PATH DESTINATION")),
        }
    }

    fn dump_pool(
        &self,
        d: &mut Dump,
        pool: &Pool,
        name: &str,
        rest: &[String],
    ) -> Result<(), Failure> {
        let modes = [
            self.uberblocks,
            self.config,
            self.datasets,
            self.logs,
            self.metaslabs,
            self.dedup,
            self.history,
            self.blocks,
            self.checksum,
            u8::from(self.simulate),
        ];
        let nothing = modes.iter().all(|n| *n == 0);
        let inside = name.contains(['/', '@']);
        let objects: Option<Vec<_>> = match self.metaslabs > 0 && self.datasets == 0 {
            true => Some(Vec::new()),
            false => rest.iter().map(|r| object::Range::parse(r)).collect(),
        };
        let objects =
            objects.ok_or_else(|| Failure::usage("zdb: objects are N or FIRST:LAST[:FLAGS]"))?;
        let whole = !inside && objects.is_empty();
        // Without a mode: the pool in short, or a dataset.
        let level = |given: u8| self.level(given.max(u8::from(nothing && whole)));
        if level(self.config) > 0 && whole {
            config::dump(d, pool, level(self.config))?;
        }
        if level(self.uberblocks) > 0 && whole {
            uber::dump(d, pool, level(self.uberblocks))?;
        }
        if level(self.dedup) > 0 && whole {
            ddt::dump(d, pool, level(self.dedup))?;
        }
        let maps = level(self.metaslabs);
        let maps = if self.level(self.datasets) > 2 { maps.max(1) } else { maps };
        if maps > 0 && whole {
            metaslab::dump(d, pool, maps, if self.datasets == 0 { rest } else { &[] })?;
        }
        let datasets = match inside || !objects.is_empty() {
            true if self.logs == 0 => self.level(self.datasets.max(1)),
            _ => level(self.datasets),
        };
        let wanted = datasets::Wanted { level: datasets, logs: level(self.logs), objects };
        if wanted.level > 0 || wanted.logs > 0 {
            if inside {
                datasets::one(d, pool, &datasets::by_name(pool, name)?, &wanted);
            } else {
                datasets::all(d, pool, &wanted);
            }
        }
        if level(self.history) > 0 && whole {
            history::dump(d, pool, level(self.history))?;
        }
        if self.simulate {
            ddt::simulate(d, pool);
        }
        let given = self.blocks.max(self.checksum).max(u8::from(nothing && whole));
        if given > 0 {
            blocks::dump(d, pool, self.level(given.min(self.blocks.max(1))), self.checksum);
        }
        Ok(())
    }
}
