//! `zinc ls`: directories of a dataset.

use crate::common::{PoolArgs, Target, filesystem};
use crate::failure::Failure;
use crate::ui;
use engine::zpl::FileKind;
use std::process::ExitCode;

/// Arguments of `zinc ls`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// What to list, as POOL/DATASET[@SNAPSHOT]:PATH
    target: Target,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let pool = self.pool.open(&self.target.dataset)?;
        let dataset = pool.dsl().by_name(&self.target.dataset)?;
        let fs = filesystem(&pool, &dataset, &self.pool.open)?;
        let node = fs.by_path(self.target.path.as_bytes(), true)?;
        if node.kind() != FileKind::Dir {
            ui::out(&format!("{}\n", self.target.path));
            return Ok(ExitCode::SUCCESS);
        }
        for entry in node.sorted_entries()? {
            ui::out(&format!("{}\n", String::from_utf8_lossy(&entry.name)));
        }
        Ok(ExitCode::SUCCESS)
    }
}
