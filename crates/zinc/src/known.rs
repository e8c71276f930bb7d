//! The list of known pools ([`imported`]) as this command has it: its folder, and its messages.
//!
//! The folder is the one that disks in stores are remembered in as well ([`disk::state_folder`]):
//! `ZINC_STATE`, else root's `/var/lib/zinc`, else the user's `zinc` in `XDG_STATE_HOME`. See
//! decision 0014.

use crate::failure::{Failure, system_text};
use crate::places::elsewhere;
use crate::session::Session;
use crate::ui;
use engine::datasets::pool_of;
use engine::devices::{disk, is_far};
use engine::pools::PoolProperty;
use imported::{Cachefile, Error, Known, KnownPools, LookError, Notice};
use std::path::{Path, PathBuf};
use term::escape::word;

/// The advice when the list of known pools cannot be read or written.
const OTHER_FOLDER: &str = "ZINC_STATE names another folder to remember pools in";

/// The folder of this user; `None` without a home.
fn folder(session: &Session) -> Option<PathBuf> {
    disk::state_folder(session.user() == 0)
}

/// The pools that this user knows.
pub fn pools(session: &Session) -> KnownPools<'_> {
    let notify = |notice: &Notice<'_>| print_notice(session, notice);
    KnownPools::in_folder(folder(session), notify).searched_by(elsewhere(session))
}

/// Whether the pool that `name` (anything in it) belongs to was imported with `-o readonly=on`.
/// With places to search, the setting of that import does not count.
pub fn is_readonly(session: &Session, search: &[PathBuf], name: &str) -> bool {
    search.is_empty() && pools(session).find(pool_of(name)).is_some_and(|k| k.is_readonly())
}

/// The pools that root has imported, for another user: every user may read root's list.
pub fn all_of_root(session: &Session) -> Vec<Known> {
    if session.user() == 0 || std::env::var_os("ZINC_STATE").is_some() {
        return Vec::new();
    }
    KnownPools::of_foreign_folder(Path::new(disk::ROOT_STATE))
}

/// That of this name or guid.
pub fn of_root(session: &Session, name: &str) -> Option<Known> {
    let wanted = pool_of(name);
    all_of_root(session).into_iter().find(|known| known.is_called(wanted))
}

/// The known pool, of this user or of root, that has a device with this guid.
pub fn with_device(session: &Session, guid: u64) -> Option<Known> {
    let mut all = pools(session).all();
    all.extend(all_of_root(session));
    all.into_iter().find(|known| known.has_device(guid))
}

/// The pools in a cache file that the user named. Damaged entries of it are reported.
pub fn read(session: &Session, path: &Path) -> Result<Vec<Known>, Failure> {
    let (pools, damaged) = imported::read(path).map_err(|e| {
        let why = match e.kind() {
            std::io::ErrorKind::NotFound => "No such file or directory".to_owned(),
            _ => e.to_string(),
        };
        Failure::new(format!("cannot read cache file {}", path.display())).because(why)
    })?;
    for why in &damaged {
        ui::note(session, &format!("cache file {}: {why}", path.display()));
    }
    Ok(pools)
}

/// Adds properties that are in no label of a pool, because they were given when the pool was
/// imported here.
pub fn complete(session: &Session, properties: &mut [PoolProperty], guid: u64) {
    pools(session).by_guid(guid).iter().for_each(|known| known.complete(properties));
}

/// Why a pool gets no name here; `doing` begins the message.
pub fn not_remembered(doing: &str, cachefile: &Cachefile, why: &Error) -> Failure {
    let failure = because_of(
        Failure::new(format!("{doing}: it cannot be recorded in the list of known pools")),
        why,
    );
    match cachefile {
        Cachefile::At(_) => failure.hint("cachefile= names a file in a folder that is there"),
        _ => failure.hint(OTHER_FOLDER),
    }
}

/// Adds this error to a failure as its reason.
fn because_of(failure: Failure, why: &Error) -> Failure {
    let failure = failure.because(why.to_string());
    match why {
        Error::CannotWrite { cause, .. } => failure.because(system_text(cause)),
        Error::StillKnown { why, .. } => because_of(failure, why),
        _ => failure,
    }
}

