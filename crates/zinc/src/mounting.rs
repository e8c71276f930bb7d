//! Mounts and verbs: mounts follow the datasets that verbs change (`mount::datasets`), and those
//! that could not are reported.

use crate::failure::Failure;
use crate::refusals::cannot;
use crate::session::{Client, Session};
use crate::ui;
use ::mount::datasets::{Changed, Changes, DatasetError, Follower, Unmounting};
use ::mount::reading::MountRecord;
use ::mount::{Error, Mounts};
use engine::LivePool;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The message for a mount that was made.
pub fn made(name: &str, dir: &Path) -> String {
    format!("{name} is mounted at {}, by process {}\n", dir.display(), std::process::id())
}

/// The same where the pool is only read, and a warning if something is missing.
pub fn made_to_read(session: &Session, made: &MountRecord, pid: u64) -> String {
    let MountRecord { name, dir, is_behind } = made;
    if *is_behind {
        let what = "what was written last is in its intent log and not seen here: `zinc cp` and \
                    others show it with --replay";
        ui::note(session, &format!("warning: {name}: {what}"));
    }
    format!("{name} is mounted read-only at {}, by process {pid}\n", dir.display())
}

impl From<DatasetError> for Failure {
    fn from(e: DatasetError) -> Self {
        match e {
            DatasetError::Option(_) => Self::usage(e.to_string()),
            DatasetError::Engine { doing, name, error } => cannot(doing, &name, error),
            DatasetError::Unmount { dir, error } => not_unmounted(&dir, &error),
            DatasetError::System { ref error, .. } => {
                error.hint().into_iter().fold(Self::new(e.to_string()), Self::hint)
            }
            e => Self::new(e.to_string()),
        }
    }
}

/// Why something stays mounted.
pub fn not_unmounted(dir: &Path, e: &Error) -> Failure {
    let (what, why, hint) = e.stays(dir);
    let failure = why.into_iter().fold(Failure::new(what), Failure::because);
    hint.into_iter().fold(failure, Failure::hint)
}

/// The mounts that a client's verbs have to think of.
pub fn follower(client: &Client) -> Follower<'_> {
    let (pool, mounts): (&Arc<LivePool>, &Mounts) = (&client.pool, &client.mounts);
    Follower { pool, mounts, mounts_all: client.mounts_all }
}

/// Reports the mounts that were not restored, also in the exit code.
pub fn report_failures(session: &Session, left: Vec<DatasetError>) -> ExitCode {
    left.into_iter().fold(ExitCode::SUCCESS, |_, e| Failure::from(e).report(session))
}

/// A change where nothing is held, so that nothing is mounted, or with the mounts that follow it.
fn follow(
    session: &Session,
    change: impl FnOnce() -> Result<(), Failure>,
    with: impl FnOnce(&Follower<'_>, &mut dyn FnMut() -> Result<(), Failure>) -> Changed<Failure>,
) -> Result<ExitCode, Failure> {
    let Some(client) = session.client() else { return change().map(|()| ExitCode::SUCCESS) };
    let mut change = Some(change);
    let mut once = || change.take().map_or(Ok(()), |change| change());
    let (done, left) = with(&follower(client), &mut once);
    // Mounts of a pool that is being let go are gone in any case.
    let is_let_go = client.presence.reason().is_some();
    let code = report_failures(session, if is_let_go { Vec::new() } else { left });
    done.map(|()| code)
}

/// Refuses to take mounts away for another user: as elsewhere on Linux, root mounts and unmounts.
fn check_mounts(session: &Session, affects: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    let client = session.client().filter(|client| client.is_other_user);
    Ok(client.map_or(Ok(()), |client| follower(client).check_unmounted(affects))?)
}

/// Refuses what cannot be done while datasets are mounted.
pub fn check_unmounted(session: &Session, affects: &dyn Fn(&str) -> bool) -> Result<(), Failure> {
    let Some(client) = session.client() else { return Ok(()) };
    Ok(follower(client).check_unmounted(affects)?)
}

/// Refuses long work at whose end datasets must not be mounted, when they could not be unmounted.
pub fn check_unused(session: &Session, down: &Unmounting<'_>) -> Result<(), Failure> {
    check_mounts(session, down.affects)?;
    let Some(client) = session.client().filter(|_| !down.force) else { return Ok(()) };
    Ok(follower(client).check_unused(down)?)
}

/// Does something to datasets that must not be mounted meanwhile.
pub fn while_unmounted(
    session: &Session,
    down: &Unmounting<'_>,
    change: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    check_mounts(session, down.affects)?;
    follow(session, change, |follower, change| follower.while_unmounted(down, change))
}

/// Changes properties; what is mounted follows them.
pub fn with_properties(
    session: &Session,
    changes: &Changes<'_>,
    change: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    check_mounts(session, &|name| changes.moves(name))?;
    let stays = changes.stays || session.is_for_another_user();
    let changes = Changes { stays, ..*changes };
    let with = |follower: &Follower<'_>, change: &mut dyn FnMut() -> Result<(), Failure>| {
        follower.with_properties(&changes, change)
    };
    if follow(session, change, with)? != ExitCode::SUCCESS {
        ui::error(session, "property may be set but unable to remount filesystem\n");
    }
    // It is set, as with OpenZFS, whose exit code means that.
    Ok(ExitCode::SUCCESS)
}

/// Makes a file system, which may be mounted at once, but for another user.
pub fn with_new(
    session: &Session,
    name: &str,
    change: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    if session.is_for_another_user() {
        return change().map(|()| ExitCode::SUCCESS);
    }
    follow(session, change, |follower, change| follower.with_new(name, change))
}

/// The same for a verb that does nothing else.
pub fn with_created(
    session: &Session,
    name: &str,
    change: impl FnOnce() -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let code = with_new(session, name, change)?;
    if code != ExitCode::SUCCESS {
        ui::error(session, "filesystem successfully created, but not mounted\n");
    }
    Ok(code)
}
