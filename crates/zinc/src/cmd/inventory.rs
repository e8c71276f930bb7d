//! `zinc inventory`: the whole content of a pool as JSON.

use crate::args::{PoolArgs, bytes};
use crate::cmd::verb::{Served, Verb};
use crate::failure::Failure;
use crate::objsets::Sets;
use crate::progress::while_showing;
use crate::session::Session;
use crate::target::Output;
use crate::ui;
use engine::inventory;
use engine::inventory::{Options, Reports};
use engine::{Pool, Progress};
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
    /// Leave out the contents of volumes
    #[arg(long)]
    no_volumes: bool,
    /// Do not hash files and volumes with more than this many bytes of holes; K, M, G and T are
    /// units
    #[arg(long, value_name = "BYTES", default_value = "64G", value_parser = bytes)]
    max_hole: u64,
    /// Name or guid of the pool
    #[arg(value_name = "POOL")]
    name: String,
}

/// The reports that a manifest quotes.
fn reports(pool: &Pool) -> Reports {
    let space = pool.space();
    let (status, view) = (pool.status(&space), pool.vdev_view(&space));
    views::pools::reports(&status, &pool.properties(&space), &view)
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    /// Runs it. Exit code 1 when something could not be read.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let pool = self.pool.clone().anywhere().open(session, &self.name)?;
        let progress = Progress::new();
        progress.begin("files", 0);
        let sets = Sets::new(session, &pool, &self.pool.open);
        let open = |dataset: &engine::Dataset| sets.open(dataset);
        let options = Options {
            volumes: !self.no_volumes,
            replayed: sets.replays(),
            open: &open,
            max_hole: self.max_hole,
            progress: &progress,
            reports: &reports,
        };
        let file = self.out.as_deref().map(|path| Output::create(session, path)).transpose()?;
        let errors = while_showing(session, &progress, || match file {
            Some(mut file) => {
                let errors = write(&pool, &options, &mut file);
                if errors.as_ref().is_err_and(is_gone) {
                    return Ok(errors);
                }
                let (errors, written) = match errors {
                    Ok(errors) => (errors, Ok(())),
                    Err(e) => (Vec::new(), Err(e)),
                };
                file.finish(written).map(|()| Ok(errors))
            }
            None => Ok(write(&pool, &options, &mut ui::Output::new(session))),
        })?;
        let errors = match errors {
            // A reader that went away, as with `| head`, wanted no more.
            Err(e) if is_gone(&e) => return Ok(ExitCode::SUCCESS),
            other => other?,
        };
        for e in &errors {
            ui::note(session, &e.to_string());
        }
        Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn is_gone(e: &std::io::Error) -> bool {
    e.kind() == std::io::ErrorKind::BrokenPipe
}

fn write(
    pool: &engine::Pool,
    options: &Options<'_>,
    out: &mut (impl Write + Send),
) -> std::io::Result<Vec<String>> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let errors = inventory::write(pool, options, &mut out)?;
    out.flush().map(|()| errors)
}
