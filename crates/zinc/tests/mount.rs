//! File systems that are mounted: the real kernel, real programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "mount/database.rs"]
mod database;
#[path = "mount/direct.rs"]
mod direct;
#[path = "mount/failing.rs"]
mod failing;
#[path = "mount/following.rs"]
mod following;
#[path = "mount/idle.rs"]
mod idle;
#[path = "mount/idmapped.rs"]
mod idmapped;
#[path = "mount/keys.rs"]
mod keys;
#[path = "mount/options.rs"]
mod options;
#[path = "mount/projects.rs"]
mod projects;
#[path = "mount/reading.rs"]
mod reading;
#[path = "mount/sharing.rs"]
mod sharing;
#[path = "mount/snapdir.rs"]
mod snapdir;
mod support;
#[path = "mount/unnamed.rs"]
mod unnamed;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::Run;

/// A folder with a pool `tank` in a file, and a mount point; everything is unmounted at the end.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self::of_size(512 << 20)
    }

    fn of_size(bytes: u64) -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        let file = std::fs::File::create(place.path("disk")).unwrap();
        file.set_len(bytes).unwrap();
        std::fs::create_dir(place.mnt()).unwrap();
        let disk = place.path("disk");
        place.zinc(&["zpool", "create", "tank", disk.to_str().unwrap()]).ok();
        place
    }

    /// With a pool whose file cannot grow as far as the pool believes: it is suspended then.
    fn that_fills_up() -> (Self, Small) {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.mnt()).unwrap();
        let small = Small::new(place.path("small"), 96);
        let disk = place.path("small/disk");
        std::fs::File::create(&disk).unwrap().set_len(1 << 30).unwrap();
        place.zinc(&["zpool", "create", "tank", disk.to_str().unwrap()]).ok();
        (place, small)
    }

    fn await_suspension(&self) {
        let health = || self.zinc(&["zpool", "list", "-H", "-o", "health", "tank"]).ok();
        support::place::until("the pool is suspended", || health().contains("SUSPENDED"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn mnt(&self) -> PathBuf {
        self.path("mnt")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zinc"));
        command.args(args).current_dir(self.dir.path()).env("TZ", "UTC");
        command.env("ZINC_SOCKETS", self.path("run/zinc"));
        command.env("ZINC_STATE", self.path("run/state"));
        command.stdin(Stdio::null());
        command
    }

    fn zinc(&self, args: &[&str]) -> Run {
        let output = self.command(args).output().unwrap();
        Run {
            code: output.status.code().expect("zinc ends by itself"),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Mounts a dataset; the process that answers for it.
    fn mount(&self, name: &str) -> i32 {
        let output = self.zinc(&["mount", name, "mnt"]).ok();
        output.trim().rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn unmount(&self) {
        assert_eq!(self.zinc(&["unmount", "mnt"]).ok(), "");
    }

    /// A shell script in the mount.
    fn sh(&self, script: &str) -> String {
        let output = Command::new("sh").args(["-euc", script]).current_dir(self.mnt()).output();
        let output = output.unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Sends a signal, and waits until the process is gone or has acted on it.
fn kill(pid: i32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    let status = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    while signal == "-KILL" && !status().is_empty() && !status().contains(") Z ") {
        std::thread::yield_now();
    }
}

/// Waits until a process has ended, and with that has closed its pool.
fn wait_for_end(pid: i32) {
    let status = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let is_over = || status().is_empty() || status().contains(") Z ");
    support::place::until("the process ends", is_over);
}

impl Drop for Place {
    fn drop(&mut self) {
        self.zinc(&["unmount", "-f", "mnt"]);
        self.zinc(&["zpool", "export", "-f", "tank"]);
    }
}

#[testkit::needs("fuse")]
#[test]
fn what_is_done_in_a_mount_is_there_when_it_is_mounted_again() {
    let place = Place::new();
    place.mount("tank");
    let listed = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let line = format!("tank {} fuse.zinc rw", place.mnt().display());
    assert!(listed.contains(&line), "{listed}");
    place
        .sh("echo one > a; mkdir -p d/e; mv a d/e/b; echo two >> d/e/b; ln -s d/e/b l; echo x > y");
    assert_eq!(place.sh("rm y; cat l; ls -A"), "one\ntwo\nd\nl\n");
    place.unmount();
    assert_eq!(place.sh("ls -A"), "");
    place.mount("tank");
    assert_eq!(place.sh("cat l; ls -A; stat -c %h d"), "one\ntwo\nd\nl\n3\n");
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

#[testkit::needs("fuse")]
#[test]
fn a_process_that_is_killed_loses_nothing_that_was_synced() {
    let place = Place::new();
    let pid = place.mount("tank");
    place.sh("mkdir d; echo kept > d/f; sync d/f; echo more >> d/f; sync -d d/f");
    kill(pid, "-KILL");
    // It is dead, or was taken away, as for `unmount_dead`.
    match std::fs::metadata(place.mnt()) {
        Err(dead) => assert!([Some(107), Some(103)].contains(&dead.raw_os_error()), "{dead}"),
        Ok(_) => assert_eq!(std::fs::read_dir(place.mnt()).unwrap().count(), 0),
    }
    // Over the dead mount point.
    let pid = place.mount("tank");
    assert_eq!(place.sh("cat d/f"), "kept\nmore\n");
    kill(pid, "-KILL");
    place.unmount_dead();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

/// After each write to a file that is open so, the kernel asks for what `fsync` asks for.
#[testkit::needs("fuse")]
#[test]
fn what_is_written_with_o_sync_or_o_dsync_is_promised() {
    let place = Place::new();
    std::fs::write(place.path("data"), (0..200_000u32).map(|n| n as u8).collect::<Vec<_>>())
        .unwrap();
    let pid = place.mount("tank");
    place.zinc(&["tunables", "--pool", "tank", "zfs_txg_timeout=600"]).ok();
    let write = |flag: &str, file: &str| {
        place
            .sh(&format!("dd if=../data of={file} bs=7000 oflag={flag} conv=notrunc 2> /dev/null"));
    };
    // The first promise waits for a txg, the others do not.
    write("sync", "first");
    place.sh("echo lost > plain");
    write("sync", "sync");
    write("dsync", "dsync");
    kill(pid, "-KILL");
    place.mount("tank");
    for file in ["first", "sync", "dsync"] {
        place.sh(&format!("cmp ../data {file}"));
    }
    assert_eq!(place.sh("cat plain"), "", "nothing else ended a txg");
}

/// What `sync=always` promised is in the intent log alone; a reader must not get less before the
/// next import.
#[testkit::needs("fuse")]
#[test]
fn what_a_killed_process_had_promised_is_read_from_its_log() {
    let place = Place::new();
    place.zinc(&["zfs", "set", "sync=always", "tank"]).ok();
    let pid = place.mount("tank");
    place.zinc(&["tunables", "--pool", "tank", "zfs_txg_timeout=600"]).ok();
    place.sh("seq 1000 > numbers; mkdir d; mv numbers d/moved");
    kill(pid, "-KILL");
    let numbers: String = (1..=1000).map(|n| format!("{n}\n")).collect();
    // A user that does not know the pool looks at it, and is told.
    let mut stranger = place.command(&["ls", "-d", ".", "tank:/"]);
    let stranger = stranger.env("ZINC_STATE", place.path("run/other")).output().unwrap();
    let message = String::from_utf8_lossy(&stranger.stderr);
    assert!(message.contains("intent log") && message.contains("--replay"), "{message}");
    assert!(stranger.status.success(), "{message}");
    // The process that imported it has it as the next import will.
    let seen = place.zinc(&["cat", "tank:/d/moved"]);
    assert_eq!((seen.err.as_str(), seen.out.as_str()), ("", numbers.as_str()));
    place.zinc(&["cp", "-r", "tank:/", "copy"]).ok();
    assert_eq!(std::fs::read_to_string(place.path("copy/d/moved")).unwrap(), numbers);
    place.zinc(&["zfs", "snapshot", "tank@later"]).ok();
    assert_eq!(place.zinc(&["cat", "tank@later:/d/moved"]).ok(), numbers);
    assert_eq!(place.zinc(&["cat", "tank:/d/moved"]).ok(), numbers);
}

#[testkit::needs("fuse")]
#[test]
fn what_was_just_written_is_seen_from_the_command_line() {
    let place = Place::new();
    place.mount("tank");
    place.zinc(&["tunables", "--pool", "tank", "zfs_txg_timeout=600"]).ok();
    place.sh("echo old > kept; echo old > gone");
    place.zinc(&["zfs", "snapshot", "tank@before"]).ok();
    place.sh("echo new >> kept; rm gone; mkdir made");
    let diff = place.zinc(&["zfs", "diff", "-H", "tank@before"]).ok();
    let mut lines: Vec<_> =
        diff.lines().map(|l| l.replace(place.mnt().to_str().unwrap(), "")).collect();
    lines.sort();
    assert_eq!(lines.len(), 4, "{diff}");
    assert!(lines[0].starts_with("+\t") && lines[0].ends_with("/made"), "{diff}");
    assert!(lines[1].starts_with("-\t") && lines[1].ends_with("/gone"), "{diff}");
    place.sh("echo newest >> kept");
    assert_eq!(place.zinc(&["cat", "tank:/kept"]).ok(), "old\nnew\nnewest\n");
    place.unmount();
}

/// A file may be opened such that each write is durable when it returns.
#[testkit::needs("fuse")]
#[test]
fn what_is_written_with_o_sync_outlives_the_process() {
    let place = Place::new();
    let pid = place.mount("tank");
    place.sh("for how in sync dsync direct,dsync; do : > $how; sync $how; done");
    place.sh("for how in sync dsync direct,dsync; do \
         dd if=/dev/zero bs=4k count=1 conv=notrunc oflag=$how of=$how 2> /dev/null; done");
    kill(pid, "-KILL");
    place.mount("tank");
    assert_eq!(place.sh("stat -c %s sync dsync direct,dsync"), "4096\n4096\n4096\n");
    place.unmount();
}

#[testkit::needs("fuse")]
#[test]
fn what_is_used_is_not_taken_away_unless_forced() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "tank/a"]).ok();
    place.mount("tank/a");
    place.sh("echo x > f");
    place.zinc(&["zfs", "snapshot", "tank/a@s"]).ok();
    place.sh("echo y > f");
    let used = std::fs::File::open(place.mnt().join("f")).unwrap();
    for args in [
        &["unmount", "mnt"][..],
        &["zfs", "rollback", "tank/a@s"],
        &["zfs", "rename", "tank/a", "tank/b"],
        &["zfs", "destroy", "-r", "tank/a"],
        &["zpool", "export", "tank"],
    ] {
        let run = place.zinc(args);
        assert_eq!(run.code, 1, "{args:?}");
        assert!(run.err.contains("pool or dataset is busy") || run.err.contains("pool is busy"));
    }
    drop(used);
    place.zinc(&["zfs", "rollback", "tank/a@s"]).ok();
    assert_eq!(place.sh("cat f"), "x\n");
    place.zinc(&["zfs", "rename", "tank/a", "tank/b"]).ok();
    assert_eq!(place.sh("cat f"), "x\n");
    let used = std::fs::File::open(place.mnt().join("f")).unwrap();
    place.zinc(&["unmount", "-f", "mnt"]).ok();
    assert!(used.sync_all().is_err());
    assert_eq!(place.zinc(&["cat", "tank/b:/f"]).ok(), "x\n");
}

#[testkit::needs("fuse")]
#[test]
fn a_mount_point_is_an_empty_directory() {
    let place = Place::new();
    std::fs::write(place.mnt().join("in the way"), "").unwrap();
    let refused = place.zinc(&["mount", "tank", "mnt"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("is not empty\n  hint: -O mounts over it"), "{}", refused.err);
    place.zinc(&["mount", "-O", "tank", "mnt"]).ok();
    assert_eq!(place.sh("ls"), "");
    let again = place.zinc(&["mount", "tank", "mnt"]);
    assert!(again.err.contains("filesystem already mounted"), "{}", again.err);
    for (args, code) in [
        (&["mount", "-o", "nix", "tank", "mnt"][..], 2),
        (&["mount", "tank/none", "mnt"], 1),
        (&["unmount", "elsewhere"], 1),
    ] {
        assert_eq!(place.zinc(args).code, code, "{args:?}");
    }
}

/// The process has the pool until the export ends, so commands must reach it until then.
#[testkit::needs("fuse")]
#[test]
fn a_pool_that_exports_a_volume_is_reached_after_its_last_mount() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "-V", "8M", "tank/vol"]).ok();
    let pid = place.mount("tank");
    place.zinc(&["nbd", "-b", "--socket", "s", "tank/vol"]).ok();
    place.unmount();
    // Longer than the process has needed to end by itself.
    std::thread::sleep(std::time::Duration::from_secs(1));
    place.zinc(&["zfs", "snapshot", "tank@s"]).ok();
    place.mount("tank");
    place.unmount();
    assert!(place.zinc(&["zpool", "status", "tank"]).ok().contains("ONLINE"));
    place.zinc(&["zpool", "export", "-f", "tank"]).ok();
    wait_for_end(pid);
}

#[testkit::needs("fuse")]
#[test]
fn a_signal_unmounts_and_ends_the_process() {
    let place = Place::new();
    let pid = place.mount("tank");
    place.sh("echo x > f");
    kill(pid, "-TERM");
    let mounted = || std::fs::read_to_string("/proc/self/mounts").unwrap();
    wait_for_end(pid);
    assert!(!mounted().contains(place.mnt().to_str().unwrap()), "still mounted");
    assert_eq!(place.zinc(&["cat", "tank:/f"]).ok(), "x\n");
}

#[testkit::needs("fuse")]
#[test]
fn content_is_what_programs_make_of_it() {
    let place = Place::new();
    place.mount("tank");
    // Appending, holes, and files that are open without a name.
    place.sh("truncate -s 8M sparse; printf end >> sparse; stat -c %s sparse");
    let used = place.sh("sync sparse; stat -c %b sparse");
    assert!(used.trim().parse::<u64>().unwrap() < 1024, "{used}");
    place.sh("cp --sparse=always sparse copy && cmp sparse copy");
    place.sh("head -c 300000 /dev/urandom > r; fallocate -p -o 131072 -l 131072 r");
    place.sh("test $(tail -c +131073 r | head -c 131072 | tr -d '\\0' | wc -c) = 0");
    place.sh("exec 3> gone; rm gone; echo lives >&3; cat /proc/self/fd/3 | grep lives");
    // Mapped memory, changed in place.
    let script = "import mmap; f = open('m', 'w+b'); f.truncate(10000); \
                  m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b'hello'; m.flush(); m.close()";
    place.sh(&format!("python3 -c \"{script}\"; tail -c +5001 m | head -c 5 | grep hello"));
    // Two at once.
    place.sh("for p in 1 2; do (for n in $(seq 200); do echo $p $n >> both; done) & done; wait; \
         test $(wc -l < both) = 400");
    place.unmount();
    place.mount("tank");
    place.sh("cmp sparse copy; test $(wc -l < both) = 400; grep -q hello m");
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

#[testkit::needs("fuse")]
#[test]
fn a_quota_and_a_snapshot_are_obeyed() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "-o", "quota=16M", "-o", "compression=off", "tank/q"]).ok();
    place.mount("tank/q");
    place.sh("! head -c 32M /dev/urandom 2> ../said > big; grep -q 'quota exceeded' ../said");
    // It is used up then.
    let size: u64 = place.sh("stat -c %s big").trim().parse().unwrap();
    assert!(size > (16 << 20) - (256 << 10), "{size}");
    place.sh("rm -f big; sync .; echo fits > small");
    place.zinc(&["zfs", "snapshot", "tank/q@s"]).ok();
    place.sh("rm small");
    let old = place.path("old");
    std::fs::create_dir(&old).unwrap();
    place.zinc(&["mount", "tank/q@s", "old"]).ok();
    place.sh("cat ../old/small; ! touch ../old/x 2> ../said; grep -q 'Read-only' ../said");
    place.zinc(&["unmount", "old"]).ok();
}

#[testkit::needs("fuse")]
#[test]
fn names_change_places_and_leave_whiteouts() {
    let place = Place::new();
    place.mount("tank");
    // renameat2 from and to the working directory.
    let rename = |flag: u32, from: &str, to: &str| {
        let call = format!("syscall(316, -100, $ARGV[0], -100, $ARGV[1], {flag}) == 0 or exit 1");
        place.sh(&format!("perl -e '{call}' {from} {to}"));
    };
    place.sh("echo a >a; echo b >b");
    rename(2, "a", "b");
    assert_eq!(place.sh("cat a b"), "b\na\n");
    rename(4, "a", "c");
    assert_eq!(
        place.sh("cat c; stat -c '%F %t:%T %a' a; rm a; ls"),
        "b\ncharacter special file 0:0 0\nb\nc\n"
    );
    place.unmount();
    place.zinc(&["check", "tank"]).ok();
}

#[testkit::needs("fuse")]
#[test]
fn a_pool_is_not_stored_in_itself() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "tank/images"]).ok();
    place.mount("tank/images");
    place.sh("truncate -s 64M image");
    let image = place.path("mnt/image");
    let run = place.zinc(&["zpool", "add", "-f", "tank", image.to_str().unwrap()]);
    assert!(run.code == 1 && run.err.contains("it is a file in the pool itself"), "{}", run.err);
    place.zinc(&["zpool", "status", "tank"]).ok();
}

