//! What people see, held as a whole: help of every verb, pages of the manual, and the screens and
//! tables of pools that are shipped with the project.
//!
//! A screen that was changed on purpose is written anew by
//! `INSTA_UPDATE=always cargo test -p zinc --test screens`; what changed is then in the diff.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use support::zinc_in;
use testkit::{CorpusPool, corpus, fixture};

/// Where the texts are.
const FOLDER: &str = "screens";

/// Verbs that have verbs.
const FAMILIES: [&str; 5] = ["zpool", "zfs", "zstream", "lab", "far"];

/// Holds a text under a name.
fn hold(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(FOLDER);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The pages of the manual, by the names of their files.
fn pages(folder: &Path) -> BTreeSet<String> {
    zinc_in(folder, &["man", "pages"]).ok();
    let files = std::fs::read_dir(folder.join("pages")).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn help_of_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    let mut held = BTreeSet::new();
    for page in pages(dir.path()) {
        let name = page.trim_end_matches(".1");
        let verb = name.strip_prefix("zinc").unwrap().trim_start_matches('-');
        // A verb may have a hyphen of its own.
        let family = FAMILIES.iter().find_map(|family| {
            let verb = verb.strip_prefix(family)?.strip_prefix('-')?;
            Some(vec![*family, verb])
        });
        let words = family.unwrap_or_else(|| vec![verb]);
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let run = zinc_in(dir.path(), &[&words[..], &["--help"]].concat());
        hold(&format!("help_{name}"), &run.ok());
        held.insert(format!("help_{name}.snap"));
    }
    no_others("help_", &held);
}

/// Every text that is held under such a name is one of these: none is left of a verb that is gone.
fn no_others(prefix: &str, held: &BTreeSet<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(FOLDER);
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let is_left = file.starts_with(prefix) && !held.contains(&file);
        assert!(!is_left, "{file} is of no verb");
    }
}

#[test]
fn pages_of_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    let mut held = BTreeSet::new();
    for page in pages(dir.path()) {
        let text = std::fs::read_to_string(dir.path().join("pages").join(&page)).unwrap();
        let name = format!("man_{}", page.trim_end_matches(".1"));
        hold(&name, &text);
        held.insert(format!("{name}.snap"));
    }
    no_others("man_", &held);
}

/// What a verb prints of a pool in the folder `images`.
fn screen(pool: &CorpusPool, words: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    // Columns are as wide as paths: these are as long on every machine.
    std::os::unix::fs::symlink(&pool.dir, dir.path().join("images")).unwrap();
    let run = zinc_in(dir.path(), &[&words[..2], &["-d", "images"], &words[2..]].concat());
    assert_eq!(run.code, 0, "{words:?}: {}", run.err);
    format!("$ zinc {}\n\n{}{}", words.join(" "), run.out, run.err)
}

/// Screens of a pool, one below the other.
fn hold_all(name: &str, pool: &CorpusPool, all: &[&[&str]]) {
    let text: Vec<String> = all.iter().map(|words| screen(pool, words)).collect();
    hold(name, &text.join("\n"));
}

#[test]
fn pools() {
    for case in ["stripe", "raidz1", "degraded-mirror", "version28", "draid", "removed"] {
        let pool = if case == "draid" { fixture(case) } else { corpus(case) };
        let screens: [&[&str]; 5] = [
            &["zpool", "import"],
            &["zpool", "list"],
            &["zpool", "list", "-v"],
            &["zpool", "status"],
            &["zpool", "status", "-v", "-P"],
        ];
        hold_all(&format!("pool_{case}"), &pool, &screens);
    }
}

/// What a command line prints in a folder in which the devices of the pool are in `images`.
fn command(pool: &CorpusPool, line: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&pool.dir, dir.path().join("images")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let run = zinc_in(dir.path(), &words);
    assert_eq!(run.code, 0, "{line}: {}", run.err);
    format!("$ zinc {line}\n\n{}{}", run.out, run.err)
}

/// What command lines print, one below the other.
fn hold_commands(name: &str, pool: &CorpusPool, lines: &[&str]) {
    let text: Vec<String> = lines.iter().map(|line| command(pool, line)).collect();
    hold(name, &text.join("\n"));
}

#[test]
fn tables_of_datasets() {
    hold_commands(
        "tables_of_datasets",
        &corpus("history"),
        &[
            "zfs diff -d images past/work@s12 past/work@s13",
            "zfs diff -d images -FHt past/work@s12 past/work@s13",
            "zfs holds -d images past/work@s12 past/work@s13",
            "zfs holds -d images -H past/work@s13",
            "zfs userspace -d images -n past/work",
            "zfs groupspace -d images -n past/work",
            "zfs projectspace -d images past/work",
            "zfs userspace -d images -n -H -p -o type,name,used,objused past/work",
        ],
    );
}

