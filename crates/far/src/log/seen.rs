//! How far a disk was when this machine saw it last.
//!
//! A store that was restored as a whole from an older copy is an older disk, and nothing in it
//! contradicts that. What a machine remembers does: a later replay extends an earlier one, so
//! neither the place where the log ends nor the number of its writer ever becomes lower. A disk
//! that is behind what was seen is not opened, before anything is written to it: a writer would
//! continue from the older state.
//!
//! What is remembered stands in a small file of its own for each name of a store, and is lost
//! without harm: then nothing is known. It may be older than what was seen, never newer. The disk
//! that is made anew under a name has another uuid, and what was seen of the one before does not
//! count.

use super::DiskError;
use super::format::Uuid;
use super::replay::State;
use ondisk::hex;
use std::path::{Path, PathBuf};

/// A file is far smaller.
const FILE_MAX: usize = 256;

/// Number of a writer, and a place in its log up to which all is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of the writer.
    pub epoch: u64,
    /// The first place that need not be there.
    pub place: u64,
}

impl Mark {
    /// At the end of a log.
    pub(super) fn of(state: &State) -> Self {
        Self { epoch: state.epoch, place: state.next }
    }

    fn is_behind(self, other: Self) -> bool {
        self.epoch < other.epoch || self.place < other.place
    }
}

/// What this machine has seen of a disk, and where that is remembered.
pub(super) struct Seen {
    file: Option<PathBuf>,
    disk: Uuid,
    mark: Option<Mark>,
}

impl Seen {
    /// As it is now; before a replay begins, since others go on meanwhile.
    pub(super) fn of(file: Option<&PathBuf>, disk: Uuid) -> Self {
        Self { file: file.cloned(), disk, mark: file.and_then(|file| read(file, disk)) }
    }

    /// Refuses a disk that is behind that.
    pub(super) fn refuse_older(&self, now: Mark) -> Result<(), DiskError> {
        match (&self.file, self.mark) {
            (Some(file), Some(seen)) if now.is_behind(seen) => {
                Err(DiskError::Older { now, seen, file: file.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Remembers how far the disk is. What cannot be remembered is not.
    pub(super) fn remember(&self, now: Mark) {
        let Some(file) = &self.file else { return };
        if read(file, self.disk).is_some_and(|seen| !seen.is_behind(now)) {
            return;
        }
        let text = format!("{} {} {}\n", hex::encode(&self.disk), now.epoch, now.place);
        // Renamed, so that there is always a whole one.
        let new = PathBuf::from(format!("{}.{}", file.display(), std::process::id()));
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, file));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
    }
}

fn read(file: &Path, disk: Uuid) -> Option<Mark> {
    let text = std::fs::read_to_string(file).ok().filter(|text| text.len() < FILE_MAX)?;
    let mut words = text.split_whitespace();
    if words.next()? != hex::encode(&disk) {
        return None;
    }
    Some(Mark { epoch: words.next()?.parse().ok()?, place: words.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_behind_the_last_one_is_refused_and_only_of_the_same_disk() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen");
        let at = |epoch, place| Mark { epoch, place };
        let (one, two) = ([1; 16], [2; 16]);
        let seen_of = |disk| Seen::of(Some(&file), disk);
        let is_taken = |disk, mark| seen_of(disk).refuse_older(mark).is_ok();
        assert!(is_taken(one, at(1, 1)), "nothing was seen");
        let early = seen_of(one);
        seen_of(one).remember(at(3, 40));
        seen_of(one).remember(at(2, 30));
        // Another program went on while this one read the log.
        assert!(early.refuse_older(at(2, 20)).is_ok());
        assert!(is_taken(one, at(3, 40)) && is_taken(one, at(4, 41)));
        for older in [at(3, 39), at(2, 40), at(2, 50), at(4, 30)] {
            let refused = seen_of(one).refuse_older(older);
            let seen = at(3, 40);
            let file = file.clone();
            assert_eq!(refused, Err(DiskError::Older { now: older, seen, file }));
        }
        assert!(is_taken(two, at(1, 1)));
        seen_of(two).remember(at(1, 2));
        assert!(!is_taken(two, at(1, 1)) && is_taken(one, at(1, 1)));
        std::fs::write(&file, "nonsense").unwrap();
        assert!(is_taken(two, at(1, 1)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
