//! The system's side of mounting: `mount(2)`, `umount2(2)`, and its list of what is mounted.

use crate::{Error, Options, helper};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The type of our mounts, as `mount` and `df` show it.
pub const TYPE: &str = "fuse.zinc";

/// A mount of zinc's, by whatever process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The mounted dataset or snapshot.
    pub name: String,
    /// Where.
    pub dir: PathBuf,
    /// The number of its connection to the process that answers, which is that of its device.
    pub connection: u32,
}

/// The mounts of zinc that the system knows, in the order in which they were made.
#[must_use]
pub fn listed() -> Vec<Listed> {
    listed_for("self")
}

/// The one that a path lies in.
#[must_use]
pub fn above<'l>(mounted: &'l [Listed], path: &Path) -> Option<&'l Listed> {
    let above = mounted.iter().filter(|mount| path.starts_with(&mount.dir));
    above.max_by_key(|mount| mount.dir.components().count())
}

/// The mount that the system has at a path, which has no symbolic links in it: `None` when that is
/// another file system's, or one of ours that shows a part of a file system only (a bind mount).
#[must_use]
pub fn whole_at(path: &Path) -> Option<Listed> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounts = text.split(|b| *b == b'\n').filter_map(|line| {
        let mut words = line.split(|b| *b == b' ').skip(3);
        let (root, dir) = (words.next()?, plain(words.next()?));
        let dir = PathBuf::from(OsString::from_vec(dir));
        path.starts_with(&dir).then_some((dir.components().count(), root, line))
    });
    // Of those at one place the last hides the others.
    let (_, root, line) = mounts.max_by_key(|(depth, ..)| *depth)?;
    listed_in(line).filter(|_| root == b"/")
}

/// Those in the mount namespace of a process.
fn listed_for(process: &str) -> Vec<Listed> {
    let text = std::fs::read(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    text.split(|b| *b == b'\n').filter_map(listed_in).collect()
}

/// Parses a line of the list; `None` if the mount is not zinc's.
fn listed_in(line: &[u8]) -> Option<Listed> {
    let mut words = line.split(|b| *b == b' ');
    // No file system of a program is on a device with a major number.
    let connection = std::str::from_utf8(words.nth(2)?).ok()?.strip_prefix("0:")?.parse().ok()?;
    let dir = plain(words.nth(1)?);
    // The fields before the lone dash are of no fixed number.
    let mut words = words.skip_while(|word| *word != b"-").skip(1);
    let is_ours = words.next()? == TYPE.as_bytes();
    let name = String::from_utf8_lossy(&plain(words.next()?)).into_owned();
    is_ours.then(|| Listed { name, dir: PathBuf::from(OsString::from_vec(dir)), connection })
}

/// Where something is mounted in the mount that is seen at `dir`, of zinc or not.
#[must_use]
pub fn mounted_in(dir: &Path) -> Vec<PathBuf> {
    MountTree::read().within(dir).map(Path::to_owned).collect()
}

/// All mounts that the system has at a moment, by what they lie in.
pub(crate) struct MountTree(Vec<(u64, u64, PathBuf)>);

impl MountTree {
    pub(crate) fn read() -> Self {
        let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let one = |line: &[u8]| {
            let mut words = line.split(|b| *b == b' ');
            let mut number =
                || -> Option<u64> { std::str::from_utf8(words.next()?).ok()?.parse().ok() };
            let (number, parent) = (number()?, number()?);
            Some((number, parent, PathBuf::from(OsString::from_vec(plain(words.nth(2)?)))))
        };
        Self(text.split(|b| *b == b'\n').filter_map(one).collect())
    }

    /// Where something is mounted in the mount that is seen at `dir`.
    pub(crate) fn within<'t>(&'t self, dir: &Path) -> impl Iterator<Item = &'t Path> {
        let outer = self.0.iter().rfind(|(.., at)| at == dir).map(|(number, ..)| *number);
        let inner = self.0.iter().filter(move |(_, parent, _)| Some(*parent) == outer);
        inner.map(|(.., at)| at.as_path())
    }
}

