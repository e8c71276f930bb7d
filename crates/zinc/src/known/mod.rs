//! Pools that are known: those that were created or imported here, and neither exported nor
//! destroyed since.
//!
//! ```text
//! create, import -> remember        add, set, reguid -> refresh        export, destroy -> forget
//!                       |
//!                 FOLDER/zpool.cache      known until that
//!                 FOLDER/session.cache    known until the machine is started anew
//! ```
//!
//! A verb opens a pool, acts and closes it again, so nothing is imported in the sense of a kernel
//! module. What stands in these files takes the place of that: their pools are found by name, are
//! those that `zpool list` lists, and are no longer offered by `zpool import`. Both files have
//! OpenZFS's form (`file.rs`). A pool with another `cachefile` than the usual one stands in the
//! second file, and in that other file too, which only `zpool import -c` reads.
//!
//! The folder is `ZINC_STATE`, else root's `/var/lib/zinc`, else the user's `zinc` in
//! `XDG_STATE_HOME`. Files are replaced as a whole, under a lock; a damaged one is put aside with a
//! message. See decision 0014.

mod entry;
mod file;

pub use entry::{Known, real};
pub use file::{SaidOnce, read};

use crate::failure::Failure;
use crate::session::Session;
use engine::live::cache_config;
use engine::pools::{PoolProperty, PoolPropertySource};
use engine::{LivePool, Pool};
use file::CacheFile;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Root's folder.
const OF_ROOT: &str = "/var/lib/zinc";
/// What to do when the list of known pools cannot be read or written.
const OTHER_FOLDER: &str = "ZINC_STATE names another folder to remember pools in";
/// Known until exported.
const LASTING: &str = "zpool.cache";
/// Known until the machine is started anew.
const PASSING: &str = "session.cache";

/// Where a pool is remembered: the property `cachefile`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cachefile {
    /// In the usual file.
    #[default]
    Usual,
    /// Nowhere that lasts.
    None,
    /// In this file.
    At(PathBuf),
}

impl Cachefile {
    /// Reads the value of the property; an empty one is the default.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Usual,
            "none" => Self::None,
            path if path.starts_with('/') && !path.ends_with('/') => Self::At(PathBuf::from(path)),
            _ => return None,
        })
    }
}

/// The folder of this user; `None` without a home.
pub fn folder(session: &Session) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(folder) = variable("ZINC_STATE") {
        return Some(folder);
    }
    if session.user() == 0 {
        return Some(PathBuf::from(OF_ROOT));
    }
    let home = || Some(variable("HOME")?.join(".local/state"));
    Some(variable("XDG_STATE_HOME").or_else(home)?.join("zinc"))
}

/// A process that holds this gives a pool its name: what it has seen of the names that are known
/// stays.
pub fn hold_names(session: &Session) -> Option<File> {
    let folder = folder(session)?;
    file::make_folder(&folder).ok()?;
    let file = file::open_lock(&folder.join("names.lock")).ok()?;
    // Without locks in that file system, names are only as safe as their users are careful.
    let _ = file.lock();
    Some(file)
}

fn files(session: &Session) -> Vec<CacheFile> {
    let Some(folder) = folder(session) else { return Vec::new() };
    vec![CacheFile::new(folder.join(LASTING)), CacheFile::new(folder.join(PASSING))]
}

/// All known pools, in the order of their names.
pub fn all(session: &Session) -> Vec<Known> {
    let mut all: Vec<Known> =
        files(session).iter().flat_map(|file| file.entries(session)).collect();
    all.retain(Known::is_of_this_boot);
    all.sort_by(|a, b| (a.name(), a.guid()).cmp(&(b.name(), b.guid())));
    all.dedup_by_key(|known| known.guid());
    all
}

/// The pool of this name or guid.
pub fn find(session: &Session, name: &str) -> Option<Known> {
    let wanted = crate::common::pool_of(name);
    all(session).into_iter().find(|known| known.is_called(wanted))
}

