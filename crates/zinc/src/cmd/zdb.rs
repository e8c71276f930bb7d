//! `zinc zdb`: everything inside a pool, structure by structure.
//!
//! The options are those of OpenZFS's zdb; here they become requests to the crate `zdb`. Structures
//! that cannot be read or decoded are reported in their place, the dump continues, and the exit
//! code is 1.

use crate::args::OpenArgs;
use crate::cmd::verb::Verb;
use crate::failure::{FAILED, Failure, USAGE};
use crate::found;
use crate::session::Session;
use crate::target::Output;
use crate::{known, ui};
use engine::{OpenOptions, Pool};
use imported::{Found, SearchScope};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zdb::{Dump, LabelOptions, Modes};

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
    /// Fragmentation of the free space of each vdev; twice: also histograms
    #[arg(short = 'M', long = "metaslab-groups", action = clap::ArgAction::Count)]
    groups: u8,
    /// As -d, of the object set with this number: POOL/NUMBER
    #[arg(short = 'N', action = clap::ArgAction::Count)]
    by_number: u8,
    /// Headers of blocks that are compressed with zstd, with -dddddd
    #[arg(short = 'Z', long = "zstd-headers")]
    zstd_headers: bool,
    /// Pools as they stand in this cache file; without a pool: their configurations
    #[arg(short = 'U', long = "cachefile", value_name = "CACHEFILE")]
    cachefile: Option<PathBuf>,
    /// A snapshot as a send stream: POOL/NUMBER [FLAGS], of the letters e, c, L and w
    #[arg(short = 'B', long = "backup")]
    backup: bool,
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
    /// What deduplication would save if it were on
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
    /// Key or passphrase of the dataset, visible to every user of the machine; better its location:
    /// file:///PATH, fd:N or prompt
    #[arg(short = 'K', value_name = "KEY")]
    passphrase: Option<String>,
    /// Show the state of the pool's checkpoint
    #[arg(short = 'k', long = "checkpointed-state")]
    checkpointed: bool,
    /// Show the state of this txg
    #[arg(short = 't', value_name = "TXG")]
    at: Option<u64>,
    /// Print help (`-h` is the history)
    #[arg(long = "help", action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Accepted: unreadable blocks never stop a dump, and `zinc check` finds leaks
    #[arg(short = 'A', short_aliases = ['F', 'G', 'L', 's', 'V', 'X', 'y', 'Y'], hide = true,
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

/// Standard output.
struct Terminal<'a>(&'a Session);

impl zdb::Output for Terminal<'_> {
    fn text(&mut self, text: &str) {
        ui::out(self.0, text);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        // A failure is kept, and becomes the exit code.
        let _ = ui::out_bytes(self.0, bytes);
    }

    fn json(&mut self, value: &serde_json::Value) {
        ui::json(self.0, value);
    }

    fn is_wanted(&self) -> bool {
        self.0.check().is_ok()
    }
}

impl std::io::Write for Terminal<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        ui::out_bytes(self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl zdb::Target for Output {
    fn at_any_offset(&mut self) -> std::io::Result<Option<&std::fs::File>> {
        Output::at_any_offset(self)
    }
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let mut terminal = Terminal(session);
        let mut d = Dump::new(&mut terminal, self.json, self.exact);
        let outcome = self.dump(session, &mut d);
        // The output before a failure is still worth printing.
        let failures = d.finish();
        let has_labels = outcome?;
        Ok(match failures {
            0 => ExitCode::SUCCESS,
            _ if has_labels => ExitCode::from(FAILED),
            _ => ExitCode::from(USAGE),
        })
    }
}

impl Args {
    fn modes(&self) -> Modes {
        Modes {
            uberblocks: self.uberblocks,
            config: self.config,
            datasets: self.datasets.max(self.by_number),
            is_number: self.by_number > 0,
            zstd_headers: self.zstd_headers,
            groups: self.groups,
            logs: self.logs,
            metaslabs: self.metaslabs,
            dedup: self.dedup,
            history: self.history,
            blocks: self.blocks,
            checksum: self.checksum,
            simulate: self.simulate,
            verbose: self.verbose,
        }
    }

