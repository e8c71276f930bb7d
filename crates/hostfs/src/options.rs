//! Files of options: a line is a long option of a command, without its dashes.
//!
//! ```text
//! # for all
//! http = 127.0.0.1:9134
//! mount
//!
//! [backup]
//! cache-mib = 1024
//! ```
//!
//! Those below a name in brackets are for what is called so alone.
use std::ffi::OsString;

/// Largest file that is read, in bytes.
const SIZE_MAX: usize = 1 << 20;

/// A line: its number, the section that it is in, and the option that it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// The name in brackets above it.
    pub section: Option<String>,
    /// The option, as on a command line.
    pub argument: String,
}

/// Reads the text of a file; options that are `foreign` to files are refused.
///
/// # Errors
/// The number of the first line that is not an option, and why.
pub fn parse(text: &str, foreign: &[&str]) -> Result<Vec<Line>, (usize, String)> {
    if text.len() > SIZE_MAX {
        return Err((1, format!("the file has more than {SIZE_MAX} bytes")));
    }
    let (mut out, mut section) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or((number, "a `]` is missing".to_owned()))?;
            section = Some(name.trim().to_owned());
            continue;
        }
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(value.trim())),
            None => (line, None),
        };
        if name.starts_with('-') || name.contains(char::is_whitespace) || foreign.contains(&name) {
            return Err((number, format!("'{name}' is not an option for a file")));
        }
        let argument =
            value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"));
        out.push(Line { number, section: section.clone(), argument });
    }
    Ok(out)
}

/// The words behind a verb that are neither options nor their values; `None`: what comes next is a
/// value. `takes` returns for an option with its dashes whether it takes one.
#[must_use]
pub fn operands<'w>(words: &[&'w str], takes: impl Fn(&str) -> bool) -> Option<Vec<&'w str>> {
    let (mut out, mut is_value, mut are_over) = (Vec::new(), false, false);
    for word in words {
        match word.strip_prefix('-') {
            _ if is_value => is_value = false,
            Some("-") if !are_over => are_over = true,
            Some(rest) if !are_over && rest.starts_with('-') => is_value = takes(word),
            Some(letters) if !are_over && !letters.is_empty() => {
                let first = letters.char_indices().find(|(_, c)| takes(&format!("-{c}")));
                is_value = first.is_some_and(|(at, c)| at + c.len_utf8() == letters.len());
            }
            _ => out.push(*word),
        }
    }
    if is_value { None } else { Some(out) }
}

/// Where the words of a command line that follow its verb stop being options, by POSIX's rule: at
/// the first that is not one. `None`: they do not, or contain `--`. `takes` returns for a letter
/// whether that option takes a value, which is the next word when nothing follows the letter.
pub fn operands_at(words: &[OsString], takes: impl Fn(char) -> bool) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at).map(|word| word.to_string_lossy()) {
        match word.strip_prefix('-') {
            None | Some("") => return Some(at),
            Some("-") => return None,
            Some(long) if long.starts_with('-') => {}
            Some(letters) => {
                let is_value_next = |(i, c): (usize, char)| i + c.len_utf8() == letters.len();
                at += usize::from(
                    letters.char_indices().find(|(_, c)| takes(*c)).is_some_and(is_value_next),
                );
            }
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_option() {
        let text = "# all\nhttp = [::1]:0\n\nmount\n[ tank ]\ntunable = a=1\n";
        let lines = parse(text, &[]).unwrap();
        let seen: Vec<_> =
            lines.iter().map(|l| (l.number, l.section.as_deref(), l.argument.as_str())).collect();
        assert_eq!(
            seen,
            [(2, None, "--http=[::1]:0"), (4, None, "--mount"), (6, Some("tank"), "--tunable=a=1")]
        );
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
            assert_eq!(parse(text, &["all", "config"]).unwrap_err().0, number, "{text}");
        }
    }

    #[test]
    fn values_of_options_are_no_operands() {
        let of = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            operands(&words, |option| ["-o", "--dev"].contains(&option)).map(|all| all.join(" "))
        };
        assert_eq!(of("-r a -o b c"), Some("a c".to_owned()));
        assert_eq!(of("-ro b --dev c --dev=d e"), Some("e".to_owned()));
        assert_eq!(of("-ob a -- -o"), Some("a -o".to_owned()));
        assert_eq!(of("a -o"), None);
    }

    #[test]
    fn options_end_at_the_first_word_that_is_none() {
        let at = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            operands_at(&words, |c| c == 'o')
        };
        assert_eq!(at("all -r"), Some(0));
        assert_eq!(at("-r -o name all -r"), Some(3));
        assert_eq!(at("-ro name all"), Some(2));
        assert_eq!(at("-oname all"), Some(1));
        assert_eq!(at("-r --json - -r"), Some(2));
        assert_eq!(at("-r -- all -r"), None);
        assert_eq!(at("-r -o"), None);
    }
}
