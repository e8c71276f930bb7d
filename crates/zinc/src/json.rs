//! JSON in the shape of OpenZFS 2.3, and the option that selects the keys of pools in it.

pub use views::json::{Numbers, document, number, pool};

use serde_json::{Map, Value};

/// How pools are distinguished in JSON.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct ByGuid {
    /// Guids of pools instead of names as keys of JSON
    #[arg(long = "json-pool-key-guid")]
    by_guid: bool,
}

impl ByGuid {
    /// The pools under the requested keys.
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
