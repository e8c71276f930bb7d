//! Opening pools of the corpus with their keys.

use engine::{Dataset, OpenOptions, Pool};
use testkit::CorpusPool;

/// Opens a pool and unlocks what the manifest has keys for.
pub(crate) fn pool(case: &CorpusPool) -> Pool {
    let mut options = OpenOptions::default();
    options.search.paths.clone_from(&case.images);
    let pool = Pool::open(case.name(), &options).expect("a sound pool");
    for (name, key) in case.manifest["keys"].as_object().into_iter().flatten() {
        let bytes = match key["key_hex"].as_str() {
            Some(hex) => unhex(hex),
            None => key["key"].as_str().expect("a key").as_bytes().to_vec(),
        };
        pool.dsl().load_key(name, &bytes).expect("the key fits");
    }
    pool
}

fn unhex(hex: &str) -> Vec<u8> {
    let pair = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// All heads and snapshots.
pub(crate) fn datasets(pool: &Pool) -> Vec<Dataset> {
    let mut out = Vec::new();
    for (_, dir) in pool.dsl().walk() {
        let dir = dir.expect("a sound pool");
        if let Some(head) = pool.dsl().head(&dir).expect("a sound pool") {
            out.extend(pool.dsl().snapshots(&head).expect("a sound pool"));
            out.push(head);
        }
    }
    out
}
