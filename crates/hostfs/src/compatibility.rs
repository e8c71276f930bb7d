//! Files that list the features a pool is confined to (property `compatibility`), in
//! `/etc/zfs/compatibility.d` or `/usr/share/zfs/compatibility.d`, or with a whole path.

use engine::Pool;
use engine::devices::open_input;
use engine::properties::compatibility::{Compatibility, FILE_MAX, FeatureSet, condition, parse};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Where the files of this machine are; a word that is not a feature is an error in them.
const OWN: &str = "/etc/zfs/compatibility.d";
/// Where those are that came with programs, which may know more features.
const SHARED: &str = "/usr/share/zfs/compatibility.d";

/// The features that a value of the property allows.
///
/// # Errors
/// A file is not there or cannot be understood: which, and why.
pub fn read(value: &str) -> Result<FeatureSet, String> {
    match parse(value) {
        Compatibility::Known(set) => Ok(set),
        Compatibility::Files(names) => names.into_iter().try_fold(FeatureSet::All, |set, name| {
            Ok(set.and(file(name).map_err(|why| format!("compatibility file '{name}': {why}"))?))
        }),
    }
}

/// The features that a pool's own value allows.
///
/// # Errors
/// As [`read`].
pub fn of(pool: &Pool) -> Result<FeatureSet, String> {
    read(pool.config().compatibility.as_deref().unwrap_or_default())
}

/// The condition of a pool for this property.
#[must_use]
pub fn condition_of(pool: &Pool) -> Option<engine::pools::Condition> {
    condition(pool, of(pool).ok().as_ref())
}

fn file(name: &str) -> Result<FeatureSet, String> {
    let places: Vec<PathBuf> = match name {
        "" => return Err("it has no name".to_owned()),
        path if path.starts_with('/') => vec![PathBuf::from(path)],
        name => [OWN, SHARED].map(|folder| Path::new(folder).join(name)).into(),
    };
    let mut missing = None;
    for path in places {
        match load(&path) {
            Ok(bytes) => {
                let (set, unknown) = FeatureSet::parse(&bytes)?;
                return match unknown.first() {
                    Some(word) if !path.starts_with(SHARED) => {
                        Err(format!("'{}' is not a feature", term::escape::line(word)))
                    }
                    _ => Ok(set),
                };
            }
            Err(e) => missing = Some(e.to_string()),
        }
    }
    Err(missing.unwrap_or_default())
}

/// The content of a file, one byte more than it may have at most.
fn load(path: &Path) -> io::Result<Vec<u8>> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a file");
    // The path comes with the pool, and to open a device may already do something.
    if !std::fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let file = open_input(path)?;
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_all_files_are_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a"), "skein, blake3\n").unwrap();
        std::fs::write(path("b"), "blake3\nsha512\n").unwrap();
        std::fs::write(path("c"), "blake3\nnix\n").unwrap();
        let both = read(&format!("{},{}", path("a"), path("b"))).unwrap();
        assert_eq!(both, FeatureSet::Only(["blake3"].into()));
        assert_eq!(read("off"), Ok(FeatureSet::All));
        for (value, why) in [
            (path("c"), "'nix' is not a feature"),
            (path("d"), "No such file"),
            (path(""), "it is not a file"),
            ("a,".to_owned(), "compatibility file 'a'"),
            (format!("{},", path("a")), "it has no name"),
        ] {
            assert!(read(&value).unwrap_err().contains(why), "{value}");
        }
    }
}
