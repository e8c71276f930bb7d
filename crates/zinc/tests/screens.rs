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
const FAMILIES: [&str; 4] = ["zpool", "zfs", "lab", "far"];

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
