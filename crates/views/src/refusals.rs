//! Why a dataset or property cannot be changed, in the words of OpenZFS, which scripts look for.

use crate::exit_codes::Stage;
use crate::names;
use engine::datasets::pool_of;
use engine::pool_refusals::{Ongoing, PoolRefusal};
use engine::pools::PoolNameFault;
use engine::{DatasetKind, ErrorKind, Hint, Refusal, Rule};
use std::ffi::OsString;

/// Longest name and value of a property that users invented, in bytes.
const NAME_MAX: usize = 255;
const VALUE_MAX: usize = 8191;
/// This many characters of a name or value are repeated in a message.
const SHOWN_MAX: usize = 64;

/// The end of the values of a property that has powers of 2.
const POWERS: &str = ", power of 2";

/// Whether [`bad_value`] says which values are good, when these are.
#[must_use]
pub fn are_listed(values: &str) -> bool {
    values.contains('|') || values.ends_with(POWERS)
}

/// The message for a value that is refused; the hint may have the possible values.
#[must_use]
pub fn bad_value(name: &str, value: &str, hint: Option<&Hint>) -> String {
    let short = |text: &str| match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    match hint {
        _ if name == "mountpoint" && value.starts_with('/') && value.len() <= VALUE_MAX => {
            "component of 'mountpoint' is too long".to_owned()
        }
        _ if name == "mountpoint" && value.len() <= VALUE_MAX => {
            "'mountpoint' must be an absolute path, 'none', or 'legacy'".to_owned()
        }
        Some(Hint::ChooseValue(values)) if values.contains('|') => {
            format!("'{name}' must be one of '{values}'")
        }
        Some(Hint::ChooseValue(values)) if values.ends_with(POWERS) => {
            format!("'{name}' must be a power of 2 from {}", values.trim_end_matches(POWERS))
        }
        None if name.len() > NAME_MAX => format!("property name '{}' is too long", short(name)),
        None if value.len() > VALUE_MAX => format!("property value of '{name}' is too long"),
        _ => format!("bad value '{}' for '{name}'", short(value)),
    }
}

/// Message and cause for an unknown pool, in the words of the command that was run, and the stage
/// at which it fails.
#[must_use]
pub fn no_pool(arguments: &[OsString], name: &str) -> (String, Option<String>, Stage) {
    let pool = pool_of(name);
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str());
    let why = format!("no such pool: '{pool}' is not imported");
    match (word(1), word(2)) {
        (Some("zfs"), Some("create")) => {
            (format!("cannot create '{name}': no such pool '{pool}'"), None, Stage::Refused)
        }
        (Some("zfs"), _) => (names::no_dataset(name), Some(why), Stage::Opening),
        (Some("zpool"), Some("get")) => {
            let what = format!("Cannot get properties of {pool}: no such pool available.");
            (what, None, Stage::Opening)
        }
        (Some("zpool"), Some("set")) => {
            (format!("cannot open '{pool}': is not a pool"), None, Stage::Opening)
        }
        (Some("zpool"), _) if pool.is_empty() => {
            let fault = names::bad_pool_name(PoolNameFault::FirstCharacter);
            (format!("cannot open '': {fault}"), None, Stage::Opening)
        }
        _ => (format!("cannot open '{pool}': no such pool"), None, Stage::Opening),
    }
}

/// The message for a request that breaks a rule; `doing` is the verb.
#[must_use]
pub fn rule(doing: &str, rule: Rule) -> String {
    let fixed = match rule {
        Rule::OnePool if doing == "rename" => "datasets must be within same pool",
        Rule::OnePool => "source and target pools differ",
        Rule::SameDataset if doing == "rename" => "snapshots must be part of same dataset",
        Rule::SameDataset => "source is not an ancestor of the new bookmark's dataset",
        Rule::HeadName => "the new name is one of a snapshot or bookmark",
        Rule::BookmarkRename => "bookmarks cannot be renamed",
        Rule::BlockSize => "'volblocksize' must be power of 2 from 512B to 128K",
        Rule::ZeroQuota => "use 'none' to disable quota/refquota",
        Rule::NamesOfBytes => "'utf8only' must be set 'on' if normalization chosen",
        Rule::KeyOfClone => "Encryption properties must inherit from origin dataset.",
        Rule::KeyWithoutEncryption => "Encryption must be turned on to set encryption properties.",
        Rule::NoKeyFormat => "Keyformat required for new encryption root.",
        Rule::FewRounds => "minimum pbkdf2 iterations is 100000",
        Rule::RoundsOfKey => "pbkdf2iters may only be set with keyformat=passphrase.",
        Rule::KeylocationOfPlain => "keylocation must be 'none' for unencrypted datasets",
        Rule::KeylocationOfEncrypted => "keylocation must not be 'none' for encrypted datasets",
        Rule::KeylocationBelowRoot => "keylocation may only be set on encryption roots",
        Rule::NoTopLevel => "at least one toplevel vdev must be specified",
        Rule::SectorSize => "adding devices with different physical sector sizes is not allowed",
        Rule::Comment => "comment must not exceed 32 characters",
        Rule::UnwrittenFeature => {
            "zinc does not write it, and it is active as soon as it is enabled"
        }
        Rule::OutsideSet => "it is not in the pool's compatibility set",
        other => return other.to_string(),
    };
    fixed.to_owned()
}

