//! Opening pools, and damaging them with every checksum right again.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, missing_docs)]

pub mod summary;
pub mod surgeon;

use pool::{OpenOptions, Pool};
use std::path::Path;

/// Opens the pool on the images of a folder.
pub fn open(dir: &Path, name: &str) -> Pool {
    let mut options = OpenOptions::default();
    options.search.paths = vec![dir.to_owned()];
    Pool::open(name, &options).expect("the pool opens")
}
