//! Mounts of a server that follow the properties of their datasets, and what is done to those.

use super::Place;

/// The mounts of the pool by the system's list: names and directories below the place.
pub(crate) fn listed(place: &Place) -> Vec<(String, String)> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let below = format!("{}/", place.dir.path().canonicalize().unwrap().display());
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, dir) = (words.next()?, words.next()?);
        let is_ours = words.next()? == "fuse.zinc";
        is_ours.then_some(())?;
        Some((name.to_owned(), dir.strip_prefix(&below)?.to_owned()))
    });
    let mut out: Vec<_> = lines.collect();
    out.sort();
    out
}

/// A pool that is to be mounted at `mnt`.
pub(crate) fn with_mount_point() -> Place {
    let place = Place::new();
    let point = format!("mountpoint={}", place.mnt().display());
    place.zinc(&["zfs", "set", &point, "tank"]).ok();
    place
}

/// A pool that is served with its mounts, below `mnt`.
pub(crate) fn served_with_mounts() -> Place {
    let place = with_mount_point();
    place.zinc(&["serve", "-b", "--mount", "tank"]).ok();
    place
}

pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> = expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    all.sort();
    all
}

impl Place {
    /// Unmounts what no process answers for any more. `zfs unmount -a` takes all such mounts away,
    /// and that of another test may have taken this one.
    pub(super) fn unmount_dead(&self) {
        let run = self.zinc(&["unmount", "mnt"]);
        let is_gone = run.code == 1 && run.err.contains("not currently mounted");
        assert!(is_gone || (run.code, run.out.as_str()) == (0, ""), "{}", run.err);
        assert_eq!(std::fs::read_dir(self.mnt()).unwrap().count(), 0);
    }
}

