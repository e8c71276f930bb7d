//! Why something cannot be done to a dataset or pool, in OpenZFS's words.

use crate::failure::Failure;
use engine::{Error, ErrorKind, Hint, Place, Refusal, Rule};
use views::names::{bad_name, no_dataset};

/// Longest name and value of a property that users invented, in bytes.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 8191;
/// This many characters of a name or value are repeated in a message.
const SHOWN_MAX: usize = 64;

/// `cannot DOING 'NAME': …`; of an operation on several things, `NAME` is the one that failed.
pub fn cannot(doing: &str, name: &str, error: impl Into<Error>) -> Failure {
    let error = error.into();
    let name = error.operand().unwrap_or(name);
    let start = format!("cannot {doing} '{name}'");
    let failure = match (error.kind(), error.dataset()) {
        (ErrorKind::NotFound, Some(missing)) => return not_found(&start, name, missing),
        (ErrorKind::InvalidName, Some(bad)) => Failure::new(format!("{start}: {}", bad_name(bad))),
        (ErrorKind::Refused(Refusal::SetTwice(property)), _) => {
            Failure::usage(format!("property '{property}' specified multiple times"))
        }
        (ErrorKind::Refused(why), _) => refused(&start, name, &error, why),
        (ErrorKind::Against(rule), _) => against(doing, &start, &error, *rule),
        (ErrorKind::BadValue { property, value }, _) => bad_value(&start, &error, property, value),
        (ErrorKind::Unsupported, _) if place(&error) == Some("encryption") => {
            Failure::new(format!("{start}: zinc makes no encrypted datasets yet"))
        }
        _ => return Failure::from(error).about(&start),
    };
    match error.hint() {
        Some(hint) if !is_said(&error, hint) => failure.hint(crate::hints::words(hint)),
        _ => failure,
    }
}

/// The name of the dataset or property that an error is about.
fn place(error: &Error) -> Option<&str> {
    match error.place() {
        Some(Place::Dataset(name) | Place::Property(name)) => Some(name),
        _ => None,
    }
}

/// The message says all values that there are.
fn is_said(error: &Error, hint: &Hint) -> bool {
    matches!(hint, Hint::ChooseValue(values) if values.contains('|'))
        && matches!(error.kind(), ErrorKind::BadValue { .. })
}

fn not_found(start: &str, name: &str, missing: &str) -> Failure {
    let parent = name.rsplit_once('/').map(|(parent, _)| parent);
    if parent == Some(missing) && !name.contains(['@', '#']) {
        let hint = crate::hints::words(&Hint::CreateParents);
        return Failure::new(format!("{start}: parent does not exist")).hint(hint);
    }
    // The snapshot that was named, where its file system is what is missing.
    let is_part = name.strip_prefix(missing).is_some_and(|rest| rest.starts_with(['@', '#']));
    match missing == name || is_part {
        true => Failure::new(no_dataset(name)),
        // The source of a clone, or what a new name lies in.
        false => Failure::new(format!("{start}: dataset does not exist: '{missing}'")),
    }
}

fn refused(start: &str, name: &str, error: &Error, why: &Refusal) -> Failure {
    let text = phrase(why);
    let about = place(error).unwrap_or(name);
    let is_told = about == name || about == "new dataset" || text.contains(about);
    let about = if is_told { String::new() } else { format!("'{about}': ") };
    Failure::new(format!("{start}: {about}{text}"))
}

/// What a value that is refused is answered with.
fn bad_value(start: &str, error: &Error, name: &str, value: &str) -> Failure {
    let fail = |why: String| Failure::new(format!("{start}: {why}"));
    let short = |text: &str| match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    match error.hint() {
        Some(Hint::ChooseValue(values)) if values.contains('|') => {
            fail(format!("'{name}' must be one of '{values}'"))
        }
        Some(_) => fail(format!("bad value '{}' for '{name}'", short(value))),
        None if name.len() > NAME_MAX => {
            fail(format!("property name '{}' is too long", short(name)))
        }
        None if value.len() > VALUE_MAX => fail(format!("property value of '{name}' is too long")),
        None => fail(format!("bad value '{}' for '{name}'", short(value))),
    }
}

/// A request that breaks a rule.
fn against(doing: &str, start: &str, error: &Error, rule: Rule) -> Failure {
    let about = place(error).unwrap_or_default();
    let why = match rule {
        Rule::SnapshotName => return Failure::usage(format!("invalid snapshot name: '{about}'")),
        Rule::BookmarkName => {
            return Failure::usage(format!("invalid bookmark name '{about}': no '#'"));
        }
        Rule::RecursiveRename => return Failure::usage("-r renames snapshots"),
        Rule::NoSnapshots => {
            return Failure::new(format!(
                "could not find any snapshots to destroy in '{about}'; check snapshot names"
            ));
        }
        Rule::OnSnapshot => {
            return Failure::new(format!("{start}: '{about}' cannot be set on snapshots"));
        }
        Rule::OnePool if doing == "rename" => "datasets must be within same pool",
        Rule::OnePool => "source and target pools differ",
        Rule::SameDataset if doing == "rename" => "snapshots must be part of same dataset",
        Rule::SameDataset => "source is not an ancestor of the new bookmark's dataset",
        Rule::HeadName => "the new name is one of a snapshot or bookmark",
        Rule::BookmarkRename => "bookmarks cannot be renamed",
        Rule::BlockSize => "'volblocksize' must be power of 2 from 512B to 128K",
        Rule::ZeroQuota => "use 'none' to disable quota/refquota",
        Rule::KeyWithoutEncryption => "keys are of use with encryption only",
        Rule::KeylocationOfPlain => "keylocation must be 'none' for unencrypted datasets",
        Rule::KeylocationOfEncrypted => "keylocation must not be 'none' for encrypted datasets",
        Rule::KeylocationBelowRoot => "keylocation may only be set on encryption roots",
        other => return Failure::new(format!("{start}: {other}")),
    };
    Failure::new(format!("{start}: {why}"))
}

/// OpenZFS's words for a refusal.
fn phrase(why: &Refusal) -> String {
    let fixed = match why {
        Refusal::Exists => "dataset already exists",
        Refusal::HasChildren(_) | Refusal::HasSnapshots(_) => "filesystem has children",
        Refusal::HasClones(_) => "snapshot has dependent clones",
        Refusal::HasYounger(_) => "more recent snapshots or bookmarks exist",
        Refusal::Held(_) | Refusal::Busy => "dataset is busy",
        Refusal::NotHeld(_) => "no such tag on this dataset",
        Refusal::NoSpace => "out of space",
        Refusal::BelowUsed(_) => "size is less than current used or reserved space",
        Refusal::AboveQuota(_) | Refusal::NoRoomFor(_) => "size is greater than available space",
        Refusal::NoProperty(p) => return format!("invalid property '{p}'"),
        Refusal::NotHere(p) => {
            return format!("'{p}' does not apply to datasets of this type");
        }
        Refusal::ReadOnly(p) => return format!("'{p}' is readonly"),
        Refusal::NotASnapshot => "not a snapshot",
        Refusal::NotOfItsPast => "source is not an ancestor of the new bookmark's dataset",
        Refusal::NotAClone => "not a cloned filesystem",
        Refusal::BelowVolume => "parent is not a filesystem",
        Refusal::PoolRoot => "operation does not apply to pools",
        Refusal::NoFeature(guid) => {
            return format!("pool must be upgraded: it does not have the feature {guid}");
        }
        other => return other.to_string(),
    };
    fixed.to_owned()
}