/// A mount that was found by a name, behind those that go with it, the innermost first: of file
/// systems below it that are in it because they inherit that. Found by its directory it goes alone,
/// as in OpenZFS.
#[must_use]
pub fn with_inherited(outer: Listed, found_by: &OsStr) -> Vec<Listed> {
    let is_inherited = |one: &Listed| {
        let rest = one.name.strip_prefix(&outer.name).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| !rest.contains('@') && one.dir == outer.dir.join(rest))
    };
    let mut found = Vec::new();
    if found_by == OsStr::new(&outer.name) {
        found.extend(listed().into_iter().filter(is_inherited));
        found.sort_by(|a, b| b.dir.cmp(&a.dir));
    }
    found.push(outer);
    found
}

/// Names damaged files (`DATASET:/PATH`) of a pool by where programs find them, as far as what they
/// are in is among the pool's mounts. The system's list does not tell those: another pool may have
/// the same name.
pub fn name_seen(damaged: &mut [String], mounted: &[(String, PathBuf)]) {
    for name in damaged {
        if let Some(seen) = seen_at(mounted, name) {
            *name = seen;
        }
    }
}

fn seen_at(mounted: &[(String, PathBuf)], damaged: &str) -> Option<String> {
    let path_in = |(name, dir): &(String, PathBuf)| {
        let path = damaged.strip_prefix(name)?.strip_prefix(":/")?;
        Some(dir.join(path).to_string_lossy().into_owned())
    };
    mounted.iter().rev().find_map(path_in)
}

/// The holder of a connection whose mount was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountHolder {
    /// It is mounted here a second time.
    At(PathBuf),
    /// The mount namespace of this process has the mount too.
    Process(u32),
    /// Programs that had files open when the mount was detached from its directory.
    OpenFiles,
}

/// The holder of this connection, as far as this process can see it.
pub(crate) fn keeper_of(connection: u32) -> MountHolder {
    let is_it = |one: &Listed| one.connection == connection;
    if let Some(here) = listed().into_iter().find(is_it) {
        return MountHolder::At(here.dir);
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_it = |number: &u32| listed_for(&number.to_string()).iter().any(is_it);
    numbers.find(has_it).map_or(MountHolder::OpenFiles, MountHolder::Process)
}

/// Where the kernel shows the connections of file systems of programs: a file system of its own,
/// which not every machine has mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Ends a connection, wherever its mount is seen: programs that use it get errors.
///
/// # Errors
/// The system refuses.
pub(crate) fn abort(connection: u32) -> Result<(), Error> {
    let path = Path::new(CONNECTIONS).join(connection.to_string()).join("abort");
    let write = || File::options().write(true).open(&path)?.write_all(b"1");
    let fail = |e| Error::System("abort of the connection", e);
    match write() {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        done => return done.map_err(fail),
    }
    // Either there is no such connection any more, or they are not shown.
    let none = None::<&str>;
    nix::mount::mount(none, CONNECTIONS, Some("fusectl"), MsFlags::empty(), none)
        .map_err(|e| fail(e.into()))?;
    let done = write();
    // It is not in use: what was written was closed. Whatever becomes of it, it does no harm.
    let _ = nix::mount::umount2(CONNECTIONS, MntFlags::MNT_DETACH);
    match done {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        done => done.map_err(fail),
    }
}

/// A word with its octal escapes for blanks and the like decoded.
fn plain(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| first == b'\\');
        let number = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
        out.push(number.unwrap_or(first));
        rest = if number.is_some() { &behind[3..] } else { behind };
    }
    out
}

/// How long to wait for a mount to find out whether it is dead. The kernel reports a dead one at
/// once; one that does not answer in this time has a process that is stopped or stuck.
const ANSWER: Duration = Duration::from_secs(2);

/// The number of the connection of what was just mounted at `dir`. Its process is not asked: it
/// does not answer yet.
pub(crate) fn connection_at(dir: &Path) -> Option<u32> {
    let flags = rustix::fs::AtFlags::STATX_DONT_SYNC;
    let wanted = rustix::fs::StatxFlags::empty();
    let seen = rustix::fs::statx(rustix::fs::CWD, dir, flags, wanted).ok()?;
    (seen.stx_dev_major == 0).then_some(seen.stx_dev_minor)
}

/// Whether the process that served what is mounted at `dir` is gone.
#[must_use]
pub fn is_dead(dir: &Path) -> bool {
    dead_root(dir).is_some()
}