#[testkit::needs("fuse")]
#[test]
fn mounts_by_properties_follow_them() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "-p", "tank/a/b"]).ok();
    place.zinc(&["zfs", "create", "-u", "tank/quiet"]).ok();
    let full = place.zinc(&["zfs", "destroy", "tank/a"]);
    assert!(full.code == 1 && full.err.contains("filesystem has children"), "{}", full.err);
    let at_first = [("tank", "mnt"), ("tank/a", "mnt/a"), ("tank/a/b", "mnt/a/b")];
    assert_eq!(listed(&place), pairs(&at_first));
    place.sh("echo x > a/b/f");
    place.zinc(&["zfs", "snapshot", "tank/a@s"]).ok();
    // A path is that of a file system; of a snapshot there is none.
    let path = |end: &str| format!("{}/mnt/a{end}", place.dir.path().display());
    assert_eq!(place.zinc(&["zfs", "list", "-Ho", "name", &path("")]).ok(), "tank/a\n");
    refused(&place, &["zfs", "list", "-t", "snapshot", &path("@s")]);
    place.sh("echo y > a/g");
    let diff = place.zinc(&["zfs", "diff", "tank/a@s"]).ok();
    assert!(diff.contains("+\t") && diff.contains("/mnt/a/g"), "{diff}");
    place.zinc(&["zfs", "destroy", "tank/a@s"]).ok();
    // One that programs use keeps its property.
    let used = std::fs::File::open(place.path("mnt/a/b/f")).unwrap();
    let elsewhere = format!("mountpoint={}", place.path("else where").display());
    let run = place.zinc(&["zfs", "set", &elsewhere, "tank/a"]);
    assert!(run.code == 1 && run.err.contains("pool or dataset is busy"), "{}", run.err);
    assert_eq!(listed(&place), pairs(&at_first));
    drop(used);
    place.zinc(&["zfs", "set", &elsewhere, "tank/a"]).ok();
    let blank = "else\\040where";
    let moved = [("tank", "mnt"), ("tank/a", blank), ("tank/a/b", &format!("{blank}/b"))];
    assert_eq!(listed(&place), pairs(&moved));
    assert_eq!(place.sh("cat '../else where/b/f'; ls"), "x\n", "mount points of its own go");
    place.zinc(&["zfs", "inherit", "mountpoint", "tank/a"]).ok();
    assert_eq!(listed(&place), pairs(&at_first));
    // The name decides where it is, unless -u is given.
    place.zinc(&["zfs", "rename", "tank/a", "tank/c"]).ok();
    let renamed = [("tank", "mnt"), ("tank/c", "mnt/c"), ("tank/c/b", "mnt/c/b")];
    assert_eq!(listed(&place), pairs(&renamed));
    place.zinc(&["zfs", "rename", "-u", "tank/c", "tank/d"]).ok();
    let stayed = [("tank", "mnt"), ("tank/d", "mnt/c"), ("tank/d/b", "mnt/c/b")];
    assert_eq!(listed(&place), pairs(&stayed));
    place.zinc(&["zfs", "snapshot", "tank/d/b@s"]).ok();
    place.zinc(&["zfs", "clone", "tank/d/b@s", "tank/clone"]).ok();
    assert_eq!(place.sh("cat clone/f"), "x\n");
    place.zinc(&["zfs", "set", "canmount=off", "tank/clone"]).ok();
    assert_eq!(place.zinc(&["zfs", "destroy", "-r", "tank/d"]).code, 1, "it has a clone");
    place.zinc(&["zfs", "destroy", "-R", "tank/d"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank", "mnt")]));
    // New parents are mounted, and do not cover what moved below them.
    place.zinc(&["zfs", "create", "tank/e"]).ok();
    place.sh("echo y > e/f");
    place.zinc(&["zfs", "rename", "-p", "tank/e", "tank/p/q/e"]).ok();
    let below = [("tank", "mnt"), ("tank/p", "mnt/p"), ("tank/p/q", "mnt/p/q")];
    let moved = ("tank/p/q/e", "mnt/p/q/e");
    assert_eq!(listed(&place), pairs(&[&below[..], &[moved]].concat()));
    assert_eq!(place.sh("cat p/q/e/f"), "y\n");
}

#[testkit::needs("fuse")]
#[test]
fn canmount_off_leaves_what_is_mounted_in_it() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "-p", "tank/a/b"]).ok();
    place.sh("echo x > a/b/f");
    let used = std::fs::File::open(place.path("mnt/a/b/f")).unwrap();
    let run = place.zinc(&["zfs", "set", "canmount=off", "tank/a"]);
    assert!(run.code == 1 && run.err.contains("pool or dataset is busy"), "{}", run.err);
    drop(used);
    place.zinc(&["zfs", "set", "canmount=off", "tank/a"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank", "mnt"), ("tank/a/b", "mnt/a/b")]));
    assert_eq!(place.sh("cat a/b/f"), "x\n");
}

/// A file system that was not mounted is, with the others, when they move: below its parent, and
/// not over its own children.
#[testkit::needs("fuse")]
#[test]
fn parents_are_mounted_before_their_children_when_all_move() {
    let place = served_with_mounts();
    let at = |name: &str| format!("mountpoint={}", place.path(name).display());
    place.zinc(&["zfs", "create", "-o", &at("here"), "tank/o"]).ok();
    place.zinc(&["zfs", "create", "-p", "tank/o/a/b"]).ok();
    std::fs::write(place.path("here/a/b/f"), "x").unwrap();
    place.zinc(&["zfs", "set", "canmount=off", "tank/o/a"]).ok();
    place.zinc(&["zfs", "set", "canmount=on", "tank/o/a"]).ok();
    place.zinc(&["zfs", "set", &at("there"), "tank/o"]).ok();
    assert_eq!(std::fs::read(place.path("there/a/b/f")).unwrap(), b"x");
    place.zinc(&["zfs", "unmount", "tank/o"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank", "mnt")]));
}

#[testkit::needs("fuse")]
#[test]
fn all_are_unmounted_but_those_that_were_mounted_by_hand() {
    let place = served_with_mounts();
    let apart = format!("mountpoint={}", place.path("apart").display());
    place.zinc(&["zfs", "create", "-o", "canmount=noauto", "-o", &apart, "tank/apart"]).ok();
    place.zinc(&["zfs", "create", "tank/a"]).ok();
    place.zinc(&["zfs", "mount", "tank/apart"]).ok();
    place.zinc(&["zfs", "unmount", "-a"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank/apart", "apart")]));
    place.zinc(&["zfs", "unmount", "tank/apart"]).ok();
    assert_eq!(listed(&place), pairs(&[]));
}

#[testkit::needs("fuse")]
#[test]
fn a_place_where_nothing_can_be_mounted_is_kept_as_property() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "-o", "mountpoint=legacy", "tank/a"]).ok();
    std::fs::write(place.path("file"), "").unwrap();
    let point = format!("mountpoint={}", place.path("file").display());
    let run = place.zinc(&["zfs", "set", &point, "tank/a"]);
    let words = "property may be set but unable to remount filesystem";
    assert!(run.code == 0 && run.err.contains(words), "{}", run.err);
    let now = place.zinc(&["zfs", "get", "-Ho", "value", "mountpoint", "tank/a"]).ok();
    assert_eq!(now, format!("{}\n", place.path("file").display()));
}

#[testkit::needs("fuse")]
#[test]
fn options_are_changed_by_a_remount_and_a_pool_in_use_is_not_destroyed() {
    let place = Place::new();
    place.mount("tank");
    place.zinc(&["zfs", "mount", "-o", "remount,ro", "tank"]).ok();
    place.sh("! touch x 2> ../said; grep -q Read-only ../said");
    place.zinc(&["zfs", "mount", "-o", "remount,rw", "tank"]).ok();
    place.sh("touch x");
    let used = std::fs::File::open(place.mnt().join("x")).unwrap();
    let run = place.zinc(&["zpool", "destroy", "tank"]);
    assert!(
        run.code == 1 && run.err.contains("cannot destroy 'tank': pool is busy"),
        "{}",
        run.err
    );
    drop(used);
    place.zinc(&["zpool", "destroy", "tank"]).ok();
    assert_eq!(listed(&place), pairs(&[]));
}

#[testkit::needs("fuse")]
#[test]
fn what_was_mounted_at_a_named_directory_stays_there() {
    let place = Place::new();
    place.zinc(&["zfs", "create", "tank/a"]).ok();
    place.mount("tank/a");
    place.sh("mkdir below");
    let elsewhere = format!("mountpoint={}", place.path("elsewhere").display());
    place.zinc(&["zfs", "set", &elsewhere, "readonly=on", "tank/a"]).ok();
    place.zinc(&["zfs", "create", "tank/a/b"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank/a", "mnt")]), "nothing else is mounted");
    let path = place.mnt().canonicalize().unwrap().join("below");
    let found = place.zinc(&["zfs", "list", "-Ho", "name", path.to_str().unwrap()]).ok();
    assert_eq!(found, "tank/a\n");
    place.sh("! touch x 2> ../said; grep -q Read-only ../said");
}

/// Why a verb is refused.
fn refused(place: &Place, args: &[&str]) -> String {
    let run = place.zinc(args);
    assert_ne!(run.code, 0, "{args:?}");
    run.err
}

#[testkit::needs("fuse")]
#[test]
fn a_verb_that_is_refused_leaves_mounts_alone() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "-p", "tank/q/k"]).ok();
    place.zinc(&["zfs", "create", "tank/later"]).ok();
    place.zinc(&["zfs", "snapshot", "tank/q@s"]).ok();
    place.zinc(&["zfs", "snapshot", "tank/q@younger"]).ok();
    place.sh("echo x > q/k/f");
    let all = listed(&place);
    assert_eq!(all.len(), 4, "{all:?}");
    let mut used = std::fs::File::open(place.path("mnt/q/k/f")).unwrap();
    for (args, why) in [
        (&["zfs", "destroy", "-f", "tank"][..], "operation does not apply to pools"),
        (&["zfs", "rollback", "-f", "tank/q@nope"], "dataset does not exist"),
        (&["zfs", "rollback", "-f", "tank/q@s"], "more recent snapshots"),
        (&["zfs", "destroy", "-f", "tank/q"], "filesystem has children"),
        (&["zpool", "export", "tank"], "programs use"),
        (&["zfs", "set", "canmount=off", "tank/q"], "pool or dataset is busy"),
        (&["zfs", "unmount", "tank/q"], "mnt/q/k': pool or dataset is busy"),
    ] {
        let message = refused(&place, args);
        assert!(message.contains(why), "{args:?}: {message}");
        assert_eq!(listed(&place), all, "{args:?}");
    }
    // Nothing was taken from the program either.
    std::io::Read::read_exact(&mut used, &mut [0; 2]).unwrap();
}

#[testkit::needs("fuse")]
#[test]
fn a_rollback_leaves_mounted_what_is_mounted_in_it() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "tank/q"]).ok();
    place.zinc(&["zfs", "snapshot", "tank/q@s"]).ok();
    place.zinc(&["zfs", "create", "tank/q/k"]).ok();
    place.sh("echo x > q/new; echo x > q/k/f");
    let all = listed(&place);
    let used = std::fs::File::open(place.path("mnt/q/k/f")).unwrap();
    let message = refused(&place, &["zfs", "rollback", "tank/q@s"]);
    assert!(
        message.contains("mnt/q/k': pool or dataset is busy"),
        "the one in use is named: {message}"
    );
    drop(used);
    // Its mount point is younger than the snapshot.
    place.zinc(&["zfs", "rollback", "tank/q@s"]).ok();
    assert_eq!(listed(&place), all);
    assert_eq!(place.sh("ls q; cat q/k/f"), "k\nx\n");
    let used = std::fs::File::open(place.path("mnt/q/k/f")).unwrap();
    place.zinc(&["zfs", "rollback", "-f", "tank/q@s"]).ok();
    assert_eq!(listed(&place), all);
    drop(used);
    // Refused by the pool, when all was taken away already.
    place.zinc(&["zfs", "snapshot", "tank/q@held"]).ok();
    place.zinc(&["zfs", "hold", "keep", "tank/q@held"]).ok();
    let message = refused(&place, &["zfs", "rollback", "-r", "tank/q@s"]);
    assert!(message.contains("held"), "{message}");
    assert_eq!(listed(&place), all);
}

