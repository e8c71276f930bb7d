//! The lines: requests and their answers.
//!
//! A request is an object with `do`, the name of the operation, and its arguments. `id` is repeated
//! in the answer and means nothing to the server. An answer has either `ok`, any value, or `error`,
//! a [`Refusal`]. Members that are not known are ignored, so that either side may be the older one.

use serde_json::{Map, Value, json};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Longest line of a request in bytes. Command lines are the longest things in one; the system's
/// own limit for them is of this order.
pub const REQUEST_MAX: usize = 1 << 20;
/// Longest line of an answer in bytes.
pub const ANSWER_MAX: usize = 64 << 20;

/// A request of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Repeated in the answer: a string, a number or null.
    pub id: Value,
    /// Name of the operation (`do`).
    pub verb: String,
    /// All other members.
    pub params: Map<String, Value>,
}

/// Why something was not done, as shown to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The failed operation, in one line.
    pub what: String,
    /// Why.
    pub because: Vec<String>,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal in one line.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), because: Vec::new(), hint: None }
    }

    /// Adds why.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.because.push(why.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn to_json(&self) -> Value {
        json!({ "what": self.what, "because": self.because, "hint": self.hint })
    }

    fn from_json(value: &Value) -> Self {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let because = value["because"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            what: text(&value["what"]).unwrap_or_else(|| "refused without a reason".to_owned()),
            because: because.iter().filter_map(text).collect(),
            hint: text(&value["hint"]),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.because.iter().try_for_each(|why| write!(f, ": {why}"))
    }
}

impl std::error::Error for Refusal {}

impl Request {
    /// A request for `verb` with these parameters; another value than an object has none.
    #[must_use]
    pub fn new(verb: &str, params: Value) -> Self {
        let params = match params {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Self { id: Value::from(1), verb: verb.to_owned(), params }
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// When it is not a request. Its `id`, as far as it can be read, goes into the answer, by
    /// [`answer`].
    pub fn decode(line: &[u8]) -> Result<Self, (Value, Refusal)> {
        let refuse = |id, why: String| {
            let hint = "a request is one line: {\"id\": 1, \"do\": \"ping\"}";
            Err((id, Refusal::new("not a request").because(why).hint(hint)))
        };
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(e) => return refuse(Value::Null, e.to_string()),
        };
        let Value::Object(mut params) = value else {
            return refuse(Value::Null, "not an object".to_owned());
        };
        let id = params.remove("id").unwrap_or(Value::Null);
        if !matches!(id, Value::Null | Value::Number(_) | Value::String(_)) {
            return refuse(Value::Null, "`id` is neither a number nor a string".to_owned());
        }
        match params.remove("do") {
            Some(Value::String(verb)) => Ok(Self { id, verb, params }),
            Some(_) => refuse(id, "`do` is not a string".to_owned()),
            None => refuse(id, "it has no `do`".to_owned()),
        }
    }

    /// The line, with its end.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut map = Map::new();
        map.insert("id".to_owned(), self.id.clone());
        map.insert("do".to_owned(), Value::from(self.verb.as_str()));
        map.extend(self.params.clone());
        line(&Value::Object(map))
    }

    /// A parameter that is a string, when it is there.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.params.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// A parameter that is a natural number, when it is there.
    ///
    /// # Errors
    /// When it is something else.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.params.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.wrong(name, "a number")),
        }
    }

    /// A parameter that is a list of words as the system has them.
    ///
    /// # Errors
    /// When it is something else, or not there.
    pub fn words(&self, name: &str) -> Result<Vec<OsString>, Refusal> {
        let list = self.params.get(name).and_then(Value::as_array);
        let words = list.and_then(|l| l.iter().map(word).collect());
        words.ok_or_else(|| self.wrong(name, "a list of words"))
    }

    /// A parameter that is one of them.
    ///
    /// # Errors
    /// When it is something else, or not there.
    pub fn word(&self, name: &str) -> Result<OsString, Refusal> {
        self.params.get(name).and_then(word).ok_or_else(|| self.wrong(name, "a word"))
    }

    fn wrong(&self, name: &str, wanted: &str) -> Refusal {
        Refusal::new(format!("bad request \"{}\": `{name}` is not {wanted}", self.verb))
    }
}

