//! `zinc zfs userspace`, `groupspace` and `projectspace`: space and quotas by owner.

use super::select::named_by_path;
use crate::args::{JsonArgs, PoolArgs, TableArgs, words};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::objsets::Sets;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui;
use engine::files::SpaceKind;
use std::process::ExitCode;
use views::datasets::owners::{FIELDS, Field, Owners, type_of};

type Fields = std::sync::Arc<[Field]>;

fn parse_field(word: &str) -> Result<Field, String> {
    let found = FIELDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, f)| *f).ok_or_else(|| format!("invalid field '{word}'"))
}

fn parse_fields(text: &str) -> Result<Fields, String> {
    words(text, &FIELDS, "field")
}

/// Arguments of the three.
#[derive(clap::Args)]
pub struct Args {
    /// Ids instead of names
    #[arg(short = 'n')]
    numeric: bool,
    /// Accepted and without effect: ids of other domains are shown as they are stored
    #[arg(short = 'i')]
    translate: bool,
    #[command(flatten)]
    table: TableArgs,
    /// Columns, separated by commas: type, name, used, quota, objused, objquota
    #[arg(short = 'o', value_name = "FIELD,…", value_parser = parse_fields)]
    fields: Option<Fields>,
    /// Sort by this field, ascending (repeatable)
    #[arg(short = 's', value_name = "FIELD", value_parser = parse_field)]
    ascending: Vec<Field>,
    /// Sort by this field, descending (repeatable)
    #[arg(short = 'S', value_name = "FIELD", value_parser = parse_field)]
    descending: Vec<Field>,
    /// Types: all, posixuser, smbuser, posixgroup, smbgroup, project
    #[arg(short = 't', value_name = "TYPE,…", value_parser = parse_types)]
    types: Option<Types>,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: PoolArgs,
    /// A file system or snapshot, or a path in a mounted one
    #[arg(value_name = "FILESYSTEM|SNAPSHOT|PATH")]
    dataset: String,
}

type Types = std::sync::Arc<[&'static str]>;

fn parse_types(text: &str) -> Result<Types, String> {
    let mut out = Vec::new();
    for word in text.split(',') {
        match word {
            "all" => out.extend(["POSIX User", "SMB User", "POSIX Group", "SMB Group", "Project"]),
            "posixuser" => out.push("POSIX User"),
            "smbuser" => out.push("SMB User"),
            "posixgroup" => out.push("POSIX Group"),
            "smbgroup" => out.push("SMB Group"),
            "project" => out.push("Project"),
            other => return Err(format!("invalid type '{other}'")),
        }
    }
    Ok(out.into())
}

/// The space of one kind of owners.
pub struct SpaceVerb(pub SpaceKind, pub Args);

impl Verb for SpaceVerb {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Self(kind, args) = *self;
        let others = [('n', args.numeric), ('i', args.translate), ('t', args.types.is_some())];
        let wrong = others.iter().find(|(_, given)| *given && kind == SpaceKind::Project);
        if let Some((option, _)) = wrong {
            return Err(Failure::usage(format!("invalid option '{option}': projects are numbers")));
        }
        let mut pools = Pools::new(args.pool.clone());
        let named = named_by_path(session, &pools, std::slice::from_ref(&args.dataset))?;
        let name = named.first().unwrap_or(&args.dataset);
        let pool = pools.of(session, name)?;
        let dataset = {
            let dsl = pool.datasets();
            dsl.by_name(name)?
        };
        let fs = Sets::new(session, pool, &args.pool.open).filesystem(&dataset)?;
        let mut rows = fs.space(kind)?;
        if let Some(types) = &args.types {
            rows.retain(|r| types.contains(&type_of(kind, r)));
        }
        let owners = Owners {
            host_info: session,
            kind,
            is_numeric: args.numeric,
            is_parsable: args.table.parsable,
        };
        rows.sort_by(|a, b| owners.compare((&args.ascending, &args.descending), a, b));
        if args.output.json {
            ui::json(session, &owners.json(name, &rows, args.output.json_int));
            return Ok(ExitCode::SUCCESS);
        }
        let all = || FIELDS.iter().map(|(_, f)| *f).collect();
        let fields: Fields = args.fields.clone().unwrap_or_else(all);
        ui::table(session, &owners.table(&rows, &fields, args.table.script));
        Ok(ExitCode::SUCCESS)
    }
}
