//! `zinc zfs holds`: the tags that keep snapshots from being destroyed.

use crate::common::{PoolArgs, Pools};
use crate::failure::Failure;
use crate::local_time;
use crate::ui::Table;
use engine::dsl::nicenum::date;
use engine::{Dataset, Dsl};
use std::process::ExitCode;

/// Arguments of `zinc zfs holds`.
#[derive(clap::Args)]
pub struct Args {
    /// Also the snapshots of that name of all datasets below
    #[arg(short = 'r')]
    recursive: bool,
    /// No headings, tabs between columns
    #[arg(short = 'H')]
    script: bool,
    /// Times as seconds since 1970
    #[arg(short = 'p')]
    parsable: bool,
    #[command(flatten)]
    pool: PoolArgs,
    /// Snapshots
    #[arg(required = true)]
    snapshots: Vec<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let mut pools = Pools::new(self.pool.clone());
        let mut table = Table::new(&["NAME", "TAG", "TIMESTAMP"], &[], self.script);
        for name in &self.snapshots {
            if !name.contains('@') {
                return Err(Failure::new(format!("{name:?} is not a snapshot")));
            }
            let dsl = pools.of(name)?.dsl();
            for snapshot in self.matching(dsl, name)? {
                for hold in dsl.holds(&snapshot)? {
                    let time = match self.parsable {
                        true => hold.time.to_string(),
                        false => date(local_time::local(hold.time)),
                    };
                    table.row(vec![snapshot.name.clone(), hold.tag, time]);
                }
            }
        }
        table.print();
        Ok(ExitCode::SUCCESS)
    }

    fn matching(&self, dsl: &Dsl, name: &str) -> Result<Vec<Dataset>, Failure> {
        let mut out = vec![dsl.by_name(name)?];
        if let (true, Some((path, snapshot))) = (self.recursive, name.split_once('@')) {
            let below = format!("{path}/");
            for (dir, _) in dsl.walk().into_iter().filter(|(n, _)| n.starts_with(&below)) {
                match dsl.by_name(&format!("{dir}@{snapshot}")) {
                    Ok(s) => out.push(s),
                    Err(engine::dsl::Error::NoSuchDataset(_)) => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(out)
    }
}
