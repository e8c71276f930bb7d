//! What the tests share: pools that OpenZFS wrote, programs of OpenZFS, and damage by the seed.
//!
//! Only tests use this crate (a dev-dependency everywhere; `tidy` enforces it), so it may panic
//! and speak: a helper that cannot do its work ends the test with the reason. A test that needs
//! more than the checkout has says so with [`needs`], and is reported as ignored where that is
//! missing.
//!
//! ```no_run
//! let pool = testkit::corpus("raidz1");
//! println!("{} has {} devices", pool.name(), pool.images.len());
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod azure_server;
mod ceph_server;
mod corpus;
mod corrupt;
mod google_server;
mod image;
mod judge;
mod nbd_server;
pub mod oracle;
pub mod posix;
mod rng;
mod running;
mod s3_access;
mod s3_server;
mod scenario;
mod shrinking;
mod today;
mod unharnessed;
mod unpack;

pub use azure_server::AzureServer;
pub use ceph_server::{CephServer, RbdImage};
pub use corpus::{
    CorpusPool, corpus, corpus_among, corpus_cases, every_unreplayed, figures, fixture,
    fixture_cases, sample, sample_cases,
};
pub use corrupt::{Corruptor, Damage, DamageKind};
pub use google_server::GoogleServer;
pub use image::{SparseImage, is_zero};
pub use judge::KernelJudge;
pub use nbd_server::NbdServer;
pub use needs::needs;
pub use rng::Rng;
pub use running::free_port;
pub use s3_access::S3Access;
pub use s3_server::S3Server;
pub use scenario::{RandomSteps, scenario, scenarios};
pub use shrinking::{each_seed, shrinking, shrinking_events, shrinking_seed, shrunk, steps};
pub use today::{day, parts, range_of_today, today};
pub use unharnessed::Unharnessed;
pub use unpack::{read_zst, unpack_zst};

use std::path::{Path, PathBuf};

/// The root of the checkout: the folder with the workspace's `Cargo.toml`.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/testkit is two below the root").to_path_buf()
}

/// The folder of test material beside the checkout (`../shared`), or where `ZINC_SHARED` points.
/// `None` where there is none: a checkout alone is complete, only less is tested.
pub fn shared_dir() -> Option<PathBuf> {
    let dir = match std::env::var_os("ZINC_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => workspace_root().parent()?.join("shared"),
    };
    dir.join("pools").is_dir().then_some(dir)
}
