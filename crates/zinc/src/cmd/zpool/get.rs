//! `zinc zpool get`: properties of pools and of vdevs, one a line.

use super::each::each;
use crate::args::{JsonArgs, PoolArgs, TableArgs, words};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::served::Server;
use crate::session::Session;
use crate::ui::{self, Table};
use crate::{json, known};
use engine::Pool;
use engine::pools::{NamedVdev, named_vdevs, vdev_properties};
use engine::pools::{PoolProperty, PoolPropertySource};
use engine::props;
use engine::props::{POOL, VDEV};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Arguments of `zinc zpool get`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    table: TableArgs,
    /// Columns, separated by commas: name, property, value, source; or all
    #[arg(short = 'o', value_name = "FIELD,…", value_parser = parse_fields,
          default_value = "name,property,value,source")]
    fields: Fields,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    keys: json::ByGuid,
    #[command(flatten)]
    pool: PoolArgs,
    /// Properties, separated by commas, or all
    #[arg(value_name = "PROPERTY,…")]
    properties: String,
    /// Pools; or one pool and then vdevs of it: names as in `zpool status` (-P or not), guids,
    /// `root`, or `all-vdevs`
    #[arg(value_name = "POOL|VDEV")]
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Property,
    Value,
    Source,
}

type Fields = std::sync::Arc<[Field]>;

const FIELDS: [(&str, Field); 4] = [
    ("name", Field::Name),
    ("property", Field::Property),
    ("value", Field::Value),
    ("source", Field::Source),
];

fn parse_fields(text: &str) -> Result<Fields, String> {
    match text {
        "all" => Ok(FIELDS.iter().map(|(_, f)| *f).collect()),
        _ => words(text, &FIELDS, "column name"),
    }
}

/// How values are written.
pub struct Style {
    /// Exact numbers.
    pub parsable: bool,
    /// Numbers as numbers in JSON.
    pub json_int: bool,
}

/// The text of a value.
pub fn text(property: &PoolProperty, parsable: bool) -> String {
    if parsable { property.value.clone() } else { views::pools::pretty(property) }
}

/// The name of a property that was named by its heading (`listsnaps`).
fn full_name(name: &str) -> &str {
    props::find_pool(name).map_or(name, |p| p.name)
}

/// A property as JSON.
pub fn value(property: &PoolProperty, style: &Style) -> Value {
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
struct Subject {
    name: String,
    properties: Vec<PoolProperty>,
}

/// A pool and what is shown of it.
#[derive(Serialize, Deserialize)]
struct ShownPool {
    name: String,
    /// What JSON says of every pool.
    about: Map<String, Value>,
    subjects: Vec<Subject>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.pool.is_for_everyone(session, &self.names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        if let [pool, vdevs @ ..] = self.names.as_slice()
            && !vdevs.is_empty()
            && !self.are_served(session)?
        {
            let mut pools = Pools::new(self.pool.clone());
            let pool = pools.of(session, pool)?;
            let view = pool.vdev_view(&pool.space());
            if let Some(found) = named_vdevs(pool, &view, vdevs) {
                self.check_names(&VDEV)?;
                let subject = |v: &NamedVdev<'_>| Subject {
                    name: v.name().to_owned(),
                    properties: vdev_properties(pool, v),
                };
                let subjects: Vec<Subject> = found.iter().map(subject).collect();
                self.show(session, &[self.shown(pool, subjects)], true);
                return Ok(ExitCode::SUCCESS);
            }
        }
        self.check_names(&POOL)?;
        let look = |pool: &Pool| {
            let mut properties = pool.properties(&pool.space());
            known::complete(session, &mut properties, pool.guid());
            Ok(self.shown(pool, vec![Subject { name: pool.name().to_owned(), properties }]))
        };
        each(session, &self.pool, &self.names, look, |all: Vec<ShownPool>, _| {
            self.show(session, &all, false);
        })
    }
}

impl Args {
    /// Every name is that of a pool that is served.
    fn are_served(&self, session: &Session) -> Result<bool, Failure> {
        if session.is_for_a_part() {
            return Ok(true);
        }
        let servers = Server::all_in(session, &self.pool.search)?;
        Ok(self.names.iter().all(|name| servers.iter().any(|s| s.is_called(name))))
    }

    fn shown(&self, pool: &Pool, subjects: Vec<Subject>) -> ShownPool {
        let about = json::pool(pool, self.output.json_int);
        ShownPool { name: pool.name().to_owned(), about, subjects }
    }

    fn check_names(&self, table: &'static [props::Property]) -> Result<(), Failure> {
        for name in self.properties.split(',').filter(|_| self.properties != "all") {
            let known = props::find(table, full_name(name)).is_some() || name == "name";
            let free = ["feature@", "unsupported@"].iter().any(|p| name.starts_with(p));
            if !known && !free && !name.contains(':') {
                let what = format!("bad property list: invalid property '{name}'");
                return Err(Failure::usage(what)
                    .hint("`zinc zpool get all POOL` shows the properties there are"));
            }
        }
        Ok(())
    }

    /// What is shown of a subject, in order.
    fn rows<'s>(&'s self, s: &'s Subject) -> Vec<(&'s str, Option<&'s PoolProperty>)> {
        if self.properties == "all" {
            return s.properties.iter().map(|p| (p.name.as_str(), Some(p))).collect();
        }
        let mut out = Vec::new();
        for name in self.properties.split(',') {
            let found = s.properties.iter().find(|p| p.name == full_name(name));
            match found {
                Some(p) => out.push((p.name.as_str(), found)),
                None if name == "name" || name.contains(':') => out.push((name, None)),
                None => {}
            }
        }
        out
    }

    fn show(&self, session: &Session, all: &[ShownPool], of_vdevs: bool) {
        if self.output.json {
            return self.show_json(session, all, of_vdevs);
        }
        if all.is_empty() {
            return;
        }
        let heading = |f: &Field| match f {
            Field::Name => "NAME",
            Field::Property => "PROPERTY",
            Field::Value => "VALUE",
            Field::Source => "SOURCE",
        };
        let headings: Vec<&str> = self.fields.iter().map(heading).collect();
        let mut table = Table::new(&headings, &[], self.table.script);
        for s in all.iter().flat_map(|shown| &shown.subjects) {
            for (name, property) in self.rows(s) {
                let cell = |f: &Field| match (f, property) {
                    (Field::Name, _) => s.name.clone(),
                    (Field::Value, None) if name == "name" => s.name.clone(),
                    (Field::Value, None) => "-".to_owned(),
                    (Field::Property, _) => name.to_owned(),
                    (Field::Value, Some(p)) => text(p, self.table.parsable),
                    (Field::Source, Some(p)) => views::pools::source(p.source).to_owned(),
                    (Field::Source, None) if name == "name" => "-".to_owned(),
                    // Users may invent it, and none has set it.
                    (Field::Source, None) => "default".to_owned(),
                };
                table.row(self.fields.iter().map(cell).collect());
            }
        }
        ui::table(session, &table);
    }

    fn show_json(&self, session: &Session, all: &[ShownPool], of_vdevs: bool) {
        let style = Style { parsable: self.table.parsable, json_int: self.output.json_int };
        let mut content = Map::new();
        for ShownPool { name, about, subjects } in all {
            let mut map = about.clone();
            let mut vdevs = Map::new();
            for s in subjects {
                let rows = self.rows(s).into_iter();
                let rows = rows.filter_map(|(n, p)| Some((n.to_owned(), value(p?, &style))));
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
        ui::json(session, &json::document("zpool get", "pools", self.keys.keys(content)));
    }
}