#[testkit::needs("fuse")]
#[test]
fn without_extended_attributes_there_are_none() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "-o", "xattr=off", "tank/off"]).ok();
    place.zinc(&["zfs", "create", "tank/on"]).ok();
    let script = "import os, sys\ntry: os.setxattr(sys.argv[1], 'user.a', b'1')\n\
                  except OSError as e: print(e.errno)\n";
    for (name, options, expected) in
        [("tank/off", "rw", "95\n"), ("tank/on", "rw", ""), ("tank/on", "noxattr", "95\n")]
    {
        place.zinc(&["mount", "-o", options, name, "mnt"]).ok();
        let tried = || {
            let run = Command::new("python3").args(["-c", script]).arg(place.mnt()).output();
            String::from_utf8(run.unwrap().stdout).unwrap()
        };
        assert_eq!(tried(), expected, "{name} {options}");
        // What the property allows can be changed while it is mounted.
        let (other, then) = match expected {
            "" => ("remount,noxattr", "95\n"),
            _ => ("remount,xattr", ""),
        };
        let run = place.zinc(&["mount", "-o", other, name, "mnt"]);
        match name {
            "tank/off" => assert!(run.code == 1 && run.err.contains("xattr is off"), "{}", run.err),
            _ => {
                run.ok();
                assert_eq!(tried(), then, "{name} {other}");
            }
        }
        place.unmount();
    }
    let refused = place.zinc(&["mount", "-o", "xattr", "tank/off", "mnt"]);
    assert!(refused.err.contains("its property xattr is off"), "{}", refused.err);
}

