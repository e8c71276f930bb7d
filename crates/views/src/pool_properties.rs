//! Properties of pools and vdevs, one in a line, or as JSON.

use crate::json;
use crate::pools::{pretty, source};
use engine::pools::{PoolProperty, PoolPropertySource};
use engine::props;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use term::Table;

/// A column.
#[derive(Clone, Copy, Debug)]
pub enum Field {
    /// Of what it is a property.
    Name,
    /// Its name.
    Property,
    /// Its value.
    Value,
    /// Where the value comes from.
    Source,
}

/// The columns of a table.
pub type Fields = Arc<[Field]>;

/// The columns by the names that users give them.
pub const FIELDS: [(&str, Field); 4] = [
    ("name", Field::Name),
    ("property", Field::Property),
    ("value", Field::Value),
    ("source", Field::Source),
];

impl Field {
    fn heading(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Property => "PROPERTY",
            Self::Value => "VALUE",
            Self::Source => "SOURCE",
        }
    }
}

/// How values are written.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Exact numbers.
    pub parsable: bool,
    /// Numbers as numbers in JSON.
    pub json_int: bool,
}

/// The text of a value.
#[must_use]
pub fn text(property: &PoolProperty, parsable: bool) -> String {
    if parsable { property.value.clone() } else { pretty(property) }
}

/// The name of a property that was named by its heading (`listsnaps`).
#[must_use]
pub fn full_name(name: &str) -> &str {
    props::find_pool(name).map_or(name, |p| p.name)
}

/// A property as JSON.
#[must_use]
pub fn value(property: &PoolProperty, style: Style) -> Value {
    let text = text(property, style.parsable || style.json_int);
    let source = match property.source {
        PoolPropertySource::None => "NONE",
        PoolPropertySource::Default => "DEFAULT",
        PoolPropertySource::Local => "LOCAL",
    };
    json::property(&json::text_or_number(&text, style.json_int), source, "-")
}

/// A pool, or a vdev of one, with its properties.
#[derive(Serialize, Deserialize)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// All of them.
    pub properties: Vec<PoolProperty>,
}

/// A pool and what is shown of it.
#[derive(Serialize, Deserialize)]
pub struct ShownPool {
    /// Its name.
    pub name: String,
    /// The common members of every pool in JSON.
    pub about: Map<String, Value>,
    /// The pool, or vdevs of it.
    pub subjects: Vec<Subject>,
}

impl Subject {
    /// Its rows, in order, for these properties: names with commas between, or `all`.
    fn rows<'s>(&'s self, wanted: &'s str) -> Vec<(&'s str, Option<&'s PoolProperty>)> {
        if wanted == "all" {
            return self.properties.iter().map(|p| (p.name.as_str(), Some(p))).collect();
        }
        let mut out = Vec::new();
        for name in wanted.split(',') {
            let found = self.properties.iter().find(|p| p.name == full_name(name));
            match found {
                Some(p) => out.push((p.name.as_str(), found)),
                None if name == "name" || name.contains(':') => out.push((name, None)),
                None => {}
            }
        }
        out
    }
}

/// The table of the wanted properties.
#[must_use]
pub fn table(
    all: &[ShownPool],
    wanted: &str,
    fields: &[Field],
    script: bool,
    parsable: bool,
) -> Table {
    let headings: Vec<&str> = fields.iter().map(|field| field.heading()).collect();
    let mut table = Table::new(&headings, &[], script);
    for s in all.iter().flat_map(|shown| &shown.subjects) {
        for (name, property) in s.rows(wanted) {
            let cell = |f: &Field| match (f, property) {
                (Field::Name, _) => s.name.clone(),
                (Field::Value, None) if name == "name" => s.name.clone(),
                (Field::Value, None) => "-".to_owned(),
                (Field::Property, _) => name.to_owned(),
                (Field::Value, Some(p)) => text(p, parsable),
                (Field::Source, Some(p)) => source(p.source).to_owned(),
                (Field::Source, None) if name == "name" => "-".to_owned(),
                // Users may invent it, and none has set it.
                (Field::Source, None) => "default".to_owned(),
            };
            table.row(fields.iter().map(cell).collect());
        }
    }
    table
}

/// The wanted properties of pools by name, or of vdevs in them.
#[must_use]
pub fn to_json(
    all: &[ShownPool],
    wanted: &str,
    style: Style,
    of_vdevs: bool,
) -> Map<String, Value> {
    let mut content = Map::new();
    for ShownPool { name, about, subjects } in all {
        let mut map = about.clone();
        let mut vdevs = Map::new();
        for s in subjects {
            let rows = s.rows(wanted).into_iter();
            let rows = rows.filter_map(|(n, p)| Some((n.to_owned(), value(p?, style))));
            let properties = Value::Object(rows.collect());
            if of_vdevs {
                let vdev = json!({ "name": s.name, "properties": properties });
                vdevs.insert(s.name.clone(), vdev);
            } else {
                map.insert("properties".to_owned(), properties);
            }
        }
        if of_vdevs {
            map.insert("vdevs".to_owned(), Value::Object(vdevs));
        }
        content.insert(name.clone(), Value::Object(map));
    }
    content
}
