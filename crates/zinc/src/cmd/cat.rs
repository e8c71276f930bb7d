//! `zinc cat`: the content of files and volumes to standard output.

use crate::args::PoolArgs;
use crate::cmd::verb::{Served, Verb};
use crate::failure::{FAILED, Failure};
use crate::objsets::Sets;
use crate::session::Session;
use crate::ui;
use engine::extract::{FileContent, Lost};
use engine::files::FileKind;
use engine::places::GivenPlace;
use engine::{DatasetKind, Pool, Volume};
use std::process::ExitCode;

/// Bytes read at a time: enough blocks in flight for any device.
const CHUNK: u64 = 4 << 20;

/// Arguments of `zinc cat`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    /// Start at this byte
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    offset: u64,
    /// Write at most this many bytes of each file
    #[arg(long, value_name = "BYTES")]
    length: Option<u64>,
    /// Files, as POOL/DATASET[@SNAPSHOT]:PATH; volumes, as POOL/DATASET[@SNAPSHOT]
    #[arg(required = true, value_name = "FILE")]
    files: Vec<std::ffi::OsString>,
}

impl Verb for Args {
    fn served(&self, _: &Session) -> Served {
        Served::ToOwner
    }

    /// Runs it. A file that cannot be read is written up to there and reported, and the next is
    /// tried; exit code 1 then.
    fn run(self: Box<Self>, session: &Session) -> Result<ExitCode, Failure> {
        let places: Vec<GivenPlace> = self.files.iter().map(|f| f.as_os_str().into()).collect();
        let first = places.first().map(GivenPlace::pool).unwrap_or_default();
        let pool = self.pool.clone().anywhere().open(session, &first)?;
        let sets = Sets::new(session, &pool, &self.pool.open);
        let mut failed = false;
        for place in &places {
            match self.one(session, &pool, &sets, place) {
                Ok(true) => {}
                // There is no reader.
                Ok(false) => return Ok(ExitCode::SUCCESS),
                Err(e) => {
                    e.report(session);
                    failed = true;
                }
            }
        }
        Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
    }
}

impl Args {
    /// Writes one; false when its output is lost.
    fn one(
        &self,
        session: &Session,
        pool: &Pool,
        sets: &Sets<'_>,
        place: &GivenPlace,
    ) -> Result<bool, Failure> {
        let found = place.find(pool)?;
        if pool.datasets().kind(&found.dataset) == DatasetKind::Volume {
            let volume = Volume::open(&sets.open(&found.dataset)?)?;
            return self.bytes(session, place, &FileContent::of_volume(&volume));
        }
        let fs = sets.filesystem(&found.dataset)?;
        let node = found.node(&fs, true)?;
        match node.kind() {
            FileKind::File => self.bytes(session, place, &FileContent::of_file(&node)),
            FileKind::Dir => Err(Failure::new(format!("{}: a directory", place.shown()))),
            _ => Err(Failure::new(format!("{}: not a regular file", place.shown()))),
        }
    }

    /// Writes the requested part, up to the first bytes that are lost.
    fn bytes(
        &self,
        session: &Session,
        place: &GivenPlace,
        content: &FileContent<'_>,
    ) -> Result<bool, Failure> {
        let wanted = self.length.and_then(|n| self.offset.checked_add(n)).unwrap_or(u64::MAX);
        let end = content.size().min(wanted);
        let mut buffer = vec![0; CHUNK.min(end.saturating_sub(self.offset)) as usize];
        let mut at = self.offset;
        while at < end {
            let n = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let (read, lost) = content.read_until_lost(at, &mut buffer[..n])?;
            session.check()?;
            if ui::out_bytes(session, &buffer[..read]).is_err() {
                // Why becomes the exit code.
                return Ok(false);
            }
            if let Some(Lost { offset, length, cause }) = lost {
                let what = format!("{}: bytes {offset}+{length} are lost", place.shown());
                let hint =
                    format!("--offset {} goes on behind them", offset.saturating_add(length));
                return Err(Failure::new(what).because(cause).hint(hint));
            }
            at += n as u64;
        }
        Ok(true)
    }
}
