//! `zinc cat`: the content of files to standard output.

use crate::common::{PoolArgs, Target, filesystem};
use crate::failure::Failure;
use crate::ui;
use engine::zpl::FileKind;
use std::process::ExitCode;

/// Bytes read at a time: enough blocks in flight for any device.
const CHUNK: usize = 4 << 20;

/// Arguments of `zinc cat`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Files, as POOL/DATASET[@SNAPSHOT]:PATH
    #[arg(required = true)]
    files: Vec<Target>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let first = self.files.first().map_or("", |t| t.dataset.as_str());
        let pool = self.pool.open(first)?;
        let mut buffer = vec![0; CHUNK];
        for target in &self.files {
            let dataset = pool.dsl().by_name(&target.dataset)?;
            let fs = filesystem(&pool, &dataset, &self.pool.open)?;
            let node = fs.by_path(target.path.as_bytes(), true)?;
            if node.kind() != FileKind::File {
                return Err(Failure::new(format!("{}: not a regular file", target.path)));
            }
            let mut at = 0;
            loop {
                let n = node.read_at(at, &mut buffer)?;
                if n == 0 {
                    break;
                }
                if ui::out_bytes(&buffer[..n]).is_err() {
                    return Ok(ExitCode::SUCCESS);
                }
                at += n as u64;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
