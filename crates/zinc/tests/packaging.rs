//! What packages contain: everything that `packaging/install` puts into a system fits the command
//! line, is in one of Debian's packages, and is taken by what reads it. `packaging/deb` makes the
//! packages and tries them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::place::Place;
use support::{arg, zinc};
use tempfile::TempDir;
use testkit::workspace_root;

/// The names of OpenZFS's commands under which the binary is called.
const NAMES: [&str; 4] = ["zpool", "zfs", "zdb", "zstream"];

fn packaging() -> PathBuf {
    workspace_root().join("packaging")
}

/// A folder into which all was put.
fn installed() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let mut install = Command::new(packaging().join("install"));
    let output = install.arg(root.path()).env("ZINC", env!("CARGO_BIN_EXE_zinc")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    root
}

/// The files below a folder, by their paths from `root` on.
fn files(root: &Path, folder: &Path) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            out.append(&mut files(root, &path));
        } else {
            out.insert(arg(path.strip_prefix(root).unwrap()).to_owned());
        }
    }
    out
}

/// The verbs that the help of a command lists.
fn verbs(command: &[&str]) -> Vec<String> {
    let help = zinc(&[command, &["--help"]].concat()).ok();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    // The text of a verb may need a second line, which is further in.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn each_verb_has_its_manual_page_and_is_completed_in_every_shell() {
    let root = installed();
    let root = root.path();
    for name in ["zinc"].iter().chain(&NAMES) {
        let (command, page) = match *name {
            "zinc" => (vec![], "zinc".to_owned()),
            name => (vec![name], format!("zinc-{name}")),
        };
        let scripts = [
            read(root, &format!("usr/share/bash-completion/completions/{name}")),
            read(root, &format!("usr/share/zsh/vendor-completions/_{name}")),
            read(root, &format!("usr/share/fish/vendor_completions.d/{name}.fish")),
        ];
        assert!(scripts[0].contains(&format!(" {name}\n")), "{name} in bash");
        assert!(scripts[1].starts_with(&format!("#compdef {name}\n")), "{name} in zsh");
        assert!(scripts[2].contains(&format!("complete -c {name} ")), "{name} in fish");
        let bash = root.join("usr/share/bash-completion/completions").join(name);
        assert!(Command::new("bash").arg("-n").arg(bash).status().unwrap().success(), "{name}");
        let verbs = verbs(&command);
        assert_eq!(verbs.is_empty(), *name == "zdb", "{name} has verbs");
        for verb in verbs {
            let text = read(root, &format!("usr/share/man/man1/{page}-{verb}.1"));
            assert!(text.contains(".SH SYNOPSIS"), "{page}-{verb}");
            assert!(scripts.iter().all(|script| script.contains(&verb)), "{name} {verb}");
            if *name != "zinc" {
                let text = read(root, &format!("usr/share/man/man8/{name}-{verb}.8"));
                assert_eq!(text, format!(".so man1/{page}-{verb}.1\n"));
            }
        }
    }
}

