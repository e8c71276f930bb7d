//! Options that many verbs have: how a pool is found and opened, how long others are waited for,
//! and how a table or JSON is written. They are carried out elsewhere (`opening`, `queue`, `live`).

use crate::failure::Failure;
use crate::session::Session;
use clap::Args;
use engine::pools::{PoolFacts, newer_txg};
use engine::{OpenOptions, Pool};
use imported::SearchScope;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a command waits by default.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a lock, or for a server.
pub const PAUSE: Duration = Duration::from_millis(5);

/// How long a command waits for others that have the pool.
#[derive(Args, Clone, Copy, Default, Debug)]
pub struct Wait {
    /// Wait this long for commands that have the pool (30 unless ZINC_WAIT says otherwise)
    #[arg(long = "wait", value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "it is not a number of seconds".to_owned())
}

impl Wait {
    /// No time at all.
    pub fn none() -> Self {
        Self { wait: Some(Duration::ZERO) }
    }

    /// The time.
    pub fn patience(self, session: &Session) -> Result<Duration, Failure> {
        if let Some(wait) = self.wait {
            return Ok(wait);
        }
        let Some(text) = session.variable("ZINC_WAIT") else { return Ok(PATIENCE) };
        let text = text.to_string_lossy();
        seconds(&text).map_err(|why| Failure::usage(format!("ZINC_WAIT is '{text}': {why}")))
    }
}

/// How to find and open a pool.
#[derive(Args, Clone, Default, Debug)]
pub struct PoolArgs {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    pub search: Vec<PathBuf>,
    /// Where it is looked for without -d, when it is not known.
    #[arg(skip)]
    pub reach: SearchScope,
    /// A known pool is shown as a process that writes to it has it.
    #[arg(skip)]
    pub for_writers: bool,
    /// Files are read: those of a pool that is held are shown as programs see them now.
    #[arg(skip)]
    pub of_files: bool,
    /// A pool whose object directory is lost is opened, too: to copy out of it.
    #[arg(skip)]
    pub without_directory: bool,
    /// A server sends what it sees also of a single pool, and this process shows it.
    #[arg(skip)]
    pub in_parts: bool,
    #[command(flatten)]
    pub open: OpenArgs,
}

/// How to open a pool, without where to find it.
#[derive(Args, Clone, Default, Debug)]
pub struct OpenArgs {
    /// JSON file of keys by dataset, as `keys` in a manifest
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Ask for the keys of locked datasets on the terminal
    #[arg(long)]
    pub ask: bool,
    /// Key of one dataset: DATASET=file:///PATH, DATASET=fd:N or DATASET=prompt (repeatable)
    #[arg(long = "key", value_name = "DATASET=LOCATION")]
    pub key: Vec<String>,
    /// Open the state of this txg instead of the newest
    #[arg(long, value_name = "N")]
    pub txg: Option<u64>,
    /// Open the state that the pool's checkpoint kept
    #[arg(long)]
    pub checkpoint: bool,
    /// Show the intent log as replayed, as a read-write import would
    #[arg(long)]
    pub replay: bool,
    /// Go on without missing top-level vdevs; what is on them is lost
    #[arg(long)]
    pub allow_missing: bool,
    /// Cap of the block cache in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub cache_mib: usize,
    #[command(flatten)]
    pub wait: Wait,
}

/// The cap of the block cache that was requested, or an eighth of memory where that is less.
pub fn cache_bytes(mib: usize) -> usize {
    let eighth = match engine::process::memory_bytes() / 8 {
        0 => usize::MAX,
        eighth => usize::try_from(eighth).unwrap_or(usize::MAX),
    };
    (mib.max(1) << 20).min(eighth)
}

impl PoolArgs {
    /// Whether a server of root does this for another user: it opens no file, and looks at nothing
    /// but the pool that is held.
    pub fn is_for_everyone(&self, session: &Session, names: &[String]) -> bool {
        self.search.is_empty() && self.open.is_plain() && are_of_held(session, names)
    }

    /// How the library opens it.
    pub fn options(&self, session: &Session) -> OpenOptions {
        let mut o = OpenOptions::default();
        o.search.paths = self.search.iter().map(|p| session.path(p)).collect();
        o.txg = self.open.txg;
        o.checkpoint = self.open.checkpoint;
        o.allow_missing = self.open.allow_missing;
        o.cache_bytes = cache_bytes(self.open.cache_mib);
        o.without_directory = self.without_directory;
        o
    }

    /// The same for a verb that only reads, and is meant for pools that are not imported too.
    #[must_use]
    pub fn anywhere(mut self) -> Self {
        self.reach = SearchScope::Anywhere;
        self.of_files()
    }

