//! The command line as a whole: usage errors, exit codes, pages made from it, and the guide, every
//! command of which is run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{arg, zinc};
use testkit::{corpus, fixture, workspace_root};

#[test]
fn wrong_usage_is_exit_code_2_on_standard_error() {
    let case = fixture("gang");
    let dir = arg(&case.dir);
    let wrong: [&[&str]; 9] = [
        &["--no-such-option"],
        &["no-such-verb"],
        &["zpool"],
        &["zpool", "list", "--no-such-option"],
        &["zpool", "list", "-o", "nix", "-d", dir],
        &["zpool", "get", "nix", "-d", dir, "gangs"],
        &["zfs", "get", "nix", "-d", dir, "gangs"],
        &["zfs", "list", "-t", "nix", "-d", dir],
        &["zfs", "diff", "-d", dir, "gangs"],
    ];
    for args in wrong {
        let run = zinc(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.out.is_empty() && !run.err.is_empty(), "{args:?}");
    }
}

#[test]
fn failures_say_what_and_what_to_do() {
    let case = fixture("gang");
    let dir = arg(&case.dir);
    let run = zinc(&["zfs", "list", "-d", dir, "gangs/nix"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert_eq!(run.err, "zinc: cannot open 'gangs/nix': dataset does not exist\n");
    let run = zinc(&["zfs", "list", "-d", dir, "nix"]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("hint: `zinc zpool import` lists the pools that can be opened"),
        "{}",
        run.err
    );
    let run = zinc(&["zpool", "import", "-d", "/nowhere/at/all"]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("zinc: cannot search /nowhere/at/all: "), "{}", run.err);
    let run = zinc(&["zpool", "import", "-d", dir, "nix"]);
    assert_eq!(run.code, 1);
}

#[test]
fn a_number_after_d_is_a_depth_unless_it_is_a_file() {
    let case = fixture("removed");
    let dir = tempfile::tempdir().unwrap();
    let names = |args: &[&str]| {
        let run = support::zinc_in(dir.path(), args).ok();
        run.lines().count()
    };
    let deep = names(&["zfs", "list", "-H", "-d", "1", "-d", arg(&case.dir), "shrunk"]);
    assert!(deep > 1);
    std::os::unix::fs::symlink(&case.dir, dir.path().join("1")).unwrap();
    assert_eq!(names(&["zfs", "list", "-H", "-d", "1", "shrunk"]), 1);
}

#[test]
fn called_as_zpool_or_zfs_it_is_that_command() {
    let case = fixture("gang");
    let dir = tempfile::tempdir().unwrap();
    for (name, args) in [("zpool", ["list", "-Ho", "name"]), ("zfs", ["get", "-Ho", "value"])] {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), &link).unwrap();
        let mut command = Command::new(&link);
        command.env("ZINC_STATE", dir.path().join("run/state"));
        command.args(args).args(["-d", arg(&case.dir)]);
        if name == "zfs" {
            command.args(["objsetid", "gangs"]);
        }
        let output = command.output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!(out, if name == "zpool" { "gangs\n" } else { "54\n" });
    }
}

#[test]
fn manual_pages_and_completions_are_made_from_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(zinc(&["man", arg(dir.path())]).ok(), "");
    for page in ["zinc.1", "zinc-zpool-import.1", "zinc-zfs-diff.1", "zinc-check.1"] {
        let text = std::fs::read_to_string(dir.path().join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(zinc(&["completions", shell]).ok().contains("zpool"), "{shell}");
    }
    assert!(!zinc(&["--help"]).ok().contains("completions"));
}

/// A command of the guide with the output that follows it.
struct Example {
    at: String,
    command: String,
    output: String,
    code: i32,
}

/// The commands of a page: lines `$ …` in fenced blocks. `exit=N` behind the fence says that
/// the last command of the block ends with that code.
fn examples(page: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(page).unwrap();
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let mut out: Vec<Example> = Vec::new();
    // Within a block: the exit code of its end.
    let mut block: Option<i32> = None;
    let mut is_ours = false;
    for (i, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), block) {
            (Some(info), None) => {
                let code = info.split("exit=").nth(1).and_then(|c| c.trim().parse().ok());
                (block, is_ours) = (Some(code.unwrap_or(0)), false);
            }
            (Some(_), Some(code)) => {
                if let (true, Some(last)) = (is_ours, out.last_mut()) {
                    last.code = code;
                }
                block = None;
            }
            (None, Some(_)) if line.starts_with("$ ") => {
                is_ours = true;
                let command = line["$ ".len()..].to_owned();
                let at = format!("{name}:{}", i + 1);
                out.push(Example { at, command, output: String::new(), code: 0 });
            }
            (None, Some(_)) if is_ours => {
                if let Some(last) = out.last_mut() {
                    last.output.push_str(line);
                    last.output.push('\n');
                }
            }
            _ => {}
        }
    }
    out
}