#[test]
fn properties_of_pools() {
    hold_commands(
        "properties_of_pools",
        &corpus("history"),
        &["zpool get -d images all past", "zpool get -d images -H -p -o name,value size,free past"],
    );
}

#[test]
fn advice() {
    let all = ["advise -d images --disk hdd-16t past", "advise -d images --disk nvme past"];
    hold_commands("advice", &corpus("history"), &all);
}

#[test]
fn tunables() {
    let all = ["tunables", "tunables zfs_txg_timeout zinc_throttle", "tunables -H zfs_txg_timeout"];
    // No pool is looked at.
    hold_commands("tunables", &fixture("gang"), &all);
}

#[test]
fn structures() {
    hold_commands(
        "structures",
        &corpus("history"),
        &[
            "zdb -l images/vdev0.img",
            "zdb -p images -u past",
            "zdb -p images -C past",
            "zdb -p images -d past",
            "zdb -p images -dddd past/work 1 2",
            "zdb -p images -m past",
            "zdb -p images -b past",
            "zdb -p images -i past",
        ],
    );
    hold_commands("tables_of_dedup", &corpus("dedup-clone"), &["zdb -p images -DD twice"]);
}

/// What `--txgs-log` wrote of a pool with writers that were held back.
fn history_of_txgs() -> String {
    let line = |n: u64| {
        let (dirty, sync) = ((n % 4 + 1) * (96 << 20), (n % 3 + 1) * 700_000_000);
        let record = serde_json::json!({
            "pool": "tank", "txg": n, "state": "C", "pushed": "dirty", "passes": 2,
            "birth_wall_ns": 1_795_735_349_000_000_000 + n * 5_000_000_000,
            "birth_ns": n * 5_000_000_000, "open_ns": 4_000_000_000_u64 - n * 1_000_000,
            "quiesce_ns": 1000, "wait_ns": 20_000, "sync_ns": sync, "write_ns": sync / 2,
            "dirty_bytes": dirty, "written_bytes": dirty / 2, "blocks": dirty >> 17,
            "reads": 10, "read_bytes": 40_960, "writes": dirty >> 16, "write_bytes": dirty,
            "limit_bytes": 512 << 20, "delays": n * 30, "delayed_ns": n * 90_000_000,
        });
        format!("{record}\n")
    };
    (1..=12).map(line).collect()
}

#[test]
fn throttle() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("history"), history_of_txgs()).unwrap();
    let all = ["throttle --history history", "throttle --history history -i 30 tank"];
    let text: Vec<String> = all
        .into_iter()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            format!("$ zinc {line}\n\n{}", zinc_in(dir.path(), &words).ok())
        })
        .collect();
    hold("throttle", &text.join("\n"));
}

/// Layouts of pools that are not made.
#[test]
fn layouts() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..12 {
        let file = std::fs::File::create(dir.path().join(format!("d{n}"))).unwrap();
        file.set_len(64 << 20).unwrap();
    }
    // The paths are those of the folder, which is another each time.
    let folder = dir.path().to_str().unwrap();
    let text: Vec<String> = [
        "zpool create -n tank d0 d1",
        "zpool create -n tank mirror d0 d1 mirror d2 d3 log d4 cache d5 spare d6",
        "zpool create -n -f tank raidz2 d0 d1 d2 d3 d4 special mirror d5 d6 dedup mirror d7 d8",
        "zpool create -n tank draid1:4d:1s d0 d1 d2 d3 d4 d5 d6",
        "zpool create -n tank draid2 d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 d10 d11",
    ]
    .into_iter()
    .map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let run = zinc_in(dir.path(), &words);
        assert_eq!(run.code, 0, "{line}: {}", run.err);
        format!("$ zinc {line}\n\n{}{}", run.out, run.err).replace(folder, "FOLDER")
    })
    .collect();
    hold("layouts", &text.join("\n"));
}

#[test]
fn datasets() {
    for case in ["history", "zvols", "crypt"] {
        let pool = corpus(case);
        let name = pool.name();
        let screens: [&[&str]; 4] = [
            &["zfs", "list"],
            &["zfs", "list", "-r", "-t", "all", "-o", "name,used,refer,creation", name],
            &["zfs", "list", "-r", "-o", "space", name],
            &["zfs", "get", "all", name],
        ];
        hold_all(&format!("datasets_{case}"), &pool, &screens);
    }
}
