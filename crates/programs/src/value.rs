//! What a script returns, and how it is shown.

use crate::CHUNK;
use mlua::{Error, MultiValue};
use std::fmt::Write as _;

/// Tables in one another, at most.
const DEPTH_MAX: usize = 20;

/// A value that can leave a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `nil`.
    Nothing,
    /// `true` or `false`.
    Switch(bool),
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// A table: its numbers in their order, then all else in that of the alphabet.
    Table(Vec<(String, Value)>),
}

impl Value {
    /// As lines, each with this many blanks before it.
    #[must_use]
    pub fn lines(&self, name: &str, blanks: usize) -> String {
        let mut out = String::new();
        self.show(name, blanks, &mut out);
        out
    }

    fn show(&self, name: &str, blanks: usize, out: &mut String) {
        let _ = write!(out, "{:blanks$}{name}", "");
        let _ = match self {
            Self::Nothing => writeln!(out),
            Self::Switch(is_on) => writeln!(out, ": {is_on}"),
            Self::Number(n) => writeln!(out, ": {n}"),
            Self::Text(text) => writeln!(out, ": '{text}'"),
            Self::Table(_) => writeln!(out, ":"),
        };
        if let Self::Table(entries) = self {
            entries.iter().for_each(|(name, value)| value.show(name, blanks + 4, out));
        }
    }

    /// As JSON, in which OpenZFS has `true` for what is there without a value.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Nothing => true.into(),
            Self::Switch(is_on) => (*is_on).into(),
            Self::Number(n) => (*n).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Table(entries) => {
                entries.iter().map(|(name, value)| (name.clone(), value.json())).collect()
            }
        }
    }
}

/// A number as the integer that it is.
pub(crate) fn integer(n: f64) -> Option<i64> {
    // All integers in these bounds are exact.
    let is_one = n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0;
    is_one.then_some(n as i64)
}

/// What a script returned, if it returned something: one value that takes no more than `size_max`
/// bytes.
pub(crate) fn returned(values: MultiValue, size_max: usize) -> mlua::Result<Option<Value>> {
    let mut values = values.into_iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(fault("Multiple return values not supported"));
    }
    let mut room = size_max;
    convert(&first, 0, &mut room).map(Some)
}

fn fault(why: &str) -> Error {
    Error::RuntimeError(format!("[string \"{CHUNK}\"]: {why}"))
}

/// Takes bytes from what the value may have.
fn take(room: &mut usize, bytes: usize) -> mlua::Result<()> {
    *room = room
        .checked_sub(bytes)
        .ok_or_else(|| Error::RuntimeError("Return value too large.".to_owned()))?;
    Ok(())
}

fn convert(value: &mlua::Value, depth: usize, room: &mut usize) -> mlua::Result<Value> {
    take(room, size_of::<Value>())?;
    Ok(match value {
        mlua::Value::Nil => Value::Nothing,
        mlua::Value::Boolean(is_on) => Value::Switch(*is_on),
        mlua::Value::Integer(n) => Value::Number(*n),
        mlua::Value::Number(n) => Value::Number(
            integer(*n).ok_or_else(|| fault("a number with a fraction cannot be returned"))?,
        ),
        mlua::Value::String(text) => {
            take(room, text.as_bytes().len())?;
            Value::Text(text.to_string_lossy())
        }
        mlua::Value::Table(_) if depth >= DEPTH_MAX => {
            return Err(fault("Maximum table depth exceeded"));
        }
        mlua::Value::Table(table) => Value::Table(entries(table, depth, room)?),
        other => {
            let what = format!("a {} cannot be returned", other.type_name());
            return Err(fault(&what));
        }
    })
}

fn entries(
    table: &mlua::Table,
    depth: usize,
    room: &mut usize,
) -> mlua::Result<Vec<(String, Value)>> {
    let (mut numbered, mut named) = (Vec::new(), Vec::new());
    for pair in table.pairs::<mlua::Value, mlua::Value>() {
        let (key, value) = pair?;
        let value = convert(&value, depth + 1, room)?;
        match key {
            mlua::Value::Integer(n) => numbered.push((n, value)),
            mlua::Value::Boolean(is_on) => named.push((is_on.to_string(), value)),
            mlua::Value::String(text) => {
                take(room, text.as_bytes().len())?;
                named.push((text.to_string_lossy(), value));
            }
            other => {
                let what = format!("a {} cannot be a name", other.type_name());
                return Err(fault(&what));
            }
        }
    }
    numbered.sort_by_key(|(n, _)| *n);
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    let numbered = numbered.into_iter().map(|(n, value)| (n.to_string(), value));
    let all: Vec<(String, Value)> = numbered.chain(named).collect();
    let mut names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(fault(&format!("two values have the name '{}'", pair[0]))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use mlua::Lua;

    fn value(source: &str) -> mlua::Result<Option<Value>> {
        let lua = Lua::new();
        let values: MultiValue = lua.load(format!("return {source}")).eval().unwrap();
        returned(values, 10_000)
    }

    #[test]
    fn values_are_shown_as_openzfs_shows_them() {
        let shown = |source| value(source).unwrap().unwrap().lines("return", 4);
        assert_eq!(shown("nil"), "    return\n");
        assert_eq!(shown("{}"), "    return:\n");
        assert_eq!(
            shown("{foo='bar', baz=2, [10]=true, [2]={1}}"),
            "    return:\n        2:\n            1: 1\n        10: true\n        baz: 2\n        \
             foo: 'bar'\n"
        );
        let json = value("{b={}, a={'x', 1, false}}").unwrap().unwrap().json().to_string();
        assert_eq!(json, r#"{"a":{"1":"x","2":1,"3":false},"b":{}}"#);
        assert_eq!(value("").unwrap(), None);
    }

    #[test]
    fn what_cannot_be_returned_is_refused() {
        for source in [
            "print",
            "{[{}]=true}",
            "0, 1",
            "1.5",
            "{[false]=true, ['false']=false}",
            "{0, 0, ['2']=0}",
            "(function() local a = {} a.a = a return a end)()",
            "string.rep('x', 20000)",
        ] {
            assert!(value(source).is_err(), "{source}");
        }
        assert_eq!(value("2^10").unwrap(), Some(Value::Number(1024)));
    }
}