    /// The same for a verb that reads files of a pool.
    #[must_use]
    pub fn of_files(mut self) -> Self {
        self.of_files = true;
        self
    }
}

impl OpenArgs {
    /// No other state is requested than the newest, which is the one a server has.
    pub fn is_of_now(&self) -> bool {
        self.txg.is_none() && !self.checkpoint && !self.allow_missing
    }

    /// Nothing in it makes a process open a file or ask for anything.
    pub fn is_plain(&self) -> bool {
        self.is_of_now() && self.keys.is_none() && self.key.is_empty() && !self.ask
    }

    /// The warning for a pool whose newest state cannot be opened, so that an older one was, though
    /// it was not requested.
    pub fn older_state(&self, pool: &Pool) -> Option<String> {
        if self.txg.is_some() || self.checkpoint {
            return None;
        }
        let (opened, newest) = (PoolFacts::of(pool).txg, newer_txg(pool)?);
        Some(format!(
            "opened at txg {opened}, although the labels name txg {newest}: later changes are not \
             shown"
        ))
    }
}

/// How verbs with a depth find pools: `-d` takes both, as OpenZFS's `-d DEPTH` and zinc's
/// `-d PATH` ask for.
#[derive(Args, Clone, Default, Debug)]
pub struct DepthArgs {
    /// A number: how many levels of children to show; anything else, and a number that is also
    /// the name of a file here: a place to search for devices (repeatable)
    #[arg(short = 'd', value_name = "DEPTH|PATH")]
    depth_or_path: Vec<String>,
    /// How many levels of children to show; implies -r
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(long = "dev", value_name = "PATH")]
    search: Vec<PathBuf>,
    #[command(flatten)]
    open: OpenArgs,
}

impl DepthArgs {
    /// The same as [`PoolArgs::is_for_everyone`].
    pub fn is_for_everyone(&self, session: &Session, names: &[String]) -> bool {
        // The same judgement as in `split`.
        let is_depth = |word: &String| {
            word.parse::<usize>().is_ok() && !session.path(Path::new(word)).exists()
        };
        self.search.is_empty()
            && self.depth_or_path.iter().all(is_depth)
            && self.open.is_plain()
            && are_of_held(session, names)
    }

    /// Where to search, and how deep to go if that was given.
    pub fn split(self, session: &Session) -> (PoolArgs, Option<usize>) {
        let (mut search, mut depth) = (self.search, self.depth);
        for value in self.depth_or_path {
            match value.parse::<usize>() {
                Ok(n) if !session.path(Path::new(&value)).exists() => depth = Some(n),
                _ => search.push(PathBuf::from(value)),
            }
        }
        (PoolArgs { search, open: self.open, ..PoolArgs::default() }, depth)
    }
}

/// These are names in the pool that is held, as far as a pool must be named at all.
fn are_of_held(session: &Session, names: &[String]) -> bool {
    let are_held = names.iter().all(|name| session.held(name).is_some());
    are_held && (session.is_for_a_part() || !names.is_empty())
}

/// How a table is written.
#[derive(Args, Clone, Copy, Default, Debug)]
pub struct TableArgs {
    /// No headings, tabs between columns
    #[arg(short = 'H')]
    pub script: bool,
    /// Exact numbers; times as seconds since 1970
    #[arg(short = 'p')]
    pub parsable: bool,
}

/// Output for programs.
#[derive(Args, Clone, Copy, Default, Debug)]
pub struct JsonArgs {
    /// Print JSON
    #[arg(short = 'j', long)]
    pub json: bool,
    /// Write numbers as numbers in JSON
    #[arg(long)]
    pub json_int: bool,
}

/// The words of a list with commas between, each one of `known`; `what` names such a word.
pub fn words<T: Clone>(
    text: &str,
    known: &[(&str, T)],
    what: &str,
) -> Result<std::sync::Arc<[T]>, String> {
    let one = |word| {
        let found = known.iter().find(|(name, _)| *name == word);
        found.map(|(_, v)| v.clone()).ok_or_else(|| format!("invalid {what} '{word}'"))
    };
    text.split(',').map(one).collect()
}

/// A number of bytes, with or without a unit.
pub fn bytes(text: &str) -> Result<u64, String> {
    engine::parse_size(text).ok_or_else(|| format!("'{text}' is not a size (such as 128K or 64G)"))
}

/// Divides `property=value`.
pub fn divide(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("missing '=' for property=value argument: '{text}'")))
}

/// Refuses the name of a dataset where a pool is required.
pub fn require_pool_name(name: &str) -> Result<(), Failure> {
    match name.find(['/', '@', '#']).and_then(|at| name[at..].chars().next()) {
        Some(c) => Err(Failure::opening(name, format!("invalid character '{c}' in pool name"))),
        None => Ok(()),
    }
}
