//! Encrypted datasets of the corpus: locked, unlocked, and every block of them judged.

#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use dmu::Objset;
use dsl::{Dataset, Dsl, KeyError};
use pool::UnguardedDatasets as _;
use poolkit::open;
use serde_json::Value;
use sha2::{Digest, Sha256};
use testkit::CorpusPool;
use zio::ErrorKind;

/// Heads and snapshots of all encrypted datasets.
fn encrypted(dsl: &Dsl) -> Vec<Dataset> {
    let mut out = Vec::new();
    for (_, dir) in dsl.walk() {
        let dir = dir.unwrap();
        if dsl.key_object(&dir).unwrap().is_none() {
            continue;
        }
        let head = dsl.head(&dir).unwrap().unwrap();
        out.extend(dsl.snapshots(&head).unwrap());
        out.push(head);
    }
    out
}

fn load_keys(corpus: &CorpusPool, dsl: &Dsl) {
    for (dataset, given) in corpus.keys() {
        assert!(dsl.load_key(&dataset, &given).unwrap() > 0, "{dataset}");
    }
}

/// Blocks and indirect blocks seen.
#[derive(Default)]
struct BlockCounts {
    blocks: u64,
    indirect: u64,
}

impl BlockCounts {
    /// Reads all of an object set; every MAC in it must fit.
    fn read_all(&mut self, objset: &Objset) {
        let meta = objset.meta_object();
        let accounting = objset.accounting_objects();
        let objects = objset.objects().map(|o| o.unwrap());
        for object in meta.into_iter().chain(accounting.into_iter().flatten()).chain(objects) {
            let dnode = object.dnode();
            for blkid in 0..=dnode.max_block {
                self.blocks += u64::from(object.read_block(blkid).unwrap().is_some());
            }
            object.read_spill().unwrap();
            for level in 1..dnode.levels {
                let below = dnode.pointers_per_indirect().pow(level.into());
                for blkid in 0..=dnode.max_block / below {
                    let Some(bp) = object.block_pointer(level, blkid).unwrap() else { continue };
                    let Some(block) = object.read_indirect(level, blkid).unwrap() else { continue };
                    assert!(bp.has_indirect_mac(), "{bp:?}");
                    assert_eq!(zio::crypt::verify_indirect(&bp, &block), Ok(()), "{bp:?}");
                    self.indirect += 1;
                }
            }
        }
    }
}

#[test]
fn locked_datasets_say_so() {
    let corpus = testkit::corpus("crypt");
    let pool = open(&corpus);
    let dsl = pool.dsl();
    let datasets = encrypted(dsl);
    assert!(datasets.len() > 30, "{}", datasets.len());
    for dataset in datasets {
        assert!(!dsl.is_unlocked(&dataset).unwrap());
        let first = dsl.objset(&dataset).map(|o| o.object(1).map(|_| ()));
        let error = first.unwrap().expect_err(&dataset.name);
        assert_eq!(error.io().map(|e| e.kind.clone()), Some(ErrorKind::NoKey), "{error}");
    }
}

#[test]
fn a_wrong_key_is_refused() {
    let corpus = testkit::corpus("crypt");
    let pool = open(&corpus);
    let tries: [(&str, &[u8], KeyError); 3] = [
        ("sealed/pass", b"not the passphrase", KeyError::Wrong),
        ("sealed/ccm", &[0; 32], KeyError::Wrong),
        ("sealed/plain", &[0; 32], KeyError::NotEncrypted),
    ];
    for (dataset, key, expected) in tries {
        match pool.dsl().load_key(dataset, key) {
            Err(dsl::Error::Key { error, .. }) => assert_eq!(error, expected, "{dataset}"),
            other => panic!("{dataset}: {other:?}"),
        }
    }
}

#[test]
fn every_block_of_every_encrypted_dataset_is_authentic() {
    for corpus in testkit::corpus_among(&["crypt", "zil-slog"]) {
        let case = &corpus.case;
        let pool = open(&corpus);
        load_keys(&corpus, pool.dsl());
        let mut seen = BlockCounts::default();
        for dataset in encrypted(pool.dsl()) {
            assert!(pool.dsl().is_unlocked(&dataset).unwrap(), "{}", dataset.name);
            seen.read_all(&pool.dsl().objset(&dataset).unwrap());
        }
        assert!(seen.blocks > 50 && seen.indirect > 5, "{case}: {} blocks", seen.blocks);
    }
}

#[test]
fn files_and_volumes_are_what_the_kernel_read() {
    let corpus = testkit::corpus("crypt");
    let pool = open(&corpus);
    load_keys(&corpus, pool.dsl());
    let mut compared = 0;
    for dataset in corpus.manifest["datasets"].as_array().unwrap() {
        if dataset["properties"]["encryption"] == "off" {
            continue;
        }
        compared += compare(pool.dsl(), dataset["name"].as_str().unwrap(), dataset);
    }
    assert!(compared > 100, "{compared}");
}

/// Compares the digests of a dataset's files, or of the volume; returns how many.
fn compare(dsl: &Dsl, name: &str, expected: &Value) -> usize {
    let objset = dsl.objset(&dsl.by_name(name).unwrap()).unwrap();
    if let Some(volume) = expected.get("volume") {
        let data = zpl::Volume::open(&objset).unwrap();
        let mut bytes = vec![0; data.size() as usize];
        assert_eq!(data.read_at(0, &mut bytes).unwrap(), bytes.len());
        assert_eq!(volume["sha256"], digest(&bytes), "{name}");
        return 1;
    }
    let fs = zpl::Filesystem::open(objset).unwrap();
    let mut files = 0;
    for entry in expected["entries"].as_array().unwrap() {
        if entry["sha256"].is_null() {
            continue;
        }
        let node = fs.node(entry["ino"].as_u64().unwrap()).unwrap();
        let mut bytes = vec![0; entry["size"].as_u64().unwrap() as usize];
        assert_eq!(node.read_at(0, &mut bytes).unwrap(), bytes.len());
        assert_eq!(entry["sha256"], digest(&bytes), "{name}/{}", entry["path"]);
        files += 1;
    }
    files
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