#[testkit::needs("fuse")]
#[test]
fn attributes_and_lists_of_rights_are_kept() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "-o", "acltype=posix", "tank/acl"]).ok();
    place.mount("tank/acl");
    let script = r#"
import os, struct
open("f", "w").close()
os.setxattr("f", "user.a", b"one"); os.setxattr("f", "trusted.b", b"\0" * 9000)
assert sorted(os.listxattr("f")) == ["trusted.b", "user.a"], os.listxattr("f")
os.removexattr("f", "user.a")
try: os.getxattr("f", "user.a"); assert False
except OSError as e: assert e.errno == 61
for name, errno in [("bare", 95), ("other.a", 95), ("user.", 22), ("system.a", 95)]:
    try: os.setxattr("f", name, b"1"); assert False, name
    except OSError as e: assert e.errno == errno, (name, e)
os.mkdir("d")
entry = lambda tag, rights, id=0xffffffff: struct.pack("<HHI", tag, rights, id)
default = struct.pack("<I", 2) + entry(1, 7) + entry(2, 6, 1000) + entry(4, 5)
default += entry(16, 7) + entry(32, 0)
os.setxattr("d", "system.posix_acl_default", default)
os.umask(0o022)
fd = os.open("d/f", os.O_CREAT | os.O_WRONLY, 0o666); os.close(fd)
assert os.stat("d/f").st_mode & 0o777 == 0o660, oct(os.stat("d/f").st_mode)
os.chmod("d/f", 0o640)
acl = os.getxattr("d/f", "system.posix_acl_access")
assert struct.unpack_from("<HHI", acl, 4 + 3 * 8)[:2] == (16, 4), acl
os.mkdir("d/e")
assert os.getxattr("d/e", "system.posix_acl_default") == default
fd = os.open("plain", os.O_CREAT | os.O_WRONLY, 0o666); os.close(fd)
assert os.stat("plain").st_mode & 0o777 == 0o644
os.utime("f", ns=(5, 1500000000123456789))
assert os.stat("f").st_mtime_ns == 1500000000123456789
"#;
    std::fs::write(place.path("script.py"), script).unwrap();
    place.sh("python3 ../script.py");
    place.unmount();
    place.mount("tank/acl");
    place.sh("test $(stat -c %a d/f) = 640; test $(stat -c %Y f) = 1500000000");
}

