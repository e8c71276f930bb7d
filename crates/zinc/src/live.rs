//! How verbs that change a pool open it: they take it over, act, write one line into its history,
//! and leave it as it was, active or exported.

use crate::asked;
use crate::common::pool_of;
use crate::failure::Failure;
use crate::host;
use crate::txgs::{self, Style, history};
use crate::ui;
use clap::Args;
use engine::device::{self, RwFileDevice, RwPartition, WriteDeviceRef, gpt::Gpt};
use engine::live::{self, ImportOptions, Invocation, Setting};
use engine::pool::{CandidateState, Error};
use engine::rt::Rt;
use engine::{Candidate, LivePool, OpenOptions};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a verb that changes a pool finds it.
#[derive(Args, Clone, Default, Debug)]
pub struct LiveArgs {
    /// Search this directory, file or disk for devices (repeatable)
    #[arg(short = 'd', long = "dev", value_name = "PATH")]
    pub search: Vec<PathBuf>,
    #[command(flatten)]
    pub how: LiveHow,
}

/// How it opens the pool, and what it shows.
#[derive(Args, Clone, Default, Debug)]
pub struct LiveHow {
    /// Print what each transaction group did
    #[arg(long)]
    pub txgs: bool,
    /// Cap of the block cache in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub cache_mib: usize,
    #[command(flatten)]
    pub tuning: Tuning,
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
    Setting::parse(text).map_err(|e| format!("{e}; {}", e.hint()))
}

impl Tuning {
    /// All settings, in the order in which they count.
    pub fn all(&self) -> Result<Vec<Setting>, Failure> {
        let mut out = Vec::new();
        if let Some(path) = &self.file {
            let shown = path.display();
            let text = std::fs::read_to_string(asked::path(path))
                .map_err(|e| Failure::new(format!("cannot read {shown}")).because(e.to_string()))?;
            out = Setting::parse_lines(&text).map_err(|(line, e)| {
                Failure::usage(format!("{shown}, line {line}: {e}")).hint(e.hint())
            })?;
        }
        out.extend(&self.settings);
        Ok(out)
    }
}