/// By its name a file system takes those with it that are in it because they inherit that; by its
/// directory, and with others in it, it stays.
#[testkit::needs("fuse")]
#[test]
fn unmounting_by_name_takes_the_children_that_inherit() {
    let place = served_with_mounts();
    place.zinc(&["zfs", "create", "-p", "tank/a/b/c"]).ok();
    place.zinc(&["zfs", "create", "tank/ab"]).ok();
    let others = [("tank", "mnt"), ("tank/ab", "mnt/ab")];
    let below = [("tank/a", "mnt/a"), ("tank/a/b", "mnt/a/b"), ("tank/a/b/c", "mnt/a/b/c")];
    let all = pairs(&[&others[..], &below[..]].concat());
    let by_path = place.path("mnt/a").display().to_string();
    let run = place.zinc(&["zfs", "unmount", &by_path]);
    assert!(run.code == 1 && run.err.contains("pool or dataset is busy"), "{}", run.err);
    assert_eq!(listed(&place), all);
    // When one of them is in use, those that went before it come back.
    place.sh("echo x > a/b/f");
    let used = std::fs::File::open(place.path("mnt/a/b/f")).unwrap();
    let run = place.zinc(&["zfs", "unmount", "tank/a"]);
    assert!(run.code == 1 && run.err.contains("mnt/a/b': pool or dataset is busy"), "{}", run.err);
    assert_eq!(listed(&place), all);
    drop(used);
    place.zinc(&["zfs", "unmount", "tank/a"]).ok();
    assert_eq!(listed(&place), pairs(&others));
    place.zinc(&["zfs", "mount", "-a"]).ok();
    assert_eq!(listed(&place), all);
}