/// `text` is `pattern`, where a line `…` stands for any lines. Blanks at the ends of lines do not
/// count.
fn matches(pattern: &str, text: &str) -> bool {
    fn lines_match(pattern: &[&str], text: &[&str]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((first, rest)) if first.trim() == "…" => {
                (0..=text.len()).any(|n| lines_match(rest, &text[n..]))
            }
            Some((first, rest)) => text.split_first().is_some_and(|(t, more)| {
                t.trim_end() == first.trim_end() && lines_match(rest, more)
            }),
        }
    }
    let pattern: Vec<&str> = pattern.trim_end().lines().collect();
    let text: Vec<&str> = text.trim_end().lines().collect();
    lines_match(&pattern, &text)
}

/// A folder with the shipped pools under their names, where the guide's commands run.
fn guide_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let old = corpus("version28");
    for case in testkit::fixture_cases().iter().map(|name| fixture(name)).chain([old]) {
        let name = case.dir.file_name().unwrap();
        std::os::unix::fs::symlink(&case.dir, dir.path().join(name)).unwrap();
    }
    dir
}

/// What a command line prints, errors included, and how it ends.
fn in_shell(dir: &Path, command: &str) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_zinc")).parent().unwrap();
    let names = dir.join("bin");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", names.display(), bin.display());
    Command::new("sh")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(dir)
        .env("PATH", &path)
        .env("TZ", "UTC")
        .env("ZINC_SOCKETS", dir.join("run/zinc"))
        .env("ZINC_STATE", dir.join("run/state"))
        .output()
        .unwrap()
}

/// But for what watches without an end, what has tests and a page of its own (mounts, NBD), a pool
/// that was damaged for the purpose, and a disk.
#[test]
fn the_commands_of_the_readme_run() {
    const LEFT_OUT: [&str; 7] =
        ["rotten", "zinc top ", "iostat", "/dev/sd", "zinc mount ", "zinc nbd ", "nbd://"];
    let dir = tempfile::tempdir().unwrap();
    let run = |command: &str| {
        let output = in_shell(dir.path(), command);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command}: {text}");
    };
    run("mkdir -p crates/a images ann && echo text >crates/a/file && echo text >ann/file");
    run("truncate -s 128M images/1 images/2 images/3");
    run("zinc zpool create tank raidz images/1 images/2 images/3");
    run("zinc zfs create tank/home && zinc cp -r ann tank/home:/");
    run("zinc zfs snapshot tank/home@monday && zinc zpool export tank && rm -r images/3 ann");
    let mut count = 0;
    for example in examples(&workspace_root().join("README.md")) {
        if LEFT_OUT.iter().any(|left| example.command.contains(left)) {
            continue;
        }
        if example.command.contains("zinc serve") {
            run("zinc zpool import -d images tank");
        }
        count += 1;
        run(&example.command);
    }
    run("zinc zpool export tank");
    assert!(count > 12, "{count} commands only");
}

/// The pages with mounts, which only root can follow.
const MOUNTS: [&str; 2] = ["a-day.md", "mount.md"];

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let count = follow(|page| !MOUNTS.contains(&page));
    assert!(count > 20, "{count} commands only");
}

#[testkit::needs("fuse")]
#[test]
fn every_command_of_the_pages_with_mounts_does_what_it_says() {
    assert!(follow(|page| MOUNTS.contains(&page)) > 70);
}

/// Does what pages say, and sees whether that is what they say of it; how many commands there were.
fn follow(wanted: impl Fn(&str) -> bool) -> usize {
    let mut pages: Vec<PathBuf> = std::fs::read_dir(workspace_root().join("docs/guide"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .filter(|p| p.file_name().and_then(|name| name.to_str()).is_some_and(&wanted))
        .collect();
    pages.sort();
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages {
        let dir = guide_folder();
        for example in examples(&page) {
            count += 1;
            let output = in_shell(dir.path(), &example.command);
            let text = String::from_utf8_lossy(&output.stdout);
            let code = output.status.code().unwrap_or(-1);
            let shown = !example.output.trim().is_empty();
            if code != example.code || (shown && !matches(&example.output, &text)) {
                let Example { at, command, output, code: want } = example;
                let what = format!("{at}: {command}\n--- exit {code}, not {want}; printed");
                wrong.push(format!("{what}\n{text}--- the guide says\n{output}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    count
}
