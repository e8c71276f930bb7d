//! Hostile bytes for every decoder, as plain functions.
//!
//! A target takes any bytes and must come back: no panic, no hang, no memory beyond what the input
//! justifies. Where a structure has an encoder, what was decoded must also survive being encoded
//! and decoded again. The same functions serve three masters:
//!
//! - `cargo test` replays the committed seeds (`fuzz/corpus/<target>/`) and many damaged copies;
//! - `scripts/campaign` does the latter for as long as it is told;
//! - `fuzz/` runs them under cargo-fuzz, guided by coverage.
//!
//! The first byte of an input is for the target: where a structure has a byte order, its lowest
//! bit says which. The structure begins at the second byte.

#![forbid(unsafe_code)]
#![allow(clippy::panic)]

mod archives;
mod compression;
mod control;
mod files;
mod mos;
mod mounts;
mod nbd;
mod storage;
mod stores;
mod streams;
mod structures;

/// A function that takes any bytes and comes back.
pub type Target = fn(&[u8]);

/// All targets by name, in alphabetical order.
pub fn targets() -> Vec<(&'static str, Target)> {
    let mut all: Vec<(&'static str, Target)> = Vec::new();
    all.extend(structures::TARGETS);
    all.extend(archives::TARGETS);
    all.extend(mos::TARGETS);
    all.extend(mounts::TARGETS);
    all.extend(files::TARGETS);
    all.extend(compression::TARGETS);
    all.extend(control::TARGETS);
    all.extend(nbd::TARGETS);
    all.extend(stores::TARGETS);
    all.extend(streams::TARGETS);
    all.extend(storage::TARGETS);
    all.sort_by_key(|(name, _)| *name);
    all
}

/// Hands `data` to the target of that name. Panics when there is none.
pub fn fuzz_one(name: &str, data: &[u8]) {
    match targets().iter().find(|(one, _)| *one == name) {
        Some((_, target)) => target(data),
        None => panic!("no fuzz target is named {name}"),
    }
}
