//! Why a property of a pool is not set as a text says, and what to do.

use engine::{Error, ErrorKind as Kind, Hint, Place, Refusal, Rule};

/// The message for a setting that was not understood, and a hint.
#[must_use]
pub fn wrong(error: &Error) -> (String, Option<String>) {
    let name = match error.place() {
        Some(Place::Property(name)) => name.as_str(),
        _ => "",
    };
    let what = match error.kind() {
        Kind::Refused(Refusal::SetTwice(name)) => {
            format!("property '{name}' specified multiple times")
        }
        Kind::Refused(Refusal::NoProperty(name)) => {
            format!("property '{name}' is not a valid pool or vdev property")
        }
        Kind::Refused(Refusal::ReadOnly(name)) => format!("property '{name}' is readonly"),
        Kind::Against(Rule::NoSuchFeature) => {
            let feature = name.strip_prefix("feature@").unwrap_or(name);
            format!("invalid feature '{feature}'")
        }
        Kind::BadValue { .. } if name.starts_with("feature@") => {
            format!("property '{name}' can only be set to 'enabled' or 'disabled'")
        }
        Kind::BadValue { value, .. } if name == "altroot" => {
            let hint = "it is an absolute path".to_owned();
            return (format!("bad alternate root '{value}'"), Some(hint));
        }
        Kind::BadValue { value, .. } => {
            let hint = match error.hint() {
                Some(Hint::ChooseValue(values)) => Some(format!("it is {values}")),
                _ => None,
            };
            return (format!("bad property value '{value}' for '{name}'"), hint);
        }
        Kind::InvalidName => format!("invalid property '{name}'"),
        Kind::NameTooLong => format!("property name '{name}' is too long"),
        Kind::TooLarge => format!("property value of '{name}' is too long"),
        Kind::Unsupported => format!("property '{name}' cannot be set by zinc yet"),
        Kind::Against(Rule::Multihost) => {
            "zinc does not write the heartbeat of multihost".to_owned()
        }
        Kind::Against(rule) => crate::refusals::rule("set", *rule),
        _ => error.to_string(),
    };
    (what, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::properties::pool::parse;

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_property() {
        let message = |name: &str, value: &str| wrong(&parse(name, value).unwrap_err());
        let values = "it is <ashift, 9-16, or 0=default>".to_owned();
        assert_eq!(
            message("ashift", "8"),
            ("bad property value '8' for 'ashift'".to_owned(), Some(values))
        );
        for (name, value, what) in [
            ("size", "1", "property 'size' is readonly"),
            ("nix", "1", "property 'nix' is not a valid pool or vdev property"),
            ("feature@nix", "enabled", "invalid feature 'nix'"),
            ("altroot", "a", "bad alternate root 'a'"),
        ] {
            assert_eq!(message(name, value).0, what);
        }
    }
}