/// What a shell says that is told to complete a command line, and the folder of its scripts.
fn lines_of(place: &Place, shell: &mut Command) -> Vec<String> {
    let bin = place.path().join("bin");
    let _ = std::fs::create_dir(&bin);
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zinc"), bin.join("zinc"));
    shell.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    shell.env("ZINC_STATE", support::state(place.path())).env("HOME", place.path());
    shell.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME").current_dir(place.path());
    let output = shell.env("ZINC_SOCKETS", place.path().join("run/zinc")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The words that bash offers where a command line ends.
fn offered(place: &Place, name: &str, line: &str) -> Vec<String> {
    // As readline parts a line.
    let script = r#"
. <(zinc completions bash "$1")
COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=()
rest=$COMP_LINE
while [[ $rest =~ ^([[:space:]]*)([^@=:[:space:]]+|[@=:])(.*)$ ]]; do
    COMP_WORDS+=("${BASH_REMATCH[2]}") rest=${BASH_REMATCH[3]}
done
[[ $COMP_LINE == *[[:space:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
last=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
[[ $(complete -p "$1") =~ -F\ ([^ ]+) ]] && "${BASH_REMATCH[1]}" "$1" "$last" "$before"
printf '%s\n' "${COMPREPLY[@]}"
"#;
    lines_of(place, Command::new("bash").args(["--norc", "-c", script, "bash", name, line]))
}

/// What fish offers where a command line ends, without what it says of each.
fn offered_by_fish(place: &Place, name: &str, line: &str) -> Vec<String> {
    let script = "zinc completions fish $argv[1] | source; complete -C $argv[2]";
    let replies = lines_of(place, Command::new("fish").args(["-N", "-c", script, name, line]));
    let word = |reply: &String| reply.split('\t').next().unwrap_or_default().to_owned();
    replies.iter().map(word).collect()
}

/// What zsh offers where a command line ends; the last of all is the line with what it added.
fn offered_by_zsh(place: &Place, name: &str, line: &str) -> Vec<String> {
    // zsh completes in its editor only, which wants a terminal. All matches go through `compadd`.
    let within = r#"
PS1= fpath=($PWD/bin $fpath)
autoload -Uz compinit && compinit -u -d $PWD/bin/dump
compadd() {
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        local -a matches
        builtin compadd -O matches "$@"
        print -rl -- $matches >>$PWD/bin/offered
    fi
    builtin compadd "$@"
}
complete() {
    BUFFER=$LINE CURSOR=$#LINE
    zle complete-word
    print -r -- "$BUFFER|" >>$PWD/bin/offered
    : >$PWD/bin/end
}
zle -N zle-line-init complete
"#;
    let outside = r#"
zinc completions zsh $1 >bin/_$1
rm -f bin/offered bin/end
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell '. $PWD/bin/within'
for turn in {1..3000}; do
    [[ -e bin/end ]] && break
    zpty -r -t shell text || sleep 0.02
done
zpty -d shell
cat bin/offered
"#;
    let _ = std::fs::create_dir(place.path().join("bin"));
    std::fs::write(place.path().join("bin/within"), within).unwrap();
    let mut zsh = Command::new("zsh");
    lines_of(place, zsh.args(["-f", "-c", outside, "zsh", name]).env("LINE", line))
}

/// Two pools, with file systems and snapshots.
fn with_names() -> Place {
    let place = Place::new(&["a", "b", "c"]);
    place.ok("zpool create tank mirror a b");
    place.ok("zpool create other c");
    place.ok("zfs create tank/home");
    place.ok("zfs create tank/host");
    place.ok("zfs snapshot tank/home@one");
    place.ok("zfs snapshot tank/home@two");
    place
}

#[test]
fn bash_completes_names_of_pools_datasets_snapshots_vdevs_and_properties() {
    let place = with_names();
    let zfs = |line: &str| offered(&place, "zfs", line);
    let zpool = |line: &str| offered(&place, "zpool", line);
    assert_eq!(zpool("zpool status "), ["other", "tank"]);
    assert_eq!(zpool("zpool status -v ta"), ["tank"]);
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(zpool("zpool offline tank "), ["mirror-0".to_owned(), path("a"), path("b")]);
    assert_eq!(zpool("zpool create "), [""; 0], "names of files");
    assert!(!zpool("zpool list -o ").contains(&"tank".to_owned()), "the value of an option");
    assert_eq!(zfs("zfs destroy tank/ho"), ["tank/home", "tank/host"]);
    // Readline puts what it gets in the place of what stands behind the `@`.
    assert_eq!(zfs("zfs destroy tank/home@t"), ["two"]);
    assert_eq!(zfs("zfs destroy tank/home@"), ["one", "two"]);
    assert_eq!(zfs("zfs rollback tank/home"), ["tank/home", "tank/home@one", "tank/home@two"]);
    assert_eq!(zfs("zfs get recordsi"), ["recordsize"]);
    assert_eq!(zfs("zfs set recordsi"), ["recordsize="]);
    assert_eq!(zfs("zfs get recordsize tank/hom"), ["tank/home"]);
    assert_eq!(zfs("zfs sn"), ["snapshot"]);
    assert!(zfs("zfs destroy -").contains(&"-r".to_owned()));
    assert_eq!(offered(&place, "zinc", "zinc zfs mount tank/home"), ["tank/home"]);
    assert_eq!(offered(&place, "zinc", "zinc check o"), ["other"]);
    assert_eq!(offered(&place, "zdb", "zdb -d ta"), ["tank", "tank/home", "tank/host"]);
}

#[testkit::needs("/usr/bin/fish")]
#[test]
fn fish_completes_names_and_offers_files_only_where_none_are_wanted() {
    let place = with_names();
    let zfs = |line: &str| offered_by_fish(&place, "zfs", line);
    let zpool = |line: &str| offered_by_fish(&place, "zpool", line);
    assert_eq!(zpool("zpool status "), ["other", "tank"]);
    assert_eq!(zpool("zpool create tank2 a"), ["a"], "the name of a file");
    assert_eq!(zfs("zfs destroy tank/ho"), ["tank/home", "tank/host"]);
    assert_eq!(zfs("zfs destroy tank/home@t"), ["tank/home@two"]);
    assert_eq!(zfs("zfs set recordsi"), ["recordsize="]);
    assert_eq!(zfs("zfs get recordsize tank/hom"), ["tank/home"]);
    assert_eq!(zfs("zfs sn"), ["snapshot"]);
    assert!(zfs("zfs destroy -").contains(&"-r".to_owned()));
    let zinc = |line: &str| offered_by_fish(&place, "zinc", line);
    assert_eq!(zinc("zinc zfs mount tank/home"), ["tank/home"]);
    assert_eq!(zinc("zinc zfs sn"), ["snapshot"]);
    assert_eq!(zinc("zinc check o"), ["other"]);
    assert_eq!(offered_by_fish(&place, "zdb", "zdb ta"), ["tank", "tank/home", "tank/host"]);
}

#[testkit::needs("/usr/bin/zsh")]
#[test]
fn zsh_completes_names_and_ends_words_that_are_whole() {
    let place = with_names();
    let of = |line: &str| offered_by_zsh(&place, line.split(' ').next().unwrap(), line);
    assert_eq!(of("zpool status "), ["other", "tank", "zpool status |"]);
    assert_eq!(of("zpool status -v ta"), ["tank", "zpool status -v tank |"]);
    assert_eq!(of("zpool create tank2 a"), ["a", "zpool create tank2 a |"]);
    assert_eq!(of("zfs destroy tank/ho"), ["tank/home", "tank/host", "zfs destroy tank/ho|"]);
    assert_eq!(of("zfs destroy tank/home@t"), ["tank/home@two", "zfs destroy tank/home@two |"]);
    assert_eq!(of("zfs set recordsi"), ["recordsize=", "zfs set recordsize=|"]);
    assert_eq!(of("zfs sn"), ["snapshot", "zfs snapshot |"]);
    assert_eq!(of("zinc zfs mount tank/home"), ["tank/home", "zinc zfs mount tank/home |"]);
    assert_eq!(of("zdb -d ta"), ["tank", "tank/home", "tank/host", "zdb -d tank|"]);
}

#[test]
fn pages_under_other_names_and_links_lead_to_what_is_there() {
    let root = installed();
    let root = root.path();
    for path in files(root, &root.join("usr/share/man/man8")) {
        let text = read(root, &path);
        let page = text.strip_prefix(".so ").unwrap().trim_end();
        assert!(root.join("usr/share/man").join(page).exists(), "{path}: {page}");
    }
    for name in NAMES {
        let output = Command::new(root.join("usr/sbin").join(name)).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains(&format!("Usage: zinc {name} ")), "{name}: {help}");
    }
    let helper = Command::new(root.join("usr/sbin/mount.fuse.zinc")).output().unwrap();
    let message = String::from_utf8(helper.stderr).unwrap();
    assert!(message.contains("Usage: zinc mount "), "{message}");
}

/// Whether a path is one that a line of Debian's lists means: in each part, `*` is any text.
fn is_meant(pattern: &str, path: &str) -> bool {
    let (patterns, parts) = (pattern.split('/'), path.split('/'));
    let fits = |(pattern, part): (&str, &str)| match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => {
            part.len() >= before.len() + after.len()
                && part.starts_with(before)
                && part.ends_with(after)
        }
    };
    patterns.clone().count() == parts.clone().count() && patterns.zip(parts).all(fits)
}

#[test]
fn each_file_is_in_one_of_the_packages() {
    let root = installed();
    let files = files(root.path(), root.path());
    let list = |package: &str| -> Vec<String> {
        let list = read(&packaging(), &format!("debian/{package}.install"));
        list.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let (own, names) = (list("zinc"), list("zinc-zfs-names"));
    for pattern in own.iter().chain(&names) {
        assert!(files.iter().any(|path| is_meant(pattern, path)), "no file is {pattern}");
    }
    for path in &files {
        let is_in = |list: &[String]| list.iter().any(|pattern| is_meant(pattern, path));
        assert!(is_in(&own) != is_in(&names), "{path} is in both packages, or in none");
        let is_named = NAMES.iter().any(|name| {
            let file = path.rsplit('/').next().unwrap().trim_start_matches('_');
            file.split(['.', '-']).next() == Some(*name)
        });
        assert_eq!(is_in(&names), is_named, "{path} is in the other package");
    }
}

#[test]
fn the_package_has_the_version_of_the_program() {
    let log = read(&packaging(), "debian/changelog");
    let version = format!("zinc ({}-", env!("CARGO_PKG_VERSION"));
    assert!(log.starts_with(&version), "packaging/debian/changelog begins with {version}");
}

/// Runs a program of systemd that makes what a file says below another root.
fn make_in(root: &Path, program: &str, options: &[&str], file: &str) {
    let mut command = Command::new(program);
    command.arg(format!("--root={}", root.display())).args(options);
    let output = command.arg(packaging().join(file)).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !message.contains("zinc.conf:"), "{program}: {message}");
}

#[testkit::needs("systemd-analyze")]
#[test]
fn the_user_is_made_by_systemd() {
    let users = packaging().join("sysusers.d/zinc.conf");
    let trial = Command::new("systemd-sysusers").arg("--dry-run").arg(users).output().unwrap();
    let message = String::from_utf8_lossy(&trial.stderr).into_owned();
    assert!(trial.status.success() && !message.contains("zinc.conf:"), "{message}");

    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("etc")).unwrap();
    make_in(root.path(), "systemd-sysusers", &[], "sysusers.d/zinc.conf");
    let users = read(root.path(), "etc/passwd");
    assert!(users.starts_with("zinc:") && users.contains(":/var/lib/zinc-user:"), "{users}");
}

#[testkit::needs("systemd-analyze")]
#[test]
fn the_units_are_understood_by_systemd() {
    // Beside the units of this system, for what they come after.
    let units = tempfile::tempdir().unwrap();
    let text = |name: &str| std::fs::read_to_string(packaging().join("systemd").join(name));
    for name in ["zinc.service", "zinc@.service", "zinc-user@.service"] {
        let unit = text(name).unwrap().replace("/usr/bin/zinc", env!("CARGO_BIN_EXE_zinc"));
        std::fs::write(units.path().join(name), unit).unwrap();
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.env("SYSTEMD_UNIT_PATH", format!("{}:", units.path().display()));
    analyze.args(["verify", "--man=no", "zinc.service", "zinc@tank.service"]);
    let output = analyze.arg("zinc-user@tank.service").output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    // What it does not know it ignores, with a warning.
    let is_ours = |line: &&str| line.contains("zinc");
    assert_eq!(message.lines().filter(is_ours).collect::<Vec<_>>(), [""; 0], "{message}");
    assert!(output.status.success(), "{message}");
}

#[testkit::needs("systemd-analyze", "root")]
#[test]
fn the_folders_are_made_by_systemd() {
    let root = tempfile::tempdir().unwrap();
    make_in(root.path(), "systemd-tmpfiles", &["--create"], "tmpfiles.d/zinc.conf");
    for folder in ["run/zinc", "var/lib/zinc"] {
        assert!(root.path().join(folder).is_dir(), "{folder}");
    }
}

#[test]
fn a_program_with_libraries_is_not_taken_for_a_static_one() {
    let mut of_image = Command::new(packaging().join("static"));
    let output = of_image.env("ZINC", env!("CARGO_BIN_EXE_zinc")).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("needs shared libraries"), "{message}");
}
