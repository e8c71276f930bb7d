//! The shipped pools are the ones their list says, and OpenZFS finds nothing wrong with them.

use sha2::{Digest, Sha256};
use std::fmt::Write;

#[test]
fn shipped_pools_are_the_listed_ones() {
    let folder = testkit::workspace_root().join("fixtures");
    let list = std::fs::read_to_string(folder.join("MANIFEST")).unwrap();
    let mut listed = 0;
    for line in list.lines() {
        let (sum, path) = line.split_once("  ").unwrap();
        let digest = Sha256::digest(std::fs::read(folder.join(path)).unwrap());
        let hex = digest.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        assert_eq!(sum, hex, "{path}");
        listed += 1;
    }
    let present: usize = testkit::fixture_cases()
        .iter()
        .map(|name| std::fs::read_dir(folder.join(name)).unwrap().count())
        .sum();
    let files = |folder: std::path::PathBuf| std::fs::read_dir(folder).unwrap().count();
    let samples =
        testkit::sample_cases().iter().map(|n| files(folder.join("samples").join(n))).sum();
    let pools = std::fs::read_dir(folder.join("pools")).unwrap();
    let pools = pools.map(|pool| files(pool.unwrap().path())).sum::<usize>();
    let present = [present, samples, pools].iter().sum::<usize>();
    assert_eq!(listed, present, "every file of every pool is listed");
}

/// The oracle works, and the images came through the compression as OpenZFS left them. Where this
/// is ignored, no pool that a test writes is judged by OpenZFS (`oracle::judge`).
#[testkit::needs("zdb")]
#[test]
fn zdb_judges_pools() {
    let pool = testkit::fixture("gang");
    let verdict = testkit::oracle::verdict(&pool.dir, pool.name()).unwrap();
    assert!(verdict.is_clean(), "{}", verdict.text);
}