#[testkit::needs("fuse")]
#[test]
fn trees_survive_the_way() {
    let place = Place::new();
    place.mount("tank");
    let source = testkit::workspace_root().join("crates");
    let source = source.display();
    place.sh(&format!("cp -a {source} copied; diff -r --no-dereference {source} copied"));
    place.sh("tar -cf t.tar copied; mkdir out; tar -xf t.tar -C out; diff -r copied out/copied");
    // Two thousand names, some of them long, listed once each.
    place.sh("mkdir many; cd many; long=$(printf 'n%.0s' $(seq 200)); \
         for n in $(seq 1000); do : > $n; : > $long$n; done; test $(ls | sort -u | wc -l) = 2000; \
         rm $long*; test $(ls | wc -l) = 1000");
    place.sh("git init -q g; cd g; cp -r ../copied/mount .; git add -A; \
         git -c user.name=a -c user.email=a@b commit -qm one; git mv mount other; \
         git -c user.name=a -c user.email=a@b commit -qm two; git gc -q; git fsck --full");
    place.unmount();
    place.mount("tank");
    place.sh("diff -r copied out/copied; cd g; git fsck --full; test -z \"$(git status --short)\"");
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

#[testkit::needs("fuse")]
#[test]
fn snapshots_are_looked_into_below_dot_zfs() {
    let place = Place::new();
    place.mount("tank");
    place.sh("mkdir -p d/e; echo old > d/e/f; ln -s d/e/f l");
    place.zinc(&["zfs", "snapshot", "tank@one"]).ok();
    assert_eq!(place.sh("echo new > d/e/f; ls -A; ls -A .zfs"), "d\nl\nshares\nsnapshot\n");
    assert_eq!(place.sh("ls -A .zfs/shares; cd .zfs/shares; ls -d ../snapshot"), "../snapshot\n");
    assert_eq!(place.sh("cat .zfs/snapshot/one/l d/e/f"), "old\nnew\n");
    assert_eq!(
        place.sh("ls .zfs/snapshot; ls -A .zfs/snapshot/one; ls -A .zfs/snapshot/one/d"),
        "one\nd\nl\ne\n"
    );
    // Of one file there and here the numbers differ, and nothing there can be changed.
    place.sh("test $(stat -c %i .zfs/snapshot/one/d/e/f) != $(stat -c %i d/e/f)");
    place.sh("! touch .zfs/snapshot/one/x 2> ../said; grep -q Read-only ../said; \
         ! rm .zfs/snapshot/one/l 2> ../errors; grep -q Read-only ../errors; \
         ! mkdir .zfs/snapshot/two 2> ../errors; grep -q denied ../errors");
    // It is seen at once when there is another, and when one is gone.
    place.zinc(&["zfs", "snapshot", "tank@two"]).ok();
    assert_eq!(place.sh("ls .zfs/snapshot; cat .zfs/snapshot/two/d/e/f"), "one\ntwo\nnew\n");
    let open = std::fs::File::open(place.mnt().join(".zfs/snapshot/one/d")).unwrap();
    place.zinc(&["zfs", "destroy", "tank@one"]).ok();
    assert_eq!(place.sh("ls .zfs/snapshot; ! test -e .zfs/snapshot/one"), "two\n");
    assert_eq!(open.metadata().unwrap_err().raw_os_error(), Some(116), "ESTALE");
    drop(open);
    let changed = place.zinc(&["zfs", "get", "-Hpo", "value", "snapshots_changed", "tank"]).ok();
    assert_eq!(place.sh("stat -c %Y .zfs/snapshot"), changed);
    place.zinc(&["zfs", "set", "snapdir=visible", "tank"]).ok();
    assert_eq!(place.sh("ls -A; ls -U -A | sort"), ".zfs\nd\nl\n.zfs\nd\nl\n");
    assert_eq!(place.sh("find . | sort | grep -c two/d/e/f"), "1\n");
    place.zinc(&["zfs", "set", "snapdir=disabled", "tank"]).ok();
    place.sh("while test -e .zfs/snapshot; do sleep 0.1; done");
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

#[testkit::needs("fuse")]
#[test]
fn flags_and_projects_are_set_and_obeyed() {
    let place = Place::new();
    place.mount("tank");
    let script = r#"
import fcntl, os, struct
GET, SET, GETX, SETX = 0x80086601, 0x40086602, 0x801c581f, 0x401c5820
def flags(fd): return struct.unpack("i", fcntl.ioctl(fd, GET, b"\0" * 4))[0]
def more(fd): return struct.unpack("IIIII8x", fcntl.ioctl(fd, GETX, b"\0" * 28))
os.mkdir("d"); d = os.open("d", os.O_RDONLY)
fcntl.ioctl(d, SETX, struct.pack("IIIII8x", 0x200, 0, 0, 7, 0))
assert more(d)[0] == 0x200 and more(d)[3] == 7, more(d)
f = os.open("d/f", os.O_CREAT | os.O_RDWR)
assert more(f)[3] == 7, more(f)
fcntl.ioctl(f, SET, struct.pack("i", 0x20 | 0x40))
assert flags(f) & 0x70 == 0x60, hex(flags(f))
a = os.open("d/f", os.O_WRONLY | os.O_APPEND); os.write(a, b"more"); os.close(a)
for wrong in (lambda: os.pwrite(f, b"x", 0), lambda: os.unlink("d/f")):
    try: wrong(); assert False
    except OSError as e: assert e.errno == 1, e
fcntl.ioctl(f, SET, struct.pack("i", 0))
os.unlink("d/f")
try: fcntl.ioctl(d, SET, struct.pack("i", 0x8)); assert False
except OSError as e: assert e.errno == 95, e
"#;
    std::fs::write(place.path("script.py"), script).unwrap();
    place.sh("python3 ../script.py");
}

#[testkit::needs("fuse")]
#[test]
fn mount_calls_zinc_by_the_name_of_its_helper() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "-o", "canmount=noauto", "tank/a"]).ok();
    let helper = place.path("mount.fuse.zinc");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), &helper).unwrap();
    let mounted = |name: &str| place.zinc(&["zfs", "get", "-Ho", "value", "mounted", name]).ok();
    assert_eq!(mounted("tank/a"), "no\n");
    let mut mount = Command::new(&helper);
    mount.args(["tank/a", "mnt", "-n", "-o", "rw,noexec,nofail,x-systemd.automount"]);
    mount.current_dir(place.dir.path()).stdin(Stdio::null());
    mount.env("ZINC_SOCKETS", place.path("run/zinc")).env("ZINC_STATE", place.path("run/state"));
    assert!(mount.status().unwrap().success());
    assert_eq!(mounted("tank/a"), "yes\n");
    assert_eq!(place.zinc(&["zfs", "list", "-Ho", "name,mounted"]).ok(), "tank\tno\ntank/a\tyes\n");
    place.sh("echo 'echo hello' > s; chmod +x s; sh s; ! ./s 2> /dev/null");
    place.unmount();
    assert_eq!(mounted("tank/a"), "no\n");
}

