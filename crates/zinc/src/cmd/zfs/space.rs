//! `zinc zfs userspace`, `groupspace` and `projectspace`: space and quotas by who owns it.

use crate::args::{JsonArgs, PoolArgs, TableArgs, words};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::json;
use crate::objsets::filesystem;
use crate::opening::Pools;
use crate::session::Session;
use crate::ui::{self, Table};
use engine::files::{SpaceKind, SpaceRow};
use engine::nicenum::{nicebytes, nicenum};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::process::ExitCode;

/// Columns by name.
const FIELDS: [(&str, Field); 6] = [
    ("type", Field::Type),
    ("name", Field::Name),
    ("used", Field::Used),
    ("quota", Field::Quota),
    ("objused", Field::Objects),
    ("objquota", Field::ObjectQuota),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Type,
    Name,
    Used,
    Quota,
    Objects,
    ObjectQuota,
}

type Fields = std::sync::Arc<[Field]>;

fn parse_field(word: &str) -> Result<Field, String> {
    let found = FIELDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, f)| *f).ok_or_else(|| format!("invalid field {word:?}"))
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
    /// Sort by this field, small ones first (repeatable)
    #[arg(short = 's', value_name = "FIELD", value_parser = parse_field)]
    ascending: Vec<Field>,
    /// Sort by this field, large ones first (repeatable)
    #[arg(short = 'S', value_name = "FIELD", value_parser = parse_field)]
    descending: Vec<Field>,
    /// Types: all, posixuser, smbuser, posixgroup, smbgroup, project
    #[arg(short = 't', value_name = "TYPE,…", value_parser = parse_types)]
    types: Option<Types>,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: PoolArgs,
    /// A file system or snapshot
    #[arg(value_name = "FILESYSTEM|SNAPSHOT")]
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
            other => return Err(format!("invalid type {other:?}")),
        }
    }
    Ok(out.into())
}

fn type_of(kind: SpaceKind, row: &SpaceRow) -> &'static str {
    match (kind, row.domain.is_some()) {
        (SpaceKind::User, false) => "POSIX User",
        (SpaceKind::User, true) => "SMB User",
        (SpaceKind::Group, false) => "POSIX Group",
        (SpaceKind::Group, true) => "SMB Group",
        (SpaceKind::Project, _) => "Project",
    }
}

/// The space of one kind of owners.
pub struct Of(pub SpaceKind, pub Args);

impl Verb for Of {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let Self(kind, args) = *self;
        let mut pools = Pools::new(args.pool.clone());
        let pool = pools.of(session, &args.dataset)?;
        let dataset = pool.dsl().by_name(&args.dataset)?;
        let fs = filesystem(session, pool, &dataset, &args.pool.open)?;
        let mut rows = fs.space(kind)?;
        if let Some(types) = &args.types {
            rows.retain(|r| types.contains(&type_of(kind, r)));
        }
        rows.sort_by(|a, b| args.compare(session, kind, a, b));
        if args.output.json {
            args.print_json(session, kind, &rows);
            return Ok(ExitCode::SUCCESS);
        }
        let all = || FIELDS.iter().map(|(_, f)| *f).collect();
        let fields: Fields = args.fields.clone().unwrap_or_else(all);
        let names: Vec<String> = fields.iter().map(|f| heading(*f)).collect();
        let headings: Vec<&str> = names.iter().map(String::as_str).collect();
        let right: Vec<bool> =
            fields.iter().map(|f| !matches!(f, Field::Type | Field::Name)).collect();
        let mut table = Table::new(&headings, &right, args.table.script);
        // Old pools do not count objects.
        let counted = rows.iter().any(|r| r.objects.is_some());
        for row in &rows {
            let cell = |f: &Field| match f {
                Field::Objects | Field::ObjectQuota if !counted => "-".to_owned(),
                f => args.cell(session, kind, row, *f),
            };
            table.row(fields.iter().map(cell).collect());
        }
        ui::table(session, &table);
        Ok(ExitCode::SUCCESS)
    }
}

impl Args {
    fn print_json(&self, session: &Session, kind: SpaceKind, rows: &[SpaceRow]) {
        let int = self.output.json_int;
        let number = |n: Option<u64>| n.map_or(Value::Null, |n| json::number(n, int));
        let row = |r: &SpaceRow| {
            json!({
                "type": type_of(kind, r),
                "name": self.name(session, kind, r),
                "id": r.id_text(),
                "used": number(r.used),
                "quota": number(r.quota),
                "objused": number(r.objects),
                "objquota": number(r.object_quota),
            })
        };
        let verb = match kind {
            SpaceKind::User => "zfs userspace",
            SpaceKind::Group => "zfs groupspace",
            SpaceKind::Project => "zfs projectspace",
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let content = Map::from_iter([(self.dataset.clone(), Value::Array(rows))]);
        ui::json(session, &json::document(verb, "datasets", content));
    }

    fn name(&self, session: &Session, kind: SpaceKind, row: &SpaceRow) -> String {
        let known = match kind {
            SpaceKind::User => session.user_name(row.id),
            SpaceKind::Group => session.group_name(row.id),
            SpaceKind::Project => None,
        };
        match known.filter(|_| !self.numeric && row.domain.is_none()) {
            Some(name) => name.to_owned(),
            None => row.id_text(),
        }
    }

    fn cell(&self, session: &Session, kind: SpaceKind, row: &SpaceRow, field: Field) -> String {
        let none = |n: u64, nice: fn(u64) -> String| match (n, self.table.parsable) {
            (n, true) => n.to_string(),
            (0, false) => "none".to_owned(),
            (n, false) => nice(n),
        };
        match field {
            Field::Type => type_of(kind, row).to_owned(),
            Field::Name => self.name(session, kind, row),
            Field::Used if self.table.parsable => row.used.unwrap_or(0).to_string(),
            Field::Used => nicebytes(row.used.unwrap_or(0)),
            Field::Quota => none(row.quota.unwrap_or(0), nicebytes),
            Field::ObjectQuota => none(row.object_quota.unwrap_or(0), nicenum),
            Field::Objects if self.table.parsable => row.objects.unwrap_or(0).to_string(),
            Field::Objects => nicenum(row.objects.unwrap_or(0)),
        }
    }

    fn compare(&self, session: &Session, kind: SpaceKind, a: &SpaceRow, b: &SpaceRow) -> Ordering {
        let by = |field: &Field| match field {
            Field::Type => type_of(kind, a).cmp(type_of(kind, b)),
            Field::Name if self.numeric => (&a.domain, a.id).cmp(&(&b.domain, b.id)),
            Field::Name => self.name(session, kind, a).cmp(&self.name(session, kind, b)),
            Field::Used => a.used.cmp(&b.used),
            Field::Quota => a.quota.cmp(&b.quota),
            Field::Objects => a.objects.cmp(&b.objects),
            Field::ObjectQuota => a.object_quota.cmp(&b.object_quota),
        };
        let up = self.ascending.iter().map(&by);
        let down = self.descending.iter().map(|f| by(f).reverse());
        let usual = [Field::Type, Field::Name];
        let order = up.chain(down).chain(usual.iter().map(&by));
        order.fold(Ordering::Equal, Ordering::then)
    }
}

fn heading(field: Field) -> String {
    let found = FIELDS.iter().find(|(_, f)| *f == field);
    found.map_or_else(String::new, |(name, _)| name.to_uppercase())
}
