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

/// Bytes of hexadecimal digits.
pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |i| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}
