//! `zinc zfs list`: datasets as a table, one a line.

use super::select::{Selected, Selection, Types, Wanted, named_by_path, select};
use super::value;
use crate::args::{DepthArgs, JsonArgs, TableArgs};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui::{self, Table};
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use engine::props;
use engine::props::Shown;
use std::cmp::Ordering;
use std::process::ExitCode;

/// What `-o space` stands for.
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
    #[arg(short = 't', value_name = "TYPE,…", value_parser = Types::parse)]
    types: Option<Types>,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: DepthArgs,
    /// Datasets; all of all pools found when none is named
    names: Vec<String>,
}

/// The options `-s` and `-S` in the order in which they stand on the command line: property, and
/// whether it is descending.
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
        match self.pool.is_for_everyone(session, &self.names) {
            true => Served::ToEveryone,
            false => Served::ToOwner,
        }
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let columns = columns(&self.columns)?;
        for (name, _) in &self.order.0 {
            value::check_name(name)?;
        }
        let (pool, depth) = self.pool.split(session);
        let mut pools = Pools::new(pool);
        let recursive = self.recursive || depth.is_some() || self.names.is_empty();
        let since = value::asked_for(columns.iter().map(String::as_str));
        let wanted = Wanted::new(self.types, recursive, depth, Types::HEADS);
        let named = named_by_path(session, &pools, &self.names)?;
        let Some(mut selection) = select(session, &mut pools, &named, &wanted, &since)? else {
            return Ok(ExitCode::SUCCESS);
        };
        selection.sort_by_name();
        let order = &self.order.0;
        selection.found.sort_by(|a, b| compare(a, b, order));
        if self.output.json {
            let found = &selection.found;
            let names: Vec<&str> =
                columns.iter().map(String::as_str).filter(|c| *c != "name").collect();
            let style =
                value::Style { parsable: self.table.parsable, json_int: self.output.json_int };
            ui::json(session, &value::document(session, "zfs list", found, &names, &style));
            return Ok(selection.finish(session));
        }
        print(session, &selection, &columns, self.table.script, self.table.parsable);
        Ok(selection.finish(session))
    }
}

/// The columns' properties, by their full names.
fn columns(text: &str) -> Result<Vec<String>, Failure> {
    let mut out = Vec::new();
    if text == "all" {
        out.push("name".to_owned());
        out.extend(props::DATASET.iter().map(|p| p.name.to_owned()));
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

fn print(
    session: &Session,
    selection: &Selection,
    columns: &[String],
    script: bool,
    parsable: bool,
) {
    if selection.found.is_empty() {
        if selection.failures.is_empty() && !script {
            ui::error(session, "no datasets available\n");
        }
        return;
    }
    let native = |c: &String| props::find(&props::DATASET, c);
    let heading = |c: &String| match native(c) {
        Some(p) => p.column.to_owned(),
        None => c.to_uppercase(),
    };
    let headings: Vec<String> = columns.iter().map(heading).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let is_right = |c: &String| {
        c.starts_with("written@") || native(c).is_some_and(|p| p.shown == Shown::Right)
    };
    let right: Vec<bool> = columns.iter().map(is_right).collect();
    let mut table = Table::new(&headings, &right, script);
    for s in &selection.found {
        let cell = |c: &String| match c.as_str() {
            "name" => s.name.clone(),
            c => {
                s.property(c).map_or_else(|| "-".to_owned(), |p| value::text(session, p, parsable))
            }
        };
        table.row(columns.iter().map(cell).collect());
    }
    ui::table(session, &table);
}

/// By the properties asked for; what lacks one comes after what has it.
fn compare(a: &Selected, b: &Selected, order: &[(String, bool)]) -> Ordering {
    for (name, descending) in order {
        let ordering = match (a.property(name), b.property(name)) {
            _ if name == "name" => a.name.cmp(&b.name),
            (None, None) => continue,
            (None, Some(_)) => return Ordering::Greater,
            (Some(_), None) => return Ordering::Less,
            (Some(x), Some(y)) => match (x.number(), y.number()) {
                (Some(m), Some(n)) => m.cmp(&n),
                _ => x.value.cmp(&y.value),
            },
        };
        let ordering = if *descending { ordering.reverse() } else { ordering };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}
