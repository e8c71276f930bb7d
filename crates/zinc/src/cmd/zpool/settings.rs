//! Pool properties as they are set: `-o ashift=12 -o comment=text -o feature@x=enabled`.

use crate::failure::Failure;
use crate::known;
use crate::session::Session;
use engine::LivePool;
use engine::config::{NvList, NvValue};
use engine::features;
use engine::live::PropertyWord;
use engine::props;
use engine::props::Kind;
use imported::{Cachefile, Known};
use std::collections::BTreeSet;

/// A setting that was understood.
#[derive(Debug, PartialEq, Eq)]
pub enum Setting {
    /// A property that the pool stores.
    Stored(&'static str, PropertyWord),
    /// A property that users invented.
    User(String, PropertyWord),
    /// log2 of the sector size of new vdevs; 0 is "as the devices say".
    Ashift(u32),
    /// The feature of that name is enabled, or left out.
    Feature(String, bool),
    /// Where the pool is remembered.
    Cachefile(Cachefile),
    /// The folder below which its mount points are shown.
    Altroot(String),
    /// The pool is only to be read.
    ReadOnly(bool),
}

impl Setting {
    /// Puts it into a pool, when it is one that the pool stores.
    pub fn store(self, pool: &LivePool) -> engine::Result<()> {
        match self {
            Self::Stored(name, word) => pool.set_pool_property(name, word)?,
            Self::User(name, word) => pool.set_pool_property(&name, word)?,
            Self::Ashift(n) => pool.set_pool_property("ashift", ashift_word(n))?,
            Self::Feature(..) | Self::Cachefile(_) | Self::Altroot(_) | Self::ReadOnly(_) => {}
        }
        Ok(())
    }
}

/// Divides `name=value`.
pub fn divide(text: &str) -> Result<(&str, &str), Failure> {
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("missing '=' for property=value argument: {text:?}")))
}

/// Reads all of a command line; a property is given once.
pub fn parse_all(doing: &str, texts: &[String]) -> Result<Vec<Setting>, Failure> {
    let mut names = BTreeSet::new();
    for text in texts {
        let (name, _) = divide(text)?;
        let name = props::find_pool(name).map_or(name, |p| p.name);
        if !names.insert(name) {
            let what = format!("{doing}: property '{name}' specified multiple times");
            return Err(Failure::new(what));
        }
    }
    texts.iter().map(|text| parse(doing, text)).collect()
}

/// Reads one `name=value`; `doing` begins the message when it is malformed.
pub fn parse(doing: &str, text: &str) -> Result<Setting, Failure> {
    let (name, value) = divide(text)?;
    let fail = |why: String| Failure::new(format!("{doing}: {why}"));
    if let Some(feature) = name.strip_prefix("feature@") {
        if features::by_name(feature).is_none() {
            return Err(fail(format!("invalid feature '{feature}'")));
        }
        return match value {
            "enabled" => Ok(Setting::Feature(feature.to_owned(), true)),
            "disabled" => Ok(Setting::Feature(feature.to_owned(), false)),
            _ => Err(fail(format!("property '{name}' can only be set to 'enabled' or 'disabled'"))),
        };
    }
    if name.contains(':') {
        return user(name, value).map_err(fail);
    }
    let Some(p) = props::find_pool(name) else {
        return Err(fail(format!("property '{name}' is not a valid pool or vdev property")));
    };
    let bad = || {
        let what = format!("bad property value '{value}' for '{name}'");
        Failure::new(format!("{doing}: {what}")).hint(format!("it is {}", p.values))
    };
    match p.name {
        "ashift" => {
            let n: u32 = value.parse().map_err(|_| bad())?;
            if n != 0 && !(9..=16).contains(&n) {
                return Err(bad());
            }
            return Ok(Setting::Ashift(n));
        }
        "cachefile" => {
            return Cachefile::parse(value).map(Setting::Cachefile).ok_or_else(|| {
                fail(format!("cachefile property '{value}' is invalid"))
                    .hint("it is an absolute path, or 'none', or nothing for the usual file")
            });
        }
        "altroot" => return altroot(doing, value).map(Setting::Altroot),
        "readonly" if !matches!(value, "on" | "off") => return Err(bad()),
        "readonly" => return Ok(Setting::ReadOnly(value == "on")),
        "comment" if value.len() > 32 => {
            return Err(fail("comment must not exceed 32 characters".to_owned()));
        }
        "compatibility" if !matches!(value, "off" | "legacy") => {
            return Err(fail("zinc reads no compatibility files".to_owned())
                .hint("enable the features you want with -d -o feature@NAME=enabled"));
        }
        "multihost" if value == "on" => {
            return Err(fail("zinc does not write the heartbeat of multihost".to_owned()));
        }
        "bootfs" | "version" | "dedup_table_quota" | "dedupditto" => {
            return Err(fail(format!("property '{name}' cannot be set by zinc yet")));
        }
        _ => {}
    }
    if p.is_fixed() {
        return Err(fail(format!("property '{name}' is readonly")));
    }
    let word = match p.kind {
        Kind::Index(..) => PropertyWord::Number(p.number(value).ok_or_else(bad)?),
        Kind::Number(_) => PropertyWord::Number(value.parse().map_err(|_| bad())?),
        Kind::Text(_) => PropertyWord::Text(value.to_owned()),
    };
    Ok(Setting::Stored(p.name, word))
}

