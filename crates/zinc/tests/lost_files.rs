//! Files with blocks that are on no device any more: they are listed by name until they are gone or
//! whole again, whether a scrub or a reader found them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use support::place::{Place, until};

/// Bytes of a record, and of what is overwritten of one.
const RECORD: usize = 128 << 10;
const HOLE: usize = 16 << 10;

/// Content that does not compress, and of which no record is like another.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(len).collect()
}

/// Overwrites the copy of a record on an image.
fn lose(place: &Place, image: &str, record: &[u8]) {
    let path = place.path().join(image);
    let bytes = std::fs::read(&path).unwrap();
    let begin = &record[..512];
    let at = bytes.chunks_exact(512).position(|sector| sector == begin).expect("it is there");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0x5a; HOLE], (at * 512) as u64).unwrap();
}

/// A pool over images, with the file `/dir/lost` in `tank/fs` and in its snapshot; its content.
fn with_file(words: &str, images: &[&str]) -> (Place, Vec<u8>) {
    let place = Place::new(images);
    let content = content(7, 8 * RECORD);
    std::fs::write(place.path().join("lost"), &content).unwrap();
    place.ok(&format!("zpool create tank {words} {}", images.join(" ")));
    place.ok("zfs create tank/fs");
    place.ok("mkdir tank/fs:/dir");
    place.ok("cp lost tank/fs:/dir/lost");
    place.ok("zfs snapshot tank/fs@s");
    (place, content)
}

/// Names that the status lists.
fn listed(place: &Place) -> Vec<String> {
    let status = place.ok("zpool status -v tank");
    let Some((_, names)) = status.split_once("in the following files:\n") else {
        assert!(status.contains("errors: No known data errors"), "{status}");
        return Vec::new();
    };
    assert!(status.contains("ZFS-8000-8A"), "{status}");
    assert!(!status.contains("unaffected"), "{status}");
    let names = names.lines().map(str::trim).filter(|line| !line.is_empty());
    names.map(str::to_owned).collect()
}

const BOTH: [&str; 2] = ["tank/fs:/dir/lost", "tank/fs@s:/dir/lost"];
const IN_SNAPSHOT: [&str; 1] = ["tank/fs@s:/dir/lost"];

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// A block that no side of a mirror has: `words` and images of the pool.
fn a_scrub_finds_and_forgets(words: &str, images: &[&str]) {
    let (place, content) = with_file(words, images);
    for image in images {
        lose(&place, image, &content[3 * RECORD..]);
    }
    place.ok("zpool scrub tank");
    assert_eq!(sorted(listed(&place)), BOTH);
    // Nothing came back, and what came to its end is not paused.
    place.ok("zpool scrub -e tank");
    assert_eq!(sorted(listed(&place)), BOTH);
    let status = place.ok("zpool status tank");
    assert!(status.contains("\n scrub: scrubbed "), "{status}");
    assert!(status.contains(" error blocks in 0 days 00:0"), "{status}");
    assert!(!status.contains("  scan: "), "{status}");
    for (option, doing) in [("-p", "pause"), ("-s", "cancel")] {
        let refused = place.fails(&format!("zpool scrub -e {option} tank"));
        let why = format!("cannot {doing} scrubbing tank: there is no active scrub");
        assert!(refused.contains(&why), "{refused}");
    }
    let health = place.ok("zpool status -x");
    assert!(health.contains("pool: tank") && health.contains("2 data errors"), "{health}");
    let json: Value = serde_json::from_str(&place.ok("zpool status -j tank")).unwrap();
    assert_eq!(json["pools"]["tank"]["error_count"], "2", "{json}");
    assert_eq!(json["pools"]["tank"]["scan_stats"]["err_scrub_state"], "FINISHED", "{json}");
    // It stays over an export, and until it is known to be gone.
    place.ok("zpool export tank");
    place.ok("zpool import -d . tank");
    place.ok("rm tank/fs:/dir/lost");
    place.ok("zpool scrub tank");
    assert_eq!(listed(&place), IN_SNAPSHOT);
    place.ok("zfs destroy tank/fs@s");
    place.ok("zpool scrub tank");
    assert_eq!(listed(&place), [""; 0]);
    // The counts of the devices stay until they are cleared.
    place.ok("zpool clear tank");
    assert!(place.ok("zpool status -x").contains("all pools are healthy"));
    assert!(place.ok("check tank").contains("clean: 0 lost, 0 inconsistent"));
}

#[test]
fn a_scrub_lists_what_is_lost_until_it_is_gone() {
    a_scrub_finds_and_forgets("", &["a"]);
}

#[test]
fn so_it_does_where_all_copies_are_bad() {
    a_scrub_finds_and_forgets("mirror", &["a", "b"]);
}

/// A scrub of errors that stands, because a tunable holds it up: `status` shows it, and it is
/// paused, goes on and is stopped.
#[test]
fn a_scrub_of_errors_is_paused_and_stopped() {
    let (place, content) = with_file("", &["a"]);
    lose(&place, "a", &content[3 * RECORD..]);
    place.ok("zpool scrub tank");
    let _server = place.server("tank");
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=1");
    let status = || place.ok_here("zpool status tank");
    let shows = |what: &str| until(what, || status().contains(what));
    let begin = || place.start_here("zpool scrub -e tank");
    for command in ["zpool scrub -e -p tank", "zpool scrub -p tank"] {
        let mut scrub = begin();
        shows("\n scrub: error scrub in progress since ");
        place.ok_here(command);
        assert!(scrub.wait().unwrap().success());
        shows("\n scrub: error scrub paused since ");
        let again = place.command_here("zpool scrub -e -p tank").output().unwrap();
        let why = String::from_utf8_lossy(&again.stderr);
        assert!(!again.status.success() && why.contains("scrub is paused; use"), "{why}");
    }
    let mut scrub = begin();
    shows("\n scrub: error scrub in progress since ");
    place.ok_here("zpool scrub -e -s tank");
    assert!(scrub.wait().unwrap().success());
    shows("\n scrub: error scrub canceled on ");
    place.ok_here("tunables --pool tank zfs_scan_suspend_progress=0");
    place.ok_here("zpool scrub -e tank");
    shows("\n scrub: scrubbed ");
    assert!(place.ok_here("zpool status -v tank").contains(BOTH[0]), "it is lost still");
}

