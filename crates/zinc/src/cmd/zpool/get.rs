//! `zinc zpool get`: properties of pools and of vdevs, one a line.

use super::each::each;
use crate::args::{JsonArgs, PoolArgs, TableArgs, words};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::served::Server;
use crate::session::Session;
use crate::{found, json, known, ui};
use engine::Pool;
use engine::pools::{NamedVdev, PoolFacts, named_vdevs, vdev_properties};
use engine::props;
use engine::props::{POOL, VDEV};
use std::process::ExitCode;
use std::slice::from_ref;
use views::pool_properties::{FIELDS, Fields, ShownPool, Style, Subject};
use views::pool_properties::{full_name, table, to_json};

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

fn parse_fields(text: &str) -> Result<Fields, String> {
    match text {
        "all" => Ok(FIELDS.iter().map(|(_, f)| *f).collect()),
        _ => words(text, &FIELDS, "column name"),
    }
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
            let is_vdev = |name: &String| named_vdevs(pool, &view, from_ref(name)).is_some();
            self.check_pools(session, pool.name(), vdevs, &is_vdev)?;
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

    /// What is behind the name of a pool, and is not all vdevs of it, is all pools.
    fn check_pools(
        &self,
        session: &Session,
        pool: &str,
        names: &[String],
        is_vdev: &dyn Fn(&String) -> bool,
    ) -> Result<(), Failure> {
        let servers = Server::all_in(session, &self.pool.search)?;
        let served: Vec<u64> = servers.iter().map(|server| server.guid).collect();
        let others = found::all(session, &self.pool.search, &served)?;
        let is_pool = |name: &String| {
            servers.iter().any(|server| server.is_called(name))
                || others.iter().flatten().any(|found| found.is_called(name))
        };
        if names.iter().all(is_pool) {
            return Ok(());
        }
        let described = names.iter().map(|name| match name {
            name if is_vdev(name) => format!("{name} (vdev in this pool)"),
            name if is_pool(name) => format!("{name} (pool)"),
            name => format!("{name} (unknown)"),
        });
        let described = described.collect::<Vec<_>>().join(", ");
        let what = format!("expected a list of vdevs in '{pool}', but got: {described}");
        Err(Failure::usage(what).hint("`zinc zpool status POOL` shows the names of the vdevs"))
    }

    fn shown(&self, pool: &Pool, subjects: Vec<Subject>) -> ShownPool {
        let about = json::pool(&PoolFacts::of(pool), self.output.json_int);
        ShownPool { name: pool.name().to_owned(), about, subjects }
    }

    fn check_names(&self, table: &'static [props::PropertyDesc]) -> Result<(), Failure> {
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

    fn show(&self, session: &Session, all: &[ShownPool], of_vdevs: bool) {
        let TableArgs { script, parsable } = self.table;
        if self.output.json {
            let style = Style { parsable, json_int: self.output.json_int };
            let content = self.keys.keys(to_json(all, &self.properties, style, of_vdevs));
            return ui::json(session, &json::document("zpool get", "pools", content));
        }
        if !all.is_empty() {
            let table = table(all, &self.properties, &self.fields, script, parsable);
            ui::table(session, &table);
        }
    }
}
