//! Credentials in the file that the programs of AWS share.
//!
//! `[NAME]` begins a profile, `KEY = VALUE` stands in it. No value is ever shown: not by `Debug`,
//! not in an error.

use std::env;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// A file of credentials is no larger.
const FILE_MAX: u64 = 1 << 20;

/// A key, and what it signs with.
#[derive(PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// Those of the profile of `AWS_PROFILE`, or `default`; `None` when there is no file, or nothing
/// in it of a profile that was not asked for.
///
/// # Errors
/// The file cannot be read, or has no keys for the profile that was asked for.
pub(super) fn from_file() -> io::Result<Option<Credentials>> {
    let own = env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".aws/credentials"));
    let Some(path) = own.or_else(home) else { return Ok(None) };
    let chosen = env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty());
    let profile = chosen.as_deref().unwrap_or("default");
    let mut text = String::new();
    match std::fs::File::open(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && chosen.is_none() => return Ok(None),
        file => {
            let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            file.map_err(named)?.take(FILE_MAX).read_to_string(&mut text).map_err(named)?;
        }
    }
    let found = read(&text, profile);
    match found.is_none() && chosen.is_some() {
        true => {
            let why = format!("{} has no keys for the profile '{profile}'", path.display());
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
        false => Ok(found),
    }
}

fn read(text: &str, profile: &str) -> Option<Credentials> {
    let (mut id, mut secret, mut token) = (None, None, None);
    let mut is_ours = false;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_ours = name.trim() == profile;
        } else if is_ours && let Some((key, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned());
            match key.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => id = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(Credentials { id: id?, secret: secret?, token })
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
            let found = read(text, profile).unwrap();
            assert_eq!((found.id.as_str(), found.secret.as_str()), (id, secret));
            assert_eq!(found.token.as_deref(), token);
        };
        is("default", "A", "b=", None);
        is("other", "C", "d", Some("e"));
        assert!(read(text, "half").is_none() && read(text, "none").is_none());
    }
}