/// A file system in memory, in which a pool's file can grow no further than this.
struct Small(PathBuf);

impl Small {
    fn new(at: PathBuf, mib: u64) -> Self {
        std::fs::create_dir(&at).unwrap();
        let small = Self(at);
        small.mount(&format!("size={mib}m"));
        small
    }

    fn mount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Writers that wait for a suspended pool hold up themselves only: what reads does not wait, a
/// signal ends a writer, and when the pool is resumed the others go on with nothing lost.
#[testkit::needs("fuse")]
#[test]
fn a_suspended_pool_holds_up_only_what_needs_its_devices() {
    let (place, small) = Place::that_fills_up();
    place.mount("tank");
    // However much memory the machine has, writers wait soon.
    place.zinc(&["tunables", "--pool", "tank", "zfs_dirty_data_max=32M"]).ok();
    place.sh("mkdir d; echo here > d/a; sync d/a; head -c 20M /dev/urandom > ../random");
    // More than there are threads that answer.
    let write = |n: usize| {
        let mut cp = Command::new("cp");
        cp.args(["../random", &format!("f{n}")]).current_dir(place.mnt());
        (n, cp.stderr(Stdio::null()).spawn().unwrap())
    };
    let mut writers: Vec<_> = (0..12).map(write).collect();
    place.await_suspension();
    assert_eq!(
        place.sh("timeout 60 ls d; timeout 60 cat d/a; timeout 60 stat -c %F ."),
        "a\nhere\ndirectory\n"
    );
    place.sh("timeout 60 ls -l; timeout 60 df . > /dev/null");
    // Four files fit; the others have not ended, for what they wait for is not there.
    let ended = writers.extract_if(.., |(_, w)| w.try_wait().unwrap().is_some());
    let mut written: Vec<usize> = ended.map(|(n, _)| n).collect();
    assert!(written.len() <= 4, "{written:?}");
    // A command does not wait, and so is not carried out later.
    let refused = place.zinc(&["mkdir", "tank:/later"]);
    assert!(refused.code == 1 && refused.err.contains("is suspended"), "{}", refused.err);
    let mut killed = writers.split_off(writers.len() - 2);
    for ((_, one), signal) in killed.iter_mut().zip(["-KILL", "-TERM"]) {
        kill(one.id() as i32, signal);
        support::place::until("a writer ends", || one.try_wait().unwrap().is_some());
    }
    small.mount("remount,size=1g");
    place.zinc(&["zpool", "clear", "tank"]).ok();
    for (n, mut writer) in writers {
        assert!(writer.wait().unwrap().success());
        written.push(n);
    }
    let compare: Vec<_> = written.iter().map(|n| format!("cmp ../random f{n}")).collect();
    place.sh(&format!("{}; ! test -e later", compare.join("; ")));
    place.unmount();
    place.zinc(&["zpool", "export", "tank"]);
    drop(small);
}

/// With `failmode=panic` programs go on with errors, and not in the directory below the mount.
#[testkit::needs("fuse")]
#[test]
fn a_mount_whose_server_panics_stays_and_fails() {
    let (place, _small) = Place::that_fills_up();
    place.zinc(&["zpool", "set", "failmode=panic", "tank"]).ok();
    let server = place.mount("tank");
    let script = "dd if=/dev/urandom of=mnt/large bs=1M count=200 conv=fsync";
    let mut write = Command::new("sh");
    let wrote = write.args(["-c", script]).current_dir(place.dir.path()).output().unwrap();
    assert!(!wrote.status.success());
    wait_for_end(server);
    let written = std::fs::write(place.mnt().join("after"), "x");
    use std::io::ErrorKind::{ConnectionAborted, NotConnected};
    assert!(matches!(written.unwrap_err().kind(), ConnectionAborted | NotConnected));
    place.unmount();
    assert!(!place.mnt().join("after").exists());
}

/// The same, when nothing brings the devices back: the pool is let go of by force, and what waited
/// is told.
#[testkit::needs("fuse")]
#[test]
fn what_waits_for_a_suspended_pool_is_freed_when_it_is_exported_by_force() {
    let (place, _small) = Place::that_fills_up();
    let server = place.mount("tank");
    let write = |n: usize| {
        let mut head = Command::new("head");
        head.args(["-c", "60M", "/dev/urandom"]).stderr(Stdio::null());
        let file = std::fs::File::create(place.mnt().join(format!("f{n}"))).unwrap();
        head.stdout(file).spawn().unwrap()
    };
    let writers: Vec<_> = (0..12).map(write).collect();
    place.await_suspension();
    let exported = place.zinc(&["zpool", "export", "-f", "tank"]);
    assert!(exported.code == 0 && exported.err.contains("are lost"), "{}", exported.err);
    for mut writer in writers {
        assert!(!writer.wait().unwrap().success());
    }
    wait_for_end(server);
}

/// What a user does who is not root: all of it in a folder of their own, by fusermount3.
#[testkit::needs("fuse for all")]
#[test]
fn an_ordinary_user_mounts_a_pool_of_his_own() {
    const NOBODY: u32 = 65534;
    let dir = tempfile::tempdir().unwrap();
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    let program = dir.path().join("zinc");
    std::fs::copy(env!("CARGO_BIN_EXE_zinc"), &program).unwrap();
    own(dir.path());
    let run = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(dir.path()).uid(NOBODY).gid(NOBODY);
        shell.env("ZINC_SOCKETS", dir.path().join("run")).env("HOME", dir.path());
        shell.env("ZINC_STATE", dir.path().join("state")).stdin(Stdio::null());
        let output = shell.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {message}");
        String::from_utf8(output.stdout).unwrap()
    };
    run("truncate -s 256M disk; mkdir mnt; ./zinc zpool create mine $PWD/disk");
    run("./zinc zfs create mine/home; ./zinc mount mine/home mnt");
    let line = format!("mine/home {} fuse.zinc rw,nosuid,nodev", dir.path().join("mnt").display());
    let listed = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(listed.contains(&line), "{listed}");
    // The root directory is the user's, modes count, and what is open is not taken away.
    assert_eq!(run("stat -c '%u %a' mnt; echo text > mnt/a; cat mnt/a"), "65534 755\ntext\n");
    run("chmod 400 mnt/a; ! sh -c 'echo more > mnt/a' 2> /dev/null");
    let output = run("cd mnt; ../zinc unmount ../mnt 2>&1 || true");
    assert!(output.contains("busy") && output.contains("-f unmounts it"), "{output}");
    run("sync mnt/a; ./zinc unmount mnt; ! ls mnt/a 2> /dev/null");
    run("./zinc mount -o ro mine/home mnt; ! touch mnt/b 2> /dev/null; cat mnt/a");
    run("./zinc unmount mnt; ./zinc check mine");
}

