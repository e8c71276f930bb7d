//! The verbs and options of OpenZFS's commands that zinc does not have, and why.

/// The verbs of OpenZFS 2.3's `zpool` that zinc does not do.
pub const ZPOOL: [&str; 1] = ["ddtprune"];

/// The verbs of OpenZFS 2.3's `zfs` that zinc does not do.
pub const ZFS: [&str; 7] = ["jail", "redact", "share", "unjail", "unshare", "unzone", "zone"];

/// The end of the help of `zpool` or `zfs`: the verbs of OpenZFS's that it lacks.
#[must_use]
pub fn lacking(verbs: &[&str]) -> String {
    format!("Not supported by zinc yet: {}.", verbs.join(", "))
}

/// How one of OpenZFS's commands is called, when no verb was named; no line is longer than those of
/// a narrow terminal.
#[must_use]
pub fn usage(command: &str, verbs: &[&str]) -> String {
    let mut text = format!(
        "usage: {command} command args ...\nwhere 'command' is one of the following:\n\n\t"
    );
    let mut width = 0;
    for (at, verb) in verbs.iter().enumerate() {
        if width + verb.len() > 64 {
            text.push_str("\n\t");
            width = 0;
        }
        text.push_str(verb);
        text.push_str(if at + 1 < verbs.len() { ", " } else { "\n" });
        width += verb.len() + 2;
    }
    text.push_str(&format!("\nFor what they do, run: zinc {command} --help\n"));
    text
}

const ENCLOSURES: &str = "zinc switches no enclosures";

/// The options of OpenZFS 2.3 that a verb has there and not here, and why not, if there is more to
/// say than that.
const OPTIONS: [(&str, &[&str], &str); 9] = [
    ("zfs send", &["-S"], "a partially received snapshot cannot be sent"),
    ("zfs send", &["--redact"], "redacted streams are not supported"),
    ("zpool offline", &["--power"], ENCLOSURES),
    ("zpool online", &["--power"], ENCLOSURES),
    ("zpool clear", &["--power"], ENCLOSURES),
    ("zpool status", &["--power"], ENCLOSURES),
    ("zpool scrub", &["-a"], "zinc scrubs the pools that are named"),
    ("zdb", &["-T"], "the table of cloned blocks is not shown: `zinc check` verifies it"),
    ("zdb", &["-I", "-o", "-x"], ""),
];

/// Why an option of a verb does nothing, when it is one that OpenZFS has and zinc lacks; empty when
/// there is nothing to say but that.
#[must_use]
pub fn option(verb: &str, option: &str) -> Option<&'static str> {
    let row = OPTIONS.iter().find(|(of, names, _)| *of == verb && names.contains(&option));
    row.map(|(.., why)| *why)
}

/// What is said of an option that there is not, or of a value that is none, in OpenZFS's words;
/// other text stays as it is.
#[must_use]
pub fn invalid_option(text: &str) -> String {
    if let Some((line, rest)) = text.split_once('\n')
        && line.starts_with("error: invalid value '")
        && let Some((_, why)) = line.rsplit_once("': ")
    {
        return format!("{why}\n{rest}");
    }
    let quoted = text.strip_prefix("error: unexpected argument '-");
    let Some((option, rest)) = quoted.and_then(|text| text.split_once("' found\n")) else {
        return text.to_owned();
    };
    // The tip is to take it for an operand.
    let usage = rest.find("Usage:").map_or(rest, |at| &rest[at..]);
    format!("invalid option '{option}'\n{usage}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_lacked_by_its_verb_alone() {
        assert_eq!(option("zpool offline", "--power"), Some(ENCLOSURES));
        assert_eq!(option("zpool add", "-o"), None);
        assert_eq!(option("zpool attach", "-f"), None);
        let usage = usage("zfs", &["snapshot"; 20]);
        assert!(usage.starts_with("usage: zfs command args"));
        assert!(usage.lines().all(|line| line.len() < 80), "{usage}");
        assert_eq!(lacking(&["a", "b"]), "Not supported by zinc yet: a, b.");
    }

    #[test]
    fn an_option_that_there_is_not_is_named_without_its_dash() {
        let text = "error: unexpected argument '-q' found\n\n  tip: to pass '-q' as a value, use \
                    '-- -q'\n\nUsage: zinc zfs list\n";
        assert_eq!(invalid_option(text), "invalid option 'q'\nUsage: zinc zfs list\n");
        assert_eq!(invalid_option("error: other\n"), "error: other\n");
        let value = "error: invalid value 'x' for '-o <FIELD,…>': invalid column name 'x'\n\nFor\n";
        assert_eq!(invalid_option(value), "invalid column name 'x'\n\nFor\n");
    }
}
