//! Snapshots that are taken, renamed and destroyed by their directories.

use super::Place;
use std::process::Command;

/// An ordinary user, and a group that it is in beside its own.
const USER: u32 = 4242;
const GROUP: u32 = 4243;

/// A shell script of that user in the mount; what it says, and whether it succeeded.
fn as_user(place: &Place, script: &str) -> (bool, String) {
    let ids = [format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={GROUP}")];
    let mut command = Command::new("setpriv");
    command.args(ids).args(["sh", "-euc", script]).current_dir(place.mnt()).env("LC_ALL", "C");
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn managed() -> Place {
    let place = Place::new();
    place.mount("tank");
    place.sh("echo old > f; chmod 755 .");
    let may = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.dir.path(), may).unwrap();
    place.sh("! mkdir .zfs/snapshot/one 2> ../said; grep -q 'Permission denied' ../said");
    place.zinc(&["tunables", "--pool", "tank", "zfs_admin_snapshot=1"]).ok();
    place
}

#[testkit::needs("fuse")]
#[test]
fn snapshots_are_taken_renamed_and_destroyed_by_their_directories() {
    let place = managed();
    place.sh("mkdir .zfs/snapshot/one; echo new > f");
    let open = std::fs::File::open(place.mnt().join(".zfs/snapshot/one/f")).unwrap();
    assert_eq!(place.sh("mv .zfs/snapshot/one .zfs/snapshot/two; ls .zfs/snapshot"), "two\n");
    assert_eq!(std::io::read_to_string(open).unwrap(), "old\n");
    let names = place.zinc(&["zfs", "list", "-Ho", "name", "-t", "snapshot", "tank"]).ok();
    assert_eq!(names, "tank@two\n");
    let refused = |what: &str, why: &str| {
        place.sh(&format!(
            "! {what} 2> ../said; grep -q '{why}' ../said || {{ cat ../said; false; }}"
        ));
    };
    refused("mkdir .zfs/snapshot/two", "File exists");
    refused("mkdir .zfs/snapshot/a@b", "Invalid or incomplete");
    refused("mkdir .zfs/one", "Read-only");
    refused("touch .zfs/snapshot/file", "Read-only");
    refused("mkdir .zfs/snapshot/two/d", "Read-only");
    refused("mv -T .zfs/snapshot/two two", "Read-only");
    place.sh("mkdir .zfs/snapshot/three; mv -n .zfs/snapshot/two .zfs/snapshot/four");
    refused(
        "python3 -c 'import os; os.rename(\".zfs/snapshot/four\", \".zfs/snapshot/three\")'",
        "File exists",
    );
    // What keeps a snapshot keeps its directory.
    place.zinc(&["zfs", "hold", "kept", "tank@four"]).ok();
    refused("rmdir .zfs/snapshot/four", "busy");
    place.zinc(&["zfs", "release", "kept", "tank@four"]).ok();
    std::fs::create_dir(place.path("other")).unwrap();
    place.zinc(&["mount", "tank@four", "other"]).ok();
    refused("rmdir .zfs/snapshot/four", "busy");
    refused("mv .zfs/snapshot/four .zfs/snapshot/five", "busy");
    place.zinc(&["unmount", "other"]).ok();
    place.sh("rmdir .zfs/snapshot/four .zfs/snapshot/three; test -z \"$(ls .zfs/snapshot)\"");
    let history = place.zinc(&["zpool", "history", "-i", "tank"]).ok();
    assert!(history.contains("snapshot tank@one") && history.contains("destroy tank@three"));
    place.unmount();
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

/// An ordinary user needs the permissions that the verbs need, which a group can have too.
#[testkit::needs("fuse")]
#[test]
fn directories_of_snapshots_need_the_permissions_of_the_verbs() {
    let place = managed();
    let refused = |script: &str| {
        let (is_done, text) = as_user(&place, script);
        assert!(!is_done && text.contains("Operation not permitted"), "{script}: {text}");
    };
    let done = |script: &str| {
        let (is_done, text) = as_user(&place, script);
        assert!(is_done, "{script}: {text}");
    };
    let allow =
        |more: &[&str]| place.zinc(&[&["zfs", "allow"][..], more, &["tank"][..]].concat()).ok();
    refused("mkdir .zfs/snapshot/one");
    allow(&["-u", &USER.to_string(), "snapshot"]);
    done("mkdir .zfs/snapshot/one");
    refused("mv .zfs/snapshot/one .zfs/snapshot/two");
    refused("rmdir .zfs/snapshot/one");
    allow(&["-g", &GROUP.to_string(), "rename,create,mount"]);
    done("mv .zfs/snapshot/one .zfs/snapshot/two");
    refused("rmdir .zfs/snapshot/two");
    allow(&["-g", &GROUP.to_string(), "destroy"]);
    done("rmdir .zfs/snapshot/two");
    place.unmount();
}

/// A root directory that shows `.zfs` has a link more.
#[testkit::needs("fuse")]
#[test]
fn links_of_the_root_count_a_visible_dot_zfs() {
    let place = Place::new();
    place.mount("tank");
    let links_are = |links: &str| {
        let script = format!("while [ $(stat -c %h .) != {links} ]; do sleep 0.1; done");
        place.sh(&script);
    };
    place.sh("mkdir a; test $(stat -c %h .) = 3");
    place.zinc(&["zfs", "set", "snapdir=visible", "tank"]).ok();
    links_are("4");
    assert_eq!(place.sh("stat -c %h a"), "2\n");
    place.zinc(&["zfs", "set", "snapdir=hidden", "tank"]).ok();
    links_are("3");
    place.unmount();
}