#[testkit::needs("fuse", "another user")]
#[test]
fn a_directory_of_a_project_is_as_large_as_the_project_may_be() {
    let place = Place::new();
    place.mount("tank");
    place.sh("mkdir -p of7/below others; echo 7 > of7/file");
    let of7 = place.mnt().join("of7").display().to_string();
    place.zinc(&["zfs", "project", "-p", "7", "-r", "-s", &of7]).ok();
    let sizes = |dir: &str| place.sh(&format!("stat -f -c '%b %S %c %d' {dir}"));
    place.zinc(&["zpool", "sync", "tank"]).ok();
    let whole = sizes("others");
    assert_eq!(sizes("of7"), whole);
    for setting in ["projectquota@7=8M", "projectobjquota@7=100"] {
        place.zinc(&["zfs", "set", setting, "tank"]).ok();
    }
    for dir in ["of7", "of7/below"] {
        assert_eq!(sizes(dir), "2048 4096 100 97\n");
    }
    let numbers = |text: String| -> Vec<u64> {
        text.split_whitespace().map(|word| word.parse().unwrap()).collect()
    };
    place.sh("head -c 3000000 /dev/urandom > of7/below/data");
    place.zinc(&["zpool", "sync", "tank"]).ok();
    let free = numbers(place.sh("stat -f -c '%a %d' of7"));
    assert!((1200..1400).contains(&free[0]) && free[1] == 96, "{free:?}");
    assert!(numbers(sizes("others"))[0] > 2048);
    place.zinc(&["zfs", "set", "projectquota@7=none", "tank"]).ok();
    assert!(numbers(sizes("of7"))[0] > 2048);
    place.unmount();
}

