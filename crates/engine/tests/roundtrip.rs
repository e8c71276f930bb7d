//! Encoders: decoding and encoding again reproduces the bytes, for every structure of the corpus.
//!
//! Every pool of the corpus and of the fixtures is opened, and every object of every object set is
//! walked. Each structure met is decoded, encoded in the byte order it was found in, and compared
//! with the bytes OpenZFS wrote; then it takes a detour through the other byte order and must come
//! back as the same bytes. What is not compared is said where it is left out: bytes behind a used
//! part, which OpenZFS does not define.
//!
//! The test prints a table of what it compared, and fails when a structure that is known to be in
//! the corpus was not met: a walk that stops early must not pass.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

#[path = "roundtrip/devices.rs"]
mod devices;
#[path = "roundtrip/files.rs"]
mod files;
#[path = "roundtrip/foreign.rs"]
mod foreign;
#[path = "roundtrip/logs.rs"]
mod logs;
#[path = "roundtrip/mos.rs"]
mod mos;
#[path = "roundtrip/objects.rs"]
mod objects;
#[path = "roundtrip/open.rs"]
mod open;
#[path = "roundtrip/tally.rs"]
mod tally;
#[path = "roundtrip/twin.rs"]
mod twin;

use engine::inside::pool::UnguardedDatasets as _;
use std::collections::BTreeSet;
use tally::Tally;
use testkit::CorpusPool;

/// Structures that the project's own fixtures hold.
const IN_FIXTURES: &[&str] = &[
    "acl entries of a file",
    "attributes in a bonus",
    "block pointer",
    "bpobj entry",
    "bpobj header",
    "dead list header",
    "dnode",
    "dsl dataset",
    "dsl directory",
    "gang header",
    "history header",
    "history record",
    "indirect births header",
    "indirect mapping entry",
    "indirect mapping header",
    "label configuration",
    "object set header",
    "packed list",
    "removal state",
    "space map",
    "space map header",
    "uberblock",
    "zap: header",
    "zap: leaf",
    "zap: micro",
];

/// Structures that the large corpus holds beyond those. It has no pool with lists below a list of
/// blocks, an access control list in an object of its own, a ZAP whose pointer table outgrew its
/// header, records in a log of a dedup table, domains of users, redaction lists or errors; those
/// are compared if they are met, and tested in `ondisk` with bytes made by hand.
const IN_CORPUS: &[&str] = &[
    "attributes in a spill block",
    "block reference counts",
    "block reference header",
    "block references of a block",
    "bookmark",
    "bpobj entry, embedded",
    "checkpoint",
    "ddt directory entry, flat",
    "ddt key",
    "ddt log header",
    "ddt statistics",
    "intent log block",
    "intent log record",
    "log space map",
    "obsolete counts",
    "packed extended attributes",
    "posix acl",
    "znode",
    "znode acl",
];

/// Structures that only pools beside the checkout have.
const IN_SHARED: &[&str] =
    &["ddt directory entry, legacy", "error scrub state", "expansion state", "scan state"];

/// All of one pool.
fn pool(case: &CorpusPool, tally: &mut Tally) {
    tally.at(&case.case);
    devices::labels(case, tally);
    let pool = poolkit::open_unlocked(case);
    mos::directory(&pool, tally);
    objects::objset(pool.mos(), tally);
    let mut seen = BTreeSet::new();
    for dataset in open::datasets(&pool) {
        // Snapshots that nothing changed between share the header.
        if seen.insert(*dataset.phys.bp.words()) && !dataset.phys.bp.is_hole() {
            tally.at(&format!("{} {}", case.case, dataset.name));
            let objset = pool.dsl().objset(&dataset).expect("a sound pool");
            objects::objset(&objset, tally);
            logs::intent_log(&objset, tally);
            files::filesystem(&objset, tally);
        }
    }
    tally.at(&case.case);
    devices::gang_headers(&pool, tally);
}

#[test]
fn what_is_decoded_encodes_to_the_same_bytes() {
    let mut tally = Tally::default();
    for name in testkit::fixture_cases() {
        pool(&testkit::fixture(&name), &mut tally);
    }
    tally.require(IN_FIXTURES);
    let only = std::env::var("ZINC_CASE").ok();
    for name in testkit::corpus_cases() {
        if only.as_ref().is_none_or(|o| *o == name) {
            pool(&testkit::corpus(&name), &mut tally);
        }
    }
    tally.print();
    if only.is_none() {
        tally.require(IN_CORPUS);
        // Without them `corpus_cases` has said that less was tested.
        if testkit::shared_dir().is_some() {
            tally.require(IN_SHARED);
        }
    }
    tally.finish();
}
