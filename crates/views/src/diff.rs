//! Changes between a snapshot and something later, a line each, and as JSON.

use engine::diff::{Change, ChangeKind};
use engine::files::FileKind;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// How changes are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The type of each file, as `ls -F` has it.
    pub classify: bool,
    /// The time of the change.
    pub time: bool,
    /// Tabs between columns, no arrows.
    pub script: bool,
    /// Names as they are, without octal escapes.
    pub raw: bool,
}

impl Style {
    /// A change as a line.
    #[must_use]
    pub fn line(&self, change: &Change) -> String {
        let (seen, links) = (&change.file, links(change));
        let mut t = String::new();
        // Writing to a String cannot fail.
        if self.time {
            let _ = write!(t, "{:10}.{:09}\t", seen.ctime.seconds, seen.ctime.nanos);
        }
        let _ = write!(t, "{}\t", sign(change));
        if self.classify {
            let _ = write!(t, "{}\t", type_sign(seen.kind));
        }
        if let Some(was) = was(change) {
            t.push_str(&self.name(was));
            t.push_str(if self.script { "\t" } else { " -> " });
        }
        t.push_str(&self.name(&seen.path));
        if links != 0 {
            let _ = write!(t, "\t({links:+})");
        }
        t.push('\n');
        t
    }

    /// A path for the terminal: blanks, backslashes and what is not ASCII as `\0ooo`.
    fn name(&self, path: &[u8]) -> String {
        if self.raw {
            return String::from_utf8_lossy(path).into_owned();
        }
        let mut out = String::new();
        for b in path {
            match b {
                b'!'..=b'~' if *b != b'\\' => out.push(char::from(*b)),
                _ => {
                    let _ = write!(out, "\\{b:04o}");
                }
            }
        }
        out
    }
}

/// `+`, `-`, `R` or `M`.
fn sign(change: &Change) -> char {
    match change.kind {
        ChangeKind::Added => '+',
        ChangeKind::Removed => '-',
        ChangeKind::Renamed { .. } => 'R',
        ChangeKind::Modified { .. } => 'M',
    }
}

/// The former path, of a renamed file.
fn was(change: &Change) -> Option<&[u8]> {
    match &change.kind {
        ChangeKind::Renamed { from } => Some(from),
        _ => None,
    }
}

/// The change of the number of links, of a file that was modified.
fn links(change: &Change) -> i128 {
    match change.kind {
        ChangeKind::Modified { links } => links,
        _ => 0,
    }
}

/// A change as JSON.
#[must_use]
pub fn json(change: &Change) -> Value {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let Change { object, file, .. } = change;
    json!({
        "change": sign(change).to_string(),
        "type": type_sign(file.kind).to_string(),
        "object": object,
        "path": text(&file.path),
        "old_path": was(change).map(text),
        "links": i64::try_from(links(change)).unwrap_or(i64::MAX),
        "ctime": [file.ctime.seconds, file.ctime.nanos.cast_signed()],
    })
}

fn type_sign(kind: FileKind) -> char {
    match kind {
        FileKind::File => 'F',
        FileKind::Dir => '/',
        FileKind::Symlink => '@',
        FileKind::Fifo => '|',
        FileKind::Socket => '=',
        FileKind::Block => 'B',
        FileKind::Char => 'C',
        FileKind::Unknown => '?',
    }
}
