//! `zdb -b` and `-c`: sums over all blocks, with checksums verified.
//!
//! | level of `-b` | what is said |
//! | --- | --- |
//! | 1 | the sums, leaks |
//! | 2 | a row for each type of object |
//! | 3 | rows for each level |
//! | 4 | sizes of blocks and of embedded payloads |
//!
//! The walk, the verification and the comparison with the space maps are those of `zinc check`.
//! `-b` and `-c` read all metadata, `-cc` everything.

use super::dump::{Dump, one_line};
use super::{show, walk};
use engine::Pool;
use engine::inside::check;
use engine::inside::check::{BlockKind, CheckOptions, Issue, Sum, Totals, Verify};
use engine::inside::ondisk::DmuType;
use engine::inside::rt;
use serde_json::json;
use std::collections::BTreeMap;

/// Prints the sums. `checksum` is the level of `-c`.
pub(crate) fn dump(d: &mut Dump, pool: &Pool, level: u8, checksum: u8) {
    let verify = if checksum >= 2 { Verify::All } else { Verify::Metadata };
    let options = CheckOptions { verify, ..CheckOptions::default() };
    let report = check::run(pool, &options, &rt::Progress::new());
    d.open_one("block_stats");
    d.note("\nTraversing all blocks to verify checksums and space maps:\n");
    let mut leaks = 0u64;
    for issue in &report.issues {
        leaks += u64::from(matches!(issue, Issue::Leaked { .. } | Issue::UsedButFree { .. }));
        if issue.severity() == check::Severity::Note {
            d.push("notes", issue.to_string());
            d.note(format_args!("\tnote: {}", one_line(issue)));
        } else {
            d.fail(issue);
        }
    }
    for (name, n) in &report.dropped {
        d.fail(format_args!("{n} more issues {name}"));
    }
    if leaks == 0 && report.blocks_lost == 0 {
        d.note("\tNo leaks (block sum matches space maps exactly)\n");
    }
    sums(d, &report.totals);
    d.field(
        "allocated",
        report.allocated,
        format_args!("\tspace maps:         {:12}", report.allocated),
    );
    let n = report.checkpointed;
    d.field("checkpointed", n, format_args!("\tcheckpoint only:    {n:12}"));
    let n = report.blocks_read;
    d.field("blocks_read", n, format_args!("\tblocks read:        {n:12}"));
    let n = report.blocks_lost;
    d.field("blocks_lost", n, format_args!("\tblocks lost:        {n:12}"));
    if level >= 2 {
        table(d, &report.totals, level >= 3);
    }
    d.close_flat();
    if level >= 4 {
        sizes(d, pool);
    }
}

