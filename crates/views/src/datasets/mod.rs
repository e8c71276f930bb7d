//! Datasets with their properties: which ones are meant ([`select`]), values as text and as JSON,
//! tables of datasets ([`list`]) and of properties ([`get`]), and what owners of files use
//! ([`owners`]), and what users may do ([`permissions`]).

pub mod get;
pub mod list;
pub mod owners;
pub mod permissions;
mod pretty;
pub mod select;
pub mod versions;

use crate::{HostInfo, json};
use engine::properties::parse_owner;
use engine::{Property, Source, props};
use pretty::pretty;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Types of datasets; a set of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Types(u8);

impl Types {
    /// File systems.
    pub const FILESYSTEM: Self = Self(props::applies::FILESYSTEM);
    /// Snapshots.
    pub const SNAPSHOT: Self = Self(props::applies::SNAPSHOT);
    /// Volumes.
    pub const VOLUME: Self = Self(props::applies::VOLUME);
    /// Bookmarks.
    pub const BOOKMARK: Self = Self(props::applies::BOOKMARK);
    /// The default of `zfs list`.
    pub const HEADS: Self = Self(Self::FILESYSTEM.0 | Self::VOLUME.0);
    /// All there are.
    pub const ALL: Self = Self(Self::HEADS.0 | Self::SNAPSHOT.0 | Self::BOOKMARK.0);

    /// One of `other` is among these.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The words of `-t`, with a comma between.
    ///
    /// # Errors
    /// The word that is not a type.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut out = 0;
        for word in text.split(',') {
            out |= match word {
                "filesystem" | "fs" => Self::FILESYSTEM.0,
                "volume" | "vol" => Self::VOLUME.0,
                "snapshot" | "snap" => Self::SNAPSHOT.0,
                "bookmark" => Self::BOOKMARK.0,
                "all" => Self::ALL.0,
                other => return Err(format!("invalid type '{other}'")),
            };
        }
        Ok(Self(out))
    }
}

/// A selected dataset.
#[derive(Serialize, Deserialize)]
pub struct Selected {
    /// Its name.
    pub name: String,
    /// The name of its pool.
    pub pool: String,
    /// Its type.
    pub kind: Types,
    /// The txg in which it was made.
    pub create_txg: u64,
    /// Its properties, also those that were requested by name.
    #[serde(with = "properties")]
    pub properties: Vec<Property>,
}

/// Properties between a server and the command that shows them.
mod properties {
    use super::{Deserialize, Property, Serialize, Source, props};
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(remote = "Source")]
    enum SourceForm {
        None,
        Default,
        Local,
        Inherited(String),
        Received,
        Temporary,
    }

    #[derive(Serialize, Deserialize)]
    struct Form {
        name: String,
        value: String,
        #[serde(with = "SourceForm")]
        source: Source,
        received: Option<String>,
        /// The name in the table of OpenZFS's properties, of one that is there.
        native: Option<String>,
    }

    pub(super) fn serialize<S: Serializer>(all: &[Property], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(|p| Form {
            name: p.name.clone(),
            value: p.value.clone(),
            source: p.source.clone(),
            received: p.received.clone(),
            native: p.native.map(|native| native.name.to_owned()),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Property>, D::Error> {
        let property = |form: Form| Property {
            name: form.name,
            value: form.value,
            source: form.source,
            received: form.received,
            native: form.native.and_then(|name| props::find(&props::DATASET, &name)),
        };
        Ok(Vec::<Form>::deserialize(from)?.into_iter().map(property).collect())
    }
}

impl Selected {
    /// The word of the property `type`.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Types::FILESYSTEM => "FILESYSTEM",
            Types::VOLUME => "VOLUME",
            Types::SNAPSHOT => "SNAPSHOT",
            _ => "BOOKMARK",
        }
    }

    /// A property by name or heading; `None` when it has none of that name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        let wanted = props::find_dataset(name).map_or(name, |p| p.name);
        self.properties.iter().find(|p| p.name == wanted)
    }
}

