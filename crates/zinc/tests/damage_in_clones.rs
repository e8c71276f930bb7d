//! A block that is lost is named in all datasets of a family that have it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::os::unix::fs::FileExt as _;
use support::has;
use support::place::Place;

/// A pool whose one file in `tank/fs` is damaged.
fn with_damage(how: &str) -> Place {
    let place = Place::new(&["a"]);
    place.ok(&format!("zpool create {how} tank a"));
    place.ok("zfs create -o compression=off tank/fs");
    let mut rng = testkit::Rng::new(11);
    let noise: Vec<u8> = (0..1 << 14).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    std::fs::write(place.path().join("file"), &noise).unwrap();
    place.ok("cp file tank/fs:/file");
    place.ok("zpool export tank");
    let disk = std::fs::File::options().read(true).write(true).open(place.path().join("a"));
    let (disk, mut sector) = (disk.unwrap(), [0; 4096]);
    let size = disk.metadata().unwrap().len();
    let hit = (0..size / 4096).map(|n| n * 4096).find(|at| {
        disk.read_exact_at(&mut sector, *at).unwrap();
        sector == noise[..4096]
    });
    disk.write_all_at(&[0; 4096], hit.expect("the file is on the disk")).unwrap();
    place.ok("zpool import -d . tank");
    place
}

fn damaged(place: &Place) -> Vec<String> {
    let status = place.ok("zpool status -v tank");
    let files = status.lines().filter(|line| line.contains(":/file"));
    let mut files: Vec<String> = files.map(|line| line.trim().to_owned()).collect();
    files.sort();
    files
}

#[test]
fn a_lost_block_is_named_in_snapshots_and_clones() {
    for how in ["-o feature@head_errlog=enabled", "-o feature@head_errlog=disabled"] {
        let place = with_damage(how);
        place.ok("zfs snapshot tank/fs@1");
        place.ok("zfs clone tank/fs@1 tank/c1");
        place.ok("zfs snapshot tank/c1@2");
        place.ok("zfs clone tank/c1@2 tank/c2");
        place.ok("rm tank/c1:/file");
        place.run("zpool scrub -w tank");
        let all = ["tank/c1@2:/file", "tank/c2:/file", "tank/fs:/file", "tank/fs@1:/file"];
        assert_eq!(damaged(&place), all, "{how}");
        place.ok("zfs promote tank/c1");
        let all = ["tank/c1@1:/file", "tank/c1@2:/file", "tank/c2:/file", "tank/fs:/file"];
        assert_eq!(damaged(&place), all, "{how}");
    }
}

/// What is destroyed takes its errors along, and no others.
#[test]
fn errors_go_with_the_last_dataset_that_has_them() {
    let place = with_damage("-o feature@head_errlog=enabled");
    place.ok("zfs snapshot tank/fs@1");
    place.ok("zfs clone tank/fs@1 tank/c1");
    // A reader of the clone meets it.
    place.fails("cp tank/c1:/file back");
    place.run("zpool scrub -w tank");
    place.ok("zfs promote tank/c1");
    place.ok("zfs destroy tank/fs");
    assert_eq!(damaged(&place), ["tank/c1:/file", "tank/c1@1:/file"]);
    place.ok("rm tank/c1:/file");
    assert_eq!(damaged(&place), ["tank/c1@1:/file"]);
    place.ok("zfs destroy tank/c1@1");
    has(&place.ok("zpool status -v tank"), &["errors: No known data errors"]);
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
}
