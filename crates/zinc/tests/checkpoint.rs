//! `zpool checkpoint` and going back to one, of pools that are served and of others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::has;
use support::place::{Place, until};

fn bytes_kept(place: &Place) -> u64 {
    let text = place.ok_here("zpool list -H -p -o ckpoint tank");
    text.trim().parse().unwrap_or(0)
}

/// A pool with a file of two MiB, and that file on the host.
fn with_file() -> Place {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zfs create tank/fs");
    let mut rng = testkit::Rng::new(5);
    let noise: Vec<u8> = (0..2 << 17).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    std::fs::write(place.path().join("file"), noise).unwrap();
    place.ok("cp file tank/fs:/file");
    place
}

#[test]
fn a_pool_goes_back_to_its_checkpoint() {
    let place = with_file();
    has(
        &place.fails("zpool checkpoint -d tank"),
        &["cannot discard checkpoint in 'tank'", "has no checkpoint"],
    );
    has(&place.fails("zpool checkpoint -w tank"), &["-d"]);
    assert_eq!(place.ok("zpool checkpoint tank"), "");
    has(&place.fails("zpool checkpoint tank"), &["cannot checkpoint 'tank'", "has a checkpoint"]);
    place.ok("zfs destroy tank/fs");
    place.ok("zfs create tank/other");
    assert!(bytes_kept(&place) >= 2 << 20);
    has(&place.ok("zpool status tank"), &["checkpoint: created ", ", consumes 2."]);
    has(&place.ok("zpool history -i tank"), &["spa checkpoint", "checkpointed uberblock txg="]);
    for verb in ["attach tank a c", "detach tank b", "replace tank a c", "reguid tank"] {
        has(&place.fails(&format!("zpool {verb}")), &["has a checkpoint"]);
    }
    place.ok("zpool add -f tank c");
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    let why = place.fails("zpool import -d . -o readonly=on --rewind-to-checkpoint tank");
    has(&why, &["--checkpoint"]);
    place.ok("zpool import -d . --rewind-to-checkpoint tank");
    assert_eq!(place.ok("zfs list -H -o name tank/fs"), "tank/fs\n");
    place.fails("zfs list tank/other");
    let status = place.ok("zpool status tank");
    assert!(!status.contains("checkpoint") && !status.contains("\tc"), "{status}");
    place.ok("cp tank/fs:/file back");
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert_eq!(read("file"), read("back"));
    place.ok("zpool export tank");
    place.zdb_is_content("tank");
    has(&place.fails("zpool import -d . --rewind-to-checkpoint tank"), &["has no checkpoint"]);
}

#[test]
fn a_served_pool_discards_its_checkpoint() {
    let place = with_file();
    let mut server = place.start_here("serve tank");
    until("the pool is served", || {
        let list = place.command_here("zpool status tank").output().unwrap();
        list.status.success() && std::fs::exists(place.path().join("run/zinc")).unwrap_or(false)
    });
    assert_eq!(place.ok_here("zpool checkpoint tank"), "");
    place.ok_here("rm tank/fs:/file");
    until("what the file had is kept", || bytes_kept(&place) >= 2 << 20);
    has(&place.ok_here("zpool status tank"), &["checkpoint: created "]);
    assert_eq!(place.ok_here("zpool checkpoint -d -w tank"), "");
    assert_eq!(bytes_kept(&place), 0);
    assert!(!place.ok_here("zpool status tank").contains("checkpoint"));
    has(&place.ok_here("zpool history -i tank"), &["finished discarding checkpointed state"]);
    place.ok_here("zpool export tank");
    server.wait().unwrap();
    place.zdb_is_content("tank");
}
