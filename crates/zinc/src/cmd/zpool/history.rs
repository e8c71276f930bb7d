//! `zinc zpool history`: the commands and events a pool remembers.
//!
//! A record is printed as one line: time, what, and with `-l` who and where. Events of the pool
//! itself are shown with `-i` only.

use crate::common::PoolArgs;
use crate::failure::Failure;
use crate::{local_time, names, ui};
use engine::Pool;
use engine::dmu;
use engine::dsl::nicenum::stamp;
use engine::ondisk::history::{HistoryPhys, HistoryRecord};
use engine::ondisk::mos;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments of `zinc zpool history`.
#[derive(clap::Args)]
pub struct Args {
    /// Show events of the pool itself too
    #[arg(short = 'i')]
    internal: bool,
    /// Show who, where and in which zone
    #[arg(short = 'l')]
    long: bool,
    #[command(flatten)]
    pool: PoolArgs,
    /// Pools; all found ones when none is named
    pools: Vec<String>,
}

impl Args {
    /// Runs it.
    pub fn run(self) -> Result<ExitCode, Failure> {
        super::for_each_pool(&self.pool, &self.pools, |pool| self.show(pool))
    }

    fn show(&self, pool: &Pool) -> Result<(), Failure> {
        ui::out(&format!("History for '{}':\n", pool.name()));
        let object = pool.directory()?.get_u64(mos::HISTORY)?.filter(|n| *n != 0);
        let Some(object) = object.map(|n| pool.mos().object(n)).transpose()? else {
            ui::out("\n");
            return Ok(());
        };
        let dnode = object.dnode();
        let phys = HistoryPhys::decode(&dnode.bonus, dnode.endian)
            .map_err(|e| object.format_error(0, e))?;
        let read = |at: u64, len: u64| -> Result<Vec<u8>, HistoryError> {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
            object.read_at(at, &mut bytes)?;
            Ok(bytes)
        };
        for record in phys.records(read) {
            let record = record.map_err(|e| match e {
                HistoryError::Read(e) => Failure::from(e),
                HistoryError::Format(e) => Failure::from(object.format_error(0, e)),
            })?;
            if let Some(text) = self.text(&record) {
                ui::out(&text);
            }
        }
        ui::out("\n");
        Ok(())
    }

    /// The lines of a record; `None` when it is not to be shown.
    fn text(&self, record: &HistoryRecord) -> Option<String> {
        let time = stamp(local_time::local(record.time().unwrap_or(0)), '.');
        let mut text = if let Some(command) = record.command() {
            format!("{time} {command}")
        } else if self.internal {
            internal_text(&time, record)
        } else {
            return None;
        };
        if self.long {
            // Writing to a String cannot fail.
            let _ = write!(text, " [{}]", origin_text(record));
        }
        text.push('\n');
        Some(text)
    }
}

/// Why the history could not be read on.
enum HistoryError {
    Read(dmu::Error),
    Format(engine::ondisk::Error),
}

impl From<dmu::Error> for HistoryError {
    fn from(e: dmu::Error) -> Self {
        Self::Read(e)
    }
}

impl From<engine::ondisk::Error> for HistoryError {
    fn from(e: engine::ondisk::Error) -> Self {
        Self::Format(e)
    }
}

fn internal_text(time: &str, record: &HistoryRecord) -> String {
    let txg = record.txg().unwrap_or(0);
    let event_text = record.internal_str().unwrap_or_default();
    let mut text = String::new();
    if let Some(name) = record.internal_name() {
        let _ = write!(text, "{time} [txg:{txg}] {name}");
        if let Some(dataset) = record.dsname() {
            let _ = write!(text, " {dataset} ({})", record.dsid().unwrap_or(0));
        }
        let _ = write!(text, " {event_text}");
    } else if let Some(event) = record.internal_event() {
        let _ = write!(text, "{time} [internal event {event} txg:{txg}] {event_text}");
    } else if let Some(ioctl) = record.ioctl() {
        let _ = writeln!(text, "{time} ioctl {ioctl}");
        for (title, list) in [("input", record.input()), ("output", record.output())] {
            if let Some(list) = list {
                let _ = write!(text, "    {title}:\n{list:8}");
            }
        }
        if let Some(errno) = record.errno() {
            let _ = writeln!(text, "    errno: {errno}");
        }
        text.truncate(text.trim_end_matches('\n').len());
    } else {
        let _ = write!(text, "{time} unrecognized record:\n{:4}", record.list);
        text.truncate(text.trim_end_matches('\n').len());
    }
    text
}

/// Who and where: `user 0 (root) on host:zone`.
fn origin_text(record: &HistoryRecord) -> String {
    let mut text = String::new();
    if let Some(user) = record.who() {
        let _ = write!(text, "user {user} ");
        if let Some(name) = names::user(user) {
            let _ = write!(text, "({name}) ");
        }
    }
    if let Some(host) = record.host() {
        let _ = write!(text, "on {host}");
    }
    if let Some(zone) = record.zone() {
        let _ = write!(text, ":{zone}");
    }
    text
}
