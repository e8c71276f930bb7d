//! The text of a failure, with the words of OpenZFS and the flags of the command where the engine
//! has neither.

use crate::{names, refusals};
use engine::{Error, ErrorKind, Place, Refusal, Unsendable};

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
        (ErrorKind::BadLayout(fault), _) => format!("invalid vdev specification: {fault}"),
        (ErrorKind::NotSent(why), place) => {
            of(place, format!("cannot be sent yet: {}", unsendable(*why)))
        }
        (ErrorKind::Refused(why), place) if has_words(why) => of(place, refusals::text(why)),
        _ => error.to_string(),
    }
}

/// Scripts look for these words, whatever the command is.
fn has_words(why: &Refusal) -> bool {
    matches!(why, Refusal::SeveralOfOne | Refusal::NewerVersion(_) | Refusal::DelegationOff)
}

fn unsendable(why: Unsendable) -> String {
    let fixed = match why {
        Unsendable::EncryptedProperties => {
            "it is encrypted, and its properties are sent with -w only"
        }
        other => return other.to_string(),
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_the_words_of_scripts_are_said_here() {
        let with = Error::new(ErrorKind::NotSent(Unsendable::EncryptedProperties));
        let at = with.at(Place::Dataset("a@b".to_owned()));
        assert!(!at.to_string().contains("-w"));
        assert_eq!(
            text(&at),
            "a@b: cannot be sent yet: it is encrypted, and its properties are sent with -w only"
        );
        let newer = Error::new(ErrorKind::Refused(Refusal::NewerVersion(5)));
        let message = "a: can not be downgraded; it is already at version 5";
        assert_eq!(text(&newer.at(Place::Dataset("a".to_owned()))), message);
    }
}