#[test]
fn quotas_of_owners_are_set_and_kept() {
    const NOBODY: u32 = 65534;
    let place = Place::new();
    place.mount("tank");
    let of = |user: u32, script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(place.mnt()).uid(user).gid(user);
        let output = shell.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    place.sh("mkdir all; chmod 1777 all");
    for setting in ["userquota@nobody=4M", "groupobjquota@65534=20"] {
        assert_eq!(place.zinc(&["zfs", "set", setting, "tank"]).ok(), "");
    }
    let get = |name: &str| place.zinc(&["zfs", "get", "-Hpo", "value", name, "tank"]).ok();
    assert_eq!(get("userquota@nobody"), "4194304\n");
    assert_eq!(get("groupobjquota@65534"), "20\n");
    // Below the limit all goes well; what is durable counts.
    let (done, message) = of(NOBODY, "head -c 5000000 /dev/urandom > all/large");
    assert!(done, "{message}");
    place.zinc(&["zpool", "sync", "tank"]).ok();
    for script in ["echo more | tee -a all/large", "touch all/another", "mkdir all/dir"] {
        let (done, message) = of(NOBODY, script);
        assert!(!done && message.contains("quota exceeded"), "{script}: {message}");
    }
    // Others are not concerned, but may not give this user files either.
    place.sh("echo mine > all/other");
    let (done, message) = of(0, "chown nobody all/other");
    assert!(!done && message.contains("quota exceeded"), "{message}");
    assert_eq!(place.sh("stat -c %u all/other"), "0\n");
    // Room is made by removing, and by a larger limit.
    assert!(of(NOBODY, "rm all/large").0);
    place.zinc(&["zpool", "sync", "tank"]).ok();
    let many = "for n in $(seq 1 19); do touch all/$n; done";
    assert!(of(NOBODY, many).0);
    place.zinc(&["zpool", "sync", "tank"]).ok();
    assert!(of(NOBODY, "touch all/20").0);
    place.zinc(&["zpool", "sync", "tank"]).ok();
    let (done, message) = of(NOBODY, "touch all/21");
    assert!(!done && message.contains("quota exceeded"), "{message}");
    place.zinc(&["zfs", "set", "groupobjquota@65534=none", "tank"]).ok();
    assert!(of(NOBODY, "touch all/21").0);
    assert_eq!(get("groupobjquota@65534"), "0\n");
    // It is in the pool, and held to after the next mount too.
    place.zinc(&["zfs", "set", "userquota@nobody=1K", "tank"]).ok();
    place.unmount();
    place.mount("tank");
    assert!(!of(NOBODY, "echo x > all/1").0);
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}