/// Why something is not done to a pool as it is, where its name was said before.
#[must_use]
pub fn of_pool(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::CheckpointExists => "checkpoint exists",
        ErrorKind::NoCheckpoint => "checkpoint does not exist",
        ErrorKind::CheckpointDiscarding => "currently discarding checkpoint",
        _ => return None,
    })
}

/// Why a scrub is not begun, paused or ended, where the pool was named before.
#[must_use]
pub fn of_scrub(kind: &ErrorKind) -> Option<&'static str> {
    let ErrorKind::PoolRefused(PoolRefusal::Ongoing(what)) = kind else { return None };
    Some(match what {
        Ongoing::Scrub => "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
        Ongoing::PausedScrub => "scrub is paused; use 'zpool scrub' to resume scrub",
        _ => return None,
    })
}

/// The text of a refusal.
#[must_use]
pub fn text(why: &Refusal) -> String {
    let fixed = match why {
        Refusal::Exists => "dataset already exists",
        Refusal::HasSnapshots(DatasetKind::Volume, _) => "volume has children",
        Refusal::HasChildren(_) | Refusal::HasSnapshots(..) => "filesystem has children",
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
        Refusal::SeveralOfOne => "multiple snapshots of same fs not allowed",
        Refusal::NewerVersion(n) => {
            return format!("can not be downgraded; it is already at version {n}");
        }
        Refusal::DelegationOff => "delegated administration is disabled on pool",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_named_or_shortened() {
        let choice = Hint::ChooseValue("on | off");
        assert_eq!(bad_value("atime", "x", Some(&choice)), "'atime' must be one of 'on | off'");
        let power = Hint::ChooseValue("512 to 16M, power of 2");
        let message = "'recordsize' must be a power of 2 from 512 to 16M";
        assert_eq!(bad_value("recordsize", "3K", Some(&power)), message);
        let number = Hint::ChooseValue("a size");
        assert_eq!(bad_value("quota", "x", Some(&number)), "bad value 'x' for 'quota'");
        let long = bad_value("quota", &"é".repeat(100), None);
        assert_eq!(long, format!("bad value '{}…' for 'quota'", "é".repeat(SHOWN_MAX)));
        assert!(bad_value(&"a:".repeat(200), "x", None).ends_with("…' is too long"));
        assert!(bad_value("mountpoint", "a", Some(&choice)).contains("an absolute path"));
        assert!(bad_value("mountpoint", "/a", Some(&choice)).contains("is too long"));
    }

    #[test]
    fn a_rule_is_worded_for_its_verb() {
        assert_ne!(rule("rename", Rule::OnePool), rule("create", Rule::OnePool));
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let message = |line: &str| no_pool(&words(line), "p/a").0;
        assert_eq!(message("zinc zfs list p/a"), "cannot open 'p/a': dataset does not exist");
        assert_eq!(message("zinc zfs create p/a"), "cannot create 'p/a': no such pool 'p'");
        assert_eq!(message("zinc ls p/a"), "cannot open 'p': no such pool");
        let get = "Cannot get properties of p: no such pool available.";
        assert_eq!(message("zinc zpool get all p"), get);
        assert_eq!(message("zinc zpool set a=b p"), "cannot open 'p': is not a pool");
        let nameless = no_pool(&words("zinc zpool detach"), "").0;
        assert_eq!(nameless, "cannot open '': name must begin with a letter");
        assert_eq!(text(&Refusal::NoProperty("x".to_owned())), "invalid property 'x'");
    }
}
