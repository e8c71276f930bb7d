//! Whether material is there is asked when tests are compiled: they are compiled again when it is
//! looked for elsewhere, or has come or gone.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=ZINC_SHARED");
    println!("cargo::rerun-if-changed=build.rs");
    let beside = PathBuf::from("../../../shared");
    let shared = std::env::var_os("ZINC_SHARED").map_or(beside, PathBuf::from);
    // Of a folder that is not there, so that it is looked for each time.
    for part in ["pools", "seeds/figures.toml", "streams/streams.json"] {
        println!("cargo::rerun-if-changed={}", shared.join(part).display());
    }
    println!("cargo::rerun-if-changed=../../fixtures/pools");
}
