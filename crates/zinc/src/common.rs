//! What verbs share: how a pool is found and opened, and how `POOL/DATASET[@SNAP]:PATH` is read.

use crate::failure::Failure;
use crate::found::{self, Reach};
use crate::known;
use crate::queue::{self, Wait};
use crate::served::Server;
use crate::session::Session;
use crate::{others, ui};
use clap::Args;
use engine::{Dataset, Filesystem, LivePool, OpenOptions, Pool};
use imported::Found;
use imported::Known;
use std::path::{Path, PathBuf};

/// How to find and open a pool.
#[derive(Args, Clone, Default, Debug)]
pub struct PoolArgs {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    pub search: Vec<PathBuf>,
    /// Where it is looked for without -d, when it is not known.
    #[arg(skip)]
    pub reach: Reach,
    /// A known pool is shown as those have it who write to it.
    #[arg(skip)]
    pub for_writers: bool,
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
        o.cache_bytes = self.open.cache_mib.max(1) << 20;
        o
    }

    /// The same for a verb that only reads, and is meant for pools that are not imported too.
    #[must_use]
    pub fn anywhere(mut self) -> Self {
        self.reach = Reach::Anywhere;
        self
    }

    /// Opens the pool that `name` (a pool or anything in it) belongs to, and loads the keys. One
    /// that is served is looked at where it is held.
    pub fn open(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        match self.open.is_of_now() {
            true => crate::served::or_forward(session, &self.search, name, || {
                self.open_here(session, name)
            }),
            false => self.open_here(session, name),
        }
    }

    /// The same for a verb that has asked the servers already.
    pub fn open_here(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        if let Some(pool) = session.held(name).filter(|_| self.open.is_of_now()) {
            return self.look_at(session, &pool);
        }
        let found = found::find(session, &self.search, name, self.reach)?;
        let keep = self.reach == Reach::Anywhere;
        let found = match queue::wait_for_writers(session, self.open.wait, &found.candidate, keep)?
        {
            true => found::find(session, &self.search, name, self.reach)?,
            false => found,
        };
        self.open_found_one(session, &found)
    }

    /// The pool that this process holds, as it is now.
    pub fn look_at(&self, session: &Session, pool: &LivePool) -> Result<Pool, Failure> {
        let pool = pool.look()?;
        self.open.load_keys(session, &pool)?;
        Ok(pool)
    }

    /// The same, as it is on its devices, whichever process holds it.
    pub fn open_devices(&self, session: &Session, name: &str) -> Result<Pool, Failure> {
        self.open_found_one(session, &found::find(session, &self.search, name, Reach::Anywhere)?)
    }

    fn open_found_one(&self, session: &Session, found: &Found) -> Result<Pool, Failure> {
        let mut options = self.options(session);
        found.complete(&mut options);
        options.for_writers = self.for_writers && found.is_for_writers();
        let opened = Pool::open_candidate(&found.candidate, &options);
        let pool = opened.map_err(|e| found::cannot_open(found, e))?;
        self.open.load_keys(session, &pool)?;
        if self.open.is_of_now() {
            found.note(&known::pools(session), &pool);
        }
        if let Some(what) = found::warning(found).filter(|_| self.open.is_of_now()) {
            let text = format!("zinc: warning: pool '{}': {what}\n", pool.name());
            ui::error(session, &text);
        }
        // Verbs that read files anywhere show them: what is missing of them is said.
        if self.reach == Reach::Anywhere
            && let Some(older) = self.open.older_state(&pool)
        {
            ui::error(session, &format!("zinc: warning: {older}\n"));
        }
        Ok(pool)
    }

    /// Opens every pool that is known, or in the places that are named, but destroyed ones and
    /// those of these guids, in order of their names. Those that cannot be opened are failures
    /// among them. The servers were asked already; those that took pools since come along.
    pub fn open_found(&self, session: &Session, but: &[u64]) -> Result<Opened, Failure> {
        let mut opened = Opened::default();
        for found in found::all(session, &self.search, but)? {
            let guid = found.as_ref().map(Found::guid).unwrap_or_default();
            let pool = found.and_then(|found| self.open_one(session, &found));
            let server =
                |_: &Failure| Server::find(session, &self.search, &guid.to_string()).ok().flatten();
            match pool.as_ref().err().and_then(server) {
                Some(server) => opened.served.push(server),
                None => opened.pools.push(pool),
            }
        }
        if let Some(client) = session.client() {
            let guid = client.pool.guid();
            if !opened.pools.iter().flatten().any(|p| p.guid() == guid) {
                opened.pools.push(client.pool.look().map_err(Failure::from));
            }
        } else if self.search.is_empty() {
            self.open_those_of_others(session, but, &mut opened);
        }
        Ok(opened)
    }

    fn open_one(&self, session: &Session, found: &Found) -> Result<Pool, Failure> {
        let guid = found.guid().to_string();
        if let Some(pool) = session.held(&guid) {
            return self.look_at(session, &pool);
        }
        match queue::wait_for_writers(session, self.open.wait, &found.candidate, false)? {
            true => self.open_here(session, &guid),
            false => self.open_found_one(session, found),
        }
    }

    /// Adds pools that root has imported, as far as this user may read their devices, and says
    /// which pools of others are left out.
    fn open_those_of_others(&self, session: &Session, but: &[u64], opened: &mut Opened) {
        let say = |name: &str, why: &str| {
            let name = ui::escape::line(name);
            ui::error(
                session,
                &format!("zinc: '{name}' is not shown: {}\n", ui::escape::line(why)),
            );
        };
        let mut told = Vec::new();
        let own: Vec<u64> = opened.pools.iter().flatten().map(Pool::guid).collect();
        let is_new = |known: &Known| !but.contains(&known.guid()) && !own.contains(&known.guid());
        for known in known::all_of_root(session).into_iter().filter(is_new) {
            let name = known.name().to_owned();
            let open = |found: Found| {
                queue::wait_for_writers(session, Wait::none(), &found.candidate, false)?;
                self.open_found_one(session, &found)
            };
            match found::look_for(known).and_then(open) {
                Ok(pool) => opened.pools.push(Ok(pool)),
                Err(_) => say(&name, "root has imported it, and this user may not read it now"),
            }
            told.push(name);
        }
        if session.user() == 0 {
            return;
        }
        for process in others::of_other_users(session).iter().filter(|p| !told.contains(&p.pool)) {
            say(&process.pool, &format!("{} has it", process.shown()));
        }
    }
}

