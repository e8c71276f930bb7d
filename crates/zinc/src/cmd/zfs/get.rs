//! `zinc zfs get`: properties, one a line.

use super::list::SPACE;
use super::select::{named_by_mount, named_by_path, select};
use super::value;
use crate::args::{DepthArgs, JsonArgs, TableArgs, words};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui;
use engine::select::{DatasetTypes, SelectFilter};
use std::process::ExitCode;
use views::datasets::get::{Chosen, FIELDS, Field};
use views::datasets::{Style, computed, parse_types, sort_by_name};

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
    #[arg(short = 't', value_name = "TYPE,…", value_parser = parse_types)]
    types: Option<DatasetTypes>,
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

type Fields = std::sync::Arc<[Field]>;

fn parse_fields(text: &str) -> Result<Fields, String> {
    match text {
        "all" => Ok(FIELDS.iter().map(|(_, f)| *f).collect()),
        _ => words(text, &FIELDS, "column name"),
    }
}

type Sources = std::sync::Arc<[&'static str]>;

fn parse_sources(text: &str) -> Result<Sources, String> {
    let known = ["local", "default", "inherited", "received", "temporary", "none"];
    words(text, &known.map(|k| (k, k)), "source")
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let names = named_by_mount(session, &self.names);
        Served::everyone_if(self.pool.is_for_everyone(session, &names))
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
        let wanted = SelectFilter::new(self.types, recursive, depth, DatasetTypes::ALL);
        let since = computed(names.iter().copied());
        let named = named_by_path(session, &pools, &self.names)?;
        let Some(mut selection) = select(session, &mut pools, &named, wanted, &since)? else {
            return Ok(ExitCode::SUCCESS);
        };
        sort_by_name(&mut selection.found);
        let found = &selection.found;
        let chosen = Chosen { all, names: &names, sources: self.sources.as_deref() };
        let TableArgs { script, parsable } = self.table;
        if self.output.json {
            let style = Style { parsable, json_int: self.output.json_int };
            ui::json(session, &chosen.json(session, found, &style));
        } else if let Some(table) = chosen.table(session, found, &self.fields, script, parsable) {
            ui::table(session, &table);
        }
        Ok(selection.finish(session))
    }
}
