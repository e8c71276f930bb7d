//! What a dump is written to: text as it comes, or one JSON value at the end.
//!
//! Each mode reports named facts; this module renders them in either form. A dump is a tree:
//! [`Dump::open`] begins a part (a heading in text, an element of a list in JSON), facts belong to
//! the part that is open. Structures that cannot be read are reported in their place and counted,
//! and the dump continues.

use engine::inside::ondisk::spelling::in_line;
use serde_json::{Map, Value};
use std::fmt::{Display, Write as _};
use term::human::nicenum;

/// Text is handed on in pieces of this size in bytes.
const PIECE: usize = 1 << 16;

/// A part of the dump that is being written, as JSON.
struct Part {
    name: &'static str,
    /// An element of a list of that name; else its only value.
    listed: bool,
    members: Map<String, Value>,
}

/// A message in one line: what it quotes forges no other.
pub(crate) fn one_line(what: impl Display) -> String {
    in_line(&what.to_string())
}

/// Where a dump is printed. What a terminal would obey is for this to escape.
pub trait Output {
    /// Text for people, of several lines.
    fn text(&mut self, text: &str);

    /// The content of a block, as it is.
    fn bytes(&mut self, bytes: &[u8]);

    /// All of a dump.
    fn json(&mut self, value: &Value);

    /// There is still a reader; if not, the dump ends soon.
    fn is_wanted(&self) -> bool;
}

/// A dump that is being written.
pub struct Dump<'a> {
    output: &'a mut dyn Output,
    text: String,
    depth: usize,
    parts: Option<Vec<Part>>,
    /// Numbers are printed in full.
    pub(crate) exact: bool,
    failures: u64,
}

impl<'a> Dump<'a> {
    /// Text, or JSON when `json`; with `exact` sizes in text are not rounded.
    pub fn new(output: &'a mut dyn Output, json: bool, exact: bool) -> Self {
        let root = || vec![Part { name: "", listed: false, members: Map::new() }];
        let (text, parts) = (String::new(), json.then(root));
        Self { output, text, depth: 0, parts, exact, failures: 0 }
    }

    /// Only JSON is wanted: text need not be made.
    pub(crate) fn is_json(&self) -> bool {
        self.parts.is_some()
    }

    /// A line that only people need.
    pub fn note(&mut self, line: impl Display) {
        if self.is_json() {
            return;
        }
        for _ in 0..self.depth {
            self.text.push('\t');
        }
        let _ = writeln!(self.text, "{line}");
        if self.text.len() >= PIECE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.output.text(&self.text);
        self.text.clear();
    }

    /// The content of a block, between the lines.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.flush();
        self.output.bytes(bytes);
    }

    /// There is still a reader of what is dumped.
    pub(crate) fn is_wanted(&self) -> bool {
        self.output.is_wanted()
    }

    /// An empty line.
    pub(crate) fn blank(&mut self) {
        if !self.is_json() {
            self.text.push('\n');
        }
    }

    /// A fact that is in JSON only: text has it in a heading.
    pub(crate) fn hold(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(part) = self.parts.as_mut().and_then(|p| p.last_mut()) {
            part.members.insert(name.to_owned(), value.into());
        }
    }

    /// A fact with its line of text.
    pub(crate) fn field(&mut self, name: &str, value: impl Into<Value>, line: impl Display) {
        self.hold(name, value);
        self.note(line);
    }

    /// A fact, as `name = value`.
    pub(crate) fn fact(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        let line = match &value {
            Value::String(s) => format!("{name} = {s}"),
            other => format!("{name} = {other}"),
        };
        self.field(name, value, line);
    }

    /// A size in bytes.
    pub(crate) fn size(&mut self, name: &str, bytes: u64) {
        let line = format!("{name} = {}", self.nice(bytes));
        self.field(name, bytes, line);
    }

    /// A number in hexadecimal.
    pub(crate) fn hex(&mut self, name: &str, value: u64) {
        self.field(name, value, format!("{name} = 0x{value:x}"));
    }

    /// A number of bytes or things, short unless all numbers are wanted in full.
    pub(crate) fn nice(&self, n: u64) -> String {
        if self.exact { n.to_string() } else { nicenum(n) }
    }

    /// Adds an element that is not part to a list.
    pub(crate) fn push(&mut self, list: &str, value: impl Into<Value>) {
        if let Some(part) = self.parts.as_mut().and_then(|p| p.last_mut()) {
            append(&mut part.members, list, value.into());
        }
    }

    /// Begins a part: an element of `list`, under a heading.
    pub(crate) fn open(&mut self, list: &'static str, heading: impl Display) {
        self.note(heading);
        self.depth += 1;
        self.open_flat(list);
    }

    /// Begins a part whose lines are not moved in.
    pub(crate) fn open_flat(&mut self, list: &'static str) {
        self.begin(list, true);
    }

    /// Begins a part that is the only one of its name where it stands; ends as the other.
    pub(crate) fn open_one(&mut self, name: &'static str) {
        self.begin(name, false);
    }

    fn begin(&mut self, name: &'static str, listed: bool) {
        if let Some(parts) = &mut self.parts {
            parts.push(Part { name, listed, members: Map::new() });
        }
    }

    /// Ends a part begun with [`Self::open`].
    pub(crate) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.close_flat();
    }

    /// Ends a part begun with [`Self::open_flat`].
    pub(crate) fn close_flat(&mut self) {
        let Some(parts) = &mut self.parts else { return };
        let Some(part) = parts.pop() else { return };
        let Some(above) = parts.last_mut() else { return };
        if part.listed {
            append(&mut above.members, part.name, Value::Object(part.members));
        } else if !part.members.is_empty() {
            above.members.insert(part.name.to_owned(), Value::Object(part.members));
        }
    }

    /// Moves lines in, or back out with [`Self::outdent`], without a new part.
    pub(crate) fn indent(&mut self) {
        self.depth += 1;
    }

    /// See [`Self::indent`].
    pub(crate) fn outdent(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Says what could not be read, in its place.
    pub fn fail(&mut self, what: impl Display) {
        self.failures += 1;
        self.push("errors", what.to_string());
        self.note(format_args!("ERROR: {}", one_line(what)));
    }

    /// The value, or `None` after saying what went wrong.
    pub(crate) fn keep<T, E: Display>(&mut self, what: &str, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(e) if what.is_empty() => {
                self.fail(e);
                None
            }
            Err(e) => {
                self.fail(format_args!("{what}: {e}"));
                None
            }
        }
    }

    /// Ends the dump: prints what is left. Gives the number of failures.
    pub fn finish(mut self) -> u64 {
        self.flush();
        if let Some(root) = self.parts.as_mut().and_then(|p| p.drain(..).next()) {
            self.output.json(&Value::Object(root.members));
        }
        self.failures
    }
}

fn append(members: &mut Map<String, Value>, list: &str, value: Value) {
    let entry = members.entry(list.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(a) = entry {
        a.push(value);
    }
}
