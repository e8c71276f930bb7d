//! One program of this machine at a time writes to a far leaf.
//!
//! Commands queue on the locks of the devices of their pool (decision 0014). For a file or disk the
//! system has the lock; for a far leaf there is a file of this machine that stands for it, locked
//! in the same way, so that readers wait and the holder is named as with any other device. It is
//! empty and stays: a file that is deleted under a program that waits for it would be two locks.
//!
//! As with a file that is a device, a lock that another has is tried again for a while: a process
//! that is being started has all descriptors of its parent, and so the locks that its parent has
//! just let go, until it runs its own program.

use crate::name::Name;
use ondisk::hex;
use rt::Rt;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a lock that another has is tried again: far longer than it takes to start a program on
/// a busy machine, and not long for a user who named a leaf that is really in use.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// A program that can open such a file can lock it, and so keep the leaf from its owner.
const MODE: u32 = 0o600;

/// Where locks of devices are, open to all users; the second where a system has no such place.
const PLACES: [&str; 2] = ["/run/lock", "/tmp"];

/// The file whose lock is that of a far leaf; it is made when it is not there.
#[must_use]
pub fn file(name: &Name) -> PathBuf {
    let own = format!("zinc-far-{}", hex::encode(&name.identity()[..16]));
    let in_place = |place: &str| Path::new(place).join(&own);
    // One that is there and may not be opened is the lock of another user: not a lock beside it.
    let is_usable = |path: &PathBuf| open(path).is_ok() || path.symlink_metadata().is_ok();
    let usable = PLACES.iter().map(|place| in_place(place)).find(is_usable);
    usable.unwrap_or_else(|| in_place(PLACES[1]))
}

/// Opens such a file of this user, and nothing else that a user may have put there.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut there = OpenOptions::new();
    there.read(true).custom_flags(flags);
    let found = match there.open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let mut new = OpenOptions::new();
            new.read(true).write(true).create_new(true).mode(MODE).custom_flags(flags);
            match new.open(path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => there.open(path),
                made => made,
            }
        }
        found => found,
    }?;
    let metadata = found.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    if metadata.permissions().mode() & !MODE & 0o777 != 0 {
        // Of another user it stays as it is, for the one who made it to change.
        let _ = found.set_permissions(Permissions::from_mode(MODE));
    }
    Ok(found)
}

/// Locks a file; one that another has is tried again for [`PATIENCE`], in the time of `rt`: where
/// time is simulated, so is the program that has it.
pub(crate) fn lock(file: &File, rt: &Rt) -> Result<(), TryLockError> {
    let end = rt.now() + PATIENCE;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if rt.now() < end => rt.sleep(PAUSE),
            other => return other,
        }
    }
}

/// Locks a far leaf for this program alone, until the file is dropped; `None` when another has it,
/// or another user made the lock.
pub(crate) fn take(name: &Name) -> io::Result<Option<File>> {
    let file = match open(&file(name)) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        opened => opened?,
    };
    match lock(&file, &Rt::real()) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_until_it_lets_go() {
        let text = format!("nbd://nowhere/{}", std::process::id());
        let name = Name::parse(Path::new(&text)).unwrap().unwrap();
        let held = take(&name).unwrap();
        assert!(held.is_some());
        assert!(take(&name).unwrap().is_none());
        drop(held);
        assert!(take(&name).unwrap().is_some());
        std::fs::remove_file(file(&name)).unwrap();
    }

    #[test]
    fn only_its_owner_can_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let [new, old] = ["new", "old"].map(|name| folder.path().join(name));
        open(&new).unwrap();
        assert_eq!(mode(&new), MODE);
        std::fs::write(&old, "").unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        open(&old).unwrap();
        assert_eq!(mode(&old), MODE);
    }

    #[test]
    fn what_another_user_put_there_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(open(&link).is_err());
        assert!(!target.exists());
        assert!(open(folder.path()).is_err());
    }
}
