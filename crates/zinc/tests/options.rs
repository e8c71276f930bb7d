//! The options that OpenZFS 2.3's manuals give a verb: each works here, or is refused in words that
//! say that zinc lacks it. None is called unexpected. The guide has all of them in a table
//! (docs/guide/verbs.md), which is compared with what the command does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::fmt::Write as _;
use support::zinc;

/// Every verb, also those that zinc lacks, and its options: those without a value as they are,
/// others with one that fits.
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
            "--power",
        ],
    ),
    ("zpool get", &["-H", "-p", "-o name", "-j", "--json-int", "--json-pool-key-guid"]),
    ("zpool history", &["-i", "-l"]),
    ("zpool version", &["-j"]),
    ("zpool attach", &["-f", "-s", "-w", "-o ashift=9"]),
    ("zpool checkpoint", &["-d", "-w"]),
    ("zpool clear", &["-F", "-n", "-X", "--power"]),
    ("zpool ddtprune", &["-d 1", "-p 1"]),
    ("zpool detach", &[]),
    ("zpool events", &["-v", "-H", "-f", "-c"]),
    ("zpool initialize", &["-c", "-s", "-u", "-w"]),
    ("zpool offline", &["-f", "-t", "--power"]),
    ("zpool online", &["-e", "--power"]),
    ("zpool prefetch", &["-t ddt"]),
    ("zpool remove", &["-n", "-p", "-s", "-w"]),
    ("zpool reopen", &["-n"]),
    ("zpool replace", &["-f", "-s", "-w", "-o ashift=9"]),
    ("zpool resilver", &[]),
    ("zpool scrub", &["-s", "-p", "-w", "-C", "-e"]),
    ("zpool split", &["-g", "-L", "-l", "-n", "-P", "-o a=b", "-R /x"]),
    ("zpool trim", &["-d", "-r 1", "-w", "-c", "-s"]),
    ("zpool wait", &["-H", "-p", "-T u", "-t scrub"]),
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
    ("zfs projectspace", &["-H", "-p", "-o name", "-s name", "-S name"]),
    ("zfs diff", &["-F", "-H", "-t", "-h"]),
    ("zfs holds", &["-H", "-p", "-r"]),
    ("zfs mount", &["-a", "-f", "-l", "-O", "-v", "-o ro", "-R", "-j", "--json"]),
    ("zfs unmount", &["-a", "-f", "-u"]),
    ("zfs version", &["-j"]),
    ("zfs allow", &["-d", "-l", "-u x", "-g x", "-e", "-c", "-s @x"]),
    ("zfs unallow", &["-d", "-l", "-r", "-u x", "-g x", "-e", "-c", "-s @x"]),
    ("zfs change-key", &["-i", "-l", "-o a=b"]),
    ("zfs load-key", &["-a", "-L x", "-n", "-r"]),
    ("zfs unload-key", &["-a", "-r"]),
    ("zfs program", &["-j", "-n", "-t 1", "-m 1"]),
    ("zfs project", &["-0", "-c", "-C", "-d", "-k", "-p 1", "-r", "-s"]),
    (
        "zfs receive",
        &["-A", "-c", "-d", "-e", "-F", "-h", "-M", "-n", "-s", "-u", "-v", "-o a=b", "-x a"],
    ),
    ("zfs redact", &[]),
    (
        "zfs send",
        &[
            "-b",
            "-c",
            "-D",
            "-e",
            "-h",
            "-L",
            "-n",
            "-p",
            "-P",
            "-R",
            "-s",
            "-S",
            "-v",
            "-V",
            "-w",
            "-i x",
            "-I x",
            "-t x",
            "-X x",
            "--redact x",
        ],
    ),
    ("zfs share", &["-a", "-l"]),
    ("zfs unshare", &["-a"]),
    ("zfs upgrade", &["-a", "-r", "-v", "-V 5"]),
    ("zfs wait", &["-t deleteq"]),
    ("zfs jail", &[]),
    ("zfs unjail", &[]),
    ("zfs zone", &[]),
    ("zfs unzone", &[]),
    ("zstream decompress", &["-v"]),
    ("zstream dump", &["-C", "-d", "-v"]),
    ("zstream recompress", &["-l 1"]),
    ("zstream redup", &["-v"]),
    ("zstream token", &[]),
    (
        "zdb",
        &[
            "-A", "-b", "-c", "-d", "-D", "-F", "-G", "-h", "-i", "-k", "-L", "-M", "-N", "-P",
            "-s", "-T", "-v", "-X", "-Y", "-y", "-e", "-V", "-p x", "-I 1", "-o a=b", "-t 1",
            "-U x", "-x y", "-K x", "-B", "-C", "-E x", "-l", "-q", "-u", "-m", "-O", "-r", "-R",
            "-S", "-Z",
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
    for (line, verb, option, lines) in [
        ("zpool online --power tank a", "zpool online", "--power", 2),
        ("zpool status --power tank", "zpool status", "--power", 2),
        ("zfs send -S tank", "zfs send", "-S", 2),
        ("zfs send --redact a tank@b", "zfs send", "--redact", 2),
        ("zdb -x d tank", "zdb", "-x", 1),
    ] {
        let run = zinc(&line.split(' ').collect::<Vec<_>>());
        let text = format!("zinc: {verb} {option}: not supported by zinc yet\n");
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{line}");
        assert!(run.err.starts_with(&text) && run.err.lines().count() == lines, "{}", run.err);
    }
    // What OpenZFS does not know either is a wrong command line.
    let run = zinc(&["zpool", "status", "-Q"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("unexpected argument '-Q'"), "{}", run.err);
}

#[test]
fn what_is_wrong_with_a_name_or_missing_is_said() {
    for (line, text) in [
        ("zfs unallow s", "missing user, group or permission"),
        ("zfs create a/a@b", "cannot create 'a/a@b': invalid character '@' in name"),
        ("zfs create a/a#b", "cannot create 'a/a#b': invalid character '#' in name"),
    ] {
        let run = zinc(&line.split(' ').collect::<Vec<_>>());
        assert!(run.code != 0 && run.err.contains(text), "{line}: {}", run.err);
    }
}

/// Whether an option that has no value in OpenZFS has one here: a name behind it is not what it is
/// there.
fn eats(verb: &str, option: &str) -> bool {
    if option.is_empty() || option.contains(' ') {
        return false;
    }
    let line = format!("{verb} nix@nix#nix {option}");
    zinc(&line.split(' ').collect::<Vec<_>>()).err.contains("a value is required")
}

/// Whether zinc takes a verb, with an option or without, as OpenZFS does.
fn takes(verb: &str, option: &str) -> bool {
    if eats(verb, option) {
        return false;
    }
    let name = if verb.ends_with("version") { "" } else { "nix@nix#nix" };
    let line = format!("{verb} {option} {name}");
    let run = zinc(&line.split_whitespace().collect::<Vec<_>>());
    let refused = ["unexpected argument", "unrecognized", "not supported"];
    // What is not a command of zinc's at all says so of its first word.
    !refused.iter().any(|words| run.err.contains(words))
}

/// The page: `differs` has for a verb what is said of it there.
fn page(head: &str, differs: impl Fn(&str) -> String) -> String {
    let mut text = head.to_owned();
    for command in ["zpool", "zfs", "zdb", "zstream"] {
        let of = |verb: &str| verb.split(' ').next() == Some(command);
        let mut verbs: Vec<_> = DOCUMENTED.iter().filter(|(verb, _)| of(verb)).collect();
        verbs.sort();
        let _ = write!(text, "\n## {command}\n\n| verb | works | not yet | differs |\n");
        text.push_str("| --- | --- | --- | --- |\n");
        for (verb, options) in verbs {
            let is_there = takes(verb, "");
            let names = options.iter().map(|o| o.split(' ').next().unwrap_or(o));
            let names: Vec<_> = names.zip(*options).collect();
            let list = |is_wanted: bool| {
                let all = names.iter().filter(|(_, o)| (is_there && takes(verb, o)) == is_wanted);
                all.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(" ")
            };
            let (works, lacks) = match is_there {
                true => (format!("yes {}", list(true)), list(false)),
                false => (String::new(), format!("the verb {}", list(false))),
            };
            let verb = verb.strip_prefix(&format!("{command} ")).unwrap_or(verb);
            let message = differs(&format!("{command} {verb}"));
            let cells = [works.trim(), lacks.trim(), &message].map(|cell| format!("{cell} |"));
            let cells = cells.map(|cell| if cell == " |" { "|".to_owned() } else { cell });
            let _ = writeln!(text, "| `{verb}` | {}", cells.join(" "));
        }
    }
    text
}

/// Its rows are what the command does; what differs is written by hand, and kept. With the variable
/// `UPDATE_GUIDE` the page is written anew.
#[test]
fn the_guide_has_every_verb_and_option() {
    let path = testkit::workspace_root().join("docs/guide/verbs.md");
    let there = std::fs::read_to_string(&path).unwrap();
    let head = there.split("\n## zpool").next().unwrap().to_owned();
    let differs = |wanted: &str| {
        let mut command = "";
        for line in there.lines() {
            command = line.strip_prefix("## ").unwrap_or(command);
            let cells: Vec<&str> = line.split(" |").map(str::trim).collect();
            let verb = cells.first().and_then(|cell| cell.strip_prefix("| `")?.strip_suffix('`'));
            if verb.is_some_and(|verb| wanted == format!("{command} {verb}")) {
                return cells.get(3).copied().unwrap_or_default().to_owned();
            }
        }
        String::new()
    };
    let now = page(&head, differs);
    if std::env::var_os("UPDATE_GUIDE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    // What a user of OpenZFS's would not expect is said.
    for (verb, options) in DOCUMENTED {
        for option in options.iter().filter(|option| eats(verb, option)) {
            assert!(differs(verb).contains(&format!("`{option}` is")), "{verb} {option}");
        }
    }
    let there = std::fs::read_to_string(&path).unwrap();
    let wrong: Vec<_> = now.lines().filter(|line| !there.lines().any(|l| l == *line)).collect();
    assert!(
        there == now,
        "docs/guide/verbs.md is not what zinc does; UPDATE_GUIDE=1 writes it:\n{}",
        wrong.join("\n")
    );
}
