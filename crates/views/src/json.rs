//! JSON in the shape of OpenZFS 2.3: `output_version`, then pools or datasets by name.

use engine::pools::PoolFacts;
use serde_json::{Map, Value, json};
use term::human::{ctime, nicebytes, nicenum};

/// An output of `command` (as `zpool list`) whose content has the key `key`.
#[must_use]
pub fn document(command: &str, key: &str, content: Map<String, Value>) -> Value {
    let mut out = Map::new();
    let version = json!({ "command": command, "vers_major": 0, "vers_minor": 1 });
    out.insert("output_version".to_owned(), version);
    out.insert(key.to_owned(), Value::Object(content));
    Value::Object(out)
}

/// The version object of `command` (`zpool`, `zfs`, `zinc`), as in `zpool version -j`.
#[must_use]
pub fn version(command: &str, version: &str) -> Value {
    let mut content = Map::new();
    content.insert("userland".to_owned(), Value::String(version.to_owned()));
    document(&format!("{command} version"), "zfs_version", content)
}

/// A number: text, as OpenZFS writes it, or a JSON number with `--json-int`.
#[must_use]
pub fn number(n: u64, as_int: bool) -> Value {
    if as_int { json!(n) } else { json!(n.to_string()) }
}

/// How the figures of `zpool status` are written in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// As in tables: `1.5G`, and times as dates.
    #[default]
    Short,
    /// As text, exactly.
    Exact,
    /// As numbers.
    Plain,
}

impl Numbers {
    /// Those that options ask for.
    #[must_use]
    pub fn of(as_int: bool, is_exact: bool) -> Self {
        match (as_int, is_exact) {
            (true, _) => Self::Plain,
            (false, true) => Self::Exact,
            (false, false) => Self::Short,
        }
    }

    /// A number that identifies something, or counts what is never shortened.
    #[must_use]
    pub fn plain(self, n: u64) -> Value {
        number(n, self == Self::Plain)
    }

    /// A number of bytes.
    #[must_use]
    pub fn bytes(self, n: u64) -> Value {
        if self == Self::Short { json!(nicebytes(n)) } else { self.plain(n) }
    }

    /// How often something happened.
    #[must_use]
    pub fn count(self, n: u64) -> Value {
        if self == Self::Short { json!(nicenum(n)) } else { self.plain(n) }
    }

    /// Seconds since 1970, shown this many seconds ahead of UTC; 0 is no time.
    #[must_use]
    pub fn time(self, n: u64, utc_offset: i64) -> Value {
        match self {
            Self::Short if n == 0 => json!("-"),
            Self::Short => json!(ctime(n.saturating_add_signed(utc_offset))),
            _ => self.plain(n),
        }
    }
}

/// A value that is a number where its text is one and `--json-int` was given.
#[must_use]
pub fn text_or_number(text: &str, as_int: bool) -> Value {
    match text.parse::<u64>() {
        Ok(n) if as_int => json!(n),
        _ => json!(text),
    }
}

/// A property with its source.
#[must_use]
pub fn property(value: &Value, kind: &str, data: &str) -> Value {
    json!({ "value": value, "source": { "type": kind, "data": data } })
}

/// A text of several lines as one.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The common members of every pool.
#[must_use]
pub fn pool(pool: &PoolFacts, as_int: bool) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |k: &str, v: Value| map.insert(k.to_owned(), v);
    put("name", json!(pool.name));
    put("type", json!("POOL"));
    put("state", json!(pool.health));
    put("pool_guid", number(pool.guid, as_int));
    put("txg", number(pool.txg, as_int));
    put("spa_version", number(pool.version, as_int));
    put("zpl_version", number(engine::files::VERSION_MAX, as_int));
    map
}
