//! Devices that may be read and not be written: the pool goes on without them where the others do,
//! and says so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::has;
use support::place::Place;

/// A file that may not be written to, as long as this lives.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// Root may write to everything that is not marked.
    fn new(path: &Path) -> Self {
        let it = Self(path.to_owned());
        let marked = match rustix::process::geteuid().is_root() {
            true => it.mark("+i"),
            false => std::fs::set_permissions(path, Permissions::from_mode(0o444)).is_ok(),
        };
        assert!(marked, "{} is not made read-only", path.display());
        it
    }

    fn mark(&self, how: &str) -> bool {
        Command::new("chattr").arg(how).arg(&self.0).status().is_ok_and(|s| s.success())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        match rustix::process::geteuid().is_root() {
            true => drop(self.mark("-i")),
            false => drop(std::fs::set_permissions(&self.0, Permissions::from_mode(0o644))),
        }
    }
}

fn with(layout: &str) -> Place {
    let place = Place::new(&["a", "b", "c"]);
    place.ok(&format!("zpool create tank {layout}"));
    std::fs::write(place.path().join("file"), "text").unwrap();
    place
}

#[testkit::needs("immutable files")]
#[test]
fn redundancy_does_without_a_device_that_cannot_be_written() {
    for layout in ["mirror a b", "raidz a b c"] {
        let place = with(layout);
        let b = ReadOnly::new(&place.path().join("b"));
        // Before anything was written without it, and after.
        has(&place.ok("zpool status tank"), &[" state: DEGRADED", "/b  UNAVAIL", "cannot open: "]);
        assert_eq!(place.ok("zpool list -Ho health tank"), "DEGRADED\n");
        for command in ["cp file tank:/file", "zfs create tank/fs", "zpool sync tank"] {
            let run = place.run(command);
            assert_eq!(run.code, 0, "{layout}: {command}: {}", run.err);
            has(&run.err, &["warning: pool 'tank' goes on without", "/b: cannot open: "]);
        }
        has(&place.ok("zpool status tank"), &[" state: DEGRADED", "/b  UNAVAIL", "cannot open: "]);
        drop(b);
        place.ok("zfs create tank/later");
        let status = place.ok("zpool status tank");
        has(&status, &[" state: ONLINE", "scan: resilvered ", " with 0 errors"]);
        let c = ReadOnly::new(&place.path().join("b"));
        assert_eq!(place.run("zpool export tank").code, 0);
        assert_eq!(place.run("zpool import -d . tank").code, 0);
        drop(c);
        place.ok("zfs list tank/later");
        let check = place.run("check tank");
        assert_eq!(check.code, 0, "{layout}: {}{}", check.out, check.err);
    }
}

#[testkit::needs("immutable files")]
#[test]
fn without_redundancy_it_can_be_read_and_every_change_says_why_not() {
    for layout in ["a b", "mirror a b"] {
        let place = with(layout);
        place.ok("cp file tank:/file");
        let _b = ReadOnly::new(&place.path().join("b"));
        let _a = layout.starts_with('m').then(|| ReadOnly::new(&place.path().join("a")));
        for command in ["zfs create tank/fs", "cp file tank:/other", "zpool sync tank"] {
            has(&place.fails(command), &["cannot open: "]);
        }
        assert_eq!(place.ok("cat tank:/file"), "text", "{layout}");
        let status = place.ok("zpool status tank");
        has(&status, &[" state: ONLINE", "read-only: ", "/b cannot be written to: "]);
    }
}

#[testkit::needs("immutable files")]
#[test]
fn a_side_that_lacks_something_does_not_take_the_place_of_one_that_cannot_be_written() {
    let place = with("mirror a b");
    let away = place.path().join("away");
    std::fs::create_dir(&away).unwrap();
    std::fs::rename(place.path().join("b"), away.join("b")).unwrap();
    for name in ["one", "two", "three"] {
        place.ok(&format!("zfs create tank/{name}"));
    }
    std::fs::rename(away.join("b"), place.path().join("b")).unwrap();
    let a = ReadOnly::new(&place.path().join("a"));
    has(&place.fails("zfs create tank/four"), &["/a: cannot open: "]);
    place.ok("zfs list tank/three");
    drop(a);
    place.ok("zfs create tank/four");
    has(&place.ok("zpool status tank"), &[" state: ONLINE"]);
}

#[testkit::needs("immutable files")]
#[test]
fn a_list_of_pools_that_cannot_be_changed_or_read_makes_no_success() {
    let place = with("a");
    {
        let _kept = ReadOnly::new(&place.cache());
        has(&place.fails("zpool export tank"), &["'tank' is still in the list of known pools"]);
    }
    place.ok("zpool export tank");
    // There may be pools in it, and how they are is not known.
    std::fs::create_dir(place.cache()).unwrap();
    for command in ["zpool status -x", "zpool list", "zpool status"] {
        let run = place.run(command);
        has(&run.err, &["cannot read the list of known pools"]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{command}");
        assert!(!run.err.contains("no pools available"), "{}", run.err);
    }
}