#[test]
fn what_a_reader_did_not_get_is_listed() {
    let (place, content) = with_file("", &["a"]);
    lose(&place, "a", &content[5 * RECORD..]);
    let mut server = place.serve("tank");
    let cat = place.command_here("cat tank/fs:/dir/lost").output().unwrap();
    assert_eq!(cat.status.code(), Some(1));
    assert!(cat.stdout == content[..5 * RECORD], "what stands before it is written");
    let message = String::from_utf8_lossy(&cat.stderr);
    let lost = format!("tank/fs:/dir/lost: bytes {}+{RECORD} are lost\n", 5 * RECORD);
    assert!(message.contains(&lost) && message.contains("--offset 786432 goes on"), "{message}");
    let rest = place.command_here("cat --offset 786432 tank/fs:/dir/lost").output().unwrap();
    assert!(rest.status.success() && rest.stdout == content[6 * RECORD..]);
    // Within a block, and of several files.
    let some = "cat --offset 655350 --length 100 tank/fs:/dir/lost tank/fs@s:/dir/lost";
    let some = place.command_here(some).output().unwrap();
    assert_eq!(some.status.code(), Some(1));
    let ten = &content[655_350..655_360];
    assert!(some.stdout == [ten, ten].concat());
    let message = String::from_utf8_lossy(&some.stderr);
    assert!(message.contains("tank/fs@s:/dir/lost: bytes 655360+90 are lost"), "{message}");
    // Nothing is written to the pool, and yet it is kept what was lost.
    let begun = Instant::now();
    let mut status = String::new();
    while !status.contains(BOTH[0]) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{status}");
        std::thread::sleep(Duration::from_millis(200));
        status = place.ok_here("zpool status -v tank");
    }
    assert!(status.contains("ZFS-8000-8A"), "{status}");
    place.ok_here("zpool export tank");
    assert!(server.wait().unwrap().success());
    place.ok("zpool import -d . tank");
    assert!(listed(&place).contains(&BOTH[0].to_owned()));
}

#[test]
fn with_head_errlog_snapshots_follow_from_the_birth() {
    let (place, content) = with_file("", &["a"]);
    lose(&place, "a", &content[..]);
    place.ok("zpool scrub tank");
    // What is there is kept when the form changes.
    place.ok("zpool set feature@head_errlog=enabled tank");
    assert!(listed(&place).contains(&BOTH[0].to_owned()));
    place.ok("zpool scrub tank");
    assert_eq!(sorted(listed(&place)), BOTH);
    // No scrub is needed to see that the head does not have it any more.
    place.ok("rm tank/fs:/dir/lost");
    assert_eq!(listed(&place), IN_SNAPSHOT);
    place.ok("zfs destroy tank/fs@s");
    place.ok("zpool scrub tank");
    assert_eq!(listed(&place), [""; 0]);
    assert!(place.ok("check tank").contains("clean: 0 lost, 0 inconsistent"));
}

#[test]
fn a_resilver_that_cannot_end_names_the_file() {
    let (place, content) = with_file("", &["a"]);
    lose(&place, "a", &content[RECORD..]);
    place.extra("b");
    place.fails("zpool replace tank a b");
    let names = listed(&place);
    assert!(names.contains(&BOTH[0].to_owned()), "{names:?}");
}

/// The header of a file system is on no device any more: the rescue says that nothing of it was
/// copied, and copies the others.
#[test]
fn a_rescue_says_which_dataset_is_lost_as_a_whole() {
    let (place, content) = with_file("", &["a"]);
    place.ok("zfs create tank/lost");
    place.ok("cp lost tank/lost:/file");
    let shown = place.ok("zdb -dddd tank/lost");
    let root = shown.lines().find(|line| line.contains("rootbp")).expect("zdb shows its root");
    let image = std::fs::OpenOptions::new().write(true).open(place.path().join("a")).unwrap();
    let mut copies = 0;
    for dva in root.split("DVA[").skip(1) {
        let dva = dva.split_once('<').and_then(|(_, rest)| rest.split_once('>')).unwrap().0;
        let parts: Vec<u64> =
            dva.split(':').map(|part| u64::from_str_radix(part, 16).unwrap()).collect();
        // Behind the labels and the boot area.
        let at = parts[1] + (4 << 20);
        image.write_all_at(&vec![0x5a; parts[2] as usize], at).unwrap();
        copies += 1;
    }
    assert!(copies > 1, "{root}");
    let rescue = place.run("rescue tank saved");
    assert_eq!(rescue.code, 1, "{}", rescue.err);
    let message = "zinc: 1 file rescued, 1 loss: 1 dataset was not copied at all; see ";
    assert!(rescue.err.starts_with(message), "{}", rescue.err);
    assert!(rescue.err.contains("because: 'tank/lost': "), "{}", rescue.err);
    let saved = std::fs::read(place.path().join("saved/tank%fs/dir/lost")).unwrap();
    assert!(saved == content);
}
