//! What a manifest declares is used: a dependency that no code names costs build time and suggests
//! a design that is not there.

use serde_json::Value;
use std::collections::BTreeSet;
use tidy::{cargo_metadata, report, rust_files, source};

/// A dependency as a manifest declares it.
struct Declared {
    package: String,
    /// Where the package lies, from the root of the checkout.
    folder: String,
    name: String,
    is_dev: bool,
    /// A feature of the package turns a feature of it on.
    is_forwarded: bool,
}

fn declared(metadata: &Value) -> Vec<Declared> {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let root = text(&metadata["workspace_root"]) + "/";
    let mut out = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = text(&package["manifest_path"]);
        let folder = manifest.trim_start_matches(&root).trim_end_matches("Cargo.toml").to_owned();
        let features = package["features"].to_string();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = text(&dependency["name"]);
            out.push(Declared {
                package: text(&package["name"]),
                folder: folder.clone(),
                is_dev: dependency["kind"] == "dev",
                is_forwarded: features.contains(&format!("\"{name}/")),
                name,
            });
        }
    }
    out
}

/// The words of the code that could name a crate.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(source::code)
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
}

/// Files elsewhere that those below `place` take in (`#[path = "../../other/tests/common.rs"]`).
fn shared(place: &str, files: &[(String, String)]) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (path, text) in files.iter().filter(|(path, _)| path.starts_with(place)) {
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")) {
            let mut parts: Vec<&str> = path.split('/').collect();
            parts.pop();
            for part in line.split('"').next().unwrap_or("").split('/') {
                match part {
                    ".." => drop(parts.pop()),
                    part => parts.push(part),
                }
            }
            out.insert(parts.join("/"));
        }
    }
    out
}

fn offences(declared: &[Declared], files: &[(String, String)]) -> Vec<String> {
    let mut out = Vec::new();
    for one in declared.iter().filter(|one| !one.is_forwarded) {
        // What only tests use belongs under dev-dependencies, but unit tests are in `src` too.
        let places = if one.is_dev { "" } else { "src/" };
        let place = one.folder.clone() + places;
        let word = one.name.replace('-', "_");
        let shared = shared(&place, files);
        let used: BTreeSet<&str> = files
            .iter()
            .filter(|(path, _)| path.starts_with(&place) || shared.contains(path))
            .flat_map(|(_, text)| words(text))
            .filter(|found| *found == word)
            .collect();
        if used.is_empty() {
            out.push(format!("{}: {}", one.package, one.name));
        }
    }
    out
}

#[test]
fn every_dependency_is_used() {
    let declared = declared(&cargo_metadata(false));
    assert!(declared.len() > 50, "the manifests were not read");
    report("a manifest declares only what its code names", &offences(&declared, &rust_files()));
}

#[test]
fn the_rule_can_fail() {
    let one = |name: &str, is_dev, is_forwarded| Declared {
        package: "p".to_owned(),
        folder: "crates/p/".to_owned(),
        name: name.to_owned(),
        is_dev,
        is_forwarded,
    };
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("crates/p/src/lib.rs", "use a_b::C; // and d::e\n"),
        file("crates/p/tests/t.rs", "f::g();\n"),
        file("crates/q/src/lib.rs", "use h;\n"),
    ];
    let is_bad = |declared| !offences(&[declared], &files).is_empty();
    assert!(!is_bad(one("a-b", false, false)));
    assert!(!is_bad(one("f", true, false)));
    assert!(!is_bad(one("z", false, true)));
    assert!(is_bad(one("d", false, false)), "a comment is not a use");
    assert!(is_bad(one("f", false, false)), "only a test uses it");
    assert!(is_bad(one("h", false, false)), "another crate uses it");
}
