//! `#[needs("raidz2")]` on a test: without that material the test is reported as ignored.
//!
//! A test that returns early counts as passed, though it tested nothing. Rust's test harness knows
//! ignored tests only from the attribute `#[ignore]`, so whether the material is there is looked up
//! when the test is compiled; another `ZINC_SHARED` compiles it again. Material that goes away
//! later makes the test fail, with its name; material that comes later is seen when it is compiled
//! again.
#![forbid(unsafe_code)]

use proc_macro::{TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// Ignores a test unless every named piece of the collection beside the checkout is there: a pool
/// (`"raidz2"`), or `"figures"` for the data file of the studies. `"fuse"` is none of the
/// collection: root's right to mount file systems of programs. Use as `#[testkit::needs(…)]`.
#[proc_macro_attribute]
pub fn needs(names: TokenStream, test: TokenStream) -> TokenStream {
    let names = names.into_iter().filter_map(|token| match token {
        TokenTree::Literal(name) => Some(name.to_string().trim_matches('"').to_owned()),
        _ => None,
    });
    let missing: Vec<String> = names.filter(|name| !is_there(name)).collect();
    // Makes the compiler note that the test depends on the variable.
    let watched = "const _: Option<&str> = option_env!(\"ZINC_SHARED\");";
    let watched: TokenStream = watched.parse().unwrap_or_default();
    let test = test.into_iter().chain(watched).collect();
    if missing.is_empty() {
        return test;
    }
    let reason = match missing.iter().any(|name| name == FUSE) {
        true => "needs /dev/fuse, and root".to_owned(),
        false => format!("needs {} of ../shared", missing.join(", ")),
    };
    let ignore: TokenStream = format!("#[ignore = {reason:?}]").parse().unwrap_or_default();
    ignore.into_iter().chain(test).collect()
}

/// The right to mount.
const FUSE: &str = "fuse";

/// Whether this process may mount file systems of programs.
fn can_mount() -> bool {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    let user =
        std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    device.is_ok() && user.is_ok_and(|user| user == 0)
}

fn is_there(name: &str) -> bool {
    if name == FUSE {
        return can_mount();
    }
    let Some(root) = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2) else { return false };
    let shared = match std::env::var_os("ZINC_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => root.join("../shared"),
    };
    match name {
        "figures" => shared.join("seeds/figures.toml").is_file(),
        pool => [shared.join("pools"), root.join("fixtures/pools"), root.join("fixtures")]
            .iter()
            .any(|folder| folder.join(pool).join("manifest.json").is_file()),
    }
}