/// The root of what is mounted at `dir`, when the process that served it is gone. An error: so is
/// the process of a mount on the way to it.
fn dead_root(dir: &Path) -> Option<Result<OwnedFd, Errno>> {
    // The second is the error of requests that were in progress when it died.
    let gone = [Errno::ENOTCONN, Errno::ECONNABORTED];
    let at = dir.to_owned();
    let (sender, receiver) = std::sync::mpsc::channel();
    let ask = move || {
        // The kernel knows the root without its process. Attributes it may remember; for space it
        // always asks.
        let root = rustix::fs::open(&at, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let root = root.map_err(|e| Errno::from_raw(e.raw_os_error()));
        let error = match &root {
            Ok(root) => nix::sys::statvfs::fstatvfs(root).err(),
            Err(e) => Some(*e),
        };
        let _ = sender.send(error.filter(|e| gone.contains(e)).map(|_| root));
    };
    // No time is given to a system call: the thread is left behind in it.
    std::thread::Builder::new().name("mount-asks".to_owned()).spawn(ask).ok()?;
    receiver.recv_timeout(ANSWER).ok().flatten()
}

/// Takes away what processes that died left mounted at `dir` and above it, the outermost first:
/// with a mount goes what is mounted inside it.
///
/// # Errors
/// The system refuses.
pub fn clear_dead(dir: &Path) -> Result<(), Error> {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mounted = listed();
    let is_mounted = |at: &&Path| mounted.iter().any(|one| one.dir == *at);
    let mut outer: Vec<&Path> = dir.ancestors().filter(is_mounted).collect();
    outer.reverse();
    for at in outer {
        // Several may lie over each other.
        while let Some(top) = listed().into_iter().rfind(|one| one.dir == at)
            && let Some(root) = dead_root(at)
        {
            let root = root.map_err(|e| Error::System("open", e.into()))?;
            match unmount_dead(&root, at) {
                // Another process took it away.
                Err(Error::NotMounted(_)) if !listed().contains(&top) => {}
                done => done?,
            }
        }
    }
    Ok(())
}

/// Takes away the mount that has this root, and never another that was put in its place since.
fn unmount_dead(root: &OwnedFd, dir: &Path) -> Result<(), Error> {
    let link = format!("/proc/self/fd/{}", root.as_raw_fd());
    let flags = MntFlags::MNT_DETACH | MntFlags::MNT_FORCE;
    match nix::mount::umount2(Path::new(&link), flags) {
        Err(Errno::EPERM) => helper::unmount(dir, true),
        done => done.map_err(|e| not_unmounted(e, dir)),
    }
}

/// How long it is tried to take away what is in use: a program that lists all mounts, such as
/// `df`, uses each of them for a moment.
const BUSY: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_millis(10);

/// Takes away what is mounted at `dir`. `lazily`: also when programs use it, which can do nothing
/// more with what they have open.
///
/// # Errors
/// Programs use it, or something is mounted in it; it is another user's.
pub fn unmount(dir: &Path, lazily: bool) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        let done = match unmount_as_root(dir, lazily) {
            Err(Error::NotRoot) => helper::unmount(dir, lazily),
            done => done,
        };
        match done {
            Err(Error::Busy(_)) => match mounted_in(dir).into_iter().next() {
                Some(inner) => return Err(Error::Inner(dir.to_owned(), inner)),
                None if began.elapsed() < BUSY => std::thread::sleep(AGAIN),
                None => return Err(Error::Busy(dir.to_owned())),
            },
            done => return done,
        }
    }
}

fn unmount_as_root(dir: &Path, lazily: bool) -> Result<(), Error> {
    let mut flags = MntFlags::UMOUNT_NOFOLLOW;
    if lazily {
        flags |= MntFlags::MNT_DETACH | MntFlags::MNT_FORCE;
    }
    nix::mount::umount2(dir, flags).map_err(|e| not_unmounted(e, dir))
}

fn not_unmounted(e: Errno, dir: &Path) -> Error {
    match e {
        Errno::EBUSY => Error::Busy(dir.to_owned()),
        Errno::EINVAL => Error::NotMounted(dir.to_owned()),
        Errno::EPERM => Error::NotRoot,
        e => Error::System("umount", e.into()),
    }
}

