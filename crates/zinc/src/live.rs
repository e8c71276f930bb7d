//! How verbs that change a pool open it: they take it over, act, write one line into its history,
//! and leave it as it was, active or exported.

use crate::args::{OpenArgs, PoolArgs, Wait};
use crate::failure::{Failure, one_line};
use crate::found;
use crate::progress::while_showing;
use crate::queue::{self, Others};
use crate::session::Session;
use crate::txgs::{self, Style, history};
use crate::{known, served, ui};
use clap::Args;
use engine::devices::{disk, is_far, read_text};
use engine::live::{ImportOptions, Invocation, Setting};
use engine::pools::{named_leaves, record_change};
use engine::{Error, Hint, LivePool, OpenOptions, Progress, Rt};
use hostfs::host;
use imported::{Found, Opening, SearchScope};
use std::path::{Path, PathBuf};
use term::escape::{line, word};

/// The progress line of a resilver that a command waits for.
const RESILVER: &str = "resilver (Ctrl-C leaves it to the next command): blocks";

/// Longest file of tunables, in bytes.
const TUNABLES_MAX: u64 = 1 << 20;

/// The messages for files that were changed before the pool was suspended, and for a change that
/// was made by then.
const KEPT: &str = "earlier changes are kept; the rest was not done, and will not be done later";
const MADE: &str = "it was done in memory, and becomes durable when the pool resumes";

/// How a verb that changes a pool finds it.
#[derive(Args, Clone, Default, Debug)]
pub struct LiveArgs {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    pub search: Vec<PathBuf>,
    #[command(flatten)]
    pub options: LiveOptions,
}

/// How it opens the pool, and what it shows.
#[derive(Args, Clone, Default, Debug)]
pub struct LiveOptions {
    /// Print what each transaction group did
    #[arg(long)]
    pub txgs: bool,
    /// Cap of the block cache in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub cache_mib: usize,
    #[command(flatten)]
    pub wait: Wait,
    #[command(flatten)]
    pub tuning: Tuning,
    /// Devices, as they were named, whose own changes are given up when they were written without
    /// the others.
    #[arg(skip)]
    pub give_up: Vec<String>,
    /// The txg that the pool goes back to when it is opened.
    #[arg(skip)]
    pub txg: Option<u64>,
}

/// Tunables for the time the pool is open.
#[derive(Args, Clone, Default, Debug)]
pub struct Tuning {
    /// Set a tunable while the pool is open (repeatable); `zinc tunables` lists them
    #[arg(long = "tunable", value_name = "NAME=VALUE", value_parser = read_setting)]
    pub settings: Vec<Setting>,
    /// Set those of a file first: lines NAME=VALUE, comments behind #
    #[arg(long = "tunables", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Append what each transaction group did to this file; `zinc txgs --history` shows it
    #[arg(long = "txgs-log", value_name = "FILE")]
    pub log: Option<PathBuf>,
}

fn read_setting(text: &str) -> Result<Setting, String> {
    Setting::parse(text).map_err(|e| one_line(&e.into()))
}

impl Tuning {
    /// All settings, in the order in which they count.
    pub fn all(&self, session: &Session) -> Result<Vec<Setting>, Failure> {
        let mut out = Vec::new();
        if let Some(path) = &self.file {
            let shown = path.display();
            let text = read_text(&session.path(path), TUNABLES_MAX)
                .map_err(|e| Failure::new(format!("cannot read {shown}")).because(e.to_string()))?;
            out = Setting::parse_lines(&text).map_err(|(line, e)| {
                let failure = Failure::usage(format!("{shown}, line {line}: {e}"));
                match Error::from(e).hint() {
                    Some(hint) => failure.hint(views::hints::text(hint)),
                    None => failure,
                }
            })?;
        }
        out.extend(&self.settings);
        Ok(out)
    }
}

impl LiveArgs {
    /// The same as [`PoolArgs::is_for_everyone`].
    pub fn is_for_everyone(&self, session: &Session, names: &[String]) -> bool {
        let LiveOptions { txgs, tuning: Tuning { settings, file, log }, .. } = &self.options;
        let is_plain = !txgs && settings.is_empty() && file.is_none() && log.is_none();
        is_plain && self.to_read().is_for_everyone(session, names)
    }