/// Of two mounts at one directory the upper one goes, and the lower one is seen again.
#[testkit::needs("fuse")]
#[test]
fn a_mount_over_another_goes_alone() {
    let place = served_with_mounts();
    let at = format!("mountpoint={}", place.path("over").display());
    for name in ["tank/a", "tank/b"] {
        place.zinc(&["zfs", "create", "-o", &at, name]).ok();
        std::fs::write(place.path("over").join(&name[5..]), name).unwrap();
    }
    let all = [("tank", "mnt"), ("tank/a", "over"), ("tank/b", "over")];
    assert_eq!(listed(&place), pairs(&all));
    place.zinc(&["zfs", "unmount", "tank/b"]).ok();
    assert_eq!(listed(&place), pairs(&all[..2]));
    assert!(place.path("over/a").exists() && !place.path("over/b").exists());
    place.zinc(&["zfs", "mount", "tank/b"]).ok();
    assert_eq!(listed(&place), pairs(&all));
    place.zinc(&["zfs", "unmount", "-a"]).ok();
    assert_eq!(listed(&place), pairs(&[]));
}

/// A mount of one pool in another's goes first, whatever the pools are called.
#[testkit::needs("fuse")]
#[test]
fn unmounting_all_begins_with_the_innermost_pool() {
    let place = served_with_mounts();
    place.sh("mkdir inner");
    let disk = place.path("second");
    std::fs::File::create(&disk).unwrap().set_len(256 << 20).unwrap();
    let point = format!("mountpoint={}", place.path("mnt/inner").display());
    place.zinc(&["zpool", "create", "-O", &point, "zoo", disk.to_str().unwrap()]).ok();
    place.zinc(&["serve", "-b", "--mount", "zoo"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank", "mnt"), ("zoo", "mnt/inner")]));
    let run = place.zinc(&["zfs", "unmount", "-a"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(listed(&place), pairs(&[]));
    place.zinc(&["zpool", "export", "zoo"]).ok();
    place.zinc(&["zpool", "export", "tank"]).ok();
}

/// `zfs mount -R` mounts a file system with all below by their properties, of a pool that is served
/// and of one that is not, and leaves what is mounted; `-j` lists it.
#[testkit::needs("fuse")]
#[test]
fn a_file_system_is_mounted_with_all_below() {
    let place = served_with_mounts();
    for name in ["a", "a/b", "a/b/c", "ab", "d", "d/e"] {
        place.zinc(&["zfs", "create", &format!("tank/{name}")]).ok();
    }
    place.zinc(&["zfs", "create", "-o", "canmount=noauto", "tank/a/off"]).ok();
    place.zinc(&["zfs", "unmount", "-a"]).ok();
    let names = || listed(&place).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(names().is_empty(), "{:?}", names());
    place.zinc(&["zfs", "mount", "tank/a/b"]).ok();
    place.zinc(&["zfs", "mount", "-R", "tank/a/b", "tank/d"]).ok();
    assert_eq!(names(), ["tank/a/b", "tank/a/b/c", "tank/d", "tank/d/e"]);
    place.zinc(&["zfs", "mount", "-R", "tank/d"]).ok();
    let json = place.zinc(&["zfs", "mount", "-j"]).json();
    let entry = &json["datasets"]["tank/d/e"];
    assert_eq!(entry["filesystem"], "tank/d/e");
    assert!(entry["mountpoint"].as_str().unwrap().ends_with("/mnt/d/e"), "{json}");
    let run = place.zinc(&["zfs", "mount", "-R", "tank/none"]);
    assert!(run.code == 1 && run.err.contains("does not exist"), "{}", run.err);
    assert_eq!(place.zinc(&["zfs", "mount", "tank/a", "tank/ab"]).code, 2);
    place.zinc(&["zpool", "export", "tank"]).ok();
    // It is imported, and no process has it.
    place.zinc(&["zpool", "import", "-N", "-d", ".", "tank"]).ok();
    assert!(names().is_empty(), "{:?}", names());
    place.zinc(&["zfs", "mount", "-R", "tank/a"]).ok();
    assert_eq!(names(), ["tank/a", "tank/a/b", "tank/a/b/c"]);
}

/// What is mounted of another pool of the same name counts for nothing.
#[testkit::needs("fuse")]
#[test]
fn a_pool_of_the_same_name_hides_no_file_system() {
    let other = served_with_mounts();
    other.zinc(&["zfs", "create", "tank/a"]).ok();
    assert_eq!(listed(&other), pairs(&[("tank", "mnt"), ("tank/a", "mnt/a")]));
    let place = with_mount_point();
    place.zinc(&["zfs", "create", "tank/a"]).ok();
    place.zinc(&["zfs", "mount", "-R", "tank/a"]).ok();
    assert_eq!(listed(&place), pairs(&[("tank/a", "mnt/a")]));
}