/// `ashift` as a pool stores it.
pub fn ashift_word(n: u32) -> PropertyWord {
    PropertyWord::Number(u64::from(n))
}

/// Longest name and value of a property that users invented, in bytes.
const USER_NAME_MAX: usize = 255;
const USER_VALUE_MAX: usize = 8191;

fn user(name: &str, value: &str) -> Result<Setting, String> {
    if !props::is_user_property(name) {
        return Err(format!("invalid property '{name}'"));
    }
    if name.len() > USER_NAME_MAX {
        return Err(format!("property name '{name}' is too long"));
    }
    if value.len() > USER_VALUE_MAX {
        return Err(format!("property value of '{name}' is too long"));
    }
    Ok(Setting::User(name.to_owned(), PropertyWord::Text(value.to_owned())))
}

/// Reads the folder below which mount points are shown.
pub fn altroot(doing: &str, path: &str) -> Result<String, Failure> {
    match path.starts_with('/') {
        true => Ok(path.to_owned()),
        false => Err(Failure::new(format!("{doing}: bad alternate root '{path}'"))
            .hint("it is an absolute path")),
    }
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
        let mut cachefile = None;
        out.altroot = root.map(|root| altroot(doing, root)).transpose()?;
        for setting in settings {
            match setting {
                Setting::Altroot(path) => out.altroot = Some(path.clone()),
                Setting::Cachefile(place) => cachefile = Some(place.clone()),
                Setting::ReadOnly(readonly) => out.readonly = *readonly,
                _ => {}
            }
        }
        let is_passing = is_passing || out.altroot.is_some();
        let usual = if is_passing { Cachefile::None } else { Cachefile::Usual };
        out.cachefile = cachefile.unwrap_or(usual);
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
    fn what_can_be_set() {
        let ok = |text: &str| parse("x", text).ok();
        let stored = |name, n| Some(Setting::Stored(name, PropertyWord::Number(n)));
        assert_eq!(ok("autotrim=on"), stored("autotrim", 1));
        assert_eq!(ok("failmode=panic"), stored("failmode", 2));
        assert_eq!(ok("ashift=13"), Some(Setting::Ashift(13)));
        assert_eq!(
            ok("feature@blake3=disabled"),
            Some(Setting::Feature("blake3".to_owned(), false))
        );
        for bad in ["ashift=8", "size=1", "nix=1", "failmode=x", "feature@nix=enabled", "x", "=1"] {
            assert!(ok(bad).is_none(), "{bad}");
        }
    }
}