    /// Opens the pool that `name` (a pool or anything in it) belongs to, lets `act` change it, and
    /// closes it. A pool that was exported is exported again; what failed is not in its history.
    pub fn change<T>(
        &self,
        session: &Session,
        name: &str,
        act: impl FnOnce(&LivePool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        change(session, &self.search, &self.options, name, act)
    }

    /// The same for changes of files. In a suspended pool they would wait for its devices, as those
    /// of programs on a mount do, and be made after the user has given up. So a command fails, also
    /// when the pool is suspended meanwhile, if `act` works with a file system that gives up
    /// ([`engine::Filesystem::unless_suspended`]).
    pub fn change_files<T>(
        &self,
        session: &Session,
        name: &str,
        act: impl FnOnce(&LivePool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.change(session, name, |pool| {
            pool.check_takes_changes()?;
            act(pool).map_err(|failure| match pool.is_waiting() {
                true => failure.because(KEPT).hint(views::hints::text(&Hint::Clear)),
                false => failure,
            })
        })
    }

    /// The same as [`Self::change`] for one that only reads, and keeps others from writing.
    pub fn to_read(&self) -> PoolArgs {
        let LiveOptions { cache_mib, wait, .. } = self.options;
        let open = OpenArgs { cache_mib, wait, ..OpenArgs::default() };
        PoolArgs { search: self.search.clone(), open, ..PoolArgs::default() }.anywhere()
    }

    /// Opens it for reading, to see what would be done.
    pub fn look(&self, session: &Session, name: &str) -> Result<engine::Pool, Failure> {
        look(session, &self.search, &self.options, name)
    }
}

/// Refuses a path where a name in a pool is meant.
fn check_start(name: &str) -> Result<(), Failure> {
    match name.starts_with('/') {
        true => Err(Failure::opening(name, "leading slash in name")
            .hint("a dataset name begins with the name of its pool: POOL/NAME")),
        false => Ok(()),
    }
}

/// [`LiveArgs::look`] for verbs that find their pools in another way.
pub fn look(
    session: &Session,
    search: &[PathBuf],
    how: &LiveOptions,
    name: &str,
) -> Result<engine::Pool, Failure> {
    check_start(name)?;
    let seen = |pool: engine::Pool| {
        if session.user() == 0 {
            pool.datasets().ignore_limits();
        }
        pool
    };
    if let Some(pool) = session.held(name) {
        return Ok(seen(pool.look()?));
    }
    served::or_forward(session, search, name, || {
        let found = found::find(session, search, name, SearchScope::Known)?;
        // Not kept: this process may be about to write.
        let found = match queue::wait_for_writers(session, how.wait, &found.candidate, false)? {
            true => found::find(session, search, name, SearchScope::Known)?,
            false => found,
        };
        let mut options = options(session, search, how.cache_mib);
        found.complete(&mut options);
        Ok(seen(engine::Pool::open_candidate(&found.candidate, &options)?))
    })
}

/// Opens for writing what `find` finds, when others that have it are done; `adjust` has the last
/// word on how.
pub fn take(
    session: &Session,
    find: impl FnMut() -> Result<Found, Failure>,
    how: &LiveOptions,
    tunables: &[Setting],
    adjust: impl Fn(&mut ImportOptions),
) -> Result<(Found, LivePool), Failure> {
    let options = opened_as(session, how, tunables, adjust)?;
    let (list, others) = (known::pools(session), Others::new(session, how.wait)?);
    let opening = Opening::new(&list, find, options);
    let (found, pool) = opening.open(&Rt::real(), &*session.devices(), &others)?;
    warn_of(session, &found, &pool);
    Ok((found, pool))
}

/// How [`take`] opens what was found, and says where that runs.
pub fn opened_as(
    session: &Session,
    how: &LiveOptions,
    tunables: &[Setting],
    adjust: impl Fn(&mut ImportOptions),
) -> Result<impl Fn(&Found) -> ImportOptions, Failure> {
    if let Some(log) = &how.tuning.log {
        history::check(session, log)?;
    }
    Ok(move |found: &Found| {
        ui::runs_on(session);
        let mut options = import_options(session, found, how, tunables);
        adjust(&mut options);
        options
    })
}

/// Says what is to be said of a pool that was opened for writing.
pub fn warn_of(session: &Session, found: &Found, pool: &LivePool) {
    if let Some(what) = found::warning(found) {
        ui::note(session, &format!("warning: pool '{}': {what}", pool.name()));
    }
    let has_far = found.candidate.leaves.values().any(|leaf| is_far(&leaf.path));
    if let Some(why) = disk::lacks_cache().filter(|_| has_far) {
        ui::note(session, &format!("warning: pool '{}' has no cache: {why}", pool.name()));
    }
    for e in pool.left_out() {
        ui::note(session, &format!("warning: pool '{}' goes on without {e}", pool.name()));
    }
}

/// How a pool that was found is opened for writing.
fn import_options(
    session: &Session,
    found: &Found,
    how: &LiveOptions,
    tunables: &[Setting],
) -> ImportOptions {
    let mut open = options(session, &[], how.cache_mib);
    open.txg = how.txg;
    found.import_options(ImportOptions {
        hostid: host::id(),
        hostname: host::name(),
        tunables: tunables.to_vec(),
        ignore_limits: session.user() == 0,
        user: session.user(),
        give_up: named_leaves(&found.candidate, &how.give_up, |name| session.path(name.as_ref())),
        ..ImportOptions::new(open)
    })
}

/// Whether [`take`] would open for writing what was found, which is left as it is.
pub fn check(session: &Session, found: &Found, how: &LiveOptions) -> Result<(), Failure> {
    found.check_changeable()?;
    let options = import_options(session, found, how, &[]);
    queue::check(session, how.wait, &found.candidate, &options)
}

/// [`LiveArgs::change`] for verbs that find their pools in another way.
pub fn change<T>(
    session: &Session,
    search: &[PathBuf],
    how: &LiveOptions,
    name: &str,
    act: impl FnOnce(&LivePool) -> Result<T, Failure>,
) -> Result<T, Failure> {
    change_announced(session, search, how, name, |pool, _| act(pool))
}

/// The same for verbs that give the pool devices which it cannot be without. They pass the paths to
/// what they are called with before these belong to the pool, so that the list of known pools names
/// them wherever the verb is cut off.
pub fn change_announced<T>(
    session: &Session,
    search: &[PathBuf],
    how: &LiveOptions,
    name: &str,
    act: impl FnOnce(&LivePool, &dyn Fn(&[PathBuf])) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_start(name)?;
    served::forward(session, search, name)?;
    if let Some(pool) = session.held(name) {
        ui::runs_on(session);
        if !how.tuning.all(session)?.is_empty() {
            let what = format!("cannot set tunables for one command: {} is served", pool.name());
            return Err(Failure::new(what)
                .hint("`zinc tunables --pool POOL NAME=VALUE` sets one for all commands"));
        }
        let guid = pool.guid();
        let is_known = session.client().is_some_and(|client| client.listed.known().is_some());
        let list = is_known.then(|| known::pools(session));
        let announce = |paths: &[PathBuf]| {
            list.iter().for_each(|list| list.announce(guid, paths));
        };
        let change = || {
            let result = act(&pool, &announce);
            list.iter().for_each(|list| list.refresh(guid, &pool));
            result
        };
        let (result, durable) = record_change(&pool, &invocation(session), change)?;
        durable.map_err(|e| {
            let failure = Failure::from(e);
            if pool.is_waiting() { failure.because(MADE) } else { failure }
        })?;
        print_txgs(session, &pool, how)?;
        warn_displaced(session, &pool)?;
        return Ok(result);
    }
    let tunables = how.tuning.all(session)?;
    let find = || {
        served::forward(session, search, name)?;
        found::find(session, search, name, SearchScope::Known)
    };
    let (found, pool) = take(session, find, how, &tunables, |_| {})?;
    let announce = |paths: &[PathBuf]| found.announce(&known::pools(session), paths);
    let line = invocation(session);
    let made = record_change(&pool, &line, || act(&pool, &announce)).map(|(result, logged)| {
        wait_for_resilver(session, &pool);
        // A failed report does not keep the pool open.
        (result, logged, print_txgs(session, &pool, how))
    });
    let left = found.leave(&known::pools(session), pool);
    let (result, logged, shown) = made?;
    logged?;
    shown?;
    left?;
    Ok(result)
}

/// The same for what changes nothing: the history has no line of it.
pub fn visit<T>(
    session: &Session,
    args: &LiveArgs,
    name: &str,
    act: impl FnOnce(&LivePool) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_start(name)?;
    served::forward(session, &args.search, name)?;
    if let Some(pool) = session.held(name) {
        return act(&pool);
    }
    let find = || found::find(session, &args.search, name, SearchScope::Known);
    let tunables = args.options.tuning.all(session)?;
    let (found, pool) = take(session, find, &args.options, &tunables, |_| {})?;
    let result = act(&pool);
    found.leave(&known::pools(session), pool)?;
    result
}

/// Waits until devices that came back are resilvered. Opening the pool began it, and letting go of
/// the pool would end that: it would start again with each command, and none would come to its end.
/// The command's own changes are durable by then, so that it can be ended.
pub fn wait_for_resilver(session: &Session, pool: &LivePool) {
    if !pool.is_resilvering() {
        return;
    }
    let progress = Progress::new();
    progress.begin(RESILVER, 0);
    while_showing(session, &progress, || {
        let mut shown = 0;
        // Why a resilver did not come to its end is shown by `status`: the command did its work.
        pool.wait_for_resilver(&mut |scan| {
            progress.add(0, scan.examined.saturating_sub(shown));
            shown = scan.examined.max(shown);
        });
    });
}

/// Says which devices of a pool that is held are not where they were opened any more.
///
/// # Errors
/// Nothing makes up for them: what was done is lost when the pool is let go.
pub fn warn_displaced(session: &Session, pool: &LivePool) -> Result<(), Failure> {
    let name = pool.name();
    pool.can_be_found().map_err(|e| {
        let what = format!("changes to '{name}' are lost when its server ends");
        let failure = Failure::from(e);
        let (why, _, hint) = failure.parts();
        let lost = Failure::new(what).because(why);
        match hint {
            Some(hint) => lost.hint(hint),
            None => lost,
        }
    })?;
    let gone = pool.view().displaced_leaves();
    let gone: Vec<String> =
        gone.iter().map(|(path, what)| format!("{} {what}", line(path))).collect();
    if !gone.is_empty() {
        let text = format!(
            "warning: pool '{name}' goes on without devices: {}; `zinc zpool replace {} DEVICE \
             NEW` puts another in the place of one",
            gone.join(", "),
            word(name)
        );
        ui::note(session, &text);
    }
    Ok(())
}

/// How pools are searched and read.
pub fn options(session: &Session, search: &[PathBuf], cache_mib: usize) -> OpenOptions {
    let mut o = OpenOptions::default();
    o.search.paths = search.iter().map(|p| session.path(p)).collect();
    o.cache_bytes = crate::args::cache_bytes(cache_mib);
    o
}

/// Verbs whose words are names of files. Names are only for users with access to the file system,
/// which may be encrypted, and the history is not.
const OF_FILES: [&str; 5] = ["cp", "mkdir", "rm", "mv", "ln"];

/// The command as the history records it, without the program's own name.
pub fn invocation(session: &Session) -> Invocation {
    let mut words = session.arguments().iter().map(|a| a.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let mut words: Vec<String> = words.collect();
    let is_openzfs = words.first().is_some_and(|w| w == "zpool" || w == "zfs");
    if !is_openzfs {
        if words.first().is_some_and(|verb| OF_FILES.contains(&verb.as_str())) {
            words.truncate(1);
        }
        words.insert(0, program.into_owned());
    }
    Invocation { command: words.join(" "), who: session.user(), host: host::name() }
}

/// Prints the statistics of each txg, and writes them to a file, if requested.
pub fn print_txgs(session: &Session, pool: &LivePool, how: &LiveOptions) -> Result<(), Failure> {
    if how.txgs || how.tuning.log.is_some() {
        pool.sync()?;
    }
    if how.txgs {
        ui::table(session, &txgs::table(&pool.txgs(), Style::Human));
    }
    match &how.tuning.log {
        Some(path) => history::append(session, path, pool),
        None => Ok(()),
    }
}
