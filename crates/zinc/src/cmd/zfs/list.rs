//! `zinc zfs list`: datasets as a table, one a line.

use super::select::{named_by_mount, named_by_path, select};
use super::value;
use crate::args::{DepthArgs, JsonArgs, TableArgs};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use engine::props;
use engine::select::{DatasetTypes, SelectFilter};
use std::process::ExitCode;
use views::datasets::list::{compare, table};
use views::datasets::{Style, computed, document, parse_types, sort_by_name};

/// The columns of `-o space`.
pub const SPACE: [&str; 7] = [
    "name",
    "available",
    "used",
    "usedbysnapshots",
    "usedbydataset",
    "usedbyrefreservation",
    "usedbychildren",
];

/// Arguments of `zinc zfs list`.
#[derive(clap::Args)]
pub struct Args {
    /// Also everything below the named datasets
    #[arg(short = 'r')]
    recursive: bool,
    #[command(flatten)]
    table: TableArgs,
    /// Columns, separated by commas: properties, or `space`; or all
    #[arg(
        short = 'o',
        value_name = "PROPERTY,…",
        default_value = "name,used,avail,refer,mountpoint"
    )]
    columns: String,
    #[command(flatten)]
    order: Order,
    /// Types: filesystem, volume, snapshot, bookmark, all
    #[arg(short = 't', value_name = "TYPE,…", value_parser = parse_types)]
    types: Option<DatasetTypes>,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: DepthArgs,
    /// Datasets; all of all pools found when none is named
    names: Vec<String>,
}

/// The options `-s` and `-S` in the order of the command line: property, and whether it is
/// descending.
struct Order(Vec<(String, bool)>);

impl clap::Args for Order {
    fn augment_args(command: Command) -> Command {
        let option = |id: &'static str, short, help: &'static str| {
            let action = clap::ArgAction::Append;
            Arg::new(id).short(short).value_name("PROPERTY").action(action).help(help)
        };
        let up = option("ascending", 's', "Sort by this property, small ones first (repeatable)");
        let down =
            option("descending", 'S', "Sort by this property, large ones first (repeatable)");
        command.arg(up).arg(down)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Order {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Vec::new();
        for (id, descending) in [("ascending", false), ("descending", true)] {
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<String>(id).into_iter().flatten();
            all.extend(places.zip(values).map(|(at, v)| (at, (v.clone(), descending))));
        }
        all.sort_by_key(|(at, _)| *at);
        Ok(Self(all.into_iter().map(|(_, o)| o).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        let names = named_by_mount(session, &self.names);
        Served::everyone_if(self.pool.is_for_everyone(session, &names))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let columns = columns(&self.columns)?;
        for (name, _) in &self.order.0 {
            value::check_name(name)?;
        }
        let (pool, depth) = self.pool.split(session);
        let mut pools = Pools::new(pool);
        let recursive = self.recursive || depth.is_some() || self.names.is_empty();
        let since = computed(columns.iter().map(String::as_str));
        let wanted = SelectFilter::new(self.types, recursive, depth, DatasetTypes::HEADS);
        let named = named_by_path(session, &pools, &self.names)?;
        let Some(mut selection) = select(session, &mut pools, &named, wanted, &since)? else {
            return Ok(ExitCode::SUCCESS);
        };
        sort_by_name(&mut selection.found);
        let order = &self.order.0;
        selection.found.sort_by(|a, b| compare(a, b, order));
        if self.output.json {
            let found = &selection.found;
            let names: Vec<&str> =
                columns.iter().map(String::as_str).filter(|c| *c != "name").collect();
            let style = Style { parsable: self.table.parsable, json_int: self.output.json_int };
            ui::json(session, &document(session, "zfs list", found, &names, &style));
            return Ok(selection.finish(session));
        }
        let TableArgs { script, parsable } = self.table;
        match selection.found.is_empty() {
            true if selection.failures.is_empty() && !script => {
                ui::error(session, "no datasets available\n");
            }
            true => {}
            false => {
                ui::table(session, &table(session, &selection.found, &columns, script, parsable));
            }
        }
        Ok(selection.finish(session))
    }
}

/// The columns' properties, by their full names.
fn columns(text: &str) -> Result<Vec<String>, Failure> {
    let mut out = Vec::new();
    if text == "all" {
        let visible = props::DATASET.iter().filter(|p| p.is_visible() && p.name != "name");
        out.extend(std::iter::once("name").chain(visible.map(|p| p.name)).map(str::to_owned));
        return Ok(out);
    }
    for word in text.split(',') {
        match word {
            "space" => out.extend(SPACE.map(str::to_owned)),
            "name" => out.push(word.to_owned()),
            _ => {
                value::check_name(word)?;
                let full = props::find_dataset(word).map_or(word, |p| p.name);
                out.push(full.to_owned());
            }
        }
    }
    Ok(out)
}
