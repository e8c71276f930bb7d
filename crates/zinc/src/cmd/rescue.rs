//! `zinc rescue`: everything that can still be read, and a list of what cannot.

use crate::args::PoolArgs;
use crate::cmd::cp::cancelled;
use crate::cmd::cp::preserve::KeepArgs;
use crate::cmd::verb::Verb;
use crate::failure::{FAILED, Failure};
use crate::objsets::Sets;
use crate::progress::while_showing;
use crate::session::Session;
use crate::ui;
use engine::Progress;
use engine::extract::ExtractObserver as _;
use engine::places::GivenPlace;
use engine::pools::PoolFacts;
use engine::rescue::Rescue;
use hostfs::Dir;
use hostfs::rescue::{LOG_NAME, Log};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments of `zinc rescue`.
#[derive(clap::Args)]
#[command(after_help = "\
Each dataset becomes a folder of DEST, named like it with % for /; a volume becomes an image with
.img behind its name. With a path, what is there is copied into DEST itself. DEST/rescue.jsonl lists
every loss; started again with the same DEST, files that are whole are not read again. A name that
no file can have here becomes another (a/b is a%2Fb), and the log says which.

Where tables are lost that files are found by, what the rest of the pool says is taken instead; the
log lists these fallbacks.

Exit code 1: something is lost, the log says what.")]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Also the datasets below
    #[arg(short, long)]
    recursive: bool,
    /// Also snapshots
    #[arg(long)]
    snapshots: bool,
    /// Also replace links, pipes, sockets and devices that are in the way
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    keep: KeepArgs,
    /// What to rescue: POOL (everything in it), POOL/DATASET[@SNAPSHOT] or one with :PATH
    source: std::ffi::OsString,
    /// The directory to copy into; made when it is not there
    dest: PathBuf,
}

impl Verb for Args {
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let place = GivenPlace::from(self.source.as_os_str());
        let mut open = self.pool.clone().anywhere();
        open.without_directory = true;
        let pool = open.open_devices(session, &place.pool())?;
        let cannot = |e: std::io::Error| {
            Failure::new(format!("cannot write to {}", self.dest.display())).because(e.to_string())
        };
        let path = session.path(&self.dest);
        let dest = Arc::new(Dir::open_target(&path, false).map_err(cannot)?);
        let log = Log::open(&dest).map_err(|e| {
            let what = format!("cannot write to {}", path.join(LOG_NAME).display());
            Failure::new(what).because(e.to_string())
        })?;
        let progress = Progress::new();
        progress.begin("rescued", 0);
        log.write(
            "start",
            object(json!({
                "pool": pool.name(),
                "guid": pool.guid().to_string(),
                "txg": PoolFacts::of(&pool).txg,
                "source": place.shown(),
            })),
        );
        if let Some(older) = self.pool.open.older_state(&pool) {
            log.of(pool.name()).failed(b"", 0, &older);
        }
        for salvage in pool.salvage() {
            let what = format!("{} cannot be read: {}", salvage.what, salvage.cause);
            log.of(pool.name()).fallback(b"", 0, &what);
        }
        let sets = Sets::new(session, &pool, &self.pool.open);
        let rescue = Rescue {
            pool: &pool,
            dest: &dest,
            reserved: LOG_NAME.as_bytes(),
            observer: &|dataset| Box::new(log.of(dataset)),
            keep: self.keep.keep(),
            force: self.force,
            open: &|dataset| sets.open(dataset),
            progress: &progress,
        };
        while_showing(session, &progress, || self.rescue(&rescue, &place))?;
        progress.check().map_err(|e| cancelled(&e))?;
        // "Nothing lost" refers to what is on the disk.
        dest.sync().map_err(cannot)?;
        self.end(session, &log).map_err(|e| cannot(e).hint("the log is incomplete"))
    }
}

fn object(v: Value) -> Map<String, Value> {
    match v {
        Value::Object(m) => m,
        _ => Map::new(),
    }
}

impl Args {
    /// Ends the log, and says what came of it.
    fn end(&self, session: &Session, log: &Log) -> std::io::Result<ExitCode> {
        let is_plain = log.end()?;
        let message = log.summary(&self.dest.join(LOG_NAME));
        let why = log.first_failure().into_iter();
        ui::failure(session, &why.fold(Failure::new(message), Failure::because));
        Ok(if is_plain { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    fn rescue(&self, rescue: &Rescue<'_, Dir>, place: &GivenPlace) -> Result<(), Failure> {
        // The pool's name alone means all of it, also when its root dataset is lost.
        if place.is_pool(rescue.pool) {
            rescue.datasets("", true, self.snapshots);
            return Ok(());
        }
        let found = place.find(rescue.pool)?;
        if let Some(path) = found.path.as_ref().filter(|p| p.iter().any(|b| *b != b'/')) {
            let fs = rescue.filesystem(&found.dataset)?;
            let node = found.node(&fs, false)?;
            let name = found.last_name().unwrap_or(b"file");
            rescue.node(&found.dataset, &fs, &node, name, path);
            return Ok(());
        }
        match found.dataset.is_snapshot() {
            true => rescue.dataset(&found.dataset),
            false => rescue.datasets(&found.dataset.name, self.recursive, self.snapshots),
        }
        Ok(())
    }
}