/// The pool of this guid.
pub fn by_guid(session: &Session, guid: u64) -> Option<Known> {
    all(session).into_iter().find(|known| known.guid() == guid)
}

/// The known pool, of this user or of root, that has a device with this guid.
pub fn with_device(session: &Session, guid: u64) -> Option<Known> {
    let mut all = all(session);
    all.extend(all_of_root(session));
    all.into_iter().find(|known| known.has_device(guid))
}

/// The pools that root has imported, for another user: every user may read root's list.
pub fn all_of_root(session: &Session) -> Vec<Known> {
    if session.user() == 0 || std::env::var_os("ZINC_STATE").is_some() {
        return Vec::new();
    }
    let paths = [LASTING, PASSING].map(|file| Path::new(OF_ROOT).join(file));
    let mut all: Vec<Known> =
        paths.iter().filter_map(|path| file::entries_of(path)).flatten().collect();
    all.retain(Known::is_of_this_boot);
    all
}

/// That of this name or guid.
pub fn of_root(session: &Session, name: &str) -> Option<Known> {
    let wanted = crate::common::pool_of(name);
    all_of_root(session).into_iter().find(|known| known.is_called(wanted))
}

/// What no label tells of a pool, because it was said when the pool was imported here.
pub fn complete(session: &Session, properties: &mut [PoolProperty], guid: u64) {
    let Some(known) = by_guid(session, guid) else { return };
    let mut set = |name: &str, value: &str, source| {
        for property in properties.iter_mut().filter(|p| p.name == name) {
            value.clone_into(&mut property.value);
            property.source = source;
        }
    };
    if known.is_readonly() {
        set("readonly", "on", PoolPropertySource::None);
    }
    match known.cachefile() {
        Cachefile::Usual => {}
        Cachefile::None => set("cachefile", "none", PoolPropertySource::Local),
        Cachefile::At(path) => {
            set("cachefile", &path.to_string_lossy(), PoolPropertySource::Local);
        }
    }
}

/// Whether a known pool has this name, or one that is served.
pub fn has_name(session: &Session, name: &str) -> bool {
    let is_served = || crate::served::Server::own(session).iter().any(|server| server.name == name);
    all(session).iter().any(|known| known.name() == name) || is_served()
}

/// Refuses to give a pool a name that could not be remembered; said before anything is changed.
pub fn check_writable(
    session: &Session,
    doing: &str,
    cachefile: &Cachefile,
) -> Result<(), Failure> {
    let cannot = |failure: Failure| not_remembered(doing, cachefile, &failure);
    let elsewhere = match cachefile {
        Cachefile::At(path) => Some(CacheFile::at(path.clone())),
        _ => None,
    };
    let files = files(session);
    if files.is_empty() {
        return Err(cannot(no_folder()));
    }
    files.iter().chain(&elsewhere).try_for_each(CacheFile::check_writable).map_err(cannot)
}

/// Why a pool gets no name here; `doing` begins the message.
pub fn not_remembered(doing: &str, cachefile: &Cachefile, why: &Failure) -> Failure {
    let (what, because, _) = why.parts();
    let failure = Failure::new(format!("{doing}: it could not be remembered")).because(what);
    let failure = because.iter().fold(failure, Failure::because);
    match cachefile {
        Cachefile::At(_) => failure.hint("cachefile= names a file in a folder that is there"),
        _ => failure.hint(OTHER_FOLDER),
    }
}

fn no_folder() -> Failure {
    Failure::new("this user has no folder for it")
}

/// Remembers a pool, in place of what was known of it.
pub fn remember(session: &Session, known: &Known, cachefile: &Cachefile) -> Result<(), Failure> {
    if let Cachefile::At(path) = cachefile {
        // Before anything says that it is there.
        CacheFile::at(path.clone()).check_writable()?;
    }
    keep(session, &known.clone().with_cachefile(cachefile), cachefile)
}

