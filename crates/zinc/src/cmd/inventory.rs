//! `zinc inventory`: the whole content of a pool as JSON.

use crate::common::PoolArgs;
use crate::failure::Failure;
use crate::progress::while_showing;
use crate::{asked, objsets, ui};
use engine::inventory::{self, Options};
use engine::rt::Progress;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `zinc inventory`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Write to this file instead of standard output
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Leave the content of volumes out
    #[arg(long)]
    no_volumes: bool,
    /// Name or guid of the pool
    #[arg(value_name = "POOL")]
    name: String,
}

impl Args {
    /// Runs it. Exit code 1 when something could not be read.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let pool = self.pool.open(&self.name)?;
        let progress = Progress::new();
        progress.begin("files", 0);
        let open = |d: &engine::Dataset| objsets::open(&pool, d, &self.pool.open);
        let options = Options {
            volumes: !self.no_volumes,
            replayed: self.pool.open.replay,
            open: &open,
            progress: &progress,
        };
        let errors = while_showing(&progress, || match &self.out {
            Some(path) => write_file(&pool, &options, &asked::path(path)),
            None => {
                let mut out = BufWriter::with_capacity(1 << 16, ui::Output);
                let errors = inventory::write(&pool, &options, &mut out)?;
                out.flush().map(|()| errors)
            }
        });
        let errors = match errors {
            // A reader that went away, as with `| head`, wanted no more.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            other => other?,
        };
        for e in &errors {
            ui::error(&format!("zinc: {e}\n"));
        }
        Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Writes beside `path` and renames, so that a manifest with that name is a whole one.
fn write_file(
    pool: &engine::Pool,
    options: &Options<'_>,
    path: &std::path::Path,
) -> std::io::Result<Vec<String>> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let mut out = BufWriter::with_capacity(1 << 16, File::create(&part)?);
    let errors = inventory::write(pool, options, &mut out)?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    std::fs::rename(&part, path)?;
    Ok(errors)
}
