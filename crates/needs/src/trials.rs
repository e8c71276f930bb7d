//! What a machine allows is found out by trying it: asking for the reasons why it might be
//! forbidden (capabilities, namespaces, filters of system calls) would forget one.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// A user that has nothing.
const NOBODY: u32 = 65534;
/// The device of file systems that programs serve.
const FUSE: &str = "/dev/fuse";

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may mount file systems of programs.
pub(crate) fn may_mount_fuse() -> bool {
    is_root() && File::options().read(true).write(true).open(FUSE).is_ok()
}

/// Whether every user may mount file systems of programs.
pub(crate) fn all_may_fuse() -> bool {
    let may_open = format!("test -r {FUSE} && test -w {FUSE}");
    is_root()
        && succeeds(Command::new("sh").args(["-c", &may_open]).uid(NOBODY).gid(NOBODY))
        && Command::new("fusermount3").arg("--version").output().is_ok()
}

pub(crate) fn may_be_another() -> bool {
    is_root() && succeeds(Command::new("true").uid(NOBODY).gid(NOBODY))
}

/// Whether this process may mount file systems of the kernel.
pub(crate) fn may_mount() -> bool {
    let folder = Scratch::folder();
    let mounted = succeeds(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&folder.0));
    mounted && succeeds(Command::new("umount").arg(&folder.0))
}

/// Whether this process may make a block device of a file.
pub(crate) fn may_loop() -> bool {
    let file = Scratch::file(&std::env::temp_dir());
    let sized = File::create(&file.0).is_ok_and(|file| file.set_len(1 << 20).is_ok());
    let set_up = Command::new("losetup").args(["-f", "--show"]).arg(&file.0).output();
    let Some(set_up) = set_up.ok().filter(|output| sized && output.status.success()) else {
        return false;
    };
    let device = String::from_utf8_lossy(&set_up.stdout).trim().to_owned();
    succeeds(Command::new("losetup").arg("-d").arg(device))
}

pub(crate) fn has_uring() -> bool {
    io_uring::IoUring::new(2).is_ok()
}

/// Whether single sectors of a file in the build's folder can be written past the page cache.
pub(crate) fn has_direct_io() -> bool {
    #[repr(align(4096))]
    struct Sector([u8; 512]);
    let file = Scratch::file(Path::new(env!("OUT_DIR")));
    let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or_default();
    let opened = OpenOptions::new().create(true).write(true).custom_flags(flags).open(&file.0);
    opened.is_ok_and(|file| file.write_all_at(&Sector([1; 512]).0, 512).is_ok())
}

/// Whether a file can be made so that this user cannot write to it. Root writes to everything that
/// is not marked, which not every file system can do.
pub(crate) fn may_keep_out() -> bool {
    let file = Scratch::file(&std::env::temp_dir());
    if File::create(&file.0).is_err() {
        return false;
    }
    if !is_root() {
        return std::fs::set_permissions(&file.0, Permissions::from_mode(0o444)).is_ok();
    }
    let mark = |how| succeeds(Command::new("chattr").arg(how).arg(&file.0));
    mark("+i") && mark("-i")
}

/// Whether the file system of temporary files forgets times of centuries ago.
pub(crate) fn has_bounded_times() -> bool {
    let file = Scratch::file(&std::env::temp_dir());
    let early = UNIX_EPOCH - Duration::from_secs(1 << 33);
    let Ok(mut file) = File::create(&file.0) else { return false };
    let written = file.write_all(b"x").is_ok() && file.set_modified(early).is_ok();
    let kept = file.metadata().and_then(|metadata| metadata.modified());
    written && kept.is_ok_and(|time| time != early)
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A path of its own, which is empty again when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn file(folder: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(folder.join(format!("zinc-needs-{}-{number}", std::process::id())))
    }

    fn folder() -> Self {
        let folder = Self::file(&std::env::temp_dir());
        // What is done in it fails if this did.
        let _ = std::fs::create_dir(&folder.0);
        folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir(&self.0);
    }
}
