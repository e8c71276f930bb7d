//! What an import is refused, and what it is made to be.

use ondisk::features::VERSION_FEATURES;
use ondisk::spelling;
use pool::Candidate;

/// Whether a pool is of a version that is only read: one from before features. It is imported as
/// with `readonly=on`.
pub(super) fn is_only_read(candidate: &Candidate) -> bool {
    candidate.config.version < VERSION_FEATURES
}

/// Whether a pool keeps its name when it is imported. One that is not text, or that could not be
/// said in a line, is given another.
pub(super) fn is_kept(name: &str) -> bool {
    spelling::stored(name) == name.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewPool, OpenOptions, pools};

    #[test]
    fn names_that_cannot_be_typed_and_old_versions_are_no_obstacle_to_reading_alone() {
        assert!(is_kept("tank") && is_kept("a b") && !is_kept(&spelling::name(b"a\nb")));

        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("a.img");
        let pool = NewPool::new("tank").file(&image, 64 << 20).unwrap().create().unwrap();
        pool.export().unwrap();
        let found = pools::scan(&OpenOptions::in_places([&image]).search).unwrap();
        let mut candidate = Candidate::group(&found).pop().unwrap();
        assert!(!is_only_read(&candidate));
        candidate.config.version = 28;
        assert!(is_only_read(&candidate));
    }
}
