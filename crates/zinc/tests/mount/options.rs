//! Options of mounts that change while programs use them.

use super::following::served_with_mounts;
use super::{Place, kill};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

#[testkit::needs("fuse")]
#[test]
fn options_of_mounts_follow_their_properties_while_programs_use_them() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "-o", "setuid=off", "tank/a"]).ok();
    let used = std::fs::File::open(place.path("mnt/a")).unwrap();
    let options = || {
        let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let dir = format!(" {}/a ", place.mnt().canonicalize().unwrap().display());
        let line = text.lines().find(|line| line.contains(&dir)).unwrap();
        line.split(' ').nth(3).unwrap().to_owned()
    };
    place.zinc(&["zfs", "set", "readonly=on", "exec=off", "atime=off", "tank"]).ok();
    assert!(options().starts_with("ro,nosuid,noexec,noatime,"), "{}", options());
    place.sh("! touch a/x 2> ../said; grep -q Read-only ../said");
    place.zinc(&["zfs", "set", "readonly=off", "tank/a"]).ok();
    place.zinc(&["zfs", "inherit", "exec", "tank"]).ok();
    assert!(options().starts_with("rw,nosuid,noatime,"), "{}", options());
    place.sh("touch a/x; ! touch x 2> ../said");
    drop(used);
}

