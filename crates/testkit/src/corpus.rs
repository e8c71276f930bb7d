//! Pools and streams that the OpenZFS kernel module wrote, with what it read back from them.
//!
//! A case is a folder with `vdevN.img.zst` and `manifest.json`. Those in `fixtures/` are part of
//! the project; the rest of the collection lies beside the checkout, in `../shared/pools`. A test
//! that needs a pool from there says so with [`needs`](crate::needs), and is ignored without it.
//! Each case is decompressed once, into `target/corpus` or `target/fixtures` of the checkout. Tests
//! run as many processes at once: each fills a folder of its own and renames it, the first wins.

use crate::{shared_dir, unpack_zst, workspace_root};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// One pool on disk images, decompressed. The images are shared by all tests: open them read-only,
/// or work on a copy ([`crate::SparseImage`]).
#[derive(Debug, Clone)]
pub struct CorpusPool {
    /// Name of the case, such as `raidz1`.
    pub case: String,
    /// The folder that holds the images and nothing else, for `-d` and for `zdb -p`.
    pub dir: PathBuf,
    /// The images in the order of their numbers.
    pub images: Vec<PathBuf>,
    /// The number of each image: `images[i]` is `vdev{numbers[i]}.img`.
    pub numbers: Vec<u32>,
    /// What the kernel module read from the pool (`format` 1).
    pub manifest: Value,
    source: PathBuf,
}

impl CorpusPool {
    /// The pool's name.
    pub fn name(&self) -> &str {
        self.manifest["pool"].as_str().expect("the manifest names the pool")
    }

    /// What its manifest says of keys: the encryption roots, and what their users give.
    pub fn keys(&self) -> Vec<(String, Vec<u8>)> {
        let unhex = |hex: &str| -> Vec<u8> {
            let digits = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
            digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
        };
        let key = |key: &Value| match key["key_hex"].as_str() {
            Some(hex) => unhex(hex),
            None => key["key"].as_str().expect("a key").as_bytes().to_vec(),
        };
        let all = self.manifest["keys"].as_object().into_iter().flatten();
        all.map(|(name, given)| (name.clone(), key(given))).collect()
    }

    /// The manifest of the import without replay that the two intent-log cases have beside
    /// the ordinary one.
    pub fn manifest_readonly(&self) -> Option<Value> {
        let path = self.source.join("manifest-readonly.json");
        path.is_file().then(|| read_json(&path))
    }

    /// The folder of the compressed images.
    pub fn source(&self) -> &Path {
        &self.source
    }
}

/// Names of all cases of the collection that are here, sorted: the shipped ones, and those beside
/// the checkout.
pub fn corpus_cases() -> Vec<String> {
    let mut names = cases_of_checkout(&shipped());
    names.extend(SHIPPED_APART.map(str::to_owned));
    names.extend(shared_dir().map(|dir| cases(&dir.join("pools"))).unwrap_or_default());
    names.sort();
    names.dedup();
    names
}

/// Pools of the collection among the fixtures.
const SHIPPED_APART: [&str; 3] = ["draid", "gang", "removed"];

/// The folder of the shipped part of the collection.
fn shipped() -> PathBuf {
    workspace_root().join("fixtures/pools")
}

/// Names of all pools shipped with the project, sorted.
pub fn fixture_cases() -> Vec<String> {
    cases_of_checkout(&workspace_root().join("fixtures"))
}

/// The case of that name from the collection. Of the layouts that are not shipped, a smaller pool
/// of the same layout is among the samples, and is taken where the collection is not.
///
/// # Panics
/// It is not here: a test that may lack it is marked with [`needs`](crate::needs).
pub fn corpus(case: &str) -> CorpusPool {
    if SHIPPED_APART.contains(&case) {
        return fixture(case);
    }
    if shipped().join(case).is_dir() {
        return open_case(&shipped(), case, "corpus");
    }
    let beside = shared_dir().map(|shared| shared.join("pools"));
    match beside.filter(|pools| pools.join(case).is_dir()) {
        Some(pools) => open_case(&pools, case, "corpus"),
        None => sample(case),
    }
}