impl LiveArgs {
    /// Opens the pool that `name` (a pool or anything in it) belongs to, lets `act` change it, and
    /// closes it. A pool that was exported is exported again; what failed is not in its history.
    pub fn change<T>(
        &self,
        name: &str,
        act: impl FnOnce(&LivePool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        change(&self.search, &self.how, name, act)
    }

    /// Opens it for reading, to see what would be done.
    pub fn look(&self, name: &str) -> Result<engine::Pool, Failure> {
        look(&self.search, &self.how, name)
    }
}

/// [`LiveArgs::look`] for verbs that find their pools in another way.
pub fn look(search: &[PathBuf], how: &LiveHow, name: &str) -> Result<engine::Pool, Failure> {
    crate::served::forward(search, name)?;
    if let Some(pool) = asked::held(name) {
        return Ok(pool.look()?);
    }
    Ok(engine::Pool::open(pool_of(name), &options(search, how.cache_mib))?)
}

/// [`LiveArgs::change`] for verbs that find their pools in another way.
pub fn change<T>(
    search: &[PathBuf],
    how: &LiveHow,
    name: &str,
    act: impl FnOnce(&LivePool) -> Result<T, Failure>,
) -> Result<T, Failure> {
    crate::served::forward(search, name)?;
    if let Some(pool) = asked::held(name) {
        ui::runs_on();
        if !how.tuning.all()?.is_empty() {
            let what = format!("cannot set tunables for one command: {} is served", pool.name());
            return Err(Failure::new(what)
                .hint("`zinc tunables --pool POOL NAME=VALUE` sets one for all, from now on"));
        }
        let result = act(&pool);
        match &result {
            // This line is written after what was done: when it is durable, all is.
            Ok(_) => pool.log(&invocation())?,
            // What was done before it failed: only then it is seen by who looks.
            Err(_) => pool.sync()?,
        }
        let result = result?;
        tell_txgs(&pool, how)?;
        return Ok(result);
    }
    let candidate = find(search, name)?;
    let was_exported = candidate.state() == CandidateState::Exported;
    let options = import_options(search, how.cache_mib, &how.tuning)?;
    let pool = import(&candidate, &options)?;
    let result = act(&pool);
    let logged = match result.is_ok() {
        true => pool.log(&invocation()).map_err(Failure::from),
        false => Ok(()),
    };
    if result.is_ok() {
        tell_txgs(&pool, how)?;
    }
    let left = if was_exported { pool.export() } else { pool.close() };
    let result = result?;
    logged?;
    left?;
    Ok(result)
}

/// How pools are searched and read.
pub fn options(search: &[PathBuf], cache_mib: usize) -> OpenOptions {
    let mut o = OpenOptions::default();
    o.search.paths = search.iter().map(|p| asked::path(p)).collect();
    o.cache_bytes = cache_mib.max(1) << 20;
    o
}

/// How they are taken over.
pub fn import_options(
    search: &[PathBuf],
    cache_mib: usize,
    tuning: &Tuning,
) -> Result<ImportOptions, Failure> {
    Ok(ImportOptions {
        hostid: host::id(),
        hostname: host::name(),
        tunables: tuning.all()?,
        ..ImportOptions::new(options(search, cache_mib))
    })
}

/// All pools in the places searched.
pub fn candidates(search: &[PathBuf]) -> Result<Vec<Candidate>, Failure> {
    let found = engine::pool::scan(&options(search, 1).search)?;
    Ok(Candidate::group(&found))
}

/// The pool that `name` (a pool, its guid, or anything in a pool) belongs to.
pub fn find(search: &[PathBuf], name: &str) -> Result<Candidate, Failure> {
    let mut all = candidates(search)?;
    // A destroyed pool has no name any more; its guid still means it.
    let guid: Option<u64> = pool_of(name).parse().ok();
    let is_there = |c: &Candidate| c.state() != CandidateState::Destroyed;
    all.retain(|c| is_there(c) || guid == Some(c.config.pool_guid));
    pick(all, search, name, is_there)
}

/// The one candidate of that name or guid; where several have the name, the one `preferred` tells
/// from the others.
pub fn pick(
    candidates: Vec<Candidate>,
    search: &[PathBuf],
    name: &str,
    preferred: impl Fn(&Candidate) -> bool,
) -> Result<Candidate, Failure> {
    let wanted = pool_of(name);
    let guid: Option<u64> = wanted.parse().ok();
    let is_it = |c: &Candidate| c.name() == wanted || Some(c.config.pool_guid) == guid;
    let known = candidates.iter().map(|c| (c.name().to_owned(), c.config.pool_guid)).collect();
    let mut found: Vec<_> = candidates.into_iter().filter(is_it).collect();
    if found.len() > 1 && found.iter().any(&preferred) {
        found.retain(&preferred);
    }
    match (found.len(), found.pop()) {
        (1, Some(one)) => Ok(one),
        (0, _) | (_, None) => {
            let searched = match search.is_empty() {
                true => engine::pool::default_search_paths(),
                false => search.to_vec(),
            };
            Err(Error::NoSuchPool { wanted: wanted.to_owned(), found: known, searched }.into())
        }
        (_, Some(last)) => {
            let guids = found.iter().chain([&last]).map(|c| c.config.pool_guid).collect();
            Err(Error::Ambiguous { name: wanted.to_owned(), guids }.into())
        }
    }
}

/// Opens a candidate for writing.
pub fn import(candidate: &Candidate, options: &ImportOptions) -> Result<LivePool, Failure> {
    ui::runs_on();
    let mut disks = Disks::default();
    let opened = live::import(&Rt::real(), candidate, options, &mut |path| disks.open(path));
    opened.map_err(|e| {
        let in_use = matches!(&e, Error::Device { cause, .. }
            if cause.kind == device::ErrorKind::InUse);
        let failure = Failure::from(e);
        if in_use { crate::served::held_by(candidate.config.pool_guid, failure) } else { failure }
    })
}

/// Devices that are open for writing; a disk is opened once for all its partitions.
#[derive(Default)]
pub struct Disks {
    open: HashMap<PathBuf, WriteDeviceRef>,
}

impl Disks {
    /// Opens a file, a disk, or as `DISK#N` one of its partitions.
    pub fn open(&mut self, path: &Path) -> Result<WriteDeviceRef, device::Error> {
        let partition = path.to_str().and_then(|text| text.rsplit_once('#'));
        let number = partition.and_then(|(disk, n)| Some((disk, n.parse::<u32>().ok()?)));
        let Some((disk, number)) = number.filter(|_| !path.exists()) else {
            return self.whole(path);
        };
        let disk = self.whole(Path::new(disk))?;
        let table = Gpt::read(&*Arc::clone(&disk).as_device())?;
        let part = table.as_ref().and_then(|t| t.zfs().find(|p| p.number == number));
        let Some(part) = part else { return self.whole(path) };
        Ok(Arc::new(RwPartition::new(disk, &format!("#{number}"), part.start, part.len)))
    }

    fn whole(&mut self, path: &Path) -> Result<WriteDeviceRef, device::Error> {
        if let Some(device) = self.open.get(path) {
            return Ok(Arc::clone(device));
        }
        let device = RwFileDevice::open(path, &device::Options::default())?;
        let device: WriteDeviceRef = Arc::new(device);
        self.open.insert(path.to_owned(), Arc::clone(&device));
        Ok(device)
    }
}

/// The command as the history records it, without the program's own name.
pub fn invocation() -> Invocation {
    let mut words = asked::arguments().into_iter().map(|a| a.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    let mut words: Vec<String> = words.collect();
    let is_openzfs = words.first().is_some_and(|w| w == "zpool" || w == "zfs");
    if !is_openzfs {
        words.insert(0, program.into_owned());
    }
    Invocation { command: words.join(" "), who: host::user(), host: host::name() }
}

/// Shows what each txg did, and writes it down, as far as that was asked for.
pub fn tell_txgs(pool: &LivePool, how: &LiveHow) -> Result<(), Failure> {
    if how.txgs || how.tuning.log.is_some() {
        pool.sync()?;
    }
    if how.txgs {
        txgs::table(&pool.txgs(), Style::Human).print();
    }
    match &how.tuning.log {
        Some(path) => history::append(&asked::path(path), pool),
        None => Ok(()),
    }
}
