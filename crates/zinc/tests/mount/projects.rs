//! Projects of files below a mount: `zinc zfs project`, as `lsattr` and `chattr` see them.

use super::Place;
use super::support::has;

#[testkit::needs("fuse")]
#[test]
fn generations_of_files_are_shown() {
    let place = Place::new();
    place.mount("tank");
    let generation = |name: &str| -> u64 {
        let shown = place.sh(&format!("lsattr -vd {name}"));
        let first = shown.split_whitespace().next();
        first.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no generation: {shown:?}"))
    };
    place.sh("touch a");
    place.zinc(&["zpool", "sync", "tank"]).ok();
    let first = generation("a");
    assert!(first > 0);
    // The number of the txg that made it stays, and is another one for what a later txg made.
    place.sh("echo more > a && touch b");
    assert_eq!(generation("a"), first);
    assert!(generation("b") > first);
}

fn project(place: &Place, words: &str) -> String {
    let words: Vec<&str> = ["zfs", "project"].into_iter().chain(words.split(' ')).collect();
    place.zinc(&words).ok()
}

#[testkit::needs("fuse")]
#[test]
fn projects_of_trees_are_shown_checked_and_set() {
    let place = Place::new();
    place.mount("tank");
    place.sh("mkdir -p a/b/c d && touch a/f a/b/g && ln -s f a/link && chattr -p 7 a/f");
    assert_eq!(project(&place, "mnt/a/f"), "    7 - mnt/a/f\n");
    assert_eq!(project(&place, "-d mnt/a"), "    0 - mnt/a\n");
    let mut listed: Vec<String> = project(&place, "mnt/a/").lines().map(str::to_owned).collect();
    listed.sort();
    assert_eq!(listed, ["    0 - mnt/a", "    0 - mnt/a/b", "    7 - mnt/a/f"]);
    // A tree of one project, and what does not fit into it.
    assert_eq!(project(&place, "-s -r -p 9 mnt/a"), "");
    assert_eq!(project(&place, "-c -r mnt/a"), "");
    has(&place.sh("lsattr -pd a/b/c"), &["9 ", "P"]);
    place.sh("touch a/b/new && chattr -p 5 a/b/new");
    let output = project(&place, "-cr mnt/a");
    assert_eq!(output, "mnt/a/b/new - project ID is not set properly (5/9)\n");
    assert_eq!(project(&place, "-cr0 mnt/a"), "mnt/a/b/new\0");
    assert_eq!(project(&place, "-c -d -p 4 mnt/a").lines().count(), 1);
    // The project of the directory is that of the tree when none is named.
    project(&place, "-s -r mnt/a");
    assert_eq!(project(&place, "-cr mnt/a"), "");
    project(&place, "-C -k mnt/a/b");
    assert_eq!(project(&place, "-d mnt/a/b"), "    9 - mnt/a/b\n");
    project(&place, "-C -r mnt/a");
    assert_eq!(project(&place, "mnt/a/b/g"), "    0 - mnt/a/b/g\n");
    for wrong in [
        "-c -k mnt/a",
        "-c -C mnt/a",
        "-c -s mnt/a",
        "-C -d mnt/a",
        "-C -p 100 mnt/a",
        "-C -0 mnt/a",
        "-s -d mnt/a",
        "-s -k mnt/a",
        "-p 100 -d mnt/a",
        "-p -1 mnt/a",
        "-0 mnt/a",
        "-k mnt/a",
        "-c -d mnt/a/f",
        "-s -r mnt/a/f",
        "nix",
        "mnt/nix",
        "/",
    ] {
        let words: Vec<&str> = ["zfs", "project"].into_iter().chain(wrong.split(' ')).collect();
        let run = place.zinc(&words);
        assert!(run.code != 0 && run.out.is_empty(), "{wrong}: {}", run.out);
    }
    place.unmount();
}