/// Pools that were opened at once.
#[derive(Default)]
pub struct Opened {
    /// Those of this process, and why others could not be opened.
    pub pools: Vec<Result<Pool, Failure>>,
    /// Processes that took a pool while it was waited for.
    pub served: Vec<Server>,
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
        found.map(|(_, v)| v.clone()).ok_or_else(|| format!("invalid {what} {word:?}"))
    };
    text.split(',').map(one).collect()
}

/// The pool's part of a dataset's name.
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@', '#']).next().unwrap_or(name)
}

/// The pools a command line names, each opened once.
pub struct Pools {
    args: PoolArgs,
    open: Vec<Pool>,
}

impl Pools {
    /// None is open yet.
    pub fn new(args: PoolArgs) -> Self {
        Self { args, open: Vec::new() }
    }

    /// The pool `name` (a pool, its guid or anything in it) belongs to.
    pub fn of(&mut self, session: &Session, name: &str) -> Result<&Pool, Failure> {
        let wanted = pool_of(name);
        let guid = wanted.parse().ok();
        let known = |p: &Pool| p.name() == wanted || Some(p.guid()) == guid;
        let at = match self.open.iter().position(known) {
            Some(at) => at,
            None => {
                self.open.push(self.args.open(session, wanted)?);
                self.open.len() - 1
            }
        };
        Ok(&self.open[at])
    }

    /// How they are found.
    pub fn args(&self) -> &PoolArgs {
        &self.args
    }

    /// Every pool found, but those of these guids, which others have looked at, and the servers
    /// that have taken a pool since.
    pub fn all_but(&mut self, session: &Session, known: &[u64]) -> Result<AllBut<'_>, Failure> {
        let mut failures = Vec::new();
        let opened = self.args.open_found(session, known)?;
        for pool in opened.pools {
            match pool {
                Ok(pool) if self.open.iter().all(|p| p.guid() != pool.guid()) => {
                    self.open.push(pool);
                }
                Ok(_) => {}
                Err(f) => failures.push(f),
            }
        }
        let pools = self.open.iter().map(Ok).chain(failures.into_iter().map(Err)).collect();
        Ok((pools, opened.served))
    }
}

/// What [`Pools::all_but`] finds.
type AllBut<'a> = (Vec<Result<&'a Pool, Failure>>, Vec<Server>);

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

    /// Where to search, and how deep to go when that was said.
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

impl OpenArgs {
    /// No other state is asked for than the newest, which is the one a server has.
    pub fn is_of_now(&self) -> bool {
        self.txg.is_none() && !self.checkpoint && !self.allow_missing
    }

    /// Nothing in it makes a process open a file or ask for anything.
    pub fn is_plain(&self) -> bool {
        self.is_of_now() && self.keys.is_none() && self.key.is_empty() && !self.ask
    }

    /// What is said of a pool whose newest state cannot be opened, so that an older one was, though
    /// it was not asked for.
    pub fn older_state(&self, pool: &Pool) -> Option<String> {
        if self.txg.is_some() || self.checkpoint {
            return None;
        }
        let opened = pool.uberblock().txg;
        let newest = pool.candidate().uberblocks.iter().map(|u| u.uberblock.txg).max()?;
        (newest > opened).then(|| {
            format!(
                "opened as of txg {opened}, the labels name txg {newest}: what was written after \
                 is not seen"
            )
        })
    }
}

/// Opens the file system of a dataset; with `--replay` as it is after its intent log.
pub fn filesystem(
    session: &Session,
    pool: &Pool,
    dataset: &Dataset,
    args: &OpenArgs,
) -> Result<Filesystem, Failure> {
    Ok(Filesystem::open(crate::objsets::open(session, pool, dataset, args)?)?)
}
