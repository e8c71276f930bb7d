//! What zdb counts when it walks a pool, and our own counts beside it.

use check::{BlockKind, Issue, Report};
use std::collections::BTreeMap;
use std::path::Path;
use testkit::oracle;

/// What `zdb -bcc` says of a pool, with exact numbers.
pub fn of_zdb(dir: &Path, pool: &str) -> String {
    let exact = oracle::zdb_on(dir, &["-Pbbcc", pool]);
    // zdb of OpenZFS 2.3.2 aborts with -P on pools with a removed vdev.
    match exact.text.contains("bp count:") {
        true => exact.text,
        false => oracle::zdb_on(dir, &["-bcc", pool]).text,
    }
}

/// Bytes that zdb calls leaked.
fn leaks(text: &str) -> u64 {
    let lines = text.lines().filter(|l| l.starts_with("leaked space: "));
    lines.filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Bytes that we call leaked.
fn leaked(r: &Report) -> u64 {
    let size = |i: &Issue| match i {
        Issue::Leaked { size, .. } => *size,
        _ => 0,
    };
    r.issues.iter().map(size).sum()
}

/// Numbers behind a label of zdb's summary.
fn numbers(text: &str, label: &str) -> Option<Vec<u64>> {
    let line = text.lines().find(|l| l.trim_start().starts_with(label))?;
    let rest = line.trim_start().strip_prefix(label)?;
    let words = rest.split_whitespace();
    Some(words.filter_map(|w| w.parse().ok()).collect())
}

/// zdb's table by type: blocks, logical, physical, allocated. Only exact with `-P`.
fn table(text: &str) -> BTreeMap<String, [u64; 4]> {
    let mut out = BTreeMap::new();
    let rows = text.lines().skip_while(|l| !l.starts_with("Blocks\tLSIZE")).skip(1);
    for line in rows.take_while(|l| !l.ends_with("Total")) {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [blocks, lsize, psize, asize, .., name] = cells.as_slice() else { continue };
        let number = |s: &&str| s.parse::<u64>().ok();
        let row = [blocks, lsize, psize, asize].map(number);
        if let [Some(a), Some(b), Some(c), Some(d)] = row {
            out.insert((*name).to_owned(), [a, b, c, d]);
        }
    }
    out
}

/// Says where our totals and those of zdb differ, by a panic.
pub fn compare(case: &str, text: &str, r: &Report) {
    let t = r.totals.total();
    let first = |label: &str| numbers(text, label).and_then(|n| n.first().copied());
    let all = |label: &str| numbers(text, label).unwrap_or_default();
    assert_eq!(first("bp count:"), Some(t.count), "{case}: bp count");
    assert_eq!(first("ganged count:"), Some(t.gangs), "{case}: ganged count");
    assert_eq!(first("bp logical:"), Some(t.logical), "{case}: bp logical");
    assert_eq!(first("bp physical:"), Some(t.physical), "{case}: bp physical");
    assert_eq!(first("bp allocated:"), Some(t.allocated), "{case}: bp allocated");
    let dedup = [r.totals.dedup_bytes, r.totals.dedup_blocks];
    assert!(all("bp deduped:").starts_with(&dedup[..1]), "{case}: bp deduped");
    assert!(all("bp deduped:").contains(&dedup[1]), "{case}: ref>1");
    let clones = [r.totals.clone_bytes, r.totals.clone_blocks];
    assert_eq!(all("bp cloned:"), clones, "{case}: bp cloned");
    let embedded = first("additional, non-pointer bps of type 0:").unwrap_or(0);
    assert_eq!(embedded, r.totals.embedded[0], "{case}: embedded");
    let ditto = first("Dittoed blocks on same vdev:").unwrap_or(0);
    assert_eq!(ditto, t.ditto_same_vdev, "{case}: dittoed");
    assert_eq!(leaks(text), leaked(r), "{case}: leaked bytes");
    for (name, row) in table(text) {
        let of = |k: BlockKind| k.name() == name && name != "unallocated";
        let s = r.totals.sum_of(|k, _| of(k));
        assert_eq!([s.count, s.logical, s.physical, s.allocated], row, "{case}: {name}");
    }
}
