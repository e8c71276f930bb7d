//! JSON in the shape of OpenZFS 2.3: `output_version`, then pools or datasets by name.

use serde_json::{Map, Value, json};

/// An output of `command` (as `zpool list`) whose content stands under `key`.
pub fn document(command: &str, key: &str, content: Map<String, Value>) -> Value {
    let mut out = Map::new();
    let version = json!({ "command": command, "vers_major": 0, "vers_minor": 1 });
    out.insert("output_version".to_owned(), version);
    out.insert(key.to_owned(), Value::Object(content));
    Value::Object(out)
}

/// How pools are told apart in JSON.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct ByGuid {
    /// Guids of pools instead of names as keys of JSON
    #[arg(long = "json-pool-key-guid")]
    by_guid: bool,
}

impl ByGuid {
    /// The pools under the keys that were asked for.
    pub fn keys(self, pools: Map<String, Value>) -> Map<String, Value> {
        if !self.by_guid {
            return pools;
        }
        let guid = |pool: &Value| match &pool["pool_guid"] {
            Value::String(guid) => guid.clone(),
            other => other.to_string(),
        };
        pools.into_iter().map(|(_, pool)| (guid(&pool), pool)).collect()
    }
}

/// A number: text, as OpenZFS writes it, or a JSON number with `--json-int`.
pub fn number(n: u64, as_int: bool) -> Value {
    if as_int { json!(n) } else { json!(n.to_string()) }
}

/// A value that is a number where its text is one and `--json-int` was given.
pub fn text_or_number(text: &str, as_int: bool) -> Value {
    match text.parse::<u64>() {
        Ok(n) if as_int => json!(n),
        _ => json!(text),
    }
}

/// A property with its source.
pub fn property(value: &Value, kind: &str, data: &str) -> Value {
    json!({ "value": value, "source": { "type": kind, "data": data } })
}
