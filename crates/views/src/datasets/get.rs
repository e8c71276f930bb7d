//! Properties of datasets, a line each.

use super::{Style, dataset, property_json, text};
use crate::{HostInfo, json};
use engine::select::Selected;
use engine::{Property, Source, props};
use serde_json::{Map, Value};
use term::Table;

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The dataset.
    Name,
    /// The property.
    Property,
    /// Its value.
    Value,
    /// The value that was received.
    Received,
    /// Where it comes from.
    Source,
}

/// The columns by their words.
pub const FIELDS: [(&str, Field); 5] = [
    ("name", Field::Name),
    ("property", Field::Property),
    ("value", Field::Value),
    ("received", Field::Received),
    ("source", Field::Source),
];

impl Field {
    fn heading(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Property => "PROPERTY",
            Self::Value => "VALUE",
            Self::Received => "RECEIVED",
            Self::Source => "SOURCE",
        }
    }
}

/// The text of the column SOURCE.
fn source_text(source: &Source) -> String {
    match source {
        Source::None => "-".to_owned(),
        Source::Inherited(from) => format!("inherited from {from}"),
        other => source_word(other).to_owned(),
    }
}

/// The word for a source that `-s` takes.
fn source_word(source: &Source) -> &'static str {
    match source {
        Source::None => "none",
        Source::Default => "default",
        Source::Local => "local",
        Source::Inherited(_) => "inherited",
        Source::Received => "received",
        Source::Temporary => "temporary",
    }
}

/// Which properties are shown.
pub struct Chosen<'a> {
    /// All that a dataset has.
    pub all: bool,
    /// These, otherwise.
    pub names: &'a [&'a str],
    /// Only those from these sources.
    pub sources: Option<&'a [&'static str]>,
}

impl Chosen<'_> {
    /// The rows of a dataset: name, and the property if it has it.
    #[must_use]
    pub fn rows<'s>(&self, s: &'s Selected) -> Vec<(String, Option<&'s Property>)> {
        let mut out: Vec<(String, Option<&Property>)> = match self.all {
            true => s.properties.iter().map(|p| (p.name.clone(), Some(p))).collect(),
            false => {
                let full = |n: &&str| props::find_dataset(n).map_or(*n, |p| p.name).to_owned();
                self.names.iter().map(|n| (full(n), s.property(n))).collect()
            }
        };
        if let Some(sources) = self.sources {
            let word = |p: Option<&Property>| p.map_or("none", |p| source_word(&p.source));
            out.retain(|(_, p)| sources.contains(&word(*p)));
        }
        out
    }

    /// A table of them; `None` without any.
    #[must_use]
    pub fn table(
        &self,
        host_info: &dyn HostInfo,
        all: &[Selected],
        fields: &[Field],
        script: bool,
        parsable: bool,
    ) -> Option<Table> {
        let headings: Vec<&str> = fields.iter().map(|f| f.heading()).collect();
        let mut table = Table::new(&headings, &[], script);
        let mut any = false;
        for s in all {
            for (name, property) in self.rows(s) {
                any = true;
                let dash = || "-".to_owned();
                let cell = |f: &Field| match f {
                    Field::Name => s.name.clone(),
                    Field::Property => name.clone(),
                    Field::Value if name == "name" => s.name.clone(),
                    Field::Value => property.map_or_else(dash, |p| text(host_info, p, parsable)),
                    Field::Received => {
                        let received = property.and_then(|p| {
                            let value = p.received.clone()?;
                            Some(Property { value, ..p.clone() })
                        });
                        received.map_or_else(dash, |p| text(host_info, &p, parsable))
                    }
                    Field::Source => property.map_or_else(dash, |p| source_text(&p.source)),
                };
                table.row(fields.iter().map(cell).collect());
            }
        }
        any.then_some(table)
    }

    /// The same as JSON.
    #[must_use]
    pub fn json(&self, host_info: &dyn HostInfo, all: &[Selected], style: &Style) -> Value {
        let mut content = Map::new();
        for s in all {
            let rows = self.rows(s).into_iter();
            let properties = rows.map(|(n, p)| (n, property_json(host_info, p, style))).collect();
            content.insert(s.name.clone(), dataset(s, properties, style));
        }
        json::document("zfs get", "datasets", content)
    }
}
