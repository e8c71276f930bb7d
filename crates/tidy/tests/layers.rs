//! The floors of the workspace: which crate may use which, and under which licences we build.

use serde_json::Value;
use tidy::{FLOORS, TEST_CRATES, cargo_metadata, licence, report};

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().map_or(&[], Vec::as_slice)
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|&floor| floor == name)
}

/// What the command may name.
const SEEN_BY_THE_COMMAND: [&str; 14] = [
    "engine", "imported", "lab", "zdb", "control", "nbd", "exports", "term", "views", "page",
    "agents", "hostfs", "mount", "programs",
];

/// Why `user` may not depend on `used` (`kind` is "normal", "build" or "dev"); `None` if it may.
fn objection(user: &str, used: &str, kind: &str) -> Option<String> {
    if TEST_CRATES.contains(&user) {
        return None;
    }
    if TEST_CRATES.contains(&used) {
        return (kind != "dev").then(|| "is for tests alone".to_owned());
    }
    let (Some(user_floor), Some(used_floor)) = (floor(user), floor(used)) else {
        return Some("one of them has no floor".to_owned());
    };
    if used_floor >= user_floor {
        return Some("is not below".to_owned());
    }
    if user == "zinc" && !SEEN_BY_THE_COMMAND.contains(&used) && kind != "dev" {
        return Some(format!("the command sees only {SEEN_BY_THE_COMMAND:?}"));
    }
    None
}

#[test]
fn a_crate_uses_only_floors_below_it() {
    let metadata = cargo_metadata(false);
    let members: Vec<&str> = packages(&metadata).iter().map(|one| text(one, "name")).collect();
    let mut offences = Vec::new();
    for package in packages(&metadata) {
        let user = text(package, "name");
        if floor(user).is_none() && !TEST_CRATES.contains(&user) {
            offences.push(format!("{user} has no floor"));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name");
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            if members.contains(&used)
                && let Some(why) = objection(user, used, kind)
            {
                offences.push(format!("{user} -> {used} ({kind}): {why}"));
            }
        }
    }
    report("crates must use only the floors below them", &offences);
}

#[test]
fn the_rule_of_the_floors_can_fail() {
    assert_eq!(objection("zio", "codec", "normal"), None);
    assert_eq!(objection("zio", "testkit", "dev"), None);
    assert_eq!(objection("zinc", "engine", "normal"), None);
    assert!(objection("codec", "zio", "normal").is_some());
    assert!(objection("codec", "codec", "normal").is_some());
    assert!(objection("zio", "testkit", "normal").is_some());
    assert!(objection("zinc", "pool", "normal").is_some());
    assert!(objection("stranger", "codec", "normal").is_some());
}

#[test]
fn dependencies_are_permissively_licensed() {
    let offences: Vec<String> = packages(&cargo_metadata(true))
        .iter()
        .filter(|package| !licence::permissive(text(package, "license")))
        .map(|package| format!("{}: {:?}", text(package, "name"), text(package, "license")))
        .collect();
    report("dependencies must be usable under permissive licences", &offences);
}

#[test]
fn every_test_file_is_compiled() {
    let metadata = cargo_metadata(false);
    let compiled: Vec<&str> = packages(&metadata)
        .iter()
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
        .map(|target| text(target, "src_path"))
        .collect();
    let root = testkit::workspace_root();
    let offences: Vec<String> = tidy::rust_files()
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| {
            let parts: Vec<&str> = path.split('/').collect();
            matches!(parts[..], ["crates", _, "tests" | "benches" | "examples", _])
        })
        .filter(|path| !compiled.contains(&&*root.join(path).to_string_lossy()))
        .collect();
    report("test files that cargo does not compile", &offences);
}

#[test]
fn every_module_is_compiled() {
    let files = tidy::rust_files();
    let mut offences = Vec::new();
    for (path, _) in &files {
        let parts: Vec<&str> = path.split('/').collect();
        let ["crates", name, "src", inner @ ..] = &parts[..] else { continue };
        let Some((&file, folders)) = inner.split_last() else { continue };
        if matches!((file, folders), ("lib.rs" | "main.rs", []) | (_, ["bin", ..])) {
            continue;
        }
        let (module, folders) = match (file, folders.split_last()) {
            ("mod.rs", Some((&folder, outer))) => (folder, outer),
            _ => (file.trim_end_matches(".rs"), folders),
        };
        let base = format!("crates/{name}/src");
        let parents = match folders {
            [] => vec![format!("{base}/lib.rs"), format!("{base}/main.rs")],
            _ => {
                let folder = format!("{base}/{}", folders.join("/"));
                vec![format!("{folder}.rs"), format!("{folder}/mod.rs")]
            }
        };
        let declared = files.iter().filter(|(file, _)| parents.contains(file)).any(|(_, text)| {
            text.lines().any(|line| line.trim_end().ends_with(&format!("mod {module};")))
        });
        if !declared {
            offences.push(format!("{path}: no `mod {module};` in {}", parents.join(" or ")));
        }
    }
    report("source files that no module declares", &offences);
}
