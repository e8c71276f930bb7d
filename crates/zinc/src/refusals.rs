//! Why something cannot be done to a dataset or pool, in OpenZFS's words.

use crate::failure::Failure;
use engine::{Error, ErrorKind, Hint, Place, Refusal, Rule};
use views::exit_codes::Stage;
use views::names::{bad_name, is_of_other_kind, no_dataset};
use views::refusals;

/// OpenZFS's words, by which scripts learn that what they destroy is gone already.
pub const NO_SNAPSHOTS: &str = "could not find any snapshots to destroy; check snapshot names.";

/// `cannot DOING 'NAME': …`; of an operation on several things, `NAME` is the one that failed.
pub fn cannot(doing: &str, name: &str, error: impl Into<Error>) -> Failure {
    let error = error.into();
    let name = error.operand().unwrap_or(name);
    let start = format!("cannot {doing} '{name}'");
    let failure = match (error.kind(), error.dataset()) {
        (ErrorKind::NotFound, Some(missing)) => return not_found(&start, name, missing),
        (ErrorKind::InvalidName, Some(bad)) if is_of_other_kind(bad) => {
            return Failure::refused(&start, bad_name(bad));
        }
        (ErrorKind::InvalidName, Some(bad)) => Failure::refused(&start, bad_name(bad)),
        (ErrorKind::Refused(Refusal::SetTwice(property)), _) => {
            Failure::usage(format!("property '{property}' specified multiple times"))
        }
        (ErrorKind::Refused(why), _) => refused(&start, name, &error, why),
        (ErrorKind::Exists, _) if matches!(error.place(), Some(Place::Pool(_))) => {
            Failure::new(format!("{start}: pool already exists"))
        }
        (ErrorKind::NotImported(why), _) => {
            let failure = Failure::new(format!("{start}: {}", views::errors::not_imported(why)));
            views::errors::causes(&error).into_iter().fold(failure, Failure::because)
        }
        (ErrorKind::Against(rule), _) => against(doing, &start, &error, *rule),
        (ErrorKind::BadValue { property, value }, _) => {
            let why = refusals::bad_value(property, value, error.hint());
            Failure::refused(&start, why)
        }
        _ => return Failure::from(error).about(&start),
    };
    match error.hint() {
        Some(hint) if !lists_values(&error, hint) => failure.hint(views::hints::text(hint)),
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
fn lists_values(error: &Error, hint: &Hint) -> bool {
    matches!(hint, Hint::ChooseValue(values) if refusals::are_listed(values))
        && matches!(error.kind(), ErrorKind::BadValue { .. })
}

fn not_found(start: &str, name: &str, missing: &str) -> Failure {
    let parent = name.rsplit_once('/').map(|(parent, _)| parent);
    if parent == Some(missing) && !name.contains(['@', '#']) {
        let hint = views::hints::text(&Hint::CreateParents);
        return Failure::refused(start, "parent does not exist").hint(hint);
    }
    // The snapshot that was named, where its file system is what is missing.
    let is_part = name.strip_prefix(missing).is_some_and(|rest| rest.starts_with(['@', '#']));
    match missing == name || is_part {
        true => Failure::new(no_dataset(name)).at(Stage::Opening),
        // The source of a clone, or what a new name lies in.
        false => Failure::refused(start, format!("dataset does not exist: '{missing}'")),
    }
}

fn refused(start: &str, name: &str, error: &Error, why: &Refusal) -> Failure {
    let text = refusals::text(why);
    let about = place(error).unwrap_or(name);
    let is_denied = matches!(why, Refusal::Denied | Refusal::DelegationOff);
    let is_clear = is_denied || about == name || about == "new dataset" || text.contains(about);
    let about = if is_clear { String::new() } else { format!("'{about}': ") };
    Failure::refused(start, format!("{about}{text}"))
}

/// A request that breaks a rule.
fn against(doing: &str, start: &str, error: &Error, rule: Rule) -> Failure {
    let about = place(error).unwrap_or_default();
    match rule {
        Rule::SnapshotName => Failure::usage(format!("invalid snapshot name: '{about}'")),
        Rule::BookmarkName => Failure::usage(format!("invalid bookmark name '{about}': no '#'")),
        Rule::RecursiveRename => Failure::usage("-r renames snapshots"),
        Rule::NoSnapshots => {
            Failure::new(NO_SNAPSHOTS).because(format!("'{about}' has no snapshot of such a name"))
        }
        Rule::OnSnapshot => {
            Failure::refused(start, format!("'{about}' cannot be set on snapshots"))
        }
        Rule::OutsideSet | Rule::UnwrittenFeature => {
            let feature = about.trim_start_matches("feature@");
            let why = refusals::rule(doing, rule);
            Failure::refused(start, format!("cannot enable '{feature}': {why}"))
        }
        other => Failure::refused(start, refusals::rule(doing, other)),
    }
}
