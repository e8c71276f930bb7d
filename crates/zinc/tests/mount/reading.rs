//! Pools that are only read: their file systems are there for all programs, and no byte of their
//! devices changes.

use super::{Place, kill, wait_for_end};
use std::io::{Error, Write as _};
use std::path::Path;
use std::process::Command;

/// What a write to a file system that may not be changed fails with.
const EROFS: i32 = 30;

/// Bytes of the device, which is compared as a whole.
const SIZE: u64 = 96 << 20;

/// The bytes of the device.
fn bytes(place: &Place) -> Vec<u8> {
    std::fs::read(place.path("disk")).unwrap()
}

/// The options of the mount at `mnt`, by the system's list.
fn options(place: &Place) -> String {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let point = place.mnt().canonicalize().unwrap();
    let line = text.lines().find(|line| line.split(' ').nth(1) == point.to_str()).unwrap();
    line.split(' ').nth(3).unwrap().to_owned()
}

/// Every way to change something is refused, and reading is not noted.
fn nothing_can_be_changed(dir: &Path) {
    let refused = |done: Result<(), Error>| {
        assert_eq!(done.unwrap_err().raw_os_error(), Some(EROFS));
    };
    let append = std::fs::OpenOptions::new().append(true).open(dir.join("a"));
    refused(append.and_then(|mut file| file.write_all(b"more")));
    refused(std::fs::write(dir.join("new"), ""));
    refused(std::fs::create_dir(dir.join("made")));
    refused(std::fs::remove_file(dir.join("a")));
    refused(std::fs::rename(dir.join("a"), dir.join("b")));
    refused(std::fs::hard_link(dir.join("a"), dir.join("b")));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    refused(std::fs::set_permissions(dir.join("a"), mode));
    assert_eq!(std::fs::read_to_string(dir.join("a")).unwrap(), "one\n");
}

/// A pool with two file systems and a snapshot, exported.
fn exported() -> Place {
    let place = Place::of_size(SIZE);
    place.zinc(&["zfs", "create", "tank/fs"]).ok();
    // Where the property says that it is mounted, nothing can be made by a reader.
    place.mount("tank");
    place.sh("mkdir fs");
    place.unmount();
    place.mount("tank/fs");
    place.sh("echo one > a; echo before > old");
    place.zinc(&["zfs", "snapshot", "tank/fs@s"]).ok();
    place.sh("echo after > old");
    place.unmount();
    place.zinc(&["zpool", "export", "tank"]).ok();
    place
}

#[testkit::needs("fuse")]
#[test]
fn what_was_imported_readonly_is_mounted_and_not_written() {
    let place = exported();
    let before = bytes(&place);
    place.zinc(&["zpool", "import", "-o", "readonly=on", "-d", ".", "tank"]).ok();
    let output = place.zinc(&["mount", "-o", "rw", "tank/fs", "mnt"]).ok();
    assert!(output.starts_with("tank/fs is mounted read-only at "), "{output}");
    let pid = output.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(options(&place).starts_with("ro,"), "{}", options(&place));
    nothing_can_be_changed(&place.mnt());
    assert_eq!(place.sh("ls; cat .zfs/snapshot/s/old old"), "a\nold\nbefore\nafter\n");
    // Not even when the system believes that it may write.
    let again = place.zinc(&["mount", "-o", "remount,rw", "tank/fs"]).ok();
    assert!(options(&place).starts_with("ro,"), "{again}");
    // Others read beside, and none writes.
    assert_eq!(place.zinc(&["cat", "tank/fs:/a"]).ok(), "one\n");
    assert_eq!(place.zinc(&["zfs", "get", "-Ho", "value", "mounted", "tank/fs"]).ok(), "yes\n");
    let refused = place.zinc(&["zfs", "create", "tank/x"]);
    assert!(refused.code == 1 && refused.err.contains("pool is read-only"), "{}", refused.err);
    let twice = place.zinc(&["mount", "tank/fs", "mnt"]);
    assert!(twice.code == 1 && twice.err.contains("already mounted"), "{}", twice.err);
    // The same process mounts the next one, and a snapshot.
    for (name, dir) in [("tank", "top"), ("tank/fs@s", "then")] {
        std::fs::create_dir(place.path(dir)).unwrap();
        let more = place.zinc(&["mount", name, dir]).ok();
        assert!(more.ends_with(&format!(" by process {pid}\n")), "{more}");
    }
    assert_eq!(std::fs::read_to_string(place.path("then/old")).unwrap(), "before\n");
    let second = place.zinc(&["serve", "tank"]);
    assert!(second.err.contains(&format!("process {pid} does")), "{}", second.err);
    place.zinc(&["unmount", "tank/fs@s"]).ok();
    // An export is refused while programs use it, and everything is where it was.
    let used = std::fs::File::open(place.path("mnt/a")).unwrap();
    let busy = place.zinc(&["zpool", "export", "tank"]);
    assert!(busy.code == 1 && busy.err.contains("pool or dataset is busy"), "{}", busy.err);
    // The list is of the whole machine, where other tests mount pools of this name.
    let listed = place.zinc(&["zfs", "mount"]).ok();
    for dir in [place.mnt(), place.path("top")] {
        assert!(listed.contains(&format!("  {}\n", dir.display())), "{listed}");
    }
    drop(used);
    place.zinc(&["zpool", "export", "tank"]).ok();
    wait_for_end(pid.parse().unwrap());
    assert_eq!(std::fs::read_dir(place.mnt()).unwrap().count(), 0);
    assert!(bytes(&place) == before, "bytes of the device have changed");
    assert_eq!(place.zinc(&["check", "-d", ".", "tank"]).code, 0);
}