/// The words for an error of the list.
fn words(e: &Error) -> Failure {
    let failure = Failure::new(e.to_string());
    match e {
        Error::CannotWrite { cause, .. } => failure.because(system_text(cause)),
        Error::StillKnown { why, .. } => because_of(failure, why),
        _ => failure,
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        words(&e)
    }
}

impl From<LookError> for Failure {
    fn from(e: LookError) -> Self {
        match e {
            LookError::Denied { name, path } => Self::opening(&name, "permission denied")
                .because(format!("its device {} cannot be read", path.display())),
            LookError::Absent(known) => {
                absent(known.name(), &known.paths()).of_closed(known.candidate(None))
            }
            LookError::Destroyed { name } => Self::opening(&name, "no such pool")
                .because("its labels say that it was destroyed")
                .hint(format!("`zinc zpool export -f {}` forgets it", word(&name))),
            LookError::NotKnown { name } => Self::opening(&name, "no such pool"),
            LookError::ReadOnly { name, old_version } => {
                let start = format!("cannot change '{name}'");
                let failure = Self::refused(&start, "pool is read-only");
                match old_version {
                    Some(version) => failure.because(format!(
                        "it is of version {version}, which zinc only reads; OpenZFS can upgrade it"
                    )),
                    None => failure
                        .because("it was imported with -o readonly=on")
                        .hint("export it, and import it without that option"),
                }
            }
            LookError::Search(e) => e.into(),
        }
    }
}

fn absent(name: &str, paths: &[PathBuf]) -> Failure {
    let mut failure = Failure::opening(name, "its devices are missing");
    for path in paths {
        let what = match (is_far(path), path.exists()) {
            (true, _) => "cannot be reached, or is not one of them",
            (false, true) => "is not one of them",
            (false, false) => "is not there",
        };
        failure = failure.because(format!("{} {what}", path.display()));
    }
    failure.hint(format!(
        "name their location with -d PATH; `zinc zpool export -f {}` forgets the pool",
        word(name)
    ))
}

/// Says something, once in this process about one `subject`.
fn warn_once(session: &Session, subject: &str, what: &Failure) {
    if session.process().warned.is_first(subject) {
        ui::failure(session, what);
    }
}

/// Says what the list has to tell.
fn print_notice(session: &Session, notice: &Notice<'_>) {
    match notice {
        Notice::Unreadable { path, cause } => {
            session.process().warned.list_is_unread();
            let failure = Failure::new("cannot read the list of known pools")
                .because(format!("{}: {}", path.display(), system_text(cause)))
                .hint(OTHER_FOLDER);
            // A problem of one file of a folder mostly affects the other.
            let folder = path.parent().unwrap_or(path).display().to_string();
            warn_once(session, &folder, &failure);
        }
        Notice::Damaged { path, why, aside } => {
            let what = format!("the list of known pools {} is damaged", path.display());
            let failure = why.iter().fold(Failure::new(what), Failure::because);
            let failure = match aside {
                Ok(aside) => failure.because(format!("it is now {}", aside.display())),
                Err(e) => failure.because(format!("it cannot be moved aside: {e}")),
            };
            let hint = "`zinc zpool import` finds pools again; -f takes those still active";
            ui::failure(session, &failure.hint(hint));
        }
        Notice::Outdated(why) => {
            let failure = Failure::new(format!(
                "the list of known pools is not up to date for this pool: {why}"
            ));
            let failure = match why {
                Error::CannotWrite { cause, .. } => failure.because(system_text(cause)),
                _ => failure,
            };
            let failure = failure.hint(format!("-d PATH finds its devices; {OTHER_FOLDER}"));
            warn_once(session, &failure.text(""), &failure);
        }
        Notice::NotForgotten(why) => {
            session.process().warned.still_listed();
            ui::failure(session, &words(why));
        }
        _ => {}
    }
}
