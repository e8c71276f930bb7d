//! The text of a failure, with the words of OpenZFS and the flags of the command where the engine
//! has neither.

use crate::{layout, names, places, refusals, streams};
use engine::{Error, ErrorKind, ImportRefusal, Place, Refusal, Unsendable};
use std::error::Error as _;

/// Scripts look for these words.
const RAW_ONLY: &str = "may not be sent with properties without the raw flag";

/// The failure, in one line; without its hint.
#[must_use]
pub fn text(error: &Error) -> String {
    let of = |place: Option<&Place>, text: String| match place {
        Some(place) => format!("{place}: {text}"),
        None => text,
    };
    match (error.kind(), error.place()) {
        (ErrorKind::NotFound, Some(Place::Dataset(name))) => names::no_dataset(name),
        (ErrorKind::InvalidName, Some(Place::Dataset(name))) => {
            format!("cannot open '{name}': {}", names::bad_name(name))
        }
        (ErrorKind::NotFound, Some(Place::Path(path))) => {
            format!("cannot open '{}': No such file or directory", path.display())
        }
        (ErrorKind::NoDevice, Some(Place::Path(path))) => {
            format!("cannot use '{}': must be a block device or regular file", path.display())
        }
        (ErrorKind::BadLayout(fault), _) => {
            format!("invalid vdev specification: {}", layout::fault(fault))
        }
        (ErrorKind::Mismatched(why), place) => of(place, layout::mismatch(*why)),
        (ErrorKind::NotResumed(fault), place) => of(place, streams::not_resumed(fault)),
        (ErrorKind::NotSent(why), place) => of(place, unsendable(*why)),
        (ErrorKind::NotImported(why), Some(Place::Pool(name))) => {
            format!("cannot import '{name}': {}", not_imported(why))
        }
        (ErrorKind::NoEarlierState { .. }, _) => "I/O error".to_owned(),
        (ErrorKind::WrittenMeanwhile { .. }, Some(Place::Pool(name))) => {
            format!("cannot check '{name}': it is being written to by another program")
        }
        (ErrorKind::Refused(why), place) if has_words(why) => of(place, refusals::text(why)),
        _ => error.to_string(),
    }
}

/// An encrypted dataset is not sent with its properties; `snapshot` is the name without that of the
/// dataset.
#[must_use]
pub fn raw_only(dataset: &str, snapshot: &str) -> String {
    format!("cannot send {dataset}@{snapshot}: encrypted dataset {dataset} {RAW_ONLY}")
}

/// The causes of the failure, each in a line.
#[must_use]
pub fn causes(error: &Error) -> Vec<String> {
    match error.kind() {
        ErrorKind::NotImported(ImportRefusal::Denied(paths)) => {
            paths.iter().map(|path| places::denied(path)).collect()
        }
        ErrorKind::NotImported(ImportRefusal::NotListed) => {
            let (mut causes, mut below) = (vec![error.to_string()], error.source());
            while let Some(cause) = below {
                causes.push(cause.to_string());
                below = cause.source();
            }
            causes
        }
        ErrorKind::WrittenMeanwhile { times } => {
            vec![format!("its state changed {times} times while it was read")]
        }
        ErrorKind::NoEarlierState { .. } => {
            vec!["no state among those tried can be read completely".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Why a pool is not imported, or cannot be added to the list of imported pools.
#[must_use]
pub fn not_imported(why: &ImportRefusal) -> &'static str {
    match why {
        ImportRefusal::Imported => "it is imported already",
        ImportRefusal::NameTaken => "a pool with that name already exists",
        ImportRefusal::Name(fault) => names::bad_pool_name(*fault),
        ImportRefusal::NameNotKept(_) => "invalid character in pool name",
        ImportRefusal::Denied(_) => "one of its devices is not accessible",
        // The engine may learn to refuse what this program has no words for yet.
        _ => "it cannot be recorded in the list of known pools",
    }
}

/// Scripts look for these words, whatever the command is.
fn has_words(why: &Refusal) -> bool {
    matches!(why, Refusal::SeveralOfOne | Refusal::NewerVersion(_) | Refusal::DelegationOff)
}

fn unsendable(why: Unsendable) -> String {
    match why {
        Unsendable::EncryptedProperties => format!("encrypted dataset {RAW_ONLY}"),
        other => format!("cannot be sent yet: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_that_is_refused_has_openzfs_s_words_and_its_causes() {
        let taken = ImportRefusal::NameTaken.of("tank");
        assert_eq!(text(&taken), "cannot import 'tank': a pool with that name already exists");
        let denied = ImportRefusal::Denied(vec!["/dev/a".into(), "/dev/b".into()]).of("tank");
        let causes_of = causes(&denied);
        assert_eq!(causes_of[1], "cannot open '/dev/b': Permission denied");
        let full = std::io::Error::other("no space left on device");
        let unlisted = ImportRefusal::NotListed.of("tank").because(full);
        let message = "cannot import 'tank': it cannot be recorded in the list of known pools";
        assert_eq!(text(&unlisted), message);
        assert_eq!(causes(&unlisted), ["no space left on device"]);
        let none = Error::new(ErrorKind::NoEarlierState { of_all: true });
        assert_eq!((text(&none).as_str(), causes(&none).len()), ("I/O error", 1));
    }

    #[test]
    fn flags_and_the_words_of_scripts_are_said_here() {
        let with = Error::new(ErrorKind::NotSent(Unsendable::EncryptedProperties));
        let at = with.at(Place::Dataset("a@b".to_owned()));
        assert!(!at.to_string().contains("-w"));
        let message = "a@b: encrypted dataset may not be sent with properties without the raw flag";
        assert_eq!(text(&at), message);
        let newer = Error::new(ErrorKind::Refused(Refusal::NewerVersion(5)));
        let message = "a: can not be downgraded; it is already at version 5";
        assert_eq!(text(&newer.at(Place::Dataset("a".to_owned()))), message);
    }
}
