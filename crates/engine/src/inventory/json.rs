//! JSON in the exact form of the manifests: one line for each entry of a file system, everything
//! but ASCII escaped, `", "` and `": "` as separators.
//!
//! Names are bytes. Those that are not UTF-8, where JSON must have text, become lone surrogates
//! U+DC80 to U+DCFF, as Python's `surrogateescape` makes them; a serializer for Rust strings
//! cannot write those, so this is one of its own.

use ondisk::hex;
use std::fmt::Write as _;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// Nothing.
    Null,
    /// A number.
    Int(i128),
    /// Text, or bytes that should be text.
    Text(Vec<u8>),
    /// A list.
    List(Vec<Json>),
    /// Members in their order.
    Map(Members),
}

/// Members of an object in their order.
pub type Members = Vec<(Vec<u8>, Json)>;

impl From<&str> for Json {
    fn from(s: &str) -> Self {
        Self::Text(s.as_bytes().to_vec())
    }
}

impl From<String> for Json {
    fn from(s: String) -> Self {
        Self::Text(s.into_bytes())
    }
}

impl From<u64> for Json {
    fn from(n: u64) -> Self {
        Self::Int(n.into())
    }
}

impl From<u32> for Json {
    fn from(n: u32) -> Self {
        Self::Int(n.into())
    }
}

impl Json {
    /// As one line of text.
    #[must_use]
    pub fn dump(&self) -> String {
        let mut out = String::new();
        self.dump_into(&mut out);
        out
    }

    fn dump_into(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Int(n) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "{n}");
            }
            Self::Text(t) => escape(t, out),
            Self::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.dump_into(out);
                }
                out.push(']');
            }
            Self::Map(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    escape(name, out);
                    out.push_str(": ");
                    value.dump_into(out);
                }
                out.push('}');
            }
        }
    }
}

/// Adds `name`, or `name_hex` when the bytes are no UTF-8.
pub(crate) fn put_text_or_hex(members: &mut Members, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => members.push((name.into(), text.into())),
        Err(_) => members.push((format!("{name}_hex").into(), hex::encode(bytes).into())),
    }
}

fn escape(bytes: &[u8], out: &mut String) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape_char(c, out);
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\udc{b:02x}");
        }
    }
    out.push('"');
}

fn escape_char(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(c),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_python_does() {
        let dump = |b: &[u8]| Json::Text(b.to_vec()).dump();
        assert_eq!(dump("a\"\\\n\u{7f}é\u{1f600}".as_bytes()), {
            "\"a\\\"\\\\\\n\\u007f\\u00e9\\ud83d\\ude00\""
        });
        assert_eq!(dump(b"x\xff\xc3"), "\"x\\udcff\\udcc3\"");
    }

    #[test]
    fn separators_have_a_space() {
        let map = Json::Map(vec![("a".into(), Json::List(vec![Json::Int(1), Json::Null]))]);
        assert_eq!(map.dump(), "{\"a\": [1, null]}");
    }
}
