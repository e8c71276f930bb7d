//! Why something cannot be done to a dataset or pool, in OpenZFS's words.

use crate::failure::Failure;
use engine::Refusal;
use engine::errors::{DslError, PoolError};

/// `cannot DOING 'NAME': …`.
pub fn cannot(doing: &str, name: &str, error: impl Into<PoolError>) -> Failure {
    let start = format!("cannot {doing} '{name}'");
    match error.into() {
        PoolError::Dsl(DslError::NoSuchDataset(missing)) if missing != name => {
            let parent = name.rsplit_once('/').map(|(parent, _)| parent);
            if parent == Some(missing.as_str()) {
                Failure::new(format!("{start}: parent does not exist"))
                    .hint("-p makes what is missing above it")
            } else {
                Failure::new(format!("{start}: dataset '{missing}' does not exist"))
            }
        }
        PoolError::Dsl(DslError::NoSuchDataset(_)) => {
            Failure::new(format!("cannot open '{name}': dataset does not exist"))
        }
        PoolError::Dsl(DslError::BadName(bad)) => {
            Failure::new(format!("{start}: '{bad}' is an invalid name"))
                .hint("names are made of letters, digits and -_.: and have at most 255 characters")
        }
        PoolError::Dsl(DslError::Refused { name: about, why }) => {
            let (text, hint) = phrase(&why);
            let is_told = about == name || about == "new dataset" || text.contains(&about);
            let about = if is_told { String::new() } else { format!("'{about}': ") };
            let failure = Failure::new(format!("{start}: {about}{text}"));
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        PoolError::Zpl(e) => Failure::new(format!("{start}: {e}")),
        PoolError::Invalid { what } => Failure::new(format!("{start}: {what}")),
        other => Failure::from(other).about(&start),
    }
}

/// OpenZFS's words for a refusal, and what to do.
fn phrase(why: &Refusal) -> (String, Option<String>) {
    let hint = |text: &str| Some(text.to_owned());
    let (text, hint) = match why {
        Refusal::Exists => ("dataset already exists".to_owned(), None),
        Refusal::HasChildren(one) => {
            let text = "filesystem has children".to_owned();
            (text, Some(format!("use '-r' to destroy them too: '{one}' and all others below")))
        }
        Refusal::HasSnapshots(one) => {
            let text = "filesystem has children".to_owned();
            (text, Some(format!("use '-r' to destroy its snapshots too: '{one}' for one")))
        }
        Refusal::HasClones(clones) => {
            let text = "snapshot has dependent clones".to_owned();
            (text, Some(format!("use '-R' to destroy them too: {}", clones.join(", "))))
        }
        Refusal::HasYounger(one) => (
            "more recent snapshots or bookmarks exist".to_owned(),
            Some(format!("use '-r' to destroy them: '{one}' for one")),
        ),
        Refusal::Held(tag) => (
            "dataset is busy".to_owned(),
            Some(format!("it is held: `zinc zfs release '{tag}' SNAPSHOT` lets it go")),
        ),
        Refusal::NotHeld(_) => ("no such tag on this dataset".to_owned(), None),
        Refusal::NoSpace => ("out of space".to_owned(), None),
        Refusal::BelowUsed(_) => {
            ("size is less than current used or reserved space".to_owned(), None)
        }
        Refusal::AboveQuota(_) | Refusal::NoRoomFor(_) => {
            ("size is greater than available space".to_owned(), None)
        }
        Refusal::NoProperty(p) => (format!("invalid property '{p}'"), None),
        Refusal::NotHere(p) => (format!("'{p}' does not apply to datasets of this type"), None),
        Refusal::ReadOnly(p) => (format!("'{p}' is readonly"), None),
        Refusal::NotASnapshot => ("not a snapshot".to_owned(), None),
        Refusal::NotAClone => ("not a cloned filesystem".to_owned(), None),
        Refusal::BelowVolume => ("parent is not a filesystem".to_owned(), None),
        Refusal::PoolRoot => {
            let text = "operation does not apply to pools".to_owned();
            (text, hint("use 'zfs destroy -r' for what is in it, 'zpool destroy' for the pool"))
        }
        Refusal::NoFeature(guid) => (
            format!("pool must be upgraded: it does not have the feature {guid}"),
            hint("`zinc zpool set feature@NAME=enabled POOL` enables one"),
        ),
        other => (other.to_string(), None),
    };
    (text, hint)
}
