//! `zinc zfs get`: properties, one a line.

use super::list::SPACE;
use super::select::{Selected, Selection, Types, Wanted, named_by_path, select};
use super::value::{self, Style};
use crate::args::{DepthArgs, JsonArgs, TableArgs, words};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui::{self, Table};
use engine::props;
use engine::{Property, Source};
use std::process::ExitCode;

/// Arguments of `zinc zfs get`.
#[derive(clap::Args)]
pub struct Args {
    /// Also everything below the named datasets
    #[arg(short = 'r')]
    recursive: bool,
    #[command(flatten)]
    table: TableArgs,
    /// Columns, separated by commas: name, property, value, received, source; or all
    #[arg(short = 'o', value_name = "FIELD,…", value_parser = parse_fields,
          default_value = "name,property,value,source")]
    fields: Fields,
    /// Only values from these sources: local, default, inherited, received, temporary, none
    #[arg(short = 's', value_name = "SOURCE,…", value_parser = parse_sources)]
    sources: Option<Sources>,
    /// Types: filesystem, volume, snapshot, bookmark, all
    #[arg(short = 't', value_name = "TYPE,…", value_parser = Types::parse)]
    types: Option<Types>,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: DepthArgs,
    /// Properties, separated by commas, and `space`; or all
    #[arg(value_name = "PROPERTY,…")]
    properties: String,
    /// Datasets; all of all pools found when none is named
    names: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Name,
    Property,
    Value,
    Received,
    Source,
}

type Fields = std::sync::Arc<[Field]>;

const FIELDS: [(&str, Field); 5] = [
    ("name", Field::Name),
    ("property", Field::Property),
    ("value", Field::Value),
    ("received", Field::Received),
    ("source", Field::Source),
];

fn parse_fields(text: &str) -> Result<Fields, String> {
    match text {
        "all" => Ok(FIELDS.iter().map(|(_, f)| *f).collect()),
        _ => words(text, &FIELDS, "column name"),
    }
}

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

type Sources = std::sync::Arc<[&'static str]>;

fn parse_sources(text: &str) -> Result<Sources, String> {
    let known = ["local", "default", "inherited", "received", "temporary", "none"];
    words(text, &known.map(|k| (k, k)), "source")
}

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

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        match self.pool.is_for_everyone(session, &self.names) {
            true => Served::ToEveryone,
            false => Served::ToOwner,
        }
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let all = self.properties == "all";
        let one = |name| match name {
            "space" => SPACE.to_vec(),
            _ => vec![name],
        };
        let names: Vec<&str> = self.properties.split(',').flat_map(one).collect();
        for name in names.iter().filter(|_| !all) {
            value::check_name(name)?;
        }
        let (pool, depth) = self.pool.clone().split(session);
        let mut pools = Pools::new(pool);
        let recursive = self.recursive || depth.is_some() || self.names.is_empty();
        let wanted = Wanted::new(self.types, recursive, depth, Types::ALL);
        let since = value::asked_for(names.iter().copied());
        let named = named_by_path(session, &pools, &self.names)?;
        let Some(mut selection) = select(session, &mut pools, &named, &wanted, &since)? else {
            return Ok(ExitCode::SUCCESS);
        };
        selection.sort_by_name();
        if self.output.json {
            self.print_json(session, &selection, all, &names);
        } else {
            self.print(session, &selection, all, &names);
        }
        Ok(selection.finish(session))
    }
}

impl Args {
    /// What is shown of a dataset: name, and the property when it has it.
    fn rows<'s>(
        &self,
        s: &'s Selected,
        all: bool,
        names: &[&str],
    ) -> Vec<(String, Option<&'s Property>)> {
        let mut out: Vec<(String, Option<&Property>)> = match all {
            true => s.properties.iter().map(|p| (p.name.clone(), Some(p))).collect(),
            false => {
                let full = |n: &&str| props::find_dataset(n).map_or(*n, |p| p.name).to_owned();
                names.iter().map(|n| (full(n), s.property(n))).collect()
            }
        };
        if let Some(sources) = &self.sources {
            let word = |p: Option<&Property>| p.map_or("none", |p| source_word(&p.source));
            out.retain(|(_, p)| sources.contains(&word(*p)));
        }
        out
    }

    fn print(&self, session: &Session, selection: &Selection, all: bool, names: &[&str]) {
        let headings: Vec<&str> = self.fields.iter().map(|f| f.heading()).collect();
        let mut table = Table::new(&headings, &[], self.table.script);
        let mut any = false;
        for s in &selection.found {
            for (name, property) in self.rows(s, all, names) {
                any = true;
                let dash = || "-".to_owned();
                let cell = |f: &Field| match f {
                    Field::Name => s.name.clone(),
                    Field::Property => name.clone(),
                    Field::Value if name == "name" => s.name.clone(),
                    Field::Value => {
                        property.map_or_else(dash, |p| value::text(session, p, self.table.parsable))
                    }
                    Field::Received => {
                        property.and_then(|p| p.received.clone()).unwrap_or_else(dash)
                    }
                    Field::Source => property.map_or_else(dash, |p| p.source.to_string()),
                };
                table.row(self.fields.iter().map(cell).collect());
            }
        }
        if any {
            ui::table(session, &table);
        }
    }

    fn print_json(&self, session: &Session, selection: &Selection, all: bool, names: &[&str]) {
        let style = Style { parsable: self.table.parsable, json_int: self.output.json_int };
        let mut content = serde_json::Map::new();
        for s in &selection.found {
            let rows = self.rows(s, all, names).into_iter();
            let properties =
                rows.map(|(n, p)| (n, value::property_json(session, p, &style))).collect();
            content.insert(s.name.clone(), value::dataset(s, properties, &style));
        }
        ui::json(session, &crate::json::document("zfs get", "datasets", content));
    }
}
