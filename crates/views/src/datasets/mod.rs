//! Datasets with their properties: values as text and as JSON, tables of datasets ([`list`]) and of
//! properties ([`get`]), what owners of files use ([`owners`]), and what users may do
//! ([`permissions`]).

pub mod get;
pub mod list;
pub mod owners;
pub mod permissions;
mod pretty;
pub mod versions;

use crate::{HostInfo, json};
use engine::properties::parse_owner;
use engine::select::{DatasetTypes, Selected};
use engine::{Property, Source, props};
use pretty::pretty;
use serde_json::{Map, Value, json};

/// The types in the words of `-t`, with a comma between.
///
/// # Errors
/// The word that is not a type.
pub fn parse_types(text: &str) -> Result<DatasetTypes, String> {
    let mut out = DatasetTypes::NONE;
    for word in text.split(',') {
        out = out.and(match word {
            "filesystem" | "fs" => DatasetTypes::FILESYSTEM,
            "volume" | "vol" => DatasetTypes::VOLUME,
            "snapshot" | "snap" => DatasetTypes::SNAPSHOT,
            "bookmark" => DatasetTypes::BOOKMARK,
            "all" => DatasetTypes::ALL,
            other => return Err(format!("invalid type '{other}'")),
        });
    }
    Ok(out)
}

/// The word of the property `type`.
#[must_use]
pub fn kind_name(of: &Selected) -> &'static str {
    match of.kind {
        DatasetTypes::FILESYSTEM => "FILESYSTEM",
        DatasetTypes::VOLUME => "VOLUME",
        DatasetTypes::SNAPSHOT => "SNAPSHOT",
        _ => "BOOKMARK",
    }
}

/// Sorts by names; snapshots follow their dataset, oldest first, then bookmarks.
pub fn sort_by_name(all: &mut [Selected]) {
    let key = |s: &Selected| {
        let head = s.name.split(['@', '#']).next().unwrap_or_default().to_owned();
        let rank = match s.kind {
            DatasetTypes::SNAPSHOT => 1,
            DatasetTypes::BOOKMARK => 2,
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
    map.insert("type".to_owned(), json!(kind_name(s)));
    map.insert("pool".to_owned(), json!(s.pool));
    map.insert("createtxg".to_owned(), json::number(s.create_txg, style.json_int));
    if let Some((head, snapshot)) = s.name.split_once('@') {
        map.insert("dataset".to_owned(), json!(head));
        map.insert("snapshot_name".to_owned(), json!(snapshot));
    }
    map.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(map)
}
