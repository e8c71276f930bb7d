//! `zinc stat`: everything a pool knows about a file.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::objsets::Sets;
use crate::session::Session;
use crate::ui;
use engine::Pool;
use engine::files::FileFacts;
use engine::places::GivenPlace;
use engine::properties::has_posix_acls;
use std::process::ExitCode;
use views::files::stat::Facts;

/// Arguments of `zinc stat`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'L', long)]
    dereference: bool,
    /// Print JSON: one object a line
    #[arg(short, long)]
    json: bool,
    /// Show this object of the dataset, whatever its name
    #[arg(long, value_name = "N")]
    object: Option<u64>,
    /// Files, as POOL/DATASET[@SNAPSHOT]:PATH
    #[arg(required = true, value_name = "FILE")]
    files: Vec<std::ffi::OsString>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    /// Runs it. A file that cannot be found is reported and the next is tried; exit code 1 then.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let places: Vec<GivenPlace> = self.files.iter().map(|f| f.as_os_str().into()).collect();
        let pool = self
            .pool
            .clone()
            .anywhere()
            .open(session, &places.first().map(GivenPlace::pool).unwrap_or_default())?;
        let sets = Sets::new(session, &pool, &self.pool.open);
        let mut failed = false;
        for place in &places {
            if let Err(e) = self.one(session, &pool, &sets, place) {
                e.report(session);
                failed = true;
            }
        }
        Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

impl Args {
    fn one(
        &self,
        session: &Session,
        pool: &Pool,
        sets: &Sets<'_>,
        place: &GivenPlace,
    ) -> Result<(), Failure> {
        let found = place.find(pool)?;
        let fs = sets.filesystem(&found.dataset)?;
        let node = match self.object {
            Some(n) => fs.node(n)?,
            None => found.node(&fs, self.dereference)?,
        };
        let name = if found.path().is_empty() { b".".to_vec() } else { found.path().to_vec() };
        let has_posix_acls = has_posix_acls(pool, &found.dataset);
        let file = &FileFacts::of(&fs, &node, has_posix_acls);
        let facts = Facts { name, file, has_posix_acls, host_info: session };
        if self.json {
            ui::json_line(session, &facts.json().dump());
        } else {
            ui::out(session, &facts.text());
        }
        Ok(())
    }
}
