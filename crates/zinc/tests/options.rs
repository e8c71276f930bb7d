//! The options that OpenZFS 2.3's manuals give a verb: each works here, or is refused in words that
//! say that zinc lacks it. None is called unexpected.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use support::zinc;

/// Every verb that zinc has, and its options there: those without a value as they are, others with
/// one that fits.
const DOCUMENTED: &[(&str, &[&str])] = &[
    (
        "zpool create",
        &["-d", "-f", "-n", "-m x", "-o a=b", "-O a=b", "-R /x", "-t x", "-o feature@x=y"],
    ),
    ("zpool destroy", &["-f"]),
    ("zpool export", &["-a", "-f"]),
    (
        "zpool import",
        &[
            "-D",
            "-a",
            "-f",
            "-F",
            "-n",
            "-X",
            "-T 1",
            "-l",
            "-m",
            "-N",
            "-s",
            "-t",
            "-c x",
            "-d x",
            "-o a=b",
            "-R /x",
            "--rewind-to-checkpoint",
        ],
    ),
    (
        "zpool add",
        &[
            "-f",
            "-g",
            "-L",
            "-n",
            "-P",
            "-o a=b",
            "--allow-in-use",
            "--allow-replication-mismatch",
            "--allow-ashift-mismatch",
        ],
    ),
    ("zpool set", &[]),
    ("zpool upgrade", &["-v", "-a", "-V 5000"]),
    ("zpool reguid", &["-g 1"]),
    ("zpool sync", &["-f"]),
    ("zpool labelclear", &["-f"]),
    (
        "zpool list",
        &[
            "-g",
            "-H",
            "-L",
            "-p",
            "-P",
            "-v",
            "-j",
            "--json-int",
            "--json-pool-key-guid",
            "-o name",
            "-T u",
            "-T d",
        ],
    ),
    (
        "zpool iostat",
        &["-c x", "-g", "-H", "-l", "-L", "-n", "-p", "-P", "-q", "-r", "-v", "-w", "-y", "-T u"],
    ),
    (
        "zpool status",
        &[
            "-c x",
            "-D",
            "-d",
            "-e",
            "-g",
            "-i",
            "-L",
            "-p",
            "-P",
            "-s",
            "-t",
            "-v",
            "-x",
            "-T u",
            "-j",
            "--json-int",
            "--json-flat-vdevs",
            "--json-pool-key-guid",
        ],
    ),
    ("zpool get", &["-H", "-p", "-o name", "-j", "--json-int", "--json-pool-key-guid"]),
    ("zpool history", &["-i", "-l"]),
    ("zpool version", &["-j"]),
    ("zfs create", &["-P", "-n", "-p", "-u", "-v", "-s", "-b 8k", "-V 1m", "-o a=b"]),
    ("zfs destroy", &["-R", "-d", "-f", "-n", "-p", "-r", "-v"]),
    ("zfs snapshot", &["-r", "-o a=b"]),
    ("zfs rollback", &["-R", "-f", "-r"]),
    ("zfs clone", &["-p", "-u", "-o a=b"]),
    ("zfs promote", &[]),
    ("zfs rename", &["-f", "-p", "-r", "-u"]),
    ("zfs set", &["-u"]),
    ("zfs inherit", &["-r", "-S"]),
    ("zfs hold", &["-r"]),
    ("zfs release", &["-r"]),
    ("zfs bookmark", &[]),
    (
        "zfs list",
        &["-H", "-p", "-r", "-d 1", "-o name", "-s name", "-S name", "-t all", "-j", "--json-int"],
    ),
    ("zfs get", &["-H", "-p", "-r", "-d 1", "-o name", "-s local", "-t all", "-j", "--json-int"]),
    ("zfs userspace", SPACE),
    ("zfs groupspace", SPACE),
    ("zfs projectspace", SPACE),
    ("zfs diff", &["-F", "-H", "-t", "-h"]),
    ("zfs holds", &["-H", "-p", "-r"]),
    ("zfs mount", &["-a", "-f", "-l", "-O", "-v", "-o ro"]),
    ("zfs unmount", &["-a", "-f", "-u"]),
    ("zfs version", &["-j"]),
    (
        "zdb",
        &[
            "-A", "-b", "-c", "-d", "-D", "-F", "-G", "-h", "-i", "-k", "-L", "-M", "-N", "-P",
            "-s", "-T", "-v", "-X", "-Y", "-y", "-e", "-V", "-p x", "-I 1", "-o a=b", "-t 1",
            "-U x", "-x y", "-K x", "-B", "-C", "-E", "-l", "-q", "-u", "-m", "-O", "-r", "-R",
            "-S",
        ],
    ),
];

const SPACE: &[&str] = &["-H", "-i", "-n", "-p", "-o name", "-s name", "-S name", "-t all"];

#[test]
fn no_documented_option_is_unexpected() {
    let mut bad = Vec::new();
    for (verb, options) in DOCUMENTED {
        for option in *options {
            // No pool has this name, and nothing can be made of it.
            let name = if verb.ends_with("version") { "" } else { " nix@nix#nix" };
            let line = format!("{verb} {option}{name}");
            let run = zinc(&line.split(' ').collect::<Vec<_>>());
            if run.err.contains("unexpected argument") {
                bad.push(line);
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn an_option_that_zinc_lacks_is_refused_by_name() {
    for (line, verb, option) in [
        ("zpool import -fF tank", "zpool import", "-F"),
        ("zpool import -T 12 tank", "zpool import", "-T"),
        ("zpool status -c x", "zpool status", "-c"),
        ("zdb -U x tank", "zdb", "-U"),
    ] {
        let run = zinc(&line.split(' ').collect::<Vec<_>>());
        let text = format!("zinc: {verb} {option}: zinc does not do this yet\n");
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{line}");
        assert!(run.err.starts_with(&text) && run.err.lines().count() == 2, "{}", run.err);
    }
    // What OpenZFS does not know either is a wrong command line.
    let run = zinc(&["zpool", "status", "-Q"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("unexpected argument '-Q'"), "{}", run.err);
}
