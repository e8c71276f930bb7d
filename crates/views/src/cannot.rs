//! What cannot be done to a dataset or pool, as one message in OpenZFS's words.

use crate::exit_codes::Stage;
use crate::names::{bad_name, is_of_other_kind, no_dataset};
use crate::refusals;
use crate::{errors, hints};
use engine::{Error, ErrorKind, Hint, Place, Refusal, Rule};

/// OpenZFS's words, by which scripts learn that what they destroy is gone already.
pub const NO_SNAPSHOTS: &str = "could not find any snapshots to destroy; check snapshot names.";

/// Why a name is not a bookmark's.
pub const NO_HASH: &str = "must contain a '#'";

/// A message, and what its exit code depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cannot {
    /// What cannot be done, and mostly why.
    pub what: String,
    /// More of why.
    pub causes: Vec<String>,
    /// What to do.
    pub hint: Option<String>,
    /// Where it failed.
    pub stage: Stage,
    /// The command line is wrong.
    pub is_usage: bool,
}

impl Cannot {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    fn refused(start: &str, why: impl std::fmt::Display) -> Self {
        Self { stage: Stage::Refused, ..Self::new(format!("{start}: {why}")) }
    }

    fn usage(what: impl Into<String>) -> Self {
        Self { is_usage: true, ..Self::new(what) }
    }

    /// What cannot be done to `name`, because of this error; of an operation on several things it
    /// is the one that failed. `None`: there are no words of OpenZFS's for it.
    #[must_use]
    pub fn of(doing: &str, name: &str, error: &Error) -> Option<Self> {
        let start = start(doing, name);
        let message = match (error.kind(), error.dataset()) {
            (ErrorKind::NotFound, Some(missing)) => {
                return Some(not_found(doing, name, missing));
            }
            (ErrorKind::InvalidName, Some(bad)) if is_of_other_kind(bad) => {
                return Some(Self::refused(&start, bad_name(bad)));
            }
            (ErrorKind::InvalidName, Some(bad)) => Self::refused(&start, bad_name(bad)),
            (ErrorKind::Refused(Refusal::SetTwice(property)), _) => {
                Self::usage(format!("property '{property}' specified multiple times"))
            }
            (ErrorKind::Refused(Refusal::Exists), _) if name.contains('#') => {
                Self::refused(&start, "bookmark exists")
            }
            (ErrorKind::Refused(why), _) => refused(&start, name, error, why),
            (ErrorKind::Exists, _) if matches!(error.place(), Some(Place::Pool(_))) => {
                Self::new(format!("{start}: pool already exists"))
            }
            (ErrorKind::NotImported(why), _) => {
                let what = format!("{start}: {}", errors::not_imported(why));
                Self { causes: errors::causes(error), ..Self::new(what) }
            }
            (ErrorKind::Against(rule), _) => against(doing, &start, error, *rule),
            (ErrorKind::BadValue { property, value }, _) => {
                Self::refused(&start, refusals::bad_value(property, value, error.hint()))
            }
            (kind, _) => Self::refused(&start, refusals::of_pool(kind)?),
        };
        let hint = error.hint().filter(|hint| !lists_values(error, hint)).map(hints::text);
        Some(Self { hint: hint.or(message.hint), ..message })
    }
}

/// The beginning of such a message.
#[must_use]
pub fn start(doing: &str, name: &str) -> String {
    format!("cannot {doing} '{name}'")
}

/// The name of the dataset or property that an error is about.
fn place(error: &Error) -> Option<&str> {
    match error.place() {
        Some(Place::Dataset(name) | Place::Property(name)) => Some(name),
        _ => None,
    }
}

/// The message says all values that there are.
fn lists_values(error: &Error, hint: &Hint) -> bool {
    matches!(hint, Hint::ChooseValue(values) if refusals::are_listed(values))
        && matches!(error.kind(), ErrorKind::BadValue { .. })
}

/// These look for the file system of a snapshot first, and say which of the two is missing.
const OF_SNAPSHOTS: [&str; 4] =
    ["create snapshot", "destroy", "hold snapshot", "release hold from snapshot"];