fn keep(session: &Session, known: &Known, cachefile: &Cachefile) -> Result<(), Failure> {
    let [lasting, passing] = &files(session)[..] else {
        return Err(no_folder());
    };
    let old = by_guid(session, known.guid());
    let known = &known.clone().with_files(old.as_ref().or(Some(known)));
    let before = old.map(|old| old.cachefile());
    let is_usual = *cachefile == Cachefile::Usual;
    let (to, from) = if is_usual { (lasting, passing) } else { (passing, lasting) };
    // In this order: wherever this is cut off, the pool is in one of the two, and that one names
    // each other file that it may stand in.
    if let Some(Cachefile::At(old)) = before.filter(|before| before != cachefile) {
        CacheFile::at(old).remove(session, known.guid())?;
    }
    to.put(session, known)?;
    if let Cachefile::At(path) = cachefile {
        CacheFile::at(path.clone()).put(session, &known.without_marks())?;
    }
    from.remove(session, known.guid())
}

/// Writes down where devices are that are about to be added to a known pool, so that it is whole
/// wherever the command that adds them is cut off.
pub fn announce(session: &Session, guid: u64, paths: &[PathBuf]) {
    let Some(old) = by_guid(session, guid) else { return };
    let cachefile = old.cachefile();
    if let Err(failure) = keep(session, &old.with_adding(paths), &cachefile) {
        warn_forgetful(session, &failure);
    }
}

/// What was known of a pool is written anew, when it is known and has changed.
pub fn refresh(session: &Session, guid_before: u64, pool: &LivePool) {
    let Some(old) = by_guid(session, guid_before) else { return };
    let new = old.with_config(pool.cache_config()).with_files(Some(&old));
    let guid = new.guid();
    if new.says_the_same_as(&old) {
        return;
    }
    // In this order: wherever this is cut off, the pool is known by its name.
    let kept = keep(session, &new, &old.cachefile());
    let done = kept.and_then(|()| match guid_before == guid {
        true => Ok(()),
        false => forget_quietly(session, guid_before),
    });
    if let Err(failure) = done {
        warn_forgetful(session, &failure);
    }
}

/// The same for a command that only read the pool, and found devices that were not written down.
/// An entry that another command has changed meanwhile stays; so does one that cannot be written.
pub fn note(session: &Session, old: &Known, pool: &Pool) {
    let new = old.with_config(cache_config(pool)).with_files(Some(old));
    if new.says_the_same_as(old) {
        return;
    }
    files(session).iter().for_each(|file| {
        let _ = file.replace_entry(session, old, &new);
    });
}

/// Forgets a pool, which was exported or destroyed. That it cannot be is only said.
pub fn forget(session: &Session, guid: u64) {
    if let Err(failure) = try_forget(session, guid) {
        failure.report(session);
    }
}

/// The same for a command that does nothing else.
pub fn try_forget(session: &Session, guid: u64) -> Result<(), Failure> {
    let name = by_guid(session, guid).map(|known| known.name().to_owned()).unwrap_or_default();
    forget_quietly(session, guid).map_err(|why| {
        let (what, because, _) = why.parts();
        let failure = Failure::new(format!("'{name}' is still in the list of known pools"));
        because.iter().fold(failure.because(what), Failure::because)
    })
}

fn forget_quietly(session: &Session, guid: u64) -> Result<(), Failure> {
    let elsewhere = match by_guid(session, guid).map(|known| known.cachefile()) {
        Some(Cachefile::At(path)) => Some(CacheFile::at(path)),
        _ => None,
    };
    files(session).iter().chain(&elsewhere).try_for_each(|file| file.remove(session, guid))
}

fn warn_forgetful(session: &Session, failure: &Failure) {
    let (what, because, _) = failure.parts();
    let mut text = format!("zinc: what is known of this pool is not up to date: {what}\n");
    because.iter().for_each(|why| text.push_str(&format!("  because: {why}\n")));
    text.push_str(&format!("  hint: -d PATH finds its devices; {OTHER_FOLDER}\n"));
    file::say_once(session, &text.clone(), &text);
}
