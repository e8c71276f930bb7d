//! What `status` says of scrubs while they run, and of those that are paused.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use serde_json::Value;
use support::has;
use support::place::{Place, until};

/// OpenZFS's lines and its names in JSON. What is not known, such as the pace of a scrub that has
/// read nothing, or when another process paused one, is not there.
#[test]
fn a_scrub_says_how_far_it_is_and_since_when_it_is_paused() {
    let place = Place::new(&["a", "b"]);
    place.ok("zpool create tank mirror a b");
    let bytes: Vec<u8> =
        (0..8_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(place.path().join("one"), bytes).unwrap();
    place.ok("cp one tank:/one");
    let server = place.server("tank");
    let status = || place.ok_here("zpool status tank");
    let stats = || {
        let text = place.ok_here("zpool status -j --json-int tank");
        let all: Value = serde_json::from_str(&text).unwrap();
        all["pools"]["tank"]["scan_stats"].clone()
    };
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=1");
    place.ok_here("zpool scrub tank");
    until("the scrub runs", || status().contains("scan: scrub in progress since"));
    let text = status();
    has(
        &text,
        &[
            "\t0B / ",
            " scanned, 0B / ",
            " issued\n\t0B repaired, 0.00% done, no estimated completion time\n",
        ],
    );
    let now = stats();
    assert_eq!((&now["function"], &now["state"]), (&"SCRUB".into(), &"SCANNING".into()));
    assert_eq!([&now["issued"], &now["issued_bytes_per_scan"], &now["scrub_pause"]], [0, 0, 0]);
    assert!(now["pass_start"].as_u64() >= now["start_time"].as_u64(), "{now}");
    let message = |line: &str| {
        let output = place.command_here(line).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        String::from_utf8(output.stderr).unwrap()
    };
    let busy = "cannot scrub tank: currently scrubbing; use 'zpool scrub -s' to cancel scrub\n";
    has(&message("zpool scrub tank"), &[busy]);
    place.ok_here("zpool scrub -p tank");
    let busy = "cannot pause scrubbing tank: scrub is paused; use 'zpool scrub' to resume scrub\n";
    has(&message("zpool scrub -p tank"), &[busy]);
    let paused = status();
    has(&paused, &["scan: scrub paused since ", "\n\tscrub started on ", "0.00% done\n"]);
    assert!(stats()["scrub_pause"].as_u64() >= now["start_time"].as_u64());
    // Another change of the pool does not make it forget how far it is.
    place.ok_here("zfs set atime=off tank");
    has(&status(), &["scan: scrub paused since "]);
    drop(server);
    // It is still paused; when that was is not known any more.
    let later = place.ok_here("zpool status tank");
    has(&later, &["scan: scrub paused\n\tscrub started on "]);
    let server = place.server("tank");
    place.ok_here("zpool scrub -w tank");
    let done = status();
    has(&done, &["scan: scrub repaired 0B in ", " with 0 errors on "]);
    assert!(stats().get("pass_start").is_none());
    drop(server);
}