/// Sorts by names; snapshots follow their dataset, oldest first, then bookmarks.
pub fn sort_by_name(all: &mut [Selected]) {
    let key = |s: &Selected| {
        let head = s.name.split(['@', '#']).next().unwrap_or_default().to_owned();
        let rank = match s.kind {
            Types::SNAPSHOT => 1,
            Types::BOOKMARK => 2,
            _ => 0,
        };
        // Snapshots were found in the order of their chain: it decides among those of one txg.
        let name = if rank == 1 { String::new() } else { s.name.clone() };
        (head, rank, s.create_txg, name)
    };
    all.sort_by_cached_key(key);
}

/// How values are written.
pub struct Style {
    /// Exact numbers.
    pub parsable: bool,
    /// Numbers as numbers in JSON.
    pub json_int: bool,
}

/// The text of a value.
#[must_use]
pub fn text(host_info: &dyn HostInfo, property: &Property, parsable: bool) -> String {
    if property.name == "clones" {
        return beginning(&property.value);
    }
    if parsable {
        return property.value.clone();
    }
    if let Some(text) = property.number().and_then(|n| owners::pretty(&property.name, n)) {
        return text;
    }
    let offset = property.number().map_or(0, |time| host_info.utc_offset(time));
    pretty(property, offset)
}

/// As much of a list of names as OpenZFS shows of one.
fn beginning(list: &str) -> String {
    const BYTES_MAX: usize = 8191;
    let end = (0..=BYTES_MAX.min(list.len())).rev().find(|at| list.is_char_boundary(*at));
    list[..end.unwrap_or(0)].to_owned()
}

/// Not among a dataset's properties, but computed on request: the space written since a snapshot or
/// bookmark, the space and quota of an owner.
#[must_use]
pub fn is_computed(name: &str) -> bool {
    name.starts_with("written@") || name.starts_with("written#") || parse_owner(name).is_some()
}

/// Those of the names that are computed on request.
#[must_use]
pub fn computed<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.filter(|n| is_computed(n)).map(str::to_owned).collect()
}

/// Kind and text of a source, as JSON has them.
#[must_use]
pub fn source(source: &Source) -> (&'static str, String) {
    match source {
        Source::None => ("NONE", "-".to_owned()),
        Source::Default => ("DEFAULT", "-".to_owned()),
        Source::Local => ("LOCAL", "-".to_owned()),
        Source::Inherited(from) => ("INHERITED", from.clone()),
        Source::Received => ("RECEIVED", "-".to_owned()),
        Source::Temporary => ("TEMPORARY", "-".to_owned()),
    }
}

/// One property as JSON; `None` is one the dataset does not have.
#[must_use]
pub fn property_json(
    host_info: &dyn HostInfo,
    property: Option<&Property>,
    style: &Style,
) -> Value {
    let Some(p) = property else { return json::property(&json!("-"), "NONE", "-") };
    let (kind, data) = source(&p.source);
    let text = text(host_info, p, style.parsable || style.json_int);
    json::property(&json::text_or_number(&text, style.json_int), kind, &data)
}

/// The output of a command that shows `names` of each dataset.
#[must_use]
pub fn document(
    host_info: &dyn HostInfo,
    command: &str,
    datasets: &[Selected],
    names: &[&str],
    style: &Style,
) -> Value {
    let mut content = Map::new();
    for s in datasets {
        let properties = names.iter().map(|n| {
            let full = props::find_dataset(n).map_or(*n, |p| p.name);
            (full.to_owned(), property_json(host_info, s.property(n), style))
        });
        content.insert(s.name.clone(), dataset(s, properties.collect(), style));
    }
    json::document(command, "datasets", content)
}

/// A dataset with some of its properties.
#[must_use]
pub fn dataset(s: &Selected, properties: Map<String, Value>, style: &Style) -> Value {
    let mut map = Map::new();
    map.insert("name".to_owned(), json!(s.name));
    map.insert("type".to_owned(), json!(s.kind_name()));
    map.insert("pool".to_owned(), json!(s.pool));
    map.insert("createtxg".to_owned(), json::number(s.create_txg, style.json_int));
    if let Some((head, snapshot)) = s.name.split_once('@') {
        map.insert("dataset".to_owned(), json!(head));
        map.insert("snapshot_name".to_owned(), json!(snapshot));
    }
    map.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(map)
}