    /// Makes the requested dump; false for the labels of devices that have none.
    fn dump(&self, session: &Session, d: &mut Dump<'_>) -> Result<bool, Failure> {
        if let Some(words) = &self.embedded {
            zdb::embedded(d, words)?;
            return Ok(true);
        }
        let Some((first, rest)) = self.args.split_first() else {
            let is_other = self.labels > 0 || self.read || self.lookup || self.copy || self.backup;
            return match self.modes().is_of_configs() && self.search.is_empty() && !is_other {
                true => self.dump_known(session, d),
                false => Err(usage()),
            };
        };
        if self.labels > 0 {
            return self.dump_labels(d);
        }
        // With the stroke behind it a pool is its first dataset.
        let (typed, first) = (first, first.strip_suffix('/').unwrap_or(first));
        let pool = self.open_pool(session, first)?;
        for s in pool.salvage() {
            d.fail(format_args!("{}: {}", s.what, s.cause));
        }
        match (self.read, rest) {
            (true, []) => {
                return Err(Failure::usage("zdb: want -R POOL VDEV:OFFSET:SIZE[/PSIZE][:FLAGS]"));
            }
            (true, blocks) => blocks.iter().try_for_each(|spec| zdb::block(d, &pool, spec))?,
            (false, rest) if self.backup => {
                let letters = rest.first().map_or("", String::as_str);
                zdb::backup(&pool, first, letters, Terminal(session))?;
            }
            (false, _) if self.lookup || self.copy => {
                self.dump_file(session, d, &pool, first, rest)?;
            }
            (false, _) => zdb::pool(d, &pool, typed, rest, &self.modes())?,
        }
        Ok(true)
    }

    /// The configurations of all pools of the cache file, or of all that are known.
    fn dump_known(&self, session: &Session, d: &mut Dump<'_>) -> Result<bool, Failure> {
        let mut all = match &self.cachefile {
            Some(file) => known::read(session, &session.path(file))?,
            None => known::pools(session).all(),
        };
        if self.cachefile.is_none() {
            all.extend(known::all_of_root(session));
        }
        all.iter().for_each(|pool| zdb::cached(d, pool.name(), pool.list()));
        Ok(true)
    }

    /// The pool of this name, or of one in it.
    fn find(&self, session: &Session, name: &str) -> Result<Found, Failure> {
        let Some(file) = &self.cachefile else {
            return found::find(session, &self.search, name, SearchScope::Anywhere);
        };
        let pools = known::read(session, &session.path(file))?;
        let wanted = engine::datasets::pool_of(name);
        let known = pools.into_iter().find(|pool| pool.is_called(wanted));
        let none = || Failure::opening(name, "no such pool");
        found::look_for(session, known.ok_or_else(none)?)
    }

    fn dump_labels(&self, d: &mut Dump<'_>) -> Result<bool, Failure> {
        let level = |given: u8| if given == 0 { 0 } else { given.saturating_add(self.verbose) };
        let wanted = LabelOptions {
            config: !self.quiet,
            level: level(self.labels),
            uberblocks: level(self.uberblocks),
        };
        let mut any = false;
        for path in &self.args {
            any |= zdb::labels(d, &zdb::device(path), wanted)?;
        }
        Ok(any)
    }

    fn open_pool(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        let mut o = OpenOptions::default();
        o.search.paths.clone_from(&self.search);
        o.txg = self.at.or(self.open.txg);
        o.checkpoint = self.checkpointed || self.open.checkpoint;
        o.allow_missing = self.open.allow_missing;
        o.cache_bytes = crate::args::cache_bytes(self.open.cache_mib);
        let found = self.find(session, name)?;
        found.complete(&mut o);
        let pool = Pool::open_candidate(&found.candidate, &o)?;
        self.open.load_keys(session, &pool)?;
        if let Some(key) = &self.passphrase {
            let dataset = name.split('@').next().unwrap_or(name);
            crate::keys::load_secret(session, &pool, dataset, key)?;
        }
        Ok(pool)
    }

    fn dump_file(
        &self,
        session: &Session,
        d: &mut Dump<'_>,
        pool: &Pool,
        dataset: &str,
        rest: &[String],
    ) -> Result<(), Failure> {
        match rest {
            [path] if self.lookup => {
                let given = self.datasets.saturating_add(self.verbose);
                let level = if self.datasets == 0 { 0 } else { given };
                let level = level.max(self.verbose.saturating_add(4));
                zdb::File::find(pool, dataset, path)?.show(d, pool, level);
                Ok(())
            }
            [path, target] if self.copy => {
                let file = zdb::File::find(pool, dataset, path)?;
                if !file.is_regular() {
                    return Err(Failure::new(format!("{path}: not a regular file")));
                }
                let mut out = Output::create(session, Path::new(target))?;
                d.note(format_args!("Copying object {} to {target}", file.number()));
                match file.copy(d, &mut out) {
                    Ok(()) => out.finish(Ok(())),
                    Err(zdb::Error::Write(e)) => out.finish(Err(e)),
                    Err(e) => Err(e.into()),
                }
            }
            _ => Err(Failure::usage("zdb: want -O DATASET PATH or -r DATASET PATH DESTINATION")),
        }
    }
}

impl From<zdb::Error> for Failure {
    fn from(e: zdb::Error) -> Self {
        match e {
            zdb::Error::Usage(what) => Self::usage(format!("zdb: {what}")),
            zdb::Error::Pool(e) => e.into(),
            zdb::Error::Dataset(e) => e.into(),
            zdb::Error::Send(e) => e.into(),
            zdb::Error::File(e) => e.into(),
            zdb::Error::Device { ref cause, .. } => {
                Self::new(e.to_string()).because(cause.to_string())
            }
            _ => Self::new(e.to_string()),
        }
    }
}
