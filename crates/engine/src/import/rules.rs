//! What an import is refused, and what it is made to be.

use crate::error::{Error, ErrorKind, Place, Result};
use ondisk::features::VERSION_FEATURES;
use ondisk::spelling;
use pool::Candidate;

/// Whether a pool is of a version that is only read: one from before features. It is imported as
/// with `readonly=on`.
#[must_use]
pub fn is_only_read(candidate: &Candidate) -> bool {
    candidate.config.version < VERSION_FEATURES
}

/// Whether a pool keeps its name when it is imported. One that is not text, or that could not be
/// said in a line, is given another.
///
/// # Errors
/// [`ErrorKind::InvalidName`].
pub fn check_kept_name(name: &str) -> Result<()> {
    match spelling::stored(name) == name.as_bytes() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::InvalidName).at(Place::Pool(name.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewPool, OpenOptions, pools};

    #[test]
    fn names_that_cannot_be_typed_and_old_versions_are_no_obstacle_to_reading_alone() {
        assert!(check_kept_name("tank").is_ok() && check_kept_name("a b").is_ok());
        let odd = spelling::name(b"a\nb");
        assert_eq!(check_kept_name(&odd).unwrap_err().kind(), &ErrorKind::InvalidName);

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