fn part(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

fn sums(d: &mut Dump, totals: &Totals) {
    let t = totals.total();
    let n = t.count.max(1);
    d.field("count", t.count, format_args!("\tbp count:           {:12}", t.count));
    d.field("gangs", t.gangs, format_args!("\tganged count:       {:12}", t.gangs));
    let (l, p, a) = (t.logical, t.physical, t.allocated);
    d.field("logical", l, format_args!("\tbp logical:         {l:12}      avg: {:6}", l / n));
    let (avg, comp) = (p / n, part(l, p));
    let line =
        format!("\tbp physical:        {p:12}      avg: {avg:6}     compression: {comp:6.2}");
    d.field("physical", p, line);
    let (avg, comp) = (a / n, part(l, a));
    let line =
        format!("\tbp allocated:       {a:12}      avg: {avg:6}     compression: {comp:6.2}");
    d.field("bp_allocated", a, line);
    let (bytes, blocks) = (totals.dedup_bytes, totals.dedup_blocks);
    let ratio = part(bytes, a) + 1.0;
    d.hold("dedup_blocks", blocks);
    let line = format!(
        "\tbp deduped:         {bytes:12}    ref>1: {blocks:6}   deduplication: {ratio:6.2}"
    );
    d.field("dedup_bytes", bytes, line);
    let (bytes, blocks) = (totals.clone_bytes, totals.clone_blocks);
    d.hold("clone_blocks", blocks);
    d.field(
        "clone_bytes",
        bytes,
        format_args!("\tbp cloned:          {bytes:12}    count: {blocks:6}"),
    );
    let once = totals.allocated_once();
    d.field("allocated_once", once, format_args!("\tshared blocks once: {once:12}"));
    for (kind, n) in totals.embedded.iter().enumerate().filter(|(_, n)| **n > 0) {
        d.push("embedded", json!({"kind": kind, "count": n}));
        d.note(format_args!("\tadditional, non-pointer bps of type {kind}: {n:10}"));
    }
    let same = t.ditto_same_vdev;
    d.field("ditto_same_vdev", same, format_args!("\tDittoed blocks on same vdev: {same}"));
    d.blank();
}

fn table(d: &mut Dump, totals: &Totals, levels: bool) {
    d.note("Blocks\tLSIZE\tPSIZE\tASIZE\t  avg\t comp\t%Total\tType");
    let all = totals.total();
    let kinds: std::collections::BTreeSet<BlockKind> =
        totals.table.keys().map(|(k, _)| *k).collect();
    for kind in kinds {
        let sum = totals.sum_of(|k, _| k == kind);
        let name = kind.name();
        row(d, &sum, &all, name, json!({"type": name}));
        if !levels {
            continue;
        }
        for ((_, level), sum) in totals.table.iter().filter(|((k, _), _)| *k == kind) {
            let text = format!("    L{level} {name}");
            row(d, sum, &all, &text, json!({"type": name, "level": level}));
        }
    }
    row(d, &all, &all, "Total", json!({"type": "Total"}));
    d.blank();
}

fn row(d: &mut Dump, s: &Sum, all: &Sum, name: &str, mut value: serde_json::Value) {
    if let Some(m) = value.as_object_mut() {
        for (k, n) in [
            ("count", s.count),
            ("logical", s.logical),
            ("physical", s.physical),
            ("allocated", s.allocated),
            ("gangs", s.gangs),
        ] {
            m.insert(k.into(), n.into());
        }
    }
    d.push("types", value);
    let (l, p, a) = (d.nice(s.logical), d.nice(s.physical), d.nice(s.allocated));
    let avg = d.nice(s.allocated / s.count.max(1));
    let (comp, share) = (part(s.logical, s.physical), 100.0 * part(s.allocated, all.allocated));
    let count = d.nice(s.count);
    d.note(format_args!(
        "{count:>6}\t{l:>5}\t{p:>5}\t{a:>5}\t{avg:>5}\t{comp:5.2}\t{share:6.2}\t{name}"
    ));
}

/// Histograms of sizes, of each type of block and of embedded payloads.
fn sizes(d: &mut Dump, pool: &Pool) {
    let mut stored: BTreeMap<DmuType, Vec<u64>> = BTreeMap::new();
    let mut payloads = vec![0u64; 128];
    walk::pool(d, pool, &mut |bp, _| {
        if bp.is_hole() {
            return;
        }
        let psize = bp.psize();
        if bp.is_embedded() {
            if let Some(n) = payloads.get_mut(psize as usize) {
                *n += 1;
            }
            return;
        }
        let buckets = stored.entry(bp.dmu_type()).or_default();
        let sectors = (psize / 512) as usize;
        if buckets.len() <= sectors {
            buckets.resize(sectors + 1, 0);
        }
        if let Some(n) = buckets.get_mut(sectors) {
            *n += 1;
        }
    });
    d.note("embedded payloads: number of (compressed) bytes:  number of bps");
    show::histogram(d, "embedded_sizes", &payloads, 0);
    for (kind, buckets) in stored {
        d.open_flat("sizes");
        d.hold("type", kind.to_string());
        d.note(format_args!("{kind}: psize (in 512-byte sectors): number of blocks"));
        show::histogram(d, "sectors", &buckets, 0);
        d.close_flat();
    }
}
