//! Pool properties as they are set: `-o ashift=12 -o comment=text -o feature@x=enabled`.

use crate::args::divide;
use crate::failure::Failure;
use crate::known;
use crate::session::Session;
use engine::config::{NvList, NvValue};
use engine::properties::pool;
pub use engine::properties::pool::Setting;
use engine::{Error, ErrorKind as Kind, Hint, Place, Refusal, Rule};
use imported::{Cachefile, Known};

/// Reads all of a command line; a property is given once. `doing` begins the message when one is
/// malformed.
pub fn parse_all(doing: &str, texts: &[String]) -> Result<Vec<Setting>, Failure> {
    let settings = texts.iter().map(|text| divide(text)).collect::<Result<Vec<_>, _>>()?;
    pool::parse_all(settings).map_err(|e| wrong(doing, &e))
}

/// Reads one `name=value`.
pub fn parse(doing: &str, text: &str) -> Result<Setting, Failure> {
    let (name, value) = divide(text)?;
    pool::parse(name, value).map_err(|e| wrong(doing, &e))
}

/// Why a property is not set so, and what to do.
fn wrong(doing: &str, error: &Error) -> Failure {
    let name = match error.place() {
        Some(Place::Property(name)) => name.as_str(),
        _ => "",
    };
    let fail = |why: String| Failure::new(format!("{doing}: {why}"));
    match error.kind() {
        Kind::Refused(Refusal::SetTwice(name)) => {
            fail(format!("property '{name}' specified multiple times"))
        }
        Kind::Refused(Refusal::NoProperty(name)) => {
            fail(format!("property '{name}' is not a valid pool or vdev property"))
        }
        Kind::Refused(Refusal::ReadOnly(name)) => fail(format!("property '{name}' is readonly")),
        Kind::Against(Rule::NoSuchFeature) => {
            let feature = name.strip_prefix("feature@").unwrap_or(name);
            fail(format!("invalid feature '{feature}'"))
        }
        Kind::BadValue { .. } if name.starts_with("feature@") => {
            fail(format!("property '{name}' can only be set to 'enabled' or 'disabled'"))
        }
        Kind::BadValue { value, .. } if name == "altroot" => no_altroot(doing, value),
        Kind::BadValue { value, .. } => {
            let failure = fail(format!("bad property value '{value}' for '{name}'"));
            match error.hint() {
                Some(Hint::ChooseValue(values)) => failure.hint(format!("it is {values}")),
                _ => failure,
            }
        }
        Kind::InvalidName => fail(format!("invalid property '{name}'")),
        Kind::NameTooLong => fail(format!("property name '{name}' is too long")),
        Kind::TooLarge => fail(format!("property value of '{name}' is too long")),
        Kind::Unsupported => fail(format!("property '{name}' cannot be set by zinc yet")),
        Kind::Against(Rule::Compatibility) => fail("zinc reads no compatibility files".to_owned())
            .hint("enable the features you want with -d -o feature@NAME=enabled"),
        Kind::Against(Rule::Multihost) => {
            fail("zinc does not write the heartbeat of multihost".to_owned())
        }
        Kind::Against(rule) => fail(rule.to_string()),
        _ => fail(error.to_string()),
    }
}

/// Where the pool is remembered, by the value of `cachefile`.
pub fn cachefile(doing: &str, value: &str) -> Result<Cachefile, Failure> {
    Cachefile::parse(value).ok_or_else(|| {
        Failure::new(format!("{doing}: cachefile property '{value}' is invalid"))
            .hint("it is an absolute path, or 'none', or nothing for the usual file")
    })
}

/// Reads the folder below which mount points are shown.
pub fn altroot(doing: &str, path: &str) -> Result<String, Failure> {
    match path.starts_with('/') {
        true => Ok(path.to_owned()),
        false => Err(no_altroot(doing, path)),
    }
}

fn no_altroot(doing: &str, path: &str) -> Failure {
    Failure::new(format!("{doing}: bad alternate root '{path}'")).hint("it is an absolute path")
}

/// What is remembered of an import, apart from the pool itself.
#[derive(Default)]
pub struct Remembered {
    pub altroot: Option<String>,
    pub cachefile: Cachefile,
    pub readonly: bool,
}

impl Remembered {
    /// As these settings say, `-R ROOT`, and whether the pool's name is for this time only: what
    /// only holds for now is not remembered for ever, unless that is asked for.
    pub fn of(
        doing: &str,
        settings: &[Setting],
        root: Option<&str>,
        is_passing: bool,
    ) -> Result<Self, Failure> {
        let mut out = Self::default();
        let mut place = None;
        out.altroot = root.map(|root| altroot(doing, root)).transpose()?;
        for setting in settings {
            match setting {
                Setting::Altroot(path) => out.altroot = Some(path.clone()),
                Setting::Cachefile(text) => place = Some(cachefile(doing, text)?),
                Setting::ReadOnly(readonly) => out.readonly = *readonly,
                _ => {}
            }
        }
        let is_passing = is_passing || out.altroot.is_some();
        let usual = if is_passing { Cachefile::None } else { Cachefile::Usual };
        out.cachefile = place.unwrap_or(usual);
        Ok(out)
    }

    /// Remembers a pool of this configuration under this name; `doing` begins the message when that
    /// fails.
    pub fn remember(
        &self,
        session: &Session,
        doing: &str,
        mut config: NvList,
        name: &str,
    ) -> Result<(), Failure> {
        config.set("name", NvValue::String(name.as_bytes().to_vec()));
        // A configuration that was just made can be read.
        let Some(known) = Known::new(config) else { return Ok(()) };
        let known = known.marked(self.altroot.as_deref(), self.readonly);
        let fail = |why: imported::Error| known::not_remembered(doing, &self.cachefile, &why);
        known::pools(session).remember(&known, &self.cachefile).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_in_the_words_of_the_property() {
        let said = |text: &str| {
            let failure = parse("cannot", text).unwrap_err();
            let (what, _, hint) = failure.parts();
            (what.to_owned(), hint.map(str::to_owned))
        };
        let bad = "cannot: bad property value '8' for 'ashift'";
        let values = "it is <ashift, 9-16, or 0=default>";
        assert_eq!(said("ashift=8"), (bad.to_owned(), Some(values.to_owned())));
        for (text, what) in [
            ("size=1", "cannot: property 'size' is readonly"),
            ("nix=1", "cannot: property 'nix' is not a valid pool or vdev property"),
            ("feature@nix=enabled", "cannot: invalid feature 'nix'"),
            ("altroot=a", "cannot: bad alternate root 'a'"),
        ] {
            assert_eq!(said(text).0, what);
        }
        for bad in ["failmode=x", "x", "=1"] {
            assert!(parse("x", bad).is_err(), "{bad}");
        }
    }
}