/// Those of `cases` that are here.
///
/// # Panics
/// None is: one of them at least is shipped, or the test is marked with [`needs`](crate::needs).
pub fn corpus_among(cases: &[&str]) -> Vec<CorpusPool> {
    let here = corpus_cases();
    let is_here = |case: &&&str| here.iter().any(|h| h == **case);
    let found: Vec<_> = cases.iter().filter(is_here).map(|case| corpus(case)).collect();
    assert!(!found.is_empty(), "none of {cases:?} is here: the test `needs` one");
    found
}

/// The pool of that name shipped with the project.
pub fn fixture(name: &str) -> CorpusPool {
    open_case(&workspace_root().join("fixtures"), name, "fixtures")
}

/// Names of the pools in rare states that are shipped with the project, sorted. They are apart from
/// the others, because some are large when unpacked and few tests need them.
pub fn sample_cases() -> Vec<String> {
    cases_of_checkout(&workspace_root().join("fixtures/samples"))
}

/// The pool in a rare state of that name.
pub fn sample(name: &str) -> CorpusPool {
    open_case(&workspace_root().join("fixtures/samples"), name, "samples")
}

/// The same where there are some in every checkout: a test of each of none would pass.
fn cases_of_checkout(dir: &Path) -> Vec<String> {
    let names = cases(dir);
    assert!(!names.is_empty(), "no pool is in {}", dir.display());
    names
}

fn cases(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.path().join("manifest.json").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn open_case(parent: &Path, case: &str, kind: &str) -> CorpusPool {
    let source = parent.join(case);
    let manifest = read_json(&source.join("manifest.json"));
    let dir = workspace_root().join("target").join(kind).join(case);
    if !dir.is_dir() {
        unpack_case(&source, &dir);
    }
    let mut found: Vec<(u32, PathBuf)> = list(&dir)
        .into_iter()
        .filter_map(|name| Some((image_number(&name, ".img")?, dir.join(&name))))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{} has no images", dir.display());
    let (numbers, images) = found.into_iter().unzip();
    CorpusPool { case: case.to_owned(), dir, images, numbers, manifest, source }
}

/// Fills a private folder beside `dir` and renames it to `dir`; another process may have won.
fn unpack_case(source: &Path, dir: &Path) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let parent = dir.parent().expect("a case has a parent folder");
    let unique = NEXT.fetch_add(1, Ordering::Relaxed);
    let private = parent.join(format!(".unpacking-{}-{unique}", std::process::id()));
    fs::create_dir_all(&private).expect("target/ is writable");
    for name in list(source) {
        if image_number(&name, ".img.zst").is_some() {
            let target = private.join(name.trim_end_matches(".zst"));
            unpack_zst(&source.join(&name), &target)
                .unwrap_or_else(|error| panic!("cannot unpack {name}: {error}"));
        }
    }
    if fs::rename(&private, dir).is_err() {
        assert!(dir.is_dir(), "cannot create {}", dir.display());
        let _ = fs::remove_dir_all(&private);
    }
}

fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// The number of an image, from its name: 3 of `vdev3.img`.
fn image_number(name: &str, suffix: &str) -> Option<u32> {
    name.strip_prefix("vdev")?.strip_suffix(suffix)?.parse().ok()
}

fn read_json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The data file with all figures of the studies, `../shared/seeds/figures.toml`.
///
/// # Panics
/// It is not here: a test of it is marked with [`needs`](crate::needs).
pub fn figures() -> String {
    let shared = shared_dir().expect("the figures are in ../shared alone");
    let path = shared.join("seeds/figures.toml");
    let text = std::fs::read_to_string(&path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a comparison over all cases that an import for their manifests left as they were, and lists
/// every difference that it finds.
pub fn every_unreplayed(compare: impl Fn(&CorpusPool, &mut Vec<String>)) {
    let mut differences = Vec::new();
    for name in corpus_cases() {
        // After a replay on import these two are other pools.
        if name == "ziluncle" || name == "zil-slog" {
            continue;
        }
        let mut here = Vec::new();
        compare(&corpus(&name), &mut here);
        differences.extend(here.into_iter().map(|d| format!("{name}: {d}")));
    }
    let n = differences.len();
    assert!(differences.is_empty(), "{n} differences:\n{}", differences.join("\n"));
}
