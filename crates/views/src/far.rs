//! Disks in stores of objects: what they are, and what they cost.

use crate::HostInfo;
use crate::files::time_text;
use engine::devices::FarName;
use engine::devices::disk::{Collected, DiskError, Overview, Report, StoreError, WriterInfo};
use engine::devices::is_bucket;
use engine::devices::price::{Cost, Item, Prices, Workload};
use engine::files::Time;
use engine::hex;
use engine::layout::Layout;
use engine::live::SpaceClass;
use std::fmt::Write as _;
use term::Table;
use term::escape::word;
use term::human::nicenum;

/// What helps where a store has no disk, but perhaps this object.
#[must_use]
pub fn no_disk(object: Option<String>) -> String {
    match object {
        None => "`zinc far create` makes one".to_owned(),
        Some(object) => format!(
            "objects are there, such as {object}: what made a disk of them, 'super', is gone, or \
             they are something else"
        ),
    }
}

/// What helps when a store, or the disk in it, did this.
#[must_use]
pub fn hint(name: &FarName, trouble: &DiskError) -> Option<String> {
    let text = match trouble {
        DiskError::Damaged(..) | DiskError::Missing(..) => {
            return Some(format!(
                "`zinc far check {}` says what else is damaged: restore it from a copy of the \
                 store",
                word(name.as_str())
            ));
        }
        DiskError::Older { file, .. } => {
            let file = file.to_string_lossy();
            return Some(format!("if the store was restored on purpose, delete {}", word(&file)));
        }
        DiskError::Store(StoreError::Denied(_) | StoreError::Lost) if !is_bucket(name.as_str()) => {
            "check that its directory is there: it may have to be mounted"
        }
        DiskError::Store(StoreError::Denied(_)) => {
            "check the name of the bucket, and the credentials in the environment or in their file"
        }
        DiskError::Store(StoreError::Lost) => {
            "check its address (endpoint=), the network, and that the server runs"
        }
        DiskError::Rule(_) => {
            "change the rule so that it is not for names below the prefix, or take another"
        }
        DiskError::NotEmpty(_) => "a disk is made where no other object is",
        DiskError::NoFence(_) => {
            "--single-writer takes it all the same, if you see to it that one machine alone writes"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// A description of a disk, in lines.
#[must_use]
pub fn overview(host_info: &dyn HostInfo, found: &Overview, name: &FarName) -> String {
    let date = |seconds| date(host_info, seconds);
    let mut text = String::new();
    let mut line = |what: &str, value: String| {
        // Into a string, which cannot fail.
        let _ = writeln!(text, "{what:>12}: {value}");
    };
    line("disk", name.as_str().to_owned());
    line("id", hex::encode(&found.volume));
    line("size", nicenum(found.is.size));
    line("fence", if found.is.is_fenced { "tried" } else { "none: a single writer" }.to_owned());
    match &found.log {
        Ok(log) => {
            let state = if log.is_closed { "closed" } else { "open, or its writer was killed" };
            let used = log.live.saturating_mul(100).checked_div(log.kept).unwrap_or(100);
            line("state", format!("{state}; writer {}, {} in the log", log.epoch, log.next - 1));
            let (live, kept) = (nicenum(log.live), nicenum(log.kept));
            line("used", format!("{live} in {} segments of {kept}, {used}% of them", log.segments));
            if let Some(limit) = found.is.limit {
                let (stored, limit) = (nicenum(log.stored), nicenum(limit));
                line("limit", format!("{limit}, of which segments take {stored}"));
            }
            line("map", format!("{} extents, {} of memory", log.extents, nicenum(log.map_memory)));
        }
        Err(_) => line("state", "cannot be opened".to_owned()),
    }
    let newest = found.checkpoints.last();
    line(
        "checkpoints",
        newest.map_or("none".to_owned(), |newest| {
            format!("{}, the newest at {newest}", found.checkpoints.len())
        }),
    );
    for writer in &found.writers {
        let who = format!("{} (process {})", writer.who.host, writer.who.pid);
        line("writer", format!("{} on {who} at {}", writer.epoch, date(writer.time)));
    }
    for pin in &found.pins {
        let who = format!("{} (process {})", pin.who.host, pin.who.pid);
        line("pin", format!("{} at {} by {who} at {}", pin.name, pin.at, date(pin.time)));
    }
    text
}

/// Disks with their sizes in bytes, which is not known of damaged ones, as a table.
#[must_use]
pub fn disks(all: &[(&FarName, Option<u64>)]) -> String {
    let mut table = Table::new(&["DISK", "SIZE"], &[false, true], false);
    for (name, size) in all {
        table.row(vec![name.as_str().to_owned(), size.map_or("-".to_owned(), nicenum)]);
    }
    table.text()
}

/// A writer of a disk, and since when it is one.
#[must_use]
pub fn writer(host_info: &dyn HostInfo, writer: &WriterInfo) -> String {
    let WriterInfo { epoch, who, time } = writer;
    let since = date(host_info, *time);
    format!("writer {epoch} on {} (process {}) since {since}", who.host, who.pid)
}

fn date(host_info: &dyn HostInfo, seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or_default();
    time_text(host_info, Time { seconds, nanos: 0 })
}

/// The result of a check, in lines.
#[must_use]
pub fn report(found: &Report) -> String {
    let lines = found.findings.iter().map(|finding| {
        format!("{}: {} ({} lost)\n", finding.object, finding.what, nicenum(finding.lost))
    });
    let (verified, wrong) = (nicenum(found.verified), found.findings.len());
    let all = format!("{} segments with {verified} verified, {wrong} damaged\n", found.segments);
    lines.chain([all]).collect()
}

/// The result of a clean-up; `moved` are bytes.
#[must_use]
pub fn collected(done: &Collected, moved: u64) -> String {
    let Collected { segments, bytes, others, waiting, .. } = done;
    let (moved, bytes) = (nicenum(moved), nicenum(*bytes));
    let mut text = format!(
        "{moved} moved; {segments} segments with {bytes} and {others} other objects deleted\n"
    );
    if *waiting > 0 {
        // Into a string, which cannot fail.
        let _ = writeln!(text, "{waiting} dead segments must wait for readers");
    }
    text
}

/// Seconds between transaction groups that are recommended where each costs something.
const TXG_ADVISED: u64 = 30;
/// Bytes of a record that are recommended for the same reason.
const RECORD_ADVISED: u64 = 1 << 20;

fn total(items: &[Item]) -> Cost {
    items.iter().fold(Cost(0), |sum, item| sum.plus(item.cost))
}

/// The cost of a month of use, and how to make it cheaper.
#[must_use]
pub fn cost(workload: &Workload, prices: &Prices) -> String {
    let items = workload.month(prices);
    let mut table = Table::new(&["", "REQUESTS", "$ A MONTH"], &[false, true, true], false);
    for Item { what, requests, cost } in &items {
        let requests = if *what == "kept" { "-".to_owned() } else { requests.to_string() };
        table.row(vec![(*what).to_owned(), requests, cost.to_string()]);
    }
    table.row(vec!["all".to_owned(), "-".to_owned(), total(&items).to_string()]);
    let mut text = table.text();
    // Into a string, which cannot fail.
    let _ = write!(text, "\nPrices: {} ({}).\n", prices.source, prices.date);
    let mut advise = |what: &str, other: Workload| {
        let (now, then) = (total(&items), total(&other.month(prices)));
        if then < now {
            let _ = writeln!(text, "{what}: {then} a month in place of {now}.");
        }
    };
    let own = || workload.clone();
    advise("With a log device on a local disk", Workload { syncs: 0, ..own() });
    if workload.txg < TXG_ADVISED {
        let other = Workload { txg: TXG_ADVISED, ..own() };
        advise(&format!("With zfs_txg_timeout={TXG_ADVISED}"), other);
    }
    if workload.read_size < RECORD_ADVISED {
        let other = Workload { read_size: RECORD_ADVISED, ..own() };
        let what =
            "With recordsize=1M, and a special vdev of mirrored local disks for what is smaller";
        advise(what, other);
    }
    text
}

/// Advice for a user who makes a pool with devices in buckets; none for other pools.
#[must_use]
pub fn advice(layout: &Layout, prices: &Prices) -> Option<String> {
    let leaves = layout.tops.iter().flat_map(|top| top.spec.leaves());
    let buckets: Vec<&str> = leaves.filter(|path| is_bucket(path)).collect();
    if buckets.is_empty() {
        return None;
    }
    let idle = Workload { kept: 0, written: 0, read: 0, read_size: 1, txg: 5, busy: 0, syncs: 0 };
    let month = |workload: Workload| total(&workload.month(prices));
    let kept = month(Workload { kept: 1 << 40, ..idle.clone() });
    let busy = month(Workload { busy: 100, ..idle.clone() });
    let slow = month(Workload { busy: 100, txg: TXG_ADVISED, ..idle.clone() });
    let sync = month(Workload { syncs: 1, ..idle });
    let mut text = format!(
        "note: a bucket is billed by the month: ${kept} for each TiB stored, up to ${busy} for \
         transaction groups (${slow} with zfs_txg_timeout={TXG_ADVISED}); `zinc far cost` \
         counts your own use\n"
    );
    if !buckets.iter().all(|name| prices.are_of(name)) {
        let _ = writeln!(text, "note: these are the {}; ZINC_PRICES names others", prices.source);
    }
    let lacks = |class| !layout.tops.iter().any(|top| top.class == class);
    if lacks(SpaceClass::Log) {
        let _ = writeln!(
            text,
            "note: without a log device on a local disk each fsync waits for the bucket: ${sync} a \
             month for one in each second"
        );
    }
    if lacks(SpaceClass::Special) {
        text.push_str(
            "note: without a special vdev on local disks (a mirror: the pool is lost with it) \
             every small block is read from the bucket\n",
        );
    }
    Some(text)
}