/// A program that writes keeps the mount as it is. That is said once, with its reason.
#[testkit::needs("fuse")]
#[test]
fn a_mount_that_is_written_to_does_not_become_read_only() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "tank/a"]).ok();
    let mut used = std::fs::File::create(place.path("mnt/a/f")).unwrap();
    let run = place.zinc(&["zfs", "set", "readonly=on", "tank/a"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.err.matches("unable to remount filesystem").count(), 1, "{}", run.err);
    assert!(run.err.contains("cannot remount 'tank/a': programs use "), "{}", run.err);
    // The property counts all the same.
    let refused = std::io::Write::write_all(&mut used, b"x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    place.zinc(&["zfs", "set", "readonly=off", "tank/a"]).ok();
    std::io::Write::write_all(&mut used, b"x").unwrap();
}

/// A script of Python's in the mount.
fn python(place: &Place, script: &str) {
    let output = Command::new("python3").args(["-c", script]).current_dir(place.mnt()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Lists of rights and attributes come and go with their properties, as in OpenZFS.
#[testkit::needs("fuse")]
#[test]
fn attributes_and_lists_of_rights_follow_their_properties_at_once() {
    let place = Place::new();
    place.mount("tank");
    let held = std::fs::File::create(place.path("mnt/held")).unwrap();
    let lists = |are: bool| {
        let script = format!(
            r#"
import os, struct
acl = struct.pack("<I" + "HHI" * 5, 2, 1, 7, 0xffffffff, 2, 4, 4242, 4, 0, 0xffffffff,
                  16, 4, 0xffffffff, 32, 0, 0xffffffff)
open("f", "w").close(); os.chmod("f", 0o600)
try: os.setxattr("f", "system.posix_acl_access", acl); done = True
except OSError as e: assert e.errno == 95, e; done = False
assert done == {}, done
pid = os.fork()
if pid == 0:
    os.setgid(4242); os.setuid(4242)
    try: open("f"); os._exit(0)
    except PermissionError: os._exit(1)
assert (os.waitpid(pid, 0)[1] == 0) == done
os.umask(0o027); open("new", "w").close()
assert os.stat("new").st_mode & 0o777 == 0o640
os.unlink("new")
"#,
            if are { "True" } else { "False" }
        );
        python(&place, &script);
    };
    place.sh("chmod 755 .");
    lists(false);
    place.zinc(&["zfs", "set", "acltype=posix", "tank"]).ok();
    lists(true);
    // What was granted is not granted any more, and is there again later.
    let may_read = |expected: &str| {
        let mut read = Command::new("setpriv");
        read.args(["--reuid=4242", "--regid=4242", "--clear-groups", "cat", "f"]);
        let read = read.current_dir(place.mnt()).output().unwrap();
        if read.status.success() { "yes" == expected } else { "no" == expected }
    };
    place.zinc(&["zfs", "set", "acltype=off", "tank"]).ok();
    super::support::place::until("the list does not count", || may_read("no"));
    place.zinc(&["zfs", "set", "acltype=posix", "tank"]).ok();
    super::support::place::until("the list counts", || may_read("yes"));
    place.zinc(&["zfs", "set", "xattr=off", "tank"]).ok();
    super::support::place::until("there are no attributes", || may_read("no"));
    place.sh("! setfattr -n user.a -v 1 f 2> /dev/null; cat f; ls -l f > /dev/null");
    place.zinc(&["zfs", "inherit", "xattr", "tank"]).ok();
    place.zinc(&["zfs", "inherit", "acltype", "tank"]).ok();
    python(&place, "import os; os.setxattr('f', 'user.a', b'1')");
    drop(held);
    place.unmount();
}

/// Times of access are noted as mount and dataset say by then.
#[testkit::needs("fuse")]
#[test]
fn times_of_access_follow_the_options() {
    let place = Place::new();
    place.zinc(&["mount", "-o", "ro", "tank", "mnt"]).ok();
    place.zinc(&["mount", "-o", "remount,rw", "tank", "mnt"]).ok();
    place.zinc(&["zfs", "set", "relatime=off", "tank"]).ok();
    place.sh("echo x > f");
    let is_noted = || {
        let old = || std::fs::metadata(place.path("mnt/f")).unwrap().atime();
        // What the kernel has in its memory is not asked for.
        let forget = "dd if=f iflag=nocache count=0 status=none";
        place.sh(&format!("touch -ad 2001-01-01 f; {forget}; cat f > /dev/null; {forget}"));
        // The kernel remembers attributes for a second.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        old() > 1_000_000_000
    };
    assert!(is_noted(), "it was mounted read-only, and is not now");
    place.zinc(&["mount", "-o", "remount,noatime", "tank", "mnt"]).ok();
    assert!(!is_noted(), "noatime");
    place.zinc(&["zfs", "set", "atime=on", "tank"]).ok();
    assert!(is_noted(), "atime=on");
    place.zinc(&["zfs", "set", "atime=off", "tank"]).ok();
    assert!(!is_noted(), "atime=off");
    place.unmount();
}

/// What a mount has against the properties of its dataset is shown, as long as it is mounted.
#[testkit::needs("fuse")]
#[test]
fn options_of_one_mount_are_shown_as_temporary() {
    let place = Place::new();
    place.zinc(&["zfs", "set", "exec=off", "tank"]).ok();
    place.zinc(&["zfs", "create", "tank/a"]).ok();
    place.zinc(&["mount", "-o", "ro,noatime,exec", "tank", "mnt"]).ok();
    let names = "readonly,atime,exec,devices,xattr";
    let shown =
        |name: &str| place.zinc(&["zfs", "get", "-Ho", "property,value,source", names, name]).ok();
    let usual = "readonly\toff\tdefault\natime\ton\tdefault\nexec\toff\tlocal\n\
                 devices\ton\tdefault\nxattr\ton\tdefault\n";
    let temporary = "readonly\ton\ttemporary\natime\toff\ttemporary\nexec\ton\ttemporary\n\
                     devices\ton\tdefault\nxattr\ton\tdefault\n";
    assert_eq!(shown("tank"), temporary);
    assert!(shown("tank/a").starts_with("readonly\toff\tdefault\n"));
    let only = ["zfs", "get", "-Hs", "temporary", "-o", "name,property", "all"];
    let only = place.zinc(&only).ok();
    assert_eq!(only.matches("tank\t").count(), 3, "{only}");
    assert_eq!(place.zinc(&["zfs", "list", "-Ho", "readonly", "tank"]).ok(), "on\n");
    place.zinc(&["mount", "-o", "remount,rw", "tank", "mnt"]).ok();
    assert!(shown("tank").starts_with("readonly\toff\tdefault\n"));
    place.unmount();
    assert_eq!(shown("tank"), usual);
}

/// As in OpenZFS: `rw` counts for one mount although the property `readonly` is set, until that is
/// set again.
#[testkit::needs("fuse")]
#[test]
fn a_mount_may_be_written_to_in_spite_of_the_property() {
    let place = Place::new();
    place.zinc(&["zfs", "set", "readonly=on", "tank"]).ok();
    place.zinc(&["mount", "-o", "rw", "tank", "mnt"]).ok();
    place.sh("echo x > f; sync f; mkdir d; mv f d");
    let shown = || place.zinc(&["zfs", "get", "-Ho", "value,source", "readonly", "tank"]).ok();
    assert_eq!(shown(), "off\ttemporary\n");
    // Not for what has no mount.
    let refused = place.zinc(&["mkdir", "tank:/e"]);
    assert!(refused.code == 1 && refused.err.contains("reading only"), "{}", refused.err);
    place.zinc(&["mount", "-o", "remount,ro", "tank", "mnt"]).ok();
    place.sh("! touch g 2> ../said; grep -q Read-only ../said");
    place.zinc(&["mount", "-o", "remount,rw", "tank", "mnt"]).ok();
    place.sh("touch g");
    place.zinc(&["zfs", "set", "readonly=on", "tank"]).ok();
    place.sh("! touch h 2> ../said; grep -q Read-only ../said; cat d/f > /dev/null");
    assert_eq!(shown(), "on\tlocal\n");
    place.unmount();
    // What was promised is there after a crash, too.
    let output = place.zinc(&["mount", "-o", "rw", "tank", "mnt"]).ok();
    place.sh("echo kept > k; sync k");
    kill(output.trim().rsplit(' ').next().unwrap().parse().unwrap(), "-KILL");
    place.unmount_dead();
    place.mount("tank");
    assert_eq!(place.sh("cat k"), "kept\n");
    place.unmount();
}