/// What a process had promised when it was killed is in the intent log: a reader neither replays it
/// nor loses it.
#[testkit::needs("fuse")]
#[test]
fn an_intent_log_is_not_replayed_by_a_reader_and_is_there_afterwards() {
    let place = Place::of_size(SIZE);
    let pid = place.mount("tank");
    place.zinc(&["tunables", "--pool", "tank", "zfs_txg_timeout=600"]).ok();
    // The first promise makes the log, which is durable with its txg.
    place.sh("echo one > a; sync a");
    place.zinc(&["zpool", "sync", "tank"]).ok();
    place.sh("echo late > b; sync b");
    kill(pid, "-KILL");
    let before = bytes(&place);
    let run = place.zinc(&["mount", "--read-only", "tank", "mnt"]);
    assert!(run.err.contains("intent log") && run.err.contains("--replay"), "{}", run.err);
    let pid: i32 = run.out.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(place.sh("ls"), "a\n");
    nothing_can_be_changed(&place.mnt());
    assert_eq!(place.zinc(&["cat", "--replay", "tank:/b"]).ok(), "late\n");
    // It may be written to, but not now: the reader would see blocks that are used again.
    let refused = place.zinc(&["zfs", "create", "tank/x"]);
    assert!(
        refused.err.contains(&format!("process {pid} has the pool open read-only")),
        "{}",
        refused.err
    );
    place.unmount();
    wait_for_end(pid);
    assert!(bytes(&place) == before, "bytes of the device have changed");
    place.mount("tank");
    assert_eq!(place.sh("cat a b"), "one\nlate\n");
    place.unmount();
}

#[testkit::needs("fuse")]
#[test]
fn a_server_that_only_reads_mounts_by_the_properties() {
    let place = exported();
    place.zinc(&["zpool", "import", "-d", ".", "tank"]).ok();
    let point = format!("mountpoint={}", place.mnt().display());
    place.zinc(&["zfs", "set", &point, "tank"]).ok();
    let before = bytes(&place);
    let pid = place.path("pid");
    let serve = ["serve", "-b", "--read-only", "--mount", "--pidfile", pid.to_str().unwrap()];
    let output = place.zinc(&[&serve[..], &["tank"]].concat()).ok();
    assert!(
        output.starts_with("serving tank (") && output.contains(" read-only as process "),
        "{output}"
    );
    let pid = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    nothing_can_be_changed(&place.path("mnt/fs"));
    // When one stays, all do.
    let used = std::fs::File::open(place.path("mnt/fs/a")).unwrap();
    let run = place.zinc(&["zfs", "unmount", "tank"]);
    assert!(run.code == 1 && run.err.contains("pool or dataset is busy"), "{}", run.err);
    assert_eq!(place.sh("cat fs/a"), "one\n");
    drop(used);
    place.zinc(&["zfs", "unmount", "tank/fs"]).ok();
    assert_eq!(place.sh("ls fs"), "");
    place.zinc(&["zfs", "mount", "-a"]).ok();
    assert_eq!(place.sh("cat fs/a"), "one\n");
    place.zinc(&["zfs", "unmount", "-a"]).ok();
    assert_eq!(place.sh("ls"), "");
    // It stays without mounts, until it is ended.
    place.zinc(&["zfs", "mount", "tank"]).ok();
    assert!(Command::new("kill").arg(format!("{pid}")).status().unwrap().success());
    wait_for_end(pid);
    assert_eq!(place.sh("ls"), "");
    assert!(bytes(&place) == before, "bytes of the device have changed");
    place.zinc(&["zfs", "create", "tank/later"]).ok();
}

/// A pool that zinc cannot write to, which was never imported here.
#[testkit::needs("fuse")]
#[test]
fn a_pool_that_cannot_be_written_is_mounted_where_it_lies() {
    let place = Place::of_size(SIZE);
    let image = place.path("old");
    std::fs::copy(testkit::corpus("version28").dir.join("vdev0.img"), &image).unwrap();
    let before = std::fs::read(&image).unwrap();
    let refused = place.zinc(&["mount", "-d", "old", "v28/zpl5", "mnt"]);
    assert!(refused.code == 1 && refused.err.contains("readonly=on"), "{}", refused.err);
    place.zinc(&["mount", "--read-only", "-d", "old", "v28/zpl5", "mnt"]).ok();
    place.zinc(&["cp", "-r", "-d", "old", "v28/zpl5:/", "copy"]).ok();
    let list = "find . -mindepth 1 -not -path './.zfs*' | sort; find . -type f | sort | xargs cat";
    let copied = Command::new("sh").args(["-c", list]).current_dir(place.path("copy")).output();
    let copied = String::from_utf8_lossy(&copied.unwrap().stdout).into_owned();
    let mounted = Command::new("sh").args(["-c", list]).current_dir(place.mnt()).output();
    assert_eq!(String::from_utf8_lossy(&mounted.unwrap().stdout), copied);
    assert!(copied.lines().count() > 5, "{copied}");
    let refused = std::fs::write(place.path("mnt/new"), "").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(EROFS));
    place.unmount();
    assert!(std::fs::read(&image).unwrap() == before, "bytes of the image have changed");
}