/// A word as JSON: a string, or the list of its bytes where it is no UTF-8.
#[must_use]
pub fn word_to_json(word: &OsStr) -> Value {
    match word.to_str() {
        Some(text) => Value::from(text),
        None => Value::from(word.as_bytes().to_vec()),
    }
}

/// The word; `None` for what is not one. The system's words hold no zero byte.
fn word(value: &Value) -> Option<OsString> {
    let bytes = match value {
        Value::String(text) => text.clone().into_bytes(),
        Value::Array(bytes) => {
            let byte = |b: &Value| b.as_u64().and_then(|b| u8::try_from(b).ok());
            bytes.iter().map(byte).collect::<Option<_>>()?
        }
        _ => return None,
    };
    (!bytes.contains(&0)).then(|| OsString::from_vec(bytes))
}

/// The line that answers the request of this `id`.
#[must_use]
pub fn answer(id: &Value, result: &Result<Value, Refusal>) -> Vec<u8> {
    match result {
        Ok(value) => line(&json!({ "id": id, "ok": value })),
        Err(refusal) => line(&json!({ "id": id, "error": refusal.to_json() })),
    }
}

/// Decodes an answer; `None` if the line is not one.
#[must_use]
pub fn decode_answer(line: &[u8]) -> Option<Result<Value, Refusal>> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    let map = value.as_object_mut()?;
    if let Some(error) = map.get("error") {
        return Some(Err(Refusal::from_json(error)));
    }
    map.remove("ok").map(Ok)
}

fn line(value: &Value) -> Vec<u8> {
    // A value has only strings as keys, so it can be written.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_way() {
        let words = [OsStr::new("zinc"), OsStr::from_bytes(b"a\xff")].map(word_to_json);
        let request = Request::new("run", json!({ "args": words, "n": 3, "cwd": "/x" }));
        let bytes = request.encode();
        assert_eq!(bytes.last(), Some(&b'\n'));
        let read = Request::decode(bytes.trim_ascii_end()).unwrap();
        assert_eq!(read, request);
        assert_eq!(read.words("args").unwrap()[1].as_bytes(), b"a\xff");
        assert_eq!((read.number("n").unwrap(), read.number("m").unwrap()), (Some(3), None));
        assert_eq!(read.text("cwd").unwrap(), Some("/x"));
        assert!(read.text("n").is_err() && read.number("cwd").is_err());
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_id_where_it_has_one() {
        let cases: [(&[u8], Value); 6] = [
            (b"", Value::Null),
            (b"[1]", Value::Null),
            (b"{\"id\": [1], \"do\": \"ping\"}", Value::Null),
            (b"{\"id\": 7}", Value::from(7)),
            (b"{\"id\": \"x\", \"do\": 1}", Value::from("x")),
            (b"\xff\xfe", Value::Null),
        ];
        for (line, id) in cases {
            let (found, refusal) = Request::decode(line).unwrap_err();
            assert_eq!(found, id, "{line:?}");
            assert_eq!(refusal.what, "not a request");
        }
    }

    #[test]
    fn answers_are_read_back() {
        let refusal = Refusal::new("no").because("of this").hint("do that");
        for result in [Ok(json!({ "a": 1 })), Err(refusal), Ok(Value::Null)] {
            let line = answer(&Value::from(4), &result);
            assert_eq!(decode_answer(line.trim_ascii_end()), Some(result));
        }
        assert_eq!(decode_answer(b"{\"id\": 4}"), None);
    }

    #[test]
    fn words_have_no_zero_bytes() {
        assert_eq!(word(&json!("a\0b")), None);
        assert_eq!(word(&json!([97, 256])), None);
        assert_eq!(word(&json!([97])), Some(OsString::from("a")));
    }
}
