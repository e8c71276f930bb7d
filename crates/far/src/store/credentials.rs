//! What the two files say that the programs of AWS share: keys in `~/.aws/credentials`, and keys,
//! the region and the address of the server in `~/.aws/config`.
//!
//! `[NAME]` begins a profile, in the second file `[profile NAME]`; `KEY = VALUE` stands in it. What
//! is indented belongs to the key above and is left alone. No value of a key is ever shown: not by
//! `Debug`, not in an error.

use std::env;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// Such a file is no larger.
const FILE_MAX: u64 = 1 << 20;

/// A key, and what it signs with.
#[derive(PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// Where a profile has its buckets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) name: Option<String>,
    pub(super) endpoint: Option<String>,
}

/// The name in `AWS_PROFILE`, if there is one.
fn chosen() -> Option<String> {
    env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty())
}

/// The file that a variable names, or else this one of the user's; what is in it, if it is there.
fn file(variable: &str, usual: &str) -> io::Result<Option<(PathBuf, String)>> {
    let own = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(usual));
    let Some(path) = own.or_else(home) else { return Ok(None) };
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let mut text = String::new();
    match std::fs::File::open(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(named)?.take(FILE_MAX).read_to_string(&mut text).map_err(named)?,
    };
    Ok(Some((path, text)))
}

fn keys_file() -> io::Result<Option<(PathBuf, String)>> {
    file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")
}

fn config_file() -> io::Result<Option<(PathBuf, String)>> {
    file("AWS_CONFIG_FILE", ".aws/config")
}

/// How a profile is called in the second file.
fn in_config(profile: &str) -> String {
    if profile == "default" { profile.to_owned() } else { format!("profile {profile}") }
}

/// The keys of the profile of `AWS_PROFILE`, or `default`; `None` when there is none of a profile
/// that was not asked for.
///
/// # Errors
/// A file cannot be read, or there are no keys for the profile that was asked for.
pub(super) fn from_files() -> io::Result<Option<Credentials>> {
    let chosen = chosen();
    let profile = chosen.as_deref().unwrap_or("default");
    let (keys, config) = (keys_file()?, config_file()?);
    let of = |file: &Option<(PathBuf, String)>, name: &str| keys_of(&file.as_ref()?.1, name);
    let found = of(&keys, profile).or_else(|| of(&config, &in_config(profile)));
    if found.is_some() || chosen.is_none() {
        return Ok(found);
    }
    let places: Vec<String> =
        keys.iter().chain(&config).map(|(path, _)| path.display().to_string()).collect();
    let why = match places.is_empty() {
        true => format!("there is no file with keys for the profile '{profile}'"),
        false => format!("{} has no keys for the profile '{profile}'", places.join(" or ")),
    };
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// Where the same profile has its buckets.
///
/// # Errors
/// The file cannot be read.
pub(super) fn region() -> io::Result<Region> {
    let profile = chosen().unwrap_or_else(|| "default".to_owned());
    Ok(config_file()?.map_or_else(Region::default, |(_, text)| region_of(&text, &profile)))
}

fn region_of(text: &str, profile: &str) -> Region {
    let name = in_config(profile);
    let value = |key| values(text, &name).filter(|(found, _)| found == key).last();
    Region { name: value("region").map(|v| v.1), endpoint: value("endpoint_url").map(|v| v.1) }
}

fn keys_of(text: &str, profile: &str) -> Option<Credentials> {
    let (mut id, mut secret, mut token) = (None, None, None);
    for (key, value) in values(text, profile) {
        match key.as_str() {
            "aws_access_key_id" => id = Some(value),
            "aws_secret_access_key" => secret = Some(value),
            "aws_session_token" => token = Some(value),
            _ => {}
        }
    }
    Some(Credentials { id: id?, secret: secret?, token })
}

/// What stands in a profile: keys in small letters, and their values.
fn values(text: &str, profile: &str) -> impl Iterator<Item = (String, String)> {
    let mut is_ours = false;
    let lines = text.lines().filter(|line| !line.starts_with(['#', ';']));
    lines.filter_map(move |line| {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_ours = name.split_whitespace().eq(profile.split_whitespace());
            return None;
        }
        let (key, value) = trimmed.split_once('=').filter(|_| is_ours && !is_nested(line))?;
        Some((key.trim().to_ascii_lowercase(), value.trim().to_owned()))
    })
}

fn is_nested(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_profile() {
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=b=\n\n\
                    [ other ]\naws_access_key_id=C\nAWS_SECRET_ACCESS_KEY = d\n\
                    aws_session_token = e\n[half]\naws_access_key_id = F\n";
        let is = |profile: &str, id: &str, secret: &str, token: Option<&str>| {
            let found = keys_of(text, profile).unwrap();
            assert_eq!((found.id.as_str(), found.secret.as_str()), (id, secret));
            assert_eq!(found.token.as_deref(), token);
        };
        is("default", "A", "b=", None);
        is("other", "C", "d", Some("e"));
        assert!(keys_of(text, "half").is_none() && keys_of(text, "none").is_none());
    }

    #[test]
    fn a_region_is_that_of_the_profile() {
        let text = "[default]\nregion = one\n[profile  other]\nregion=two\ns3 =\n  region = no\n\
                    endpoint_url = http://here:9000\n[other]\nregion = none\n";
        let is = |profile: &str, name: Option<&str>, endpoint: Option<&str>| {
            let found = region_of(text, profile);
            assert_eq!((found.name.as_deref(), found.endpoint.as_deref()), (name, endpoint));
        };
        is("default", Some("one"), None);
        is("other", Some("two"), Some("http://here:9000"));
        is("none", None, None);
    }
}