fn not_found(doing: &str, name: &str, missing: &str) -> Cannot {
    let start = &start(doing, name);
    let parent = name.rsplit_once('/').map(|(parent, _)| parent);
    if parent == Some(missing) && !name.contains(['@', '#']) {
        let hint = Some(hints::text(&Hint::CreateParents));
        return Cannot { hint, ..Cannot::refused(start, "parent does not exist") };
    }
    // The snapshot that was named, where its file system is what is missing.
    let is_part = name.strip_prefix(missing).is_some_and(|rest| rest.starts_with(['@', '#']));
    if missing == name && doing.contains("hold") {
        return Cannot::refused(start, "dataset does not exist");
    }
    let opened = if OF_SNAPSHOTS.contains(&doing) { missing } else { name };
    match missing == name || is_part {
        true => Cannot { stage: Stage::Opening, ..Cannot::new(no_dataset(opened)) },
        // The source of a clone, or what a new name lies in.
        false => Cannot::refused(start, format!("dataset does not exist: '{missing}'")),
    }
}

fn refused(start: &str, name: &str, error: &Error, why: &Refusal) -> Cannot {
    let text = refusals::text(why);
    let about = place(error).unwrap_or(name);
    let is_denied = matches!(why, Refusal::Denied | Refusal::DelegationOff);
    let is_clear = is_denied || about == name || about == "new dataset" || text.contains(about);
    let about = if is_clear { String::new() } else { format!("'{about}': ") };
    Cannot::refused(start, format!("{about}{text}"))
}

/// A request that breaks a rule.
fn against(doing: &str, start: &str, error: &Error, rule: Rule) -> Cannot {
    let about = place(error).unwrap_or_default();
    match rule {
        Rule::SnapshotName => Cannot::usage(format!("invalid snapshot name: '{about}'")),
        Rule::BookmarkName => Cannot::usage(format!("invalid bookmark name '{about}': {NO_HASH}")),
        Rule::RecursiveRename => {
            Cannot::usage("source dataset for recursive rename must be a snapshot")
        }
        Rule::NoSnapshots => {
            let causes = vec![format!("'{about}' has no snapshot of such a name")];
            Cannot { causes, ..Cannot::new(NO_SNAPSHOTS) }
        }
        Rule::OnSnapshot => Cannot::refused(start, format!("'{about}' cannot be set on snapshots")),
        Rule::OutsideSet | Rule::UnwrittenFeature => {
            let feature = about.trim_start_matches("feature@");
            let why = refusals::rule(doing, rule);
            Cannot::refused(start, format!("cannot enable '{feature}': {why}"))
        }
        other => Cannot::refused(start, refusals::rule(doing, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_from_what_something_new_would_lie_in() {
        let of = |doing: &str, name: &str, missing: &str| {
            let error = Error::new(ErrorKind::NotFound).at(Place::Dataset(missing.to_owned()));
            Cannot::of(doing, name, &error)
                .map(|message| (message.what, message.stage, message.hint.is_some()))
        };
        let none = ("cannot open 'p/a': dataset does not exist".to_owned(), Stage::Opening, false);
        assert_eq!(of("destroy", "p/a", "p/a"), Some(none.clone()));
        assert_eq!(of("destroy", "p/a@s", "p/a"), Some(none.clone()));
        assert_eq!(of("hold snapshot", "p/a@s", "p/a"), Some(none));
        let held = "cannot hold snapshot 'p/a@s': dataset does not exist".to_owned();
        assert_eq!(of("hold snapshot", "p/a@s", "p/a@s"), Some((held, Stage::Refused, false)));
        let whole =
            ("cannot open 'p/a@s': dataset does not exist".to_owned(), Stage::Opening, false);
        assert_eq!(of("rollback to", "p/a@s", "p/a"), Some(whole));
        let parent = "cannot create 'p/a/b': parent does not exist".to_owned();
        assert_eq!(of("create", "p/a/b", "p/a"), Some((parent, Stage::Refused, true)));
        let origin = "cannot clone 'p/c': dataset does not exist: 'p/a@s'".to_owned();
        assert_eq!(of("clone", "p/c", "p/a@s"), Some((origin, Stage::Refused, false)));
        assert_eq!(Cannot::of("open", "p", &Error::new(ErrorKind::InUse)), None);
    }
}
