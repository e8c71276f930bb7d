//! Copies that programs make within a mount, of blocks that both files have then.

use super::{Place, kill, wait_for_end};

/// What a property of the pool says, when all is durable.
fn bytes(place: &Place, property: &str) -> u64 {
    place.zinc(&["zpool", "sync", "tank"]).ok();
    place.zinc(&["zpool", "get", "-Hpo", "value", property, "tank"]).ok().trim().parse().unwrap()
}

/// A mounted pool that can share blocks, and a file `a` of 5 MB, whose sum is in `../sum`.
fn with_a_file() -> (Place, i32) {
    let place = Place::new();
    place.zinc(&["zpool", "set", "feature@block_cloning=enabled", "tank"]).ok();
    let pid = place.mount("tank");
    place.sh("head -c 5000000 /dev/urandom > a; sha256sum < a > ../sum");
    (place, pid)
}

/// The process ends, and the pool is whole.
fn ends_whole(place: &Place, pid: i32) {
    kill(pid, "-TERM");
    wait_for_end(pid);
    assert_eq!(place.zinc(&["check", "tank"]).code, 0);
}

#[testkit::needs("fuse")]
#[test]
fn copies_within_a_mount_share_blocks() {
    const SIZE: u64 = (10 << 20) + 777;
    let place = Place::new();
    place.mount("tank");
    let make = |name: &str| {
        place.sh(&format!("head -c {SIZE} /dev/urandom > {name}"));
        place.zinc(&["zpool", "sync", "tank"]).ok();
    };
    make("a");
    place.sh("cp a before; cmp a before");
    assert_eq!(bytes(&place, "bclonesaved"), 0, "the pool lacks the feature");
    place.zinc(&["zpool", "set", "feature@block_cloning=enabled", "tank"]).ok();
    place.sh("cp --reflink=auto a b; cp a c; chmod 4755 c; cp a c; stat -c %s b c");
    let (used, saved) = (bytes(&place, "bcloneused"), bytes(&place, "bclonesaved"));
    assert!((10 << 20..11 << 20).contains(&used), "{used}");
    assert_eq!(saved, 2 * used);
    // What is changed is the file's own then, also where a copy is made over a copy.
    place.sh("cp before keep; cmp a b; cmp a c; echo x | dd of=b bs=1 seek=5000000 conv=notrunc");
    place.sh("! cmp -s a b; cmp a c; head -c 1000000 a | cmp -n 1000000 - b");
    // What was written just now is copied, or shared when a txg ended meanwhile.
    place.sh("head -c 3000000 /dev/urandom > new; cp new copy; cmp new copy; rm new a");
    let sums = place.sh("sha256sum *");
    place.unmount();
    let pid = place.mount("tank");
    assert_eq!(place.sh("sha256sum *"), sums);
    place.sh("rm *");
    assert_eq!(bytes(&place, "bcloneused"), 0);
    ends_whole(&place, pid);
}

/// A copy that was synced is there when the process is killed, and the file it was made of is not.
#[testkit::needs("fuse")]
#[test]
fn a_synced_copy_survives_the_death_of_the_process() {
    let (place, pid) = with_a_file();
    place.zinc(&["zpool", "sync", "tank"]).ok();
    place.sh("cp a b; rm a; sync b");
    kill(pid, "-KILL");
    let pid = place.mount("tank");
    assert_eq!(place.sh("ls"), "b\n");
    place.sh("sha256sum < b | cmp - ../sum");
    ends_whole(&place, pid);
}

/// What is copied out of a snapshot takes no space as long as the snapshot is there, and outlives
/// it.
#[testkit::needs("fuse")]
#[test]
fn copies_out_of_a_snapshot_share_blocks() {
    let (place, pid) = with_a_file();
    place.zinc(&["zfs", "snapshot", "tank@old"]).ok();
    place.sh("rm a");
    assert_eq!(bytes(&place, "bcloneused"), 0);
    place.sh("cp .zfs/snapshot/old/a b; sha256sum < b | cmp - ../sum");
    let used = bytes(&place, "bcloneused");
    assert!((5_000_000..6 << 20).contains(&used), "{used}");
    place.zinc(&["zfs", "destroy", "tank@old"]).ok();
    assert_eq!(bytes(&place, "bcloneused"), 0);
    place.sh("sha256sum < b | cmp - ../sum");
    ends_whole(&place, pid);
}
