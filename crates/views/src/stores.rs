//! The requests of devices to object stores, and their cost.

use engine::devices::price::Prices;
use engine::stats::{Snapshot, StoreUsage, VdevStats};
use std::fmt::Write as _;
use term::escape::line;
use term::human::nicenum;

/// Headings of the columns, and how wide these are.
const COLUMNS: [(&str, usize); 8] = [
    ("creates", 7),
    ("gets", 6),
    ("lists", 6),
    ("deletes", 7),
    ("retries", 7),
    ("sent", 6),
    ("received", 8),
    ("dollars", 8),
];

/// The devices that are kept in stores: inner vdevs are the sums of these.
pub(crate) fn of(snapshot: &Snapshot) -> impl Iterator<Item = (&str, StoreUsage)> {
    let all = &snapshot.vdevs;
    let is_leaf = |at: usize, v: &VdevStats| {
        v.depth > 0 && all.get(at + 1).is_none_or(|next| next.depth <= v.depth)
    };
    let leaves = all.iter().enumerate().filter(move |(at, v)| is_leaf(*at, v));
    leaves.filter_map(|(_, v)| Some((v.name.as_str(), v.store?)))
}

/// The cost of the requests; `None` if the store is not a bucket, so that it costs nothing, or its
/// prices are not known.
pub(crate) fn price(name: &str, requests: &StoreUsage, prices: &Prices) -> Option<String> {
    prices.are_of(name).then(|| prices.of(requests).to_string())
}

/// A line for each device that is kept in a store, under a heading; nothing when there is none.
#[must_use]
pub fn table(rows: &[(&str, StoreUsage)], prices: &Prices, is_exact: bool) -> String {
    let Some(width) = rows.iter().map(|(name, _)| line(name).chars().count()).max() else {
        return String::new();
    };
    let width = width.max("store".len());
    let number = |n: u64| if is_exact { n.to_string() } else { nicenum(n) };
    let mut text = format!("{:width$}", "store");
    // Writing to a String cannot fail.
    let mut cells = |name: &str, all: [String; COLUMNS.len()]| {
        let _ = write!(text, "{name}");
        for ((_, width), cell) in COLUMNS.iter().zip(all) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    };
    cells("", COLUMNS.map(|(heading, _)| heading.to_owned()));
    for (name, u) in rows {
        let dollars = price(name, u, prices).unwrap_or_else(|| "-".to_owned());
        let [creates, gets, lists, deletes] = [u.creates, u.gets, u.lists, u.deletes].map(number);
        let [retries, sent, received] = [u.retries, u.sent_bytes, u.received_bytes].map(number);
        let all = [creates, gets, lists, deletes, retries, sent, received, dollars];
        cells(&format!("{:width$}", line(name)), all);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vdev(depth: u32, name: &str, store: Option<StoreUsage>) -> VdevStats {
        VdevStats { depth, name: name.to_owned(), store, ..VdevStats::default() }
    }

    #[test]
    fn each_device_in_a_store_has_a_line() {
        let requests = StoreUsage {
            creates: 2_000_000,
            gets: 12,
            retries: 3,
            sent_bytes: 5 << 30,
            ..StoreUsage::default()
        };
        let vdevs = vec![
            vdev(0, "p", Some(requests.plus(&requests))),
            vdev(1, "mirror-0", Some(requests.plus(&requests))),
            vdev(2, "s3://b/p", Some(requests)),
            vdev(2, "dir:///s", Some(requests)),
            vdev(1, "/dev/sdb", None),
        ];
        let snapshot = Snapshot { vdevs, ..Snapshot::default() };
        let rows: Vec<_> = of(&snapshot).collect();
        let text = table(&rows, &Prices::default(), false);
        let rows_shown = [
            "store     creates    gets   lists  deletes  retries    sent  received   dollars",
            "s3://b/p    1.91M      12       0        0        3      5G         0     10.00",
            "dir:///s    1.91M      12       0        0        3      5G         0         -",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), rows_shown);
        let exact = table(&rows, &Prices::default(), true);
        assert!(exact.contains(" 2000000 ") && exact.contains(" 5368709120 "), "{exact}");
        assert_eq!(table(&[], &Prices::default(), false), "");
    }
}
