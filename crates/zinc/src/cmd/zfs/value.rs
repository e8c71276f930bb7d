//! Values of properties as text and as JSON, and the names that are properties.

use super::owners;
use super::select::Selected;
use crate::failure::Failure;
use crate::session::Session;
use crate::{json, local_time};
use engine::props;
use engine::{Property, Source};
use serde_json::{Map, Value, json};

/// How values are written.
pub struct Style {
    /// Exact numbers.
    pub parsable: bool,
    /// Numbers as numbers in JSON.
    pub json_int: bool,
}

/// The text of a value.
pub fn text(session: &Session, property: &Property, parsable: bool) -> String {
    if property.name == "clones" {
        return beginning(&property.value);
    }
    if parsable {
        return property.value.clone();
    }
    if let Some(text) = property.number().and_then(|n| owners::pretty(&property.name, n)) {
        return text;
    }
    let offset = property.number().map_or(0, |time| local_time::utc_offset(session, time));
    property.pretty(offset)
}

/// As much of a list of names as OpenZFS shows of one.
fn beginning(list: &str) -> String {
    const BYTES_MAX: usize = 8191;
    let end = (0..=BYTES_MAX.min(list.len())).rev().find(|at| list.is_char_boundary(*at));
    list[..end.unwrap_or(0)].to_owned()
}

/// An error when `name` cannot be a property of a dataset.
pub fn check_name(name: &str) -> Result<(), Failure> {
    let native = props::find_dataset(name).is_some();
    let user = props::is_user_property(name);
    if native || user || name == "name" || is_asked_for(name) {
        return Ok(());
    }
    Err(Failure::usage(format!("bad property list: invalid property '{name}'"))
        .hint("`zinc zfs get all DATASET` shows the properties there are"))
}

/// Not among a dataset's properties, but made when asked for: what was written since a snapshot
/// or bookmark, what an owner uses and may use.
fn is_asked_for(name: &str) -> bool {
    name.starts_with("written@") || name.starts_with("written#") || owners::is_one(name)
}

/// Those of the names that are made when asked for.
pub fn asked_for<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.filter(|n| is_asked_for(n)).map(str::to_owned).collect()
}

/// Kind and text of a source, as JSON has them.
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

/// One property as JSON; `None` stands for one the dataset does not have.
pub fn property_json(session: &Session, property: Option<&Property>, style: &Style) -> Value {
    let Some(p) = property else { return json::property(&json!("-"), "NONE", "-") };
    let (kind, data) = source(&p.source);
    let text = text(session, p, style.parsable || style.json_int);
    json::property(&json::text_or_number(&text, style.json_int), kind, &data)
}

/// The output of a command that shows `names` of each dataset.
pub fn document(
    session: &Session,
    command: &str,
    datasets: &[Selected],
    names: &[&str],
    style: &Style,
) -> Value {
    let mut content = Map::new();
    for s in datasets {
        let properties = names.iter().map(|n| {
            let full = props::find_dataset(n).map_or(*n, |p| p.name);
            (full.to_owned(), property_json(session, s.property(n), style))
        });
        content.insert(s.name.clone(), dataset(s, properties.collect(), style));
    }
    json::document(command, "datasets", content)
}

/// A dataset with some of its properties.
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
