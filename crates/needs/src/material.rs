//! What tests may need beyond the checkout, by the names that [`needs`](crate::needs) takes.

use crate::trials;
use std::path::{Path, PathBuf};

/// A name, whether it is so, and what is missing otherwise.
type Trial = (&'static str, fn() -> bool, &'static str);

/// Rights and properties of the machine.
const MACHINE: [Trial; 10] = [
    ("root", trials::is_root, "root"),
    ("fuse", trials::may_mount_fuse, "/dev/fuse, and root"),
    ("fuse for all", trials::all_may_fuse, "root, fusermount3, and a /dev/fuse open to all users"),
    ("another user", trials::may_be_another, "root, and to run programs as another user"),
    ("mount", trials::may_mount, "the right to mount file systems"),
    ("loop", trials::may_loop, "loop devices, and the right to set one up"),
    ("io_uring", trials::has_uring, "io_uring, which this system forbids"),
    ("direct I/O", trials::has_direct_io, "direct I/O in sectors where the build lies"),
    ("immutable files", trials::may_keep_out, "files that can be made read-only, for root too"),
    ("bounded times", trials::has_bounded_times, "a file system that does not keep every time"),
];

/// Programs of OpenZFS, and of others, that scripts lay under `target`.
const FETCHED: [(&str, &str, &str); 9] = [
    ("ceph", "ceph/unpacked", "Ceph (scripts/ceph)"),
    ("azurite", "azurite/node_modules/azurite/dist/src/blob/main.js", "Azurite (scripts/azurite)"),
    (
        "fake-gcs-server",
        "fake-gcs-server/fake-gcs-server",
        "fake-gcs-server (scripts/fake-gcs-server)",
    ),
    ("zdb", "oracle/bin/zdb", "zdb (scripts/oracle)"),
    ("ztest", "oracle/bin/ztest", "ztest (scripts/oracle)"),
    ("zstream", "oracle/bin/zstream", "zstream (scripts/oracle)"),
    ("sanoid", "oracle/scripts/usr/sbin/sanoid", "sanoid and syncoid (scripts/oracle)"),
    (
        "zfs-auto-snapshot",
        "oracle/scripts/usr/sbin/zfs-auto-snapshot",
        "zfs-auto-snapshot (scripts/oracle)",
    ),
    ("versitygw", "versitygw/versitygw", "versitygw (scripts/versitygw)"),
];

/// Programs, and the packages of Debian that have them.
const PROGRAMS: [(&str, &str); 19] = [
    ("chromium", "chromium"),
    ("debugfs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("fincore", "util-linux"),
    ("flock", "util-linux"),
    ("losetup", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("nbd-server", "nbd-server"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("nbdkit", "nbdkit"),
    ("nbdsh", "python3-libnbd"),
    ("prlimit", "util-linux"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("script", "bsdutils"),
    ("sfdisk", "fdisk"),
    ("systemd-analyze", "systemd"),
];

/// What is missing, in words, when `name` is not there. A name that is none of the lists above is
/// that of a path (`"/dev/shm"`), of the studies' figures, of the send streams, or of a pool of the
/// collection.
pub(crate) fn missing(name: &str) -> Option<String> {
    let (is_there, what) = if let Some((_, is_so, what)) = MACHINE.iter().find(|m| m.0 == name) {
        (is_so(), (*what).to_owned())
    } else if let Some((_, path, what)) = FETCHED.iter().find(|f| f.0 == name) {
        (root().join("target").join(path).is_file(), (*what).to_owned())
    } else if let Some((program, package)) = PROGRAMS.iter().find(|p| p.0 == name) {
        (find_program(program), format!("{program} (package {package})"))
    } else if name.starts_with('/') {
        (Path::new(name).exists(), name.to_owned())
    } else {
        (is_of_collection(name), format!("{name} of ../shared"))
    };
    (!is_there).then_some(what)
}

/// The root of the checkout.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Whether a program is found as tests find it, which also look where root's programs are.
fn find_program(name: &str) -> bool {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn is_of_collection(name: &str) -> bool {
    let shared = match std::env::var_os("ZINC_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => root().join("../shared"),
    };
    match name {
        "figures" => shared.join("seeds/figures.toml").is_file(),
        "streams" => shared.join("streams/streams.json").is_file(),
        pool => [shared.join("pools"), root().join("fixtures/pools"), root().join("fixtures")]
            .iter()
            .any(|folder| folder.join(pool).join("manifest.json").is_file()),
    }
}
