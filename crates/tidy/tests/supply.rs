//! Where dependencies come from: what `cargo deny` would check of sources and versions, by the lock
//! file alone (decision 0015). Licences are judged in `layers.rs`.

use tidy::{read, report};

/// Packages that may be there twice, and why.
const TWICE: [(&str, &str); 5] = [
    (
        "syn",
        "macros of tracing are made with the version before; it is in no program that is built",
    ),
    ("crypto-common", "as digest"),
    ("digest", "crc-fast, which object_store sums objects with on request, has the one before"),
    ("getrandom", "ring has the one before"),
    ("windows-sys", "in no program that is built for Linux"),
];

/// Packages of the lock file: name, version, source and checksum.
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    has_checksum: bool,
}

fn packages(lock: &str) -> Vec<Package> {
    let parts = lock.split("[[package]]").skip(1);
    let field = |part: &str, key: &str| {
        let start = format!("{key} = \"");
        let line = part.lines().find_map(|line| line.strip_prefix(&start));
        line.map(|rest| rest.trim_end_matches('"').to_owned())
    };
    parts
        .map(|part| Package {
            name: field(part, "name").unwrap_or_default(),
            version: field(part, "version").unwrap_or_default(),
            source: field(part, "source"),
            has_checksum: field(part, "checksum").is_some(),
        })
        .collect()
}

fn offences(lock: &str) -> Vec<String> {
    let packages = packages(lock);
    let first = packages.iter().find_map(|package| package.source.as_ref());
    let mut out = Vec::new();
    for (at, package) in packages.iter().enumerate() {
        let Package { name, version, source, has_checksum } = package;
        if let Some(source) = source {
            // One index, and no other registry, repository or folder.
            if !source.starts_with("registry+") || Some(source) != first {
                out.push(format!("{name} {version}: comes from {source}"));
            }
            if !has_checksum {
                out.push(format!("{name} {version}: has no checksum"));
            }
        }
        if TWICE.iter().any(|(twice, _)| twice == name) {
            continue;
        }
        if let Some(other) = packages[..at].iter().find(|other| other.name == *name) {
            out.push(format!("{name}: both {} and {version}", other.version));
        }
    }
    out
}

#[test]
fn dependencies_come_from_one_place_in_one_version() {
    let all: Vec<String> = ["Cargo.lock", "fuzz/Cargo.lock"]
        .iter()
        .filter(|path| testkit::workspace_root().join(path).exists())
        .flat_map(|path| offences(&read(path)).into_iter().map(move |o| format!("{path}: {o}")))
        .collect();
    report("dependencies come from the public registry, each in one version", &all);
}

#[test]
fn the_rule_can_fail() {
    let package = |name: &str, version: &str, source: &str, checksum: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}{checksum}\n")
    };
    let good = "source = \"registry+one\"\n";
    let sum = "checksum = \"00\"\n";
    assert!(offences(&(package("own", "1", "", "") + &package("a", "1", good, sum))).is_empty());
    let git = "source = \"git+one\"\n";
    for bad in [
        package("a", "1", git, sum),
        package("a", "1", good, ""),
        package("a", "1", good, sum) + &package("b", "1", &good.replace("one", "two"), sum),
        package("a", "1", good, sum) + &package("a", "2", good, sum),
    ] {
        assert_eq!(offences(&bad).len(), 1, "{bad}");
    }
}
