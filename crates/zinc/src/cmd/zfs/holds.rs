//! `zinc zfs holds`: the tags that keep snapshots from being destroyed.

use crate::args::{JsonArgs, PoolArgs, TableArgs};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::opening::Pools;
use crate::refusals::cannot;
use crate::session::Session;
use crate::ui::{self, Table};
use crate::{json, local_time};
use engine::{Dataset, Dsl, ErrorKind};
use serde_json::{Map, json};
use std::process::ExitCode;
use term::human::date;

/// Arguments of `zinc zfs holds`.
#[derive(clap::Args)]
pub struct Args {
    /// Also the snapshots of that name of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    output: JsonArgs,
    #[command(flatten)]
    pool: PoolArgs,
    /// Snapshots
    #[arg(required = true)]
    snapshots: Vec<String>,
}

impl Verb for Args {
    fn served(&self, session: &Session) -> Served {
        Served::everyone_if(self.pool.is_for_everyone(session, &self.snapshots))
    }

    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let mut pools = Pools::new(self.pool.clone());
        let (mut content, mut code) = (Map::new(), ExitCode::SUCCESS);
        let mut table = Table::new(&["NAME", "TAG", "TIMESTAMP"], &[], self.table.script);
        for name in &self.snapshots {
            if !name.contains('@') {
                return Err(Failure::new(format!("'{name}' is not a snapshot")));
            }
            let pool = pools.of(session, name)?;
            let dsl = pool.datasets();
            let snapshots = match self.matching(&dsl, name) {
                Ok(snapshots) => snapshots,
                Err(failure) => {
                    code = failure.report(session);
                    continue;
                }
            };
            for snapshot in snapshots {
                let mut tags = Map::new();
                for hold in dsl.holds(&snapshot)? {
                    let time = match self.table.parsable {
                        true => hold.time.to_string(),
                        false => date(local_time::local(session, hold.time)),
                    };
                    let stamp = json::number(hold.time, self.output.json_int);
                    tags.insert(hold.tag.clone(), stamp);
                    table.row(vec![snapshot.name.clone(), hold.tag, time]);
                }
                content.insert(snapshot.name.clone(), json!({ "holds": tags }));
            }
        }
        if self.output.json {
            ui::json(session, &json::document("zfs holds", "datasets", content));
        } else {
            ui::table(session, &table);
        }
        Ok(code)
    }
}

impl Args {
    fn matching(&self, dsl: &Dsl, name: &str) -> Result<Vec<Dataset>, Failure> {
        let mut out = vec![dsl.by_name(name).map_err(|e| cannot("open", name, e))?];
        if let (true, Some((path, snapshot))) = (self.recursive, name.split_once('@')) {
            let below = format!("{path}/");
            for (dir, _) in dsl.walk().into_iter().filter(|(n, _)| n.starts_with(&below)) {
                match dsl.by_name(&format!("{dir}@{snapshot}")) {
                    Ok(s) => out.push(s),
                    Err(e) => match engine::Error::from(e) {
                        e if *e.kind() == ErrorKind::NotFound => {}
                        e => return Err(e.into()),
                    },
                }
            }
        }
        Ok(out)
    }
}
