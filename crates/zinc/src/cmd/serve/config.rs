//! The file of `zinc serve --config`: options that a unit should not carry on its command line.
//!
//! ```text
//! # for all pools
//! http = 127.0.0.1:9134
//! mount
//! tunable = zfs_txg_timeout=10
//!
//! [backup]
//! cache-mib = 1024
//! ```
//!
//! A line is a long option of `zinc serve`, without its dashes. Those below the name of a pool in
//! brackets are for that pool alone, and count more; what stands on the command line counts most.

use super::Args;
use crate::failure::Failure;
use crate::session::Session;
use clap::{Args as _, FromArgMatches as _};
use engine::devices::open_input;
use std::ffi::OsString;
use std::path::Path;

/// Largest file that is read, in bytes.
const SIZE_MAX: usize = 1 << 20;
/// Options that say what a file has to do with the process, and not how pools are served.
const FOREIGN: [&str; 8] =
    ["config", "all", "skip", "background", "log", "part", "serve-now", "help"];

/// A line: its number, the section that it is in, and the option that it is.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    number: usize,
    pool: Option<String>,
    word: String,
}

/// The arguments of this command line with those of the file in front; `pool` is the pool that is
/// served, when it is one.
pub fn read(session: &Session, path: &Path, pool: Option<&str>) -> Result<Args, Failure> {
    let shown = path.display();
    let text = open_input(&session.path(path))
        .and_then(std::io::read_to_string)
        .map_err(|e| Failure::new(format!("cannot read {shown}")).because(e.to_string()))?;
    let at =
        |(number, why): (usize, String)| Failure::usage(format!("{shown}, line {number}: {why}"));
    let lines = parse(&text).map_err(at)?;
    for line in &lines {
        check(line).map_err(at)?;
    }
    let general = lines.iter().filter(|line| line.pool.is_none());
    let own = lines.iter().filter(|line| line.pool.is_some() && line.pool.as_deref() == pool);
    let words = general.chain(own).map(|line| OsString::from(&line.word));
    let typed = session.arguments().iter().skip_while(|word| *word != "serve").skip(1).cloned();
    parsed(words.chain(typed)).map_err(|e| Failure::usage(first_line(&e)))
}

fn parsed(words: impl Iterator<Item = OsString>) -> Result<Args, clap::Error> {
    let command = clap::Command::new("serve").args_override_self(true);
    let command = Args::augment_args(command);
    let words = std::iter::once(OsString::from("serve")).chain(words);
    Args::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// What clap says, without its word for errors and its advice.
fn first_line(e: &clap::Error) -> String {
    let text = e.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Whether it is an option alone, whatever the others are.
fn check(line: &Line) -> Result<(), (usize, String)> {
    let words = [line.word.as_str(), "pool"].map(OsString::from);
    let done = parsed(words.into_iter());
    done.map(drop).map_err(|e| (line.number, first_line(&e)))
}

fn parse(text: &str) -> Result<Vec<Line>, (usize, String)> {
    if text.len() > SIZE_MAX {
        return Err((1, format!("the file has more than {SIZE_MAX} bytes")));
    }
    let (mut out, mut pool) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or((number, "a `]` is missing".to_owned()))?;
            pool = Some(name.trim().to_owned());
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(value.trim())),
            None => (line, None),
        };
        if name.starts_with('-') || name.contains(char::is_whitespace) || FOREIGN.contains(&name) {
            return Err((number, format!("'{name}' is no option for a file")));
        }
        let word = value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"));
        out.push(Line { number, pool: pool.clone(), word });
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_option() {
        let lines = parse("# all\nhttp = [::1]:0\n\nmount\n[ tank ]\ntunable = a=1\n").unwrap();
        let seen: Vec<_> =
            lines.iter().map(|l| (l.number, l.pool.as_deref(), l.word.as_str())).collect();
        assert_eq!(
            seen,
            [(2, None, "--http=[::1]:0"), (4, None, "--mount"), (6, Some("tank"), "--tunable=a=1")]
        );
        assert!(lines[..2].iter().all(|line| check(line).is_ok()));
        assert_eq!(check(&lines[2]).unwrap_err().0, 6, "no such tunable");
    }

    #[test]
    fn what_is_no_option_is_named_by_its_line() {
        for (text, number) in [
            ("[tank\n", 1),
            ("\nall\n", 2),
            ("--mount\n", 1),
            ("config = x\n", 1),
            ("a b = c\n", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().0, number, "{text}");
        }
        for (text, why) in [("speed = 9", "unexpected argument '--speed'"), ("http = x", "invalid")]
        {
            let (_, said) = check(&parse(text).unwrap()[0]).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