/// Whether programs use the mount at `dir`, as far as this process may find out.
pub(crate) fn is_used(dir: &Path) -> bool {
    // It marks a mount that is not used; a marked one is removed by the next call.
    let expired = nix::mount::umount2(dir, MntFlags::MNT_EXPIRE | MntFlags::UMOUNT_NOFOLLOW);
    // A look at it takes the mark away. The kernel knows the root without asking its process.
    let _ = rustix::fs::open(dir, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    expired == Err(Errno::EBUSY)
}

/// The options that the kernel keeps by itself.
fn flags(options: &Options) -> MsFlags {
    let off = [
        (options.read_only, MsFlags::MS_RDONLY),
        (!options.set_id, MsFlags::MS_NOSUID),
        (!options.devices, MsFlags::MS_NODEV),
        (!options.exec, MsFlags::MS_NOEXEC),
        (!options.atime, MsFlags::MS_NOATIME),
    ];
    off.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| *flag).collect()
}

/// Changes the options of the mount at `dir` that the kernel keeps, while programs use it.
pub(crate) fn remount(dir: &Path, before: &Options, options: &Options) -> Result<(), Error> {
    if flags(before) == flags(options) {
        return Ok(());
    }
    let (none, flags) = (None::<&str>, flags(options) | MsFlags::MS_REMOUNT);
    nix::mount::mount(none, dir, none, flags, none).map_err(|e| match e {
        Errno::EBUSY => Error::Busy(dir.to_owned()),
        Errno::EPERM => Error::NotRoot,
        e => Error::System("mount", e.into()),
    })
}

/// Mounts: the connection to the kernel. For an ordinary user a program of root's does it.
pub(crate) fn mount(name: &str, dir: &Path, options: &Options) -> Result<OwnedFd, Error> {
    match mount_as_root(name, dir, options) {
        Err(Error::NotRoot) => helper::mount(name, dir, options),
        done => done,
    }
}

fn mount_as_root(name: &str, dir: &Path, options: &Options) -> Result<OwnedFd, Error> {
    let device = File::options().read(true).write(true).open("/dev/fuse").map_err(Error::NoFuse)?;
    let flags = flags(options);
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},allow_other,default_permissions",
        device.as_raw_fd()
    );
    let mounted = nix::mount::mount(Some(name), dir, Some(TYPE), flags, Some(data.as_str()));
    mounted.map_err(|e| match e {
        Errno::EPERM => Error::NotRoot,
        Errno::ENODEV => Error::NoFuse(e.into()),
        e => Error::System("mount", e.into()),
    })?;
    Ok(device.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_zinc_are_found_in_the_list() {
        let line = b"36 35 0:52 / /mnt/a\\040b rw,nosuid shared:7 - fuse.zinc tank/a\\040b rw,fd=4";
        let found = listed_in(line).map(|m| (m.name, m.dir, m.connection));
        assert_eq!(found, Some(("tank/a b".to_owned(), PathBuf::from("/mnt/a b"), 52)));
        assert_eq!(listed_in(b"36 35 98:0 / / rw - ext4 /dev/vda rw"), None);
        assert_eq!(listed_in(b"36 35"), None);
        assert_eq!(plain(b"a\\04"), b"a\\04");
    }

    #[test]
    fn a_damaged_file_is_named_where_programs_find_it() {
        let mounted = [("tank/a".to_owned(), PathBuf::from("/mnt"))];
        assert_eq!(seen_at(&mounted, "tank/a:/b/c").as_deref(), Some("/mnt/b/c"));
        for elsewhere in ["tank/a@s:/b", "tank/a:<0x7>", "tank/ab:/c", "<metadata>:<0x1>"] {
            assert_eq!(seen_at(&mounted, elsewhere), None);
        }
    }

    #[test]
    fn the_hint_of_a_mount_that_cannot_be_is_about_its_cause() {
        let hint = |e: Errno| Error::NoFuse(e.into()).hint().unwrap_or_default();
        assert!(
            hint(Errno::EACCES).contains("may not open") && !hint(Errno::EACCES).contains("module")
        );
        assert!(hint(Errno::EPERM).contains("may not open"));
        assert!(hint(Errno::ENOENT).contains("module") && hint(Errno::ENODEV).contains("module"));
        assert_eq!(Error::NotRoot.hint(), None);
    }
}
