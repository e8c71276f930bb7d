//! `zdb -h`: the history of the pool, internal events included.

use super::dump::Dump;
use super::show;
use crate::Result;
use engine::Pool;
use engine::inside::ondisk::history::{HistoryPhys, HistoryRecord};
use engine::inside::ondisk::mos;
use engine::inside::ondisk::spelling::in_line;
use term::human::stamp;

/// Prints every record; from the second `-h` on with all of its members.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8) -> Result<()> {
    d.note("History:");
    let Some(number) = pool.directory()?.get_u64(mos::HISTORY)?.filter(|n| *n != 0) else {
        d.note("there is none");
        return Ok(());
    };
    let object = pool.mos().object(number)?;
    let dnode = object.dnode();
    let phys = HistoryPhys::decode(&dnode.bonus, dnode.endian);
    let Some(phys) = d.keep("history", phys) else { return Ok(()) };
    d.hold("records_lost", phys.records_lost);
    let read = |offset: u64, length: u64| -> Result<Vec<u8>, HistoryError> {
        let mut out = vec![0; length as usize];
        object.read_at(offset, &mut out).map_err(|e| HistoryError(e.to_string()))?;
        Ok(out)
    };
    for r in phys.records(read) {
        match r {
            Ok(r) => record(d, &r, level),
            Err(HistoryError(e)) => d.fail(e),
        }
    }
    Ok(())
}

struct HistoryError(String);

impl From<engine::inside::ondisk::Error> for HistoryError {
    fn from(e: engine::inside::ondisk::Error) -> Self {
        Self(e.to_string())
    }
}

fn record(d: &mut Dump, r: &HistoryRecord, level: u8) {
    let time = r.time().unwrap_or(0);
    let mut line = stamp(time, '.');
    if let Some(c) = r.command() {
        line.push_str(&format!(" {c}"));
    } else if let Some(name) = r.internal_name() {
        if let Some(txg) = r.txg() {
            line.push_str(&format!(" [txg:{txg}]"));
        }
        line.push_str(&format!(" {name}"));
        if let Some(ds) = r.dsname() {
            line.push_str(&format!(" {ds} ({})", r.dsid().unwrap_or(0)));
        }
        line.push_str(&format!(" {}", r.internal_str().unwrap_or_default()));
    } else if let Some(event) = r.internal_event() {
        let text = r.internal_str().unwrap_or_default();
        line.push_str(&format!(" [internal {event} txg:{}] {text}", r.txg().unwrap_or(0)));
    } else if let Some(ioctl) = r.ioctl() {
        line.push_str(&format!(" ioctl {ioctl}"));
    } else {
        line.push_str(" record of an unknown kind");
    }
    d.open_flat("records");
    d.hold("offset", r.offset);
    // A record is one line, whatever a property was set to.
    d.note(in_line(&line));
    if d.is_json() {
        d.hold("record", show::nvlist_json(&r.list));
    } else if level >= 2 {
        let text = format!("{:2}", r.list);
        d.note(text.trim_end_matches('\n'));
    } else {
        for (what, list) in [("input", r.input()), ("output", r.output())] {
            if let Some(list) = list {
                d.note(format_args!("    {what}:"));
                let text = format!("{list:8}");
                d.note(text.trim_end_matches('\n'));
            }
        }
        if let Some(e) = r.errno() {
            d.note(format_args!("    errno: {e}"));
        }
        if let Some(ns) = r.elapsed_ns() {
            d.note(format_args!("    elapsed_ns: {ns}"));
        }
    }
    d.close_flat();
}
